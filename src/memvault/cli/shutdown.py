"""Handle output errors, the order of output and errors, and termination signals."""

from __future__ import annotations

import atexit
import contextlib
import errno
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TextIO

_SIGNALS = [
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
]
_RETRY_INTERVAL = 0.5
"""Seconds between attempts to interrupt a process that has not terminated."""
_CLEANUP_TIMEOUT = 10.0
"""Seconds that cleanup may take after a termination signal."""
_THREADS_TIMEOUT = 2.0
"""Seconds that other threads may continue after a termination signal."""
_OUTPUT_TIMEOUT = 0.3
"""Maximum seconds for writing output after a termination signal."""
_BY_SIGNAL = 128
"""Exit codes above this are caused by a termination signal."""
_STDERR = 2
"""The file descriptor of standard error."""
_received: list[int] = []
"""The termination signals received so far."""
_since = 0.0
"""Time of the first termination signal, from ``time.monotonic``."""


class OutputError(Exception):
    """Raised when standard output or error cannot be written; the cause is the ``OSError``.

    ``changed`` describes what the command had already changed.
    """

    changed = ""


class Exit(Exception):
    """Raised to end a command that has written its result with an exit code other than 0."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Terminated(BaseException):
    """Raised when the process receives a termination signal."""


class OrderedStderr:
    """Standard error that flushes standard output before each write.

    A reader of both, such as ``2>&1 | less``, gets everything in the order in which it was written.
    ``output_error`` is the first error from such a flush; the pending output is then lost, but
    messages are still written. After a termination signal, a write that blocks on a frozen terminal
    is abandoned, and so are all later writes.
    """

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.output_error: OSError | None = None
        self._is_stuck = False

    def write(self, text: str) -> int:
        """Flush standard output, then write text."""
        self._limited(lambda: self._write(text))
        return len(text)

    def flush(self) -> None:
        """Flush the stream."""
        self._limited(self.stream.flush)

    def _limited(self, work: Callable[[], object]) -> None:
        if not _received:
            work()
        elif not self._is_stuck:
            self._is_stuck = not finishes(work, _OUTPUT_TIMEOUT)

    def _write(self, text: str) -> None:
        if sys.stdout is not None:
            try:
                sys.stdout.flush()
            except OSError as error:
                self.output_error = self.output_error or error
            except ValueError:  # The stream is closed.
                pass
        self.stream.write(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write strings with ``write``."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


@contextlib.contextmanager
def map_output_errors() -> Iterator[None]:
    """Raise ``OutputError`` for an ``OSError``, to distinguish output errors from vault errors."""
    try:
        yield
    except OSError as error:
        raise OutputError from error


def run_guarded(run: Callable[[], int]) -> int:
    """Run a command and return its exit code, handling output errors and signals.

    A closed pipe, as with ``| head``, is not an error; any other failure to write the output is
    reported and exits with 1. After either, a note lists the changed files. On Ctrl-C, SIGTERM and
    SIGHUP the command is stopped with its cleanup, and the exit code is 128 plus the signal number.
    """
    try:
        handlers = {number: signal.signal(number, _stop) for number in _SIGNALS}
    except ValueError:  # Signal handlers can only be set in the main thread.
        handlers = {}
    hook, sys.unraisablehook = sys.unraisablehook, _unraisable
    before = sys.stderr
    try:
        return _run(run)
    except Terminated:
        return 128 + _received[0]
    finally:
        for number in handlers:  # No handler may raise from here on.
            signal.signal(number, signal.SIG_IGN)
        _set_timer(0)
        sys.unraisablehook = hook
        sys.stderr = before
        for number, handler in handlers.items():
            signal.signal(number, handler)
        _received.clear()


def occupy_standard_descriptors() -> None:
    """Open the null device for each standard stream that the process was started without.

    Otherwise the next opened file would become that stream and receive its output.
    """
    if None in (sys.stdin, sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):
            while (null := os.open(os.devnull, os.O_RDWR)) <= _STDERR:
                os.set_inheritable(null, True)
            os.close(null)


def exit_process(code: int) -> None:
    """Exit without tearing down each module, which would take 5 to 20 ms.

    The exit handlers run, and standard output and error are flushed. Returns instead if a normal
    exit is needed: another thread is running, a debugger, profiler or coverage tool is active, or
    the output cannot be written. After a termination signal, other threads get two seconds, and
    output that a frozen terminal does not accept is soon abandoned.
    """
    is_terminated = code > _BY_SIGNAL
    if _is_watched() or _has_threads(is_terminated):
        return
    if is_terminated:
        finishes(_finish, _OUTPUT_TIMEOUT)
    elif not _finish():  # Python reports the error when it exits.
        return
    os._exit(code)


def finishes(work: Callable[[], object], seconds: float) -> bool:
    """Run a function in a thread, abandoning it after a timeout; return whether it finished.

    Output errors are ignored.
    """
    import threading

    def run() -> None:
        with contextlib.suppress(OSError, ValueError):
            work()

    worker = threading.Thread(target=run, daemon=True)
    worker.start()
    worker.join(seconds)
    return not worker.is_alive()


def _finish() -> bool:
    """Run the exit handlers and flush the output; return whether it could be written."""
    atexit._run_exitfuncs()  # noqa: SLF001  # as multiprocessing does before os._exit
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except (OSError, ValueError):
        return False
    return True


def _has_threads(is_terminated: bool) -> bool:
    """Return whether Python must wait for a thread other than the main one.

    After a termination signal, wait here for a limited time, and return False.
    """
    threading = sys.modules.get("threading")
    if threading is None:
        return False
    main = threading.main_thread()
    working = [
        thread for thread in threading.enumerate() if thread is not main and not thread.daemon
    ]
    if not is_terminated:
        return bool(working)
    deadline = time.monotonic() + _THREADS_TIMEOUT
    for thread in working:
        thread.join(max(0.0, deadline - time.monotonic()))
    return False


def _is_watched() -> bool:
    """Return whether a debugger, profiler or coverage tool is active."""
    monitoring = getattr(sys, "monitoring", None)  # Python 3.12 and later.
    return (
        sys.gettrace() is not None
        or sys.getprofile() is not None
        or bool(sys.flags.inspect)
        or (monitoring is not None and any(map(monitoring.get_tool, range(6))))
    )


def termination_requested() -> bool:
    """Return whether a termination signal was received, even if its exception was replaced."""
    return bool(_received)


def _run(run: Callable[[], int]) -> int:
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            encoding = "utf-8" if sys.platform == "win32" and not stream.isatty() else None
            # A replaced stream may lack this method, and a stream that was read from may refuse it.
            with contextlib.suppress(AttributeError, ValueError):
                stream.reconfigure(encoding=encoding, errors="backslashreplace")  # type: ignore[union-attr]  # not part of TextIO
    ordered = None if sys.stderr is None else OrderedStderr(sys.stderr)
    sys.stderr = ordered
    code = 0
    try:
        code = run()
        if sys.stdout is not None:
            sys.stdout.flush()
        if ordered is not None and ordered.output_error is not None:
            raise ordered.output_error
    except SystemExit as stop:  # Typer raises SystemExit if it cannot print help.
        cause = stop.__context__
        return _exit_code(cause, code) if isinstance(cause, OSError) else int(stop.code or 0)
    except OutputError as error:
        return _exit_code(error.__cause__, code, error.changed)
    except OSError as error:
        return _exit_code(error, code)
    except Exception as error:
        # If ``Terminated`` is raised while a class is created, Python may replace it with another
        # error.
        if termination_requested():
            raise Terminated from error
        with contextlib.suppress(OSError, ValueError, AttributeError):
            sys.stdout.flush()  # Python prints the traceback after this.
        raise
    return code


def _stop(number: int, _frame: object) -> None:
    """Handle a termination signal by raising ``Terminated``.

    Python discards exceptions raised inside some internal callbacks, for example during imports, so
    a timer raises the exception repeatedly until it propagates. Cleanup code, such as ``finally``
    blocks, is not interrupted for ``_CLEANUP_TIMEOUT`` seconds.
    """
    global _since  # noqa: PLW0603  # signals are per process
    if number in _SIGNALS:
        _since = _since if _received else time.monotonic()
        _received.append(number)
    _set_timer(_RETRY_INTERVAL)
    if not _is_cleaning_up() or time.monotonic() - _since > _CLEANUP_TIMEOUT:
        raise Terminated


def _is_cleaning_up() -> bool:
    """Return whether the current code is cleanup after an earlier ``Terminated``."""
    error = sys.exception()
    seen = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, Terminated):
            return True
        seen.add(id(error))
        error = error.__context__
    return False


def _set_timer(seconds: float) -> None:
    if sys.platform != "win32" and _received:
        signal.signal(signal.SIGALRM, _stop if seconds else signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, seconds)


def _unraisable(dropped: sys.UnraisableHookArgs) -> None:
    if not isinstance(dropped.exc_value, Terminated):
        sys.__unraisablehook__(dropped)


def _exit_code(error: BaseException | None, code: int, changed: str = "") -> int:
    """Report an output error and the changes made by the command; return the exit code."""
    _discard_output()
    lines = []
    if isinstance(error, OSError) and error.errno not in (errno.EPIPE, errno.ESHUTDOWN):
        code = 1
        lines.append(f"error: Cannot write the output: {error.strerror}")
        lines.append("hint: free some space, or send the output elsewhere")
    if changed:
        lines.append(f"note: {changed}")
    with contextlib.suppress(OSError, ValueError):
        for line in lines:
            print(line, file=sys.stderr)
    return code


def _discard_output() -> None:
    """Redirect standard output to the null device, so that Python's final flush succeeds."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
