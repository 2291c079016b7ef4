"""Detect the language of a memory by its stop words and by its letters.

Whoosh includes Snowball's stop-word lists for fourteen languages. Two sentences in one of these
languages contain several of its stop words, and few of another language's. Code and names contain
almost no stop words, so no language is detected for them. Languages without a stemmer, such as
Chinese or Polish, are detected by their letters and count as ``none``.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import cache
from itertools import chain

from memvault.lazy_pattern import lazy_pattern
from memvault.vault.names import normalize

_CODES = {
    "danish": "da",
    "dutch": "nl",
    "english": "en",
    "finnish": "fi",
    "french": "fr",
    "german": "de",
    "hungarian": "hu",
    "italian": "it",
    "norwegian": "no",
    "portuguese": "pt",
    "russian": "ru",
    "spanish": "es",
    "swedish": "sv",
    "turkish": "tr",
}
"""Languages with a Whoosh stop-word list, and their codes."""
_ROMANIAN = (
    "acest această acestea ai al ale aș că cel cea cele cei cu după dacă dar de din este fără fi "
    "fiind fost în într la mai nici nu pe pentru poate prin sau să se sunt și trebuie unei unui va "
    "vor"
).split()
_INTERROGATIVES = {
    "danish": "hvem hvornår hvorfor hvordan hvilken hvilke hvilket uden ud igen blive "
    "gøre gør lige gennem mellem indtil måske ingen kunne",
    "dutch": "waar wanneer waarom welke welk hoeveel",
    "finnish": "milloin miten kuinka",
    "french": "quoi quel quelle quels quelles où quand pourquoi combien lequel laquelle",
    "german": "wer wen wem wessen wann warum wieso weshalb womit wofür woran worauf woher wohin "
    "wieviel wieviele gibt",
    "hungarian": "hol melyik mennyi hány",
    "italian": "cosa quali quando",
    "portuguese": "quais quanto quanta quantos quantas onde porque",
    "russian": "почему сколько",
    "spanish": "cuál cuáles quién quiénes cuándo cuánto cuánta cuántos cuántas dónde cómo",
    "turkish": "hangi kaç",
}
"""Interrogatives missing from Whoosh's lists, and words that distinguish Danish and Norwegian."""
_LETTERS = {
    "arabic": "أإة",
    "danish": "åæø",
    "finnish": "äö",
    "french": "àâçèéêëîïôùûœ",
    "german": "äöüß",
    "greek": "άέήίόύώς",
    "hungarian": "áéíóöőúüű",
    "italian": "àèéìòù",
    "none": "ąćęłńśźżіїєґ",
    "norwegian": "åæø",
    "portuguese": "áâãçéêíóôõú",
    "romanian": "ăâîșşțţ",
    "russian": "ёыэ",
    "spanish": "áéíñóú",
    "swedish": "åäö",
    "tamil": "\u0b85\u0b95\u0bbe\u0bbf\u0bc1\u0bc8\u0bcd",
    "turkish": "çğıöşü",
}
"""Letters that do not occur in English; for languages that share a script, only the letters
specific to one of them. The letters of ``none`` are Polish and Ukrainian.
"""
_NOT_STEMMED = lazy_pattern(
    r"[\u0590-\u05ff\u0900-\u0b7f\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]"
)
"""Letters of scripts without stemmers, such as Chinese, Korean and Hindi."""
_MIN_NOT_STEMMED = 0.3
"""The minimum share of these letters among a text's letters; the other letters are mostly in
names.
"""
_WORD = lazy_pattern(r"[\u0b80-\u0bff]+|[^\W\d_]+")
_SPACES = {number: " " for number in range(128) if not chr(number).isalpha()}
"""A table that replaces non-letters with spaces; for ASCII text it is five times as fast as a
pattern.
"""
_SAMPLE_LENGTH = 2_000
"""The number of characters of a memory that are examined."""
_MIN_VOTES = 2
_MIN_SHARE = 0.1
"""The minimum share of a text's distinct words that must indicate the language; code contains a few
such words by chance.
"""


@cache
def common_words(language: str) -> frozenset[str]:
    """Return a language's stop words in lower case; empty if there is no list."""
    if language == "romanian":
        return frozenset(_ROMANIAN)
    if language not in _CODES:
        return frozenset()
    from whoosh.lang.stopwords import stoplists

    listed = (*stoplists[_CODES[language]], *_INTERROGATIVES.get(language, "").split())
    return frozenset(word.lower() for word in listed)


@cache
def _languages_by_clue() -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """Map each stop word, and each letter, to the languages it indicates."""
    languages_by_word: dict[str, set[str]] = defaultdict(set)
    for language in (*_CODES, "romanian"):
        for word in common_words(language):
            if len(word) > 1:  # single letters are often variable names
                languages_by_word[word].add(language)
    letters: dict[str, set[str]] = defaultdict(set)
    for language, special in _LETTERS.items():
        for letter in special:
            letters[letter].add(language)
    return dict(languages_by_word), dict(letters)


def is_in_other_script(text: str) -> bool:
    """Return whether a text is written in a script without a stemmer."""
    sample = text[:_SAMPLE_LENGTH]
    if sample.isascii():
        return False
    letters = sum(map(str.isalpha, sample))
    return len(_NOT_STEMMED.findall(sample)) > _MIN_NOT_STEMMED * letters


def detect_language(text: str) -> str:
    """Return a text's language, or an empty string if it cannot be detected.

    Polish and Ukrainian texts, which have no stemmer, have the language ``none``.
    """
    common, letters = _languages_by_clue()
    sample = normalize("NFC", text[:_SAMPLE_LENGTH].lower())
    is_plain = sample.isascii()
    words = set(sample.translate(_SPACES).split() if is_plain else _WORD.findall(sample))
    votes = Counter(chain.from_iterable(map(common.__getitem__, words & common.keys())))
    for word in () if is_plain else words:
        votes.update(set().union(*(letters.get(letter, ()) for letter in word)))
    ranked = votes.most_common(2)
    if not ranked or ranked[0][1] < max(_MIN_VOTES, _MIN_SHARE * len(words)):
        return ""
    return "" if len(ranked) > 1 and ranked[0][1] == ranked[1][1] else ranked[0][0]
