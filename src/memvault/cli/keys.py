"""A key that a person presses at the terminal, read without waiting for Enter."""

from __future__ import annotations

import sys

ENDS = ("", "\x03", "\x04")
"""The end of the input, Ctrl-C and Ctrl-D."""
NO_CHARACTER = "\0"
"""A key that does not produce a single character, such as an arrow."""
_ENTER = ("\r", "\n")
"""Ignored: people press Enter out of habit."""


def _show(question: str) -> None:
    sys.stdout.write(question)
    sys.stdout.flush()


if sys.platform == "win32":
    import msvcrt

    def read_key(question: str) -> str:
        """Show a question, and return the key that is pressed next, without showing it."""
        _show(question)
        try:
            while (key := msvcrt.getwch()) in _ENTER:
                pass
        except KeyboardInterrupt:
            return ""
        if key in ("\0", "\xe0"):  # the code of such a key follows
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
        """Show a question, and return the key that is pressed next, without showing it."""
        terminal = sys.stdin.fileno()
        before = termios.tcgetattr(terminal)
        modes = termios.tcgetattr(terminal)
        # Read Ctrl-C as a key, so that the command stops only at a safe point.
        modes[3] &= ~(termios.ICANON | termios.ECHO | termios.ISIG)
        modes[6][termios.VMIN], modes[6][termios.VTIME] = 1, 0
        try:
            termios.tcsetattr(terminal, termios.TCSADRAIN, modes)
            _show(question)
            while (key := _read(terminal)) in _ENTER:
                pass
            return key
        except OSError:  # the terminal is gone
            return ""
        finally:
            with contextlib.suppress(termios.error):
                termios.tcsetattr(terminal, termios.TCSADRAIN, before)

    def _read(terminal: int) -> str:
        first = os.read(terminal, 1)
        if first == b"\0":  # left by a Ctrl-D typed before the terminal modes were set
            return "\x04"
        if first != b"\x1b" and first.isascii():
            return first.decode()
        while select.select([terminal], [], [], _SEQUENCE_SECONDS)[0] and os.read(terminal, 32):
            pass
        return NO_CHARACTER
