"""Excerpts of one memory: the section of a heading, or the passages around given words."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from memvault.errors import NotFound, UsageError
from memvault.index.text.analysis import query_analyser
from memvault.index.text.passages import split_passages
from memvault.model import Passage
from memvault.recall.query import parse
from memvault.vault.markdown import headings, lines

_CONTEXT_LINES = 2
"""Lines shown on each side of a passage, unless they are long."""
_LONG_LINE = 200
_MAX_PASSAGES = 3
_MAX_LISTED = 20


def section(body: str, wanted: str) -> Passage:
    """Return the first section whose heading matches, including its subsections.

    A path such as ``Setup/Linux`` selects a heading below another one. Case and heading marks are
    ignored.

    Raises:
        UsageError: no heading is given.
        NotFound: no section has this heading.
    """
    names = [_normalize(name) for name in wanted.split("/")]
    if not all(names):
        raise UsageError("The section has no heading", "name one, such as Setup or Setup/Linux")
    marks = list(headings(body))
    above: list[tuple[int, str]] = []
    paths = []
    for place, (start, _, level, text) in enumerate(marks):
        above = [*(entry for entry in above if entry[0] < level), (level, text)]
        path = [_normalize(name) for _, name in above]
        if _normalize(text) == _normalize(wanted) or _is_below(path, names):
            after = (begin for begin, _, other, _ in marks[place + 1 :] if other <= level)
            return Passage(start, next(after, len(body)), "/".join(name for _, name in above))
        paths.append("/".join(name for _, name in above))
    raise NotFound(f"There is no section {wanted.strip()!r}", _section_hint(wanted, paths))


def passages_with(body: str, words: str, languages: tuple[str, ...]) -> list[Passage]:
    """Return the passages with the most of the given words, in document order, with context lines.

    Raises:
        UsageError: there are no words.
        NotFound: no passage contains any of them.
    """
    analyser = query_analyser(languages)
    query = parse(words, analyser)
    if query.is_empty:
        raise UsageError("There are no words to look for", "name some that stand in the memory")
    body_analyser = analyser.analyser_for(body)
    names = query.term_names()
    passages = split_passages(body)
    counts = []
    for passage in passages:
        terms = body_analyser.terms(body[passage.start : passage.end])
        matched = {names[stem] for stem in names.keys() & terms.stems.keys()}
        counts.append(len(matched | (set(query.wholes) & terms.wholes.keys())))
    max_count = max(counts, default=0)
    if not max_count:
        raise NotFound(
            f"None of these words stands in the memory: {words.strip()!r}",
            "memvault recall finds it by meaning; without around the whole is shown",
        )
    chosen = [
        passage for passage, matched in zip(passages, counts, strict=True) if matched == max_count
    ][:_MAX_PASSAGES]
    return _merge([_widen(body, passage) for passage in chosen])


def _normalize(name: str) -> str:
    return " ".join(name.strip().lstrip("#").split()).casefold()


def _is_below(path: Sequence[str], names: Sequence[str]) -> bool:
    """Return whether a path ends with the last name and contains the others before it, in order."""
    ancestors = iter(path[:-1])
    return path[-1] == names[-1] and all(name in ancestors for name in names[:-1])


def _section_hint(requested: str, known: Sequence[str]) -> str:
    if not known:
        return "the memory has no headings; without section it is shown whole"
    similar = get_close_matches(_normalize(requested), [_normalize(name) for name in known], n=1)
    suggestion = next((name for name in known if similar and _normalize(name) == similar[0]), "")
    listed = ", ".join(known[:_MAX_LISTED]) + " …" * (len(known) > _MAX_LISTED)
    return f"did you mean {suggestion}? " * bool(suggestion) + f"its sections are {listed}"


def _widen(body: str, passage: Passage) -> Passage:
    """Return a passage extended by the lines next to it, within its section."""
    start, end = passage.start, passage.end
    within = {begin for begin, *_ in headings(body)}
    rows = [(row.start(), row.end()) for row in lines(body) if row[0].strip()]
    if start not in within:
        for first, last in [row for row in rows if row[1] <= start][: -_CONTEXT_LINES - 1 : -1]:
            if last - first > _LONG_LINE:
                break
            start = first
            if first in within:
                break
    for first, last in [row for row in rows if row[0] >= end][:_CONTEXT_LINES]:
        if first in within or last - first > _LONG_LINE:
            break
        end = last
    return Passage(start, end, passage.heading)


def _merge(passages: Sequence[Passage]) -> list[Passage]:
    """Merge passages that touch or overlap."""
    merged: list[Passage] = []
    for passage in passages:
        if merged and passage.start <= merged[-1].end:
            merged[-1] = Passage(
                merged[-1].start, max(merged[-1].end, passage.end), merged[-1].heading
            )
        else:
            merged.append(passage)
    return merged
