"""An executor that runs functions one at a time, in order."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from memvault.named_tuple import NamedTuple

if TYPE_CHECKING:
    from concurrent.futures import Future

Result = TypeVar("Result")


def do_nothing() -> None:
    """Do nothing."""


class _Task(NamedTuple):
    future: Future[Any]
    work: Callable[[], Any]
    on_wait: Callable[[], None]


class SerialExecutor:
    """Runs functions in order; the next one starts when the running one ends or starts to wait.

    A thread exists only while there is a function to run.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queue: deque[_Task] = deque()
        self._runner: threading.Thread | None = None
        self._on_wait = do_nothing
        self._pending: set[Future[Any]] = set()

    def submit(
        self, work: Callable[[], Result], on_wait: Callable[[], None] = do_nothing
    ) -> Future[Result]:
        """Run a function in a thread and return its future.

        ``on_wait`` is called in that thread when the function begins to wait.
        """
        from concurrent.futures import Future

        future: Future[Result] = Future()
        with self._lock:
            if self._runner is None:
                self._start()  # The thread blocks on the lock until the task is queued.
            self._pending.add(future)
            self._queue.append(_Task(future, work, on_wait))
        future.add_done_callback(self._pending.discard)
        return future

    def let_next_run(self) -> None:
        """Start the next function; the running one calls this before it waits.

        Further calls by that function, and calls by any other, have no effect.
        """
        with self._lock:
            if self._runner is not threading.current_thread():
                return
            on_wait = self._on_wait
            self._start()
        on_wait()

    def wait(self) -> None:
        """Wait for all functions to finish."""
        from concurrent.futures import wait

        while pending := tuple(self._pending):
            wait(pending)

    def _start(self) -> None:
        """Start a thread that runs the queue; the runner stays the same if that fails."""
        runner = threading.Thread(target=self._run, name="memvault", daemon=False)
        runner.start()
        self._runner = runner

    def _run(self) -> None:
        """Run queued functions until the queue is empty or another thread takes over."""
        try:
            while self._run_next():
                pass
        finally:
            with self._lock:
                if self._runner is threading.current_thread():  # A callback has raised.
                    self._runner = None
                    if self._queue:
                        self._start()

    def _run_next(self) -> bool:
        """Run the next function; return False if this thread has none to run."""
        with self._lock:
            if self._runner is not threading.current_thread():
                return False
            if not self._queue:
                self._runner, self._on_wait = None, do_nothing
                return False
            future, work, self._on_wait = self._queue.popleft()
        if future.set_running_or_notify_cancel():
            try:
                result = work()
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)
        return True
