#!/usr/bin/env python3
"""Measure the memory of the resident process with several vaults over a simulated day.

    python bench/resident_memory.py [--memories 2000] [--vaults 5] [--hours 24] [--rounds 15]
        [--beside ../other/src]

The vaults are from ``corpus.py``. Their first recall, which builds the index, and the recalls,
shows, lists and changes after it run in the resident process. Then hours pass in which only the
first vault is used, every fifteen minutes. They are simulated: a wait of the process takes 10 ms,
and its clock is moved by the rest. Finally, each vault is recalled again, and the CPU time of a
recall in one vault is measured. With ``MEMVAULT_DEEP=now`` the indexes include transformer vectors.
With ``--beside``, the program of another checkout does the same in turn. Linux only.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from statistics import median

from performance import process_cpu
from processes import machine, memvault, note, prepare_environment, process, variables, workplace
from table import Finished, milliseconds

_QUERIES = 5
_MINUTES_BETWEEN_USES = 15
_PAUSE = 0.05
_FIGURES = ("Rss", "Pss", "Private_Dirty")
_SERVE = """
import os, signal, sys, time
from memvault.cli.daemon import server

real, wait = time.monotonic, server._readable
file = sys.argv.pop()
skipped = remaining = 0.0

def skip(*_):
    global remaining
    remaining = 60.0 * int(open(file).read())

def readable(descriptors, seconds):
    global skipped, remaining
    if remaining < 0:
        os.unlink(file)
        remaining = 0.0
    ready = wait(descriptors, 0.01 if remaining else seconds)
    if remaining and not ready:
        skipped, remaining = skipped + seconds, remaining - seconds or -1.0
    return ready

