"""Analyze text as search terms, the same way for memories and for queries.

A *chunk* is a run of word characters and of punctuation that occurs in identifiers (``src/app.py``,
``v1.2.3``, ``getUserName``, ``user@host``). Its parts become stemmed terms; the chunk itself
becomes a *whole* term, which is stored separately and never stemmed, unless the chunk equals its
only part. Scripts without spaces become single characters and overlapping pairs of characters.

A memory is stemmed in the language in which it is written (``languages``), and a query in every
language of its vault: a word in a query is a group of alternative stems.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from itertools import chain
from operator import add, itemgetter
from typing import TypeVar

from memvault.lazy_pattern import lazy_pattern
from memvault.model import Memory
from memvault.named_tuple import NamedTuple
from memvault.vault.names import normalize

VERSION = 6
"""Incremented when the terms of a text change, to rebuild existing indexes."""

_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
_MARKED = (  # combining marks, and scripts that use many of them; not matched by \\w
    "\u0300-\u036f\u0483-\u0487\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06ed"
    "\u0900-\u0963\u0966-\u0dff\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3099\u309a"
)
_WORD = f"[\\w{_MARKED}]"
_CHUNK = lazy_pattern(
    rf"{_WORD}+(?:(?:[./\\:@#&'’+-]+|(?<=[0-9]),(?=[0-9]{{3}}(?!\w))){_WORD}+)*(?:\+\+|#(?!\w))?"
    r"|[\u2190-\u2bff\U0001f000-\U0001faff]"
)
_BETWEEN = lazy_pattern(rf"(?:_|[^\w{_MARKED}])+")
_IDEOGRAPH = lazy_pattern("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_UNSPACED_RUN = lazy_pattern(f"[{_UNSPACED}]+")
_ONLY_UNSPACED = lazy_pattern(
    "[\u3041-\u3096\u30a1-\u30fa\u30fc\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3]+"
)
"""Matches a chunk that consists of common letters without spaces, which ``fold`` does not change.
"""
_ONLY_ASCII_WORD = lazy_pattern(r"[a-z]+|[A-Z][a-z]+|[0-9]+")
_CAMEL = lazy_pattern(r"[A-Z]+(?![^\WA-Z_])|[A-Z]?[^\WA-Z_]+|[^\W_]")
_MARKS = lazy_pattern(r"(?<![\u0400-\u04ff])[\u0300-\u036f]+")
_MAX_UNSPACED_WORD = 3
"""The maximum length of a word in a script without spaces; a longer run counts as several words."""
_CONTRACTION = lazy_pattern(r"['’](?:s$|(?=(?:t|re|ll|ve|d|m)$))")
_DIGIT = lazy_pattern(r"[0-9]")
_NUMBER = lazy_pattern(r"[0-9]+")
_GROUPED = lazy_pattern(
    r"([0-9]{1,3}(?:,[0-9]{3})+|[0-9]{1,3}(?:\.[0-9]{3})+|[0-9]{1,3}(?:['’][0-9]{3})+)(?:\.[0-9]+)?"
)
"""Matches a number with thousands separators, and ambiguous numbers such as 1.250."""
_UNITS = (
    "[kmgtp]i?b|[kmgt]?hz|[nmµμ]?s|min|[mk]?g|[kcm]?m|ml|l|k?wh?|m?v|m?ah?|px|pt|fps|rpm|db|"
    "[kmg]bps|eur|usd"
)
_UNIT = lazy_pattern(_UNITS, re.IGNORECASE)
_QUANTITY = lazy_pattern(rf"([0-9]+)(?:{_UNITS})", re.IGNORECASE)
_VERSION = lazy_pattern(r"([vV]?)([0-9]+)\.[0-9]")
_MAX_TERM_LENGTH = 80
_MAX_CACHED = 60_000
"""The maximum number of cached results."""
_LONGEST_CACHED = 100
"""The maximum length of cached keys, because a string without spaces is one chunk."""
_QUESTION_WORDS = frozenset(
    "what which who whom whose when where why how did does do is are was were can could would "
    "should will shall may might must has have had dont doesnt didnt cant wont im ive "
    "the a an of in on at to for from by with and or not no it its this that these those "
    "there i me my we our you your he she his her they "
    "them their be been being am as if so about into than then too very just also any some".split()
)

AUTO = "auto"
"""The setting that detects the language of each memory."""
DEFAULT_LANGUAGE = "english"
"""The fallback if no language is detected in the vault."""
_MAX_QUERY_LANGUAGES = 4
"""The maximum number of languages in which a query is analyzed."""
_ELISION = lazy_pattern(
    r"^(?:[cdjlmnst]|qu|jusqu|lorsqu|puisqu|quoiqu|un|all|dall|dell|nell|sull)['’](?=\w)"
    r"(?!(?:s|t|re|ll|ve|d|m)$)",  # a contraction, as in "all's"
    re.IGNORECASE,
)
_ELIDING_LANGUAGES = frozenset(("french", "italian"))
_UMLAUTS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue"})
_STROKES = str.maketrans(
    {"ı": "i", "ł": "l", "ø": "o", "đ": "d", "ð": "d", "ħ": "h", "þ": "th", "æ": "ae", "œ": "oe"}
)
"""Letters that Unicode does not decompose into a base letter and an accent."""
_SPELT_UMLAUT = lazy_pattern(r"(?<=[ao])e|(?<=(?<![aeq])u)e")


Forms = tuple[str, ...]
"""A word's alternative stems, the regular one first."""
Key = TypeVar("Key", bound="str | Forms")
Value = TypeVar("Value")


