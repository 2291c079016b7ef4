"""A question's text to what the indexes are asked: terms, phrases, and nothing else.

There is no query syntax to get wrong: quotes around words ask for that phrase,
everything else is words. A long question that only quotes something in passing
asks for its words.
"""

from __future__ import annotations

import re
from itertools import chain, islice
from typing import NamedTuple

from memvault.index.text.analysis import QueryAnalyser, fold, ideographs

_PHRASE = re.compile(r'"([^"]+)"|“([^“”]+)”|„([^„“”]+)[“”]|«([^«»]+)»')
_SPACE = re.compile(r"\s+")
_LONGEST = 4_000
_MOST_PHRASES = 20
_MOST_HINTS = 100
_PASSING = 3
"""How many times as many words as its phrases a query must have for them to be only words."""


class Query(NamedTuple):
    """The words to look for, and phrases that must be in the text as they are.

    A word is a group of stems, one for each way in which a memory may have it; it
    goes by the first. ``ideographs`` help to find memories, and are no words.
    ``language`` is that of the text, as far as a vault's languages tell.
    """

    text: str
    language: str
    words: list[tuple[str, ...]]
    wholes: list[str]
    phrases: tuple[str, ...]
    ideographs: tuple[str, ...]

    @property
    def is_empty(self) -> bool:
        """Say whether there is nothing in it to look for."""
        return not self.words and not self.wholes

    def hint(self) -> re.Pattern[str]:
        """Return a pattern that finds beginnings of the query's words, and some that are not."""
        terms = (*chain.from_iterable(self.words), *self.wholes)
        stems = (re.escape(stem[: max(3, len(stem) - 1)]) for stem in terms)
        distinct = islice(dict.fromkeys(stems), _MOST_HINTS)
        return re.compile("|".join(distinct) or r"(?!)", re.IGNORECASE)

    @property
    def search_groups(self) -> list[tuple[str, ...]]:
        """Return the groups of stems that the index is searched for."""
        return [*self.words, *((one,) for one in self.ideographs if (one,) not in self.words)]

    def term_names(self) -> dict[str, str]:
        """Return by each stem that a memory may have the word that it is of."""
        return {stem: word[0] for word in reversed(self.words) for stem in reversed(word)}

    def has_phrases(self, text: str) -> bool:
        """Say whether a text holds every phrase, spelling and spaces folded."""
        if not self.phrases:
            return True
        folded = normal(text)
        return all(phrase in folded for phrase in self.phrases)


def parse(text: str, analyser: QueryAnalyser) -> Query:
    """Read a query."""
    shown = plain(text)
    words, wholes = analyser.query(shown)
    quoted = [match[match.lastindex or 0] for match in _PHRASE.finditer(shown)]
    phrases = tuple(phrase for phrase in (normal(entry) for entry in quoted) if phrase)
    if len(shown.split()) > _PASSING * sum(len(phrase.split()) for phrase in phrases):
        phrases = ()
    phrases = tuple(islice(dict.fromkeys(phrases), _MOST_PHRASES))
    language = analyser.analyser_for(shown).language
    return Query(shown, language, words, wholes, phrases, tuple(ideographs(shown)))


def plain(text: str) -> str:
    """Return what counts of a query: of one longer than a page only the beginning."""
    return text.encode("utf-8", "replace").decode().strip()[:_LONGEST]


def normal(text: str) -> str:
    """Fold a text's letters and white space for comparing phrases."""
    return _SPACE.sub(" ", fold(text)).strip()
