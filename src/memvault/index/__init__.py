"""A vault's search index, derived from its files; the files are always authoritative.

``protocol`` defines the view that recall searches. ``local`` implements it with Whoosh for terms,
flat files for vectors, and SQLite for the manifest, which records the indexed files and their
states. Static vectors are computed during indexing and transformer vectors in the background.
Transformer vectors are keyed by the embedded text, so they outlive the index
(``local.static_vectors``, ``local.transformer_vectors``; ``vectors.nearest`` combines both kinds).

Refresh: a scan lists the folder without opening files, and ``local.folder_diff`` compares size,
times and inode with the manifest. A file edited less than a second before the previous scan may
have changed again without its times changing, so its bytes are compared. If they are unchanged, the
memory keeps its uid, terms and vectors.

Commit: the keyword index is written first, next to the previous one. The manifest follows, which
includes the states of the keyword index's files, and then the vectors, whose card (``card.json``)
lists their files. An index whose files differ from the manifest is rebuilt. If vectors have wrong
checksums, only vectors of that kind are rebuilt. The memory files are never modified.

If another process holds the index lock, or the index is not writable, the changed files are read
into an overlay, which is searched together with the last valid index. If many files have changed
and another process is indexing them, a refresh waits for the lock as long as the caller's
``WaitPolicy`` allows. After that, the snapshot omits the oldest of these changes and reports how
many it omits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from memvault.index.folder import IndexFolder
    from memvault.index.local.backend import Progress
    from memvault.index.local.local_index import LocalIndex
    from memvault.store.memory_store import MemoryStore


def open_index(store: MemoryStore, index_folder: IndexFolder, progress: Progress) -> LocalIndex:
    """Return a vault's index; if its engine is unavailable, a local index with a note."""
    from memvault.index.local.local_index import LocalIndex

    if store.settings.index.engine == "local":
        return LocalIndex(store, index_folder, progress)
    from memvault.index.milvus import access

    reason = access.why_unavailable(store.root, store.settings.index)
    if reason:
        return LocalIndex(store, index_folder._replace(note=index_folder.note or reason), progress)
    return access.open_publisher(store, index_folder, progress).index


def delete_index(folder: Path) -> None:
    """Delete an index folder after the background embedding process has exited."""
    import shutil

    from memvault.index.folder import DEEP
    from memvault.index.local import background_embedding

    with background_embedding.foreground(folder / DEEP):
        shutil.rmtree(folder, ignore_errors=True)
