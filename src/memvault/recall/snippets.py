"""The few words of a memory that show why it was found."""

from __future__ import annotations

import re
from collections.abc import Sequence
from operator import itemgetter
from typing import NamedTuple

from memvault.index import chunks
from memvault.index.analysis import Analyser, fold
from memvault.model import Passage
from memvault.recall.query import Query
from memvault.recall.units import TextUnit, units

_LENGTH = 240
_APART = " / "
"""What stands between two that are no sentences of one text."""
_Place = tuple[int, int, frozenset[str]]
"""Where a word stands, and which of the wanted ones it is."""
_WORDS = re.compile(r"\S+")
_HEADINGS = re.compile(r"^[ ]{0,3}#{1,6}[ \t].*$", re.MULTILINE)
_MOST_PASSAGES = 8
_MOST_PLACES = 400


class Snippet(NamedTuple):
    """A passage, or a snippet of one on one line, and the headings above it."""

    text: str
    heading: str


def make_snippet(
    body: str,
    passages: Sequence[tuple[int, Passage]],
    query: Query,
    analyser: Analyser,
    nearest: int | None,
) -> Snippet:
    """Return about 240 characters from the sentence on that has the query's words, on one line.

    What is no sentence stands alone: an item of a list, a row of a table, a line of
    code. Errors as for fitting.
    """
    passage = best_passage(body, passages, query, analyser, nearest)
    return Snippet(_around(units(passage.text), _wanted(query), analyser), passage.heading)


def best_passage(
    body: str,
    passages: Sequence[tuple[int, Passage]],
    query: Query,
    analyser: Analyser,
    near: int | None,
) -> Snippet:
    """Return the passage that fits a query best, whole; ``near`` is the nearest by vector.

    It is the one of some numbered ``passages`` with the most of the query's
    terms; where none has any, the nearest by vector, else the first.
    """
    every = [passage for _, passage in passages] or chunks.split_passages(body)[:1]
    nearest = next((passage for number, passage in passages if number == near), None)
    told = [entry for entry in every if _told(body, entry)] or every  # not only headings
    wanted = _wanted(query)
    best, most = told[0], 0.0
    for passage in _likely(body, told, query, nearest):
        terms = analyser.terms(body[passage.start : passage.end])
        found = len(wanted & terms.stems.keys()) + len(wanted & terms.wholes.keys())
        weight = found + (0.5 if passage == nearest else 0.0)
        if weight > most:
            best, most = passage, weight
    return Snippet(_told(body, best) or body[best.start : best.end], best.heading)


def _wanted(query: Query) -> frozenset[str]:
    return frozenset(query.term_names()) | frozenset(query.wholes)


def _likely(
    body: str, passages: list[Passage], query: Query, nearest: Passage | None
) -> list[Passage]:
    """Return the passages worth a closer look: of many, those with most words' beginnings."""
    if len(passages) <= _MOST_PASSAGES:
        return passages
    hint = query.hint()

    def found(passage: Passage) -> int:
        return len(set(hint.findall(fold(body[passage.start : passage.end]))))

    ranked = sorted(passages, key=found, reverse=True)[:_MOST_PASSAGES]
    return [entry for entry in passages if entry in ranked or entry == nearest]


def _told(body: str, passage: Passage) -> str:
    """Return a passage's text without the headings, which are named apart."""
    return _HEADINGS.sub("", body[passage.start : passage.end]).strip()


def _around(units: Sequence[TextUnit], wanted: frozenset[str], analyser: Analyser) -> str:
    """Show the units, near to each other, that hold the most distinct wanted words."""
    held = [_held(unit.text, wanted, analyser) for unit in units]
    first, last, most = 0, len(units), frozenset[str]()
    for start, _ in filter(itemgetter(1), enumerate(held)):
        inside: frozenset[str] = frozenset()
        length = 0
        for place in range(start, len(units)):
            length += len(units[place].text) + 1
            if length > _LENGTH and place > start:
                break
            inside |= held[place]
            if len(inside) > len(most):
                first, last, most = start, place, inside
    while most and frozenset().union(*held[first + 1 : last + 1]) == most:
        first += 1
    if most and len(units[first].text) > _LENGTH:
        return _window(units[first].text, wanted, analyser)
    return _joined(units[first:], last - first)


