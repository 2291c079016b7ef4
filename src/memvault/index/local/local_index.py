"""An index that is refreshed from the vault's folder before every answer.

``refresh`` scans the folder, compares it with the manifest, and indexes the differences under the
index lock (``IndexWriter``). If another process holds the lock, or the index is not writable,
changed files are read directly and searched together with the last commit. An in-memory index
consists only of such an overlay.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING

from memvault.errors import MemvaultError, StorageError, TimedOut, to_memvault_error
from memvault.files.user_folders import UNREAD_DOCUMENTS
from memvault.index.embedding import model_settings
from memvault.index.folder import IndexFolder
from memvault.index.local.backend import LOCAL, Backend, BackendUnavailable, Progress
from memvault.index.local.folder_diff import (
    EMPTY_DIFF,
    FolderDiff,
    PendingChanges,
    diff_folder,
    split_readable,
)
from memvault.index.local.index_files import INDEX, IndexFiles
from memvault.index.local.manifest import IndexedFile
from memvault.index.local.snapshot import Overlay, Snapshot
from memvault.index.protocol import BEST_EFFORT, IndexCorrupted, IndexStatus, WaitPolicy
from memvault.model import FileState, Memory
from memvault.store.memory_store import MemoryStore
from memvault.vault.scan import Scan, file_state

if TYPE_CHECKING:
    from pathlib import Path

    from memvault.index.local.embedding_schedule import EmbeddingSchedule
    from memvault.index.local.index_writer import IndexWriter
    from memvault.index.local.manifest import IndexCommit
    from memvault.index.local.static_vectors import StaticVectors
    from memvault.index.local.transformer_model import TransformerModel
    from memvault.index.local.vector_search import VectorSearch
    from memvault.vault.folder_watch import FolderWatch

_SHORT_WAIT = 0.05
_MAX_SCAN_AGE = 0.1
"""Seconds after which a scan made before acquiring the lock is repeated."""
_SCAN_PAUSE = 1.0
_OPEN_PAUSE = 0.1
_MAX_COMPARISONS = 5
_MAX_IDLE_CHANGES = 50
"""The maximum number of changed memories that ``index_small_changes`` indexes."""
_DATES_PENDING = "dates from git are pending because git is slow; `memvault reindex` waits for them"


class LocalIndex:
    """The index of one vault, in the user's cache folder or in memory.

    ``name`` is the name of the folder with its files. While the backend is unavailable, the
    ``fallback`` index answers, if there is one.
    """

    def __init__(
        self,
        store: MemoryStore,
        index_folder: IndexFolder,
        progress: Progress,
        backend: Backend = LOCAL,
        name: str = INDEX,
        fallback: LocalIndex | None = None,
    ) -> None:
        self._backend = backend
        self._store = store
        self._index_folder = index_folder
        self._progress = progress
        self._fallback = fallback
        self._unavailable = ""
        """Why the backend was unavailable for the last refresh; empty if it was available."""
        self.files = IndexFiles(store.settings, index_folder, backend, name)
        self._counted: tuple[IndexCommit, Mapping[str, int]] | None = None
        self.watch: FolderWatch | None = None
        """A watch on the folder in a long-running process, or None if every comparison scans the
        folder.
        """
        self._watched_index = 0
        """The identity of the index that matches the watched folder, apart from reported changes; 0
        if there is no such index.
        """
        self._changed: frozenset[str] = frozenset()
        """The watched changes that the last comparison used."""
        self.freshness = ""
        """The state of the index before the last refresh: ``current``, ``behind`` or ``missing``.
        """
        self.is_unfinished = False
        """Whether the last refresh stopped indexing early to answer its caller."""
        self._due: frozenset[str] = frozenset()
        """The documents that this refresh reads again."""

    def refresh(self, vectors: bool, wait_policy: WaitPolicy) -> Snapshot:
        """Update the index from the folder, and return a snapshot of it.

        Without ``vectors`` the snapshot has no vectors, and none are computed. A corrupted index is
        rebuilt once.

        Raises:
            TimedOut: if another process is indexing for longer than ``wait_policy`` allows.
            VaultUnreadable: if the vault's folder cannot be listed.
        """
        self._unavailable = ""
        try:
            return self.files.rebuild_if_corrupted(lambda: self._refresh(vectors, wait_policy))
        except BackendUnavailable as error:
            if self._fallback is None:
                raise
            self._unavailable = f"{error.message}; this machine's own index was used"
        view = self._fallback.refresh(vectors, wait_policy)
        return view._replace(notes=(*view.notes, self._unavailable))

    def _refresh(self, vectors: bool, wait_policy: WaitPolicy) -> Snapshot:
        """Return a snapshot of the index after its backend has prepared and completed a refresh."""
        if self._backend.is_shared:  # never leave it incomplete, because other machines read it
            wait_policy = wait_policy._replace(index_seconds=None)
        with self._backend.refreshing(self.files):
            self._store.complete_interrupted_move()
            return self._update(vectors, wait_policy)

    def _update(self, vectors: bool, wait_policy: WaitPolicy) -> Snapshot:
        started, pause, whole = time.monotonic(), _SCAN_PAUSE, False
        self._due = self._due_documents()
        unindexed = EMPTY_DIFF
        self.freshness, self.is_unfinished = "", False
        while True:
            changes, is_current = self._compare_folder(vectors, whole)
            scanned_at = time.monotonic()
            if is_current:
                self._update_dates(wait_policy.git_seconds)
                return self._updated(unindexed, vectors)
            is_small = changes is not None and not changes.large.size
            limit = wait_policy.unreadable if changes is None else wait_policy.indexing
            remaining = max(0.0, started + limit - time.monotonic())
            longest = _OPEN_PAUSE if changes is None else pause
            wait = _SHORT_WAIT if is_small else min(remaining, longest)
            try:
                with self.files.locked(wait) as locked:
                    if locked:
                        waited = time.monotonic() - scanned_at > _MAX_SCAN_AGE
                        static = self.static if vectors else None
                        unindexed = self._writer.update(
                            static,
                            None if waited else changes,
                            wait_policy.index_seconds,
                            wait_policy.git_seconds,
                        )
            except StorageError:
                return self._snapshot(self._read_everything(), vectors)
            # The lock is released first, because embedding for the snapshot may take long.
            if locked:
                return self._updated(unindexed, vectors)
            if changes is not None and changes.is_partial:
                # An overlay requires comparing the whole index.
                self._watched_index, whole = 0, True
                continue
            if changes is not None and (is_small or (wait_policy.allow_partial and not remaining)):
                overlay = self._read(changes.known, changes.small, changes.large)
                return self._snapshot(overlay, vectors)
            if not remaining:
                raise TimedOut(
                    "Another process is indexing this vault", "try again when it has finished"
                )
            if changes is not None:
                pause *= 2

    def with_vectors(self, view: Snapshot, wait_policy: WaitPolicy) -> Snapshot:
        """Return the same snapshot with vectors, or a new one if the index must be refreshed."""
        if self._fallback is not None and view.files is self._fallback.files:
            with_vectors = self._fallback.with_vectors(view, wait_policy)
            return with_vectors._replace(notes=view.notes)
        try:
            if view.overlay.alive is not None or self._is_complete():
                return self._snapshot(view.overlay, True)
        except IndexCorrupted as error:
            self.files.discard(error)
        return self.refresh(True, wait_policy)

    def at(self, view: Snapshot, moment: datetime) -> Snapshot:
        """See ``SearchIndex.at``."""
        from memvault.index.local.overlay import as_of

        return as_of(view, self._store, moment)

    def with_memories(self, view: Snapshot, memories: Iterable[tuple[Memory, str]]) -> Snapshot:
        """See ``Index.with_memories``."""
        from memvault.index.local.overlay import with_memories

        return with_memories(view, memories)

    def rebuild(self) -> None:
        """See ``Index.rebuild``."""
        from memvault.index.local.index_writer import IndexWriter

        with (
            self._backend.refreshing(self.files, is_patient=True),
            self.files.writing(),
            self.files.build_replacement() as files,
        ):
            writer = IndexWriter(self._store, files, self._backend, self._progress)
            writer.update(self._static_vectors(files))

    def embed_all(self) -> int:
        """Embed every memory with both embedders; return how many lacked transformer vectors.

        The lock is not held while the transformer model runs, so other processes can continue.

        Raises:
            EmbedderError: if the transformer model cannot be used.
        """
        with self._backend.refreshing(self.files, is_patient=True):
            with self.files.writing():
                self._writer.update(self.static)
            if self.transformer.mode == "off":
                return 0
            self.transformer.embedder()
            return self.schedule.embed_in_foreground()

    @property
    def schedule(self) -> EmbeddingSchedule:
        """Return the transformer vectors that are still to be computed."""
        from memvault.index.local.embedding_schedule import EmbeddingSchedule

        return EmbeddingSchedule(self.files, self.transformer, self._texts, self._progress)

    @property
    def folder(self) -> Path | None:
        """See ``Index.folder``."""
        return self._index_folder.folder

    @property
    def exists(self) -> bool:
        """Return whether the index can still be opened."""
        return self.files.open() is not None

    def delete_unused_models(self) -> None:
        """See ``Index.delete_unused_models``."""
        from memvault.index.local.transformer_writer import TransformerWriter

        TransformerWriter(self.transformer).delete_unused_models()

    def status(self) -> IndexStatus:
        """See ``Index.status``."""
        try:
            return self._status()
        except IndexCorrupted as error:  # another process has replaced it since the refresh
            self.files.discard(error)
        self.refresh(False, BEST_EFFORT)
        return self.files.rebuild_if_corrupted(self._status)

    def _status(self) -> IndexStatus:
        from memvault.index.local import index_status
        from memvault.index.local.transformer_writer import TransformerWriter

        schedule = self.schedule
        return IndexStatus(
            self.freshness,
            static=index_status.static_status(self.static, self.files.opened),
            transformer=index_status.transformer_status(schedule),
            unused_models=len(TransformerWriter(self.transformer).unused_models()),
            away=self._unavailable,
            unlisted=tuple(self._store.unlisted),
            unwritable=self.files.write_problem(),
            notes=(*self._notes(), *filter(None, [self._unavailable])),
        )

    def _notes(self) -> tuple[str, ...]:
        """Return notes for the user about the index's folder, its dates and the model."""
        choice = model_settings.choose_embedder(self._store.settings, self._store.root)
        pending = _DATES_PENDING if self._lacks_dates else ""
        return tuple(filter(None, (self._index_folder.note, pending, choice.note)))

    def index_small_changes(self) -> None:
        """Index changes if there are only a few, to speed up the next refresh.

        Larger changes are left to commands that show progress.
        """
        changes, is_current = self.files.rebuild_if_corrupted(lambda: self._compare_folder(False))
        if is_current:
            self._update_dates(BEST_EFFORT.git_seconds)
            self._mark_current()
        elif changes is None and self.watch is not None:  # a command is rebuilding the index
            self.watch.changes()
        elif changes is not None and changes.whole.size <= _MAX_IDLE_CHANGES:
            self.refresh(False, BEST_EFFORT)

    def watch_folder(self) -> None:
        """See ``Index.watch_folder``."""
        from memvault.vault.folder_watch import FolderWatch

        if self.watch is None:
            with contextlib.suppress(OSError):  # without a watch, each comparison scans the folder
                self.watch = FolderWatch(self._store.root)

    def close(self) -> None:
        """See ``Index.close``."""
        if self.watch is not None:
            self.watch.close()
            self.watch, self._watched_index = None, 0
        self.free_memory()
        self._backend.close()
        if self._fallback is not None:
            self._fallback.close()

    def free_memory(self) -> None:
        """See ``Index.free_memory``."""
        self.files.close()
        for name in ("transformer", "static", "_writer"):
            self.__dict__.pop(name, None)

    def _texts(self, path: str) -> list[str]:
        """Return a memory's passage texts as indexed; only the path if the file is missing.

        Static and transformer vectors are looked up by the hashes of these passages, so both must
        use the same passages even if the file cannot be read.
        """
        from memvault.index.local.file_analysis import read_file
        from memvault.index.text.sentence_blocks import leading_part, passage_texts

        state = file_state(self._store.root, path)
        read = read_file(self._store, state) if state is not None else None
        if read is None:
            return [path]
        return passage_texts(leading_part(read[0], self._store.settings.index.characters))

    def _due_documents(self) -> frozenset[str]:
        """Return the documents to read again because the parser failed."""
        # Most vaults have no such file, so the reader of documents is not even imported.
        folder = self.folder
        is_listed = folder is not None and (folder / UNREAD_DOCUMENTS).exists()
        if not (is_listed and self._store.has_documents()):
            return frozenset()
        documents = self._store.documents
        due = documents.due()
        opened = self.files.open() if due else None
        if opened is None:
            return frozenset()
        entries = opened.manifest.known_of(due)
        unread = frozenset(path for path, entry in entries.items() if not entry.etag)
        documents.settle(due - unread)
        return unread

    def _is_complete(self) -> bool:
        """Return whether all static vectors and subwords have been computed."""
        opened = self.files.opened
        return (
            opened is not None
            and self.static.is_finished(opened.manifest)
            and not opened.manifest.blocks.has_missing_subwords()
        )

    def _compare_folder(
        self, vectors: bool, whole: bool = False
    ) -> tuple[PendingChanges | None, bool]:
        """Compare the index with the folder, or only with watched changes.

        Unless ``whole`` is set, only the files that differ from a saved scan are looked up.

        Returns the differences (None if no index can be read), and whether the index is current
        and, with ``vectors``, has all static vectors. If the index is current and equals the saved
        scan, the differences are None as well.
        """
        for _ in range(_MAX_COMPARISONS):
            changes, is_current, scan = self._compare(vectors, whole)
            if changes is None:
                return None, is_current
            # After another process has committed, the manifest lists files that the open keyword
            # index lacks.
            if self.files.is_last(changes.commit):
                if scan is not None and self.files.opened is not None:
                    changed = changes.whole.paths(self.files.opened.manifest)
                    self.files.remember_scan(scan, changed)
                return changes, is_current
        return None, False

    def _compare(
        self, vectors: bool, whole: bool
    ) -> tuple[PendingChanges | None, bool, Scan | None]:
        """Return the result of ``_compare_folder``, and a scan to save, if any."""
        opened = self.files.open()
        self._changed = frozenset()
        if opened is None:
            self.freshness = self.freshness or "missing"
            return None, False, None
        is_complete = not vectors or self._is_complete()
        changed = self._watched_changes(opened.commit)
        if changed is not None:
            changed |= self._due
            self._changed = changed
            indexed_files = opened.manifest.known_of(changed)
            diff = diff_folder(indexed_files, self._store.states_of(changed), (), self._due)
            self.freshness = self.freshness or ("behind" if diff.size else "current")
            changes = PendingChanges(
                opened.commit, indexed_files, diff, *split_readable(diff), True
            )
            return changes, changes.is_unchanged and is_complete, None
        scan = self._store.scan(self.watch)
        is_remembered = not self._due and self.files.is_remembered(scan)
        if is_complete and is_remembered:
            self.freshness = self.freshness or "current"
            return None, True, None
        differing = None if whole else self.files.changed_since_scan(scan)
        files: Iterable[FileState]
        if differing is None:
            indexed_files, files = opened.manifest.known(), scan.files
        else:
            differing |= self._due
            indexed_files, files = opened.manifest.known_of(differing), scan.states_of(differing)
        diff = diff_folder(indexed_files, files, scan.unreadable, self._due)
        self.freshness = self.freshness or ("behind" if diff.size else "current")
        is_partial = differing is not None
        changes = PendingChanges(
            opened.commit, indexed_files, diff, *split_readable(diff), is_partial, scan
        )
        is_saved = not is_remembered and (differing is None or changes.is_unchanged)
        return changes, changes.is_unchanged and is_complete, scan if is_saved else None

    def _update_dates(self, seconds: float) -> None:
        """Index the times of new git commits if any memory of a current index needs them.

        Git has at most ``seconds`` to respond. Nothing happens while another process writes the
        index.
        """
        opened = self.files.opened
        if opened is None or not opened.manifest.has_undated():
            return
        dates, source = self._store.dates, opened.manifest.date_source()
        if source if dates is None else not dates.is_current(source, seconds):
            try:
                with self.files.locked(_SHORT_WAIT) as locked:
                    if locked:
                        self._writer.redate(seconds)
            except StorageError:
                self.files.open()  # the failure closed the files

    @property
    def _lacks_dates(self) -> bool:
        """Whether commits have not been read yet because git took too long."""
        dates = self._store.dates
        return dates is not None and dates.is_delayed

    def _watched_changes(self, commit: IndexCommit) -> frozenset[str] | None:
        """Return the files that may differ from the index, or None if a scan is needed."""
        changed = self.watch.changes() if self.watch is not None and self._watched_index else None
        if self._watched_index != commit.number[0]:
            changed = None
        if changed is None:
            self._watched_index = 0
        return changed

    def _mark_current(self) -> None:
        """Record that the index matches the folder."""
        if self.watch is not None and self.files.opened is not None:
            self.watch.settle(self._changed)
            self._watched_index = self.files.opened.commit.number[0]

    def _read_everything(self) -> Overlay:
        """Read all files that differ from the index, because it could not be written."""
        indexed_files = self._known()
        scan = self._store.scan()
        return self._read(indexed_files, diff_folder(indexed_files, scan.files, scan.unreadable))

    def _updated(self, unindexed: FolderDiff, vectors: bool) -> Snapshot:
        """Return a snapshot after an update, except the files that the update did not index."""
        if not unindexed.size:
            self._mark_current()
            self.is_unfinished = self._lacks_dates
            return self._snapshot(Overlay.empty(), vectors)
        self.is_unfinished, self._watched_index = True, 0
        return self._snapshot(self._read(self._known(), EMPTY_DIFF, unindexed), vectors)

    def _known(self) -> Mapping[str, IndexedFile]:
        """Open the last commit and return its files."""
        indexed_files: Mapping[str, IndexedFile] = {}
        for _ in range(_MAX_COMPARISONS):
            opened = self.files.open()
            if opened is None:
                return {}
            indexed_files = opened.manifest.known()
            if self.files.is_last(opened.commit):
                break
        return indexed_files

    def _read(
        self,
        indexed_files: Mapping[str, IndexedFile],
        diff: FolderDiff,
        unread: FolderDiff | None = None,
    ) -> Overlay:
        from memvault.index.local.overlay import read_overlay

        opened = self.files.opened
        languages = opened.manifest.languages() if opened is not None else {}
        return read_overlay(self._store, indexed_files, languages, diff, unread)

    @cached_property
    def _writer(self) -> IndexWriter:
        from memvault.index.local.index_writer import IndexWriter

        return IndexWriter(self._store, self.files, self._backend, self._progress)

    @cached_property
    def static(self) -> StaticVectors:
        """Return the static vectors."""
        return self._static_vectors(self.files)

    def _static_vectors(self, files: IndexFiles) -> StaticVectors:
        from memvault.index.local.static_vectors import StaticVectors

        return StaticVectors(self._texts, files.vectors_folder, self._progress)

    @cached_property
    def transformer(self) -> TransformerModel:
        """Return the transformer model and its vectors."""
        from memvault.index.local.transformer_model import TransformerModel

        return TransformerModel(self._store, self._index_folder.folder, self._languages)

    def _languages(self) -> Mapping[str, int]:
        """Return the numbers of memories by language, as of the last commit."""
        opened = self.files.opened or self.files.open()
        if opened is None:
            return {}
        if self._counted is None or self._counted[0] != opened.commit:
            self._counted = opened.commit, opened.manifest.languages()
        return self._counted[1]

    def _snapshot(self, overlay: Overlay, vectors: bool) -> Snapshot:
        opened = self.files.opened
        return Snapshot(
            store=self._store,
            files=self.files,
            commit=opened.commit if opened is not None else None,
            manifest=opened.manifest if opened is not None else None,
            words=opened.keyword if opened is not None else self._backend.open_keyword(None, ()),
            vectors=self._vector_search(overlay) if vectors else None,
            overlay=overlay,
            notes=self._notes(),
        )

    def _vector_search(self, overlay: Overlay) -> VectorSearch:
        """Return the vectors to search, after embedding in memory those that are still missing."""
        from memvault.index.local.vector_search import VectorSearch

        opened, waiting, stored = self.files.opened, 0, None
        if opened is not None:
            pending = self.static.pending(opened.manifest)
            stored = self.static.stored(opened.manifest)
            if overlay.alive is not None:
                pending = [entry for entry in pending if entry[0] in overlay.alive]
                overlay.passages.update(self.static.passages(pending))
            waiting = sum(uid not in overlay.passages for uid, _ in pending)
        transformer, note, mode = None, "", self.transformer.mode
        if mode != "off":
            from memvault.index.local.transformer_vectors import TransformerVectors

            transformer = TransformerVectors(self.transformer)
        if mode == "now" and overlay.alive is None:
            note = self._embed_now()
        return VectorSearch(
            stored, lambda: self.static.table, transformer, waiting, note, self._texts
        )

    def _embed_now(self) -> str:
        """Compute missing transformer vectors; return a note on failure."""
        from memvault.index.local.transformer_vectors import failure_note

        schedule = self.schedule
        try:
            if schedule.pending():
                schedule.embed_in_foreground()
        except (MemvaultError, OSError) as error:
            return failure_note(to_memvault_error(error))
        return ""
