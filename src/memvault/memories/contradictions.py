"""When two statements about the same thing cannot both hold: shown to people, never resolved.

They contradict each other where all is the same but one thing: a number, a
negation or a word and its opposite, or the value that a name is said to have.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import combinations
from typing import NamedTuple

from memvault.index.analysis import Analyser
from memvault.memories.statements import Statement, words

__all__ = ["Contradiction", "contradictions"]

_OPPOSITES = (
    ("pass", "fail"),
    ("enabled", "disabled"),
    ("allowed", "forbidden"),
    ("on", "off"),
    ("before", "after"),
    ("true", "false"),
    ("required", "optional"),
    ("fast", "slow"),
    ("safe", "unsafe"),
    ("with", "without"),
    ("more", "less"),
    ("increases", "decreases"),
)
_VALUE = re.compile(
    r"^(?P<subject>.{4,}?)\s+(?:is|are|was|were|equals)\s+(?:(?:now|called|still|the|an?)\s+)*"
    r"(?P<value>\S+(?: \S+){0,2}?)[.!]*$|^(?P<name>[^=]{3,}?)\s*=\s*(?P<set>\S+?)[.!]*$"
)
_LOOKS_LIKE_A_VALUE = re.compile(r"[A-Z0-9`_./:@]")
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
_BE = re.compile(r"\b(?:is|are|was|were|be|equals)\b|=")


class Contradiction(NamedTuple):
    """Two statements by their places in what was given, and in what they differ."""

    first: int
    second: int
    difference: str


class _Frame(NamedTuple):
    """A statement without its numbers and without what turns its meaning round."""

    stems: tuple[str, ...]
    turned: bool
    numbers: tuple[str, ...]


def contradictions(given: Sequence[Statement], analyser: Analyser) -> list[Contradiction]:
    """Return every pair of statements that contradict each other."""
    frames = [_frame(entry, analyser) for entry in given]
    values = [_value(entry.text, analyser) for entry in given]
    found: dict[tuple[int, int], str] = {}
    for first, second in _pairs(frame.stems for frame in frames):
        one, other = frames[first], frames[second]
        if one.turned != other.turned and one.numbers == other.numbers:
            found[first, second] = "negation"
        elif one.turned == other.turned and one.numbers != other.numbers:
            found[first, second] = "number"
    for first, second in _pairs(subject for subject, _ in values):
        if values[first][1] != values[second][1] and given[first].key != given[second].key:
            found.setdefault((first, second), "value")
    return [Contradiction(*pair, found[pair]) for pair in sorted(found)]


def _pairs(keys: Iterable[tuple[str, ...]]) -> Iterable[tuple[int, int]]:
    """Yield the places of equal keys, two by two; empty ones equal nothing."""
    groups: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for place, key in enumerate(keys):
        if key:
            groups[key].append(place)
    for group in groups.values():
        yield from combinations(group, 2)


def _frame(said: Statement, analyser: Analyser) -> _Frame:
    """Take numbers and negations out; a number that names the subject stays where it is."""
    text = said.text
    sides = _opposites(analyser)
    be = _BE.search(text)
    start = be.end() if be else len("".join(re.findall(r"^\W*\w+\W+\S+\s*", text)[:1]))
    numbers = tuple(_NUMBER.findall(text[start:]))
    told = text[:start] + _NUMBER.sub(" # ", text[start:])
    stems: list[str] = []
    turned = False
    for stem in words(told, analyser):
        if stem == "not":
            turned = not turned
        elif stem in sides:
            stems.append(sides[stem][0])
            turned = turned != sides[stem][1]
        else:
            stems.append(stem)
    return _Frame((*stems, f"{len(numbers)} numbers"), turned, numbers)


@cache
def _opposites(analyser: Analyser) -> dict[str, tuple[str, bool]]:
    """Return for each word that has an opposite what both stand for, and which of them it is."""
    if analyser.language != "english":
        return {}
    sides: dict[str, tuple[str, bool]] = {}
    for pair in _OPPOSITES:
        for turned, word in enumerate(pair):
            sides[analyser.sequence(word)[0]] = (f"{pair[0]}/{pair[1]}", bool(turned))
    return sides


def _value(text: str, analyser: Analyser) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return whose value a statement gives, and the value; empty where it gives none."""
    match = _VALUE.match(text)
    if match is None:
        return (), ()
    value = match["value"] or match["set"] or ""
    if not _LOOKS_LIKE_A_VALUE.search(value) or "not" in words(value, analyser):
        return (), ()
    return words(match["subject"] or match["name"], analyser), words(value, analyser)
