"""The index kept in step with the folder: looked at before every answer, mended by itself.

``look`` scans the folder, compares, and indexes what differs under the
index's lock (``writer``). Where another process holds the lock, or nothing can
be written, changed files are read directly and searched beside the last good
index; in memory that is all there is.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING

from memvault.errors import EmbedderError, StorageError, TimedOut
from memvault.index import analysis
from memvault.index.diff import Diff, Look, compare, divided
from memvault.index.embedding import permitted
from memvault.index.embedding.embedder import BUILTIN, Embedder
from memvault.index.embedding.static import StaticEmbedder
from memvault.index.errors import DamagedIndex
from memvault.index.index_files import IndexFiles
from memvault.index.keyword import KeywordIndex
from memvault.index.manifest import Known
from memvault.index.place import Place
from memvault.index.protocol import WHOLE, Patience, View
from memvault.index.snapshot import EMPTY, Overlay, Snapshot
from memvault.index.vector_stores import Progress, VectorStores
from memvault.index.vectors import VectorCard
from memvault.vault.store import Store

if TYPE_CHECKING:
    from memvault.index.embedding.cross_encoder import CrossEncoder
    from memvault.index.writer import Writer

_SLOW_BUDGET = 5.0
_SHORT = 0.05
_FRESH = 0.1
"""Seconds after which a look taken before the index's lock no longer counts."""
_LOOK_AGAIN = 1.0
_OPEN_AGAIN = 0.1


