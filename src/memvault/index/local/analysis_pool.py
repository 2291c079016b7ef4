"""Analyze many files in several processes: ``python -P -m memvault.index.local.analysis_pool``.

Each process reads tasks from standard input and writes the results of ``analyze`` to standard
output, one at a time. It exits at the end of its input, so it does not outlive its parent. If a
process cannot be started or is killed, the parent performs its task. Only the parent writes the
index.
"""

from __future__ import annotations

import gc
import os
import pickle
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from memvault.errors import EmbedderError
from memvault.index.folder import find_folder
from memvault.index.local.file_analysis import Analysis, FileTask, analyze, embed, joined
from memvault.index.local.folder_diff import split_files, total_size
from memvault.index.text.analyzer import main_language
from memvault.model import FileState
from memvault.process import claimed_output
from memvault.repository.dates import CommitDates
from memvault.store.memory_store import MemoryStore

if TYPE_CHECKING:
    from memvault.index.embedding.static import StaticEmbedder
    from memvault.index.local.static_vectors import StaticVectors

_MAX_PROCESSES = 4
"""The maximum number of processes; additional ones would only wait for the parent to write results.
"""
_TASK_FILES = 250
_TASK_BYTES = 1_000_000
_READY = b"memvault analyses\n"
"""The first line that an analysis process prints; output before it is ignored."""
Languages = Callable[[], Mapping[str, int]]


class AnalysisPool:
    """Processes that analyze batches of files; with a ``table`` they also embed them."""

    def __init__(
        self, store: MemoryStore, table: StaticEmbedder | None, processes: Sequence[_Process]
    ) -> None:
        self._store = store
        self._table = table
        self._idle = deque(processes)

    def analyses(
        self,
        batches: Sequence[Sequence[FileState]],
        first_uid: int,
        languages: Languages,
        report: Callable[[int], None],
    ) -> Iterator[Analysis]:
        """Yield the analysis of each batch; files get ascending uids starting at ``first_uid``.

        ``languages`` returns the current number of indexed memories by language. ``report`` is
        called with the number of bytes processed.
        """
        results = self._results(_tasks(batches, first_uid, languages))
        setting = self._store.settings.language
        done = 0
        for batch in batches:
            finished: list[Analysis] = []
            tasks: list[FileTask] = []
            for task, analysis in islice(results, len(_split(batch))):
                done += total_size(task.files)
                report(done)
                tasks.append(task)
                finished.append(analysis)
            detected = [language for analysis in finished for language in analysis.detected]
            language = main_language(setting, detected, languages())
            yield joined(
                [
                    self._analyze(task, language)
                    if analysis.main_language != language and "" in analysis.detected
                    else analysis
                    for task, analysis in zip(tasks, finished, strict=True)
                ]
            )

    def _results(self, tasks: Iterator[FileTask]) -> Iterator[tuple[FileTask, Analysis]]:
        """Yield the analysis of each task in order; each process already works on its next task."""
        sent: deque[tuple[_Process, FileTask]] = deque()

        def send() -> None:
            for task in islice(tasks, len(self._idle)):
                process = self._idle.popleft()
                process.send(task)
                sent.append((process, task))

        send()
        while sent:
            process, task = sent.popleft()
            analysis = process.receive()
            if analysis is not None:
                self._idle.append(process)
                send()
            yield task, analysis or self._analyze(task)
        for task in tasks:  # every process has exited, so analyze the rest here
            yield task, self._analyze(task)

    def _analyze(self, task: FileTask, language: str = "") -> Analysis:
        """Analyze files in this process."""
        analysis = analyze(self._store, task, language=language)
        return analysis if self._table is None else embed(analysis, self._table)


def _split(batch: Sequence[FileState]) -> list[list[FileState]]:
    return split_files(batch, _TASK_FILES, _TASK_BYTES)


def _tasks(
    batches: Iterable[Sequence[FileState]], first_uid: int, languages: Languages
) -> Iterator[FileTask]:
    for batch in batches:
        for files in _split(batch):
            yield FileTask(files, first_uid, languages())
            first_uid += len(files)


@contextmanager
def open_pool(store: MemoryStore, static: StaticVectors | None) -> Iterator[AnalysisPool | None]:
    """Yield a pool that is killed at the end of the block, or None if it would not be faster.

    The processes also embed the files if there are ``static`` vectors to extend.
    """
    count = min(_processors(), _MAX_PROCESSES)
    if count < 2 or not _is_python():
        yield None
        return
    table = None
    with suppress(EmbedderError):  # the error is reported when embedding starts
        table = static.table if static is not None else None
    processes: list[_Process] = []
    try:
        with suppress(OSError):
            for _ in range(count):
                processes.append(_Process(store, table is not None))  # noqa: PERF401 - or fails
        yield AnalysisPool(store, table, processes) if processes else None
    finally:
        for process in processes:
            process.close()


def _processors() -> int:
    """Return the number of processors available to this process."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _is_python() -> bool:
    """Return whether ``sys.executable`` is Python, not a program that embeds it."""
    name = Path(sys.executable or "").name.lower()
    return name.startswith(("python", "pypy")) and not hasattr(sys, "frozen")


class _Process:
    """A process that analyzes files, one task at a time; raises OSError if it cannot be started."""

    def __init__(self, store: MemoryStore, embeds: bool) -> None:
        from memvault import process

        variables = {"OPENBLAS_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
        self._process = process.start_worker(
            [sys.executable, "-P", "-m", "memvault.index.local.analysis_pool"],
            process.environment(store.root) | variables,
        )
        self._is_ready = False
        self.send((os.fspath(store.root), store.settings, embeds))

    def send(self, value: object) -> None:
        """Send the first input or a task; the previous result must have been received."""
        assert self._process.stdin is not None
        with suppress(OSError):  # the process has exited, which ``receive`` detects
            pickle.dump(value, self._process.stdin, pickle.HIGHEST_PROTOCOL)
            self._process.stdin.flush()

    def receive(self) -> Analysis | None:
        """Return the next analysis, or None if the process has exited."""
        output = self._process.stdout
        assert output is not None
        try:
            if not self._is_ready and output.readline(len(_READY)) != _READY:
                return None
            self._is_ready = True
            analysis: Analysis = pickle.load(output)  # noqa: S301 - of our own process
        except (OSError, EOFError, pickle.UnpicklingError):
            return None
        return analysis

    def close(self) -> None:
        """Kill the process, even in the middle of a task."""
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):
                if pipe is not None:
                    pipe.close()
        self._process.wait()


def serve(tasks: BinaryIO, results: BinaryIO) -> None:
    """Analyze the tasks on standard input until it ends."""
    root, settings, embeds = pickle.load(tasks)  # noqa: S301 - of the process that started this
    root = Path(root)
    find_index = partial(find_folder, root)
    dates = CommitDates(root, find_index)
    store = MemoryStore(root, settings, open_dates=lambda: dates, find_index=find_index)
    table = None
    if embeds:
        from memvault.index.embedding.static import open_table

        table = open_table()
    results.write(_READY)
    with suppress(EOFError):
        while True:
            analysis = analyze(store, pickle.load(tasks))  # noqa: S301 - of the same
            result = analysis if table is None else embed(analysis, table)
            pickle.dump(result, results, pickle.HIGHEST_PROTOCOL)
            results.flush()


def main() -> None:
    """Serve the parent process, which handles Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.set_threshold(100_000, 20, 20)
    with suppress(BrokenPipeError):
        serve(sys.stdin.buffer, claimed_output())


if __name__ == "__main__":
    main()
