"""Filters in a query's text: ``deploy tag:work in:projects since:30d -draft``.

Filters are ``tag:``, ``type:``, ``in:`` (a folder), ``since:`` and ``until:``, each directly
followed by a value, which may be quoted; and ``-`` before a word, a quoted phrase or a filter,
which excludes the memories that match it. Everything else is searched as words: other prefixes, a
value that is not a date, a single letter or a number after ``-``, and quoted text. A query with
line breaks or more than ``_MAX_WORDS`` words was probably pasted, so it is not parsed for filters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from memvault.lazy_pattern import lazy_pattern
from memvault.named_tuple import NamedTuple
from memvault.recall.filters import Filters

_PREFIXES = "tag|type|in|since|until"
_PART = lazy_pattern(
    rf"""(?<!\S)(?P<no>-?)(?P<key>{_PREFIXES}):(?P<value>"[^"\n]+"|[^\s"]+)(?!\S)"""
    r"""|(?<!\S)-(?P<word>"[^"\n]+"|[^\W\d_][\w][^\s"]*|[^\W\d_a-zA-Z])(?!\S)"""
    r"""|"[^"\n]*\""""
)
_MAX_WORDS = 30
"""The maximum number of words in a query with filters."""
_SHORT = 4
"""The maximum length of an excluded word that may be a command-line option, such as ``-av``."""


class QueryLine(NamedTuple):
    """The words in a query, its filters, and notes about ambiguous parts."""

    words: str
    filters: Filters = Filters()
    notes: tuple[str, ...] = ()


def parse(text: str) -> QueryLine:
    """Split a query into words and filters; a query without filters stays unchanged."""
    if (":" not in text and "-" not in text) or _is_pasted(text):
        return QueryLine(text)
    values: dict[str, list[str]] = {}
    unless: list[Filters] = []
    days: dict[str, datetime] = {}
    text_parts, notes, end = [], [], 0
    for part in _PART.finditer(text):
        value = part["word"] or (part["value"] or "").strip('"').strip()
        if not value:
            continue
        key = part["key"]
        if part["word"]:
            unless.append(Filters(containing=(value,)))
            notes += _notes_on_exclusion(value)
        elif key in ("since", "until"):
            if part["no"]:
                continue
            from memvault.recall import dates

            moment = dates.parse_moment(value, key == "until")
            if moment is None:
                notes.append(f"{value!r} is not a date, so {part[0]} was searched as words")
                continue
            days[key] = moment
        elif part["no"]:
            unless.append(_filters({key: [value]}))
        else:
            values.setdefault(key, []).append(value)
        text_parts.append(text[end : part.start()])
        end = part.end()
    if not end:
        return QueryLine(text, notes=tuple(notes))
    words = " ".join("".join([*text_parts, text[end:]]).split())
    filters = _filters(values)._replace(
        since=days.get("since"), until=days.get("until"), unless=tuple(unless)
    )
    return QueryLine(words, filters, tuple(notes))


def listing(line: QueryLine) -> Filters:
    """Return filters for a listing: the query's filters, and a filter on all of its words."""
    if not line.words.strip():
        return line.filters
    return line.filters._replace(containing=(line.words,))


def as_words(text: str) -> str:
    """Escape text that was not typed as a query, such as a prompt, so it contains no filters."""
    return _PART.sub(lambda part: part[0].replace(":", ": ").replace("-", " "), text)


def _is_pasted(text: str) -> bool:
    return "\n" in text.strip() or len(text.split(None, _MAX_WORDS)) > _MAX_WORDS


def _notes_on_exclusion(word: str) -> list[str]:
    """Return a note if an excluded word may have been meant as a command-line option."""
    if not word.isascii() or len(word) > _SHORT:
        return []
    note = f"-{word} excluded memories with the word {word!r}"
    return [f'{note}; to search for it, quote it: "-{word}"']


def _filters(values: Mapping[str, Sequence[str]]) -> Filters:
    types, tags, folders = (tuple(values.get(key, ())) for key in ("type", "tag", "in"))
    return Filters(types=types, tags=tags, folders=folders)
