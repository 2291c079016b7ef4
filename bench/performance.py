#!/usr/bin/env python3
"""Measure the figures of docs/development/performance.md and write its figures.json.

    python bench/performance.py [--sizes 1000,10000] [--vectors quick,deep] [--rounds 11] [--keep
        DIR] [--peers DIR] [--results FILE]

For each size it creates a vault with ``corpus.py`` and its first index. Then it runs the commands
in turn within one loop, together with ``python -c pass``: each as a separate process, through the
resident process, and under a timer that attributes time to parts (``sampled.py``). "Deep" has all
transformer vectors, "quick" has none. Figures of other sizes stay in the file. ``--keep`` reuses
vaults and deep vectors of an earlier run.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean, median
from typing import Any, NamedTuple

import peers
from processes import (
    PASS,
    indexes,
    machine,
    memvault,
    note,
    prepare_environment,
    process,
    variables,
    workplace,
)
from speed import Vault, folder_size, prepared, warm_up
from table import Finished, milliseconds, summary

RESULTS = Path(__file__).resolve().parents[1] / "docs/development/performance/figures.json"
DEEP, QUICK = "deep", "quick"
VERSION = "--version"
RECALL, KEYWORD, REMEMBER = "recall", "recall --mode keyword", "remember"
HOOK = "hook prompt"
CHANGED = "recall after a change"
"""The first recall after another process has changed the vault and its index."""
_MODES = {DEEP: "auto", QUICK: "off"}
_SAMPLED = Path(__file__).with_name("sampled.py")
_AFTERMATH = 0.005
"""Seconds that the resident process may spend on cleanup after its answer."""


class Command(NamedTuple):
    """A command line, and its standard input."""

    arguments: list[str]
    given: str = ""


class Handed(NamedTuple):
    """A command run by the resident process: the client, and the CPU seconds of the process."""

    client: Finished
    server: float


class Measured(NamedTuple):
    """The measurements of each command over all rounds."""

    cold: dict[str, list[Finished]]
    resident: dict[str, list[Handed]]
    parts: dict[str, list[dict[str, float]]]


def process_cpu(number: int) -> float:
    """Return the CPU seconds that all threads of another process have used; Linux only."""
    return time.clock_gettime(~number << 3 | 2)  # CPUCLOCK_SCHED of that process


def commands(vault: Vault, number: int) -> dict[str, Command]:
    """Return the commands of a round, with another question and another memory each time."""
    here = ["--json", "--vault", str(vault.folder)]
    query = vault.corpus["queries"][number % len(vault.corpus["queries"])]
    shown = vault.files[number * len(vault.files) // 100 % len(vault.files)].read_text("utf-8")
    identifier = shown.partition("\nid: ")[2].partition("\n")[0]
    title, body = vault.corpus["spare"][number % len(vault.corpus["spare"])]
    lines = {
        VERSION: [VERSION],
        RECALL: ["recall", query, *here],
        KEYWORD: ["recall", query, "--mode", "keyword", *here],
        "show": ["show", identifier, *here],
        "list --limit 5": ["list", "--limit", "5", *here],
        "goals get": ["goals", "get", *here],
        HOOK: ["hook", "prompt", "--for", "claude-code", "--vault", str(vault.folder)],
        REMEMBER: ["remember", f"{title} {time.time_ns()}", body, "--type", "learning", *here],
    }
    prompt = json.dumps({"prompt": query})
    return {name: Command(line, prompt if name == HOOK else "") for name, line in lines.items()}


def settle(vault: Vault) -> None:
    """Wait until no file counts as recently edited, and no process computes vectors."""
    vault.settle()
    while _status(vault)["deep"].get("working"):
        time.sleep(0.2)


def _status(vault: Vault) -> dict[str, Any]:
    status: dict[str, Any] = json.loads(
        memvault("status", "--json", "--vault", str(vault.folder)).output
    )
    return status


@contextmanager
def resident() -> Iterator[int]:
    """Run the resident process during the block; yield its process id."""
    memvault("watch", "--detach")
    try:
        yield _resident_status()["process"]
    finally:
        memvault("watch", "--stop")


def _resident_status() -> dict[str, Any]:
    with variables(MEMVAULT_RESIDENT="auto"):
        status: dict[str, Any] = json.loads(memvault("watch", "--status", "--json").output)
    return status


def handed_over(command: Command, number: int) -> Handed:
    """Run a command in the resident process ``number``."""
    before = process_cpu(number)
    with variables(MEMVAULT_RESIDENT="auto"):
        client = memvault(*command.arguments, given=command.given)
    time.sleep(_AFTERMATH)
    return Handed(client, process_cpu(number) - before)


def sampled(command: Command, file: Path) -> dict[str, float]:
    """Return the CPU seconds of each part of a command in a separate process."""
    line = [sys.executable, str(_SAMPLED), str(file), *command.arguments]
    done = process(line, given=command.given)
    parts: dict[str, float] = json.loads(file.read_text("utf-8"))
    parts["end"] = done.cpu - sum(parts.values())
    return parts


def rounds(vault: Vault, count: int, place: Path) -> tuple[Measured, float]:
    """Run everything in turn, ``count`` times; return the results and the resident process's MB."""
    found = Measured(defaultdict(list), defaultdict(list), defaultdict(list))
    with resident() as number:
        for name, command in commands(vault, 0).items():  # the first run opens the vault
            if name != REMEMBER:
                handed_over(command, number)
        for turn in range(count):
            note(f"{len(vault.files)} memories: round {turn + 1} of {count}")
            settle(vault)
            for _ in range(2):
                found.cold[PASS].append(process([sys.executable, "-c", "pass"]))
            for name, command in commands(vault, turn + 1).items():
                found.cold[name].append(memvault(*command.arguments, given=command.given))
            settle(vault)
            before = _resident_status()["commands"] + 1  # commands are counted when they end
            line = commands(vault, turn + 1)
            del line[VERSION]
            line = {CHANGED: commands(vault, turn)[RECALL], **line}
            for name, command in line.items():
                found.resident[name].append(handed_over(command, number))
            ran = _resident_status()["commands"] - before
            if ran != len(line):
                sys.exit(f"performance.py: the resident process ran {ran} of {len(line)} commands")
            settle(vault)
            for name, command in commands(vault, turn + 1).items():
                if name not in (VERSION, HOOK):
                    found.parts[name].append(sampled(command, place / "parts.json"))
        return found, _resident_status()["megabytes"]


