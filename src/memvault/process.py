"""Running a program that is not memvault's: a time limit, an output limit, and no shell."""

from __future__ import annotations

import contextlib
import math
import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import IO, NamedTuple

from memvault.errors import UsageError

__all__ = ["Finished", "environment", "is_below", "located", "run"]

_COMPLAINT = 64 * 1024
"""How much is kept of the end of what a program writes to standard error."""
_PIECE = 64 * 1024
_SHORTEST, _LONGEST = 0.001, 0.05
"""Seconds between two looks at whether the program has ended."""
_LISTS = ("PATH", "PERL5LIB", "PERLLIB", "RUBYLIB")
"""How the names of those variables end that list folders to find programs and modules in."""
_POLLS = hasattr(select, "poll")
"""Whether a thread can wait for a pipe and for the end of waiting at once."""
_AFTERWARDS = 1.0
"""Seconds that what a program left behind may go on writing once it has ended itself."""


class Finished(NamedTuple):
    """What became of a program.

    ``complaint`` is the end of its standard error. ``timed_out`` and ``cut``
    say that it was killed: out of time, or for writing too much.
    """

    code: int
    output: str
    complaint: str
    timed_out: bool
    cut: bool

    @property
    def last_words(self) -> str:
        """The last line of the complaint that says anything."""
        lines = [line.strip() for line in self.complaint.splitlines() if line.strip()]
        return lines[-1] if lines else ""


def run(
    command: Sequence[str],
    text: str,
    seconds: float,
    most: int,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    pause: Callable[[float], object] = time.sleep,
) -> Finished:
    """Run a program with a text on its standard input.

    After ``seconds``, and when it has written more than ``most`` bytes, it is
    killed. Whatever it started and left behind in its process group is killed
    in any case, also where this process is asked to end meanwhile. A program
    that is named without a slash is looked for in the folders of ``PATH`` and
    nowhere else. ``pause`` waits for a moment between two looks, also for what
    outlives the program and keeps its output open, though not for long.

    Raises:
        UsageError: there is no such program, or it cannot be started.
    """
    given = dict(os.environ if environment is None else environment)
    child = _Child([located(command[0], folder, given), *command[1:]], folder, given, most)
    try:
        child.start()
        try:
            child.attend(text, time.monotonic() + seconds, pause)
        finally:
            child.kill()
        child.linger(pause)
    finally:
        child.close()
    return child.finished()


class _Child:
    """One program under way, and the threads that feed it and read from it."""

    def __init__(
        self, command: list[str], folder: Path | None, environment: dict[str, str], most: int
    ) -> None:
        self._command = command
        self._folder = folder
        self._environment = environment
        self._most = most
        self._process: subprocess.Popen[bytes] | None = None
        self._threads: list[threading.Thread] = []
        self._over: tuple[int, int] | None = None
        self._output = bytearray()
        self._complaint = bytearray()
        self._until = 0.0
        self._timed_out = False
        self._cut = False

    def start(self) -> None:
        """Start the program at the head of a process group of its own."""
        try:
            with _signals_later():
                self._process = subprocess.Popen(
                    self._command,
                    cwd=self._folder,
                    env=self._environment,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    start_new_session=os.name == "posix",
                )
        except (OSError, ValueError) as error:
            said = getattr(error, "strerror", None) or str(error)
            raise UsageError(
                f"{self._command[0]!r} cannot be run: {said}",
                "a script needs a first line such as #!/bin/sh, and the right to be run",
            ) from error

    def attend(self, text: str, deadline: float, pause: Callable[[float], object]) -> None:
        """Feed and read until the program has ended or has to be killed."""
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self._over = os.pipe()
        self._threads = [
            threading.Thread(target=work, args=rest, daemon=True)
            for work, rest in (
                (_feed, (process.stdin, text.encode("utf-8", "replace"), self._over[0])),
                (self._listen, (process.stdout, self._over[0])),
                (self._hear, (process.stderr, self._over[0])),
            )
        ]
        for thread in self._threads:
            thread.start()
        for wait in _steps(deadline):
            if process.poll() is not None or self._cut:
                break
            pause(wait)
        else:
            self._timed_out = True
            return
        self._until = time.monotonic() + _AFTERWARDS
        self.linger(pause, deadline)

    def linger(self, pause: Callable[[float], object], until: float = math.inf) -> None:
        """Wait for the end of what is written, as long as it may go on."""
        self._until = self._until or time.monotonic() + _AFTERWARDS
        for wait in _steps(min(until, self._until)):
            if self._cut or not any(thread.is_alive() for thread in self._threads[1:]):
                return
            pause(wait)

    def kill(self) -> None:
        """Kill the program and all of its group, whether or not it has ended itself."""
        process = self._process
        if process is None:
            return
        if os.name == "posix":
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
        else:
            with contextlib.suppress(OSError):
                process.kill()
        process.wait()

    def close(self) -> None:
        """End the threads, whoever still holds the other ends of the pipes, and close these."""
        if self._over is not None:
            os.close(self._over[1])  # which wakes the threads
            for thread in self._threads:
                thread.join(None if _POLLS else _AFTERWARDS)
            os.close(self._over[0])
        process = self._process
        for pipe in (process.stdin, process.stdout, process.stderr) if process else ():
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()

    def finished(self) -> Finished:
        """Return what became of it, once it was closed."""
        process = self._process
        assert process is not None
        return Finished(
            process.returncode,
            bytes(self._output[: self._most]).decode("utf-8", "replace"),
            bytes(self._complaint).decode("utf-8", "replace"),
            self._timed_out,
            self._cut,
        )

    def _listen(self, pipe: IO[bytes], over: int) -> None:
        for piece in _pieces(pipe, over):
            self._output += piece
            if len(self._output) > self._most:
                self._cut = True
                return

    def _hear(self, pipe: IO[bytes], over: int) -> None:
        for piece in _pieces(pipe, over):
            self._complaint += piece
            del self._complaint[:-_COMPLAINT]


