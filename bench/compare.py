#!/usr/bin/env python3
"""Compare the speed of the working tree with a commit's, and report what got slower or faster.

    python bench/compare.py COMMIT [--size 2000] [--rounds 15] [--index-rounds 5] [--notes DIR]

Both versions run each command in turn within one loop, on their own copies of a vault, so that
other load affects both equally. The first index is measured too. The ratio is the median of the
rounds' ratios of CPU time; its interval contains the true median with a probability of 95%. A
command got slower or faster if its interval does not contain 1. ``--notes`` adds the markdown files
below a folder to the vault.
"""

from __future__ import annotations

import argparse
import math
import random
import shutil
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median, quantiles
from typing import NamedTuple

from performance import commands
from processes import indexes, machine, memvault, note, prepare_environment, variables, workplace
from quality import table
from speed import INDEX, Vault, folder_size, prepared, warm_up
from table import milliseconds

ROOT = Path(__file__).resolve().parents[1]
_RESAMPLES = 2_000
_FEW = 5
"""The minimum number of rounds for an interval."""


class Version(NamedTuple):
    """A version of the program: its source folder, its vault, and its state and caches."""

    source: Path
    vault: Vault
    state: Path

    @contextmanager
    def active(self) -> Iterator[None]:
        """Run this version in child processes during the block."""
        with variables(
            PYTHONPATH=str(self.source),
            MEMVAULT_CONFIG=str(self.state / "config"),
            MEMVAULT_CACHE=str(self.state / "cache"),
            MEMVAULT_STATE=str(self.state / "state"),
        ):
            yield


def extract(commit: str, folder: Path) -> Path:
    """Write a commit's sources to a folder, and return their folder."""
    archive = subprocess.run(
        ["git", "-C", ROOT, "archive", commit, "src", "vault-template"],
        check=True,
        capture_output=True,
    )
    folder.mkdir()
    subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
    return folder / "src"


def copy_notes(source: Path, folder: Path) -> None:
    """Copy the markdown files below a folder to another one."""
    for path in source.rglob("*.md"):
        if path.is_file() and not path.is_symlink():
            copy = folder / path.relative_to(source)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)


def measure(
    versions: Sequence[Version], rounds: int, index_rounds: int
) -> dict[str, list[tuple[float, ...]]]:
    """Return each command's CPU seconds in each round, one for each version."""
    found: dict[str, list[tuple[float, ...]]] = defaultdict(list)
    for turn in range(max(rounds, index_rounds)):
        note(f"round {turn + 1} of {max(rounds, index_rounds)}")
        times: dict[str, dict[int, float]] = defaultdict(dict)
        order = list(enumerate(versions))
        for number, version in order if turn % 2 else reversed(order):  # favor neither
            with version.active():
                if turn < index_rounds:
                    shutil.rmtree(indexes(), ignore_errors=True)
                    times[INDEX][number] = version.vault.found("memory").cpu
                if turn < rounds:
                    version.vault.settle()
                    for name, command in commands(version.vault, turn).items():
                        done = memvault(*command.arguments, given=command.given)
                        times[name][number] = done.cpu
        for name, seconds in times.items():
            found[name].append(tuple(seconds[number] for number in range(len(versions))))
    return found


def interval(ratios: Sequence[float]) -> tuple[float, float]:
    """Return the bootstrap interval of 95% for the median of ratios."""
    chance = random.Random(len(ratios))
    medians = [median(chance.choices(ratios, k=len(ratios))) for _ in range(_RESAMPLES)]
    cuts = quantiles(medians, n=40)
    return cuts[0], cuts[-1]


def row(name: str, pairs: Sequence[tuple[float, ...]]) -> list[str]:
    """Return the row of a command: both medians, their ratio, its interval, and the verdict."""
    ratios = [after / before for before, after in pairs]
    low, high = interval(ratios) if len(ratios) >= _FEW else (0.0, math.inf)
    verdict = "slower" if low > 1 else "faster" if high < 1 else ""
    between = f"{low:.3f} to {high:.3f}" if verdict or low else "too few rounds"
    before, after = (milliseconds(median(seconds)) for seconds in zip(*pairs, strict=True))
    cells = (f"{before:.1f}", f"{after:.1f}", f"{median(ratios):.3f}", between)
    return [name, *cells, verdict]


def main() -> None:
    """Compare the commit on the command line with the working tree, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("commit", help="the commit to compare with")
    parser.add_argument("--size", type=int, default=2_000, help="number of memories (%(default)s)")
    parser.add_argument("--rounds", type=int, default=15, help="rounds of commands (%(default)s)")
    parser.add_argument("--index-rounds", type=int, default=5, help="first indexes (%(default)s)")
    parser.add_argument("--notes", type=Path, metavar="DIR", help="notes to add to the vault")
    given = parser.parse_args()
    with workplace(None) as place, tempfile.TemporaryDirectory() as cache:
        prepare_environment(Path(cache))
        vault = prepared(place / "after", given.size)
        if given.notes is not None:
            copy_notes(given.notes, vault.folder / "notes")
        size = folder_size(vault.folder, "*.md")
        shutil.copytree(vault.folder, place / "before")
        sources = extract(given.commit, place / "sources"), ROOT / "src"
        vaults = Vault(place / "before", vault.corpus), vault
        versions = [
            Version(source, folder, place / f"state-{number}")
            for number, (source, folder) in enumerate(zip(sources, vaults, strict=True))
        ]
        for version in versions:
            with version.active():
                warm_up(place / "warm-up")
        found = measure(versions, given.rounds, given.index_rounds)
        print(f"{size:.1f} MB of text, {machine()}\n")
    heads = ["ms of CPU time", given.commit[:12], "working tree", "ratio", "95% interval", ""]
    print(table(heads, [row(name, pairs) for name, pairs in found.items()], True))


if __name__ == "__main__":
    main()
