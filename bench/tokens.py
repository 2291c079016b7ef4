#!/usr/bin/env python3
"""Count the tokens of tools' answers and descriptions.

    python bench/tokens.py [--questions 20] [--markdown]

The vault contains the everyday notes of a team from this folder, each written by ``remember``.
Answers are JSON as sent to an MCP client, or the text of the command line. Tokens are counted in
two ways: by the built-in model's tokenizer, and as a quarter of the characters, a common estimate.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from statistics import mean
from typing import Any

from judged import read_lines
from memvault import Vault, open_vault, sanitize
from memvault.index.embedding import tokenizer
from memvault.mcp import profiles
from memvault.tools.core import registry, render

NOTES = Path(__file__).with_name("everyday") / "everyday-ops"


def fill(vault: Vault) -> None:
    """Remember every note."""
    for entry in read_lines(NOTES / "corpus.jsonl"):
        told = {"title": entry["title"], "content": entry["text"], **entry["metadata"]}
        keys = {"memory_type": "memoryType", "tags": "tags", "title": "title", "content": "content"}
        vault.call("memory_remember", **{keys[key]: told[key] for key in keys if key in told})


def counted(texts: Iterable[str]) -> tuple[float, float]:
    """Return the mean token count of texts, by the tokenizer and as a quarter of the characters."""
    every = list(texts)
    return mean(map(tokenizer.count_tokens, every)), mean(len(text) / 4 for text in every)


def answers(vault: Vault, questions: list[str]) -> list[tuple[str, float, float]]:
    """Measure the tools' answers."""

    def asked(**more: Any) -> list[dict[str, Any]]:
        return [vault.call("memory_recall", query=question, **more) for question in questions]

    ten = [found for found in asked() if found["count"] == 10]
    brief = [line for found in asked(brief=True) for line in found["brief"]]
    shown = [vault.call("memory_show", memId=found["memories"][0]["memId"]) for found in ten]
    rows: list[tuple[str, Iterable[str]]] = [
        ("recall, ten memories, JSON", map(sanitize.safe_json, ten)),
        ("recall, ten memories, text", (text("memory_recall", found) for found in ten)),
        ("recall --brief, a hit", brief),
        ("recall --budget 500, JSON", map(sanitize.safe_json, asked(budget=500, limit=20))),
        ("recall --budget 1500, JSON", map(sanitize.safe_json, asked(budget=1500, limit=20))),
        ("show, JSON", map(sanitize.safe_json, shown)),
        ("list, 50 memories, JSON", [sanitize.safe_json(vault.call("memory_list"))]),
        ("list, all, JSON", [sanitize.safe_json(vault.call("memory_list", limit=1_000))]),
        (
            "context, its text",
            (vault.call("context", task=question)["context"] for question in questions),
        ),
    ]
    return [(what, *counted(texts)) for what, texts in rows]


def text(tool: str, found: dict[str, Any]) -> str:
    """Return a result as printed by the command line."""
    return "\n".join(
        "".join(part for part, _ in line) for line in render.lines(registry.find(tool).view, found)
    )


def descriptions() -> list[tuple[str, float, float]]:
    """Measure the tool descriptions that a client's model reads, for each profile."""
    return [
        (f"tools/list, {name} ({len(entry.tools)})", *counted([profiles.profile_json(name)]))
        for name, entry in profiles.profiles().items()
    ]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--questions", type=int, default=20)
    parser.add_argument("--markdown", action="store_true")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        os.environ.update(MEMVAULT_CACHE=f"{place}/cache", MEMVAULT_DEEP="off")
        folder = Path(place, "vault")
        folder.mkdir()
        (folder / "memvault.toml").write_text("version = 1\n", "utf-8")
        asked = [entry["text"] for entry in read_lines(NOTES / "queries.jsonl")]
        step = max(1, len(asked) // chosen.questions)
        with open_vault(folder) as vault:
            fill(vault)
            rows = [*answers(vault, asked[::step][: chosen.questions]), *descriptions()]
    mark = "|" if chosen.markdown else ""
    print(f"{mark} {'what':<34} {mark} {'tokens':>8} {mark} {'chars/4':>8} {mark}".strip())
    if chosen.markdown:
        print("|---|--:|--:|")
    for what, by_tokenizer, by_characters in rows:
        numbers = f"{by_tokenizer:>8,.0f} {mark} {by_characters:>8,.0f}"
        print(f"{mark} {what:<34} {mark} {numbers} {mark}".strip())


if __name__ == "__main__":
    main()
