#!/usr/bin/env python3
"""Measure memvault as its callers see it: whole processes, from outside.

Writes vaults of realistic memories (see corpus.py), then runs the installed ``memvault`` on them
and prints one table per size. Repeated commands run in turn within one loop, so that other load
affects all of them equally; ``python -c pass`` and a plain text search run in the same loop.

    python bench/speed.py [--sizes 1000,10000] [--runs 7] [--index-runs 1] [--keep DIR] [--markdown]
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import shutil
import string
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from processes import (
    MAXRSS_UNIT,
    MEGABYTE,
    PASS,
    indexes,
    machine,
    memvault,
    note,
    prepare_environment,
    process,
    workplace,
)
from table import Finished, Row, Target, caveat, cells, table

SETTLE = 1.2
"""Seconds after which memvault trusts a file's times, plus a margin."""

INDEX = "first index, with vectors"
HYBRID = "recall, hybrid"
KEYWORD = "recall, keyword"
UNCHANGED = "recall of one word"
EDITED = "the same after an edit"
REMEMBER = "remember"
VERSION = "--version"
HELP = "--help"


class Vault:
    """A folder of memories and the programs that run on it."""

    def __init__(self, folder: Path, corpus: dict[str, Any]) -> None:
        self.folder = folder
        self.corpus = corpus
        self.files = sorted(folder.glob("*/*.md"))
        self.chance = random.Random(len(self.files))

    def recall(self, query: str, *options: str) -> tuple[Finished, list[dict[str, Any]]]:
        """Recall in a fresh process; return the process and the results."""
        done = memvault("recall", query, "--json", "--vault", str(self.folder), *options)
        return done, json.loads(done.output)["memories"]

    def found(self, query: str, *options: str) -> Finished:
        """Recall something that must be found; return the process."""
        done, memories = self.recall(query, *options)
        if not memories:
            sys.exit(f"speed.py: nothing was recalled for {query!r}")
        return done

    def settle(self) -> None:
        """Wait until no file counts as recently edited, and update the index."""
        time.sleep(SETTLE)
        self.recall("settle")

    def index(self) -> Finished:
        """Rebuild the index with a recall, and check that it is complete."""
        shutil.rmtree(indexes(), ignore_errors=True)
        done = self.found(self.corpus["queries"][0])
        status = json.loads(memvault("status", "--json", "--vault", str(self.folder)).output)
        count = len(self.files)
        if (
            status["memories"] != count
            or status["pending"]
            or status["embedder"]["vectors"] < count
        ):
            sys.exit(f"speed.py: the first recall did not index all of {count}: {status}")
        return done

    def recall_edit(self) -> tuple[Finished, str]:
        """Append a new word to a file, recall it and check that it is found; return the word."""
        word = "zyx" + "".join(self.chance.choices(string.ascii_lowercase, k=9))
        path = self.chance.choice(self.files)
        with path.open("a", encoding="utf-8") as file:
            file.write(f"\nLater we called this {word}.\n")
        done, memories = self.recall(word)
        if not memories or memories[0]["filePath"] != path.relative_to(self.folder).as_posix():
            sys.exit(f"speed.py: an edit of {path.name} was not found immediately")
        return done, word

    def remember(self, number: int) -> Finished:
        """Remember one of the reserved memories."""
        title, body = self.corpus["spare"][number % len(self.corpus["spare"])]
        arguments = (f"{title} {number}", body, "--type", "learning", "--tags", "bench")
        return memvault("remember", *arguments, "--json", "--vault", str(self.folder))

    def text_search(self, query: str) -> Finished:
        """Search the files for a query's longest word with the system's own tool."""
        word = max(query.split(), key=len)
        return process([*text_search_command(), word, str(self.folder)], codes=(0, 1))


def warm_up(folder: Path) -> None:
    """Run everything once, so that all modules are compiled."""
    memvault("init", str(folder))
    for arguments in (
        ("remember", "Warm", "It is warm now"),
        ("recall", "is it warm"),
        ("status",),
    ):
        memvault(*arguments, "--json", "--vault", str(folder))
    memvault("recall", "warm", "--mode", "keyword", "--json", "--vault", str(folder))
    memvault("--help")
    shutil.rmtree(folder)


def text_search_command() -> list[str]:
    """Return the start of a command that lists the files that contain a word."""
    if shutil.which("rg"):
        return ["rg", "--files-with-matches", "--glob", "*.md"]
    return ["grep", "-rl", "--include=*.md"]


def prepared(folder: Path, size: int) -> Vault:
    """Write a vault in another process, whose memory would otherwise affect children's peaks."""
    memvault("init", "--bare", str(folder))
    writer = Path(__file__).with_name("corpus.py")
    written = process([sys.executable, str(writer), str(folder), str(size)])
    time.sleep(2)  # recently written files are read twice, which should not be measured
    return Vault(folder, json.loads(written.output))


