"""The vectors and token codes of one embedder, keyed by text hash."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

import numpy as np

from memvault.errors import StorageError
from memvault.files import atomic
from memvault.files.lock import FileLock
from memvault.index.embedding.arrays import Codes, Flags, Hashes, Integers, Matrix, Places
from memvault.index.embedding.embedder import Calibration
from memvault.index.vectors.vector_file import VectorCard, VectorFile

LOCK = "lock"
"""The lock in the parent of the store's folder, held while vectors are added or dropped."""
_MIN_USED_SHARE = 0.5
_MIN_ROWS_TO_COMPACT = 1_000
_ROWS = "rows.i32"
"""The file with the row numbers of the last requested hashes, which the next request usually
repeats. Each row is compared with its hash before use, so a stale file is harmless.
"""
_MIN_REMEMBERED = 1_000
"""The minimum number of hashes for which row numbers are saved."""


class VectorStore:
    """The vectors and token codes of one embedder, keyed by text hash."""

    def __init__(self, file: VectorFile) -> None:
        self._file = file
        self._order: tuple[Hashes, Places, Hashes] | None = None
        """The stored hashes, the indexes that sort them, and the sorted hashes."""
        self._rows = np.zeros(0, np.int32)
        """The content of ``_ROWS``."""
        self._last: tuple[Hashes, Hashes, Integers] | None = None
        """The last requested hashes, the stored hashes at that time, and the row numbers."""

    @classmethod
    def open(cls, folder: Path) -> Self | None:
        """Open the vectors in a folder, or return None if there are no usable vectors."""
        file = VectorFile.open(folder)
        return cls(file) if file is not None else None

    @classmethod
    def create(cls, folder: Path, card: VectorCard) -> Self:
        """Create an empty file, or open the one that another process has just created.

        Raises:
            OSError: if the folder is not writable.
            StorageError: if the parent folder was deleted; it is not recreated.
            TimedOut: if another process holds the lock for too long.
        """
        with _locked(folder):
            return cls(_open_or_create(folder, card))

    @property
    def folder(self) -> Path:
        """Return the folder of the files."""
        return self._file.folder

    @property
    def card(self) -> VectorCard:
        """Return the embedder that computed the vectors, and their number."""
        return self._file.card

    def row_numbers(self, hashes: Hashes) -> Integers:
        """Return the row of each hash, or -1 if missing."""
        _, stored_hashes, _ = self._file.load()
        if self._last is not None and self._last[0] is hashes and self._last[1] is stored_hashes:
            return self._last[2]
        rows = self._remembered(hashes, stored_hashes)
        unknown = np.flatnonzero(rows < 0)
        if len(unknown) and len(stored_hashes):
            rows[unknown] = self._search(hashes[unknown], stored_hashes)
            if len(hashes) > _MIN_REMEMBERED and not np.array_equal(rows, self._rows):
                self._rows = rows.astype(np.int32)
                with atomic.best_effort():
                    file = self.folder / _ROWS
                    atomic.write(file, self._rows.tobytes(), durable=False, makes_folder=False)
        if len(hashes) > _MIN_REMEMBERED:
            self._last = hashes, stored_hashes, rows
        return rows

    def _remembered(self, hashes: Hashes, stored_hashes: Hashes) -> Integers:
        """Return the saved row of each hash, or -1 if the row belongs to another hash."""
        rows = np.full(len(hashes), -1, np.int64)
        if len(hashes) > _MIN_REMEMBERED and len(stored_hashes):
            if not len(self._rows):
                with suppress(OSError):
                    self._rows = np.fromfile(self.folder / _ROWS, np.int32)
            count = min(len(hashes), len(self._rows))
            last = np.clip(self._rows[:count], 0, len(stored_hashes) - 1)
            rows[:count] = np.where(stored_hashes[last] == hashes[:count], last, -1)
        return rows

    def _search(self, hashes: Hashes, stored_hashes: Hashes) -> Integers:
        """Find the rows of hashes by binary search."""
        if self._order is None or self._order[0] is not stored_hashes:
            order = np.argsort(stored_hashes)
            self._order = stored_hashes, order, stored_hashes[order]
        _, order, sorted_hashes = self._order
        ascending = np.argsort(hashes)  # searching in this order takes a tenth of the time
        nearest = np.searchsorted(sorted_hashes, hashes[ascending])
        nearest = np.minimum(nearest, len(sorted_hashes) - 1)
        is_stored = sorted_hashes[nearest] == hashes[ascending]
        rows = np.empty(len(hashes), np.int64)
        rows[ascending] = np.where(is_stored, order[nearest], -1)
        return rows

    def rows(self, rows: Integers) -> Matrix:
        """Return the vectors in the given rows."""
        return self._file.load()[0].decode(rows)

    def score(self, query: Matrix, positions: Integers) -> Matrix:
        """Return the cosine of each row to a query, or nan for a row of -1."""
        rows, _, _ = self._file.load()
        cosines: Matrix = np.append(rows.cosines(query), np.float32(np.nan))[positions]
        return cosines

    def token_codes(self, hashes: Hashes) -> tuple[Codes, Integers]:
        """Return the concatenated token codes of texts, and the number of codes per text."""
        codes = self._file.load_tokens()
        rows = self.row_numbers(hashes)
        _, _, ends = self._file.load()
        bounds = np.append(0, ends).astype(np.int64)
        firsts, lasts = (np.where(rows >= 0, bounds[rows + end], 0) for end in (0, 1))
        return codes.read(firsts, lasts), lasts - firsts

    def add(self, hashes: Hashes, rows: Matrix, codes: Sequence[Codes] = ()) -> None:
        """Add the vectors of texts, except those that another process has just added.

        ``codes`` has the token codes of each text, or is empty. Raises OSError, StorageError or
        TimedOut.
        """
        with self._updating():
            _, stored_hashes, _ = self._file.load()
            _, new = np.unique(hashes, return_index=True)
            if len(stored_hashes):
                new = new[self._search(hashes[new], stored_hashes) < 0]
            if len(new):
                added = [codes[number] for number in new] if codes else []
                lengths = [len(text_codes) for text_codes in added] or [0] * len(new)
                self._file.append(
                    rows[new],
                    hashes[new],
                    self._file.card.tokens + np.cumsum(np.array(lengths, np.uint64)),
                    tokens=np.concatenate(added) if added else None,
                )

    @property
    def is_unchanged(self) -> bool:
        """Whether the files are untouched since they were written, and need no verification."""
        return self._file.is_unchanged

    def record_states(self) -> None:
        """Record the current states of files that were touched.

        Raises OSError, StorageError or TimedOut.
        """
        with self._updating():
            self._file.write_card()

    def store_calibration(self, calibration: Calibration, seconds: float = 30.0) -> None:
        """Write the calibration of the cosines to the card.

        Waits ``seconds`` for the lock. Raises OSError, StorageError or TimedOut.
        """
        with self._updating(seconds):
            self._file.store_calibration(calibration)

    def compact(self, used: Hashes, max_tokens: int) -> None:
        """Drop surplus tokens, and unused vectors if they are more than half of all vectors.

        ``used`` contains the hashes of all texts; the first ones keep their tokens up to
        ``max_tokens``. Raises OSError, StorageError or TimedOut.
        """
        with self._updating():
            rows, hashes, ends = self._file.load()
            is_used = np.isin(hashes, used)
            wasted = self.card.rows > _MIN_ROWS_TO_COMPACT and is_used.mean() < _MIN_USED_SHARE
            if not wasted and self.card.tokens <= max_tokens:
                return
            used_rows = np.flatnonzero(is_used)
            stored: Integers = np.zeros(len(hashes), np.int64)
            if len(ends):
                stored[:] = np.diff(ends, prepend=np.uint64(0))
            order = self._search(used, hashes)
            order = order[order >= 0]
            _, first = np.unique(order, return_index=True)
            order = order[np.sort(first)]
            fits = np.zeros(len(hashes), np.bool_)
            fits[order[np.cumsum(stored[order]) <= max_tokens]] = True
            new_ends = np.cumsum(np.where(fits, stored, 0)[used_rows]).astype(np.uint64)
            starts = np.cumsum(stored) - stored
            codes = self._file.load_tokens().read(starts[fits], (starts + stored)[fits])
            self._file.replace(rows.select(used_rows), hashes[used_rows], new_ends, tokens=codes)

    @contextmanager
    def _updating(self, seconds: float = 30.0) -> Iterator[None]:
        """Hold the lock, and load rows added by other processes.

        A missing or corrupted file is replaced by an empty one.
        """
        with _locked(self._file.folder, seconds):
            previous_card = self.card
            card = previous_card._replace(rows=0, tokens=0, checksums=(), states=(), generation=0)
            self._file = _open_or_create(self._file.folder, card)
            if previous_card.calibration is not None and self.card.calibration is None:
                self._file.store_calibration(previous_card.calibration)
            yield


def are_missing(store: VectorStore | None, hashes: Hashes) -> Flags:
    """Return, for each text, whether a store lacks its vector; None stands for an empty store."""
    return np.full(len(hashes), True) if store is None else store.row_numbers(hashes) < 0


def _open_or_create(folder: Path, card: VectorCard) -> VectorFile:
    file = VectorFile.open(folder)
    if file is not None and file.card.version == card.version:
        return file
    return VectorFile.create(folder, card)


@contextmanager
def _locked(folder: Path, seconds: float = 30.0) -> Iterator[None]:
    """Hold the lock of a store's folder, without recreating a deleted index."""
    try:
        with FileLock(folder.parent / LOCK, seconds, makes_folder=False):
            yield
    except FileNotFoundError as error:
        raise StorageError("The index was deleted while in use", "try again") from error
