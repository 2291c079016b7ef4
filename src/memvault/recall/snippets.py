"""Cut snippets: the few words of a memory that show why it was found."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import NamedTuple

from memvault.index.text.analysis import Analyser, fold
from memvault.index.text.passages import split_passages
from memvault.model import Passage
from memvault.recall.query import Query
from memvault.vault.markdown import mask_comments

_FENCE = re.compile(r"[ \t>]*(?:```|~~~)")
_DRAWN = re.compile(r"[\s|:+=*_-]*")
"""A blank line, a delimiter row of a table, or a horizontal rule."""
_ITEM = re.compile(r"^[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]+")
_HEADING = re.compile(r"[ ]{0,3}#{1,6}[ \t]+")
_QUOTE = re.compile(r"\A(?:[ \t]*+>)++[ \t]?")
_CELLS = re.compile(r"(?<!\\)\|")
_SENTENCE = re.compile(
    r"(?<=[.!?…])[\"'”’)\]]*\s+(?![a-z])|(?<=[。！？])(?=\S)"  # "e.g. this" continues
    r"|\n(?=[A-Z][\w.'-]{0,20}(?: [\w.'-]{1,20}){0,2}: \S)"  # a speaker's name
)
_SPACE = re.compile(r"\s+")


class TextUnit(NamedTuple):
    """A piece of text on one line; ``is_alone`` is false only for sentences of a paragraph."""

    text: str
    is_alone: bool


def units(text: str) -> list[TextUnit]:
    """Return the units of a text in document order."""
    found: list[TextUnit] = []
    block: list[str] = []
    last = ""
    for kind, line in (*_lines(mask_comments(text)), ("", "")):
        goes_on = last == "text" or (last == "item" and line[:1] in (" ", "\t"))
        if block and not (kind == "text" and goes_on):
            found += (unit for unit in _unit_text(last, block) if unit.text)
            block = []
        if kind:
            last = last if block else kind
            block.append(line)
    return found


def _lines(text: str) -> Iterator[tuple[str, str]]:
    """Yield lines with their kind; blank lines, rules and fences yield empty strings."""
    fenced = False
    for line in text.splitlines():
        bare = line if fenced else _QUOTE.sub("", line, count=1)
        if _FENCE.match(line):
            fenced = not fenced
            yield "", ""
        elif fenced:
            yield "code", line
        elif _DRAWN.fullmatch(bare):
            yield "", ""
        else:
            yield _kind(bare), bare


def _kind(line: str) -> str:
    if line.lstrip().startswith("|"):
        return "row"
    if _HEADING.match(line):
        return "heading"
    return "item" if _ITEM.match(line) else "text"


def _unit_text(kind: str, block: list[str]) -> Iterator[TextUnit]:
    if kind == "text":
        yield from (TextUnit(_line(part), False) for part in _SENTENCE.split("\n".join(block)))
    elif kind == "row":
        cells = (_line(cell.replace("\\|", "|")) for cell in _CELLS.split(block[0]))
        yield TextUnit(" | ".join(cell for cell in cells if cell), True)
    elif kind == "code":
        yield TextUnit(_line(block[0]), True)
    else:
        mark = _ITEM if kind == "item" else _HEADING
        yield TextUnit(_line(mark.sub("", " ".join(block), count=1)), True)


def _line(text: str) -> str:
    return _SPACE.sub(" ", text).strip()


_LENGTH = 240
_APART = " / "
"""The separator between two units that are not sentences of one paragraph."""
_Place = tuple[int, int, frozenset[str]]
"""Start and end of a word, and the query's terms that it contains."""
_WORDS = re.compile(r"\S+")
_HEADINGS = re.compile(r"^[ ]{0,3}#{1,6}[ \t].*$", re.MULTILINE)
_MOST_PASSAGES = 8
_MOST_PLACES = 400


class Snippet(NamedTuple):
    """A passage, or a one-line snippet of one, and the headings above it."""

    text: str
    heading: str


def make_snippet(
    body: str,
    passages: Sequence[tuple[int, Passage]],
    query: Query,
    analyser: Analyser,
    nearest: int | None,
) -> Snippet:
    """Return a snippet of about 240 characters, starting at the sentence with the query's words.

    Items of a list, rows of a table and lines of code are separate units. Errors as for
    ``Analyser.terms``.
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
    """Return the whole text of the passage that fits a query best.

    This is the one of the numbered ``passages`` with the most of the query's terms; if none has
    any, the one with the number ``near``, which is the nearest by vector, else the first.
    """
    every = [passage for _, passage in passages] or split_passages(body)[:1]
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
    """Preselect passages to analyse: of many, those with the most beginnings of words."""
    if len(passages) <= _MOST_PASSAGES:
        return passages
    hint = query.hint()

    def found(passage: Passage) -> int:
        return len(set(hint.findall(fold(body[passage.start : passage.end]))))

    ranked = sorted(passages, key=found, reverse=True)[:_MOST_PASSAGES]
    return [entry for entry in passages if entry in ranked or entry == nearest]


def _told(body: str, passage: Passage) -> str:
    """Return a passage's text without its headings, which are returned separately."""
    return _HEADINGS.sub("", body[passage.start : passage.end]).strip()


def _around(units: Sequence[TextUnit], wanted: frozenset[str], analyser: Analyser) -> str:
    """Return the text of the adjacent units that contain the most distinct terms."""
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
    """Join units on one line; after the required ones, only sentences are appended."""
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
    """Cut the range with the most distinct terms out of a long sentence."""
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
    """Return the start and end of the range that contains the most distinct terms."""
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
    """Return the places of terms in a text without spaces between words."""
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
    """Return the share of a query's words that a text contains, in 0..1."""
    if not query.words:
        return 0.0
    stems = analyser.terms(text).stems
    return sum(any(stem in stems for stem in word) for word in query.words) / len(query.words)


def beginning(body: str) -> str:
    """Return the first words of a body on one line."""
    told = _HEADINGS.sub("", body[: _LENGTH * 4])
    found = units(told) or units(body[: _LENGTH * 4])
    return _joined(found, len(found))
