"""Read a missing required text argument from standard input."""

from __future__ import annotations

import contextlib
import os
import select
import stat
import struct
import sys

from memvault.arguments.binding import read_stream
from memvault.errors import UsageError
from memvault.vault import decoding

_PATIENCE = 60.0
"""Seconds to wait for the first input from a pipe; some programs take a while to write."""
_SILENCE = 2.0
"""Seconds after which a note tells the user that memvault is waiting for input."""


def piped(name: str, optional: bool, quiet: bool, required: bool = True) -> str | None:
    """Read the argument ``name`` from standard input, or return None if nothing is piped in.

    Standard input is read if it is a pipe or an unread file: a partly read file may be the
    input of a shell loop. Terminals, /dev/null and sockets are ignored. If a pipe stays silent,
    such as a pipe inherited from a parent process, the result is None after ``_SILENCE`` seconds
    or, if ``required``, an error after ``_PATIENCE`` seconds. ``optional`` only changes the hint.

    Raises:
        UsageError: the input is too large, or, if ``required``, empty or too late.
    """
    if not _is_redirected():
        return None
    hint = (
        f"pass {name} as an argument, `-` to wait for it, or `@file`"
        + ", or '' for none" * optional
    )
    if not _is_ready(_SILENCE):
        if not required:
            return None
        if not quiet:
            sys.stderr.write(f"note: waiting for {name} on standard input\n")
        if not _is_ready(_PATIENCE - _SILENCE):
            raise UsageError(f"No data on standard input for {_PATIENCE:g} seconds", hint)
    text = decoding.decode(read_stream(sys.stdin.buffer, "Standard input")).text
    if not text.strip():
        if not required:
            return None
        raise UsageError(f"{name} is missing, and standard input is empty", hint)
    return text


def has_waiting_data() -> bool:
    """Return whether standard input is a pipe that contains data, or an unread file.

    This never waits. On systems that cannot check this, such as Windows, the result is False.
    """
    if not _is_redirected():
        return False
    with contextlib.suppress(ImportError, OSError):
        import fcntl
        import termios

        count = fcntl.ioctl(0, termios.FIONREAD, b"\0" * struct.calcsize("i"))
        return bool(struct.unpack("i", count)[0] > 0)
    return False


def _is_redirected() -> bool:
    """Return whether standard input is a pipe or an unread file."""
    try:
        mode = os.fstat(0).st_mode
        if stat.S_ISREG(mode):
            return os.lseek(0, 0, os.SEEK_CUR) == 0
    except OSError:  # Standard input is closed.
        return False
    return stat.S_ISFIFO(mode)


def _is_ready(seconds: float) -> bool:
    """Return whether data or the end of standard input arrives within ``seconds``."""
    with contextlib.suppress(OSError):  # On Windows, select supports only sockets.
        return bool(select.select([0], [], [], seconds)[0])
    return True
