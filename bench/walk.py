#!/usr/bin/env python3
"""List the files that a command passes through, in the order of first entry.

Counts files, calls back up (into a file that is waiting for the caller to return), and returns to a
top-level package that was already left.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import memvault
from memvault.__main__ import main

SOURCE = Path(memvault.__file__).resolve().parent
COMMANDS = ("recall --json wombat", "remember --json New Bilby --type fact")


class Walk:
    """The calls that a command makes from one of the program's files to another."""

    def __init__(self) -> None:
        self.files: list[str] = []
        self.up: set[tuple[str, str]] = set()

    def note(self, frame: FrameType, event: str, _: Any) -> None:
        """Record one call."""
        if event != "call" or frame.f_code.co_name == "<module>":
            return
        called = self._file(frame)
        if called is None:
            return
        if called not in self.files:
            self.files.append(called)
        caller = frame.f_back
        while caller is not None and self._file(caller) is None:
            caller = caller.f_back
        if caller is None or caller.f_code.co_name == "<module>":
            return
        above = self._file(caller)
        if above is None or above == called:
            return
        while caller is not None:
            if self._file(caller) == called:
                self.up.add((above, called))
                return
            caller = caller.f_back

    def returns(self) -> int:
        """Return how often the walk returns to a top-level package that it has left."""
        left: set[str] = set()
        here, count = "", 0
        for file in self.files:
            room = Path(file).parts[0]
            if room != here and not room.endswith(".py"):  # a single module is not a package
                count += room in left
                left.add(here)
                here = room
        return count

    @staticmethod
    def _file(frame: FrameType) -> str | None:
        path = Path(frame.f_code.co_filename)
        return str(path.relative_to(SOURCE)) if path.is_relative_to(SOURCE) else None


def walked(arguments: Sequence[str]) -> Walk:
    """Run a command; return its walk."""
    walk = Walk()
    sys.setprofile(walk.note)
    try:
        main(list(arguments))
    finally:
        sys.setprofile(None)
    return walk


def run() -> None:
    """Print the walk of each command in a small indexed vault."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", action="store_true", help="name the files")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for name in ("CACHE", "STATE", "CONFIG"):
            os.environ[f"MEMVAULT_{name}"] = f"{folder}/{name}"
        vault = Path(folder, "vault")
        vault.mkdir()
        os.chdir(vault)
        Path("memvault.toml").write_text("version = 1\n", "utf-8")
        for number in range(3):
            Path(f"n{number}.md").write_text(f"# Note {number}\n\nThe wombat digs.\n", "utf-8")
        main(["recall", "wombat", "--quiet"])
        time.sleep(1.1)  # files edited within the last second are read again
        main(["recall", "wombat", "--quiet"])
        for command in COMMANDS:
            child = os.fork()
            if not child:
                walk = walked(command.split())
                sys.stdout.flush()
                found = len(walk.files), len(walk.up), walk.returns()
                said = "{}: {} files, {} steps back up, {} returns to a package"
                print(said.format(command.split()[0], *found), file=sys.stderr)
                if options.files:
                    print("\n".join(f"  {file}" for file in walk.files), file=sys.stderr)
                    print(
                        "\n".join(f"  up: {a} -> {b}" for a, b in sorted(walk.up)), file=sys.stderr
                    )
                os._exit(0)
            os.waitpid(child, 0)
        os.chdir("/")


if __name__ == "__main__":
    run()
