"""The index kept in step with the folder: looked at before every answer, mended by itself.

``look`` scans the folder, compares, and indexes what differs under the
index's lock (``writer``). Where another process holds the lock, or nothing can
be written, changed files are read directly and searched beside the last good
index; in memory that is all there is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING

from memvault.errors import MemvaultError, StorageError, TimedOut
from memvault.files import atomic
from memvault.index.embedding import model_choice
from memvault.index.embedding.static import StaticEmbedder
from memvault.index.folder import IndexFolder
from memvault.index.local.backend import LOCAL, Backend, VectorStore
from memvault.index.local.index_files import INDEX, IndexFiles
from memvault.index.local.manifest import IndexedFile
from memvault.index.local.nearest import is_in
from memvault.index.local.refresh import FolderDiff, PendingChanges, diff_folder, split_readable
from memvault.index.local.snapshot import EMPTY, Overlay, Snapshot
from memvault.index.local.static_vectors import Progress, StaticVectors
from memvault.index.local.transformer_vectors import TransformerVectors
from memvault.index.local.vectors import VectorCard
from memvault.index.protocol import COMPLETE, IndexCorrupted, LostIndex, View, WaitPolicy
from memvault.store.memory_store import MemoryStore
from memvault.vault.reader import state_of

if TYPE_CHECKING:
    from memvault.index.embedding.fastembed_models import CrossEncoder
    from memvault.index.local.refresh import IndexWriter

_SHORT = 0.05
_FRESH = 0.1
"""Seconds after which a look taken before the index's lock no longer counts."""
_LOOK_AGAIN = 1.0
_OPEN_AGAIN = 0.1


