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

_SIDE = 2
"""Lines shown on each side of a passage, unless they are long."""
_LONG_LINE = 200
_MOST = 3
_MOST_NAMED = 20


def section(body: str, wanted: str) -> Passage:
    """Return the first section whose heading matches, including its subsections.

    A path such as ``Setup/Linux`` selects a heading below another one. Case and heading marks are
    ignored.

    Raises:
        UsageError: no heading is given.
        NotFound: no section has this heading.
    """
    names = [_plain(name) for name in wanted.split("/")]
    if not all(names):
        raise UsageError("The section has no heading", "name one, such as Setup or Setup/Linux")
    every = list(headings(body))
    above: list[tuple[int, str]] = []
    known = []
    for place, (start, _, level, text) in enumerate(every):
        above = [*(entry for entry in above if entry[0] < level), (level, text)]
        path = [_plain(name) for _, name in above]
        if _plain(text) == _plain(wanted) or _is_below(path, names):
            after = (begin for begin, _, other, _ in every[place + 1 :] if other <= level)
            return Passage(start, next(after, len(body)), "/".join(name for _, name in above))
        known.append("/".join(name for _, name in above))
    raise NotFound(f"There is no section {wanted.strip()!r}", _instead(wanted, known))


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
    own = analyser.analyser_for(body)
    names = query.term_names()
    every = split_passages(body)
    found = []
    for passage in every:
        terms = own.terms(body[passage.start : passage.end])
        held = {names[stem] for stem in names.keys() & terms.stems.keys()}
        found.append(len(held | (set(query.wholes) & terms.wholes.keys())))
    most = max(found, default=0)
    if not most:
        raise NotFound(
            f"None of these words stands in the memory: {words.strip()!r}",
            "memvault recall finds it by meaning; without around the whole is shown",
        )
    chosen = [passage for passage, held in zip(every, found, strict=True) if held == most][:_MOST]
    return _joined([_wider(body, passage) for passage in chosen])


def _plain(name: str) -> str:
    return " ".join(name.strip().lstrip("#").split()).casefold()


def _is_below(path: Sequence[str], names: Sequence[str]) -> bool:
    """Return whether a path ends with the last name and contains the others before it, in order."""
    passed = iter(path[:-1])
    return path[-1] == names[-1] and all(name in passed for name in names[:-1])


def _instead(wanted: str, known: Sequence[str]) -> str:
    if not known:
        return "the memory has no headings; without section it is shown whole"
    near = get_close_matches(_plain(wanted), [_plain(name) for name in known], n=1)
    meant = next((name for name in known if near and _plain(name) == near[0]), "")
    named = ", ".join(known[:_MOST_NAMED]) + " …" * (len(known) > _MOST_NAMED)
    return f"did you mean {meant}? " * bool(meant) + f"its sections are {named}"


def _wider(body: str, passage: Passage) -> Passage:
    """Return a passage extended by the lines next to it, within its section."""
    start, end = passage.start, passage.end
    within = {begin for begin, *_ in headings(body)}
    rows = [(row.start(), row.end()) for row in lines(body) if row[0].strip()]
    if start not in within:
        for first, last in [row for row in rows if row[1] <= start][: -_SIDE - 1 : -1]:
            if last - first > _LONG_LINE:
                break
            start = first
            if first in within:
                break
    for first, last in [row for row in rows if row[0] >= end][:_SIDE]:
        if first in within or last - first > _LONG_LINE:
            break
        end = last
    return Passage(start, end, passage.heading)


def _joined(passages: Sequence[Passage]) -> list[Passage]:
    """Merge passages that touch or overlap."""
    out: list[Passage] = []
    for passage in passages:
        if out and passage.start <= out[-1].end:
            out[-1] = Passage(out[-1].start, max(out[-1].end, passage.end), out[-1].heading)
        else:
            out.append(passage)
    return out