def _held(text: str, wanted: frozenset[str], analyser: Analyser) -> frozenset[str]:
    terms = analyser.terms(text)
    return wanted & (terms.stems.keys() | terms.wholes.keys())


def _joined(units: Sequence[TextUnit], last: int) -> str:
    """Join units on one line; behind the last that has to be there only sentences go on."""
    text = ""
    goes_on = False
    before: TextUnit | None = None
    for place, unit in enumerate(units):
        alone = before is not None and (unit.is_alone or before.is_alone)
        if place > last and alone:
            goes_on = before is not None and not before.is_alone
            break
        text += f"{(_APART if alone else ' ') if before else ''}{unit.text}"
        if len(text) > _LENGTH:
            return _cut(text)
        before = unit
    return f"{text} …" if goes_on else text


def _cut(text: str) -> str:
    end = text.rfind(" ", _LENGTH // 2, _LENGTH)
    return f"{text[: end if end > 0 else _LENGTH]} …"


def _window(text: str, wanted: frozenset[str], analyser: Analyser) -> str:
    """Cut the stretch with the most distinct wanted words out of a long sentence."""
    words = list(_WORDS.finditer(text))
    hits = [(*word.span(), _held(word[0], wanted, analyser)) for word in words]
    if any(word.end() - word.start() > _LENGTH for word in words):
        hits = _inside(text, wanted) or hits
    start, stop = _densest([hit for hit in hits if hit[2]])
    if stop <= _LENGTH:
        start = 0
    elif start + _LENGTH >= len(text):
        start = max(0, len(text) - _LENGTH)
    else:
        start = max(0, start - _LENGTH // 6)
    near = next((word.start() for word in words if word.start() >= start), start)
    start = near if near - start < _LENGTH // 6 else start
    end = max((word.end() for word in words if word.end() <= start + _LENGTH), default=0)
    if end <= start:
        end = min(len(text), start + _LENGTH)
    cut = text[start:end].strip()
    return f"{'… ' if start > 0 else ''}{cut}{' …' if end < len(text.rstrip()) else ''}"


def _densest(hits: Sequence[_Place]) -> tuple[int, int]:
    """Return where the stretch begins and ends that holds the most distinct words."""
    best, most = (0, 0), 0
    for first, (place, _, _) in enumerate(hits):
        inside: set[str] = set()
        for _, end, found in hits[first:]:
            if end - place > _LENGTH:
                break
            inside |= found
            if len(inside) > most:
                best, most = (place, end), len(inside)
    return best


def _inside(text: str, wanted: frozenset[str]) -> list[_Place]:
    """Return where terms stand in a text that is not cut into words by spaces."""
    lowered = text.lower()
    if len(lowered) != len(text):
        return []
    found: list[_Place] = []
    for term in wanted:
        place = lowered.find(term)
        while place >= 0 and len(found) < _MOST_PLACES:
            found.append((place, place + len(term), frozenset((term,))))
            place = lowered.find(term, place + len(term))
    return sorted(found)


def coverage(text: str, query: Query, analyser: Analyser) -> float:
    """Return the share of a query's words that a text holds, in 0..1."""
    if not query.words:
        return 0.0
    stems = analyser.terms(text).stems
    return sum(any(stem in stems for stem in word) for word in query.words) / len(query.words)


def beginning(body: str) -> str:
    """Return a body's first words on one line."""
    told = _HEADINGS.sub("", body[: _LENGTH * 4])
    found = units(told) or units(body[: _LENGTH * 4])
    return _joined(found, len(found))