class AnalyzedToken(NamedTuple):
    """A chunk's words and its whole terms."""

    words: tuple[Forms, ...]
    wholes: tuple[str, ...]


class AnalyzedQuery(NamedTuple):
    """A query's distinct words, whole terms, and identifiers with digits, in order.

    A word is a group of alternative stems. An identifier, such as a version or an address, is given
    by the positions of its parts among the words, repetitions included.
    """

    words: list[tuple[str, ...]]
    wholes: list[str]
    identifiers: list[tuple[int, ...]]


class TermCounts(NamedTuple):
    """The number of occurrences of each stemmed and each whole term in a text."""

    stems: Counter[str]
    wholes: Counter[str]


class Terms(NamedTuple):
    """The stemmed terms and the whole terms of a text, in order."""

    stems: list[str]
    wholes: list[str]


def fold(text: str) -> str:
    """Lowercase and compatibility-normalize a text, and remove accents except in Cyrillic."""
    if text.isascii():
        return text.lower()
    apart = normalize("NFKD", text.casefold().translate(_STROKES))
    return normalize("NFC", _MARKS.sub("", apart)).replace("ё", "е").casefold()


def tokenize(text: str) -> list[str]:
    """Split a text into chunks after composing accents, so that "é" is the same in NFC and NFD."""
    return _CHUNK.findall(normalize("NFC", text))


class ChunkCache(dict[Key, Value]):
    """A cache of a function's results by chunk, word or stems, computed on first lookup.

    The chunks of a text can be looked up with ``map``, without a Python-level loop.
    """

    def __init__(self, compute: Callable[[Key], Value]) -> None:
        super().__init__()
        self._compute = compute

    def __missing__(self, key: Key) -> Value:
        value = self._compute(key)
        if len(key) <= _LONGEST_CACHED:
            if len(self) > _MAX_CACHED:
                self.clear()
            self[key] = value
        return value


