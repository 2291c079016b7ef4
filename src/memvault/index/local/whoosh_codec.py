"""Whoosh's side of the keyword index: a codec whose segments are packed arrays, and its writer.

Whoosh numbers documents, marks deleted ones, decides which segments are merged, and merges them.
Its own codec, its table of segments and its sorting of postings are replaced: they cost most of its
time, and are pickles. Reading the index needs nothing of this (``packed_segment``).
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence, Set
from pathlib import Path
from threading import Lock
from types import SimpleNamespace
from typing import Any

from whoosh.codec import base
from whoosh.fields import STORED, FieldType, Schema
from whoosh.filedb.filestore import FileStorage
from whoosh.formats import Existence
from whoosh.index import TOC, Index
from whoosh.matching import ListMatcher
from whoosh.reading import TermInfo
from whoosh.util.numeric import byte_to_length, length_to_byte
from whoosh.writing import SegmentWriter

from memvault.index.local.packed_segment import (
    FIELD_NAMES,
    Documents,
    PackedSegment,
    PackedWriter,
    SegmentEntry,
    encode_table,
    field_and_term,
    key_of,
)
from memvault.index.text.bm25f import PostingList

_NAME = "MAIN"
Item = tuple[str, Any, int, float, bytes]
"""A field, a term or the counts of all terms, a document's number, its weight, and no value."""


class Bag(FieldType):  # type: ignore[misc]  # Whoosh's classes are only partly typed
    """A field of already counted terms: no analyser, no positions, the count as the weight."""

    def __init__(self) -> None:
        super().__init__(format=Existence(), analyzer=None, scorable=True)

    def index(
        self,
        value: Counter[str],
        **kwargs: Any,  # noqa: ARG002  # Whoosh's signature
    ) -> Iterator[tuple[Counter[str], int, float, bytes]]:
        """Yield all terms as one item, which ``Postings`` takes."""
        yield value, value.total(), 1.0, b""


SCHEMA = Schema(uid=STORED(), **{name: Bag() for name in FIELD_NAMES})


class Postings:
    """The postings of a new segment; takes the place of Whoosh's pool, which sorts tuples."""

    def __init__(self) -> None:
        self._pairs: dict[str, defaultdict[str, array[int]]] = {
            name: defaultdict(lambda: array("I")) for name in FIELD_NAMES
        }

    def add(self, item: Item) -> None:
        """Add the terms of a field of a document, or, from a merged segment, one encoded term."""
        name, terms, number, weight, _ = item
        pairs = self._pairs[name]
        if isinstance(terms, bytes):
            terms = {terms.decode("utf-8", "surrogatepass"): int(weight)}
        for term, count in terms.items():
            pair = pairs[term]
            pair.append(number)
            pair.append(count)

    def iter_postings(self) -> Iterator[tuple[bytes, array[int]]]:
        """Yield each key with its postings, each a document's number and a count, in order."""
        found = {
            key_of(name, term): pair
            for name, pairs in self._pairs.items()
            for term, pair in pairs.items()
        }
        yield from sorted(found.items())

    def cleanup(self) -> None:
        """Do nothing: there are no temporary files."""


class WhooshSegment(base.Segment):  # type: ignore[misc]
    """A segment of Whoosh's: its documents while it is written, its open file once it exists."""

    def __init__(self, packed: PackedSegment | None = None) -> None:
        super().__init__(_NAME)
        self.new_documents = Documents.empty()
        self.entry: SegmentEntry | None = None
        self.packed = packed
        self._deleted: set[int] = set()
        if packed is not None:
            self.entry = packed.entry
            self.segid = packed.entry.name.removeprefix(f"{_NAME}_")
            self._deleted.update(packed.entry.deleted)

    def codec(self) -> Codec:
        """Return the codec that reads it."""
        return Codec()

    def should_assemble(self) -> bool:
        """Return False: it is one file."""
        return False

    def set_doc_count(self, count: int) -> None:
        """Do nothing: the documents are counted."""

    def doc_count_all(self) -> int:
        """Return the number of documents, including deleted ones."""
        return self.entry.documents if self.entry else len(self.new_documents.uids)

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
        """Return its entry in the table of the next commit."""
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
        """Remove the document that was begun last."""
        for column in (
            self._documents.uids,
            self._documents.blocks,
            *self._documents.lengths.values(),
        ):
            column.pop()

    def close(self) -> None:
        """End the documents."""
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
        """End the segment."""
        self.is_closed = True


class _PerDocumentReader(base.PerDocumentReader):  # type: ignore[misc]
    def __init__(self, segment: WhooshSegment) -> None:
        assert segment.packed is not None
        self._segment = segment
        self._documents = segment.packed.documents

    def doc_count(self) -> int:
        """Return the number of documents that are not deleted."""
        return int(self._segment.doc_count())

    def doc_count_all(self) -> int:
        """Return the number of documents, including deleted ones."""
        return self._segment.doc_count_all()

    def has_deletions(self) -> bool:
        """Return whether any document is deleted."""
        return bool(self._segment.has_deletions())

    def is_deleted(self, number: int) -> bool:
        """Return whether a document is deleted."""
        return self._segment.is_deleted(number)

    def deleted_docs(self) -> Set[int]:
        """Return the numbers of the deleted documents."""
        return self._segment.deleted_docs()

    def doc_field_length(self, number: int, name: str, default: int = 0) -> int:
        """Return the length of a document's field."""
        column = self._documents.lengths.get(name)
        return column[number] if column is not None else default

    def stored_fields(self, number: int) -> dict[str, tuple[int, int]]:
        """Return the uid and block of a document."""
        return {"uid": (self._documents.uids[number], self._documents.blocks[number])}


