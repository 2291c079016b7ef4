"""Which language a memory is written in, told by its commonest words and by its letters.

Whoosh brings Snowball's lists of the commonest words of fourteen languages. A
text in one of them holds several within two sentences, and hardly any of
another; code and names hold none, so that nothing is guessed of them.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import cache

from memvault.index.analysis import AUTO, LISTED, common_words, in_use
from memvault.model import Memory
from memvault.vault.normal_form import normal_form

_LETTERS = {
    "arabic": "أإة",
    "danish": "åæø",
    "finnish": "äö",
    "french": "àâçèéêëîïôùûœ",
    "german": "äöüß",
    "greek": "άέήίόύώς",
    "hungarian": "áéíóöőúüű",
    "italian": "àèéìòù",
    "norwegian": "åæø",
    "portuguese": "áâãçéêíóôõú",
    "romanian": "ăâîșşțţ",
    "russian": "ёыэ",
    "spanish": "áéíñóú",
    "swedish": "åäö",
    "tamil": "\u0b85\u0b95\u0bbe\u0bbf\u0bc1\u0bc8\u0bcd",
    "turkish": "çğıöşü",
}
"""Letters that English has not, and in a script of several languages those that tell one."""
_WORD = re.compile(r"[\u0b80-\u0bff]+|[^\W\d_]{2,}")
_SAMPLE = 4_000
"""Characters of a memory that are looked at."""
_LEAST = 2
_SHARE = 0.1
"""Of a text's different words, how many must speak for its language: code has few by chance."""


@cache
def _speaking() -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """Return for which languages each common word speaks, and each letter."""
    words: dict[str, set[str]] = defaultdict(set)
    for language in LISTED:
        for word in common_words(language):
            words[word].add(language)
    letters: dict[str, set[str]] = defaultdict(set)
    for language, own in _LETTERS.items():
        for letter in own:
            letters[letter].add(language)
    return dict(words), dict(letters)


def detected(text: str) -> str:
    """Return the language that a text is written in; empty where it does not tell."""
    common, letters = _speaking()
    votes: Counter[str] = Counter()
    words = set(_WORD.findall(normal_form("NFC", text[:_SAMPLE].lower())))
    for word in words:
        votes.update(common.get(word, ()))
        if not word.isascii():
            votes.update(set().union(*(letters.get(letter, ()) for letter in word)))
    ranked = votes.most_common(2)
    if not ranked or ranked[0][1] < max(_LEAST, _SHARE * len(words)):
        return ""
    return "" if len(ranked) > 1 and ranked[0][1] == ranked[1][1] else ranked[0][0]


def languages_of(setting: str, memories: Sequence[Memory], known: Mapping[str, int]) -> list[str]:
    """Return the language of each of some memories that are to be indexed.

    ``setting`` is the vault's; with ``auto`` a memory that does not tell is taken
    for what most are: of these, and of those that are ``known``.
    """
    if setting != AUTO:
        return [setting for _ in memories]
    found = [detected(f"{memory.title}\n{memory.body[:_SAMPLE]}") for memory in memories]
    votes = Counter(language for language in found if language) + Counter(known)
    main = in_use(setting, votes)[0]
    return [language or main for language in found]
