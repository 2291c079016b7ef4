"""Sentence features: what a sentence or two of a memory say of the query.

The indexes score whole memories and passages of 200 words, in which a question's
words may stand far apart. Here the text is read again in short stretches, and
the best of them speak for the memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from memvault.index.analysis import Analyser, fold
from memvault.model import Memory
from memvault.recall.query import Query

_LENGTH = 150
_LONGEST = 400
_LONG_BODY = 200_000
_MOST = 40
"""Of a long memory, how many stretches are measured: those with most of the query's words."""
_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？；])")
_SPEAKER = re.compile(r"[A-Z][\w.'-]{0,20}(?: [\w.'-]{1,20}){0,2}: (?=\S)")


class SentenceFeatures(NamedTuple):
    """What a memory's best stretches hold of a query, in 0..1.

    ``together`` is the share of the query's terms, weighted by their rarity, in
    one stretch; ``order`` the share of the query's neighbouring terms that are
    neighbours somewhere, None where it has no two; ``words`` how near one
    stretch's words are to the query's, None where nothing could tell. ``stems``
    are the terms of all stretches.
    """

    together: float
    order: float | None
    words: float | None
    stems: frozenset[str]


def likely_stretches(query: Query, memories: Sequence[Memory]) -> list[list[str]]:
    """Cut each memory into stretches; of very many, those with most of the query's words."""
    hint = query.hint()
    return [_likely(stretches(memory, hint), hint) for memory in memories]


def measure(
    query: Query,
    memories: Sequence[Memory],
    texts: Sequence[Sequence[str]],
    nearness: Sequence[float] | None,
    rarity: Mapping[str, float],
    analysers: Sequence[Analyser],
) -> list[SentenceFeatures]:
    """Measure memories by their stretches, one answer each.

    ``nearness`` says of all stretches, one memory's after the other's, how near
    their words are to the query's; ``rarity`` is each term's idf; ``analysers`` are
    those of the memories' languages.
    """
    terms = {word[0]: rarity.get(word[0], 1.0) for word in query.words}
    names = query.names()
    found = []
    start = 0
    for memory, part, analyser in zip(memories, texts, analysers, strict=True):
        end = start + len(part)
        words = max(nearness[start:end]) if nearness is not None else None
        measured = _compare(part, terms, names, analyser, words)
        if not measured.together and memory.tags:  # it says nothing of this but by its tags
            tagged = _compare([" ".join(memory.tags)], terms, names, analyser, words)
            measured = tagged._replace(stems=measured.stems)
        found.append(measured)
        start = end
    return found


def _compare(
    texts: Sequence[str],
    terms: Mapping[str, float],
    names: Mapping[str, str],
    analyser: Analyser,
    words: float | None,
) -> SentenceFeatures:
    wanted = set(pairwise(terms))
    between = analyser.stop_stems - terms.keys()
    pairs: set[tuple[str, str]] = set()
    stems: set[str] = set()
    held = 0.0
    for text in texts:
        everything = analyser.sequence(text, names)
        stems.update(everything)
        inside = terms.keys() & everything
        held = max(held, sum(terms[stem] for stem in inside))
        if len(inside) > 1:
            # Stop words, which the query has lost, and the single characters that
            # scripts without spaces have between their pairs, part no neighbours.
            telling = [
                stem
                for stem in everything
                if stem in terms or (len(stem) > 1 and stem not in between)
            ]
            pairs |= wanted.intersection(pairwise(telling))
    ordered = sum(terms[first] + terms[second] for first, second in pairs)
    most = sum(terms[first] + terms[second] for first, second in wanted)
    total = sum(terms.values())
    return SentenceFeatures(
        held / total if total else 0.0, ordered / most if most else None, words, frozenset(stems)
    )


def stretches(memory: Memory, hint: re.Pattern[str] | None = None) -> list[str]:
    """Cut a memory into stretches of about 150 characters, whole sentences, each with its title.

    Where a line begins with who is speaking, a stretch that begins inside the
    line is told so. Of a body of hundreds of pages only lines that fit ``hint``
    are cut, and the first.
    """
    lines = memory.body.splitlines()
    if hint is not None and len(memory.body) > _LONG_BODY:
        lines = [*lines[:_MOST], *(line for line in lines[_MOST:] if hint.search(fold(line)))]
    head = f"{memory.title[:_LENGTH]}\n"
    found: list[str] = []
    last = ""
    for speaker, sentence in _sentences(lines):
        if last and len(last) + len(sentence) > _LENGTH:
            found.append(head + last)
            last = ""
        last = f"{last} {sentence}" if last else f"{speaker}{sentence}"
    return [*found, head + last]


def _likely(texts: list[str], hint: re.Pattern[str]) -> list[str]:
    """Leave out what a quick look at the beginnings of words finds least in."""
    if len(texts) <= _MOST:
        return texts
    ranked = sorted(texts, key=lambda text: -len(set(hint.findall(fold(text)))))
    return ranked[:_MOST]


def _sentences(lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield sentences, each after the first of a line with the line's speaker."""
    for line in lines:
        match = _SPEAKER.match(line)
        speaker = ""
        for sentence in _END.split(line):
            for piece in _pieces(sentence.strip()):
                yield speaker, piece
                speaker = match[0] if match else ""


def _pieces(text: str) -> Iterator[str]:
    start = 0
    while len(text) - start > _LONGEST:
        space = text.rfind(" ", start + 1, start + _LONGEST)
        cut = space + 1 if space > 0 else start + _LONGEST
        yield text[start:cut].strip()
        start = cut
    if text[start:]:
        yield text[start:]
