"""Text to search terms, the same way for memories and for queries.

A *chunk* is a run of word characters with the joints that identifiers have
inside (``src/app.py``, ``v1.2.3``, ``getUserName``, ``user@host``). Its parts
become stemmed terms; the chunk itself, where it is more than its only part,
becomes a *whole* term, kept apart and never stemmed. Scripts without spaces
become single characters and overlapping pairs.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache, cached_property
from typing import NamedTuple

from memvault.vault.normal_form import normal_form

VERSION = 3
"""Raised whenever the same text gives other terms, so that old indexes are made anew."""

_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
_MARKED = (  # combining marks and scripts full of them, which \\w leaves out
    "\u0300-\u036f\u0483-\u0487\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06ed"
    "\u0900-\u0963\u0966-\u0dff\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3099\u309a"
)
_WORD = f"[\\w{_MARKED}]"
_CHUNK = re.compile(
    rf"{_WORD}+(?:[./\\:@#&'’+-]+{_WORD}+)*(?:\+\+|#(?!\w))?"
    r"|[\u2190-\u2bff\U0001f000-\U0001faff]"
)
_BETWEEN = re.compile(rf"(?:_|[^\w{_MARKED}])+")
_UNSPACED_RUN = re.compile(f"[{_UNSPACED}]+")
_ONLY_ASCII_WORD = re.compile(r"[a-z]+|[A-Z][a-z]+|[0-9]+")
_CAMEL = re.compile(r"[A-Z]+(?![^\WA-Z_])|[A-Z]?[^\WA-Z_]+|[^\W_]")
_MARKS = re.compile(r"(?<![\u0400-\u04ff])[\u0300-\u036f]+")
_CONTRACTION = re.compile(r"['’](?:s$|(?=(?:t|re|ll|ve|d|m)$))")
_MAX_TERM = 80
_MAX_CACHED = 300_000
_LONGEST_CACHED = 100
"""Characters of what is remembered at most: text without blanks is one chunk of any length."""
_QUESTION_WORDS = frozenset(
    "what which who whom whose when where why how did does do is are was were can could would "
    "should will shall may might must has have had dont doesnt didnt cant wont im ive "
    "the a an of in on at to for from by with and or not no it its this that these those "
    "there i me my we our you your he she his her they "
    "them their be been being am as if so about into than then too very just also any some".split()
)

_CODES = {
    "german": "de",
    "spanish": "es",
    "swedish": "sv",
    "dutch": "nl",
    "portuguese": "pt",
    "turkish": "tr",
}
"""Whoosh's codes of languages whose names begin otherwise."""

Parts = tuple[tuple[str, ...], tuple[str, ...]]


class Terms(NamedTuple):
    """How often each stemmed and each whole term occurs in a text."""

    stems: Counter[str]
    wholes: Counter[str]


def fold(text: str) -> str:
    """Lower-case, compatibility-normalise and take accents off (not off Cyrillic letters)."""
    if text.isascii():
        return text.lower()
    apart = normal_form("NFKD", text.casefold())
    return normal_form("NFC", _MARKS.sub("", apart)).replace("ё", "е").casefold()


def _chunks(text: str) -> list[str]:
    """Cut a text into chunks, its accents composed, as both spellings are one."""
    return _CHUNK.findall(normal_form("NFC", text))


