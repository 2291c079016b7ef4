"""Find the memories that a name refers to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeVar

from memvault.errors import Ambiguous, NotFound
from memvault.index.protocol import (
    BEST_EFFORT,
    COMPLETE,
    MemoryName,
    MemoryRecord,
    StaleView,
    View,
    WaitPolicy,
)
from memvault.model import Memory, is_document
from memvault.recall import resolve
from memvault.recall.answer import memory_candidate
from memvault.store.memory_store import MemoryReader

Result = TypeVar("Result")


class Views(Protocol):
    """The part of ``RecallEngine`` that refreshes the index."""

    patience: WaitPolicy

    def on_view(self, action: Callable[[View], Result]) -> Result:
        """See ``RecallEngine.on_view``."""

    def retry_stale(self, action: Callable[[int], Result]) -> Result:
        """See ``RecallEngine.retry_stale``."""

    def current_view(self, vectors: bool, patience: WaitPolicy | None = None) -> View:
        """See ``RecallEngine.current_view``."""


class NameLookup:
    """Finds memories by memId, path, title, alias or wikilink, in the views of a recall engine."""

    def __init__(self, engine: Views, store: MemoryReader) -> None:
        self._engine = engine
        self._store = store
        self._has_rescanned = False

    def resolve(self, name: str) -> Memory:
        """Return the only memory with a given memId, path, title or wikilink.

        Looking up a path needs no index.

        Raises:
            NotFound: if no memory has this name.
            Ambiguous: if several memories have it; the error's details list them as ``candidates``.
        """
        memory = self._store.read_listed(resolve.normalize(name))
        if memory is not None:
            return memory
        return self._engine.retry_stale(
            lambda attempts_left: self._read_named(name, attempts_left == 0)
        )

    def resolve_similar(self, name: str, partial: bool, suggests: bool = True) -> Memory:
        """Return the memory with a given name, or the only one whose path ends with it.

        With ``partial``, the name may also be a prefix or words of a single title or alias, or the
        prefix of a memId; otherwise the prefix of a memId must include the whole slug.

        Raises:
            NotFound: if no memory has this name; with ``suggests``, the error's details list the
            closest ones as ``candidates``.
            Ambiguous: if several memories have it, as for ``resolve``.
        """
        try:
            memory = self.resolve(name)
            if partial or resolve.is_name_of(name, memory):
                return memory
            raise _not_found(name)
        except Ambiguous:
            raise
        except NotFound as error:
            files = self._named(lambda names: resolve.match_file(name, names))
            close = files
            if not files and (partial or suggests):
                close = self._named(lambda names: resolve.match_part(name, names))
            if len(close) == 1 and (files or partial):
                return self.resolve(close[0].path)
            if files:
                raise _ambiguous(name, files) from error
            if suggests:
                close = close or self._named(lambda names: resolve.closest(name, names))
                close = close[: resolve.MAX_SUGGESTIONS]
            raise _not_found(name, close if suggests else ()) from error

    def try_resolve(self, name: str) -> Memory | None:
        """Return the memory with a given name, or None if the text looks like a query."""
        try:
            memory = self.resolve(name)
        except Ambiguous:
            records = self._engine.retry_stale(lambda _: self._records_named(name))
            if any(resolve.is_name_of(name, record) for record in records):
                raise
            return None
        except NotFound:
            return None
        return memory if resolve.is_name_of(name, memory) else None

    def resolve_path(self, text: str) -> Memory | None:
        """Return the memory whose path ends with a string, or None if the string is not a path.

        Raises:
            NotFound: if the text looks like a path, but no memory's path equals or ends with it;
                the error's details list the closest memories as ``candidates``.
            Ambiguous: if several memories have it, as for ``resolve``.
        """
        if not resolve.may_be_path(text):
            return None
        if not self._engine.on_view(
            lambda view: view.visit_names(lambda names: resolve.is_path(text, names))
        ):
            return None
        end = f"/{resolve.normalize(text)}"
        files = self._named(lambda names: [n for n in names if f"/{n.path}".endswith(end)])
        if not files:
            close = self._named(lambda names: resolve.match_file(text, names))
            close = close or self._named(lambda names: resolve.closest(text, names))
            raise _not_found(text, close[: resolve.MAX_SUGGESTIONS])
        if len(files) > 1:
            raise _ambiguous(text, files)
        return self.resolve(files[0].path)

    def named(self, name: str, passes: Callable[[MemoryRecord], bool]) -> list[Memory]:
        """Return the memories with a given name: none, one, or several that share it as a title.

        If several memories have the name, those for which ``passes`` is true are returned, or all
        of them if it is true for none.

        Raises:
            Ambiguous: if several of them remain, and the name is not the title of all, for example
                if it is only part of a memId.
        """
        try:
            memory = self.try_resolve(name)
        except Ambiguous:
            records = self._engine.retry_stale(lambda _: self._records_named(name))
            records = [record for record in records if passes(record)] or records
            if len(records) > 1 and not all(resolve.is_title_of(name, e) for e in records):
                raise
            return [self._store.read(path) for path in sorted(record.path for record in records)]
        return [] if memory is None else [memory]

    def _named(
        self, select: Callable[[Iterable[MemoryName]], list[MemoryName]]
    ) -> list[MemoryRecord]:
        """Return the records of the memories that a function selects by their names."""

        def read(_: int) -> list[MemoryRecord]:
            view = self._engine.current_view(False)
            uids = [name.uid for name in view.visit_names(select)]
            records = view.records_of(uids)
            if len(records) < len(uids):  # another process has changed one in the meantime
                raise StaleView
            return [records[uid] for uid in uids]

        return self._engine.retry_stale(read)

    def _records_named(self, name: str) -> list[MemoryRecord]:
        cleaned = resolve.normalize(name)
        is_link = resolve.is_link(name)
        if is_link or is_document(cleaned):  # a document's file name precedes titles
            records = self._named(lambda names: resolve.match_wikilink(name, names))
            if is_link or any(is_document(record.path) for record in records):
                return records
        view = self._engine.current_view(False, BEST_EFFORT)
        records = resolve.match_name(name, view.find_by_name(cleaned))
        is_full_id = [record.mem_id for record in records] == [cleaned]
        if view.missing and not (is_full_id and self._engine.patience.allow_partial):
            records = resolve.match_name(
                name, self._engine.current_view(False, COMPLETE).find_by_name(cleaned)
            )
        return records

    def _read_named(self, name: str, last: bool) -> Memory:
        records = self._records_named(name)
        if not records:
            if (
                not self._has_rescanned
                and not last
                and resolve.is_generated_id(resolve.normalize(name))
            ):
                self._has_rescanned = True  # a scan may miss a file that is moved at the same time
                raise StaleView
            raise _not_found(name)
        if len(records) > 1:
            raise _ambiguous(name, records)
        try:
            memory = self._store.read(records[0].path)
        except NotFound as error:
            if last:
                raise
            raise StaleView from error
        # Another memory may have moved to this path.
        if memory.etag != records[0].etag and not last:
            raise StaleView
        return memory


def _not_found(name: str, close: Sequence[MemoryRecord] = ()) -> NotFound:
    """Return the error for a name that no memory has, with the closest memories as candidates."""
    return NotFound(
        f"There is no memory {name!r}",
        resolve.suggestion(name, close, "`memvault list` shows all of them"),
        {"candidates": [memory_candidate(record) for record in close]} if close else None,
    )


def _ambiguous(name: str, records: Sequence[MemoryRecord]) -> Ambiguous:
    """Return the error for a name shared by several memories."""
    shared = len({record.mem_id for record in records}) == 1
    return Ambiguous(
        f"{name!r} matches {len(records)} memories" + " with the same memory id" * shared,
        "use one of their paths" if shared else "use one of their memory ids or paths",
        {"candidates": [memory_candidate(record) for record in records[:20]]},
    )
