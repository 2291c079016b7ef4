#!/usr/bin/env python3
"""Measure for how many prompts the hook adds memories: generic prompts and answerable questions.

    python bench/injection.py [FOLDER ...] [--part test] [--static]

FOLDER is a set for ``quality.py``; without one, the everyday sets in English are used. The prompts
are in ``prompts/generic.jsonl``: none of them can be answered by a memory. ``--static`` does not
use the transformer.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from judged import JudgedSet, make_vault, read_lines, read_set
from memvault import Vault
from memvault.recall import query_filters
from quality import table

EVERYDAY = Path(__file__).with_name("everyday")
PROMPTS = Path(__file__).with_name("prompts") / "generic.jsonl"
SETS = ("home", "ops", "research", "changes", "projects", "sessions")


class Shares(NamedTuple):
    """The shares of prompts with a memory.

    ``english`` and ``other`` are generic prompts, by language. ``right`` are the answerable
    questions with a memory that answers or helps.
    """

    english: float
    other: float
    answerable: float
    right: float


def measure(judged: JudgedSet, prompts: Sequence[dict[str, Any]], work: Path) -> Shares:
    """Measure one set; ``prompts`` are entries of the file of generic prompts."""
    root = work / judged.name
    ids = make_vault(root, judged.documents)

    with Vault(root) as vault:

        def found(text: str) -> list[str]:
            words = query_filters.as_words(text)
            answer = vault.recall(words, specific=True, limit=5)
            return [ids[memory["filePath"]] for memory in answer["memories"]]

        generic: dict[bool, list[float]] = {True: [], False: []}
        for entry in prompts:
            is_english = entry["metadata"]["language"] == "en"
            generic[is_english].append(float(bool(found(entry["text"]))))
        hits = [(found(query["text"]), judged.relevant[query["_id"]]) for query in judged.queries]
    right = [any(name in grades for name in names) for names, grades in hits]
    return Shares(
        _mean(generic[True]),
        _mean(generic[False]),
        sum(bool(names) for names, _ in hits) / len(hits),
        sum(right) / len(hits),
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / max(len(values), 1)


def main() -> None:
    """Measure the sets named on the command line and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--part", choices=("fit", "test"), default="test", help="of the prompts")
    parser.add_argument("--static", action="store_true", help="without the transformer")
    options = parser.parse_args()
    os.environ["MEMVAULT_DEEP"] = "off" if options.static else "now"
    prompts = [entry for entry in read_lines(PROMPTS) if entry["metadata"]["part"] == options.part]
    rows = []
    with tempfile.TemporaryDirectory() as work, tempfile.TemporaryDirectory() as cache:
        os.environ["MEMVAULT_CACHE"] = os.environ["MEMVAULT_STATE"] = cache
        for folder in options.folders or [EVERYDAY / f"everyday-{name}" for name in SETS]:
            shares = measure(read_set(folder), prompts, Path(work))
            rows.append([folder.name, *(f"{share:.3f}" for share in shares)])
    print(table(["set", "generic, English", "generic, other", "answerable", "right"], rows, True))


if __name__ == "__main__":
    main()