class LocalIndex:
    """The derived part of one vault, in a folder of the user's own, or in memory."""

    away = ""
    """Why an engine does not answer, so that the index of this machine does."""

    def __init__(
        self,
        store: MemoryStore,
        place: IndexFolder,
        progress: Progress,
        parts: Backend = LOCAL,
        name: str = INDEX,
    ) -> None:
        self._parts = parts
        self._store = store
        self.place = place
        self._progress = progress
        self._files = IndexFiles(store.settings, place, parts.words, name)
        self._quick = StaticVectors(self._texts, self._files.folder, progress, parts.vectors)
        self.deep = TransformerVectors(store, place.folder)
        self._cross_encoder: CrossEncoder | None = None
        self._lost: MemvaultError | None = None
        self.freshness = ""
        """How the last look found the index: current, behind, or missing."""

    def refresh(self, vectors: bool, patience: WaitPolicy) -> Snapshot:
        """Bring the index up to date with the folder and return a view of it.

        Without ``vectors`` the view has no vectors, and none are made. Errors as for
        the protocol's.
        """
        self._raise_lost()
        began, pause = time.monotonic(), _LOOK_AGAIN
        self.freshness = ""
        while True:
            look, looked = self._pending_changes(), time.monotonic()
            self.freshness = self.freshness or _state(look)
            if look is not None and look.is_unchanged and (not vectors or self._is_complete()):
                return self._snapshot(EMPTY, vectors, patience)
            small = look is not None and not look.large.size
            limit = patience.unreadable if look is None else patience.indexing
            left = max(0.0, began + limit - time.monotonic())
            wait = _SHORT if small else min(left, _OPEN_AGAIN if look is None else pause)
            try:
                with self._files.locked(wait) as locked:
                    if locked:
                        waited = time.monotonic() - looked > _FRESH
                        self._writer.update(vectors, None if waited else look)
            except StorageError:
                return self._snapshot(self._everything_read(), vectors, patience)
            if locked:  # and no longer: the view may embed for long
                return self._snapshot(EMPTY, vectors, patience)
            if look is not None and (small or (patience.allow_partial and not left)):
                return self._snapshot(
                    self._read(look.known, look.small, look.large), vectors, patience
                )
            if not left:
                raise TimedOut(
                    "Another process is indexing this vault", "try again when it has finished"
                )
            if look is not None:
                pause *= 2

    def at(self, view: View, moment: datetime) -> View:
        """Return a view as it would have been at a moment, as far as that is known."""
        from memvault.index.local.point_in_time import as_of

        assert isinstance(view, Snapshot)
        return as_of(view, moment)

    def rebuild(self) -> None:
        """Make the index anew beside the old one, which others read until it is whole."""
        from memvault.index.local.refresh import IndexWriter

        with self._writing(), self._files.build_replacement() as files:
            quick = StaticVectors(self._texts, files.folder, self._progress, self._parts.vectors)
            IndexWriter(self._store, files, quick, self._progress).update(True)

    def embed_all(self, download: bool = False) -> int:
        """Embed every memory with both embedders; return how many the deep one had not seen.

        Nobody else is kept waiting while the deep one is at work.

        Raises:
            EmbedderError: the deep embedder cannot be used.
        """
        with self._writing():
            self._writer.update(True)
        if self.deep.mode == "off":
            return 0
        from memvault.index.local import embedding_lock

        self.deep.embedder(download)
        with atomic.map_os_errors(self._files.folder), embedding_lock.foreground(self.deep.folder):
            return self.embed_deep(lambda: True)

    def embed_deep(self, go_on: Callable[[], bool]) -> int:
        """Embed what has no deep vectors, what was changed last first; say how much that was.

        ``go_on`` is asked each time before anything is written. Errors as for the deep side's.
        """
        from memvault.index.local import embedding_lock

        total = 0
        tried: set[str] = set()
        while self._files.open() is not None:
            paths = [path for path in self._lacking() if path not in tried]
            if not paths:
                self._tidy()
                if not self.pending_transformer():
                    embedding_lock.succeeded(self.deep.folder)
                    self.deep.delete_unused_models()
                break
            total += len(paths)

            def told(done: int, count: int = len(paths)) -> bool:
                self._progress("embedding", done, count)
                return go_on()

            self.deep.embed(map(self._texts, paths), told)
            if not go_on():
                break
            told(len(paths))
            tried.update(paths)
        return total

    @property
    def exists(self) -> bool:
        """Whether the vault and its index can still be read."""
        return self._files.open() is not None

    def _quick_vectors(self) -> VectorStore | None:
        opened = self._files.opened
        return self._quick.opened(opened.manifest) if opened is not None else None

    def _tidy(self) -> None:
        """Drop the deep vectors that no memory uses, as far as all memories' passages are known."""
        opened, found = self._files.opened, self._quick_vectors()
        if opened is not None and found is not None and not self.pending_static():
            uids, hashes = found.passages()
            self.deep.compact(hashes[is_in(uids, opened.manifest.uids())])

    def _lacking(self) -> list[str]:
        """Return the paths of the memories without deep vectors, what was changed last first."""
        opened, found = self._files.opened, self._quick_vectors()
        if opened is None or found is None or self.deep.mode == "off":
            return []
        uids, hashes = found.passages()
        lacking = set(uids[self.deep.missing(hashes)].tolist())
        known = (entry for entry in opened.manifest.known().values() if entry.uid in lacking)
        rows = sorted(known, key=lambda entry: (-entry.state.mtime, entry.state.path))
        return [entry.state.path for entry in rows]

    def pending_static(self) -> int:
        """Say how many memories wait to be embedded by the built-in table."""
        opened = self._files.opened
        return len(self._quick.pending(opened.manifest)) if opened else 0

    def pending_transformer(self) -> int:
        """Say how many memories wait for the deep embedder, those that wait for both included."""
        return self.pending_static() + len(self._lacking())

    def vector_card(self) -> VectorCard | None:
        """Describe the quick vectors."""
        found = self._quick_vectors()
        return found.card if found else None

    @property
    def table(self) -> StaticEmbedder:
        """The quick embedder; ``EmbedderError`` where it cannot be loaded."""
        return self._quick.table

    def notes(self) -> list[str]:
        """Say what a person should know of where the index lies and what makes its vectors."""
        return [note for note in (self.place.note, *self.deep.notes()) if note]

    def rerank_scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return how well a cross-encoder finds that each text fits; it is never fetched."""
        if self._cross_encoder is None:
            from memvault.index.embedding.fastembed_models import open_cross_encoder

            wanted = model_choice.choose_reranker(self._store.settings, self._store.root)
            self._cross_encoder = open_cross_encoder(wanted.name, wanted.root)
        return self._cross_encoder.scores(query, texts)

    def differs(self) -> str:
        """Say what an engine holds otherwise than was sent there; nothing where there is none."""
        return ""

    def discard(self, error: IndexCorrupted, view: View | None) -> None:
        """Have what a view could not read made anew at the next look, or be said by it."""
        if isinstance(error, LostIndex):
            self._lost = error.reason
            return
        seen = view if isinstance(view, Snapshot) else None
        self._files.discard(error, seen.commit if seen else None)

    def _raise_lost(self) -> None:
        """Say what the last view lost, once."""
        lost, self._lost = self._lost, None
        if lost is not None:
            raise lost

    def close(self) -> None:
        """Let go of open files, and of models that no other vault of the process uses."""
        self._files.close()
        self._quick.close()
        self.deep.close()
        self._cross_encoder = None

    def _texts(self, path: str) -> list[str]:
        """Return the passages' texts of a memory as the writer makes them; its path if it is gone.

        Quick and deep vectors meet by these, whether the file can be read or not.
        """
        from memvault.index.local.refresh import read_file
        from memvault.index.text.indexed_text import passage_texts

        state = state_of(self._store.root, path)
        read = read_file(self._store, state) if state is not None else None
        return passage_texts(read[0]) if read is not None else [path]

    @contextmanager
    def _writing(self) -> Iterator[None]:
        with self._files.locked(COMPLETE.indexing) as locked:
            if not locked:
                raise TimedOut(
                    "Another process is writing the index", "try again when it has finished"
                )
            yield

    def _is_complete(self) -> bool:
        """Say whether all quick vectors are there, and the tokens of all sentences."""
        opened = self._files.opened
        return (
            opened is not None
            and self._quick.is_finished(opened.manifest)
            and not opened.manifest.blocks.lacks_tokens()
        )

    def _pending_changes(self) -> PendingChanges | None:
        """Compare the index with the folder; None where no index can be read."""
        opened = self._files.open()
        if opened is None:
            return None
        known = opened.manifest.known()
        whole = diff_folder(known, self._store.scan())
        return PendingChanges(opened.commit, known, whole, *split_readable(whole))

    def _everything_read(self) -> Overlay:
        """Read whatever differs from the index as it is after an attempt to write it failed."""
        opened = self._files.open()
        known = opened.manifest.known() if opened is not None else {}
        return self._read(known, diff_folder(known, self._store.scan()))

    def _read(
        self, known: Mapping[str, IndexedFile], diff: FolderDiff, unread: FolderDiff | None = None
    ) -> Overlay:
        from memvault.index.local.refresh import read_overlay

        opened = self._files.opened
        languages = opened.manifest.languages() if opened is not None else {}
        return read_overlay(self._store, known, languages, diff, unread)

    @cached_property
    def _writer(self) -> IndexWriter:
        from memvault.index.local.refresh import IndexWriter

        return IndexWriter(self._store, self._files, self._quick, self._progress)

    def _snapshot(self, overlay: Overlay, vectors: bool, patience: WaitPolicy) -> Snapshot:
        opened = self._files.opened
        manifest = opened.manifest if opened is not None else None
        keyword = opened.keyword if opened is not None else self._parts.words(None, ())
        unembedded, found = 0, None
        if vectors:
            if manifest is not None:
                pending = self._quick.pending(manifest)
                found = self._quick.opened(manifest)
                if overlay.alive is not None:
                    pending = [entry for entry in pending if entry[0] in overlay.alive]
                    overlay.passages.update(self._quick.passages(pending))
                unembedded = sum(uid not in overlay.passages for uid, _ in pending)
            if found is None and overlay.passages:
                found = self._quick.unwritten()
            if self.deep.mode == "now" and overlay.alive is None:
                self._embed_now()

        def complete() -> Snapshot:
            if overlay.alive is None and not self._is_complete():
                return self.refresh(True, patience)
            return self._snapshot(overlay, True, patience)

        later = None if vectors else complete
        commit = opened.commit if opened is not None else None
        return Snapshot(
            self._store,
            commit,
            manifest,
            keyword,
            found,
            self._quick,
            self.deep,
            overlay,
            unembedded,
            later,
        )

    def _embed_now(self) -> None:
        """Make the deep vectors that are missing; trouble is a note."""
        from memvault.index.local import embedding_lock

        try:
            if self._lacking():
                with (
                    atomic.map_os_errors(self._files.folder),
                    embedding_lock.foreground(self.deep.folder),
                ):
                    self.embed_deep(lambda: True)
        except MemvaultError as error:
            self.deep.set_failure(error)


def _state(look: PendingChanges | None) -> str:
    if look is None:
        return "missing"
    return "behind" if look.whole.size else "current"
