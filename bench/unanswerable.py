#!/usr/bin/env python3
"""Measure how often recall recognizes that nothing in a vault answers a question.

    python bench/unanswerable.py [FOLDER ...] [--part fit|test] [--kept 0.9]

Each FOLDER is a set of ``bench/quality.py``; without one the everyday sets with unanswerable
questions are measured. A question counts as recognized if the most likely memory has a probability
below the set's threshold, the highest that keeps the given share of its answered questions. *None*
is the share of questions for which the program reports that probably nothing answers them.
*foreign* are 40 questions of the other sets. The second table shows the strength of the first
result, and how often a memory of that strength is right.
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
from memvault.recall.answer import RELEVANT
from quality import EVERYDAY, table

SETS = ("home", "ops", "research", "languages", "changes", "sessions", "projects")
ANSWERED = "answered"
FOREIGN = 40


class Asked(NamedTuple):
    """A question and its kind, the probability of the likeliest memory, and the first result.

    ``is_right`` is whether the first result is judged to answer or to help.
    """

    kind: str
    chance: float
    strength: str
    is_right: bool


def answers(judged: JudgedSet, foreign: Sequence[str], work: Path) -> list[Asked]:
    """Ask a set's questions, and others, with the program; one vault for each group."""
    found = []
    for group, documents in by_group(judged).items():
        root = work / judged.name / (group or "all")
        ids = make_vault(root, documents)
        asked = [
            *((ANSWERED, entry["text"], entry["_id"]) for entry in _of(judged.queries, group)),
            *((kind_of(entry), entry["text"], "") for entry in _of(judged.unanswerable, group)),
            *(("foreign", text, "") for text in foreign),
        ]
        with open_vault(root) as vault:
            for kind, text, query in asked:
                memories = _memories(vault, text)
                first = memories[0] if memories else None
                document = ids[first["filePath"]] if first else ""
                found.append(
                    Asked(
                        kind,
                        max((float(entry["why"]["chance"]) for entry in memories), default=0.0),
                        first["strength"] if first else "",
                        document in judged.relevant.get(query, {}),
                    )
                )
    return found


def _of(queries: Iterable[Mapping[str, Any]], group: str) -> list[Mapping[str, Any]]:
    return [entry for entry in queries if group_of(entry) == group]


def _memories(vault: Any, text: str) -> list[dict[str, Any]]:
    answer = vault.call("memory_recall", query=text, limit=5, explain=True)
    if not answer["success"]:
        raise SystemExit(str(answer["error"]))
    return list(answer["memories"])


def strengths(found: Mapping[str, Sequence[Asked]]) -> list[list[str]]:
    """Return the cells of the table of first results: a row for each strength, over all sets."""
    asked = [entry for entries in found.values() for entry in entries]
    cells = []
    for strength in ("strong", "fair", "weak"):
        own = [entry for entry in asked if entry.strength == strength]
        answered = [entry for entry in own if entry.kind == ANSWERED]
        right = sum(entry.is_right for entry in own)
        counts = (len(answered), right, len(own) - len(answered))
        cells.append([strength, *map(str, counts), f"{right / max(len(own), 1):.2f}"])
    return cells


def rows(found: Mapping[str, Sequence[Asked]], kept: float) -> list[list[str]]:
    """Return the table's cells: a row for each kind of question, over all sets."""
    recognized, none = defaultdict(list), defaultdict(list)
    for entries in found.values():
        answered = [entry.chance for entry in entries if entry.kind == ANSWERED]
        threshold = float(np.quantile(answered, 1 - kept, method="lower"))
        for entry in entries:
            recognized[entry.kind].append(entry.chance < threshold)
            none[entry.kind].append(entry.chance < RELEVANT)
    shares = [(kind, np.mean(recognized[kind]), np.mean(none[kind])) for kind in sorted(none)]
    return [
        [kind, str(len(none[kind])), f"{low:.2f}", f"{called:.2f}"] for kind, low, called in shares
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
            found[judged.name] = answers(measured, foreign, Path(work))
    print(table(["question", "number", "recognized", "none"], rows(found, options.kept), True))
    header = ["first result", "answered", "right", "nothing answers", "share that is right"]
    print(table(header, strengths(found), True))


if __name__ == "__main__":
    main()
