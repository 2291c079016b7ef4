"""When two statements about the same thing cannot both hold: shown to people, never resolved.

They contradict each other where all is the same but one thing: a number, a
negation or a word and its opposite, or the value that a name is said to have.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import cache
from itertools import chain

from memvault.consolidation.statements import Statement, words
from memvault.index.analysis import Analyser

_OPPOSITES = (
    "pass/fail enabled/disabled allowed/forbidden on/off before/after true/false "
    "required/optional fast/slow safe/unsafe with/without more/less increases/decreases "
    "open/closed like/hate accepted/rejected online/offline public/private"
).split()
_VALUE = re.compile(
    r"^(?P<subject>.{4,}?)\s+(?:is|are|was|were|equals)\s+(?:(?:now|called|still|the|an?)\s+)*"
    r"(?P<value>\S+(?: \S+){0,2}?)[.!]*$|^(?P<name>[^=]{3,}?)\s*=\s*(?P<set>\S+?)[.!]*$"
)
_LOOKS_LIKE_A_VALUE = re.compile(r"[A-Z0-9`_./:@]")
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
_BE = re.compile(r"\b(?:is|are|was|were|be|equals)\b|=")
_TWO_WORDS = re.compile(r"\W*\w+\W+\S+\s*")

OpposingGroups = tuple[tuple[int, ...], ...]
"""Who says one thing and who another, two sides or more: places in what was given."""


def contradictions(
    given: Sequence[Statement], analyser: Analyser
) -> list[tuple[OpposingGroups, str]]:
    """Return who contradicts whom and in what: each thing that they speak of once.

    A value is left out where a number or a negation tells of all who give one.
    """
    frames = [_frame(entry.text, analyser) for entry in given]
    numbers = _groups(((stems, turned), numbers) for stems, turned, numbers in frames)
    negations = _groups(((stems, numbers), turned) for stems, turned, numbers in frames)
    values = _groups(_value(entry.text, analyser) for entry in given)
    found = [(sides, "number") for sides in numbers] + [(sides, "negation") for sides in negations]
    covered: dict[int, set[int]] = defaultdict(set)
    for number, (sides, _) in enumerate(found):
        for place in chain(*sides):
            covered[place].add(number)
    found += [
        (sides, "value")
        for sides in values
        if not set.intersection(*(covered[place] for place in chain(*sides)))
    ]
    return sorted(found)


def _groups(parts: Iterable[tuple[Hashable, Hashable] | None]) -> Iterator[OpposingGroups]:
    """Yield the places of what has the same first part, by the sides of the second."""
    groups: dict[Hashable, dict[Hashable, list[int]]] = defaultdict(lambda: defaultdict(list))
    for place, part in enumerate(parts):
        if part is not None:
            groups[part[0]][part[1]].append(place)
    for sides in groups.values():
        if len(sides) > 1:
            yield tuple(map(tuple, sides.values()))


def _frame(text: str, analyser: Analyser) -> tuple[tuple[str, ...], bool, tuple[str, ...]]:
    """Return a statement's stems, whether its meaning is turned round, and its numbers.

    The stems are those without numbers and negations; a number that names the
    subject stays where it is.
    """
    sides = _opposites(analyser)
    subject = _BE.search(text) or _TWO_WORDS.match(text)
    start = subject.end() if subject else 0
    numbers = tuple(_NUMBER.findall(text[start:]))
    stems: list[str] = []
    turned = False
    for stem in words(text[:start] + _NUMBER.sub(" # ", text[start:]), analyser):
        if stem == "not":
            turned = not turned
        else:
            same, opposite = sides.get(stem, (stem, False))
            stems.append(same)
            turned = turned != opposite
    return (*stems, f"{len(numbers)} numbers"), turned, numbers


@cache
def _opposites(analyser: Analyser) -> dict[str, tuple[str, bool]]:
    """Return for each word that has an opposite what both stand for, and which of them it is."""
    if analyser.language != "english":
        return {}
    return {
        analyser.sequence(word)[0]: (pair, opposite)
        for pair in _OPPOSITES
        for word, opposite in zip(pair.split("/"), (False, True), strict=True)
    }


def _value(text: str, analyser: Analyser) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Return whose value a statement gives, and the value; None where it gives none."""
    match = _VALUE.match(text)
    given = (match["value"] or match["set"]) if match else ""
    if match is None or not _LOOKS_LIKE_A_VALUE.search(given):
        return None
    subject, value = words(match["subject"] or match["name"], analyser), words(given, analyser)
    return (subject, value) if subject and "not" not in value else None
