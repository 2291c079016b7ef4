#!/usr/bin/env python3
"""Measure for how many prompts the hook adds memories: generic prompts and answerable questions.

    python bench/injection.py [FOLDER ...] [--part test] [--static] [--context] [--long]

FOLDER is a set for ``quality.py``; without one, the everyday sets in English are used. The prompts
are in ``prompts/generic.jsonl``: none of them can be answered by a memory. ``--static`` does not
use the transformer. ``--context`` measures what ``context`` recalls for the prompts as tasks.
``--long`` uses the prompts in ``prompts/long.jsonl``, which have pasted material or several
sentences, and asks the questions within its wrappers.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Callable, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple

from judged import JudgedSet, make_vault, read_lines, read_set
from memvault import Vault
from memvault.recall import query_filters
from memvault.recall.request_text import request_lines
from quality import table

EVERYDAY = Path(__file__).with_name("everyday")
PROMPTS = Path(__file__).with_name("prompts")
MAX_HITS = 5
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


Find = Callable[[Vault, str], list[str]]
"""Returns the memIds of the memories that are added to a prompt."""


def recall(vault: Vault, prompt: str) -> list[str]:
    """Return the memories that the prompt hook adds."""
    query = query_filters.as_words(request_lines(prompt))
    answer = vault.recall(query, specific=True, limit=MAX_HITS)
    return [memory["memId"] for memory in answer["memories"]]


def context(vault: Vault, prompt: str) -> list[str]:
    """Return the memories in the block of ``context`` for a task."""
    parts = vault.context(query_filters.as_words(prompt), budget=4_000)["parts"]
    texts = [entry["text"] for part in parts for entry in part["entries"]]
    return [text.rpartition("(")[2].partition(")")[0].partition(";")[0] for text in texts]


def measure(judged: JudgedSet, prompts: Sequence[dict[str, Any]], work: Path, find: Find) -> Shares:
    """Measure one set; ``prompts`` are generic prompts and wrappers, around a question each."""
    root = work / judged.name
    names = make_vault(root, judged.documents)

    with Vault(root) as vault:
        entries = vault.list(limit=len(names))["memories"]
        ids = {entry["memId"]: names[entry["filePath"]] for entry in entries}

        def found(text: str) -> list[str]:
            return [ids[mem_id] for mem_id in find(vault, text)]

        generic: dict[bool, list[float]] = {True: [], False: []}
        wrappers = [entry["text"] for entry in prompts if entry["metadata"]["kind"] == "wrapper"]
        for entry in prompts:
            if entry["metadata"]["kind"] == "wrapper":
                continue
            is_english = entry["metadata"]["language"] == "en"
            generic[is_english].append(float(bool(found(entry["text"]))))
        hits = []
        for query, wrapper in zip(judged.queries, cycle(wrappers or ["{question}"]), strict=False):
            text = wrapper.replace("{question}", query["text"])
            hits.append((found(text), judged.relevant[query["_id"]]))
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
    parser.add_argument("--context", action="store_true", help="measure the context block")
    parser.add_argument("--long", action="store_true", help="prompts with pasted material")
    options = parser.parse_args()
    os.environ["MEMVAULT_DEEP"] = "off" if options.static else "now"
    prompts = read_lines(PROMPTS / ("long.jsonl" if options.long else "generic.jsonl"))
    prompts = [entry for entry in prompts if entry["metadata"]["part"] == options.part]
    find = context if options.context else recall
    rows = []
    with tempfile.TemporaryDirectory() as work, tempfile.TemporaryDirectory() as cache:
        os.environ["MEMVAULT_CACHE"] = os.environ["MEMVAULT_STATE"] = cache
        for folder in options.folders or [EVERYDAY / f"everyday-{name}" for name in SETS]:
            shares = measure(read_set(folder), prompts, Path(work), find)
            rows.append([folder.name, *(f"{share:.3f}" for share in shares)])
    print(table(["set", "generic, English", "generic, other", "answerable", "right"], rows, True))


if __name__ == "__main__":
    main()
