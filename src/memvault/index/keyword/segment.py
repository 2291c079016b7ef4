"""The files of the keyword index: a table per commit, and segments of packed postings.

The files are read with the standard library, without pickle; ``write_segment`` writes a few
documents without Whoosh's writer, which takes 15 ms to load. A segment is a sequence of blocks,
each with the postings of adjacent terms and a checksum, followed by a tail that lists each
document's memory and field lengths, and each block's first key. Looking up a term takes one search
in memory and one read. The table lists a commit's segments, with the checksum of each tail and the
documents deleted since. Damage is therefore detected before any data is used, and raises
``IndexCorrupted``.

Arrays have native byte order; a machine with the other byte order rebuilds its index.
"""

from __future__ import annotations

import errno
import json
import os
import sys
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from pathlib import Path
from struct import Struct
from typing import BinaryIO
from zlib import crc32

from memvault.files.plain_files import RandomAccessFile
from memvault.index.keyword.bm25f import (
    EXACT_FIELD,
    FIELDS,
    KeywordDocument,
    PostingList,
    Segment,
)
from memvault.index.protocol import IndexCorrupted
from memvault.named_tuple import NamedTuple

FIELD_NAMES = (*FIELDS, EXACT_FIELD)
_MARKS = tuple(bytes((0xF8 + field_number,)) for field_number in range(len(FIELD_NAMES)))
"""The last byte of a key, which encodes the field; these byte values never occur in UTF-8."""
_SEPARATOR = b"\xff"
_BLOCK_KEYS = 64
_BLOCK_BYTES = 4096
"""Maximum size of a block's keys and of a block, in bytes, unless a single term is larger."""
_BLOCK_HEAD = Struct("=IIHB")
"""Block header: checksum of the rest, size of the keys, number of keys, width of the counts."""
_TAIL_HEAD = Struct("=IIIB")
"""Tail header: number of documents, number of blocks, size of the first keys, width of lengths."""
_TYPES = {1: "B", 2: "H", 4: "I"}
_NO_TERMS: Counter[str] = Counter()
PREFIX = "MAIN_"
"""The prefix of the names of segments."""
_EXHAUSTED_ERRORS = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
"""Errors not caused by the index: too many open files, out of memory."""

Entry = tuple[bytes, Sequence[int], Sequence[int]]
"""A key, the ascending numbers of the documents that contain it, and its frequency in each
document.
"""


def key_of(field: str, term: str) -> bytes:
    """Return the key of a term in a field. Keys of one term sort together."""
    return term.encode("utf-8", "surrogatepass") + _MARKS[FIELD_NAMES.index(field)]


@contextmanager
def reading() -> Iterator[None]:
    """Map errors while parsing possibly damaged bytes to ``IndexCorrupted``."""
    try:
        yield
    except IndexCorrupted:
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _EXHAUSTED_ERRORS:
            raise
        raise IndexCorrupted(f"{type(error).__name__}: {error}") from error


class SegmentEntry(NamedTuple):
    """A segment in a table: its name, its tail's offset and checksum, and its deleted documents."""

    name: str
    tail: int
    size: int
    check: int
    documents: int
    deleted: tuple[int, ...] = ()

    @property
    def file(self) -> str:
        """Return the file's name."""
        return f"{self.name}.seg"


def encode_table(entries: Iterable[SegmentEntry]) -> bytes:
    """Return the content of a commit's table."""
    content = json.dumps({"byteorder": sys.byteorder, "segments": [*entries]}).encode()
    return b"%08x\n" % crc32(content) + content


def write_table(path: Path, entries: Iterable[SegmentEntry]) -> None:
    """Write a commit's table atomically."""
    new = path.with_name(f"{path.name}.new")
    new.write_bytes(encode_table(entries))
    new.replace(path)


def read_table(path: Path) -> list[SegmentEntry]:
    """Return the segments of a commit.

    Raises:
        IndexCorrupted: if the table is missing, damaged, or from a machine with another byte order.
    """
    with reading():
        check, content = path.read_bytes().split(b"\n", 1)
        if int(check, 16) != crc32(content):
            raise ValueError(f"{path.name} is damaged")
        table = json.loads(content)
        if table["byteorder"] != sys.byteorder:
            raise ValueError("its byte order does not match this machine's")
        return [
            SegmentEntry(name, tail, size, check, documents, tuple(deleted))
            for name, tail, size, check, documents, deleted in table["segments"]
        ]