class Analyzer:
    """An analyzer for text in one language, with a cache of analyzed chunks."""

    def __init__(self, language: str) -> None:
        self.language = language
        self.parts = ChunkCache(self._analyze_memory_token).__getitem__

    @cached_property
    def _stem(self) -> Callable[[str], str]:
        """Return a Snowball stemmer that cuts long words, because some take quadratic time."""
        if self.language == "none":
            return lambda word: word[:_MAX_TERM_LENGTH]
        from py_rust_stemmers import SnowballStemmer

        stem = SnowballStemmer(self.language).stem_word
        return lambda word: (
            word[:_MAX_TERM_LENGTH] if len(word) > _MAX_TERM_LENGTH else stem(word) or word
        )

    def terms(self, text: str) -> TermCounts:
        """Count the terms of a text."""
        return TermCounts(*map(Counter, self.list_terms(text)))

    def list_terms(self, text: str) -> Terms:
        """Return the terms of a text."""
        parts = [*map(self.parts, tokenize(text))]
        words = chain.from_iterable(map(itemgetter(0), parts))
        return Terms(
            [*chain.from_iterable(words)], [*chain.from_iterable(map(itemgetter(1), parts))]
        )

    def sequence(self, text: str) -> list[str]:
        """Return a text's stems in order, including stop words and repetitions."""
        return [forms[0] for forms in self.words(text)]

    def words(self, text: str) -> list[tuple[str, ...]]:
        """Return the stems of each word of a text, in order."""
        words: list[tuple[str, ...]] = []
        for chunk in tokenize(text):
            words += self.parts(chunk).words
        return words

    def content_stems(self, text: str) -> list[str]:
        """Return a text's distinct stems without stop words, possibly none."""
        return [stem for stem in dict.fromkeys(self.sequence(text)) if stem not in self.stop_stems]

    @cached_property
    def stop_stems(self) -> frozenset[str]:
        """Return the stems of the stop words."""
        return frozenset(self._stem(word) for word in stop_words(self.language))

    def analyze_query_token(self, chunk: str) -> AnalyzedToken:
        """Analyze a chunk of a query, including alternative spellings and always a whole term."""
        chunk = chunk.replace(",", "")  # a thousands separator
        parts = self._analyze(chunk, querying=True)
        return parts._replace(wholes=parts.wholes or (fold(chunk)[:_MAX_TERM_LENGTH],))

    def is_stop_word(self, chunk: str) -> bool:
        """Return whether a chunk of a query is a stop word."""
        if chunk[:2].lower() not in ("l'", "l’"):  # "l'été": summer, "été": been
            chunk = self.strip_elision(chunk)
        return fold(_CONTRACTION.sub("", chunk)) in stop_words(self.language)

    def strip_elision(self, chunk: str) -> str:
        """Return a chunk without an elided article, in languages that attach articles to words."""
        return _ELISION.sub("", chunk, count=1) if self.language in _ELIDING_LANGUAGES else chunk

    def _forms(self, word: str, querying: bool) -> Forms:
        """Return a word's stems, the regular one first.

        If the stem depends on accents, the stem of the unaccented word is also indexed. In German,
        a query may spell an umlaut differently from the memory.
        """
        folded = fold(word)
        if self.language in ("english", "none") or (word.isascii() and not querying):
            return (self._stem(folded),)
        spellings = [word.casefold()]
        if querying and self.language == "german":
            spellings += spellings[0].translate(_UMLAUTS), _SPELT_UMLAUT.sub("", folded)
        stems = (self._stem(way) for spelling in spellings for way in (spelling, fold(spelling)))
        return tuple(dict.fromkeys(fold(form)[:_MAX_TERM_LENGTH] for form in stems))

    def _analyze_memory_token(self, chunk: str) -> AnalyzedToken:
        """Analyze a chunk of a memory; add a number's form without thousands separators."""
        token = self._analyze(chunk)
        number = _GROUPED.fullmatch(chunk) if chunk[0].isdigit() else None
        if number is None:
            return token
        parts = _NUMBER.findall(number[1])
        last = len(parts) - 1
        words = (*token.words[:last], (parts[-1], "".join(parts)), *token.words[last + 1 :])
        return AnalyzedToken(words, (*token.wholes, _whole(number[0].replace(",", ""))))

    def _analyze(self, chunk: str, querying: bool = False) -> AnalyzedToken:
        if _ONLY_ASCII_WORD.fullmatch(chunk):
            return AnalyzedToken((self._forms(chunk, querying),), ())
        if not chunk.isascii() and _ONLY_UNSPACED.fullmatch(chunk):
            return AnalyzedToken(tuple(map(_single, _pairs(chunk, querying))), ())
        if "'" in chunk or "’" in chunk:
            chunk = _CONTRACTION.sub("", chunk)
        groups: list[Forms] = []
        wholes: list[str] = []
        for segment in re.split(r"[/\\]+", chunk) if "/" in chunk or "\\" in chunk else (chunk,):
            words = [word for word in _BETWEEN.split(segment) if word]
            for word in words:
                groups += self._word_groups(word, wholes, querying)
            if len(words) > 1:
                wholes.append(_whole(segment))
        if len(groups) > 1 or not chunk.isalnum():
            wholes.append(_whole(chunk))
        if not chunk.isascii():
            wholes = [whole for whole in wholes if not any(_unspaced_runs(whole))]
        return AnalyzedToken(tuple(groups), tuple(dict.fromkeys(wholes)))

    def _word_groups(self, word: str, wholes: list[str], querying: bool) -> list[Forms]:
        groups: list[Forms] = []
        position = 0
        for run in _unspaced_runs(word):
            if run.start() > position:
                groups += self._word_groups(word[position : run.start()], wholes, querying)
            groups += map(_single, _pairs(fold(run[0]), querying))
            position = run.end()
        rest = word[position:]
        if not rest:
            return groups
        parts = _CAMEL.findall(rest)
        if len(parts) > 1 and not rest.isupper():
            wholes.append(_whole(rest))
        else:
            parts = [rest]
        return [*groups, *(self._forms(part, querying) for part in parts)]


