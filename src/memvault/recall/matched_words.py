"""Find the words of a text that match a query's words, to highlight them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from memvault.index.text.analyzer import DEFAULT_LANGUAGE, Analyzer, fold

_WORD = re.compile(r"\w+")
_MIN_LETTERS = 3
"""Minimum length of words that match even if their endings differ."""
_MAX_ENDING = 3
"""Maximum number of final letters in which a word may differ from the query's word."""


def query_terms(query: str) -> list[str]:
    """Return the distinct case-folded words in a query, without stop words if others remain."""
    analyzer = Analyzer(DEFAULT_LANGUAGE)
    terms = _WORD.findall(query)
    significant = [word for word in terms if not analyzer.is_stop_word(word)]
    return list(dict.fromkeys(map(fold, significant or terms)))


def marked_pieces(text: str, terms: list[str]) -> Iterator[tuple[str, bool]]:
    """Split a text into pieces, each with whether it is a word that matches one of the terms."""
    position = 0
    for match in _WORD.finditer(text) if terms else ():
        word = fold(match[0])
        if any(_matches(word, term) for term in terms):
            if position < match.start():
                yield text[position : match.start()], False
            yield match[0], True
            position = match.end()
    if position < len(text):
        yield text[position:], False


def _matches(word: str, term: str) -> bool:
    """Return whether two words are equal except for their endings.

    In scripts without spaces between words, the word may also contain the term.
    """
    stem = max(_MIN_LETTERS + 1, len(term) - _MAX_ENDING)
    same = word[:stem] == term[:stem] and len(word) >= _MIN_LETTERS
    unspaced = not word.isascii() and len(term) > 1 and term in word
    return word == term or unspaced or (same and abs(len(word) - len(term)) <= _MAX_ENDING)
