"""Running a program that is not memvault's: a time limit, an output limit, and no shell."""

from __future__ import annotations

import contextlib
import os
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
    nowhere else. ``pause`` waits for a moment between two looks.

    Raises:
        UsageError: there is no such program, or it cannot be started.
    """
    given = dict(os.environ if environment is None else environment)
    child = _Child([located(command[0], folder, given), *command[1:]], folder, given, most)
    try:
        child.start()
        child.attend(text, time.monotonic() + seconds, pause)
    finally:
        child.kill()
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
        self._output = bytearray()
        self._complaint = bytearray()
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
        self._threads = [
            threading.Thread(target=work, args=rest, daemon=True)
            for work, rest in (
                (_feed, (process.stdin, text.encode("utf-8", "replace"))),
                (self._listen, (process.stdout,)),
                (self._hear, (process.stderr,)),
            )
        ]
        for thread in self._threads:
            thread.start()
        step = _SHORTEST
        while process.poll() is None and not self._cut:
            left = deadline - time.monotonic()
            if left <= 0:
                self._timed_out = True
                return
            pause(min(step, left))
            step = min(step * 1.5, _LONGEST)
        for thread in self._threads[1:]:
            thread.join(max(0.0, min(_AFTERWARDS, deadline - time.monotonic())))

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

    def finished(self) -> Finished:
        """Return what became of it, once it has been killed or has ended."""
        process = self._process
        assert process is not None
        for thread in self._threads:
            thread.join(_AFTERWARDS)
        if not any(thread.is_alive() for thread in self._threads):
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe is not None:
                    with contextlib.suppress(OSError):
                        pipe.close()
        return Finished(
            process.returncode,
            bytes(self._output[: self._most]).decode("utf-8", "replace"),
            bytes(self._complaint).decode("utf-8", "replace"),
            self._timed_out,
            self._cut,
        )

    def _listen(self, pipe: IO[bytes]) -> None:
        for piece in _pieces(pipe):
            self._output += piece
            if len(self._output) > self._most:
                self._cut = True
                return

    def _hear(self, pipe: IO[bytes]) -> None:
        for piece in _pieces(pipe):
            self._complaint += piece
            del self._complaint[:-_COMPLAINT]


def _pieces(pipe: IO[bytes]) -> Iterator[bytes]:
    """Yield what a program writes, as it comes."""
    with contextlib.suppress(OSError, ValueError):
        while piece := os.read(pipe.fileno(), _PIECE):
            yield piece


def _feed(pipe: IO[bytes], data: bytes) -> None:
    with contextlib.suppress(OSError, ValueError):  # one that does not read is no error
        pipe.write(data)
    with contextlib.suppress(OSError, ValueError):
        pipe.close()


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
            if os.path.isabs(entry) and not is_below(os.path.realpath(entry), base)
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
        raise UsageError(f"{name!r} cannot be run: there is no such file", "mend the command")
    path = environment.get("PATH", os.defpath)
    folders = [entry for entry in path.split(os.pathsep) if Path(entry).is_absolute()]
    found = shutil.which(name, path=os.pathsep.join(folders)) if name and folders else None
    if found is None or not Path(found).is_absolute():
        said = f"{name!r} cannot be run: there is no such program"
        raise UsageError(said, "install it, or mend the command")
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
