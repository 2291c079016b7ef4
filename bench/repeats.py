#!/usr/bin/env python3
"""Measure consolidation of freely worded episodes: facts, procedures and contradictions.

    python bench/repeats.py [FOLDER ...] [--list] [--deep now|off]

Each FOLDER has ``episodes.jsonl`` (``_id``, ``day``, ``context``, ``actions``, ``outcomes``,
``reflection``) and ``expected.json``: the episodes' sentences that state the same fact (``facts``),
describe the same steps (``procedures``), contradict earlier ones (``contradictions``), or only
appear to (``decoys``). Without a FOLDER the sets next to this file are measured. The episodes
become a vault, and ``memvault consolidate`` runs on it once.

A proposed fact or procedure counts as found only if its sources are at least three of the expected
episodes and no others. In addition, a fact's text must be one of the expected sentences, and a
procedure's prompt must contain three quarters of the expected steps in the words of the episodes. A
contradiction counts if it quotes an earlier and a later expected sentence, and no others.
``decoys`` is the number of decoys with a quoted sentence, and ``other`` is the number of remaining
proposals.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from memvault.experience.episodes import body_of
from processes import machine, memvault, prepare_environment, workplace

SETS = Path(__file__).with_name("repeats")
LEAST_SOURCES = 3
LEAST_STEPS = 0.75


class Score(NamedTuple):
    """The ids of found items, and the texts of unexpected proposals."""

    facts: set[str]
    procedures: set[str]
    contradictions: set[str]
    decoys: set[str]
    other: list[str]


def sets() -> list[Path]:
    """Return the folders of the sets next to this file."""
    return sorted(path.parent for path in SETS.glob("*/expected.json"))


def write(vault: Path, episodes: Iterable[Mapping[str, Any]]) -> None:
    """Write episodes in the tool's format, each on its own day."""
    folder = vault / "episode"
    folder.mkdir(parents=True)
    (vault / "memvault.toml").write_text("version = 1\n", "utf-8")
    for entry in episodes:
        stamp = f"{entry['day']}T12:00:00.000Z"
        header = f"id: {entry['_id']}\nmemory_type: episode\nimportance: 0.5\n"
        times = f"created: {stamp}\nmodified: {stamp}\n"
        body = body_of(*(entry[key] for key in ("context", "actions", "outcomes", "reflection")))
        text = f"---\n{header}{times}---\n\n{body}\n"
        (folder / f"{entry['_id']}.md").write_text(text, "utf-8")


def plain(text: str) -> str:
    """Normalize a sentence for comparison."""
    return " ".join(text.split()).rstrip(" .!").casefold()


def ids(sentences: Iterable[Mapping[str, str]]) -> set[str]:
    """Return the ids of the episodes of expected sentences."""
    return {entry["episode"] for entry in sentences}


def wordings(sentences: Iterable[Mapping[str, str]]) -> set[str]:
    """Return expected sentences, normalized for comparison."""
    return {plain(entry["text"]) for entry in sentences}


def is_source(found: Iterable[str], expected: set[str]) -> bool:
    """Return whether a proposal has enough of the expected sources, and no others."""
    return len(set(found)) >= LEAST_SOURCES and set(found) <= expected


def quoted(entry: Mapping[str, Any]) -> set[str]:
    """Return all sentences that a proposal shows."""
    texts = [entry.get("factText", ""), *entry.get("wordings", ())]
    texts += [line.partition(" ")[2] for line in entry.get("prompt", "").splitlines()]
    texts += [quote["text"] for quote in entry.get("quotes", ())]
    texts += [statement["text"] for statement in entry.get("statements", ())]
    return {plain(text) for text in texts if text}


def is_fact(entry: Mapping[str, Any], fact: Mapping[str, Any]) -> bool:
    """Return whether a proposed fact is an expected one."""
    said = plain(entry["factText"]) in wordings(fact["sentences"])
    return said and is_source(entry["episodes"], ids(fact["sentences"]))


def is_procedure(entry: Mapping[str, Any], procedure: Mapping[str, Any]) -> bool:
    """Return whether a proposed procedure is an expected one."""
    steps = procedure["steps"]
    held = sum(bool(quoted(entry) & wordings(step)) for step in steps)
    sources = set().union(*map(ids, steps))
    return held >= LEAST_STEPS * len(steps) and is_source(entry["episodes"], sources)


def is_contradiction(entry: Mapping[str, Any], contradiction: Mapping[str, Any]) -> bool:
    """Return whether a shown contradiction is an expected one."""
    older, newer, shown = (
        wordings(contradiction["older"]),
        wordings(contradiction["newer"]),
        quoted(entry),
    )
    return shown <= older | newer and bool(shown & older) and bool(shown & newer)


MATCHES = {"facts": is_fact, "procedures": is_procedure, "contradictions": is_contradiction}


def score(result: Mapping[str, Any], expected: Mapping[str, Any]) -> Score:
    """Compare the proposals with the expected ones."""
    found = Score(set(), set(), set(), set(), [])
    everything: set[str] = set()
    for kind, matches in MATCHES.items():
        for entry in result.get(kind, ()):
            everything |= quoted(entry)
            same = [wanted["_id"] for wanted in expected[kind] if matches(entry, wanted)]
            getattr(found, kind).update(same)
            if not same:
                found.other.append(f"{kind}: {quoted(entry)}  {entry.get('episodes', '')}")
    for decoy in expected["decoys"]:
        if everything & wordings(decoy["sentences"]):
            found.decoys.add(decoy["_id"])
    return found


def main() -> None:
    """Measure each set and print a row for each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("folders", nargs="*", type=Path, default=sets())
    parser.add_argument("--list", action="store_true", help="list expected and unexpected items")
    parser.add_argument("--deep", choices=("now", "off"), default="now")
    given = parser.parse_args()
    with workplace(None) as folder:
        prepare_environment(folder / "cache")
        os.environ["MEMVAULT_DEEP"] = given.deep
        print(machine())
        print("| set | facts | procedures | contradictions | decoys | other | seconds |")
        print("|---|--:|--:|--:|--:|--:|--:|")
        for place in given.folders:
            lines = (place / "episodes.jsonl").read_text("utf-8").splitlines()
            write(folder / place.name, map(json.loads, lines))
            vault = str(folder / place.name)
            memvault("recall", "warm", "--vault", vault)
            done = memvault("consolidate", "--days", "36500", "--json", "--vault", vault)
            expected = json.loads((place / "expected.json").read_text("utf-8"))
            found = score(json.loads(done.output), expected)
            kinds = ("facts", "procedures", "contradictions", "decoys")
            counts = (f"{len(getattr(found, kind))} of {len(expected[kind])}" for kind in kinds)
            print(
                f"| {place.name} | {' | '.join(counts)} | {len(found.other)} | {done.seconds:.1f} |"
            )
            if given.list:
                for kind in kinds:
                    print(f"{kind}: {' '.join(sorted(getattr(found, kind)))}")
                print(*found.other, sep="\n")


if __name__ == "__main__":
    main()
