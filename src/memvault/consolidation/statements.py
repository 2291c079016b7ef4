"""Statements: sentences that claim something, and when two of them say the same.

Two statements say the same where the same stems follow each other, with the
same numbers and signs; articles, forms of *to be*, pronouns and emphasis do not
count. Where one has a word or two more, a measure of similarity may join them,
never by itself: what is added must be no name, no number, and nothing that
denies or limits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from memvault.index.analysis import Analyser

Key = tuple[tuple[str, ...], tuple[str, ...]]

LEAST_WORDS = 3
"""Telling words that make a statement; fewer are a heading or a remark."""
_LONGEST = 300
_TASK = re.compile(r"(?i)^(?:todo|fixme|xxx)\b")
_ADDRESS = re.compile(r"(?<!\w)\w+://\S+")
_LIGHT = frozenset(
    "a an the is are was were be been being am it its this that these those there here do does did "
    "i we you he she they my our your his her their us me them also just really very indeed again "
    "always please so simply actually note remember turn out".split()
)
_NOT = {
    **dict.fromkeys(
        "dont doesnt didnt isnt arent wasnt werent aint not never no none".split(), ("not",)
    ),
    **dict.fromkeys(("cant", "cannot", "couldnt"), ("can", "not")),
    **dict.fromkeys(("wont", "wouldnt"), ("will", "not")),
    **dict.fromkeys(("mustnt", "shouldnt"), ("should", "not")),
}
_SAME_WORD = {
    "require": "need",
    "execute": "run",
    "delete": "remove",
    "verify": "check",
    "begin": "start",
    "utilize": "use",
    "utilise": "use",
}
_LIMITS = frozenset(
    "not without unless except only if when while until before after but hardly rarely seldom "
    "sometimes often usually almost nearly partly barely less more fewer most least than too "
    "from to over under above below no may might could should can must".split()
)
_NUMBER = re.compile(r"(?<![\w.])[-−]?\d+(?:[.,:]\d+)*")
_SIGNS = re.compile(r"[<>=≠≤≥$€£%°^|&~]|!=|\+\+?|#(?!\w)|(?<!\w)--?[A-Za-z]\b")
_MARKED_WORD = re.compile(r"`[^`]+`|(?<!\w)(?:\w*[A-Z0-9][\w.:/-]*|\w+[./:_@]\w[\w./:_@-]*)")
_BULLET = re.compile(r"^\s*(?:[-*+>]|\d+[.)])\s+")
_FENCE = re.compile(r"^\s*(?:```|~~~)")
_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？；])")
_LABEL = re.compile(r"(?i)^(?:lessons?(?: learned)?|learned|learning|note|reminder)\s*:\s*")
_EMPHASIS = re.compile(r"\*\*|__|(?<!\w)[*_](?=\w)|(?<=\w)[*_](?!\w)")


class Statement(NamedTuple):
    """A sentence, its stems and signs in order, and which stems no paraphrase may leave out."""

    text: str
    key: Key
    fixed: frozenset[str]

    @property
    def stems(self) -> tuple[str, ...]:
        """Its stems without light words."""
        return self.key[0]


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a text, joined over line ends; code blocks and headings are none."""
    paragraph: list[str] = []
    fenced = False
    for line in [*text.splitlines(), ""]:
        mark = _FENCE.match(line)
        fenced = fenced != bool(mark)
        begins = _BULLET.match(line)
        if paragraph and (begins or mark or not line.strip() or line.startswith("#")):
            yield from _split(" ".join(paragraph))
            paragraph = []
        if not (fenced or mark or line.startswith("#")) and line.strip():
            paragraph.append(_BULLET.sub("", line).strip())


def _split(paragraph: str) -> Iterator[str]:
    for sentence in _END.split(paragraph):
        plain = unmarked(sentence)
        if plain and not plain.endswith(("?", "？", ":")):
            yield plain


def unmarked(sentence: str) -> str:
    """Return a sentence on one line without labels, emphasis and repeated blanks."""
    return _LABEL.sub("", _EMPHASIS.sub("", " ".join(sentence.split()))).strip()


def statement(sentence: str, analyser: Analyser, least: int = LEAST_WORDS) -> Statement | None:
    """Read a sentence; None where it is too short or too long to be a statement, or a task.

    ``least`` is how many telling words it needs; a negation is one.
    """
    if len(sentence) > _LONGEST or _TASK.match(sentence):
        return None
    stems = words(sentence, analyser)
    telling = words(_ADDRESS.sub(" ", sentence), analyser)
    if sum(stem == "not" or stem not in analyser.stop_stems for stem in telling) < least:
        return None
    names = words(" ".join(_MARKED_WORD.findall(sentence)), analyser)
    limits = _limits(analyser) if analyser.language == "english" else frozenset(stems)
    return Statement(sentence, (stems, signs(sentence)), limits.intersection(stems).union(names))


def signs(text: str) -> tuple[str, ...]:
    """Return the numbers and the signs that carry meaning, each in order."""
    return (*_NUMBER.findall(text), "", *_SIGNS.findall(text))


def words(text: str, analyser: Analyser) -> tuple[str, ...]:
    """Return a text's stems in order; in English without light words, negations as one word."""
    stems = analyser.sequence(text)
    if analyser.language != "english":
        return tuple(stems)
    meanings = _meanings(analyser)
    return tuple(word for stem in stems for word in meanings.get(stem, (stem,)))


@cache
def _meanings(analyser: Analyser) -> dict[str, tuple[str, ...]]:
    """Return what stems stand for others, and which for nothing."""
    spelled = {
        **{word: (meant,) for word, meant in _SAME_WORD.items()},
        **_NOT,
        **dict.fromkeys(_LIGHT, ()),
    }
    return {
        analyser.sequence(word)[0]: tuple(analyser.sequence(other)[0] for other in meant)
        for word, meant in spelled.items()
    }


@cache
def _limits(analyser: Analyser) -> frozenset[str]:
    return frozenset(analyser.sequence(word)[0] for word in _LIMITS)
