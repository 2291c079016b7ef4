#!/usr/bin/env python3
"""Measure how often the first answer changes while transformer vectors are computed.

    python bench/settling.py [FOLDER ...] [--stages 0,25,50,75,100] [--markdown]

Each FOLDER is a judged set, as for ``quality.py``; without one, everyday-ops. Its vault is embedded
in the order of the background process. At each stage, given as the percentage of the memories that
have all of their vectors, every question is asked. The output is:

- ``differ``: questions whose first answers at the first and the last stage differ. Only the first
  answers to these questions should change, and only once.
- ``stray``: questions with a first answer at an intermediate stage that is neither of the two.
- ``back``: questions whose first answer returns to an earlier one.
- ``changes``: all changes of first answers from stage to stage; at best as many as ``differ``.
- ``hit@1``: the share of questions whose first answer is right, at each stage.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from judged import JudgedSet, by_group, group_of, make_vault, read_set
from memvault import Vault, open_vault
from memvault.files.lock import FileLock
from memvault.index.local import background_embedding
from memvault.index.local.local_index import LocalIndex
from memvault.index.protocol import COMPLETE
from memvault.workspace import Workspace
from quality import EVERYDAY, table

STAGES = (0, 25, 50, 75, 100)
COLUMNS = ("set", "questions", "differ", "stray", "back", "changes", "hit@1")


class Settled(NamedTuple):
    """The first answer to each question at each stage, empty if there was none."""

    questions: list[str]
    stages: list[list[str]]


def embed_until(index: LocalIndex, waiting: int) -> None:
    """Embed memories until at most ``waiting`` lack transformer vectors."""
    if index.schedule.pending() > waiting:
        index.schedule.embed_missing(lambda: index.schedule.pending() > waiting)


def first_answers(
    judged: JudgedSet, group: str, vault: Vault, ids: dict[str, str]
) -> tuple[list[str], list[str]]:
    """Return a group's questions and the first answer to each."""
    questions, found = [], []
    for query in judged.queries:
        if group_of(query) == group:
            answer = vault.call("memory_recall", query=query["text"], limit=1)
            if not answer["success"]:
                raise SystemExit(str(answer["error"]))
            questions.append(query["_id"])
            found.append("".join(ids[memory["filePath"]] for memory in answer["memories"]))
    return questions, found


def settle(judged: JudgedSet, work: Path, stages: Sequence[int]) -> Settled:
    """Ask every question of a set at every stage."""
    settled = Settled([], [[] for _ in stages])
    for group, documents in by_group(judged).items():
        root = work / judged.name / (group or "all")
        ids = make_vault(root, documents)
        workspace, vault = Workspace(root), open_vault(root)
        index = workspace.index
        assert isinstance(index, LocalIndex)
        index.refresh(True, COMPLETE)
        folder = index.transformer.folder
        assert folder is not None
        folder.mkdir(exist_ok=True)
        with FileLock(
            folder / background_embedding.BACKGROUND_LOCK
        ):  # prevent the background process
            for place, stage in enumerate(stages):
                embed_until(index, len(documents) * (100 - stage) // 100)
                questions, found = first_answers(judged, group, vault, ids)
                settled.stages[place] += found
        settled.questions.extend(questions)
        workspace.close()
        vault.close()
    return settled


def row(judged: JudgedSet, settled: Settled) -> list[str]:
    """Return the table's cells."""
    differ = stray = back = changes = 0
    right = [0] * len(settled.stages)
    for query, path in zip(settled.questions, zip(*settled.stages, strict=True), strict=True):
        steps = [path[0]]
        steps += [now for before, now in pairwise(path) if now != before]
        differ += path[0] != path[-1]
        stray += not set(path) <= {path[0], path[-1]}
        back += len(set(steps)) < len(steps)
        changes += len(steps) - 1
        for place, found in enumerate(path):
            right[place] += judged.relevant[query].get(found) == judged.answering
    count = len(settled.questions)
    shares = " ".join(f"{number / count:.3f}" for number in right)
    return [judged.name, *map(str, (count, differ, stray, back, changes)), shares]


def main() -> None:
    """Measure the sets named on the command line and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--stages", default=",".join(map(str, STAGES)), help="in percent")
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args()
    stages = [int(stage) for stage in options.stages.split(",")]
    rows = []
    with tempfile.TemporaryDirectory() as work, tempfile.TemporaryDirectory() as cache:
        os.environ["MEMVAULT_CACHE"] = os.environ["MEMVAULT_STATE"] = cache
        for folder in options.folders or [EVERYDAY / "everyday-ops"]:
            judged = read_set(folder)
            rows.append(row(judged, settle(judged, Path(work), stages)))
    print(table(COLUMNS, rows, options.markdown))


if __name__ == "__main__":
    main()
