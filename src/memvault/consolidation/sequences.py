"""Action sequences that several episodes share: which, in which episodes, in what words."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from memvault.consolidation.statements import signs, words
from memvault.index.analysis import Analyser

_MOST_ACTIONS = 100
"""Actions of one episode that are looked at: the first ones."""

Step = tuple[tuple[str, ...], tuple[str, ...]]


class ActionSequence(NamedTuple):
    """Actions that follow each other in several episodes, which are named by their places."""

    key: tuple[Step, ...]
    texts: tuple[str, ...]
    episodes: tuple[int, ...]


def step(action: str, analyser: Analyser) -> Step:
    """Return what an action is, whatever its case, inflection and punctuation."""
    return words(action, analyser) or (action.casefold(),), signs(action)


def repeated(
    episodes: Sequence[Sequence[str]], analyser: Analyser, least: int
) -> list[ActionSequence]:
    """Return the sequences of two or more actions that at least ``least`` episodes hold.

    A sequence of one action again and again is none, nor is a part of a longer
    one that the same episodes hold. Longer ones are found from shorter ones:
    what is not repeated cannot be part of a repeated one.
    """
    rows, keys, wordings = _numbered(episodes, analyser)
    found: list[ActionSequence] = []
    places = [(row, start) for row, steps in enumerate(rows) for start in range(len(steps))]
    length = 1
    shorter: dict[tuple[int, ...], tuple[int, ...]] = {}
    while places:
        length += 1
        groups: dict[tuple[int, ...], list[tuple[int, int]]] = defaultdict(list)
        for row, start in places:
            if start + length <= len(rows[row]):
                groups[tuple(rows[row][start : start + length])].append((row, start))
        places = []
        longer: dict[tuple[int, ...], tuple[int, ...]] = {}
        for part, held in groups.items():
            inside = tuple(sorted({row for row, _ in held}))
            if len(inside) < least:
                continue
            places += held
            if len(set(part)) > 1:
                longer[part] = inside
                for inner in (part[:-1], part[1:]):
                    if shorter.get(inner) == inside:
                        del shorter[inner]
        found += (
            ActionSequence(tuple(keys[n] for n in part), tuple(wordings[n] for n in part), inside)
            for part, inside in shorter.items()
        )
        shorter = longer
    return found


def _numbered(
    episodes: Sequence[Sequence[str]], analyser: Analyser
) -> tuple[list[list[int]], list[Step], list[str]]:
    """Return each episode's actions as numbers, and what action and usual wording each means."""
    wordings: dict[Step, Counter[str]] = defaultdict(Counter)
    numbers: dict[Step, int] = {}
    rows: list[list[int]] = []
    for actions in episodes:
        rows.append([])
        for text in actions[:_MOST_ACTIONS]:
            key = step(text, analyser)
            wordings[key][" ".join(text.split())] += 1
            rows[-1].append(numbers.setdefault(key, len(numbers)))
    usual = [min(wordings[key], key=lambda text: (-wordings[key][text], text)) for key in numbers]
    return rows, list(numbers), usual


def parts(whole: Sequence[Step]) -> Iterator[tuple[Step, ...]]:
    """Yield what a sequence holds without a gap; of a very long one only what is early in it."""
    steps = tuple(whole[:_MOST_ACTIONS])
    for start in range(len(steps)):
        for end in range(start + 1, len(steps) + 1):
            yield steps[start:end]
