"""Parse a query's text into the terms and phrases to search for.

Every string is a valid query: quotation marks request an exact phrase, and everything else is a
list of words. Quotation marks around a short part of a long query are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain, islice

from memvault.index.text.analyzer import QueryAnalyzer, fold, ideographs
from memvault.lazy_pattern import lazy_pattern
from memvault.named_tuple import NamedTuple

_PHRASE = lazy_pattern(r'"([^"]+)"|“([^“”]+)”|„([^„“”]+)[“”]|«([^«»]+)»')
_SPACE = lazy_pattern(r"\s+")
_MAX_LENGTH = 4_000
_MAX_PHRASES = 20
_MAX_HINTS = 100
_INCIDENTAL_RATIO = 3
"""Phrases are searched as plain words if the query is at least this many times as long as they are.
"""


class Query(NamedTuple):
    """The words to search for, and phrases that the text must contain literally.

    A word is a group of stems, one for each form that a memory may contain; the first stem is its
    name. ``ideographs`` contains additional search terms, which do not count as words. ``language``
    is the language of the text, chosen from the vault's languages. ``has_content`` is false if all
    words are stop words, or there are none. ``identifiers`` has the same meaning as in
    ``AnalyzedQuery``.
    """

    text: str
    language: str
    words: list[tuple[str, ...]]
    wholes: list[str]
    phrases: tuple[str, ...]
    ideographs: tuple[str, ...]
    has_content: bool = True
    identifiers: Sequence[tuple[int, ...]] = ()

    @property
    def is_empty(self) -> bool:
        """Return whether there is nothing to search for."""
        return not self.words and not self.wholes

    @property
    def is_vague(self) -> bool:
        """Return whether there is nothing to search for but stop words."""
        return not self.has_content and not (self.is_empty and self.phrases)

    def hint(self) -> re.Pattern[str]:
        """Return a pattern that matches the query's words or at least their beginnings."""
        terms = (*chain.from_iterable(self.words), *self.wholes)
        stems = (re.escape(stem[: max(3, len(stem) - 1)]) for stem in terms)
        distinct = islice(dict.fromkeys(stems), _MAX_HINTS)
        return re.compile("|".join(distinct) or r"(?!)", re.IGNORECASE)

    @property
    def search_groups(self) -> list[tuple[str, ...]]:
        """Return the groups of stems to search for in the index."""
        return [
            *self.words,
            *((ideograph,) for ideograph in self.ideographs if (ideograph,) not in self.words),
        ]

    def term_names(self) -> dict[str, str]:
        """Map each stem to its word's first stem, which identifies the word when counting words."""
        return {stem: word[0] for word in reversed(self.words) for stem in reversed(word)}

    def has_phrases(self, text: str) -> bool:
        """Return whether a string contains every phrase, ignoring accents, case and white space."""
        if not self.phrases:
            return True
        folded = normal(text)
        return all(phrase in folded for phrase in self.phrases)


def parse(text: str, analyzer: QueryAnalyzer) -> Query:
    """Parse a query."""
    cleaned = plain(text)
    words, wholes, identifiers = analyzer.query(cleaned)
    quoted = [match[match.lastindex or 0] for match in _PHRASE.finditer(cleaned)]
    phrases = tuple(phrase for phrase in (normal(entry) for entry in quoted) if phrase)
    if len(cleaned.split()) > _INCIDENTAL_RATIO * sum(len(phrase.split()) for phrase in phrases):
        phrases = ()
    phrases = tuple(islice(dict.fromkeys(phrases), _MAX_PHRASES))
    language = analyzer.analyzer_for(cleaned).language
    has_content = analyzer.has_content(cleaned)
    return Query(
        cleaned,
        language,
        words,
        wholes,
        phrases,
        tuple(ideographs(cleaned)),
        has_content,
        identifiers,
    )


def plain(text: str) -> str:
    """Return a query without surrounding white space, cut to the maximum length."""
    return text.encode("utf-8", "replace").decode().strip()[:_MAX_LENGTH]


def normal(text: str) -> str:
    """Return text with letters and white space normalized, for comparing phrases."""
    return _SPACE.sub(" ", fold(text)).strip()
