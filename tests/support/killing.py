"""Kill a piece of work before a numbered file change.

A ``Killing`` is a process that has loaded the program and a piece of work: code that defines
``work(root)``. For each request, a fork of it does the work and kills itself before the change with
the given number. A change is a file written, linked, renamed or removed, a new folder, a database
statement, or a run of git.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

__all__ = ["Killing", "die_at", "forked"]

CHANGES = {"open", "os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir"}
READING = ("SELECT", "PRAGMA")
MANY = 300


class Killing:
    """A process whose forks do the work in a vault and are killed at a given change."""

    def __init__(self, root: Path, work: str, *others: Path) -> None:
        """Load the work; changes in the folders ``others`` outside the vault also count."""
        self._process = subprocess.Popen(
            [sys.executable, __file__, work, str(root), *map(str, others)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def at(self, number: int, kind: str = "") -> str:
        """Do the work until its change with this number; return it, or None if all was done.

        Only changes whose names begin with the given kind are counted.
        """
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(f"{number} {kind}\n")
        self._process.stdin.flush()
        status, place = json.loads(self._process.stdout.readline())
        assert status == (-signal.SIGKILL if place else 0), place
        return str(place)

    def everywhere(self, kind: str = "", most: int = MANY) -> Iterator[str]:
        """Repeat the work, killing it one change later each time."""
        for number in range(1, most + 1):
            place = self.at(number, kind)
            if not place:
                return
            yield place
        assert most < MANY, f"the work makes {MANY} changes and more"

    def __enter__(self) -> Killing:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=60)


def die_at(
    folders: Sequence[Path], number: int, told: Callable[[str], object], kind: str = ""
) -> None:
    """Kill this process before the change with this number, after reporting that change."""
    left = number
    within = tuple(map(str, folders))

    def change(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "subprocess.Popen" and Path(arguments[0]).name == "git":
            counted(" ".join(["git", *map(str, arguments[1][1:])]))
        if event not in CHANGES:
            return
        if event == "open" and not int(str(arguments[2])) & (os.O_WRONLY | os.O_RDWR):
            return
        paths = [str(path) for path in arguments if isinstance(path, str | os.PathLike)]
        if any(path.startswith(within) for path in paths):
            counted(f"{event} {paths[0]}")

    def counted(place: str) -> None:
        nonlocal left
        left -= place.startswith(kind)
        if left <= 0:
            told(place)
            os.kill(os.getpid(), signal.SIGKILL)

    def connected(path: Any, *rest: Any, real: Any = sqlite3.connect, **more: Any) -> Any:
        database = real(path, *rest, **more)
        if str(path).startswith(within):
            database.set_trace_callback(
                lambda text: None if text.startswith(READING) else counted(f"sql {text[:40]}")
            )
        return database

    sqlite3.connect = connected  # type: ignore[assignment]
    sys.addaudithook(change)


def forked(work: Callable[[], None]) -> tuple[int, int]:
    """Do some work in a forked process; return its pid, and the pipe with its output."""
    ours, theirs = os.pipe()
    child = os.fork()
    if not child:
        os.dup2(theirs, sys.stdout.fileno())
        status = 1
        try:
            work()
            sys.stdout.flush()
            status = 0
        finally:
            os._exit(status)
    os.close(theirs)
    return child, ours


def _tell(words: str) -> None:
    os.write(sys.stdout.fileno(), words.encode())


def _serve(work: str, folders: list[Path]) -> None:
    """Answer each number on standard input with the result of the work."""
    defined: dict[str, Any] = {}
    exec(work, defined)
    for line in sys.stdin:

        def doing(line: str = line) -> None:
            number, _, kind = line.rstrip("\n").partition(" ")
            die_at(folders, int(number), _tell, kind)
            defined["work"](folders[0])

        child, words = forked(doing)
        with open(words, encoding="utf-8") as file:
            place = file.read()
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print(json.dumps([status, place]), flush=True)


if __name__ == "__main__":
    _serve(sys.argv[1], [Path(name) for name in sys.argv[2:]])
