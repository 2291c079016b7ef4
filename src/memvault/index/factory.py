"""Which index a vault has: the one on this machine, or one in an engine that its user allowed.

A vault's settings may come from anyone, so an engine that they name is not asked, and gets
nothing, before somebody at this machine has sent the vault there: ``memvault index push``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from memvault.errors import MemvaultError, Refused, UsageError
from memvault.files.user_folders import expand_home
from memvault.index.folder import IndexFolder
from memvault.index.local.local_index import LocalIndex
from memvault.settings.vault_settings import EngineSettings, Settings
from memvault.store.memory_store import MemoryStore

if TYPE_CHECKING:
    from memvault.index.milvus.client import EngineClient

KIND = "engine"
_TOKEN_GRANT = Path("/"), "token", ""
"""The decision about the token, which belongs to no vault."""


def open_index(
    store: MemoryStore, place: IndexFolder, progress: Callable[[str, int, int], None]
) -> LocalIndex:
    """Return the index of a vault; where its engine cannot be used, the local one says why."""
    shared = store.settings.shared
    if shared.engine == "local":
        return LocalIndex(store, place, progress)
    reason = why_unavailable(store.root, shared)
    if reason:
        return LocalIndex(store, place._replace(note=place.note or reason), progress)
    if shared.sent:
        from memvault.index.milvus.remote import RemoteIndex

        return RemoteIndex(store, place, progress, engine_of(shared), shared.vault)
    from memvault.index.milvus.published import PublishedIndex

    holder = str(granted(store.root, shared)["holder"])
    return PublishedIndex(
        store, place, progress, engine_of(shared), shared.vault, holder, fallback=shared.fallback
    )


def open_store(root: Path, settings: Settings, index: Callable[[], LocalIndex]) -> MemoryStore:
    """Return the memories of a vault that another machine sent.

    Raises:
        Refused: they are in an engine that cannot be asked.
    """
    if why_unavailable(root, settings.shared):
        raise Refused(
            f"{settings.shared.sent} sends this vault to an engine that nobody here has allowed",
            "memvault vaults add NAME ADDRESS allows it, where the extra milvus is installed",
        )
    from memvault.index.milvus.remote import RemoteIndex, RemoteStore

    def opened() -> RemoteIndex:
        found = index()
        assert isinstance(found, RemoteIndex)
        return found

    return RemoteStore(root, settings, opened)


def engine_of(shared: EngineSettings, makes: bool = True) -> EngineClient:
    """Return the engine that settings name; nothing is opened before it is needed.

    Who sends a vault ``makes`` what is missing there.

    Raises:
        UsageError: the token cannot be one.
    """
    from memvault.index.milvus.client import TOKEN, EngineAddress, EngineClient

    uri = shared.uri if "://" in shared.uri else str(expand_home(shared.uri))
    token = os.environ.get(TOKEN, "")
    if not token.isascii() or not token.isprintable():
        raise UsageError(f"{TOKEN} is no token", "it has letters, digits and common marks alone")
    if token and shared.uri not in _token_addresses():
        token = ""
    where = EngineAddress(uri, shared.collection, token, shared.patience)
    return EngineClient(where, makes and not shared.sent)


def why_unavailable(root: Path, shared: EngineSettings) -> str:
    """Say why the engine that the settings name is not asked; empty where it is."""
    from importlib.util import find_spec

    if find_spec("pymilvus") is None:
        return "memvault.toml names Milvus, which needs the extra milvus: pip install '.[milvus]'"
    if not shared.uri or not shared.vault or not granted(root, shared):
        return "memvault.toml names Milvus, which is asked once memvault index push has been run"
    return ""


def granted(root: Path, shared: EngineSettings) -> dict[str, object]:
    """Return what this user allowed for the vault and its engine; nothing where they did not."""
    from memvault.settings import grants

    try:
        return grants.get(root, KIND, _named(shared))
    except MemvaultError:
        return {}


def grant(root: Path, shared: EngineSettings, holder: str) -> None:
    """Allow the engine of a vault; errors as for ``grants.grant``."""
    from memvault.settings import grants

    grants.add(root, KIND, _named(shared), {"holder": holder})


def revoke(root: Path, shared: EngineSettings) -> None:
    """Take that back; errors as for ``grants.revoke``."""
    from memvault.settings import grants

    grants.revoke(root, KIND, _named(shared))


def allow_token(uri: str, is_typed: bool) -> None:
    """Allow the environment's token, if there is one, to be sent to an engine's address.

    The first address may come from a vault's settings, any further one only from a person
    who typed it (``is_typed``): a vault whose settings were changed must not get the token of
    another engine.

    Raises:
        Refused: the token was allowed for another address, and nobody typed this one.
        StorageError: the decision cannot be kept.
    """
    from memvault.index.milvus.client import TOKEN
    from memvault.settings import grants

    known = _token_addresses()
    if not os.environ.get(TOKEN) or uri in known:
        return
    if known and not is_typed:
        raise Refused(
            f"{TOKEN} was given for {', '.join(known)}, and memvault.toml names {uri}",
            "memvault index push --to ADDRESS, with that address, allows sending it there too",
        )
    grants.add(*_TOKEN_GRANT, {"addresses": [*known, uri]})


def _token_addresses() -> list[str]:
    """Return the addresses that the environment's token may be sent to."""
    from memvault.settings import grants

    try:
        return [str(uri) for uri in grants.get(*_TOKEN_GRANT).get("addresses", ())]
    except MemvaultError:
        return []


def _named(shared: EngineSettings) -> str:
    return f"{shared.uri}\n{shared.collection}\n{shared.vault}"
