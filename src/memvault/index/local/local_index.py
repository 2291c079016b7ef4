"""An index that is refreshed from the vault's folder before every answer.

``refresh`` scans the folder, compares it with the manifest, and indexes the differences under the
index's lock (``IndexWriter``). If another process holds the lock, or nothing can be written,
changed files are read directly and searched together with the last commit. An in-memory index has
only such an overlay.
"""

from __future__ import annotations

import contextlib
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from memvault.errors import (
    EmbedderError,
    MemvaultError,
    StorageError,
    TimedOut,
    to_memvault_error,
)
from memvault.files import atomic
from memvault.index.embedding import model_settings
from memvault.index.embedding.embedder import BUILTIN
from memvault.index.folder import IndexFolder
from memvault.index.local import background_embedding
from memvault.index.local.backend import LOCAL, Backend, Progress
from memvault.index.local.index_files import INDEX, IndexFiles
from memvault.index.local.manifest import IndexedFile
from memvault.index.local.refresh import (
    EMPTY_DIFF,
    FolderDiff,
    PendingChanges,
    diff_folder,
    split_readable,
)
from memvault.index.local.snapshot import EMPTY, Overlay, Snapshot
from memvault.index.protocol import (
    BEST_EFFORT,
    EmbedderStatus,
    IndexCorrupted,
    IndexStatus,
    LinkEntry,
    View,
    WaitPolicy,
)
from memvault.store.memory_store import MemoryStore
from memvault.vault.scan import file_state

if TYPE_CHECKING:
    from pathlib import Path

    from memvault.index.embedding.fastembed_models import CrossEncoder
    from memvault.index.local.manifest import IndexCommit
    from memvault.index.local.refresh import IndexWriter
    from memvault.index.local.static_vectors import StaticVectors
    from memvault.index.local.transformer_vectors import TransformerVectors
    from memvault.index.local.vector_search import VectorSearch
    from memvault.vault.folder_watch import FolderWatch

_SHORT_WAIT = 0.05
_MAX_SCAN_AGE = 0.1
"""Seconds after which a scan that was made before the lock was acquired is repeated."""
_SCAN_PAUSE = 1.0
_OPEN_PAUSE = 0.1
_LITTLE = 50
"""The number of changed memories that ``keep_up`` indexes."""
_BEGINNING = 40
"""How many passages of a memory are embedded, and keep the vectors of their tokens, before others.
"""
_DELAY = "dates from git are pending, since git is slow; `memvault reindex` waits for them"
_START, _REST = slice(_BEGINNING), slice(_BEGINNING, None)


class _Part(NamedTuple):
    """The beginning or the rest of a memory, in the order in which they are embedded.

    ``age`` is when its file was changed last, in negative nanoseconds.
    """

    is_rest: bool
    age: int
    path: str
    uid: int


_Tried = tuple[int, int, bool]
"""The identity of an index, which a rebuild changes with all uids, a uid, and ``is_rest``."""


