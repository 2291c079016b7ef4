"""Open and delete the index of a vault whose files are on this machine."""

from __future__ import annotations

from pathlib import Path

from memvault.index.folder import DEEP, IndexFolder
from memvault.index.local.backend import Progress
from memvault.index.local.local_index import LocalIndex
from memvault.store.memory_store import MemoryStore


def open_index(store: MemoryStore, index_folder: IndexFolder, progress: Progress) -> LocalIndex:
    """Return a vault's index; if its engine cannot be used, a local index with a note."""
    if store.settings.index.engine == "local":
        return LocalIndex(store, index_folder, progress)
    from memvault.index.milvus import access

    reason = access.why_unavailable(store.root, store.settings.index)
    if reason:
        return LocalIndex(store, index_folder._replace(note=index_folder.note or reason), progress)
    return access.open_publisher(store, index_folder, progress).index


def delete_index(folder: Path) -> None:
    """Delete an index folder after the background embedding process has ended."""
    import shutil

    from memvault.index.local import background_embedding

    with background_embedding.foreground(folder / DEEP):
        shutil.rmtree(folder, ignore_errors=True)