class Documents(NamedTuple):
    """The documents of a segment: each one's uid, block, and number of terms by field."""

    uids: array[int]
    blocks: array[int]
    lengths: Mapping[str, array[int]]

    @classmethod
    def empty(cls) -> Documents:
        """Return an empty set of documents."""
        return cls(array("q"), array("I"), {name: array("I") for name in FIELD_NAMES})


def _number_type(documents: int) -> str:
    """Return the array type for document numbers and for document counts."""
    return "H" if documents < 1 << 16 else "I"


def _narrow(values: Sequence[int], types: str) -> array[int]:
    """Return values as an array of the first type that is wide enough for them."""
    for kind in types[:-1]:
        try:
            return array(kind, values)
        except OverflowError:
            continue
    return array(types[-1], values)


class PackedWriter:
    """Writes a segment's blocks and tail; ``number_type`` is the array type of document numbers."""

    def __init__(self, file: BinaryIO, documents: Documents) -> None:
        self._file = file
        self._documents = documents
        self._number_type = _number_type(len(documents.uids))
        self._position = 0
        self._offsets = array("Q", (0,))
        self._first_keys: list[bytes] = []
        self._begin_block()

    def _begin_block(self) -> None:
        self._keys: list[bytes] = []
        self._sizes: list[int] = []
        self._pairs = array("I")
        self._key_bytes = 0

    def add(self, key: bytes, pairs: array[int]) -> None:
        """Add the postings of a key as ascending pairs of document number and count.

        Keys must be added in ascending order.
        """
        keys = self._keys
        is_full = len(keys) >= _BLOCK_KEYS or self._size > _BLOCK_BYTES
        if is_full and keys[-1][:-1] != key[:-1]:
            self._end_block()
            keys = self._keys
        keys.append(key)
        self._sizes.append(len(pairs) // 2)
        self._pairs.extend(pairs)
        self._key_bytes += len(key)

    @property
    def _size(self) -> int:
        return self._key_bytes + 3 * len(self._pairs) // 2

    def _end_block(self) -> None:
        keys = _SEPARATOR.join(self._keys)
        numbers = array(self._number_type, self._pairs[::2])
        counts = _narrow(self._pairs[1::2], "BI")
        body = b"".join((keys, array(self._number_type, self._sizes), numbers, counts))
        head = len(keys), len(self._keys), counts.itemsize
        check = crc32(body, crc32(_BLOCK_HEAD.pack(0, *head)))
        self._file.write(_BLOCK_HEAD.pack(check, *head))
        self._file.write(body)
        self._position += _BLOCK_HEAD.size + len(body)
        self._offsets.append(self._position)
        self._first_keys.append(self._keys[0])
        self._begin_block()

    def finish(self, name: str) -> SegmentEntry:
        """Write the tail; return the segment's table entry."""
        if self._keys:
            self._end_block()
        uids, blocks, lengths = self._documents
        columns = [_narrow(lengths[field], "HI") for field in FIELD_NAMES]
        width = max(column.itemsize for column in columns)
        keys = _SEPARATOR.join(self._first_keys)
        tail = b"".join(
            (
                _TAIL_HEAD.pack(len(uids), len(self._first_keys), len(keys), width),
                uids,
                blocks,
                *(array(_TYPES[width], column) for column in columns),
                self._offsets,
                keys,
            )
        )
        self._file.write(tail)
        return SegmentEntry(name, self._position, len(tail), crc32(tail), len(uids))


def write_segment(folder: Path, documents: Sequence[KeywordDocument]) -> SegmentEntry:
    """Write the same segment as Whoosh's writer, without loading it."""
    from whoosh.util.numeric import byte_to_length, length_to_byte

    written = Documents.empty()
    postings: defaultdict[bytes, array[int]] = defaultdict(lambda: array("I"))
    for number, document in enumerate(documents):
        written.uids.append(document.uid)
        written.blocks.append(document.block)
        for name in FIELD_NAMES:
            terms = document.fields.get(name, _NO_TERMS)
            rounded = byte_to_length(length_to_byte(terms.total())) if terms else 0
            written.lengths[name].append(rounded)
            for term, count in terms.items():
                postings[key_of(name, term)].extend((number, count))
    name = f"{PREFIX}{os.urandom(8).hex()}"
    with open(folder / f"{name}.seg", "wb") as file:
        writer = PackedWriter(file, written)
        for key, pairs in sorted(postings.items()):
            writer.add(key, pairs)
        return writer.finish(name)


class _Bytes:
    """Reads consecutive arrays from a byte string."""

    def __init__(self, data: bytes, position: int) -> None:
        self._data = data
        self.position = position

    def take(self, kind: str, count: int) -> array[int]:
        """Return the next values as an array."""
        values = array(kind)
        end = self.position + count * values.itemsize
        values.frombytes(self._data[self.position : end])
        if len(values) != count:
            raise ValueError("it is truncated")
        self.position = end
        return values


class PackedSegment:
    """A segment whose postings are read from its file, which stays open until ``close``.

    Raises:
        IndexCorrupted: if the file is missing or damaged; the methods raise it too.
    """

    def __init__(self, folder: Path, entry: SegmentEntry) -> None:
        self.entry = entry
        with reading():
            # Like SQLite's files, this file is closed even if a library user never closes the
            # vault.
            self._file = RandomAccessFile(folder / entry.file)
            try:
                self._read_tail(self._file.read(entry.tail, entry.size))
            except BaseException:
                self._file.close()
                raise

    def _read_tail(self, data: bytes) -> None:
        if crc32(data) != self.entry.check:
            raise ValueError(f"{self.entry.file} is damaged")
        documents, blocks, key_bytes, width = _TAIL_HEAD.unpack_from(data)
        rest = _Bytes(data, _TAIL_HEAD.size)
        self._number_type = _number_type(documents)
        uids, numbers = rest.take("q", documents), rest.take("I", documents)
        lengths = {name: rest.take(_TYPES[width], documents) for name in FIELD_NAMES}
        self.documents = Documents(uids, numbers, lengths)
        self._offsets = rest.take("Q", blocks + 1)
        keys = data[rest.position : rest.position + key_bytes]
        self._first_keys = keys.split(_SEPARATOR) if blocks else []

    def _block(self, number: int) -> tuple[list[bytes], array[int], _Bytes, int]:
        """Return a block's keys, number of postings per key, postings, and count width."""
        start, end = self._offsets[number : number + 2]
        data = self._file.read(start, end - start)
        check, key_bytes, count, width = _BLOCK_HEAD.unpack_from(data)
        body = data[_BLOCK_HEAD.size :]
        if crc32(body, crc32(_BLOCK_HEAD.pack(0, key_bytes, count, width))) != check:
            raise ValueError(f"{self.entry.file} is damaged")
        rest = _Bytes(body, key_bytes)
        return body[:key_bytes].split(_SEPARATOR), rest.take(self._number_type, count), rest, width

    def find(self, term: str) -> dict[str, PostingList]:
        """Return a term's postings by field, including those of deleted documents."""
        encoded = term.encode("utf-8", "surrogatepass")
        first = encoded + _MARKS[0]
        block = bisect_right(self._first_keys, encoded + _MARKS[-1]) - 1
        if block < 0:
            return {}
        with reading():
            keys, sizes, postings, width = self._block(block)
            at = bisect_left(keys, first)
            matches = []
            for position in range(at, len(keys)):
                if keys[position][:-1] != encoded:
                    break
                matches.append((position, FIELD_NAMES[keys[position][-1] - 0xF8]))
            if not matches:
                return {}
            before, total = sum(sizes[:at]), sum(sizes)
            start = postings.position
            count_start = start + total * sizes.itemsize
            lists = {}
            for position, field in matches:
                size = sizes[position]
                postings.position = start + before * sizes.itemsize
                numbers = postings.take(self._number_type, size)
                postings.position = count_start + before * width
                lists[field] = PostingList(numbers, postings.take(_TYPES[width], size))
                before += size
            return lists

    def entries(self) -> Iterator[Entry]:
        """Yield all keys with their postings, in order, including those of deleted documents."""
        for block in range(len(self._first_keys)):
            with reading():
                keys, sizes, rest, width = self._block(block)
                numbers = rest.take(self._number_type, sum(sizes))
                counts = rest.take(_TYPES[width], sum(sizes))
            end = 0
            for key, size in zip(keys, sizes, strict=True):
                start, end = end, end + size
                yield key, numbers[start:end], counts[start:end]

    def without(self, uids: Set[int]) -> SegmentEntry:
        """Return the table entry with the documents of memories marked as deleted."""
        numbers = (number for number, uid in enumerate(self.documents.uids) if uid in uids)
        deleted = {*self.entry.deleted, *(numbers if uids else ())}
        return self.entry._replace(deleted=tuple(sorted(deleted)))

    def as_segment(self) -> Segment:
        """Return the documents as a ``bm25f.Segment``."""
        uids, blocks, lengths = self.documents
        deleted = frozenset(self.entry.deleted)

        def owner(number: int) -> tuple[int, int]:
            return uids[number], blocks[number]

        return Segment(self.find, lengths, owner, len(uids) - len(deleted), deleted=deleted)

    def close(self) -> None:
        """Close the file."""
        self._file.close()
