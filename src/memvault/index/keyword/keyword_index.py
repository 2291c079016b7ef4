"""The keyword index: written by Whoosh, read without it, and ranked by ``bm25f``.

A memory is one document per block of its text (almost always one), with fields for title, headings,
body, tags and exact identifiers. Terms come from ``text.analyzer``, because Whoosh spends most of
its run time in its own analyzers.

A ``KeywordIndex`` is the index of one commit. ``apply`` writes the next commit beside it, and other
processes read the previous commit until the manifest lists the new files. The next ``apply``
deletes files that no commit lists.
"""

from __future__ import annotations

import os
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from itertools import accumulate
from pathlib import Path

from memvault.files.plain_files import FileStamp, stamp_of
from memvault.index.keyword import bm25f
from memvault.index.keyword.bm25f import (
    FoundTerm,
    KeywordDocument,
    QueryTerm,
    Scored,
    Segment,
    query_terms,
)
from memvault.index.keyword.segment import (
    PackedSegment,
    SegmentEntry,
    read_table,
    write_segment,
    write_table,
)
from memvault.index.protocol import IndexCorrupted, KeywordAnswer, KeywordHit, KeywordQuery

_MAX_SEGMENTS = 12
_MAX_DELETED_SHARE = 0.5
_FEW_DOCUMENTS = 50
"""The maximum number of documents that are written without loading Whoosh's writer."""
_MAX_BLOCKS = 3
"""The maximum number of best-matching blocks per memory in a hit."""
_FEW_POSTINGS = 2_000
"""The number of postings above which numpy is faster, if it is already imported."""
_MANY_POSTINGS = 200_000
"""The number of postings above which numpy is faster, even if it must be imported first."""
_PREFIX, _SUFFIX = "_MAIN_", ".toc"
"""Prefix and suffix of a table's name, around its number."""


class KeywordIndex:
    """The keyword index of a commit in a folder, opened on first use; empty without a folder.

    ``files`` contains the names of the commit's files, including its table.
    """

    def __init__(self, folder: Path | None, files: Iterable[str] = ()) -> None:
        self._folder = folder
        self._number = max(map(_number_of, files), default=-1)
        self._segments: list[PackedSegment] | None = None

    @classmethod
    def create(cls, folder: Path) -> KeywordIndex:
        """Create an empty index in an empty folder."""
        folder.mkdir(parents=True, exist_ok=True)
        name = _table_name(0)
        write_table(folder / name, ())
        return cls(folder, [name])

    def apply(self, removed: Iterable[int], added: Sequence[KeywordDocument]) -> KeywordIndex:
        """Remove memories and add documents; return the changed index.

        Segments are merged if there are many, or if deleted documents take up most of the space.

        Raises:
            IndexCorrupted: if a file of this index is missing or damaged.
        """
        assert self._folder is not None
        following = KeywordIndex(self._folder, [_table_name(self._number + 1)])
        try:
            segments = self._opened()
            _delete_except(
                self._folder, {self._table, *(segment.entry.file for segment in segments)}
            )
            table = self._folder / following._table
            uids = {*removed}
            entries = [segment.without(uids) for segment in segments]
            deleted = sum(len(entry.deleted) for entry in entries)
            stored = sum(entry.documents for entry in entries)
            is_wasteful = deleted > _MAX_DELETED_SHARE * (stored + len(added))
            merges = is_wasteful or len(segments) >= _MAX_SEGMENTS
            if not merges and len(added) <= _FEW_DOCUMENTS:
                if added:
                    entries.append(write_segment(self._folder, added))
                write_table(table, entries)
                return following
            from memvault.index.keyword.segment_writer import Writer

            writer = Writer(table, segments)
            try:
                writer.delete_memories(uids)
                for document in added:
                    writer.add_document(
                        uid=(document.uid, document.block),
                        **{name: terms for name, terms in document.fields.items() if terms},
                    )
            except BaseException:
                writer.cancel()
                raise
            if merges:
                writer.commit_merged(everything=is_wasteful)
            else:
                writer.commit(merge=False)
        finally:
            self.close()
        return following

    @property
    def _table(self) -> str:
        return _table_name(self._number)

    def _entries(self) -> list[SegmentEntry]:
        if self._folder is None:
            return []
        if self._number < 0:
            raise IndexCorrupted("the commit lists no keyword index table")
        return read_table(self._folder / self._table)

    def _opened(self) -> list[PackedSegment]:
        """Return the segments, opened on first use."""
        if self._segments is None:
            folder = self._folder or Path()
            with ExitStack() as opened:
                segments = [
                    opened.enter_context(closing(PackedSegment(folder, entry)))
                    for entry in self._entries()
                ]
                opened.pop_all()  # keep them open until ``close``
            self._segments = segments
        return self._segments

    def files(self) -> dict[str, FileStamp]:
        """Return the states of its files, by name."""
        if self._folder is None:
            return {}
        names = [self._table, *(entry.file for entry in self._entries())]
        states = {name: stamp_of(self._folder / name) for name in names}
        return {name: state for name, state in states.items() if state is not None}

    def candidates(self, query: KeywordQuery) -> list[Segment]:  # noqa: ARG002 - all are candidates
        """Return the segments, with all documents.

        Raises:
            IndexCorrupted: if a file is missing or damaged.
        """
        return [segment.as_segment() for segment in self._opened()]

    def close(self) -> None:
        """Close open files; the next use opens them again."""
        segments, self._segments = self._segments or [], None
        for segment in segments:
            segment.close()