def _steps(deadline: float) -> Iterator[float]:
    """Yield how long to wait until the next look, and end at the deadline."""
    step = _SHORTEST
    while (left := deadline - time.monotonic()) > 0:
        yield min(step, left)
        step = min(step * 1.5, _LONGEST)


def _pieces(pipe: IO[bytes], over: int) -> Iterator[bytes]:
    """Yield what a program writes, as it comes, until it is over."""
    with contextlib.suppress(OSError, ValueError):
        while _is_ready(pipe, select.POLLIN, over) and (piece := os.read(pipe.fileno(), _PIECE)):
            yield piece


def _feed(pipe: IO[bytes], data: bytes, over: int) -> None:
    left = memoryview(data)
    with contextlib.suppress(OSError, ValueError):  # one that does not read is no error
        if _POLLS:
            os.set_blocking(pipe.fileno(), False)  # it may read a part and wait
        while left and _is_ready(pipe, select.POLLOUT, over):
            left = left[os.write(pipe.fileno(), left) :]
    with contextlib.suppress(OSError, ValueError):
        pipe.close()


def _is_ready(pipe: IO[bytes], event: int, over: int) -> bool:
    """Wait until a pipe can be read or written; say no once it is over."""
    if not _POLLS:
        return True
    poll = select.poll()
    poll.register(pipe, event)
    poll.register(over, select.POLLIN)
    return over not in dict(poll.poll())


def environment(root: Path) -> dict[str, str]:
    """Return this process's environment without the folders through which a vault gets in.

    An empty or relative entry of ``PATH`` and its like means the folder that a
    program runs in; with it, or one in the vault, a file there would stand for
    a program, library or module that was meant.
    """
    base = os.path.realpath(root)
    whole = dict(os.environ)
    for name in [name for name in whole if name.upper().endswith(_LISTS)]:
        entries = [
            entry
            for entry in whole[name].split(os.pathsep)
            if Path(entry).is_absolute() and not is_below(os.path.realpath(entry), base)
        ]
        if entries:
            whole[name] = os.pathsep.join(entries)
        else:
            del whole[name]
    return whole


def is_below(path: str, folder: str) -> bool:
    """Say whether a path is a folder or lies in it; both are real paths."""
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def located(
    name: str, folder: Path | None = None, environment: Mapping[str, str] = os.environ
) -> str:
    """Return where the program lies that a command names.

    A ``PATH`` that names the present folder would let a vault's file stand for
    a program of the same name.

    Raises:
        UsageError: there is none.
    """
    import shutil

    if "/" in name or os.sep in name:
        whole = (folder or Path.cwd()) / name
        if whole.is_file():
            return str(whole)
        raise UsageError(f"{name!r} cannot be run: there is no such file", "correct the command")
    path = environment.get("PATH", os.defpath)
    folders = [entry for entry in path.split(os.pathsep) if Path(entry).is_absolute()]
    found = shutil.which(name, path=os.pathsep.join(folders)) if name and folders else None
    if found is None or not Path(found).is_absolute():
        said = f"{name!r} cannot be run: there is no such program"
        raise UsageError(said, "install it, or correct the command")
    return found


@contextlib.contextmanager
def _signals_later() -> Iterator[None]:
    """Let a signal wait for a moment: between a start and its noting nobody could be killed."""
    came: list[tuple[int, FrameType | None]] = []
    numbers = (signal.SIGINT, signal.SIGTERM)
    try:
        before = {
            number: signal.signal(number, lambda *what: came.append(what)) for number in numbers
        }
    except ValueError:  # not the main thread, which alone is interrupted
        yield
        return
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
    if came:
        signal.raise_signal(came[0][0])