def measured(vault: Vault, runs: int) -> dict[str, list[Finished]]:
    """Run all repeated commands in turn, ``runs`` times."""
    found: dict[str, list[Finished]] = defaultdict(list)
    search = " ".join(text_search_command()[:2])
    _, word = vault.recall_edit()
    for number in range(runs):
        note(f"{len(vault.files)} memories: round {number + 1} of {runs}")
        vault.settle()
        query = vault.corpus["queries"][(number + 1) % len(vault.corpus["queries"])]
        found[PASS].append(process([sys.executable, "-c", "pass"]))
        found[VERSION].append(memvault("--version"))
        found[HELP].append(memvault("--help"))
        found[search].append(vault.text_search(query))
        found[HYBRID].append(vault.found(query))
        found[KEYWORD].append(vault.found(query, "--mode", "keyword"))
        found[PASS].append(process([sys.executable, "-c", "pass"]))
        if number % 2:  # alternate the order to favor neither
            done, word = vault.recall_edit()
            found[EDITED].append(done)
            vault.settle()
            found[UNCHANGED].append(vault.found(word))
        else:
            found[UNCHANGED].append(vault.found(word))
            done, word = vault.recall_edit()
            found[EDITED].append(done)
        vault.settle()
        found[REMEMBER].append(vault.remember(number))
    return found


def folder_size(folder: Path, pattern: str) -> float:
    """Return the total size of the files below a folder, in MB."""
    return sum(path.stat().st_size for path in folder.rglob(pattern) if path.is_file()) / MEGABYTE


def rows(vault: Vault, runs: int, index_runs: int) -> Iterator[Row]:
    """Measure everything on one vault and yield the table's rows."""
    indexed = []
    for number in range(index_runs):
        note(f"{len(vault.files)} memories: first index {number + 1} of {index_runs}")
        indexed.append(vault.index())
    derived = folder_size(indexes(), "*")
    markdown = folder_size(vault.folder, "*.md")
    found = measured(vault, runs)
    search = " ".join(text_search_command()[:2])

    def row(what: str, target: Target | None = None) -> Row:
        return Row.of(what, found[what], target)

    peaks = [done.peak for done in indexed]
    pairs = zip(found[EDITED], found[UNCHANGED], strict=True)
    yield row(PASS)
    yield row(VERSION, Target(6, "x", any_size=True))
    yield row(HELP, Target(6, "x", any_size=True))
    yield row(search)
    yield Row.of(INDEX, indexed, Target(40))
    yield Row("  its peak memory", peaks, "MB", target=Target(600, "MB"))
    yield row(HYBRID, Target(0.6))
    yield row(KEYWORD)
    yield row(UNCHANGED)
    yield row(EDITED)
    yield Row("  cost of the edit", [a.seconds - b.seconds for a, b in pairs], target=Target(0.3))
    yield row(REMEMBER, Target(0.6))
    yield Row("size of the index", [derived], "MB")
    yield Row("size of the markdown", [markdown], "MB")


def main() -> None:
    """Read the arguments, measure each size and print its table."""
    parser = argparse.ArgumentParser(description="Measure memvault as whole processes")
    parser.add_argument("--sizes", default="1000,10000", help="numbers of memories (%(default)s)")
    parser.add_argument("--runs", type=int, default=7, help="rounds of the loop (%(default)s)")
    parser.add_argument("--index-runs", type=int, default=1, help="first indexes (%(default)s)")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="leave the vaults in this folder")
    parser.add_argument("--markdown", action="store_true", help="print markdown tables")
    given = parser.parse_args()
    with workplace(given.keep) as folder, workplace(None) as cache:
        prepare_environment(cache)
        print(machine())
        warm_up(cache / "warm-up")
        for size in (int(text) for text in given.sizes.split(",")):
            place = folder / f"vault-{size}"
            if place.exists():
                sys.exit(f"speed.py: {place} already exists")
            note(f"{size} memories: writing")
            vault = prepared(place, size)
            measured_rows = list(rows(vault, given.runs, given.index_runs))
            own_peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * MAXRSS_UNIT / MEGABYTE
            one = median(measured_rows[0].values)
            words = vault.corpus["words"] // size
            known = f"{vault.corpus['sentences']} sentences of prose"
            print(f"\n{size} memories of {words} words on average, from {known}\n")
            lines = [cells(row, one, own_peak, size) for row in measured_rows]
            print(table(lines, given.markdown) + caveat(measured_rows[0]), flush=True)


if __name__ == "__main__":
    main()
