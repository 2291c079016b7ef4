"""Running a command for a tool: no shell, a time limit, an output limit, nothing left behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from typing import IO, NamedTuple

from memvault.errors import UsageError

__all__ = ["Finished", "run"]

_BLOCK = 65_536
_LAST_WORDS = 10_000
_GRACE = 2.0
_PAUSE = 0.01


class Finished(NamedTuple):
    """How a command ended: exit code, standard output, the end of standard error.

    A command that was ``timed_out`` or whose output was ``cut`` was killed, with
    its whole process group.
    """

    code: int
    output: str
    complaint: str
    timed_out: bool
    cut: bool


class _Reader(threading.Thread):
    """Reads a stream to its end; what is over the limit says so once and is dropped."""

    def __init__(self, stream: IO[bytes], most: int, full: threading.Event | None) -> None:
        super().__init__(daemon=True)
        self._stream = stream
        self._most = most
        self._full = full
        self.data = b""

    def finish(self, seconds: float) -> None:
        """Wait for the end of the stream; one that a process of another group holds stays open."""
        self.join(seconds)
        if not self.is_alive():
            self._stream.close()

    def run(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            while block := os.read(self._stream.fileno(), _BLOCK):
                self.data += block
                if len(self.data) > self._most:
                    if self._full is None:
                        self.data = self.data[-self._most :]
                    else:
                        self.data = self.data[: self._most]
                        self._full.set()


def run(command: Sequence[str], text: str, seconds: float, most: int) -> Finished:
    """Run a command with a text on its standard input; ``most`` is the output's limit in bytes.

    Raises:
        UsageError: there is no such command, or it cannot be run.
    """
    try:
        process = subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        told = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(
            f"{command[0]!r} cannot be run: {told}", "check the command and its permissions"
        ) from error
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    full = threading.Event()
    output = _Reader(process.stdout, most, full)
    complaint = _Reader(process.stderr, _LAST_WORDS, None)
    feeder = threading.Thread(target=_feed, args=(process.stdin, text), daemon=True)
    try:
        for thread in (output, complaint, feeder):
            thread.start()
        timed_out = not _ended(process, (output, complaint), full, seconds)
    finally:
        _kill(process)
        feeder.join(_GRACE)
        for reader in (output, complaint):
            reader.finish(_GRACE)
    return Finished(
        process.returncode,
        output.data.decode("utf-8", "replace"),
        complaint.data.decode("utf-8", "replace"),
        timed_out and not full.is_set(),
        full.is_set(),
    )


def _feed(stream: IO[bytes], text: str) -> None:
    with contextlib.suppress(OSError, ValueError):  # a command need not read all of it
        stream.write(text.encode("utf-8", "replace"))
    with contextlib.suppress(OSError, ValueError):
        stream.close()


def _ended(
    process: subprocess.Popen[bytes],
    readers: Sequence[threading.Thread],
    full: threading.Event,
    seconds: float,
) -> bool:
    """Wait until a command has ended; say whether it did so in time.

    What it started and left behind may hold its output open a moment longer.
    """
    deadline = time.monotonic() + seconds
    while process.poll() is None:
        if full.wait(_PAUSE) or time.monotonic() >= deadline:
            return False
    for reader in readers:
        reader.join(_GRACE)
    return True


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End a command and whatever it has started that is still in its group."""
    with contextlib.suppress(OSError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    process.wait()