class _TermsReader(base.TermsReader):  # type: ignore[misc]
    def __init__(self, segment: WhooshSegment) -> None:
        assert segment.packed is not None
        self._packed = segment.packed
        self._last: tuple[tuple[str, bytes], PostingList] | None = None

    def _postings(self, name: str, term: bytes) -> PostingList:
        if self._last is None or self._last[0] != (name, term):
            found = self._packed.find(term.decode("utf-8", "surrogatepass"))
            self._last = (name, term), found.get(name, PostingList((), ()))
        return self._last[1]

    def __contains__(self, key: tuple[str, bytes]) -> bool:
        return bool(self._postings(*key).numbers)

    def indexed_field_names(self) -> Sequence[str]:
        """Return the names of the fields with terms."""
        return FIELD_NAMES

    def terms(self) -> Iterator[tuple[str, bytes]]:
        """Yield each field and term, by term."""
        for key, numbers, counts in self._packed.entries():
            name, term = field_and_term(key)
            self._last = (name, term), PostingList(numbers, counts)
            yield name, term

    def term_info(self, name: str, term: bytes) -> TermInfo:
        """Return how often a term occurs, and in how many documents."""
        numbers, counts = self._postings(name, term)
        return TermInfo(weight=sum(counts), df=len(numbers))

    def doc_frequency(self, name: str, term: bytes) -> int:
        """Return the number of documents that contain a term."""
        return len(self._postings(name, term).numbers)

    def matcher(self, name: str, term: bytes, format_: Any, scorer: Any = None) -> ListMatcher:
        """Return a matcher over the postings of a term, without values."""
        numbers, counts = self._postings(name, term)
        weights = [float(count) for count in counts]
        values = [b""] * len(numbers)
        key = (name, term)
        return ListMatcher(numbers, weights, values, format=format_, scorer=scorer, term=key)


class Codec(base.Codec):  # type: ignore[misc]
    """Segments of packed arrays, one file each."""

    length_stats = False

    def per_document_writer(self, storage: Any, segment: WhooshSegment) -> _PerDocumentWriter:  # noqa: ARG002
        """Return the writer of a new segment's documents."""
        return _PerDocumentWriter(segment.new_documents)

    def field_writer(self, storage: Any, segment: WhooshSegment) -> _FieldWriter:
        """Return the writer of a new segment's postings, and of its file."""
        return _FieldWriter(storage, segment)

    def per_document_reader(self, storage: Any, segment: WhooshSegment) -> _PerDocumentReader:  # noqa: ARG002
        """Return the reader of a segment's documents."""
        return _PerDocumentReader(segment)

    def terms_reader(self, storage: Any, segment: WhooshSegment) -> _TermsReader:  # noqa: ARG002
        """Return the reader of a segment's postings."""
        return _TermsReader(segment)

    def new_segment(self, storage: Any, indexname: str) -> WhooshSegment:  # noqa: ARG002
        """Return a segment without documents."""
        return WhooshSegment()


class _Storage(FileStorage):  # type: ignore[misc]
    def lock(self, name: str) -> Any:  # noqa: ARG002 - Whoosh's signature
        """Return a lock of this process: writers hold the index's lock on any file system."""
        return Lock()

    def temp_storage(self, name: str | None = None) -> Any:  # noqa: ARG002 - Whoosh's signature
        """Return no folder: no temporary files are written."""
        return SimpleNamespace(destroy=lambda: None)


class _CommittedIndex(Index):  # type: ignore[misc]
    """The segments of one commit, as Whoosh's writer takes them."""

    indexname = _NAME

    def __init__(self, folder: Path, segments: Sequence[PackedSegment]) -> None:
        self.storage = _Storage(str(folder))
        self._toc = TOC(SCHEMA, [WhooshSegment(one) for one in segments], 0)

    def lock(self, name: str) -> Any:
        """Return a lock."""
        return self.storage.lock(name)

    def _read_toc(self) -> TOC:
        return self._toc


class Writer(SegmentWriter):  # type: ignore[misc]
    """Writes the commit after that of some segments; ``table`` is the path of its table."""

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

    def _commit_toc(self, segments: Sequence[WhooshSegment]) -> None:
        write_table(self._table, [segment.table_entry() for segment in segments])


def write_table(path: Path, entries: Iterable[SegmentEntry]) -> None:
    """Write the table of a commit, whole or not at all."""
    storage = _Storage(str(path.parent))
    with storage.create_file(f"{path.name}.new") as file:
        file.write(encode_table(entries))
    storage.rename_file(f"{path.name}.new", path.name, safe=False)
