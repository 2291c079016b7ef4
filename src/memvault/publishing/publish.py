"""Publish a vault's index to an engine, compare it with the engine's rows, and delete it there."""

from __future__ import annotations

import secrets
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from memvault.errors import INSTALL, Refused, UsageError, VaultUnreadable
from memvault.files.user_folders import SETTINGS_FILE
from memvault.index.folder import prepare_folder
from memvault.index.milvus import access
from memvault.index.milvus.engine_errors import (
    TOKEN,
    CollectionMissing,
    EngineRefused,
    EngineUnavailable,
)
from memvault.index.milvus.published import Publisher
from memvault.index.milvus.remote import clock_skew_note
from memvault.settings import table
from memvault.settings.toml_file import read_bytes, write_values
from memvault.settings.vault_settings import EngineSettings, Settings
from memvault.workspace import Workspace

_HINTS = {
    "uri": f"set {TOKEN} to NAME:PASSWORD instead",
    "collection": "set it with `--collection`",
    "patience": "set it with `--patience`",
}
WRITE = 'add [index] with engine = "milvus" and uri = "http://…" to memvault.toml'


def validate_engine(shared: EngineSettings) -> None:
    """Check that an engine's settings are valid, and that its client is installed.

    Raises:
        UsageError: if a setting is invalid or missing, or pymilvus is not installed.
    """
    if find_spec("pymilvus") is None:
        raise UsageError("Milvus needs the extra milvus", f"{INSTALL} '.[milvus]'")
    if not shared.uri:
        raise UsageError("The engine's address is missing", WRITE)
    table.check(shared, "index", _HINTS)
    if "://" not in shared.uri and not Path(shared.uri).expanduser().is_absolute():
        raise UsageError(
            f"{shared.uri!r} is neither an address nor an absolute path",
            "start it with http://, or with / for a milvus-lite file",
        )


def push(workspace: Workspace, take_over: bool = False, to: str = "") -> dict[str, Any]:
    """Upload a vault, or its changes, to its engine; searches use the engine from then on.

    The first upload gives the vault an id, which is written to memvault.toml, and makes this
    machine the publisher. With ``take_over`` it becomes the publisher even if another machine was
    the publisher before. ``to`` is the engine's address if the user typed it; typing it permits
    sending the token there.

    Raises:
        UsageError: if no engine or a different one is configured, or pymilvus is not installed.
        Refused: if the token was not allowed for this address.
        EngineUnavailable: if the engine does not respond.
        EngineRefused: if the engine denies access, or another machine publishes this vault.
    """
    shared = _configured_engine(workspace.settings)
    if to and to != shared.uri:
        raise UsageError(f"memvault.toml has {shared.uri}, not {to}", "correct one of them")
    access.allow_token(shared.uri, bool(to))
    if not shared.vault:
        vault_id = secrets.token_hex(8)
        path = workspace.root / SETTINGS_FILE
        data = read_bytes(path, VaultUnreadable)
        write_values(path, "index", {"vault": vault_id}, VaultUnreadable, data)
        shared = shared.replace(vault=vault_id)
    is_new = not access.granted(workspace.root, shared)
    publisher_id = access.begin_grant(workspace.root, shared) if is_new else ""
    workspace.reload()
    try:
        with closing(_open_publisher(workspace)) as publisher:
            if take_over:
                publisher.take_over()
            publication = publisher.push()
    except EngineRefused:
        if is_new:  # so that later searches are not refused too
            access.revoke(workspace.root, shared)
        raise
    except EngineUnavailable:
        if is_new:  # so that later commands do not wait for the engine
            access.grant(workspace.root, shared, publisher_id, pending=True)
        raise
    return {**_describe(shared), **(publication.about() if publication else {})}


