#!/usr/bin/env python3
"""Measure consolidation of large numbers of episodes.

    python bench/consolidation.py [--episodes 5000,20000] [--words 40]

Every episode has four actions of five words and a one-sentence reflection of the given number of
words, a third of which it shares with other episodes. MEMVAULT_DEEP=now also compares with the
transformer. Only ``memvault consolidate`` is measured, in a fresh process with a complete index.
"""

from __future__ import annotations

import argparse
import random
from itertools import product
from pathlib import Path

from processes import MEGABYTE, machine, memvault, note, prepare_environment, workplace

_SYLLABLES = ("ka", "lo", "mi", "nu", "pe", "ra", "so", "tu", "ve", "zi", "bo", "du")
_WORDS = ["".join(parts) for parts in product(_SYLLABLES, repeat=3)]
"""Words without digits, because a word with a digit would count as a name that all paraphrases must
contain.
"""


def write(vault: Path, episodes: int, words: int) -> None:
    """Write episodes in the tool's format, but faster than the tool."""
    chance = random.Random(episodes)
    common = chance.sample(_WORDS, words // 3)
    folder = vault / "episode"
    folder.mkdir(parents=True)
    (vault / "memvault.toml").write_text("version = 1\n", "utf-8")
    for number in range(episodes):
        told = chance.sample(_WORDS, words - len(common)) + common
        chance.shuffle(told)
        header = f"---\nid: e{number}-000000\nmemory_type: episode\nimportance: 0.5\n---\n"
        acts = "".join(f"- {' '.join(chance.sample(_WORDS, 5))}\n" for _ in range(4))
        text = f"{header}\n## Actions\n\n{acts}\n## Reflection\n\n{' '.join(told)}.\n"
        (folder / f"e{number}.md").write_text(text, "utf-8")


def main() -> None:
    """Measure each number of episodes and print a line for each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--episodes", default="5000,20000")
    parser.add_argument("--words", type=int, default=40)
    given = parser.parse_args()
    with workplace(None) as folder:
        prepare_environment(folder / "cache")
        print(machine())
        for count in map(int, given.episodes.split(",")):
            vault = folder / str(count)
            write(vault, count, given.words)
            note(f"{count} episodes: the index")
            memvault("recall", "kalo", "--vault", str(vault))
            done = memvault("consolidate", "--days", "36500", "--json", "--vault", str(vault))
            print(f"{count:>8,} episodes  {done.seconds:7.2f} s  {done.peak:7.0f} MB")
        print(f"1 MB is {MEGABYTE:,} bytes")


if __name__ == "__main__":
    main()
