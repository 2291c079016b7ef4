"""The keyword index, stored by Whoosh; ``bm25f`` scores its postings.

A memory is one Whoosh document for each block of its text (almost always one), with fields for
title, headings, body, tags and exact identifiers. Terms come from ``analysis`` and not from
Whoosh's analysers, which account for most of its run time.

Whoosh reads pickles. It is given only those in this program's own folder, and ``whoosh_schema``
limits the classes that they may name. Errors that Whoosh raises while reading become
``IndexCorrupted``.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any

from memvault.files.file_stamps import FileStamp, states_in
from memvault.index.protocol import IndexCorrupted, KeywordQuery
from memvault.index.text.bm25f import EXACT_FIELD, FIELDS, KeywordDocument, Posting, Segment

_MEMORY_MB = 96
_MAX_SEGMENTS = 12
_MAX_DELETED_SHARE = 0.5
_EXHAUSTED_ERRORS = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
"""Errors unrelated to the index: the process may open no more files, or has no memory."""


@contextmanager
def _writing() -> Iterator[None]:
    """Turn what Whoosh raises for an index that it cannot read into ``IndexCorrupted``.

    Errors of the file system, and errors that only a bug in a program raises, are not changed.
    """
    try:
        yield
    except Exception as error:
        is_os_error = isinstance(error, OSError) and not isinstance(error, FileNotFoundError)
        if is_os_error or not _is_from_whoosh(error):
            raise
        raise IndexCorrupted(f"{type(error).__name__}: {error}") from error


def _is_from_whoosh(error: Exception) -> bool:
    """Return whether an error was raised by Whoosh, or by the code that reads its pickles."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    module = trace.tb_frame.f_globals.get("__name__", "") if trace is not None else ""
    return str(module).startswith(("whoosh.", "memvault.index.local.whoosh_"))


@contextmanager
def _reading() -> Iterator[None]:
    """Turn any error raised while an index is read into ``IndexCorrupted``.

    Bytes that Whoosh did not write may cause almost any error. Only Whoosh may run inside this
    context.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _EXHAUSTED_ERRORS:
            raise
        raise IndexCorrupted(f"{type(error).__name__}: {error}") from error


class KeywordIndex:
    """A Whoosh index in a folder, opened on first use; empty without a folder."""

    stores_records = False

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._index: Any = None
        self._reader: Any = None

    @classmethod
    @_writing()
    def create(cls, folder: Path) -> KeywordIndex:
        """Create an empty index in an empty folder."""
        folder.mkdir(parents=True, exist_ok=True)
        made = cls(folder)
        made._index = _storage(folder).create_index(_schema())
        return made

    def _opened(self) -> Any:
        """Return Whoosh's index, opened on first use; None if this index has no folder."""
        if self._index is None and self._folder is not None:
            self._index = _storage(self._folder).open_index()
        return self._index

    @_writing()
    def apply(self, removed: Iterable[int], added: Sequence[KeywordDocument]) -> None:
        """Remove memories and add documents in one commit.

        Segments are merged if there are many, or if most documents are deleted and still take up
        space.
        """
        from memvault.index.local.whoosh_schema import Codec

        writer = self._opened().writer(limitmb=_MEMORY_MB, timeout=5.0, codec=Codec())
        try:
            for uid in removed:
                writer.delete_by_term("uid", str(uid))
            for document in added:
                writer.add_document(
                    uid=str(document.uid),
                    _stored_uid=f"{document.uid} {document.block}",
                    **{name: terms for name, terms in document.fields.items() if terms},
                )
        except BaseException:
            writer.cancel()
            raise
        stored = sum(segment.doc_count_all() for segment in writer.segments)
        is_wasteful = writer.deleted_count() > _MAX_DELETED_SHARE * (stored + len(added))
        has_many_segments = len(writer.segments) >= _MAX_SEGMENTS
        writer.commit(optimize=is_wasteful, merge=is_wasteful or has_many_segments)
        self.close()

    def files(self) -> dict[str, FileStamp]:
        """Return the states of its files, by name."""
        return states_in(self._folder) if self._folder is not None else {}

    @_reading()
    def candidates(self, query: KeywordQuery) -> list[Segment]:  # noqa: ARG002 - all are candidates
        """Return its segments, with all documents."""
        if self._opened() is None:
            return []
        return [_segment(leaf) for leaf, _ in self._open_reader().leaf_readers()]

    def _open_reader(self) -> Any:
        if self._reader is None:
            self._reader = self._opened().reader()
        return self._reader

    def close(self) -> None:
        """Close open files; the next use opens the latest state."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None


def _segment(leaf: Any) -> Segment:
    """Return the documents of one of Whoosh's segments; its methods raise ``IndexCorrupted``."""

    def postings(name: str, term: str) -> Iterator[Posting]:
        with _reading():
            if (name, encoded := term.encode("utf-8", "replace")) not in leaf:
                return
            matcher = leaf.postings(name, encoded)
            while matcher.is_active():
                number = matcher.id()
                yield number, matcher.weight(), float(leaf.doc_field_length(number, name))
                matcher.next()

    @_reading()
    def owner(number: int) -> tuple[int, int]:
        uid, block = leaf.stored_fields(number)["uid"].split()
        return int(uid), int(block)

    return Segment(postings, owner, leaf.doc_count())


def _storage(folder: Path) -> Any:
    from whoosh.filedb.filestore import FileStorage

    from memvault.index.local import whoosh_schema

    whoosh_schema.restrict()
    storage = FileStorage(str(folder))
    # Writers hold the index's lock, which works on any file system.
    storage.lock = lambda _: Lock()

    def temporary(name: str) -> Any:
        # Whoosh's own method keeps the error for an existing folder in a reference cycle, and with
        # it the variables of all callers, including open files, until a garbage collection.
        (folder / name).mkdir(parents=True, exist_ok=True)
        return FileStorage(str(folder / name))

    storage.temp_storage = temporary
    return storage


def _schema() -> Any:
    from whoosh.fields import ID, Schema

    from memvault.index.local.whoosh_schema import Bag

    names = {**dict.fromkeys(FIELDS, True), EXACT_FIELD: True}
    return Schema(uid=ID(stored=True, unique=True), **{name: Bag() for name in names})
