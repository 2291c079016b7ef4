"""Whoosh's part of the keyword index: a codec that writes packed arrays, and its writer.

Whoosh numbers documents, marks deleted ones, and writes segments. This module replaces Whoosh's
codec, its segment table, and its sorting and merging of postings, which take most of Whoosh's time
and memory and use pickle. Reading the index and adding a few documents do not import this module
(see ``segment``).
"""

from __future__ import annotations

import heapq
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence, Set
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from threading import Lock
from types import SimpleNamespace
from typing import Any

from whoosh.codec import base
from whoosh.fields import STORED, FieldType, Schema
from whoosh.filedb.filestore import FileStorage
from whoosh.formats import Existence
from whoosh.index import TOC, Index
from whoosh.util.numeric import byte_to_length, length_to_byte
from whoosh.writing import SegmentWriter

from memvault.index.keyword.segment import (
    FIELD_NAMES,
    PREFIX,
    Documents,
    PackedSegment,
    PackedWriter,
    SegmentEntry,
    key_of,
    write_table,
)

_NAME = PREFIX.removesuffix("_")
Item = tuple[str, Counter[str], int, float, bytes]
"""A field, its term counts, a document number, and the value that Whoosh would store for a term."""


class Bag(FieldType):  # type: ignore[misc]  # Whoosh's classes are only partly typed
    """A field whose terms are already counted: no analyzer, no positions, the count as weight."""

    def __init__(self) -> None:
        super().__init__(format=Existence(), analyzer=None, scorable=True)

    def index(
        self,
        value: Counter[str],
        **kwargs: Any,  # noqa: ARG002  # Whoosh's signature
    ) -> Iterator[tuple[Counter[str], int, float, bytes]]:
        """Yield all terms as one item for ``Postings``."""
        yield value, value.total(), 1.0, b""


SCHEMA = Schema(uid=STORED(), **{name: Bag() for name in FIELD_NAMES})


class Postings:
    """The postings of a new segment; replaces Whoosh's pool, which sorts tuples."""

    def __init__(self) -> None:
        self._pairs: dict[str, defaultdict[str, array[int]]] = {
            name: defaultdict(lambda: array("I")) for name in FIELD_NAMES
        }

    def add(self, item: Item) -> None:
        """Add the terms of a document's field."""
        name, terms, number, _, _ = item
        pairs = self._pairs[name]
        for term, count in terms.items():
            pair = pairs[term]
            pair.append(number)
            pair.append(count)

    def iter_postings(self) -> Iterator[tuple[bytes, array[int]]]:
        """Yield each key in order with its pairs of document number and count."""
        counts = {
            key_of(name, term): pair
            for name, pairs in self._pairs.items()
            for term, pair in pairs.items()
        }
        yield from sorted(counts.items())

    def cleanup(self) -> None:
        """Do nothing: there are no temporary files."""


