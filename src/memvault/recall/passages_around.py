"""Find the passages of a memory that contain given words."""

from __future__ import annotations

from collections.abc import Sequence

from memvault.errors import NotFound, UsageError
from memvault.index.text.analyzer import query_analyzer
from memvault.index.text.passages import split_passages
from memvault.model import Passage
from memvault.recall.query import parse
from memvault.vault.markdown import headings, lines

_CONTEXT_LINES = 2
"""Context lines on each side of a passage, if they are short."""
_LONG_LINE = 200
_MAX_PASSAGES = 3


def passages_with(body: str, query_text: str, languages: tuple[str, ...]) -> list[Passage]:
    """Return the passages with the most given words, in document order, with context lines.

    Raises:
        UsageError: if there are no words.
        NotFound: if no passage contains any of them.
    """
    analyzer = query_analyzer(languages)
    query = parse(query_text, analyzer)
    if query.is_empty:
        raise UsageError(
            "The text has no words to search for", "use words that occur in the memory"
        )
    body_analyzer = analyzer.analyzer_for(body)
    names = query.term_names()
    passages = split_passages(body)
    counts = []
    for passage in passages:
        terms = body_analyzer.terms(body[passage.start : passage.end])
        matched = {names[stem] for stem in names.keys() & terms.stems.keys()}
        counts.append(len(matched | (set(query.wholes) & terms.wholes.keys())))
    max_count = max(counts, default=0)
    if not max_count:
        raise NotFound(
            f"None of these words is in the memory: {query_text.strip()!r}",
            "`memvault recall` also searches by meaning; omit `--around` to show the whole memory",
        )
    chosen = [
        passage for passage, matched in zip(passages, counts, strict=True) if matched == max_count
    ][:_MAX_PASSAGES]
    return _merge([_widen(body, passage) for passage in chosen])


def _widen(body: str, passage: Passage) -> Passage:
    """Return a passage extended with adjacent lines of its section."""
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
