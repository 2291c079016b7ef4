"""Update the index from the vault's folder while holding the index lock.

A commit writes the keyword index first, then the manifest with the states of its files, then the
vectors, whose card lists their files. Large changes are committed in batches, so that other
processes can search the committed part while the rest is being indexed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from types import MappingProxyType
from typing import TYPE_CHECKING

from memvault.errors import EmbedderError
from memvault.index.local.backend import Backend, Progress
from memvault.index.local.file_analysis import (
    NO_ANALYSIS,
    Analysis,
    FileTask,
    analyze,
    part_hash,
    read_file,
)
from memvault.index.local.folder_diff import (
    EMPTY_DIFF,
    FolderDiff,
    PendingChanges,
    changed_at,
    diff_folder,
    split_files,
    total_size,
)
from memvault.index.local.index_files import IndexFiles, OpenIndex
from memvault.index.local.manifest import Manifest, ManifestRow
from memvault.index.protocol import IndexCorrupted, LinkEntry, MemoryRecord
from memvault.index.text.sentence_blocks import TextBlock, leading_part
from memvault.model import FileState
from memvault.named_tuple import NamedTuple
from memvault.store.memory_store import MemoryStore

if TYPE_CHECKING:
    from memvault.index.embedding.static import StaticEmbedder
    from memvault.index.local.static_vectors import StaticVectors
    from memvault.vault.scan import Scan

_MANY_FILES = 3_000
_MANY_BYTES = 12_000_000
"""Numbers of files and bytes above which several processes are faster; a process needs 0.3 s of CPU
time to start.
"""
_GIT_SECONDS = 60.0
_FEW_FILES = 20
_EARLY_FILES = 200
_EARLY_BYTES = 400_000
"""The maximum size of a batch in bytes while a reader waits for the first commits."""


class _ByteCount:
    """Counts the bytes of files that have been read and indexed."""

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
    """Writes one vault's index; the caller must hold the index's lock."""

    store: MemoryStore
    files: IndexFiles
    backend: Backend
    progress: Progress

    def update(
        self,
        static: StaticVectors | None,
        pending: PendingChanges | None = None,
        seconds: float | None = None,
        git_seconds: float = _GIT_SECONDS,
    ) -> FolderDiff:
        """Update the index from the folder; a corrupted index is rebuilt.

        A scan passed as ``pending``, taken before the lock was acquired, is used if no other
        process has committed since. If ``static`` is passed, missing static vectors are computed,
        too. With ``seconds``, the most recently changed files are indexed first, and no batch
        starts after that time. ``git_seconds`` limits how long git may take to read new commits.
        Returns the changes that are not indexed yet.
        """
        until = None if seconds is None else time.monotonic() + seconds
        for attempt in range(3):
            try:
                opened = self.files.open(writing=True) or self.files.create_empty()
                if pending is not None and pending.commit.number == opened.commit.number:
                    return self._apply(
                        opened, pending.whole, pending.scan, static, until, git_seconds
                    )
                scan = self.store.scan()
                diff = diff_folder(opened.manifest.known(), scan.files, scan.unreadable)
                return self._apply(opened, diff, scan, static, until, git_seconds)
            except IndexCorrupted:
                if attempt == 2:
                    raise
                self.files.invalidate()
        raise AssertionError("the last attempt returns or raises")

    def redate(self, git_seconds: float) -> None:
        """Index the times of new git commits, spending at most ``git_seconds`` on reading them.

        Files that differ from the index are left to ``update``.
        """
        opened = self.files.open(writing=True)
        if opened is not None:
            self._apply(opened, EMPTY_DIFF, None, None, None, git_seconds)

    def _apply(
        self,
        opened: OpenIndex,
        diff: FolderDiff,
        scan: Scan | None,
        static: StaticVectors | None,
        until: float | None,
        git_seconds: float,
    ) -> FolderDiff:
        source, paths_with_new_times = self._update_dates(opened, diff, git_seconds)
        diff = self._with_doubtful(opened, diff, paths_with_new_times)
        before, changed_paths = opened.commit, diff.paths(opened.manifest)
        opened, diff = self._skip_unchanged(opened, diff)
        known_by_path = {state.path: indexed for indexed, state in diff.changed}
        pending = [*diff.added, *(state for _, state in diff.changed)]
        removed = list(diff.removed)
        parts = split_files(pending)
        if until is not None and len(pending) > _EARLY_FILES:
            pending.sort(key=changed_at, reverse=True)
            parts = split_files(pending, _EARLY_FILES, _EARLY_BYTES)
        if not parts and removed:
            opened = self._commit(opened, NO_ANALYSIS, removed)
        size = _ByteCount(self.progress, pending)
        analyses = self._analyses(opened.manifest, parts, static, size.read, until is not None)
        with closing(analyses) as results:
            for number, batch in enumerate(parts):
                if until is not None and number and time.monotonic() > until:
                    unindexed = [state for part in parts[number:] for state in part]
                    return FolderDiff(
                        [state for state in unindexed if state.path not in known_by_path],
                        [
                            (known_by_path[state.path], state)
                            for state in unindexed
                            if state.path in known_by_path
                        ],
                    )
                analysis = next(results)
                removed += (
                    known_by_path[state.path].uid for state in batch if state.path in known_by_path
                )
                # A commit waits for the disk several times, so a few memories get one commit.
                early = static if len(pending) <= _FEW_FILES else None
                opened = self._commit(opened, analysis, removed, early)
                analysis = analysis._replace(documents=())  # before the texts are embedded
                removed = []
                size.add_indexed(batch)
                if static is not None:
                    static.add(analysis)
                    if early is None:
                        self._complete_subwords(opened, static.table, analysis.text_blocks)
        if static is not None:
            if not static.is_finished(opened.manifest):
                static.embed(opened.manifest)
            static.compact(opened.manifest)
            if opened.manifest.blocks.has_missing_subwords():
                self._complete_subwords(opened, static.table)
        self._settle_dates(opened, source, paths_with_new_times)
        self.files.carry_scan(before, changed_paths, scan)
        return EMPTY_DIFF

    def _update_dates(
        self, opened: OpenIndex, diff: FolderDiff, seconds: float
    ) -> tuple[int, set[str]]:
        """Read new commits if any memory may need times from them.

        Returns the source of git times, and the paths whose times may differ from the index.
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
            if not undated:  # no indexed times to update, so record the source now
                opened.manifest.set_date_source(source)
        return source, paths

    def _settle_dates(self, opened: OpenIndex, source: int, paths: Collection[str]) -> None:
        """Record the indexed source of git times, and update the times of these paths."""
        if source != opened.manifest.date_source():
            opened.manifest.set_date_source(source)
        if paths and self.store.dates is not None:
            self.store.dates.settle(paths)

    def _with_doubtful(
        self, opened: OpenIndex, diff: FolderDiff, paths: Collection[str]
    ) -> FolderDiff:
        """Return a diff with unchanged files at ``paths`` marked doubtful if they need times."""
        if not paths:
            return diff
        differing = {indexed.uid for indexed, _ in (*diff.changed, *diff.doubtful)}
        differing.update(diff.removed)
        files = {
            indexed.uid: indexed
            for indexed in opened.manifest.known_of(paths).values()
            if indexed.uid not in differing
        }
        undated = (
            files[record.uid]
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
        """Yield the analysis of each part, using several processes for many files.

        ``report`` is called with the number of bytes read. With ``early``, no processes are
        started, because the caller wants an answer soon.
        """
        first, total = manifest.next_uid(), sum(map(len, parts))
        if parts:
            report(0)
        size = sum(map(total_size, parts))
        if not early and (total >= _MANY_FILES or (total > 1 and size >= _MANY_BYTES)):
            from memvault.index.local.analysis_pool import open_pool

            with open_pool(self.store, static) as pool:
                if pool is not None:
                    yield from pool.analyses(parts, first, manifest.languages, report)
                    return
        done = 0
        for part in parts:
            task = FileTask(part, first, manifest.languages())
            yield analyze(self.store, task, lambda added, done=done: report(done + added))  # type: ignore[misc]
            first += len(part)
            done += total_size(part)

    def _skip_unchanged(self, opened: OpenIndex, diff: FolderDiff) -> tuple[OpenIndex, FolderDiff]:
        """Compare changed and doubtful files with the index, and omit those whose terms are equal.

        These files were only touched, or changed after the indexed part of a long memory. Their
        memories keep their uid, terms and vectors.
        """
        most = self.store.settings.index.characters
        changed, unchanged = [], []
        links: dict[int, LinkEntry] = {}
        for indexed, state in (*diff.changed, *diff.doubtful):
            uid = indexed.uid
            may_differ = 0 < most < state.size and not self.backend.is_shared
            hashed = opened.manifest.part_hash_of(uid) if may_differ else ""
            read = None
            if indexed.etag:
                read = read_file(self.store, state, "" if hashed else indexed.etag)
            if read is None:
                changed.append((indexed, state))
                continue
            memory, fresh, checked = read
            language = opened.manifest.language_of(uid)
            record = MemoryRecord.from_memory(uid, fresh.size, memory, language)
            part = part_hash(memory, leading_part(memory, most))
            is_touched = memory.etag == indexed.etag
            if self.backend.is_shared and record != opened.manifest.record(uid):
                is_touched = False
            if not is_touched and (not hashed or part != hashed):
                changed.append((indexed, state))
                continue
            lengths = opened.manifest.lengths_of(uid)
            unchanged.append(ManifestRow(record, fresh, checked, lengths, part))
            if not is_touched:
                links[uid] = LinkEntry.from_memory(memory)
        if unchanged:
            opened.manifest.apply((), unchanged, links=links)
            opened = self.files.commit(opened.keyword)
        return opened, diff._replace(changed=changed, doubtful=[])

    def _commit(
        self,
        opened: OpenIndex,
        analysis: Analysis,
        removed: list[int],
        static: StaticVectors | None = None,
    ) -> OpenIndex:
        """Remove and add memories in the keyword index and the manifest.

        They are committed before they are embedded, so that no reader waits for the embedding. With
        ``static``, the commit includes their subwords.
        """
        if removed:  # may fail if the vectors are stored in an engine
            self.backend.delete_vectors(opened.manifest.identity(), removed)
        keyword = opened.keyword.apply(
            removed, analysis.documents
        )  # from here on, only a disk error can occur
        with opened.manifest.transaction():  # so that a commit's terms and rows stay consistent
            opened.manifest.apply(
                removed, analysis.rows, analysis.blocks, analysis.links, analysis.hashes
            )
            if static is not None:
                with suppress(EmbedderError):  # reported when the texts are embedded
                    self._complete_subwords(opened, static.table, analysis.text_blocks)
            return self.files.commit(keyword)

    def _complete_subwords(
        self,
        opened: OpenIndex,
        table: StaticEmbedder,
        text_blocks: Mapping[int, Sequence[TextBlock]] = MappingProxyType({}),
    ) -> None:
        """Compute all missing subwords."""
        from memvault.index.local import soft_match

        soft_match.complete(opened.manifest, self.store, table, text_blocks)
