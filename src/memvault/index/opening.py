"""Which index a vault has: the one on this machine, or one in an engine that its user allowed.

A vault's settings may come from anyone, so an engine that they name is not asked, and gets
nothing, before somebody at this machine has sent the vault there: ``memvault index push``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from memvault.config import Settings, Shared
from memvault.errors import MemvaultError, Refused, UsageError
from memvault.index.local import LocalIndex
from memvault.index.place import Place
from memvault.user_folders import home_expanded
from memvault.vault.store import Store

if TYPE_CHECKING:
    from memvault.index.milvus.engine import Engine

KIND = "engine"


def index_of(store: Store, place: Place, progress: Callable[[str, int, int], None]) -> LocalIndex:
    """Return the index of a vault; where its engine cannot be used, the local one says why."""
    shared = store.settings.shared
    if shared.engine == "local":
        return LocalIndex(store, place, progress)
    reason = unusable(store.root, shared)
    if reason:
        return LocalIndex(store, place._replace(note=place.note or reason), progress)
    if shared.sent:
        from memvault.index.milvus.sent import SentIndex

        return SentIndex(store, place, progress, engine_of(shared), shared.vault)
    from memvault.index.milvus.shared import SharedIndex

    holder = str(granted(store.root, shared)["holder"])
    return SharedIndex(
        store, place, progress, engine_of(shared), shared.vault, holder, fallback=shared.fallback
    )


def store_of(root: Path, settings: Settings, index: Callable[[], LocalIndex]) -> Store:
    """Return the memories of a vault that another machine sent.

    Raises:
        Refused: they are in an engine that cannot be asked.
    """
    if unusable(root, settings.shared):
        raise Refused(
            f"{settings.shared.sent} sends this vault to an engine that nobody here has allowed",
            "memvault vaults add NAME ADDRESS allows it, where the extra milvus is installed",
        )
    from memvault.index.milvus.sent import SentIndex, SentStore

    def opened() -> SentIndex:
        found = index()
        assert isinstance(found, SentIndex)
        return found

    return SentStore(root, settings, opened)


def engine_of(shared: Shared, makes: bool = True) -> Engine:
    """Return the engine that settings name; nothing is opened before it is needed.

    Who sends a vault ``makes`` what is missing there.

    Raises:
        UsageError: the token cannot be one.
    """
    from memvault.index.milvus.engine import Engine
    from memvault.index.milvus.where import TOKEN, Where

    uri = shared.uri if "://" in shared.uri else str(home_expanded(shared.uri))
    token = os.environ.get(TOKEN, "")
    if not token.isascii() or not token.isprintable():
        raise UsageError(f"{TOKEN} is no token", "it has letters, digits and common marks alone")
    where = Where(uri, shared.collection, token, shared.patience)
    return Engine(where, makes and not shared.sent)


def unusable(root: Path, shared: Shared) -> str:
    """Say why the engine that the settings name is not asked; empty where it is."""
    from importlib.util import find_spec

    if find_spec("pymilvus") is None:
        return "memvault.toml names Milvus, which needs the extra milvus: pip install '.[milvus]'"
    if not shared.uri or not shared.vault or not granted(root, shared):
        return "memvault.toml names Milvus, which is asked once memvault index push has been run"
    return ""


def granted(root: Path, shared: Shared) -> dict[str, object]:
    """Return what this user allowed for the vault and its engine; nothing where they did not."""
    from memvault import grants

    try:
        return grants.granted(root, KIND, _named(shared))
    except MemvaultError:
        return {}


def grant(root: Path, shared: Shared, holder: str) -> None:
    """Allow the engine of a vault; errors as for ``grants.grant``."""
    from memvault import grants

    grants.grant(root, KIND, _named(shared), {"holder": holder})


def revoke(root: Path, shared: Shared) -> None:
    """Take that back; errors as for ``grants.revoke``."""
    from memvault import grants

    grants.revoke(root, KIND, _named(shared))


def _named(shared: Shared) -> str:
    return f"{shared.uri}\n{shared.collection}\n{shared.vault}"
