#!/usr/bin/env python3
"""How often recall recognizes that nothing in a vault answers a question.

    python bench/unanswerable.py [FOLDER ...] [--part fit|test] [--kept 0.9]

Each FOLDER is a set of ``bench/quality.py``; without one the everyday sets with
unanswerable questions are measured. A question counts as recognized if the
likeliest memory has a chance below a threshold of the set, the highest that keeps
the given share of its answered questions. *Weak* is the share of questions without
a fair or strong result, as the program calls them. *foreign* are 40 questions of
the other sets.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from judged import JudgedSet, by_group, group_of, kind_of, make_vault, other_questions, read_set
from memvault import open_vault
from memvault.recall.answer import FAIR
from quality import EVERYDAY, table

SETS = ("home", "ops", "research", "languages", "changes")
ANSWERED = "answered"
FOREIGN = 40


class Chance(NamedTuple):
    """The chance of the likeliest memory for a question of a kind."""

    kind: str
    chance: float


def chances(judged: JudgedSet, foreign: Sequence[str], work: Path) -> list[Chance]:
    """Ask a set's questions, and others, with the program; one vault for each group."""
    found = []
    for group, documents in by_group(judged).items():
        root = work / judged.name / (group or "all")
        make_vault(root, documents)
        asked = [
            *((ANSWERED, entry["text"]) for entry in _of(judged.queries, group)),
            *((kind_of(entry), entry["text"]) for entry in _of(judged.unanswerable, group)),
            *(("foreign", text) for text in foreign),
        ]
        with open_vault(root) as vault:
            found += [Chance(kind, _chance(vault, text)) for kind, text in asked]
    return found


def _of(queries: Iterable[Mapping[str, Any]], group: str) -> list[Mapping[str, Any]]:
    return [entry for entry in queries if group_of(entry) == group]


def _chance(vault: Any, text: str) -> float:
    answer = vault.call("memory_recall", query=text, limit=5, explain=True)
    if not answer["success"]:
        raise SystemExit(str(answer["error"]))
    return max((float(entry["why"]["chance"]) for entry in answer["memories"]), default=0.0)


def rows(found: Mapping[str, Sequence[Chance]], kept: float) -> list[list[str]]:
    """Return the cells of the table: a row for each kind of question, over all sets."""
    recognized, weak = defaultdict(list), defaultdict(list)
    for entries in found.values():
        answered = [entry.chance for entry in entries if entry.kind == ANSWERED]
        threshold = float(np.quantile(answered, 1 - kept, method="lower"))
        for entry in entries:
            recognized[entry.kind].append(entry.chance < threshold)
            weak[entry.kind].append(entry.chance < FAIR)
    shares = [(kind, np.mean(recognized[kind]), np.mean(weak[kind])) for kind in sorted(weak)]
    return [
        [kind, str(len(weak[kind])), f"{low:.2f}", f"{called:.2f}"] for kind, low, called in shares
    ]


def main() -> None:
    """Measure the sets named on the command line and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--part", choices=("fit", "test"), default="", help="of the questions")
    parser.add_argument("--kept", type=float, default=0.9, help="share of the answered to keep")
    options = parser.parse_args()
    os.environ["MEMVAULT_DEEP"] = "now"
    folders = options.folders or [EVERYDAY / f"everyday-{name}" for name in SETS]
    sets = [read_set(folder) for folder in folders]
    found = {}
    with tempfile.TemporaryDirectory() as work, tempfile.TemporaryDirectory() as cache:
        os.environ["MEMVAULT_CACHE"] = os.environ["MEMVAULT_STATE"] = cache
        for folder, judged in zip(folders, sets, strict=True):
            of_part = read_set(folder, options.part).unanswerable
            foreign = other_questions(judged, sets, FOREIGN)
            measured = judged._replace(unanswerable=of_part)
            found[judged.name] = chances(measured, foreign, Path(work))
    print(table(["question", "number", "recognized", "weak"], rows(found, options.kept), True))


if __name__ == "__main__":
    main()
