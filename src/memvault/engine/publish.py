"""A vault's words and vectors in an engine: sent, compared, taken away."""

from __future__ import annotations

import secrets
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from memvault.errors import Refused, UsageError, VaultUnreadable
from memvault.files import atomic
from memvault.files.user_folders import SETTINGS_FILE
from memvault.index import factory
from memvault.index.milvus.client import TOKEN, CollectionMissing, EngineRefused
from memvault.index.milvus.published import PublishedIndex
from memvault.index.milvus.remote import clock_skew_note
from memvault.settings.toml_file import set_value
from memvault.settings.vault_settings import (
    COLLECTION,
    EngineSettings,
    Settings,
    is_address,
    is_collection,
    is_patience,
)
from memvault.workspace import Workspace

WRITE = 'write [index], engine = "milvus" and uri = "http://…" into memvault.toml'


def validate_engine(shared: EngineSettings) -> None:
    """Make sure that an engine's address is one, and that its client is installed.

    Raises:
        UsageError: it is not, or it is missing.
    """
    if find_spec("pymilvus") is None:
        raise UsageError(
            "Milvus needs the extra milvus", "pip install '.[milvus]' in a checkout of memvault"
        )
    if not shared.uri:
        raise UsageError("The engine's address is missing", WRITE)
    if "@" in shared.uri:
        raise UsageError(
            "The engine's address holds a name or a password",
            f"{TOKEN} may hold them, as NAME:PASSWORD; others may read the address",
        )
    if not is_address(shared.uri):
        raise UsageError(
            f"{shared.uri!r} is not an engine's address",
            "write it as http://HOST:19530, or as a file that ends with .db",
        )
    if not is_collection(shared.collection):
        raise UsageError(
            f"A collection cannot be named {shared.collection!r}", f"take {COLLECTION}"
        )
    if not is_patience(shared.patience):
        raise UsageError(f"An engine cannot have {shared.patience:g} s", "take 1 to 600 seconds")
    if "://" not in shared.uri and not Path(shared.uri).expanduser().is_absolute():
        raise UsageError(
            f"{shared.uri!r} is neither an address nor a whole path",
            "begin it with http://, or with / for a file of milvus-lite's",
        )


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
    factory.allow_token(shared.uri, bool(to))
    if not shared.vault:
        made = secrets.token_hex(8)
        path = workspace.root / SETTINGS_FILE
        atomic.write(path, set_value(path, "index", "vault", made, VaultUnreadable))
        shared = shared._replace(vault=made)
    is_new = not factory.granted(workspace.root, shared)
    if is_new:
        factory.grant(workspace.root, shared, secrets.token_hex(8))
    workspace.reload()
    index = workspace.index
    assert isinstance(index, PublishedIndex)
    try:
        if take_over:
            index.take_over()
        card = index.push()
    except EngineRefused:
        if is_new:  # or recall would be refused from now on too
            factory.revoke(workspace.root, shared)
        raise
    return {**_about(shared), **(card.about() if card else {})}


def status(workspace: Workspace) -> dict[str, Any]:
    """Compare what this machine has sent with what the engine holds.

    Errors as for ``push``.
    """
    shared = _named(workspace.settings)
    reason = factory.why_unavailable(workspace.root, shared)
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
    holder = factory.granted(workspace.root, shared).get("holder") if shared.vault else None
    if holder is None:
        said = f"Nothing was dropped: this machine does not send this vault to {shared.uri}"
        if every:
            raise Refused(said, "memvault index push allows asking that engine")
        return {**_about(shared), "dropped": "nothing", "outcome": said}
    engine = factory.engine_of(shared, makes=False)
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
    factory.revoke(workspace.root, shared)
    return {**_about(shared), "dropped": dropped, "outcome": said}


def _named(settings: Settings) -> EngineSettings:
    """Return the engine that the settings name.

    Raises:
        UsageError: there is none, or it cannot be used here.
        Refused: another machine sends the vault.
    """
    shared = settings.shared
    if shared.engine == "local":
        raise UsageError("The settings name no engine", WRITE)
    if shared.sent:
        raise Refused(f"{shared.sent} holds this vault, and sends it", "run this on that machine")
    validate_engine(shared)
    return shared


def _about(shared: EngineSettings) -> dict[str, Any]:
    return {"uri": shared.uri, "collection": shared.collection, "vault": shared.vault}