class LocalIndex:
    """The index of one vault, in the user's cache folder or in memory."""

    published_at = ""
    """When another machine published the memories."""

    def __init__(
        self,
        store: MemoryStore,
        place: IndexFolder,
        progress: Progress,
        backend: Backend = LOCAL,
        name: str = INDEX,
    ) -> None:
        self._backend = backend
        self._store = store
        self._place = place
        self._progress = progress
        self.files = IndexFiles(store.settings, place, backend, name)
        self._cross_encoder: CrossEncoder | None = None
        self._counted: tuple[IndexCommit, Mapping[str, int]] | None = None
        self.watch: FolderWatch | None = None
        """Notes which files change, in a process that stays; None if each look is a scan."""
        self._compared = 0
        """The identity of the index that equals the watched folder but for changes; 0 if none."""
        self._changed: frozenset[str] = frozenset()
        """The changes that the last look has read from the watch."""
        self.freshness = ""
        """How the last refresh found the index: ``current``, ``behind`` or ``missing``."""
        self.is_unfinished = False
        """Whether the last refresh stopped indexing, so that its caller has an early answer."""

    def refresh(self, vectors: bool, patience: WaitPolicy) -> Snapshot:
        """Bring the index up to date with the folder and return a snapshot of it.

        Without ``vectors`` the snapshot has no vectors, and none are computed. A corrupted index is
        rebuilt once. Raises the errors that the index protocol documents.
        """
        self._store.complete_interrupted_move()
        return self.files.healing(lambda: self._refresh(vectors, patience))

    def _refresh(self, vectors: bool, patience: WaitPolicy) -> Snapshot:
        began, pause, whole = time.monotonic(), _SCAN_PAUSE, False
        left = EMPTY_DIFF
        self.freshness, self.is_unfinished = "", False
        while True:
            (changes, is_current), scanned_at = self._look(vectors, whole), time.monotonic()
            if is_current:
                self._update_dates(patience.git_seconds)
                self._settle()
                self.is_unfinished = self._lacks_dates
                return self._snapshot(EMPTY, vectors)
            is_small = changes is not None and not changes.large.size
            limit = patience.unreadable if changes is None else patience.indexing
            remaining = max(0.0, began + limit - time.monotonic())
            longest = _OPEN_PAUSE if changes is None else pause
            wait = _SHORT_WAIT if is_small else min(remaining, longest)
            try:
                with self.files.locked(wait) as locked:
                    if locked:
                        waited = time.monotonic() - scanned_at > _MAX_SCAN_AGE
                        static = self.static if vectors else None
                        left = self._writer.update(
                            static,
                            None if waited else changes,
                            patience.index_seconds,
                            patience.git_seconds,
                        )
            except StorageError:
                return self._snapshot(self._read_everything(), vectors)
            if locked:  # released before this, as embedding for the snapshot may take long
                return self._updated(left, vectors)
            if changes is not None and changes.is_partial:
                self._compared, whole = 0, True  # what is read beside the index needs all of it
                continue
            if changes is not None and (is_small or (patience.allow_partial and not remaining)):
                overlay = self._read(changes.known, changes.small, changes.large)
                return self._snapshot(overlay, vectors)
            if not remaining:
                raise TimedOut(
                    "Another process is indexing this vault", "try again when it has finished"
                )
            if changes is not None:
                pause *= 2

    def with_vectors(self, view: View, patience: WaitPolicy) -> Snapshot:
        """Return the same snapshot with vectors; errors as for ``refresh``."""
        assert isinstance(view, Snapshot)
        return self.add_vectors(view) or self.refresh(True, patience)

    def add_vectors(self, view: Snapshot) -> Snapshot | None:
        """Return the same snapshot with vectors; None if the index must be refreshed for them."""
        try:
            if view.overlay.alive is not None or self._is_complete():
                return self._snapshot(view.overlay, True)
        except IndexCorrupted as error:
            self.files.discard(error)
        return None

    def links(self, view: View) -> dict[int, LinkEntry]:
        """Return the names and links of each memory; errors as for the index protocol."""
        assert isinstance(view, Snapshot)
        return view.links()

    def at(self, view: View, moment: datetime) -> View:
        """Return a view as of an earlier time, as far as the vault's history records it."""
        from memvault.index.local.point_in_time import as_of

        assert isinstance(view, Snapshot)
        return as_of(view, self._store, moment)

    def rebuild(self) -> None:
        """Rebuild the index in a second folder; others read the old one until it is complete."""
        from memvault.index.local.refresh import IndexWriter

        with self.files.writing(), self.files.build_replacement() as files:
            writer = IndexWriter(self._store, files, self._progress)
            writer.update(self._static_vectors(files))

    def embed_all(self, download: bool = False) -> int:
        """Embed every memory with both embedders; return how many lacked transformer vectors.

        The lock is not held while the transformer model runs, so other processes can continue.

        Raises:
            EmbedderError: the transformer model cannot be used.
        """
        with self.files.writing():
            self._writer.update(self.static)
        if self.deep.mode == "off":
            return 0
        self.deep.embedder(download)
        with (
            atomic.map_os_errors(self.files.folder),
            background_embedding.foreground(self.deep.folder),
        ):
            return self.embed_deep(lambda: True)

    def embed_deep(self, go_on: Callable[[], bool]) -> int:
        """Compute missing transformer vectors and return how many memories lacked any.

        The memories that were changed last come first, long ones with their beginnings.
        ``go_on`` is called before anything is written and stops the work by returning False. Raises
        the same errors as ``TransformerVectors.embed``.
        """
        tried: set[_Tried] = set()
        while self.files.open() is not None:
            if not (parts := self._parts_to_embed(tried)):
                self._compact_transformer_vectors()
                if not self.pending_transformer():
                    self.deep.finish()
                break
            earlier, count = len(tried), len(parts)

            def report(done: int, earlier: int = earlier, count: int = count) -> bool:
                self._progress("embedding", done, max(count, len(tried) - earlier))
                return go_on()

            self.deep.embed(self._texts_to_embed(tried), report)
            if not go_on():
                break
            report(len(tried) - earlier)
        return len({(identity, uid) for identity, uid, _ in tried})

    def _texts_to_embed(self, tried: set[_Tried]) -> Iterator[list[str]]:
        """Yield the passages of each part to embed, and add it to ``tried``.

        When the index has changed, the order is determined again.
        """
        state: object = None
        parts: Iterator[_Part] = iter(())
        while (opened := self.files.open()) is not None:
            if opened.commit.number != state:
                state, parts = opened.commit.number, iter(self._parts_to_embed(tried))
            part = next(parts, None)
            if part is None:
                break
            tried.add((opened.commit.number[0], part.uid, part.is_rest))
            yield self._texts(part.path)[_REST if part.is_rest else _START]

    def _parts_to_embed(self, tried: Set[_Tried]) -> list[_Part]:
        """Return the parts of memories without transformer vectors, in the order to embed them.

        ``tried`` are the parts that cannot be embedded, or have been.
        """
        opened = self.files.opened
        stored = self.static.stored(opened.manifest) if opened is not None else None
        if opened is None or stored is None or self.deep.mode == "off":
            return []
        identity, _ = opened.commit.number
        missing = self.deep.missing(*stored, _BEGINNING)
        parts = [
            _Part(part, -entry.state.mtime, path, entry.uid)
            for path, entry in opened.manifest.known().items()
            for part, lacking in zip((False, True), missing, strict=True)
            if entry.uid in lacking and (identity, entry.uid, part) not in tried
        ]
        return sorted(parts)

    @property
    def local(self) -> LocalIndex:
        """The part of the index that is on this machine: all of it."""
        return self

    @property
    def folder(self) -> Path | None:
        """The folder of the index; None if it is in memory."""
        return self._place.folder

    @property
    def exists(self) -> bool:
        """Whether the index can still be opened."""
        return self.files.open() is not None

    def _compact_transformer_vectors(self) -> None:
        """Drop the transformer vectors that no memory uses, if all passages are known.

        If not all tokens may be stored, the beginnings of memories come first, those of the last
        changed memories before others.
        """
        opened = self.files.opened
        stored = self.static.stored(opened.manifest) if opened is not None else None
        if opened is None or stored is None or self._pending_static():
            return
        passages: defaultdict[int, list[int]] = defaultdict(list)
        for uid, text_hash in zip(*(column.tolist() for column in stored), strict=True):
            passages[uid].append(text_hash)
        known = sorted(opened.manifest.known().values(), key=_last_changed_first)
        beginnings, rest = (
            [own for entry in known for own in passages[entry.uid][part]]
            for part in (_START, _REST)
        )
        self.deep.compact([*beginnings, *rest])

    def _pending_static(self) -> int:
        """Return how many memories wait for static vectors."""
        opened = self.files.opened
        return len(self.static.pending(opened.manifest)) if opened else 0

    def pending_transformer(self) -> int:
        """Return how many memories wait for transformer vectors, with those that wait for both."""
        return self._pending_static() + len(
            {part.uid for part in self._parts_to_embed(frozenset())}
        )

    def _passage_counts(self) -> tuple[int, int]:
        """Return how many passages there are, and how many of them lack transformer vectors."""
        opened = self.files.opened
        stored = self.static.stored(opened.manifest) if opened is not None else None
        return (0, 0) if stored is None else (len(stored[1]), self.deep.lacking(stored[1]))

    def delete_unused_models(self) -> None:
        """Delete the vectors of models that are no longer used."""
        self.deep.delete_unused_models()

    def status(self) -> IndexStatus:
        """Return the state of the index and of its embedders."""
        try:
            return self._status()
        except IndexCorrupted as error:  # another process has replaced it since the refresh
            self.files.discard(error)
        self.refresh(False, BEST_EFFORT)
        return self.files.healing(self._status)

    def _status(self) -> IndexStatus:
        unused = len(self.deep.unused_models())
        states = self.freshness, self._static_status(), self._deep_status()
        problem = self.files.write_problem()
        unlisted = tuple(self._store.unlisted)
        return IndexStatus(*states, unused, unlisted=unlisted, unwritable=problem)

    def _static_status(self) -> EmbedderStatus:
        opened = self.files.opened
        found = self.static.opened(opened.manifest) if opened is not None else None
        status = EmbedderStatus(BUILTIN, waiting=self._pending_static())
        try:
            table = self.static.table
        except EmbedderError as error:
            return status._replace(problem=error.message)
        rows = found.file.card.rows if found is not None else 0
        return status._replace(version=table.version, dimension=table.dimension, vectors=rows)

    def _deep_status(self) -> EmbedderStatus:
        deep = self.deep
        if deep.mode == "off":
            return EmbedderStatus(deep.name, deep.mode)
        found, waiting = deep.opened(), self.pending_transformer()
        running = deep.is_running()
        worker = background_embedding.worker(deep.folder)
        process = (worker.process, worker.since) if running else (0, "")
        passages, lacking = self._passage_counts()
        remaining = passages, lacking, lacking / worker.rate if worker.rate else 0.0
        reasons = deep.failure_reason(), deep.choice.note
        state = waiting, running, *reasons, *process, *remaining
        if found is None:
            return EmbedderStatus(deep.name, deep.mode, "", 0, 0, *state)
        card = found.card
        return EmbedderStatus(deep.name, deep.mode, card.version, card.dimension, card.rows, *state)

    def notes(self) -> list[str]:
        """Return notes for the user about the index's folder and the embedding model."""
        if "deep" in self.__dict__:
            notes = self.deep.notes()
        else:  # a search without vectors does not load them for a note
            store = self._store
            notes = [model_settings.choose_embedder(store.settings, store.root).note]
        delay = _DELAY if self._lacks_dates else ""
        return [note for note in (self._place.note, delay, *notes) if note]

    def rerank_scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return a cross-encoder's score of each text for a query; no model is downloaded."""
        if self._cross_encoder is None:
            from memvault.index.embedding.fastembed_models import open_reranker

            self._cross_encoder = open_reranker(self._store.settings, self._store.root)
        return self._cross_encoder.scores(query, texts)

    def keep_up(self) -> None:
        """Index what has changed if that is little, so that the next refresh has less to do.

        The rest is left to a command, whose user sees its progress. Errors as for ``refresh``.
        """
        changes, is_current = self.files.healing(lambda: self._look(False))
        if is_current:
            self._update_dates(BEST_EFFORT.git_seconds)
            self._settle()
        elif changes is None and self.watch is not None:  # a command makes the index anew
            self.watch.changes()
        elif changes is not None and changes.whole.size <= _LITTLE:
            self.refresh(False, BEST_EFFORT)

    def watch_folder(self) -> None:
        """Watch the folder from the next refresh on, where all changes can be seen."""
        from memvault.vault.folder_watch import FolderWatch

        if self.watch is None:
            with contextlib.suppress(OSError):  # each look is a scan then
                self.watch = FolderWatch(self._store.root)

    def close(self) -> None:
        """Close open files, and release models that no other vault of the process uses."""
        if self.watch is not None:
            self.watch.close()
            self.watch, self._compared = None, 0
        self.files.close()
        for name in ("deep", "static", "_writer"):
            self.__dict__.pop(name, None)
        self._cross_encoder = None

    def _texts(self, path: str) -> list[str]:
        """Return the passage texts of a memory as they are indexed; its path if no file exists.

        Static and transformer vectors are matched by the hashes of these texts, so both must use
        the same texts even if the file cannot be read.
        """
        from memvault.index.local.file_analysis import read_file
        from memvault.index.text.sentence_blocks import leading_part, passage_texts

        state = file_state(self._store.root, path)
        read = read_file(self._store, state) if state is not None else None
        if read is None:
            return [path]
        return passage_texts(leading_part(read[0], self._store.settings.index.characters))

    def _is_complete(self) -> bool:
        """Return whether all static vectors and the subwords of all blocks have been computed."""
        opened = self.files.opened
        return (
            opened is not None
            and self.static.is_finished(opened.manifest)
            and not opened.manifest.blocks.lacks_tokens()
        )

    def _look(self, vectors: bool, whole: bool = False) -> tuple[PendingChanges | None, bool]:
        """Compare the index with the folder, or only with what a watch has seen change.

        Unless ``whole`` is set, only files that differ from a remembered scan are looked up.

        Returns the differences, None if no index can be read, and whether the index is current
        and, if they are wanted, has all static vectors. A current one has no differences, and None
        stands for them if the scan is the one remembered.
        """
        opened = self.files.open()
        self._changed = frozenset()
        if opened is None:
            self.freshness = self.freshness or "missing"
            return None, False
        is_complete = not vectors or self._is_complete()
        changed = self._watched_changes(opened.commit)
        if changed is not None:
            self._changed = changed
            known = opened.manifest.known_of(changed)
            diff = diff_folder(known, self._store.states_of(changed), ())
            self.freshness = self.freshness or ("behind" if diff.size else "current")
            changes = PendingChanges(opened.commit, known, diff, *split_readable(diff), True)
            return changes, changes.is_unchanged and is_complete
        found = self._store.scan(self.watch)
        is_remembered = self.files.is_remembered(found)
        if is_complete and is_remembered:
            self.freshness = self.freshness or "current"
            return None, True
        differing = None if whole else self.files.changed_since_scan(found)
        if differing is None:
            known, files = opened.manifest.known(), found.files
        else:
            known, files = opened.manifest.known_of(differing), found.states_of(differing)
        diff = diff_folder(known, files, found.unreadable)
        self.freshness = self.freshness or ("behind" if diff.size else "current")
        is_partial = differing is not None
        changes = PendingChanges(opened.commit, known, diff, *split_readable(diff), is_partial)
        if changes.is_unchanged and not is_remembered:
            self.files.remember_scan(found)
        return changes, changes.is_unchanged and is_complete

    def _update_dates(self, seconds: float) -> None:
        """Index the times of new commits in git, if the current index has memories that need them.

        Git may take some ``seconds``. Nothing is done while another process writes the index.
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
                self.files.open()  # closed by the failure

    @property
    def _lacks_dates(self) -> bool:
        """Whether new commits are not read, because git took too long."""
        dates = self._store.dates
        return dates is not None and dates.is_delayed

    def _watched_changes(self, commit: IndexCommit) -> frozenset[str] | None:
        """Return which files may differ from the index; None if the folder must be scanned."""
        changed = self.watch.changes() if self.watch is not None and self._compared else None
        if self._compared != commit.number[0]:
            changed = None
        if changed is None:
            self._compared = 0
        return changed

    def _settle(self) -> None:
        """Note that the index has been compared with the folder, or brought up to date with it."""
        if self.watch is not None and self.files.opened is not None:
            self.watch.settle(self._changed)
            self._compared = self.files.opened.commit.number[0]

    def _read_everything(self) -> Overlay:
        """Read all files that differ from the index, after an attempt to write it failed."""
        opened = self.files.open()
        known = opened.manifest.known() if opened is not None else {}
        found = self._store.scan()
        return self._read(known, diff_folder(known, found.files, found.unreadable))

    def _updated(self, left: FolderDiff, vectors: bool) -> Snapshot:
        """Return a snapshot after an update, without the files that it has left unindexed."""
        if not left.size:
            self._settle()
            self.is_unfinished = self._lacks_dates
            return self._snapshot(EMPTY, vectors)
        self.is_unfinished, self._compared = True, 0
        opened = self.files.open()
        known = opened.manifest.known() if opened is not None else {}
        return self._snapshot(self._read(known, EMPTY_DIFF, left), vectors)

    def _read(
        self, known: Mapping[str, IndexedFile], diff: FolderDiff, unread: FolderDiff | None = None
    ) -> Overlay:
        from memvault.index.local.refresh import read_overlay

        opened = self.files.opened
        languages = opened.manifest.languages() if opened is not None else {}
        return read_overlay(self._store, known, languages, diff, unread)

    @cached_property
    def _writer(self) -> IndexWriter:
        from memvault.index.local.refresh import IndexWriter

        return IndexWriter(self._store, self.files, self._progress)

    @cached_property
    def static(self) -> StaticVectors:
        """The static vectors."""
        return self._static_vectors(self.files)

    def _static_vectors(self, files: IndexFiles) -> StaticVectors:
        from memvault.index.local.static_vectors import StaticVectors

        return StaticVectors(self._texts, files.folder, self._progress, self._backend)

    @cached_property
    def deep(self) -> TransformerVectors:
        """The transformer vectors."""
        from memvault.index.local.transformer_vectors import TransformerVectors

        return TransformerVectors(self._store, self._place.folder, self._languages)

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
            self._store,
            self.files,
            opened.commit if opened is not None else None,
            opened.manifest if opened is not None else None,
            opened.keyword if opened is not None else self._backend.open_keyword(None, ()),
            self._vector_search(overlay) if vectors else None,
            overlay,
        )

    def _vector_search(self, overlay: Overlay) -> VectorSearch:
        """Return the vectors to search, after embedding in memory what has none yet."""
        from memvault.index.local.vector_search import VectorSearch

        opened, waiting, stored = self.files.opened, 0, None
        if opened is not None:
            pending = self.static.pending(opened.manifest)
            stored = self.static.opened(opened.manifest)
            if overlay.alive is not None:
                pending = [entry for entry in pending if entry[0] in overlay.alive]
                overlay.passages.update(self.static.passages(pending))
            waiting = sum(uid not in overlay.passages for uid, _ in pending)
        if self.deep.mode == "now" and overlay.alive is None:
            self._embed_now()
        return VectorSearch(stored, lambda: self.static.table, self.deep, waiting)

    def _embed_now(self) -> None:
        """Compute missing transformer vectors; a failure becomes a note."""
        self.deep.set_failure(None)
        try:
            if self._parts_to_embed(frozenset()):
                with (
                    atomic.map_os_errors(self.files.folder),
                    background_embedding.foreground(self.deep.folder),
                ):
                    self.embed_deep(lambda: True)
        except (MemvaultError, OSError) as error:
            self.deep.set_failure(to_memvault_error(error))


def _last_changed_first(entry: IndexedFile) -> tuple[int, str]:
    return -entry.state.mtime, entry.state.path
