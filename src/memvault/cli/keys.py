"""Read a single key press at the terminal without waiting for Enter."""

from __future__ import annotations

import sys

ENDS = ("", "\x03", "\x04")
"""The end of the input, Ctrl-C and Ctrl-D."""
NO_CHARACTER = "\0"
"""Returned for a key that produces no single character, such as an arrow."""
_ENTER = ("\r", "\n")
"""Keys to ignore, because people press Enter out of habit."""


def _show(question: str) -> None:
    sys.stdout.write(question)
    sys.stdout.flush()


if sys.platform == "win32":
    import msvcrt

    def read_key(question: str) -> str:
        """Show a question, and return the next key without echoing it."""
        _show(question)
        try:
            while (key := msvcrt.getwch()) in _ENTER:
                pass
        except KeyboardInterrupt:
            return ""
        if key in ("\0", "\xe0"):  # The key's code follows.
            msvcrt.getwch()
            return NO_CHARACTER
        return key

else:
    import contextlib
    import os
    import select
    import termios

    _SEQUENCE_SECONDS = 0.05
    """Seconds to wait for the remaining bytes of one key."""

    def read_key(question: str) -> str:
        """Show a question, and return the next key without echoing it."""
        terminal = sys.stdin.fileno()
        before = termios.tcgetattr(terminal)
        modes = termios.tcgetattr(terminal)
        # Read Ctrl-C as a key, so the command stops only at a safe point.
        modes[3] &= ~(termios.ICANON | termios.ECHO | termios.ISIG)
        modes[6][termios.VMIN], modes[6][termios.VTIME] = 1, 0
        try:
            termios.tcsetattr(terminal, termios.TCSADRAIN, modes)
            _show(question)
            while (key := _read(terminal)) in _ENTER:
                pass
            return key
        except OSError:  # The terminal is gone.
            return ""
        finally:
            with contextlib.suppress(termios.error):
                termios.tcsetattr(terminal, termios.TCSADRAIN, before)

    def _read(terminal: int) -> str:
        first = os.read(terminal, 1)
        if first == b"\0":  # A Ctrl-D typed before the terminal modes were set.
            return "\x04"
        if first != b"\x1b" and first.isascii():
            return first.decode()
        while select.select([terminal], [], [], _SEQUENCE_SECONDS)[0] and os.read(terminal, 32):
            pass
        return NO_CHARACTER
