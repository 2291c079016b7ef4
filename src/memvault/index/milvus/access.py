"""Access to engines: open those that the user on this machine has allowed.

A vault's settings may be untrusted. An engine in them is therefore not contacted, and receives
nothing, until a user on this machine publishes the vault there with ``memvault index push``.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

from memvault import grants
from memvault.errors import INSTALL, MemvaultError, Refused, UsageError
from memvault.files.user_folders import expand_home
from memvault.index.folder import IndexFolder
from memvault.index.local.backend import Progress
from memvault.index.milvus.client import EngineClient
from memvault.index.milvus.engine_errors import TOKEN, EngineAddress
from memvault.index.milvus.published import Publisher, PublishingBackend
from memvault.index.milvus.remote import RemoteIndex, RemoteReader
from memvault.settings.vault_settings import EngineSettings, Settings
from memvault.store.memory_store import MemoryStore

KIND = "engine"
_TOKEN_GRANT = Path("/"), "token", ""
"""The key of the grant to send the engine token, which is not specific to a vault."""


def open_publisher(store: MemoryStore, index_folder: IndexFolder, progress: Progress) -> Publisher:
    """Return the publisher of a local vault, whose engine must already be allowed."""
    shared = store.settings.index
    publisher_id = str(granted(store.root, shared)["publisher_id"])
    backend = PublishingBackend(store, engine_of(shared), shared.vault, publisher_id, progress)
    return Publisher(store, index_folder, progress, backend, shared.fallback)


def open_remote(
    root: Path, settings: Settings, index_folder: IndexFolder, progress: Progress
) -> RemoteIndex:
    """Return the index of a vault that another machine publishes.

    Raises:
        Refused: if the engine is not allowed or cannot be contacted.
    """
    if why_unavailable(root, settings.index):
        raise Refused(
            f"{settings.index.sent} publishes this vault to an engine that is not allowed here",
            "install the extra milvus, then allow it with `memvault vaults add NAME ADDRESS`",
        )
    engine = engine_of(settings.index)
    return RemoteIndex(RemoteReader(root, settings, index_folder, progress, engine), index_folder)


def engine_of(shared: EngineSettings, may_create: bool = True) -> EngineClient:
    """Return a client of the configured engine, which connects on first use.

    With ``may_create``, missing collections are created.

    Raises:
        UsageError: if the token is invalid.
    """
    uri = shared.uri if "://" in shared.uri else str(expand_home(shared.uri))
    token = os.environ.get(TOKEN, "")
    if not token.isascii() or not token.isprintable():
        raise UsageError(f"{TOKEN} is not a valid token", "use printable ASCII characters only")
    if token and shared.uri not in _token_addresses():
        token = ""
    where = EngineAddress(uri, shared.collection, token, shared.patience)
    return EngineClient(where, may_create and not shared.sent)


def why_unavailable(root: Path, shared: EngineSettings) -> str:
    """Return why the configured engine cannot be used, or an empty string if it can."""
    if find_spec("pymilvus") is None:
        return f"memvault.toml uses Milvus, which needs the extra milvus: {INSTALL} '.[milvus]'"
    if not shared.uri or not shared.vault or not granted(root, shared):
        return "memvault.toml uses Milvus, which is not contacted before `memvault index push`"
    return ""


def granted(root: Path, shared: EngineSettings) -> dict[str, object]:
    """Return the user's grant for the vault and its engine; empty if missing or pending."""
    data = _grant(root, shared)
    return {} if data.get("pending") else data


def begin_grant(root: Path, shared: EngineSettings) -> str:
    """Allow a vault's engine for a first upload; return the publisher's id.

    The id of an earlier failed upload is reused, because the engine may have stored it.
    """
    import secrets

    publisher_id = str(_grant(root, shared).get("publisher_id") or secrets.token_hex(8))
    grant(root, shared, publisher_id)
    return publisher_id


def grant(root: Path, shared: EngineSettings, publisher_id: str, pending: bool = False) -> None:
    """Allow a vault's engine; raises ``StorageError``.

    A ``pending`` grant allows nothing; it only stores the publisher's id after a failed upload.
    """
    data = {"publisher_id": publisher_id, **({"pending": True} if pending else {})}
    grants.add(root, KIND, _grant_name(shared), data)


def _grant(root: Path, shared: EngineSettings) -> dict[str, object]:
    try:
        return grants.get(root, KIND, _grant_name(shared))
    except MemvaultError:
        return {}


def revoke(root: Path, shared: EngineSettings) -> None:
    """Revoke the grant for the engine of a vault; raises ``StorageError``."""
    grants.revoke(root, KIND, _grant_name(shared))


def allow_token(uri: str, is_typed: bool) -> None:
    """Allow sending the environment's token, if set, to an engine's address.

    Unless a person typed the address (``is_typed``), it comes from untrusted settings and never
    receives the token. Neither does a milvus-lite file.

    Raises:
        Refused: if no person ever typed the address.
        StorageError: if the decision cannot be stored.
    """
    allowed_addresses = _token_addresses()
    if not os.environ.get(TOKEN) or uri in allowed_addresses or "://" not in uri:
        return
    if not is_typed:
        allowed = (
            f"may only be sent to {', '.join(allowed_addresses)}"
            if allowed_addresses
            else "may not be sent to any address yet"
        )
        raise Refused(
            f"{TOKEN} {allowed}, but memvault.toml has {uri}",
            "allow sending it there with `memvault index push --to ADDRESS`",
        )
    grants.add(*_TOKEN_GRANT, {"addresses": [*allowed_addresses, uri]})


def _token_addresses() -> list[str]:
    """Return the addresses to which the environment's token may be sent."""
    try:
        return [str(uri) for uri in grants.get(*_TOKEN_GRANT).get("addresses", ())]
    except MemvaultError:
        return []


def _grant_name(shared: EngineSettings) -> str:
    return f"{shared.uri}\n{shared.collection}\n{shared.vault}"
