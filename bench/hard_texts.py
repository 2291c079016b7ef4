"""Generate texts that are hard for a regular expression, derived from the expression itself."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from itertools import product

# This is the internal parser of re: there is no public one, and typeshed omits it.
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, NamedTuple

__all__ = ["Hard", "hard_texts"]

_TAILS = ("", "\0", "\n", " \n!")
_EVERYWHERE = (" ", "\n", "\t", "a", "A", "0", ".", "\r\n", "\r")
_CATEGORIES = {
    codes.CATEGORY_DIGIT: "0",
    codes.CATEGORY_NOT_DIGIT: "a",
    codes.CATEGORY_SPACE: " ",
    codes.CATEGORY_NOT_SPACE: "a",
    codes.CATEGORY_WORD: "a",
    codes.CATEGORY_NOT_WORD: "-",
}
_OUTSIDE = "a A0-.\n#x\"'<"
_HAND_PICKED = (
    "<<<<<<< a\n",
    "=======\n",
    "<<<<<<< a\n=======\n",
    "< ",
    "<\n",
    "< / ",
    '"',
    "“",
    "„",
    "«",
    "`",
    "``",
    "a.",
    "a_",
    "aA",
    "A0",
    "0.",
    "1 ",
    "is ",
    "a is ",
    "a = ",
    "a is now the ",
    "a://",
    "between ",
    "from ",
    "in may ",
    "early ",
    "1 of ",
    "and ",
    "--",
    "*",
    "_",
    "- ",
    "> ",
    "#",
    "# ",
    "1. ",
    "1. a ",
    "[",
    "{",
    "${PWD ",
    "a'",
    "a’",
    "é",
    "e\u0301",
    "字",
    "\u0300",
)
_MOST_TOKENS = 40


class Hard(NamedTuple):
    """A text of any size: ``head``, ``unit`` repeated, ``tail``."""

    head: str
    unit: str
    tail: str

    def text(self, size: int) -> str:
        """Return the text with about the given number of characters."""
        return self.head + self.unit * max(1, size // len(self.unit)) + self.tail

    def __str__(self) -> str:
        return f"{self.head!r} + {self.unit!r}… + {self.tail!r}"


def hard_texts(pattern: re.Pattern[str], most: int) -> list[Hard]:
    """Return up to ``most`` texts, always the same; those derived from single parts come first."""
    tokens, beginnings = _parts(pattern)
    single = [Hard("", unit, tail) for unit in tokens for tail in _TAILS]
    single += [Hard("", unit, tail) for unit in _HAND_PICKED for tail in _TAILS[:2]]
    begun = [
        Hard(head, unit, tail)
        for head in beginnings
        for unit in (*tokens, *_EVERYWHERE)
        for tail in _TAILS[:2]
    ]
    joined = ["".join(pair) for pair in product(tokens, repeat=2)]
    joined += ["".join(three) for three in product(tokens, repeat=3)]
    chance = random.Random(ascii(pattern.pattern))
    rest = [Hard("", unit, chance.choice(_TAILS)) for unit in joined]
    chance.shuffle(begun)
    chance.shuffle(rest)
    begun = begun[: max(0, most - len(single)) // 2]
    chosen = [*single, *begun, *rest][:most]
    return list(dict.fromkeys(chosen))


def _parts(pattern: re.Pattern[str]) -> tuple[list[str], list[str]]:
    """Return the characters and texts that a pattern consists of, and prefixes of matches."""
    tree = parser.parse(pattern.pattern, pattern.flags & ~re.DEBUG)
    tokens = dict.fromkeys(_tokens(tree))
    if pattern.flags & re.IGNORECASE:
        tokens.update(dict.fromkeys(token.upper() for token in list(tokens)))
    beginnings = dict.fromkeys(_sample(tree[:end]) for end in range(1, len(tree) + 1))
    chosen = [token for token in (*beginnings, *tokens, *_EVERYWHERE) if token]
    return list(dict.fromkeys(chosen))[:_MOST_TOKENS], [text for text in beginnings if text]


def _tokens(tree: Any) -> Iterator[str]:
    """Yield the characters, words and examples that parts of a pattern match."""
    word = ""
    for code, value in tree:
        if code is codes.LITERAL:
            word += chr(value)
            yield chr(value)
            continue
        if len(word) > 1:
            yield word
        word = ""
        if code is codes.IN:
            yield from _members(value)
        elif code is codes.NOT_LITERAL:
            yield next(char for char in _OUTSIDE if ord(char) != value)
        for part in _inner(code, value):
            if len(part) > 1:
                yield _sample(part)
            yield from _tokens(part)
    if len(word) > 1:
        yield word


def _inner(code: Any, value: Any) -> list[Any]:
    """Return the patterns inside a part of a pattern."""
    if code is codes.BRANCH:
        return list(value[1])
    if code is codes.SUBPATTERN:
        return [value[-1]]
    if code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
        return [value[2]]
    if code in (codes.ASSERT, codes.ASSERT_NOT):
        return [value[1]]
    return [value] if code is codes.ATOMIC_GROUP else []


def _members(items: Any) -> list[str]:
    """Return some characters of a class: the ends of its ranges, and one of each category."""
    found = []
    negated = any(code is codes.NEGATE for code, _ in items)
    for code, value in items:
        if code is codes.LITERAL:
            found.append(chr(value))
        elif code is codes.RANGE:
            found += [chr(value[0]), chr(value[1])]
        elif code is codes.CATEGORY:
            found.append(_CATEGORIES[value])
    if negated:
        return [char for char in _OUTSIDE if char not in found][:3] + found
    return found


def _sample(tree: Any) -> str:
    """Return a short text that a pattern, or a prefix of it, matches or nearly matches."""
    out = ""
    for code, value in tree:
        if code is codes.LITERAL:
            out += chr(value)
        elif code is codes.IN:
            out += _members(value)[0]
        elif code in (codes.NOT_LITERAL, codes.ANY):
            out += "a"
        elif code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
            out += _sample(value[2]) * max(1, min(int(value[0]), 100))
        elif code is codes.BRANCH:
            out += _sample(value[1][0])
        elif code in (codes.SUBPATTERN, codes.ATOMIC_GROUP):
            out += _sample(value[-1] if code is codes.SUBPATTERN else value)
        elif code is codes.ASSERT:
            out += _sample(value[1])
    return out
