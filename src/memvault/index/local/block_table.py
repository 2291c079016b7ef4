"""The manifest's table of encoded blocks, and document frequencies of subwords."""

from __future__ import annotations

import json
import zlib
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter

from memvault.index.local.sqlite_file import MAX_VARIABLES, Database, batches, placeholders
from memvault.index.protocol import IndexCorrupted
from memvault.index.text.sentence_blocks import EncodedBlock, decode_subwords
from memvault.model import Passage

_MAX_BLOCKS = 1 << 20
"""The maximum number of blocks of one memory; more blocks would mean over 6 GB of text."""
_MEMORIES_AT_ONCE = 2_000
_BLOCK_COLUMNS = "place, first, passages, counts, codes, token_counts, tokens"


class BlockTable:
    """The manifest's table of blocks, keyed by memory uid and block number."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def replace(self, removed: Iterable[int], added: Mapping[int, Sequence[EncodedBlock]]) -> None:
        """Remove and add the blocks of memories, within the caller's transaction."""
        self._db.execute_each(
            "DELETE FROM blocks WHERE place >= ? AND place < ?",
            [(uid * _MAX_BLOCKS, (uid + 1) * _MAX_BLOCKS) for uid in removed],
        )
        self._db.execute_each(
            f"INSERT INTO blocks ({_BLOCK_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                (
                    uid * _MAX_BLOCKS + number,
                    block.first,
                    json.dumps(block.passages),
                    block.stretch_lengths.tobytes(),
                    block.term_ids.tobytes(),
                    *(part.tobytes() for part in block.subwords or ()),
                    *((None, None) if block.subwords is None else ()),
                )
                for uid, blocks in added.items()
                for number, block in enumerate(blocks)
            ),
        )

    def of(self, numbers_by_uid: Mapping[int, Sequence[int]]) -> dict[int, list[EncodedBlock]]:
        """Return blocks by the uid of their memory, in the order of the requested numbers.

        Missing blocks are omitted.
        """
        keys = [
            uid * _MAX_BLOCKS + number for uid in numbers_by_uid for number in numbers_by_uid[uid]
        ]
        blocks = self._db.cached_each("blocks", keys, self._read)
        return {
            uid: [
                blocks[uid * _MAX_BLOCKS + number]
                for number in numbers
                if uid * _MAX_BLOCKS + number in blocks
            ]
            for uid, numbers in numbers_by_uid.items()
        }

    def _read(self, places: Sequence[int]) -> dict[int, EncodedBlock]:
        blocks: dict[int, EncodedBlock] = {}
        for batch in batches(places):
            query = f"SELECT {_BLOCK_COLUMNS} FROM blocks WHERE place IN ({placeholders(batch)})"
            try:
                blocks |= {key: _block(*columns) for key, *columns in self._db.rows(query, batch)}
            except (ValueError, TypeError) as error:  # ``replace`` never writes such a row
                raise IndexCorrupted(str(error)) from error
        return blocks

    def of_passages(self, passages: Mapping[int, int]) -> dict[int, int]:
        """Return the number of the block that contains the given passage of each memory, by uid."""
        keys = list(passages.items())
        numbers = self._db.cached_each("blocks of passages", keys, self._read_numbers)
        return {uid: number for (uid, _), number in numbers.items()}

    def _read_numbers(self, passages: Sequence[tuple[int, int]]) -> dict[tuple[int, int], int]:
        numbers: dict[tuple[int, int], int] = {}
        size = MAX_VARIABLES // 2
        for start in range(0, len(passages), size):
            batch = passages[start : start + size]
            rows = ",".join(["(?, ?)"] * len(batch))
            query = (
                "SELECT (SELECT max(place) FROM blocks WHERE place >= column1 "
                f"AND place < column1 + {_MAX_BLOCKS} AND first <= column2) FROM (VALUES {rows})"
            )
            values = [value for uid, passage in batch for value in (uid * _MAX_BLOCKS, passage)]
            for key, (place,) in zip(batch, self._db.rows(query, values), strict=True):
                if place is not None:
                    numbers[key] = place % _MAX_BLOCKS
        return numbers

    def has_missing_subwords(self) -> bool:
        """Return whether any block lacks its subwords."""
        return bool(list(self._db.rows("SELECT place FROM blocks WHERE tokens IS NULL LIMIT 1")))

    def missing_subwords(self) -> dict[int, int]:
        """Return the numbers of blocks without subwords, by the uid of their memory."""
        query = "SELECT place FROM blocks WHERE tokens IS NULL"
        counts: dict[int, int] = {}
        for (key,) in self._db.rows(query):
            uid = key // _MAX_BLOCKS
            counts[uid] = counts.get(uid, 0) + 1
        return counts

    def store_subwords(self, tokens: Mapping[tuple[int, int], tuple[bytes, bytes]]) -> None:
        """Store the subword counts and ids of blocks, keyed by memory uid and block number."""
        with self._db.transaction():
            self._db.execute_each(
                "UPDATE blocks SET token_counts = ?, tokens = ? WHERE place = ?",
                (
                    (*encoded, uid * _MAX_BLOCKS + number)
                    for (uid, number), encoded in tokens.items()
                ),
            )

    def subwords(self) -> Iterator[list[array[int]]]:
        """Yield the subwords of each memory, in batches."""
        query = (
            f"SELECT place / {_MAX_BLOCKS}, tokens FROM blocks "
            "WHERE tokens NOT NULL AND place >= ? AND place < ? ORDER BY place"
        )
        (last,) = next(self._db.rows("SELECT max(place) FROM blocks"))
        step = _MEMORIES_AT_ONCE * _MAX_BLOCKS
        for start in range(0, (last or 0) + 1, step):
            rows = self._db.rows(query, (start, start + step))
            yield [
                array("H", b"".join(tokens for _, tokens in memory_rows))
                for _, memory_rows in groupby(rows, key=itemgetter(0))
            ]

    def document_frequency(self) -> tuple[bytes, int] | None:
        """Return how many memories contain each subword, and the number of memories counted.

        The result is None if subwords were never counted.
        """
        return self._db.cached("frequency", self._document_frequency)

    def _document_frequency(self) -> tuple[bytes, int] | None:
        for packed, memories in self._db.rows("SELECT holding, memories FROM token_frequency"):
            try:
                return zlib.decompress(packed), memories
            # ``store_document_frequency`` never writes such a row.
            except (zlib.error, TypeError) as error:
                raise IndexCorrupted(str(error)) from error
        return None

    def store_document_frequency(self, holding: bytes, memories: int) -> None:
        """Store how many of the given number of memories contain each subword."""
        with self._db.transaction():
            self._db.execute("DELETE FROM token_frequency")
            packed = zlib.compress(holding, 1)  # compresses well, because most counts are 0
            self._db.execute("INSERT INTO token_frequency VALUES (?, ?)", (packed, memories))


def _block(
    first: int,
    passages: str,
    counts: bytes,
    codes: bytes,
    token_counts: bytes | None,
    tokens: bytes | None,
) -> EncodedBlock:
    subwords = None
    if token_counts is not None and tokens is not None:
        subwords = decode_subwords(token_counts, tokens)
    spans = [Passage(*entry) for entry in json.loads(passages)]
    block = EncodedBlock(first, spans, array("H", counts), array("I", codes), subwords)
    compared = sum(block.stretch_lengths)
    if compared > len(block.term_ids):  # the codes of a link list may follow
        raise ValueError("a block has fewer terms than its stretches")
    if subwords and (sum(subwords[0]), len(subwords[0])) != (
        len(subwords[1]),
        len(block.stretch_lengths),
    ):
        raise ValueError("a block's subword counts do not match its subwords")
    return block
