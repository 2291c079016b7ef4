"""The index kept in step with the folder: looked at before every answer, mended by itself.

``refresh`` scans the folder, compares, and indexes what differs under the
index's lock. Where another process holds the lock, or nothing can be written,
the changed files are read directly and searched beside the last good index; in
memory that is all there is. An index that is not as its last commit left it is
thrown away and made anew.

Order of a commit: keyword index, manifest with the states of its files; then
vectors, whose card names theirs.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from memvault.errors import EmbedderError, StorageError, TimedOut
from memvault.index import analysis, chunks
from memvault.index.diff import Plan, batches, compare
from memvault.index.documents import keyword_documents, passage_texts
from memvault.index.embedding import permitted
from memvault.index.embedding.embedder import BUILTIN, Embedder
from memvault.index.embedding.static import StaticEmbedder
from memvault.index.errors import DamagedIndex, DamagedVectors
from memvault.index.file_states import Commit
from memvault.index.keyword import KeywordDocument, KeywordIndex, field_lengths
from memvault.index.manifest import Known, Manifest, Record
from memvault.index.overlay import overlay_of, read_file
from memvault.index.place import KEPT, Place
from memvault.index.snapshot import EMPTY, Overlay, Snapshot
from memvault.index.vector_stores import Progress, Sidecar
from memvault.index.vectors import VectorCard
from memvault.model import FileState
from memvault.user_folders import make_private
from memvault.vault.lock import FileLock
from memvault.vault.scan import scan
from memvault.vault.store import Store

if TYPE_CHECKING:
    from memvault.index.embedding.cross_encoder import CrossEncoder

__all__ = ["Index"]

_FORMAT = 3
_OVERLAY_LIMIT = 500
_WAIT_FOR_BUILDER = 60.0
_SLOW_BUDGET = 5.0
_SHORT = 0.05
_SETTLE = 0.02
_WASTE = 0.5


class Index:
    """The derived part of one vault, in a folder of the user's own, or in memory."""

    def __init__(self, store: Store, place: Place, progress: Progress) -> None:
        self._store = store
        self.place = place
        self._progress = progress
        folder = place.folder or Path(os.devnull)
        self._manifest_file = folder / "manifest.db"
        self._keyword_folder = folder / "keyword"
        self._lock = FileLock(folder / "lock")
        self._analyser = analysis.analyser(store.settings.language)
        self._sidecar = Sidecar(store, folder, progress)
        self._manifest: Manifest | None = None
        self._keyword: KeywordIndex | None = None
        self._commit_opened: Commit | None = None
        self._cross_encoder: CrossEncoder | None = None

    @property
    def fingerprint(self) -> str:
        """What an index must have been made for to be of use now."""
        settings = self._store.settings
        types = sorted(self._store.known_types)
        return f"{_FORMAT}.{analysis.VERSION}.{chunks.VERSION} {settings.language} {types}"

    def look(self, vectors: bool) -> Snapshot:
        """Bring the index up to date with the folder and return a view of it.

        Without ``vectors`` the view has no vectors, and none are made.

        Raises:
            TimedOut: another process is making the first index and takes long.
            VaultUnreadable: the vault's folder cannot be listed.
        """
        budget = _SLOW_BUDGET if vectors else None
        deadline = time.monotonic() + _WAIT_FOR_BUILDER
        while True:
            found = scan(self._store.root, self._store.settings.ignore)
            known = self._known()
            plan = compare(known, found)
            settled = self._manifest is not None and not plan.size and not plan.doubtful
            if settled and not (vectors and self._unfinished()):
                return self._view(EMPTY, vectors)
            small = self._manifest is not None and plan.size <= _OVERLAY_LIMIT
            try:
                with self._locked(_SHORT if small else 1.0) as locked:
                    if locked:
                        self._update(vectors, budget)
                        return self._view(EMPTY, vectors)
            except StorageError:
                known = self._known()  # the failed attempt may have damaged the index
                plan, small = compare(known, found), True
            if small:
                return self._view(overlay_of(self._store, self._analyser, known, plan), vectors)
            if time.monotonic() > deadline:
                raise TimedOut(
                    f"Another process has been indexing this vault for {_WAIT_FOR_BUILDER:.0f} s",
                    "try again when it has finished",
                )

    def _with_vectors(self, overlay: Overlay) -> Snapshot:
        """Return an earlier view with vectors; some of what waits is embedded."""
        if overlay.alive is None and self._manifest is not None and self._unfinished():
            with contextlib.suppress(StorageError), self._locked(_SHORT) as locked:
                if locked and self._open():
                    self._embed({}, _SLOW_BUDGET)
        return self._view(overlay, True)

    def rebuild(self) -> None:
        """Throw the index away and make it anew, without vectors."""
        with self._writing():
            self._reset()
            self._update(False, None)

    def embed_all(self, download: bool = False) -> int:
        """Embed every memory with the embedder in the settings; return how many were pending.

        The lock is given back every second, so that others can go on.

        Raises:
            EmbedderError: the embedder cannot be used.
        """
        self._sidecar.embedder(self._sidecar.wanted, download)
        total = -1
        while True:
            with self._writing():
                self._update(False, None)
                waiting = self._waiting()
                total = max(total, waiting)
                self._progress("embedding", total - waiting, total)
                if not self._unfinished():
                    assert self._manifest is not None
                    self._sidecar.drop_others(self._manifest)
                    return total
                self._embed({}, 1.0)

    def state(self) -> str:
        """Say how the index is before anything is done: current, behind, or missing."""
        found = scan(self._store.root, self._store.settings.ignore)
        try:
            known = self._known()
        except DamagedIndex:
            return "missing"
        if self._manifest is None:
            return "missing"
        return "behind" if compare(known, found).size else "current"

    def waiting(self) -> int:
        """Say how many memories wait to be embedded."""
        return self._waiting() if self._manifest is not None else 0

    def vector_card(self) -> VectorCard | None:
        """Describe the vectors that a recall would search now."""
        if self._manifest is None:
            return None
        found = self._sidecar.best(self._waiting(), self._manifest)
        return found.card if found else None

    @property
    def wanted(self) -> str:
        """The embedder that is to make the vectors."""
        return self._sidecar.wanted

    def notes(self) -> list[str]:
        """Say what a person should know of where the index lies and what makes its vectors."""
        return [note for note in (self.place.note, self._sidecar.choice.note) if note]

    def embedder(self, name: str) -> Embedder:
        """Return an embedder, loaded once; errors as for ``open_embedder``."""
        return self._sidecar.embedder(name)

    def nearness(self, query: str, texts: Sequence[str]) -> list[float] | None:
        """Return how near each text's words are to a query's, by the built-in table.

        A transformer has no vectors of words that stand alone, and beside one
        the table's words still find more.
        """
        try:
            table = self._sidecar.embedder(BUILTIN)
        except EmbedderError:
            return None
        return table.match(query, texts) if isinstance(table, StaticEmbedder) else None

    def judge(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return how well the cross-encoder in the settings finds that each text fits a query.

        It is loaded once and never fetched.

        Raises:
            EmbedderError: it cannot be loaded.
        """
        if self._cross_encoder is None:
            from memvault.index.embedding.cross_encoder import CrossEncoder

            wanted = permitted.reranker(self._store.settings, self._store.root)
            self._cross_encoder = CrossEncoder(wanted.name, wanted.root)
        return self._cross_encoder.scores(query, texts)

    def discard(self, error: DamagedIndex) -> None:
        """Have what reading failed of made anew at the next refresh.

        Not so where it was only another process that changed it meanwhile: then
        the commit is no longer the one that was opened. Vectors are looked at
        again when they are opened, and go alone.
        """
        opened = self._commit_opened
        self.close()
        if isinstance(error, DamagedVectors):
            return
        with contextlib.suppress(OSError):
            if opened is not None and self._lock.acquire(1.0):
                try:
                    found = self._committed()
                    if found is None or found.number == opened.number:
                        self._invalidate()
                finally:
                    self.close()
                    self._lock.release()

    def _invalidate(self) -> None:
        if not self._manifest_file.is_dir():  # such a one is no manifest either
            self._manifest_file.unlink(missing_ok=True)

    def close(self) -> None:
        """Let go of open files."""
        if self._manifest is not None:
            self._manifest.close()
        if self._keyword is not None:
            self._keyword.close()
        self._manifest = self._keyword = self._commit_opened = None

    # What is on disk

    def _open(self) -> bool:
        """Open the index, or keep it open, if it is whole; say whether it can be used.

        While a writer commits, the files are not those of the last commit for a
        moment, so they are looked at a few times.
        """
        for attempt in range(4):
            found = self._committed()
            if found is None or found.fingerprint != self.fingerprint:
                break
            if found.holds(self._keyword_folder):
                opened = self._commit_opened
                if opened is None or opened.number != found.number or self._keyword is None:
                    if self._keyword is not None:
                        self._keyword.close()
                    self._keyword = KeywordIndex(self._keyword_folder)
                self._commit_opened = found
                return True
            time.sleep(_SETTLE * attempt)
        self.close()
        return False

    def _committed(self) -> Commit | None:
        """Return the last commit, the manifest opened or kept open for it; None where none is."""
        try:
            if self._manifest is None or not self._manifest.is_there:
                self.close()
                self._manifest = Manifest(self._manifest_file)
            return self._manifest.committed()
        except (DamagedIndex, OSError):
            self.close()
            return None

    def _known(self) -> dict[str, Known]:
        """Return what is indexed; nothing where the index cannot be used."""
        return self._manifest.known() if self._open() and self._manifest is not None else {}

    def _waiting(self) -> int:
        """Say how many memories wait to be embedded."""
        assert self._manifest is not None
        return len(self._sidecar.pending(self._manifest))

    def _unfinished(self) -> bool:
        """Say whether the vectors are not all there, or not known what they mean."""
        assert self._manifest is not None
        return not self._sidecar.is_ready(self._manifest) or bool(self._waiting())

    def _view(self, overlay: Overlay, embed: bool) -> Snapshot:
        waiting, found = 0, None
        if embed:
            if self._manifest is not None:
                waiting = self._waiting()
                found = self._sidecar.best(waiting, self._manifest)
                if waiting and overlay.alive is not None:
                    overlay.passages.update(self._sidecar.passages(self._manifest))
            if found is None and overlay.passages:
                found = self._sidecar.unwritten()
        keyword = self._keyword or KeywordIndex(None)
        return Snapshot(
            self._store,
            self._manifest,
            keyword,
            found,
            self._sidecar.embedder,
            overlay,
            waiting,
            None if embed else self._with_vectors,
        )

    # Changing it, under the lock

    @contextmanager
    def _locked(self, patience: float) -> Iterator[bool]:
        """Try to take the lock; say whether that succeeded.

        Raises:
            StorageError: nothing can be written where the index lies.
        """
        taken = False
        try:
            if self.place.folder is None:
                raise OSError(errno.EROFS, "it is in memory")
            make_private(self.place.folder)  # someone may have deleted it
            taken = self._lock.acquire(patience)
            yield taken
        except OSError as error:
            self.close()
            raise StorageError(
                f"The index cannot be written: {error.strerror or error}",
                "recall works without it, more slowly",
            ) from error
        finally:
            if taken:
                self._lock.release()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        with self._locked(_WAIT_FOR_BUILDER) as locked:
            if not locked:
                raise TimedOut(
                    "Another process is writing the index", "try again when it has finished"
                )
            yield

    def _update(self, embed: bool, budget: float | None) -> None:
        """Make the index agree with the folder; one that turns out damaged is made anew."""
        for attempt in range(3):
            try:
                if not self._open():
                    self._reset()
                self._apply(embed, budget)
            except DamagedIndex:
                if attempt == 2:
                    raise
                self.close()
                self._invalidate()
            else:
                return

    def _reset(self) -> None:
        """Begin with an empty index."""
        self.close()
        assert self.place.folder is not None
        for entry in os.scandir(self.place.folder):
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path)
            elif entry.name not in KEPT:
                os.unlink(entry.path)
        self._manifest = Manifest(self._manifest_file, new=True)
        self._keyword = KeywordIndex.create(self._keyword_folder)
        self._commit()

    def _apply(self, embed: bool, budget: float | None) -> None:
        assert self._manifest is not None
        assert self._keyword is not None
        found = scan(self._store.root, self._store.settings.ignore)
        plan = self._settled(compare(self._manifest.known(), found))
        old = {state.path: known.uid for known, state in plan.changed}
        todo = [*plan.added, *(state for _, state in plan.changed)]
        removed = list(plan.removed)
        done = 0
        for batch in batches(todo) or ([[]] if removed else []):
            gone = [*removed, *(old[state.path] for state in batch if state.path in old)]
            texts = self._index(batch, gone, done, len(todo))
            removed = []
            done += len(batch)
            self._commit()  # before the embedding, which others need not wait for
            if embed:
                self._embed(texts, 0.0 if done < len(todo) else budget)
        if embed and self._unfinished():
            self._embed({}, budget)
        if plan.size and self._keyword.wasted() > _WASTE:
            self._keyword.apply((), (), merge=True)
            self._commit()

    def _settled(self, plan: Plan) -> Plan:
        """Compare the bytes of files whose state differs or may; a touched one is not changed.

        Memories with the bytes they had keep their uid, terms and vectors.
        """
        assert self._manifest is not None
        changed, same = [], []
        for known, state in (*plan.changed, *plan.doubtful):
            read = read_file(self._store, state)
            if read is not None and read[0].etag == known.etag and known.etag:
                memory, fresh, checked = read
                before = self._manifest.record(known.uid)
                record = Record.of(known.uid, fresh, checked, memory)
                same.append(record._replace(lengths=before.lengths if before else record.lengths))
            else:
                changed.append((known, state))
        if same:
            self._manifest.apply((), same)
            self._commit()
        return plan._replace(changed=changed, doubtful=[])

    def _index(
        self, batch: Sequence[FileState], gone: list[int], done: int, total: int
    ) -> dict[int, list[str]]:
        """Put a batch of files into keyword index and manifest; return their passages by uid."""
        assert self._manifest is not None
        assert self._keyword is not None
        first = self._manifest.next_uid()
        records: list[Record] = []
        texts: dict[int, list[str]] = {}

        def documents() -> Iterable[KeywordDocument]:
            for number, state in enumerate(batch):
                if number % 50 == 0:
                    self._progress("indexing", done + number, total)
                read = read_file(self._store, state)
                if read is None:
                    continue
                memory, fresh, checked = read
                uid = first + len(records)
                made = keyword_documents(uid, memory, self._analyser)
                records.append(Record.of(uid, fresh, checked, memory, field_lengths(made)))
                texts[uid] = passage_texts(memory)
                yield from made

        # All documents first: an error of ours must not pass for a damaged index.
        self._keyword.apply(gone, list(documents()))
        self._manifest.apply(gone, records)
        return texts

    def _embed(self, texts: dict[int, list[str]], budget: float | None) -> None:
        assert self._manifest is not None
        self._sidecar.settle(self._manifest)
        self._sidecar.embed(self._manifest, texts, budget)

    def _commit(self) -> None:
        assert self._manifest is not None
        self._manifest.commit(self.fingerprint, self._keyword_folder)
        self._commit_opened = self._manifest.committed()
