"""The blocks of all memories: passages, and the terms and tokens of sentences (``sentences``)."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter

from memvault.index.database import Database
from memvault.index.errors import IndexCorrupted
from memvault.index.sentences import EncodedBlock, tokens_of
from memvault.model import Passage

_MOST = 1 << 20
"""Blocks of one memory; more would be more than 6 GB of text."""
_BLOCK_COLUMNS = "place, first, passages, counts, codes, token_counts, tokens"


class BlockTable:
    """The manifest's table of blocks, by the uid of their memory and their number in it."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def replace(self, removed: Iterable[int], added: Mapping[int, Sequence[EncodedBlock]]) -> None:
        """Take out and put in memories' blocks; the caller has begun a transaction."""
        self._db.execute_each(
            "DELETE FROM blocks WHERE place >= ? AND place < ?",
            [(uid * _MOST, (uid + 1) * _MOST) for uid in removed],
        )
        self._db.execute_each(
            f"INSERT INTO blocks ({_BLOCK_COLUMNS}) VALUES (?, ?, ?, ?, ?, NULL, NULL)",
            (
                (
                    uid * _MOST + number,
                    block.first,
                    json.dumps(block.passages),
                    block.counts.tobytes(),
                    block.codes.tobytes(),
                )
                for uid, blocks in added.items()
                for number, block in enumerate(blocks)
            ),
        )

    def of(self, uid: int, numbers: Sequence[int]) -> list[EncodedBlock]:
        """Return some of a memory's blocks, in the order of ``numbers``, without missing ones."""
        rows = self._db.rows(
            f"SELECT {_BLOCK_COLUMNS} FROM blocks WHERE place IN ({','.join('?' * len(numbers))})",
            [uid * _MOST + number for number in numbers],
        )
        try:
            found = {place % _MOST: _block(*columns) for place, *columns in rows}
        except (ValueError, TypeError) as error:  # not as ``replace`` wrote it
            raise IndexCorrupted(str(error)) from error
        return [found[number] for number in numbers if number in found]

    def block_of_passage(self, uid: int, passage: int) -> int:
        """Return the number of the block that a memory's passage lies in."""
        query = "SELECT max(place) FROM blocks WHERE place >= ? AND place < ? AND first <= ?"
        for (place,) in self._db.rows(query, (uid * _MOST, (uid + 1) * _MOST, passage)):
            return place % _MOST if place is not None else 0
        return 0

    def lacks_tokens(self) -> bool:
        """Say whether any block has no tokens yet."""
        return bool(list(self._db.rows("SELECT place FROM blocks WHERE tokens IS NULL LIMIT 1")))

    def without_tokens(self) -> dict[int, int]:
        """Return how many blocks of which memories have no tokens yet."""
        query = "SELECT place FROM blocks WHERE tokens IS NULL"
        found: dict[int, int] = {}
        for (place,) in self._db.rows(query):
            uid = place // _MOST
            found[uid] = found.get(uid, 0) + 1
        return found

    def store_subwords(self, tokens: Mapping[tuple[int, int], tuple[bytes, bytes]]) -> None:
        """Keep the tokens of blocks, by uid and number: how many each stretch has, and which."""
        with self._db.transaction():
            self._db.execute_each(
                "UPDATE blocks SET token_counts = ?, tokens = ? WHERE place = ?",
                ((*told, uid * _MOST + number) for (uid, number), told in tokens.items()),
            )

    def tokens(self) -> Iterator[bytes]:
        """Yield each memory's tokens."""
        query = f"SELECT place / {_MOST}, tokens FROM blocks WHERE tokens NOT NULL ORDER BY place"
        for _, rows in groupby(self._db.rows(query), key=itemgetter(0)):
            yield b"".join(tokens for _, tokens in rows)

    def frequency(self) -> tuple[bytes, int] | None:
        """Return in how many memories each token was when they were counted, and of how many."""
        found = list(self._db.rows("SELECT holding, memories FROM token_frequency"))
        return (found[0][0], found[0][1]) if found else None

    def count_tokens(self, holding: bytes, memories: int) -> None:
        """Keep in how many of some memories each token is."""
        with self._db.transaction():
            self._db.execute("DELETE FROM token_frequency")
            self._db.execute("INSERT INTO token_frequency VALUES (?, ?)", (holding, memories))


def _block(
    first: int,
    passages: str,
    counts: bytes,
    codes: bytes,
    token_counts: bytes | None,
    tokens: bytes | None,
) -> EncodedBlock:
    told = None
    if token_counts is not None and tokens is not None:
        told = tokens_of(token_counts, tokens)
    places = [Passage(*entry) for entry in json.loads(passages)]
    made = EncodedBlock(first, places, array("H", counts), array("I", codes), told)
    for sizes, held in ((made.counts, made.codes), *([told] if told else [])):
        if sum(sizes) != len(held) or len(sizes) != len(made.counts):
            raise ValueError("a block's stretches do not add up")
    return made