class LocalIndex:
    """The derived part of one vault, in a folder of the user's own, or in memory."""

    def __init__(self, store: Store, place: Place, progress: Progress) -> None:
        self._store = store
        self.place = place
        self._progress = progress
        self._analyser = analysis.analyser(store.settings.language)
        self._files = IndexFiles(store.settings, place)
        self._vector_stores = VectorStores(store, self._files.folder, progress)
        self._cross_encoder: CrossEncoder | None = None
        self.found = ""
        """How the last look found the index: current, behind, or missing."""

    def look(self, vectors: bool, patience: Patience) -> Snapshot:
        """Bring the index up to date with the folder and return a view of it.

        Without ``vectors`` the view has no vectors, and none are made. Errors as for
        the protocol's.
        """
        began, pause = time.monotonic(), _LOOK_AGAIN
        self.found = ""
        while True:
            look, looked = self._compared(), time.monotonic()
            self.found = self.found or _state(look)
            if look is not None and look.is_settled and (not vectors or self._finished()):
                return self._view(EMPTY, vectors, patience)
            small = look is not None and not look.large.size
            limit = patience.unreadable if look is None else patience.behind
            left = max(0.0, began + limit - time.monotonic())
            wait = _SHORT if small else min(left, _OPEN_AGAIN if look is None else pause)
            try:
                with self._files.locked(wait) as locked:
                    if locked:
                        waited = time.monotonic() - looked > _FRESH
                        budget = _SLOW_BUDGET if vectors else None
                        self._writer.update(vectors, budget, None if waited else look)
                        return self._view(EMPTY, vectors, patience)
            except StorageError:
                return self._view(self._everything_read(), vectors, patience)
            if look is not None and (small or (patience.partly and not left)):
                return self._view(self._read(look.known, look.small, look.large), vectors, patience)
            if not left:
                raise TimedOut(
                    "Another process is indexing this vault", "try again when it has finished"
                )
            if look is not None:
                pause *= 2

    def rebuild(self) -> None:
        """Make the index anew beside the old one, which others read until it is whole."""
        from memvault.index.writer import Writer

        with self._writing(), self._files.beside() as files:
            stores = VectorStores(self._store, files.folder, self._progress)
            Writer(self._store, files, stores, self._analyser, self._progress).update(True, None)

    def embed_all(self, download: bool = False) -> int:
        """Embed every memory with the embedder in the settings; return how many were pending.

        The lock is given back every second, so that others can go on.

        Raises:
            EmbedderError: the embedder cannot be used.
        """
        self._vector_stores.embedder(self._vector_stores.wanted, download)
        total = -1
        while True:
            with self._writing():
                opened = self._writer.update(False, None)
                waiting = self.waiting()
                total = max(total, waiting)
                self._progress("embedding", total - waiting, total)
                if self._finished():
                    self._vector_stores.drop_others(opened.manifest)
                    return total
                self._vector_stores.embed(opened.manifest, 1.0)

    def waiting(self) -> int:
        """Say how many memories wait to be embedded."""
        opened = self._files.opened
        return len(self._vector_stores.pending(opened.manifest)) if opened else 0

    def vector_card(self) -> VectorCard | None:
        """Describe the vectors that a recall would search now."""
        opened = self._files.opened
        found = self._vector_stores.best(self.waiting(), opened.manifest) if opened else None
        return found.card if found else None

    @property
    def wanted(self) -> str:
        """The embedder that is to make the vectors."""
        return self._vector_stores.wanted

    def notes(self) -> list[str]:
        """Say what a person should know of where the index lies and what makes its vectors."""
        return [note for note in (self.place.note, self._vector_stores.choice.note) if note]

    def embedder(self, name: str) -> Embedder:
        """Return an embedder, loaded once; errors as for ``open_embedder``."""
        return self._vector_stores.embedder(name)

    def nearness(self, query: str, texts: Sequence[str]) -> list[float] | None:
        """Return how near each text's words are to a query's, by the built-in table.

        A transformer has no vectors of words that stand alone, and beside one
        the table's words still find more.
        """
        try:
            table = self._vector_stores.embedder(BUILTIN)
        except EmbedderError:
            return None
        return table.match(query, texts) if isinstance(table, StaticEmbedder) else None

    def judge(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return how well a cross-encoder finds that each text fits; it is never fetched."""
        if self._cross_encoder is None:
            from memvault.index.embedding.cross_encoder import CrossEncoder

            wanted = permitted.reranker(self._store.settings, self._store.root)
            self._cross_encoder = CrossEncoder(wanted.name, wanted.root)
        return self._cross_encoder.scores(query, texts)

    def discard(self, error: DamagedIndex, view: View | None) -> None:
        """Have what a view could not read made anew at the next look."""
        seen = view if isinstance(view, Snapshot) else None
        self._files.discard(error, seen.commit if seen else None)

    def close(self) -> None:
        """Let go of open files."""
        self._files.close()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        with self._files.locked(WHOLE.behind) as locked:
            if not locked:
                raise TimedOut(
                    "Another process is writing the index", "try again when it has finished"
                )
            yield

    def _finished(self) -> bool:
        """Say whether all vectors are there, and it is known what they mean."""
        opened = self._files.opened
        return opened is not None and self._vector_stores.is_finished(opened.manifest)

    def _compared(self) -> Look | None:
        """Compare the index with the folder; None where no index can be read."""
        opened = self._files.open()
        if opened is None:
            return None
        known = opened.manifest.known()
        whole = compare(known, self._store.scan())
        return Look(opened.commit, known, whole, *divided(whole))

    def _everything_read(self) -> Overlay:
        """Read whatever differs from the index as it is after an attempt to write it failed."""
        opened = self._files.open()
        known = opened.manifest.known() if opened is not None else {}
        return self._read(known, compare(known, self._store.scan()))

    def _read(self, known: Mapping[str, Known], diff: Diff, unread: Diff | None = None) -> Overlay:
        from memvault.index.overlay import overlay_of

        return overlay_of(self._store, self._analyser, known, diff, unread)

    @cached_property
    def _writer(self) -> Writer:
        from memvault.index.writer import Writer

        stores = self._vector_stores
        return Writer(self._store, self._files, stores, self._analyser, self._progress)

    def _view(self, overlay: Overlay, vectors: bool, patience: Patience) -> Snapshot:
        opened = self._files.opened
        manifest = opened.manifest if opened is not None else None
        keyword = opened.keyword if opened is not None else KeywordIndex(None)
        unembedded, found = 0, None
        if vectors:
            if manifest is not None:
                pending = self._vector_stores.pending(manifest)
                found = self._vector_stores.best(len(pending), manifest)
                if overlay.alive is not None:
                    pending = [entry for entry in pending if entry[0] in overlay.alive]
                    overlay.passages.update(self._vector_stores.passages(pending))
                unembedded = sum(uid not in overlay.passages for uid, _ in pending)
            if found is None and overlay.passages:
                found = self._vector_stores.unwritten()
        embedder = self._vector_stores.embedder

        def complete() -> Snapshot:
            if overlay.alive is None and not self._finished():
                return self.look(True, patience)
            return self._view(overlay, True, patience)

        later = None if vectors else complete
        commit = opened.commit if opened is not None else None
        return Snapshot(
            self._store, commit, manifest, keyword, found, embedder, overlay, unembedded, later
        )


def _state(look: Look | None) -> str:
    if look is None:
        return "missing"
    return "behind" if look.whole.size else "current"