def status(workspace: Workspace) -> dict[str, Any]:
    """Compare what this machine has uploaded with the rows in the engine.

    Raises:
        UsageError: if no engine is configured, or pymilvus is not installed.
        EngineUnavailable: if the engine does not respond.
        EngineRefused: if the engine denies access.
    """
    shared = _configured_engine(workspace.settings)
    reason = access.why_unavailable(workspace.root, shared)
    if reason:
        return {**_describe(shared), "problem": reason}
    with closing(_open_publisher(workspace)) as publisher:
        publication = publisher.backend.engine.publication(shared.vault)
        if publication is None or not publication.is_valid:
            return {**_describe(shared), "problem": "The engine has no rows for this vault"}
        rows = {
            kind: publisher.backend.engine.count(
                kind, f'vault == "{shared.vault}" and generation == "{generation}"'
            )
            for kind, generation in (
                ("words", publication.words),
                ("passages", publication.passages),
            )
        }
        differs = publisher.differences()
    difference = f"{differs}; fix it with `memvault index push`" if differs else ""
    problem = "; ".join(filter(None, (difference, clock_skew_note(publication.published_at))))
    return {**_describe(shared), **publication.about(), "rows": rows, "problem": problem}


def difference(workspace: Workspace) -> str:
    """Return how the engine's rows differ from this machine's uploads; empty if they match.

    The result is also empty if this machine has uploaded nothing, or the engine is unreachable.
    """
    shared = workspace.settings.index
    if shared.engine == "local" or shared.sent or access.why_unavailable(workspace.root, shared):
        return ""
    try:
        with closing(_open_publisher(workspace)) as publisher:
            return publisher.differences()
    except EngineUnavailable:
        return ""


def _open_publisher(workspace: Workspace) -> Publisher:
    folder = prepare_folder(workspace.root)
    return access.open_publisher(workspace.store, folder, workspace.progress)


def drop(workspace: Workspace, every: bool) -> dict[str, Any]:
    """Delete a vault's rows from its engine, or the collections with the rows of every vault.

    Searches use this machine's index again. Rows uploaded by another machine are kept, unless
    ``every`` vault is deleted. Without a grant the engine is not contacted. Raises the same errors
    as ``push``.
    """
    shared = _configured_engine(workspace.settings)
    publisher_id = (
        access.granted(workspace.root, shared).get("publisher_id") if shared.vault else None
    )
    if publisher_id is None:
        outcome = f"Nothing was dropped: this machine does not publish this vault to {shared.uri}"
        if every:
            raise Refused(outcome, "run `memvault index push` to allow contacting that engine")
        return {**_describe(shared), "dropped": "nothing", "outcome": outcome}
    engine = access.engine_of(shared, may_create=False)
    dropped = "nothing"
    outcome = f"{shared.uri} has no rows{'' if every else ' of this vault'}"
    try:
        if every:
            engine.drop()
            dropped, outcome = "every vault", f"Dropped the rows of every vault in {shared.uri}"
        elif (publication := engine.publication(shared.vault)) is not None:
            if publication.publisher == publisher_id:
                engine.clear(shared.vault)
                dropped, outcome = "this vault", f"Dropped this vault's rows in {shared.uri}"
            else:
                outcome = f"Nothing was dropped: {publication.host} publishes this vault"
    except CollectionMissing:
        pass
    finally:
        engine.close()
    access.revoke(workspace.root, shared)
    return {**_describe(shared), "dropped": dropped, "outcome": outcome}


def _configured_engine(settings: Settings) -> EngineSettings:
    """Return the configured engine.

    Raises:
        UsageError: if no engine is configured, or the engine cannot be used here.
        Refused: if another machine publishes the vault.
    """
    shared = settings.index
    if shared.engine == "local":
        raise UsageError("No engine is configured", WRITE)
    if shared.sent:
        raise Refused(f"{shared.sent} publishes this vault", "run the command on that machine")
    validate_engine(shared)
    return shared


def _describe(shared: EngineSettings) -> dict[str, Any]:
    return {"uri": shared.uri, "collection": shared.collection, "vault": shared.vault}