class WhooshSegment(base.Segment):  # type: ignore[misc]
    """A Whoosh segment: its documents while it is being written, then its open file."""

    def __init__(self, packed: PackedSegment | None = None) -> None:
        super().__init__(_NAME)
        self.new_documents = Documents.empty()
        self.entry: SegmentEntry | None = None
        self.packed = packed
        self._deleted: set[int] = set()
        if packed is not None:
            self.entry = packed.entry
            self.segid = packed.entry.name.removeprefix(PREFIX)
            self._deleted.update(packed.entry.deleted)

    def codec(self) -> Codec:
        """Return the codec that reads this segment."""
        return Codec()

    def should_assemble(self) -> bool:
        """Return False: the segment is already one file."""
        return False

    def set_doc_count(self, count: int) -> None:
        """Do nothing: documents are counted as they are added."""

    def doc_count_all(self) -> int:
        """Return the number of documents, including deleted ones."""
        return self.entry.documents if self.entry else len(self.new_documents.uids)

    def add_documents(self, segment: WhooshSegment) -> list[int | None]:
        """Add the documents of another segment that are not deleted; return their new numbers."""
        assert segment.packed is not None
        old, new = segment.packed.documents, self.new_documents
        numbers: list[int | None] = []
        for number in range(len(old.uids)):
            if number in segment.deleted_docs():
                numbers.append(None)
                continue
            numbers.append(len(new.uids))
            new.uids.append(old.uids[number])
            new.blocks.append(old.blocks[number])
            for name, column in new.lengths.items():
                column.append(old.lengths[name][number])
        return numbers

    def deleted_count(self) -> int:
        """Return the number of deleted documents."""
        return len(self._deleted)

    def deleted_docs(self) -> Set[int]:
        """Return the numbers of the deleted documents."""
        return self._deleted

    def delete_document(self, number: int, delete: bool = True) -> None:
        """Mark a document as deleted, or as not deleted."""
        (self._deleted.add if delete else self._deleted.discard)(number)

    def is_deleted(self, number: int) -> bool:
        """Return whether a document is deleted."""
        return number in self._deleted

    def table_entry(self) -> SegmentEntry:
        """Return the segment's entry in the table of the next commit."""
        assert self.entry is not None
        return self.entry._replace(deleted=tuple(sorted(self._deleted)))


class _PerDocumentWriter(base.PerDocumentWriter):  # type: ignore[misc]
    is_closed = False

    def __init__(self, documents: Documents) -> None:
        self._documents = documents

    def start_doc(self, number: int) -> None:
        """Begin a document without any field."""
        assert number == len(self._documents.uids)
        self._documents.uids.append(0)
        self._documents.blocks.append(0)
        for column in self._documents.lengths.values():
            column.append(0)

    def add_field(self, name: str, field: Any, value: Any, length: int) -> None:  # noqa: ARG002
        """Set a field's length, rounded to one of 256 values, or the document's uid and block."""
        if value is not None:
            self._documents.uids[-1], self._documents.blocks[-1] = value
        if length:
            self._documents.lengths[name][-1] = byte_to_length(length_to_byte(length))

    def cancel_doc(self) -> None:
        """Remove the most recently started document."""
        for column in (
            self._documents.uids,
            self._documents.blocks,
            *self._documents.lengths.values(),
        ):
            column.pop()

    def close(self) -> None:
        """Finish writing documents."""
        self.is_closed = True


class _FieldWriter(base.FieldWriter):  # type: ignore[misc]
    is_closed = False

    def __init__(self, storage: Any, segment: WhooshSegment) -> None:
        self._storage, self._segment = storage, segment

    def add_postings(
        self,
        schema: Schema,  # noqa: ARG002  # Whoosh's signature
        lengths: Any,  # noqa: ARG002
        items: Iterable[tuple[bytes, array[int]]],
    ) -> None:
        """Write the file of a segment."""
        name = self._segment.segment_id()
        with self._segment.create_file(self._storage, ".seg") as file:
            writer = PackedWriter(file, self._segment.new_documents)
            for key, pairs in items:
                writer.add(key, pairs)
            self._segment.entry = writer.finish(name)

    def close(self) -> None:
        """Finish the segment."""
        self.is_closed = True


class Codec(base.Codec):  # type: ignore[misc]
    """A codec with one file of packed arrays per segment."""

    length_stats = False

    def per_document_writer(self, storage: Any, segment: WhooshSegment) -> _PerDocumentWriter:  # noqa: ARG002
        """Return the writer of a new segment's documents."""
        return _PerDocumentWriter(segment.new_documents)

    def field_writer(self, storage: Any, segment: WhooshSegment) -> _FieldWriter:
        """Return the writer of a new segment's postings and file."""
        return _FieldWriter(storage, segment)

    def new_segment(self, storage: Any, indexname: str) -> WhooshSegment:  # noqa: ARG002
        """Return a segment without documents."""
        return WhooshSegment()


