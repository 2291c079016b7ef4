"""Standard output and error that may be closed, full, or read by someone who has seen enough."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys
from collections.abc import Callable, Iterator

__all__ = ["OutputError", "guarded", "writing"]

_INTERRUPTED = 130
_TERMINATED = 143


class OutputError(Exception):
    """Standard output or error cannot be written; the cause is the ``OSError``."""


class _Terminated(BaseException):
    """The system asked the process to end."""


@contextlib.contextmanager
def writing() -> Iterator[None]:
    """Tell trouble with the output from trouble with the vault."""
    try:
        yield
    except OSError as error:
        raise OutputError from error


def guarded(run: Callable[[], int]) -> int:
    """Run a command and return its exit code, whatever becomes of its output.

    A reader that went away, as after ``| head``, is no error; an output that
    takes nothing is one, with a sentence. Ctrl-C and SIGTERM end it in order.
    """
    with contextlib.suppress(ValueError):  # not the main thread: signals are someone else's
        signal.signal(signal.SIGTERM, _terminate)
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            encoding = "utf-8" if os.name == "nt" and not stream.isatty() else None
            with contextlib.suppress(AttributeError, ValueError):
                stream.reconfigure(encoding=encoding, errors="backslashreplace")  # type: ignore[union-attr]
    code = 0
    try:
        code = run()
        if sys.stdout is not None:
            sys.stdout.flush()
    except KeyboardInterrupt:
        return _INTERRUPTED
    except _Terminated:
        return _TERMINATED
    except SystemExit as stop:  # Typer ends so when its own help cannot be written
        cause = stop.__context__
        return _ended(cause, code) if isinstance(cause, OSError) else int(stop.code or 0)
    except OutputError as error:
        return _ended(error.__cause__, code)
    except OSError as error:
        return _ended(error, code)
    return code


def _terminate(number: int, _frame: object) -> None:
    signal.signal(number, signal.SIG_IGN)  # once is enough
    raise _Terminated


def _ended(error: BaseException | None, code: int) -> int:
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
