"""A text that is piped in where a command needs one and none is written."""

from __future__ import annotations

import contextlib
import os
import select
import stat
import sys

from memvault.errors import UsageError
from memvault.vault import document

_PATIENCE = 60.0
"""Seconds for what is piped in to begin: some programs think before they write."""
_SILENCE = 2.0
"""Seconds after which somebody may wonder what memvault waits for."""


def piped(name: str, optional: bool, quiet: bool) -> str | None:
    """Return what is piped in as the argument of a name, or None where nothing is.

    Standard input counts where it is a pipe, or a file that nobody has begun to
    read: a shell's loop reads its own list. A terminal, /dev/null and a socket
    are nothing. A pipe in which nothing comes, as a program may leave to
    its children, is given up.

    Raises:
        UsageError: the pipe is empty, or nothing comes.
    """
    try:
        mode = os.fstat(0).st_mode
        begun = stat.S_ISREG(mode) and os.lseek(0, 0, os.SEEK_CUR) > 0
    except OSError:  # it is closed
        return None
    if begun or not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode)):
        return None
    hint = f"give {name} as an argument, - to wait for it, @file" + ", or '' for none" * optional
    if not _comes(_SILENCE):
        if not quiet:
            sys.stderr.write(f"note: waiting for {name} on standard input\n")
        if not _comes(_PATIENCE - _SILENCE):
            raise UsageError(f"Nothing came on standard input for {_PATIENCE:g} seconds", hint)
    text = document.decode(sys.stdin.buffer.read()).text
    if not text.strip():
        raise UsageError(f"Standard input is empty, and there is no {name}", hint)
    return text


def _comes(seconds: float) -> bool:
    """Say whether something, or the end, comes on standard input soon enough."""
    with contextlib.suppress(OSError):  # Windows asks sockets only
        return bool(select.select([0], [], [], seconds)[0])
    return True