class _Storage(FileStorage):  # type: ignore[misc]
    def lock(self, name: str) -> Any:  # noqa: ARG002 - Whoosh's signature
        """Return a lock within this process; the index's own lock excludes other processes."""
        return Lock()

    def temp_storage(self, name: str | None = None) -> Any:  # noqa: ARG002 - Whoosh's signature
        """Return a dummy storage, because no temporary files are written."""
        return SimpleNamespace(destroy=lambda: None)


class _CommittedIndex(Index):  # type: ignore[misc]
    """The segments of one commit, in the form that Whoosh's writer expects."""

    indexname = _NAME

    def __init__(self, folder: Path, segments: Sequence[PackedSegment]) -> None:
        self.storage = _Storage(str(folder))
        self._toc = TOC(SCHEMA, [WhooshSegment(segment) for segment in segments], 0)

    def lock(self, name: str) -> Any:
        """Return a lock."""
        return self.storage.lock(name)

    def _read_toc(self) -> TOC:
        return self._toc


class Writer(SegmentWriter):  # type: ignore[misc]
    """Writes the commit that follows the given segments; ``table`` is the path of its table."""

    def __init__(self, table: Path, segments: Sequence[PackedSegment]) -> None:
        super().__init__(_CommittedIndex(table.parent, segments), codec=Codec())
        self.pool = Postings()
        self._table = table

    def delete_memories(self, uids: Set[int]) -> None:
        """Mark the documents of memories as deleted."""
        for segment in self.segments if uids else ():
            for number, uid in enumerate(segment.packed.documents.uids):
                if uid in uids:
                    segment.delete_document(number)

    def commit_merged(self, everything: bool) -> None:
        """Commit, after merging all earlier segments or those that ``run_to_merge`` selects."""

        def merged(_: SegmentWriter, segments: list[WhooshSegment]) -> list[WhooshSegment]:
            first, last = 0, len(segments)
            if not everything:
                first, last = run_to_merge([segment.doc_count() for segment in segments])
            if last - first < 2 and not everything:
                return segments
            made = merge_segments(self.storage, segments[first:last])
            return [*segments[:first], *([made] if made.doc_count_all() else []), *segments[last:]]

        self.commit(mergetype=merged)

    def _commit_toc(self, segments: Sequence[WhooshSegment]) -> None:
        write_table(self._table, [segment.table_entry() for segment in segments])


def run_to_merge(sizes: Sequence[int]) -> tuple[int, int]:
    """Return the bounds of the longest run of segments to merge.

    In the run, each segment is at most twice the combined size of those after it. Only adjacent
    segments are merged, which keeps documents in commit order. The sizes of the remaining segments
    at least triple, so a document is merged only a few times.
    """
    best = 0, 0
    for last in range(len(sizes), 0, -1):
        first = last - 1
        total = sizes[first]
        while first and sizes[first - 1] <= 2 * total:
            first -= 1
            total += sizes[first]
        if last - first > best[1] - best[0]:
            best = first, last
    return best


def merge_segments(storage: FileStorage, segments: Sequence[WhooshSegment]) -> WhooshSegment:
    """Write one segment with the documents of several, term by term."""
    made = WhooshSegment()
    numbers = [made.add_documents(segment).__getitem__ for segment in segments]
    entries = heapq.merge(
        *(_numbered(segment_number, segment) for segment_number, segment in enumerate(segments)),
        key=itemgetter(0, 1),
    )
    with made.create_file(storage, ".seg") as file:
        writer = PackedWriter(file, made.new_documents)
        for key, group in groupby(entries, key=itemgetter(0)):
            pairs = array("I")
            for _, segment_number, old, counts in group:
                for number, count in zip(map(numbers[segment_number], old), counts, strict=True):
                    if number is not None:
                        pairs.append(number)
                        pairs.append(count)
            if pairs:
                writer.add(key, pairs)
        made.entry = writer.finish(made.segment_id())
    return made


def _numbered(
    segment_number: int, segment: WhooshSegment
) -> Iterator[tuple[bytes, int, Sequence[int], Sequence[int]]]:
    assert segment.packed is not None
    for key, numbers, counts in segment.packed.entries():
        yield key, segment_number, numbers, counts
