"""The manifest's table of passage hashes, which are the keys of the passages' vectors."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from memvault.index.local.sqlite_file import Database
from memvault.index.protocol import IndexCorrupted
from memvault.named_tuple import NamedTuple

if TYPE_CHECKING:
    from memvault.index.embedding.arrays import Hashes, Integers

_UIDS = 512
"""The number of memories in one row, by uid. Reading a row for each of 10,000 memories took 7 ms;
this takes 0.2 ms.
"""


class Passages(NamedTuple):
    """The passages of all memories, in ascending order of uid: each one's uid and text hash."""

    uids: Integers
    hashes: Hashes

    @property
    def numbers(self) -> Integers:
        """Each passage's number within its memory, from 0."""
        import numpy as np

        return np.arange(len(self.uids)) - np.searchsorted(self.uids, self.uids)


class PassageTable:
    """The manifest's table of passages: their hashes, and each memory's number of passages."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def replace(self, removed: Iterable[int], added: Mapping[int, array[int]]) -> None:
        """Remove and add the hashes of memories; the caller must have begun a transaction."""
        changes = {**dict.fromkeys(removed, array("Q")), **added}
        rows = {}
        for uid in sorted(changes):
            number, position = divmod(uid, _UIDS)
            if number not in rows:
                rows[number] = self._row(number)
            counts, hashes = rows[number]
            start = sum(counts[:position])
            hashes[start : start + counts[position]] = changes[uid]
            counts[position] = len(changes[uid])
        self._db.execute_each(
            "INSERT OR REPLACE INTO passages VALUES (?, ?, ?)",
            ((number, *(part.tobytes() for part in row)) for number, row in rows.items()),
        )
        self._db.execute_each(
            "DELETE FROM passages WHERE number = ?",
            [(number,) for number, (_, hashes) in rows.items() if not hashes],
        )

    def _row(self, number: int) -> tuple[array[int], array[int]]:
        query = "SELECT counts, hashes FROM passages WHERE number = ?"
        for counts, hashes in self._db.rows(query, (number,)):
            row = array("I", counts), array("Q", hashes)
            if len(row[0]) != _UIDS or sum(row[0]) != len(row[1]):
                raise IndexCorrupted("the passage counts do not match the hashes")
            return row
        return array("I", bytes(_UIDS * array("I").itemsize)), array("Q")

    def all(self) -> Passages:
        """Return the passages of all memories."""
        return self._db.cached("passages", self._all)

    def _all(self) -> Passages:
        import numpy as np

        rows = list(self._db.rows("SELECT number, counts, hashes FROM passages ORDER BY number"))
        try:
            counts, hashes = (b"".join(row[column] for row in rows) for column in (1, 2))
            first_uids = np.array([number for number, *_ in rows], np.int64) * _UIDS
            uids = (first_uids[:, None] + np.arange(_UIDS)).ravel()
            passages = Passages(
                np.repeat(uids, np.frombuffer(counts, np.uint32)), np.frombuffer(hashes, np.uint64)
            )
        except (ValueError, TypeError) as error:  # ``replace`` never writes such a row
            raise IndexCorrupted(str(error)) from error
        if len(passages.uids) != len(passages.hashes):
            raise IndexCorrupted("the passage counts do not match the hashes")
        return passages