_single: Callable[[str], Forms] = ChunkCache[str, Forms](lambda term: (term,)).__getitem__
"""Return a term as the only form of a word; the same object for each use saves memory."""


class QueryAnalyzer:
    """An analyzer for queries in each language of a vault."""

    def __init__(self, languages: Sequence[str]) -> None:
        self._analyzers = [analyzer(language) for language in languages]
        is_english_possible = DEFAULT_LANGUAGE in languages or languages[0] == "none"
        others = [] if is_english_possible else [analyzer(DEFAULT_LANGUAGE)]
        self._possible = [*self._analyzers, *others]

    def query(self, text: str) -> AnalyzedQuery:
        """Analyze a query without its stop words, unless it has no other words.

        The first stem of a word is in the vault's main language.
        """
        chunks = tokenize(text)
        main = self.analyzer_for(text)
        content = [main.strip_elision(chunk) for chunk in chunks if not main.is_stop_word(chunk)]
        forms_by_word: dict[str, tuple[str, ...]] = {}
        wholes: list[str] = []
        identifiers: list[list[str]] = []
        asked = content or chunks
        for previous, chunk, following in zip(["", *asked], asked, [*asked[1:], ""], strict=False):
            analyzed = [analyzer.analyze_query_token(chunk) for analyzer in self._analyzers]
            wholes += analyzed[0].wholes
            names: list[str] = []
            for number, forms in enumerate(zip(*(parts.words for parts in analyzed), strict=True)):
                others = () if number else _spellings(chunk, previous, following)
                group = tuple(dict.fromkeys(chain(*forms, others)))
                names.append(group[0])
                forms_by_word.setdefault(group[0], group)
            if len(names) > 1 and _DIGIT.search(chunk):
                identifiers.append(names)
        positions = {name: position for position, name in enumerate(forms_by_word)}
        numbered = (tuple(positions[name] for name in names) for names in identifiers)
        return AnalyzedQuery(
            list(forms_by_word.values()), list(dict.fromkeys(wholes)), list(dict.fromkeys(numbered))
        )

    def has_content(self, text: str) -> bool:
        """Return whether a query has a word that is not a stop word."""
        main = self.analyzer_for(text)
        return not all(main.is_stop_word(chunk) for chunk in tokenize(text))

    def analyzer_for(self, text: str) -> Analyzer:
        """Return the analyzer for a query's language.

        Among English and the memories' languages, it is the one with the most stop words and
        elisions in the query. A tie goes to the language that is more frequent among the memories.
        """
        chunks = tokenize(text) if len(self._possible) > 1 else []
        return max(
            self._possible,
            key=lambda analyzer: sum(
                analyzer.is_stop_word(chunk) or analyzer.strip_elision(chunk) != chunk
                for chunk in chunks
            ),
        )


