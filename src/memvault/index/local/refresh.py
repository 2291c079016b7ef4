"""Bring the index up to date with the vault's folder while holding the index's lock.

A commit writes the keyword index first, then the manifest with the states of its files, then the
vectors, whose card names theirs. Large changes are committed in batches, so that other processes
can search what is committed while the rest is still being indexed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import closing
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from memvault.index.local.backend import Progress
from memvault.index.local.file_analysis import (
    NO_ANALYSIS,
    Analysis,
    FileTask,
    analyse,
    link_entry,
    read_file,
    split_files,
    total_size,
)
from memvault.index.local.index_files import IndexFiles, OpenIndex
from memvault.index.local.manifest import IndexCommit, IndexedFile, Manifest, ManifestRow
from memvault.index.local.snapshot import Overlay
from memvault.index.protocol import IndexCorrupted, MemoryRecord
from memvault.index.text.analyzer import analyser, detect_languages
from memvault.index.text.sentence_blocks import (
    TextBlock,
    encode_blocks,
    keyword_documents,
    leading_part,
    passage_texts,
    split_memory,
)
from memvault.model import FileState, Memory
from memvault.store.memory_store import MemoryStore
from memvault.vault.scan import TIMESTAMP_GRANULARITY

if TYPE_CHECKING:
    from memvault.index.embedding.static import StaticEmbedder
    from memvault.index.local.static_vectors import StaticVectors

_MANY_FILES = 3_000
_MANY_BYTES = 12_000_000
"""Files and bytes from which several processes are faster: each takes 0.3 s of CPU to start."""
_MAX_READ_FILES = 500
_MAX_READ_BYTES = 4_000_000
_GIT_SECONDS = 60.0
_EARLY_FILES = 200
_EARLY_BYTES = 400_000
"""The largest batch where a reader waits for the first commits."""


class FolderDiff(NamedTuple):
    """The files to index, the uids to remove, and the files that may have changed unnoticed.

    ``changed`` pairs the indexed file with its current state. ``doubtful`` files were edited so
    shortly before they were last checked that a second edit could have left the same times, so
    their bytes must be compared.
    """

    added: Sequence[FileState]
    changed: Sequence[tuple[IndexedFile, FileState]]
    removed: Sequence[int]
    doubtful: Sequence[tuple[IndexedFile, FileState]]

    @property
    def size(self) -> int:
        """The number of memories known to differ without reading any file."""
        return len(self.added) + len(self.changed) + len(self.removed)


EMPTY_DIFF = FolderDiff((), (), (), ())


class PendingChanges(NamedTuple):
    """The differences between the folder and a commit, split by whether they can be read directly.

    ``whole`` is the complete difference, ``small`` the part that can be read without a long wait,
    and ``large`` the rest. If ``is_partial`` is set, ``known`` has only files that may differ.
    """

    commit: IndexCommit
    known: dict[str, IndexedFile]
    whole: FolderDiff
    small: FolderDiff
    large: FolderDiff
    is_partial: bool = False

    @property
    def is_unchanged(self) -> bool:
        """Whether nothing differs and nothing is doubtful."""
        return not self.small.size and not self.small.doubtful and not self.large.size


def diff_folder(
    known: Mapping[str, IndexedFile], files: Iterable[FileState], unreadable: Iterable[str]
) -> FolderDiff:
    """Compare the indexed files with those that a scan found.

    Memories below a folder that could not be listed are left unchanged, so that a temporary loss of
    permission does not empty the index.
    """
    added, changed, doubtful = [], [], []
    seen = set()
    for state in files:
        entry = known.get(state.path)
        seen.add(state.path)
        if entry is None:
            added.append(state)
        elif entry.state != state:
            changed.append((entry, state))
        elif _changed_at(state) + TIMESTAMP_GRANULARITY >= entry.checked:
            doubtful.append((entry, state))
    hidden = tuple(f"{folder}/" for folder in unreadable)
    removed = [
        entry.uid
        for path, entry in known.items()
        if path not in seen and not (hidden and path.startswith(hidden))
    ]
    return FolderDiff(added, changed, removed, doubtful)


def split_readable(diff: FolderDiff) -> tuple[FolderDiff, FolderDiff]:
    """Split a diff into a part that can be read directly without a long wait, and the rest.

    Doubtful and removed files are in the first part. Of the other files it contains the most
    recently changed ones, at most 500 files and 4 MB.
    """
    files = sorted(
        (*diff.added, *(state for _, state in diff.changed)), key=_changed_at, reverse=True
    )
    parts = split_files(files, _MAX_READ_FILES, _MAX_READ_BYTES)
    readable = {state.path for part in parts[:1] for state in part}
    first = diff._replace(
        added=[state for state in diff.added if state.path in readable],
        changed=[entry for entry in diff.changed if entry[1].path in readable],
    )
    rest = FolderDiff(
        [state for state in diff.added if state.path not in readable],
        [entry for entry in diff.changed if entry[1].path not in readable],
        [],
        [],
    )
    return first, rest


def _changed_at(state: FileState) -> int:
    """Return when the file last changed, in nanoseconds: mtime on Windows, else ctime.

    On Windows ctime is the time of creation.
    """
    return state.mtime if sys.platform == "win32" else state.ctime


def read_overlay(
    store: MemoryStore,
    known_files: Mapping[str, IndexedFile],
    languages: Mapping[str, int],
    diff: FolderDiff,
    unread: FolderDiff | None = None,
) -> Overlay:
    """Read the files that differ from the index; the memories in ``unread`` are left out entirely.

    ``languages`` maps each language to the number of memories indexed in it.
    """
    alive = {known.uid for known in known_files.values()} - set(diff.removed)
    missing = 0
    if unread is not None:
        alive -= {known.uid for known, _ in unread.changed}
        missing = len(unread.added) + len(unread.changed)
    found: list[tuple[int, Memory, FileState]] = []
    differing = [*((None, state) for state in diff.added), *diff.changed, *diff.doubtful]
    for number, (known, state) in enumerate(differing, start=1):
        read = read_file(store, state)
        if known is not None:
            if read is not None and read[0].etag == known.etag and read[1] == known.state:
                continue
            alive.discard(known.uid)
        if read is not None:
            found.append((-number, *read[:2]))
    detected = detect_languages(
        store.settings.language, [memory for _, memory, _ in found], languages
    )
    overlay = Overlay({}, [], {}, frozenset(alive), missing, {}, {}, {})
    for (key, memory, fresh), language in zip(found, detected, strict=True):
        add_memory(overlay, key, memory, fresh.size, language, store.settings.index.characters)
    return overlay


def add_memory(
    overlay: Overlay, key: int, memory: Memory, size: int, language: str, most: int
) -> None:
    """Add a memory that is in no index to an overlay.

    ``size`` is that of its file, in bytes; ``most`` is as for ``leading_part``.
    """
    part = leading_part(memory, most)
    overlay.records[key] = MemoryRecord.from_memory(key, size, memory, language)
    overlay.documents.extend(keyword_documents(key, part, analyser(language)))
    overlay.passages[key] = passage_texts(part)
    overlay.cuts[key] = split_memory(part)
    overlay.blocks[key] = encode_blocks(overlay.cuts[key], analyser(language))
    overlay.links[key] = link_entry(memory)


class _ByteCount:
    """Counts the bytes of files that have been read and indexed, and reports both together."""

    def __init__(self, progress: Progress, files: Iterable[FileState]) -> None:
        self._progress = progress
        self._total = 2 * total_size(files)
        self._read = self._indexed = 0

    def read(self, size: int) -> None:
        """Report how many bytes have been read so far."""
        self._read = max(size, self._indexed)
        self._progress("indexing", self._read + self._indexed, self._total)

    def add_indexed(self, files: Iterable[FileState]) -> None:
        """Report files that have been indexed."""
        self._indexed += total_size(files)
        self.read(self._read)


class IndexWriter(NamedTuple):
    """A writer of one vault's index; the caller must hold the index's lock."""

    store: MemoryStore
    files: IndexFiles
    progress: Progress

    def update(
        self,
        static: StaticVectors | None,
        look: PendingChanges | None = None,
        seconds: float | None = None,
        git_seconds: float = _GIT_SECONDS,
    ) -> FolderDiff:
        """Bring the index up to date with the folder; a corrupted index is rebuilt.

        A scan passed as ``look``, taken before the lock was acquired, is used if no other process
        has committed since. With ``static`` vectors, these are computed too. With
        ``seconds``, the files changed last are indexed first, and no batch begins after that time.
        ``git_seconds`` is how long git may take to read new commits. Returns what is left to index.
        """
        until = None if seconds is None else time.monotonic() + seconds
        for attempt in range(3):
            try:
                opened = self.files.open(writing=True) or self.files.create_empty()
                if look is not None and look.commit.number == opened.commit.number:
                    return self._apply(opened, look.whole, static, until, git_seconds)
                found = self.store.scan()
                diff = diff_folder(opened.manifest.known(), found.files, found.unreadable)
                return self._apply(opened, diff, static, until, git_seconds)
            except IndexCorrupted:
                if attempt == 2:
                    raise
                self.files.invalidate()
        raise AssertionError("the last attempt returns or raises")

    def redate(self, git_seconds: float) -> None:
        """Index the times of new commits in git, which may take ``git_seconds`` to read.

        Files that differ from the index are left to ``update``.
        """
        opened = self.files.open(writing=True)
        if opened is not None:
            self._apply(opened, EMPTY_DIFF, None, None, git_seconds)

    def _apply(
        self,
        opened: OpenIndex,
        diff: FolderDiff,
        static: StaticVectors | None,
        until: float | None,
        git_seconds: float,
    ) -> FolderDiff:
        source, paths_with_new_times = self._update_dates(opened, diff, git_seconds)
        diff = self._with_doubtful(opened, diff, paths_with_new_times)
        opened, diff = self._skip_unchanged(opened, diff)
        known_by_path = {state.path: known for known, state in diff.changed}
        pending = [*diff.added, *(state for _, state in diff.changed)]
        removed = list(diff.removed)
        parts = split_files(pending)
        if until is not None and len(pending) > _EARLY_FILES:
            pending.sort(key=_changed_at, reverse=True)
            parts = split_files(pending, _EARLY_FILES, _EARLY_BYTES)
        if not parts and removed:
            opened = self._commit(opened, NO_ANALYSIS, removed)
        size = _ByteCount(self.progress, pending)
        analyses = self._analyses(opened.manifest, parts, static, size.read, until is not None)
        with closing(analyses) as found:
            for number, batch in enumerate(parts):
                if until is not None and number and time.monotonic() > until:
                    left = [state for part in parts[number:] for state in part]
                    return FolderDiff(
                        [state for state in left if state.path not in known_by_path],
                        [
                            (known_by_path[state.path], state)
                            for state in left
                            if state.path in known_by_path
                        ],
                        [],
                        [],
                    )
                analysis = next(found)
                removed += (
                    known_by_path[state.path].uid for state in batch if state.path in known_by_path
                )
                opened = self._commit(opened, analysis, removed)
                removed = []
                size.add_indexed(batch)
                if static is not None:
                    static.embed(opened.manifest, analysis.passages, analysis.embedded)
                    self._complete_subwords(opened, static.table, analysis.cuts)
        if static is not None:
            if not static.is_finished(opened.manifest):
                static.embed(opened.manifest)
            if opened.manifest.blocks.lacks_tokens():
                self._complete_subwords(opened, static.table)
        self._settle_dates(opened, source, paths_with_new_times)
        return EMPTY_DIFF

    def _update_dates(
        self, opened: OpenIndex, diff: FolderDiff, seconds: float
    ) -> tuple[int, set[str]]:
        """Read new commits if any memory may need their times.

        Returns the source of times in git, and the paths whose times may differ from the index.
        """
        dates, before = self.store.dates, opened.manifest.date_source()
        if not (diff.added or diff.changed or opened.manifest.has_undated()):
            return before, set()
        if dates is not None:
            dates.update(seconds)
        source = 0 if dates is None else dates.source()
        paths = set() if dates is None else dates.pending()
        if source != before:
            undated = opened.manifest.undated_paths()
            paths |= undated
            if not undated:  # what follows is of this source
                opened.manifest.set_date_source(source)
        return source, paths

    def _settle_dates(self, opened: OpenIndex, source: int, paths: Collection[str]) -> None:
        """Store that the index has the times of a source, and the new ones of these paths."""
        if source != opened.manifest.date_source():
            opened.manifest.set_date_source(source)
        if paths and self.store.dates is not None:
            self.store.dates.settle(paths)

    def _with_doubtful(
        self, opened: OpenIndex, diff: FolderDiff, paths: Collection[str]
    ) -> FolderDiff:
        """Return a diff with the unchanged files of these paths that need times as doubtful."""
        if not paths:
            return diff
        differing = {known.uid for known, _ in (*diff.changed, *diff.doubtful)}
        differing.update(diff.removed)
        files = {
            known.uid: known
            for known in opened.manifest.known_of(paths).values()
            if known.uid not in differing
        }
        undated = (
            files[record.key]
            for record in opened.manifest.records_of(files)
            if not {record.created_from, record.modified_from} <= {"header", "name"}
        )
        return diff._replace(doubtful=[*diff.doubtful, *((file, file.state) for file in undated)])

    def _analyses(
        self,
        manifest: Manifest,
        parts: Sequence[Sequence[FileState]],
        static: StaticVectors | None,
        report: Callable[[int], None],
        early: bool,
    ) -> Generator[Analysis]:
        """Yield the analysis of each part, computed by several processes if there is much to do.

        ``report`` is called with the number of bytes read. If a reader wants an ``early`` answer,
        it does not wait for other processes to start.
        """
        first, total = manifest.next_uid(), sum(map(len, parts))
        if parts:
            report(0)
        size = sum(map(total_size, parts))
        if not early and (total >= _MANY_FILES or size >= _MANY_BYTES):
            from memvault.index.local.analysis_pool import open_pool

            with open_pool(self.store, static) as pool:
                if pool is not None:
                    yield from pool.analyses(parts, first, manifest.languages, report)
                    return
        done = 0
        for part in parts:
            task = FileTask(part, first, manifest.languages())
            yield analyse(self.store, task, lambda more, done=done: report(done + more))  # type: ignore[misc]
            first += len(part)
            done += total_size(part)

    def _skip_unchanged(self, opened: OpenIndex, diff: FolderDiff) -> tuple[OpenIndex, FolderDiff]:
        """Compare the bytes of changed and doubtful files; a merely touched file is not changed.

        Memories whose bytes are the same keep their uid, terms and vectors.
        """
        changed, unchanged = [], []
        for known, state in (*diff.changed, *diff.doubtful):
            read = read_file(self.store, state)
            if read is not None and read[0].etag == known.etag and known.etag:
                memory, fresh, checked = read
                language = opened.manifest.language_of(known.uid)
                record = MemoryRecord.from_memory(known.uid, fresh.size, memory, language)
                if opened.keyword.stores_records and record != opened.manifest.record(known.uid):
                    changed.append((known, state))
                    continue
                unchanged.append(
                    ManifestRow(record, fresh, checked, opened.manifest.lengths_of(known.uid))
                )
            else:
                changed.append((known, state))
        if unchanged:
            opened.manifest.apply((), unchanged)
            opened = self.files.commit(opened.keyword)
        return opened, diff._replace(changed=changed, doubtful=[])

    def _commit(self, opened: OpenIndex, analysis: Analysis, removed: list[int]) -> OpenIndex:
        """Remove memories and add others in the keyword index and the manifest.

        They are committed before they are embedded, so that no reader waits for the embedding.
        """
        if removed:  # may fail if an engine holds them
            self.files.backend.delete_vectors(opened.manifest.identity(), removed)
        keyword = opened.keyword.apply(removed, analysis.documents)  # now only the disk may fail
        with opened.manifest.transaction():  # a commit's terms and rows belong together
            opened.manifest.apply(removed, analysis.rows, analysis.blocks, analysis.links)
            return self.files.commit(keyword)

    def _complete_subwords(
        self,
        opened: OpenIndex,
        table: StaticEmbedder,
        cuts: Mapping[int, Sequence[TextBlock]] = MappingProxyType({}),
    ) -> None:
        """Compute the subwords of all blocks without them; raises the same errors as embedding."""
        from memvault.index.local import soft_match

        soft_match.complete(opened.manifest, self.store, table, cuts)