class Analyser:
    """Text to terms in one language; keeps what it has learned of each chunk."""

    def __init__(self, language: str) -> None:
        self.language = language
        self._known: dict[str, Parts] = {}

    @cached_property
    def _stem(self) -> Callable[[str], str]:
        """A Snowball stemmer, whose time grows with the square of some words' length."""
        if self.language == "none":
            return lambda word: word[:_MAX_TERM]
        from py_rust_stemmers import SnowballStemmer

        stem = SnowballStemmer(self.language).stem_word
        return lambda word: word[:_MAX_TERM] if len(word) > _MAX_TERM else stem(word) or word

    def terms(self, text: str) -> Terms:
        """Count the terms of a text."""
        stems: list[str] = []
        wholes: list[str] = []
        for chunk in _chunks(text):
            parts = self._parts(chunk)
            stems += parts[0]
            wholes += parts[1]
        return Terms(Counter(stems), Counter(wholes))

    def sequence(self, text: str) -> list[str]:
        """Return a text's stems in their order, stop words and repeats among them."""
        stems: list[str] = []
        for chunk in _chunks(text):
            stems += self._parts(chunk)[0]
        return stems

    def _parts(self, chunk: str) -> Parts:
        """Analyse a chunk of a text, or remember what came of it."""
        parts = self._known.get(chunk)
        if parts is None:
            parts = self._analyse(chunk)
            if len(chunk) <= _LONGEST_CACHED:
                if len(self._known) > _MAX_CACHED:
                    self._known.clear()
                self._known[chunk] = parts
        return parts

    def telling(self, text: str) -> list[str]:
        """Return a text's distinct stems without stop words; none where nothing else is in it."""
        return [stem for stem in dict.fromkeys(self.sequence(text)) if stem not in self.stop_stems]

    @cached_property
    def stop_stems(self) -> frozenset[str]:
        """The stems of the words that say nothing in a query."""
        return frozenset(self._stem(word) for word in stop_words(self.language))

    def query(self, text: str) -> tuple[list[str], list[str]]:
        """Return a query's distinct stems and wholes, in order, without stop words.

        Where nothing but stop words is left, they stay. A plain word is looked
        for as a whole too, since it may be a part-less spelling of an identifier.
        """
        chunks = _chunks(text)
        stops = stop_words(self.language)
        telling = [chunk for chunk in chunks if fold(_CONTRACTION.sub("", chunk)) not in stops]
        stems: list[str] = []
        wholes: list[str] = []
        for chunk in telling or chunks:
            own_stems, own_wholes = self._analyse(chunk, querying=True)
            stems += own_stems
            wholes += own_wholes or (fold(chunk)[:_MAX_TERM],)
        return list(dict.fromkeys(stems)), list(dict.fromkeys(wholes))

    def _analyse(self, chunk: str, querying: bool = False) -> Parts:
        if _ONLY_ASCII_WORD.fullmatch(chunk):
            return (self._stem(chunk.lower()),), ()
        chunk = _CONTRACTION.sub("", chunk)
        stems: list[str] = []
        wholes: list[str] = []
        for segment in re.split(r"[/\\]+", chunk):
            words = [word for word in _BETWEEN.split(segment) if word]
            for word in words:
                stems += self._word(word, wholes, querying)
            if len(words) > 1:
                wholes.append(fold(segment)[:_MAX_TERM])
        if len(stems) > 1 or not chunk.isalnum():
            wholes.append(fold(chunk)[:_MAX_TERM])
        spaced = (whole for whole in wholes if not _UNSPACED_RUN.search(whole))
        return tuple(stems), tuple(dict.fromkeys(spaced))

    def _word(self, word: str, wholes: list[str], querying: bool) -> Iterable[str]:
        position = 0
        for run in _UNSPACED_RUN.finditer(word):
            if run.start() > position:
                yield from self._word(word[position : run.start()], wholes, querying)
            yield from _pairs(fold(run[0]), querying)
            position = run.end()
        rest = word[position:]
        if not rest:
            return
        parts = _CAMEL.findall(rest)
        if len(parts) > 1 and not rest.isupper():
            wholes.append(fold(rest)[:_MAX_TERM])
            yield from (self._stem(fold(part)) for part in parts)
        else:
            yield self._stem(fold(rest))


def _pairs(run: str, querying: bool) -> Iterable[str]:
    """Yield overlapping pairs; single characters too where memories are indexed."""
    if not querying or len(run) == 1:
        yield from run
    yield from (run[place : place + 2] for place in range(len(run) - 1))


@cache
def analyser(language: str) -> Analyser:
    """Return the process's one analyser of a language."""
    return Analyser(language)


@cache
def stop_words(language: str) -> frozenset[str]:
    """Return the words that say nothing in a query, folded."""
    if language == "english":
        return _QUESTION_WORDS
    from whoosh.lang import languages
    from whoosh.lang.stopwords import stoplists

    code = next((code for code in languages if code == language[:2]), "")
    words: Iterable[str] = stoplists.get(_CODES.get(language, code), ())
    return frozenset(fold(word) for word in words)