def _spellings(chunk: str, previous: str, following: str) -> Iterator[str]:
    """Yield other spellings of the start of a chunk, such as ``16gb`` for 16 GB and ``v4`` for 4.1.

    ``previous`` and ``following`` are the chunks before and after it.
    """
    if _NUMBER.fullmatch(chunk) and _UNIT.fullmatch(following):
        yield fold(chunk + following)
    elif _NUMBER.fullmatch(previous) and _UNIT.fullmatch(chunk):
        yield fold(previous + chunk)
    elif chunk[:1].isdigit() and (quantity := _QUANTITY.fullmatch(chunk)):
        yield quantity[1]
    elif version := _VERSION.match(chunk):
        yield version[2] if version[1] else f"v{version[2]}"


def _unspaced_runs(text: str) -> Iterable[re.Match[str]]:
    """Return the parts of a text in scripts without spaces between words."""
    return () if text.isascii() else _UNSPACED_RUN.finditer(text)


def _whole(text: str) -> str:
    return fold(text)[:_MAX_TERM_LENGTH].replace("’", "'")


def _pairs(run: str, querying: bool) -> Iterable[str]:
    """Return overlapping pairs of characters, and for memories also single characters."""
    pairs = map(add, run, run[1:])
    return pairs if querying and len(run) > 1 else chain(run, pairs)


def ideographs(text: str) -> list[str]:
    """Return a query's distinct ideographs if it contains a run of ideographs longer than a word.

    Single characters are needed because a query phrased differently from the memory often shares no
    character pair with it.
    """
    found = (match[0] for match in _unspaced_runs(fold(text)))
    runs = (run for run in found if len(run) > _MAX_UNSPACED_WORD)
    return list(dict.fromkeys(ideograph for run in runs for ideograph in _IDEOGRAPH.findall(run)))


@cache
def analyzer(language: str) -> Analyzer:
    """Return the shared analyzer of a language."""
    return Analyzer(language)


@cache
def query_analyzer(languages: tuple[str, ...]) -> QueryAnalyzer:
    """Return the shared query analyzer for these languages."""
    return QueryAnalyzer(languages)


@cache
def stop_words(language: str) -> frozenset[str]:
    """Return the stop words of a language, folded."""
    if language == "english":
        return _QUESTION_WORDS
    from memvault.index.text.languages import common_words

    return frozenset(fold(word) for word in common_words(language))


def query_languages(setting: str, language_counts: Mapping[str, int]) -> tuple[str, ...]:
    """Return the languages in which a query is analyzed, most frequent first."""
    if setting != AUTO:
        return (setting,)
    ranked: Sequence[str] = sorted(
        language_counts, key=lambda name: (-language_counts[name], name != DEFAULT_LANGUAGE, name)
    )
    return tuple(ranked[:_MAX_QUERY_LANGUAGES]) or (DEFAULT_LANGUAGE,)


def detect_languages(
    setting: str, memories: Sequence[Memory], language_counts: Mapping[str, int]
) -> list[str]:
    """Return the language of each memory to index.

    Memories with an undetected language are assigned the main language.
    """
    detected = detect_each(setting, memories)
    main = main_language(setting, detected, language_counts)
    return [language or main for language in detected]


def detect_each(setting: str, memories: Sequence[Memory]) -> list[str]:
    """Return the language of each memory, empty if it cannot be detected.

    ``setting`` is the vault's setting. With ``auto``, memories in scripts without stemmers have the
    language ``none``.
    """
    if setting != AUTO:
        return [setting for _ in memories]
    from memvault.index.text.languages import detect_language, is_in_other_script

    texts = (f"{memory.title}\n{memory.body}" for memory in memories)
    return ["none" if is_in_other_script(text) else detect_language(text) for text in texts]


def main_language(setting: str, detected: Iterable[str], language_counts: Mapping[str, int]) -> str:
    """Return the most frequent language in ``detected`` and ``language_counts`` together."""
    votes = Counter(language for language in detected if language) + Counter(language_counts)
    return query_languages(setting, votes)[0]
