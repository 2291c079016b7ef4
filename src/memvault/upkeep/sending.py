"""A vault's words and vectors in an engine: sent, compared, taken away."""

from __future__ import annotations

import secrets
from typing import Any

from memvault.config import EngineSettings, Settings
from memvault.errors import Refused, UsageError, VaultUnreadable
from memvault.index import opening
from memvault.index.milvus.sent import clock_skew_note
from memvault.index.milvus.shared import PublishedIndex
from memvault.index.milvus.where import CollectionMissing, EngineRefused
from memvault.settings_file import set_value
from memvault.upkeep import engines
from memvault.user_folders import SETTINGS_FILE
from memvault.vault import atomic
from memvault.workspace import Workspace


def push(workspace: Workspace, take_over: bool = False, to: str = "") -> dict[str, Any]:
    """Send a vault to its engine, or what differs; from then on recall asks there.

    The first time the vault gets an id, which memvault.toml keeps, and this machine becomes
    the one that sends it; it does so too where it is to ``take_over`` from another. ``to`` is
    the engine's address as a person typed it, which allows sending the token there.

    Raises:
        UsageError: the settings name no engine or another than ``to``, or pymilvus is not
            installed.
        Refused: the token was allowed for another address.
        EngineAway: it does not answer.
        EngineRefused: it does not let us in, or another machine sends this vault.
    """
    shared = _named(workspace.settings)
    if to and to != shared.uri:
        raise UsageError(f"memvault.toml names {shared.uri}, not {to}", "correct one of them")
    opening.allow_token(shared.uri, bool(to))
    if not shared.vault:
        made = secrets.token_hex(8)
        path = workspace.root / SETTINGS_FILE
        atomic.write(path, set_value(path, "index", "vault", made, VaultUnreadable))
        shared = shared._replace(vault=made)
    is_new = not opening.granted(workspace.root, shared)
    if is_new:
        opening.grant(workspace.root, shared, secrets.token_hex(8))
    workspace.reload()
    index = workspace.index
    assert isinstance(index, PublishedIndex)
    try:
        if take_over:
            index.take_over()
        card = index.push()
    except EngineRefused:
        if is_new:  # or recall would be refused from now on too
            opening.revoke(workspace.root, shared)
        raise
    return {**_about(shared), **(card.about() if card else {})}


def status(workspace: Workspace) -> dict[str, Any]:
    """Compare what this machine has sent with what the engine holds.

    Errors as for ``push``.
    """
    shared = _named(workspace.settings)
    reason = opening.why_unavailable(workspace.root, shared)
    if reason:
        return {**_about(shared), "problem": reason}
    index = workspace.index
    assert isinstance(index, PublishedIndex)
    card = index.engine.card(shared.vault)
    if card is None or not card.is_valid:
        return {**_about(shared), "problem": "The engine holds nothing of it"}
    rows = {
        kind: index.engine.count(
            kind, f'vault == "{shared.vault}" and generation == "{generation}"'
        )
        for kind, generation in (("words", card.words), ("passages", card.passages))
    }
    differs = index.differs()
    wrong = f"{differs}; memvault index push puts it right" if differs else ""
    problem = "; ".join(filter(None, (wrong, clock_skew_note(card.sent))))
    return {**_about(shared), **card.about(), "rows": rows, "problem": problem}


def drop(workspace: Workspace, every: bool) -> dict[str, Any]:
    """Take a vault's rows out of its engine, or the collections with the rows of every vault.

    Recall answers from this machine again. What another machine sent stays, unless ``every``
    vault goes. Without a grant the engine is not asked. Errors as for ``push``.
    """
    shared = _named(workspace.settings)
    holder = opening.granted(workspace.root, shared).get("holder") if shared.vault else None
    if holder is None:
        said = f"Nothing was dropped: this machine does not send this vault to {shared.uri}"
        if every:
            raise Refused(said, "memvault index push allows asking that engine")
        return {**_about(shared), "dropped": "nothing", "outcome": said}
    engine = opening.engine_of(shared, makes=False)
    dropped = "nothing"
    said = f"{shared.uri} holds nothing{'' if every else ' of this vault'}"
    try:
        if every:
            engine.drop()
            dropped, said = "every vault", f"Dropped what every vault had in {shared.uri}"
        elif (card := engine.card(shared.vault)) is not None:
            if card.publisher == holder:
                engine.clear(shared.vault)
                dropped, said = "this vault", f"Dropped what this vault had in {shared.uri}"
            else:
                said = f"Nothing was dropped: {card.host} sends this vault"
    except CollectionMissing:
        pass
    finally:
        engine.close()
    opening.revoke(workspace.root, shared)
    return {**_about(shared), "dropped": dropped, "outcome": said}


def _named(settings: Settings) -> EngineSettings:
    """Return the engine that the settings name.

    Raises:
        UsageError: there is none, or it cannot be used here.
        Refused: another machine sends the vault.
    """
    shared = settings.shared
    if shared.engine == "local":
        raise UsageError("The settings name no engine", engines.WRITE)
    if shared.sent:
        raise Refused(f"{shared.sent} holds this vault, and sends it", "run this on that machine")
    engines.validate_engine(shared)
    return shared


def _about(shared: EngineSettings) -> dict[str, Any]:
    return {"uri": shared.uri, "collection": shared.collection, "vault": shared.vault}
