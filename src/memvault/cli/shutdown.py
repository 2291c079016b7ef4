"""Standard output and error that may be closed, full, or read by someone who has seen enough."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator

_SIGNALS = [
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
]
_AGAIN = 0.5
"""Seconds after which a process that was asked to end and goes on is asked again."""
_PATIENCE = 10.0
"""Seconds that a process which was asked to end has for putting things in order."""
_asked: list[int] = []
"""The signals that asked this process to end."""
_since = 0.0
"""When the first of them came."""


class OutputError(Exception):
    """Standard output or error cannot be written; the cause is the ``OSError``."""


class Terminated(BaseException):
    """The user or the system asked the process to end."""


@contextlib.contextmanager
def map_output_errors() -> Iterator[None]:
    """Tell trouble with the output from trouble with the vault."""
    try:
        yield
    except OSError as error:
        raise OutputError from error


def run_guarded(run: Callable[[], int]) -> int:
    """Run a command and return its exit code, whatever becomes of its output.

    A reader that went away, as after ``| head``, is no error; an output that
    takes nothing is one, with a sentence. Ctrl-C, SIGTERM and SIGHUP end it in order.
    """
    try:
        before = {number: signal.signal(number, _stop) for number in _SIGNALS}
    except ValueError:  # not the main thread: signals are someone else's
        before = {}
    hook, sys.unraisablehook = sys.unraisablehook, _unraisable
    try:
        return _run(run)
    except Terminated:
        return 128 + _asked[0]
    finally:
        for number in before:  # nothing may be raised from here on
            signal.signal(number, signal.SIG_IGN)
        _wake(0)
        sys.unraisablehook = hook
        for number, handler in before.items():
            signal.signal(number, handler)
        _asked.clear()


def termination_requested() -> bool:
    """Say whether this process was asked to end, whatever exception that has become since."""
    return bool(_asked)


def _run(run: Callable[[], int]) -> int:
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            encoding = "utf-8" if os.name == "nt" and not stream.isatty() else None
            # A stand-in for a stream need not have it; one that was read from may refuse.
            with contextlib.suppress(AttributeError, ValueError):
                stream.reconfigure(encoding=encoding, errors="backslashreplace")  # type: ignore[union-attr]  # TextIO does not promise it
    code = 0
    try:
        code = run()
        if sys.stdout is not None:
            sys.stdout.flush()
    except SystemExit as stop:  # Typer ends so when its own help cannot be written
        cause = stop.__context__
        return _exit_code(cause, code) if isinstance(cause, OSError) else int(stop.code or 0)
    except OutputError as error:
        return _exit_code(error.__cause__, code)
    except OSError as error:
        return _exit_code(error, code)
    except Exception as error:
        if (
            termination_requested()
        ):  # asked to end while a class was made, which Python reports otherwise
            raise Terminated from error
        raise
    return code


def _stop(number: int, _frame: object) -> None:
    """End the process in order.

    Python drops an exception that is raised while it runs a callback of its
    own, as it does during imports; so it is raised again until it gets through.
    What is put in order on the way out, as by ``finally``, is not cut short.
    """
    global _since  # noqa: PLW0603  # one process
    if number in _SIGNALS:
        _since = _since if _asked else time.monotonic()
        _asked.append(number)
    _wake(_AGAIN)
    if not _is_leaving() or time.monotonic() - _since > _PATIENCE:
        raise Terminated


def _is_leaving() -> bool:
    """Say whether what runs right now runs because of an earlier ``_Stopped``."""
    error = sys.exception()
    seen = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, Terminated):
            return True
        seen.add(id(error))
        error = error.__context__
    return False


def _wake(seconds: float) -> None:
    if hasattr(signal, "setitimer") and _asked:
        signal.signal(signal.SIGALRM, _stop if seconds else signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, seconds)


def _unraisable(dropped: sys.UnraisableHookArgs) -> None:
    if not isinstance(dropped.exc_value, Terminated):
        sys.__unraisablehook__(dropped)


def _exit_code(error: BaseException | None, code: int) -> int:
    _silence()
    if not isinstance(error, OSError) or error.errno in (errno.EPIPE, errno.ESHUTDOWN):
        return code
    with contextlib.suppress(OSError, ValueError):
        print(f"error: The output cannot be written: {error.strerror}", file=sys.stderr)
        print("hint: free some space, or send the output elsewhere", file=sys.stderr)
    return 1


def _silence() -> None:
    """Keep Python from flushing into the same output again when it ends."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
