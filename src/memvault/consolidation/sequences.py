"""Action sequences that several episodes share: which, in which episodes, in what words."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from memvault.consolidation.statements import signs, words
from memvault.index.analysis import Analyser

__all__ = ["Parts", "Step", "Steps", "repeated", "step"]

_MOST_ACTIONS = 100
"""Actions of one episode that are looked at: the first ones."""

Step = tuple[tuple[str, ...], tuple[str, ...]]
Place = tuple[int, int]


class Steps(NamedTuple):
    """Actions that follow each other in several episodes, which are named by their places."""

    key: tuple[Step, ...]
    texts: tuple[str, ...]
    episodes: tuple[int, ...]


def step(action: str, analyser: Analyser) -> Step:
    """Return what an action is, whatever its case, inflection and punctuation."""
    return words(action, analyser) or (action.casefold(),), signs(action)


def repeated(episodes: Sequence[Sequence[str]], analyser: Analyser, least: int) -> list[Steps]:
    """Return the sequences of two or more actions that at least ``least`` episodes hold.

    A sequence of one action again and again is none, nor is a part of a longer
    one that the same episodes hold. Longer ones are found from shorter ones:
    what is not repeated cannot be part of a repeated one.
    """
    told = [[step(text, analyser) for text in actions[:_MOST_ACTIONS]] for actions in episodes]
    wordings: dict[Step, Counter[str]] = defaultdict(Counter)
    numbered: dict[Step, int] = {}
    for actions, keys in zip(episodes, told, strict=True):
        for text, key in zip(actions, keys, strict=False):
            numbered.setdefault(key, len(numbered))
            wordings[key][" ".join(text.split())] += 1
    said = {key: _usual(texts) for key, texts in wordings.items()}
    rows = [[numbered[key] for key in keys] for keys in told]
    found: list[Steps] = []
    heads = {
        (row, start): head for row, heads in enumerate(rows) for start, head in enumerate(heads)
    }
    length = 1
    shorter: dict[int, Steps] = {}
    while heads:
        before, heads = heads, _longer(heads, rows, length, least)
        length += 1
        longer: dict[int, Steps] = {}
        for name, held in _grouped(heads).items():
            row, start = held[0]
            steps = tuple(told[row][start : start + length])
            if len(set(steps)) > 1:
                inside = tuple(sorted({row for row, _ in held}))
                longer[name] = Steps(steps, tuple(said[part] for part in steps), inside)
                for part in (before[row, start], before[row, start + 1]):
                    if part in shorter and shorter[part].episodes == inside:
                        del shorter[part]
        found += shorter.values()
        shorter = longer
    return found


def _usual(texts: Counter[str]) -> str:
    """Return the wording that is used most often, the first in order of several."""
    return min(texts, key=lambda text: (-texts[text], text))


def _longer(
    heads: dict[Place, int], rows: Sequence[Sequence[int]], length: int, least: int
) -> dict[Place, int]:
    """Return where repeated sequences longer by one begin, each place with its sequence's number.

    ``heads`` does the same for those of ``length``.
    """
    names: dict[tuple[int, int], int] = {}
    longer: dict[Place, int] = {}
    for (row, start), head in heads.items():
        if start + length < len(rows[row]):
            pair = (head, rows[row][start + length])
            longer[row, start] = names.setdefault(pair, len(names))
    return {
        place: name
        for name, held in _grouped(longer).items()
        if len({row for row, _ in held}) >= least
        for place in held
    }


def _grouped(heads: dict[Place, int]) -> dict[int, list[Place]]:
    groups: dict[int, list[Place]] = defaultdict(list)
    for place, name in heads.items():
        groups[name].append(place)
    return groups


class Parts:
    """What sequences hold without a gap, themselves too."""

    def __init__(self) -> None:
        self._parts: set[tuple[Step, ...]] = set()

    def add(self, whole: Sequence[Step]) -> None:
        """Take a sequence in; of a very long one only the parts at its beginning."""
        steps = tuple(whole[:_MOST_ACTIONS])
        for start in range(len(steps)):
            for end in range(start + 1, len(steps) + 1):
                self._parts.add(steps[start:end])

    def __contains__(self, part: Sequence[Step]) -> bool:
        """Say whether a sequence is a part of one that was taken in."""
        return tuple(part) in self._parts