def of_handed(done: list[Handed]) -> dict[str, float]:
    """Return the medians of commands that the resident process ran, in ms."""
    return {
        "wall": milliseconds(median(entry.client.seconds for entry in done)),
        "cpu": milliseconds(median(entry.client.cpu + entry.server for entry in done)),
    }


def of_parts(done: list[dict[str, float]]) -> dict[str, float]:
    """Return the means by part, in ms; unlike medians, means add up."""
    return {part: milliseconds(fmean(entry[part] for entry in done)) for part in done[0]}


def measured(vault: Vault, vectors: str, count: int, place: Path) -> dict[str, Any]:
    """Measure everything on one vault with quick or deep vectors."""
    files = set(vault.files)
    record: dict[str, Any] = {}
    with variables(MEMVAULT_DEEP=_MODES[vectors], MEMVAULT_CACHE=str(place)):
        note(f"{len(vault.files)} memories: {vectors} vectors")
        if vectors == QUICK:
            record["index"] = summary([vault.index()])
        elif not indexes().exists() or _status(vault)["deep"]["waiting"]:
            with variables(MEMVAULT_DEEP="now"):
                record["index"] = summary([vault.index()])
        try:
            found, megabytes = rounds(vault, count, place)
            record["index size"] = round(folder_size(indexes(), "*"), 1)
        finally:
            for path in set(vault.folder.glob("*/*.md")) - files:
                path.unlink()
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": machine(),
        "rounds": count,
        "cold": {name: summary(done) for name, done in found.cold.items()},
        "resident": {name: of_handed(done) for name, done in found.resident.items()},
        "resident megabytes": megabytes,
        "parts": {name: of_parts(done) for name, done in found.parts.items()},
        **record,
    }


def vault_of(folder: Path, size: int) -> Vault:
    """Return the vault of a given size in a folder, creating it if it is missing."""
    place, corpus = folder / f"vault-{size}", folder / f"corpus-{size}.json"
    if corpus.exists():
        return Vault(place, json.loads(corpus.read_text("utf-8")))
    note(f"{size} memories: writing")
    vault = prepared(place, size)
    corpus.write_text(json.dumps(vault.corpus), "utf-8")
    return vault


def save(file: Path, key: str, record: Mapping[str, Any]) -> None:
    """Merge a record into the results file, keeping parts that the record lacks."""
    results = json.loads(file.read_text("utf-8")) if file.exists() else {}
    results[key] = {**results.get(key, {}), **record}
    text = json.dumps(dict(sorted(results.items())), indent=1)
    file.write_text(f"{text}\n", "utf-8")


def main() -> None:
    """Read the arguments, measure each size, and save it."""
    parser = argparse.ArgumentParser(description="Measure the figures of the performance page")
    parser.add_argument("--sizes", default="1000,10000", help="numbers of memories (%(default)s)")
    parser.add_argument("--vectors", default="quick,deep", help="%(default)s, or one of them")
    parser.add_argument("--rounds", type=int, default=11, help="rounds of the loop (%(default)s)")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep vaults and vectors here")
    parser.add_argument("--peers", type=Path, metavar="DIR", help="the peers' environments")
    parser.add_argument("--results", type=Path, default=RESULTS, help="write figures to this file")
    given = parser.parse_args()
    sizes = [int(text) for text in given.sizes.split(",") if text]
    with workplace(given.keep) as folder, workplace(None) as cache:
        prepare_environment(cache)
        warm_up(cache / "warm-up")
        for size in sizes:
            vault = vault_of(folder, size)
            for vectors in given.vectors.split(","):
                record = measured(vault, vectors, given.rounds, folder / f"{vectors}-{size}")
                save(given.results, f"{size} {vectors}", record)
        if given.peers:
            vault = vault_of(folder, peers.SIZE)
            save(given.results, "peers", peers.measured(vault, given.peers, cache / "peers"))


if __name__ == "__main__":
    main()
