"""Statements: sentences that claim something, and when two of them say the same.

Two statements say the same where the same stems follow each other, with the
same numbers and signs; articles, forms of *to be*, pronouns and emphasis do not
count. Where one has a word or two more, a measure of similarity may join them,
never by itself: what is added must be no name, no number, and nothing that
denies or limits.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from itertools import combinations
from typing import NamedTuple

from memvault.index.analysis import Analyser

__all__ = ["Alike", "Said", "Statement", "sentences", "signs", "statement", "unmarked", "words"]

Alike = Callable[[str, str], float]
"""How alike two texts are, in 0..1."""
Key = tuple[tuple[str, ...], tuple[str, ...]]

_BAR = 0.75
"""As alike as two wordings must be; the built-in table gives about 0.86 to the same words."""
_LEAST_WORDS = 3
"""Telling words that make a statement; fewer are a heading or a remark."""
_LONGEST = 300
_MOST_STEMS = 40
"""Stems of a statement that may be said with a word or two more; longer ones only as they are."""
_MOST_KEPT = 500_000
_MOST_TRIED = 2_000_000
"""Shorter wordings that are kept and looked up in all, so that no text costs memory without end."""
_MOST_NEAR = 20
"""Statements nearly alike that one is compared with."""
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
        told = unmarked(sentence)
        if told and not told.endswith(("?", "？", ":")):
            yield told


def unmarked(sentence: str) -> str:
    """Return a sentence on one line without labels, emphasis and repeated blanks."""
    return _LABEL.sub("", _EMPHASIS.sub("", " ".join(sentence.split()))).strip()


def statement(sentence: str, analyser: Analyser, least: int = _LEAST_WORDS) -> Statement | None:
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
    limits = _tables(analyser).limits if analyser.language == "english" else frozenset(stems)
    return Statement(sentence, (stems, signs(sentence)), limits.intersection(stems).union(names))


def signs(text: str) -> tuple[str, ...]:
    """Return the numbers and the signs that carry meaning, each in order."""
    return (*_NUMBER.findall(text), "", *_SIGNS.findall(text))


def words(text: str, analyser: Analyser) -> tuple[str, ...]:
    """Return a text's stems in order; in English without light words, negations as one word."""
    stems = analyser.sequence(text)
    if analyser.language != "english":
        return tuple(stems)
    tables = _tables(analyser)
    out: list[str] = []
    for stem in stems:
        if stem not in tables.light:
            out += tables.other.get(stem, (stem,))
    return tuple(out)


class _Tables(NamedTuple):
    """The stems of light words, of limiting words, and what stems stand for others."""

    light: frozenset[str]
    limits: frozenset[str]
    other: dict[str, tuple[str, ...]]


@cache
def _tables(analyser: Analyser) -> _Tables:
    def stem(word: str) -> str:
        return analyser.sequence(word)[0]

    same = {stem(word): (stem(meant),) for word, meant in _SAME_WORD.items()}
    denied = {stem(word): tuple(map(stem, meant)) for word, meant in _NOT.items()}
    return _Tables(frozenset(map(stem, _LIGHT)), frozenset(map(stem, _LIMITS)), {**same, **denied})


class Said:
    """Statements that were said, to look up who says the same."""

    def __init__(self, alike: Alike) -> None:
        self._alike = alike
        self._exact: dict[Key, Statement] = {}
        self._shortened: dict[Key, list[Statement]] = {}
        self._kept = self._tried = 0

    def add(self, said: Statement) -> None:
        """Take a statement in."""
        if said.key not in self._exact:
            self._exact[said.key] = said
            for shorter in _shorter(said) if self._kept < _MOST_KEPT else ():
                self._shortened.setdefault(shorter, []).append(said)
                self._kept += 1

    def find(self, said: Statement) -> Statement | None:
        """Return the statement taken in that says the same, the most alike of several."""
        exact = self._exact.get(said.key)
        if exact is not None:
            return exact
        shorter = _shorter(said) if self._tried < _MOST_TRIED else set()
        self._tried += len(shorter)
        near = [self._exact[key] for key in sorted(shorter & self._exact.keys())]
        near += self._shortened.get(said.key, ())
        measured = [(self._alike(said.text, other.text), other) for other in near[:_MOST_NEAR]]
        fitting = [entry for entry in measured if entry[0] >= _BAR]
        if not fitting:
            return None
        return min(fitting, key=lambda entry: (-entry[0], entry[1].key))[1]


def _shorter(said: Statement) -> set[Key]:
    """Return what a statement could be without a word or two that are no names and limit nothing.

    One word of four may go, and two of eight.
    """
    stems, signed = said.key
    if len(stems) > _MOST_STEMS:
        return set()
    free = [
        place for place, stem in enumerate(stems) if stem not in said.fixed and not stem.isdigit()
    ]
    found: set[Key] = set()
    for count in range(1, min(2, len(stems) // 4) + 1):
        for left_out in combinations(free, count):
            kept = tuple(stem for place, stem in enumerate(stems) if place not in left_out)
            if len(kept) >= _LEAST_WORDS:
                found.add((kept, signed))
    return found
