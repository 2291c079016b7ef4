"""Compute slow pages in another process, so that searches never wait for the interpreter lock.

The parent sends the name of a ``WebSession`` method, and gets its result or the error. The process
has a low priority and ends with its input, so it never outlives the server.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import sys
import threading
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from memvault import process
from memvault.errors import MemvaultError, StorageError

if TYPE_CHECKING:
    from memvault.process import Worker

_NICENESS = 10
_ATTEMPTS = 2


class SlowWorker:
    """The process for one vault, started on first use; one thread at a time may use it."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._process: Worker | None = None
        self._is_closed = False
        self._lock = threading.Lock()

    def run(self, method: str) -> Any:
        """Run a ``WebSession`` method in the process and return its result.

        Raises:
            MemvaultError: the method raised it.
            StorageError: the process cannot run, or the worker was closed.
        """
        for _ in range(_ATTEMPTS):
            try:
                result = self._answer(method)
            except (OSError, EOFError, pickle.UnpicklingError, ValueError):
                self._end()  # ValueError: another thread has closed the pipes
                continue
            if isinstance(result, MemvaultError):
                raise result
            return result
        raise StorageError(
            "The page cannot be computed", "its process crashed twice; reload the page"
        )

    def _answer(self, method: str) -> Any:
        with self._lock:
            if self._is_closed:
                raise StorageError("The page cannot be computed", "the server is stopping")
            if self._process is None:
                command = [sys.executable, "-P", "-m", "memvault.web.slow_worker", str(self._root)]
                self._process = process.start_worker(command, process.environment(self._root))
            sent, received = self._process.stdin, self._process.stdout
        assert sent is not None
        assert received is not None
        pickle.dump(method, sent)
        sent.flush()
        return pickle.load(received)  # noqa: S301  # sent by our own process

    def close(self) -> None:
        """Stop the process, and do not start another."""
        self._is_closed = True
        self._end()

    def _end(self) -> None:
        with self._lock:
            if self._process is not None:
                process.end_worker(self._process)
                self._process = None


def main(root: Path) -> None:
    """Answer requests until the input ends."""
    from memvault.web.session import WebSession

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # The server handles Ctrl-C.
    if sys.platform != "win32":
        os.nice(_NICENESS)
    session = WebSession(root)
    answers = process.claimed_output()
    methods = SimpleQueue[str]()
    threading.Thread(target=_receive, args=(methods,), daemon=True).start()
    with contextlib.suppress(BrokenPipeError):
        while True:
            try:
                result = getattr(session, methods.get())()
            except MemvaultError as error:
                result = error
            pickle.dump(result, answers)
            answers.flush()


def _receive(methods: SimpleQueue[str]) -> None:
    """Queue the requested methods, and exit at the end of the input."""
    with contextlib.suppress(EOFError, OSError, pickle.UnpicklingError):
        while True:
            methods.put(pickle.load(sys.stdin.buffer))  # noqa: S301  # sent by the parent process
    os._exit(0)  # If the server was killed, nobody waits for the page.


if __name__ == "__main__":
    main(Path(sys.argv[1]))
