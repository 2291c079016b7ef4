"""Open and delete the index of a vault whose files are on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from memvault.index.folder import DEEP, IndexFolder
from memvault.index.local import background_embedding
from memvault.index.local.backend import Progress
from memvault.index.local.local_index import LocalIndex
from memvault.store.memory_store import MemoryStore

if TYPE_CHECKING:
    from memvault.index.milvus.published import PublishedIndex


def open_index(
    store: MemoryStore, place: IndexFolder, progress: Progress
) -> LocalIndex | PublishedIndex:
    """Return the index of a vault; if its engine cannot be used, a local one with a note."""
    if store.settings.index.engine == "local":
        return LocalIndex(store, place, progress)
    from memvault.index.milvus import access

    reason = access.why_unavailable(store.root, store.settings.index)
    if reason:
        return LocalIndex(store, place._replace(note=place.note or reason), progress)
    return access.open_published(store, place, progress)


def delete_index(folder: Path) -> None:
    """Delete the folder of an index, after the background embedding process has ended."""
    import shutil

    with background_embedding.foreground(folder / DEEP):
        shutil.rmtree(folder, ignore_errors=True)