def _table_name(number: int) -> str:
    return f"{_PREFIX}{number}{_SUFFIX}"


def _number_of(name: str) -> int:
    """Return the number in a table's name, or -1 for any other file."""
    digits = name.removeprefix(_PREFIX).removesuffix(_SUFFIX)
    return int(digits) if digits.isdecimal() and name == _table_name(int(digits)) else -1


def _delete_except(folder: Path, names: set[str]) -> None:
    """Delete all files except the named ones; on Windows, open files cannot be deleted."""
    for name in os.listdir(folder):
        if name not in names:
            with suppress(OSError):
                os.unlink(folder / name)


def find_terms(segments: Sequence[Segment], terms: Sequence[QueryTerm]) -> list[FoundTerm]:
    """Return search terms with their postings in segments."""
    return [
        FoundTerm(term, [[segment.find(stem) for stem in term.group] for segment in segments])
        for term in terms
    ]


def _scorer(terms: Sequence[FoundTerm]) -> Callable[..., Scored]:
    """Return the faster of the two scoring functions."""
    postings = sum(
        len(lists[name].numbers)
        for term, segments in terms
        for stems in segments
        for lists in stems
        for name in term.fields
        if name in lists
    )
    if postings <= (_FEW_POSTINGS if "numpy" in sys.modules else _MANY_POSTINGS):
        return bm25f.scored
    from memvault.index.keyword import bm25f_numpy

    return bm25f_numpy.scored


def rank_documents(
    segments: Sequence[Segment], query: KeywordQuery, lengths: Mapping[str, float]
) -> KeywordAnswer:
    """Return the best memories for a query's words, each with its best blocks.

    ``lengths`` maps each field to its total number of terms.
    """
    found_terms = find_terms(segments, query_terms(query))
    answer = _scorer(found_terms)(segments, found_terms, lengths, query.explain)
    owner = _owners(segments)
    hits: dict[int, KeywordHit] = {}
    documents: list[int] = []
    for number, value in answer.best(2 * query.limit):
        uid, block = owner(number)
        if query.allowed_uids is not None and uid not in query.allowed_uids:
            continue
        if uid in hits:
            best = hits[uid].blocks
            if len(best) < _MAX_BLOCKS:
                hits[uid] = hits[uid]._replace(blocks=(*best, block))
            continue
        documents.append(number)
        hits[uid] = KeywordHit(uid, value, {}, (block,))
        if len(hits) >= query.limit:
            break
    if query.explain:
        terms = answer.terms(documents)
        for hit, row in zip([*hits.values()], terms, strict=True):
            hits[hit.uid] = hit._replace(terms=row)
    total = sum(segment.documents for segment in segments)
    return KeywordAnswer([*hits.values()], answer.rarity, total)


def _owners(segments: Sequence[Segment]) -> Callable[[int], tuple[int, int]]:
    """Return a function from a document's overall number to its uid and block."""
    bases = [*accumulate((segment.size for segment in segments), initial=0)]

    def owner(number: int) -> tuple[int, int]:
        segment_number = bisect_right(bases, number) - 1
        return segments[segment_number].owner(number - bases[segment_number])

    return owner