time.monotonic, server._readable = lambda: real() + skipped, readable
signal.signal(signal.SIGUSR1, skip)
from memvault.__main__ import main
sys.exit(main())
"""
"""Runs the resident process; SIGUSR1 lets the number of minutes in a file pass."""


class Resident:
    """A resident process with its own vaults, run by the program of a source folder."""

    def __init__(self, place: Path, source: str, vaults: Mapping[Path, list[str]]) -> None:
        """Copy the vaults, given with questions about each, to a folder."""
        self._minutes = place / "minutes"
        self._variables = {
            "MEMVAULT_CACHE": str(place / "cache"),
            "MEMVAULT_STATE": str(place / "state"),
            "MEMVAULT_RESIDENT": "auto",
            **({"PYTHONPATH": source} if source else {}),
        }
        self.queries = {place / folder.name: queries for folder, queries in vaults.items()}
        self.folders = list(self.queries)
        for source_folder, folder in zip(vaults, self.folders, strict=True):
            shutil.copytree(source_folder, folder)
        self._sent = 0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run the process during the block, and report commands that it has not run."""
        command = [sys.executable, "-c", _SERVE, "watch", str(self._minutes)]
        with variables(**self._variables):
            self._process = subprocess.Popen(command)
        try:
            while not self._commands():
                time.sleep(_PAUSE)
            first, self._sent = self._commands(), 0
            yield
            missing = first + self._sent + 1 - self._commands()
            if missing:
                note(f"{missing} commands ran outside the resident process because it was busy")
        finally:
            self._process.terminate()
            self._process.wait()

    def _commands(self) -> int:
        """Return the number of commands that the process has run, including this one."""
        return int(json.loads(self.run("watch", "--status").output).get("commands", 0))

    def run(self, *arguments: str) -> Finished:
        """Run a command in the process."""
        self._sent += 1
        with variables(**self._variables):
            return memvault(*arguments, "--json")

    def recall(self, folder: Path, number: int) -> str:
        """Recall in a vault; return the first memory."""
        queries = self.queries[folder]
        done = self.run("recall", queries[number % len(queries)], "--vault", str(folder))
        return str(json.loads(done.output)["memories"][0]["memId"])

    def use(self, number: int) -> None:
        """Recall, show, list and remember in one of the vaults."""
        folder = self.folders[number]
        here = ("--vault", str(folder))
        for query in range(_QUERIES):
            self.run("show", self.recall(folder, query), *here)
        self.run("list", "--limit", "50", *here)
        self.run("remember", "Use of a vault", self.queries[folder][_QUERIES], *here)
        self.recall(folder, _QUERIES)

    def cpu(self, number: int) -> float:
        """Return the CPU seconds of the process for a recall in the first vault."""
        before = process_cpu(self._process.pid)
        self.recall(self.folders[0], number)
        time.sleep(_PAUSE)
        return process_cpu(self._process.pid) - before

    def sleep(self, minutes: int) -> None:
        """Let simulated minutes pass."""
        new = self._minutes.with_suffix(".new")
        new.write_text(str(minutes))
        new.replace(self._minutes)
        self._process.send_signal(signal.SIGUSR1)
        while self._minutes.exists():
            if self._process.poll() is not None:
                sys.exit("resident_memory.py: the resident process has ended")
            time.sleep(_PAUSE)

    def hour(self) -> None:
        """Let an hour pass, and recall in the first vault every fifteen minutes."""
        for number in range(60 // _MINUTES_BETWEEN_USES):
            self.sleep(_MINUTES_BETWEEN_USES)
            self.recall(self.folders[0], number)

    def megabytes(self) -> list[float]:
        """Return the figures of the process's memory."""
        text = Path(f"/proc/{self._process.pid}/smaps_rollup").read_text("ascii")
        kilobytes = dict(re.findall(r"^(\w+): +(\d+) kB$", text, re.MULTILINE))
        return [int(kilobytes[name]) * 1_024 / 1e6 for name in _FIGURES]


def written(place: Path, memories: int, count: int) -> dict[Path, list[str]]:
    """Write vaults; return questions about each."""
    corpus = Path(__file__).with_name("corpus.py")
    queries = {}
    for number in range(count):
        folder = place / f"vault-{number + 1}"
        note(f"writing {folder.name}")
        memvault("init", "--bare", str(folder))
        line = [sys.executable, str(corpus), str(folder), str(memories), "--seed", str(number)]
        queries[folder] = json.loads(process(line).output)["queries"]
    return queries


Stage = tuple[str, Callable[[Resident], object]]


def stages(vaults: int, hours: int) -> Iterator[Stage]:
    """Yield what happens before each measurement, with its name."""
    yield "started", Resident.megabytes
    for number in range(vaults):
        name = f"{number + 1} vaults" if number else "1 vault"
        yield name, partial(Resident.use, number=number)
    yield "ten minutes later", lambda resident: resident.sleep(10)
    for hour in range(1, hours + 1):
        name = f"{hour} h later" if hour in (1, hours) else ""
        yield name, Resident.hour
    yield "each recalled", lambda resident: [resident.recall(at, 0) for at in resident.folders]
    yield "ten minutes later", lambda resident: resident.sleep(10)


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--memories", type=int, default=2_000)
    parser.add_argument("--vaults", type=int, default=5)
    parser.add_argument("--hours", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=15, help="recalls of which CPU is measured")
    parser.add_argument("--beside", default="", help="the src folder of another checkout")
    wished = parser.parse_args()
    with workplace(None) as place, ExitStack() as stack:
        prepare_environment(place / "cache")
        vaults = written(place / "vaults", wished.memories, wished.vaults)
        sources = {"this": "", **({"beside": wished.beside} if wished.beside else {})}
        residents = {}
        for name, source in sources.items():
            resident = Resident(place / name, source, vaults)
            stack.enter_context(resident.running())
            residents[name] = resident
        print(f"{machine()}; {wished.vaults} vaults of {wished.memories:,} memories\n")
        print(f"| {'MB'} | program | {' | '.join(_FIGURES)} |\n|---|---|--:|--:|--:|")
        for what, work in stages(wished.vaults, wished.hours):
            for name, resident in residents.items():
                work(resident)
                if what:
                    shown = " | ".join(f"{figure:.1f}" for figure in resident.megabytes())
                    print(f"| {what} | {name} | {shown} |", flush=True)
        spent: dict[str, list[float]] = {name: [] for name in residents}
        for turn in range(wished.rounds + 1):
            for name in list(residents)[:: 1 if turn % 2 else -1]:
                spent[name].append(residents[name].cpu(turn))
        for name, times in spent.items():
            print(f"\n{name}: {milliseconds(median(times[1:]))} ms of CPU for a recall")


if __name__ == "__main__":
    main()
