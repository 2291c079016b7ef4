"""When two statements about the same thing cannot both hold: shown to people, never resolved.

They contradict each other where all is the same but one thing: a number, a
negation or a word and its opposite, or the value that a name is said to have.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import NamedTuple

from memvault.consolidation.statements import Statement, words
from memvault.index.analysis import Analyser

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
    ("open", "closed"),
    ("like", "hate"),
    ("accepted", "rejected"),
    ("online", "offline"),
    ("public", "private"),
)
_VALUE = re.compile(
    r"^(?P<subject>.{4,}?)\s+(?:is|are|was|were|equals)\s+(?:(?:now|called|still|the|an?)\s+)*"
    r"(?P<value>\S+(?: \S+){0,2}?)[.!]*$|^(?P<name>[^=]{3,}?)\s*=\s*(?P<set>\S+?)[.!]*$"
)
_LOOKS_LIKE_A_VALUE = re.compile(r"[A-Z0-9`_./:@]")
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
_BE = re.compile(r"\b(?:is|are|was|were|be|equals)\b|=")


class Contradiction(NamedTuple):
    """In what statements differ, and who says what: places in what was given, two sides or more."""

    difference: str
    sides: tuple[tuple[int, ...], ...]


class _Frame(NamedTuple):
    """A statement without its numbers and without what turns its meaning round."""

    stems: tuple[str, ...]
    turned: bool
    numbers: tuple[str, ...]


def contradictions(given: Sequence[Statement], analyser: Analyser) -> list[Contradiction]:
    """Return what statements about one thing contradict each other, once for each thing."""
    frames = [_frame(entry, analyser) for entry in given]
    numbers = _groups((frame.stems, frame.turned, frame.numbers) for frame in frames)
    negations = _groups((frame.stems, frame.numbers, frame.turned) for frame in frames)
    values = _groups(
        (subject, None, value) if subject else None
        for subject, value in (_value(entry.text, analyser) for entry in given)
    )
    found = [Contradiction("number", sides) for sides in numbers]
    found += [Contradiction("negation", sides) for sides in negations]
    shown: dict[int, set[int]] = defaultdict(set)
    for number, entry in enumerate(found):
        for place in _members(entry.sides):
            shown[place].add(number)
    found += [
        Contradiction("value", sides)
        for sides in values
        if not set.intersection(*(shown[place] for place in _members(sides)))
    ]
    return sorted(found, key=lambda entry: (entry.sides, entry.difference))


def _groups(
    parts: Iterable[tuple[object, object, object] | None],
) -> Iterator[tuple[tuple[int, ...], ...]]:
    """Yield the places of what is alike in the first two parts, by the sides of the third."""
    groups: dict[object, dict[object, list[int]]] = defaultdict(lambda: defaultdict(list))
    for place, part in enumerate(parts):
        if part is not None:
            groups[part[:2]][part[2]].append(place)
    for sides in groups.values():
        if len(sides) > 1:
            yield tuple(tuple(side) for side in sides.values())


def _members(sides: Iterable[Iterable[int]]) -> set[int]:
    return {place for side in sides for place in side}


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
