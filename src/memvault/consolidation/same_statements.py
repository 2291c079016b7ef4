"""Statements that were said, to look up who says the same in a word or two more or less.

Which of thousands of statements a new one shortens or lengthens is found
through a few of its words, as in a prefix filter (Chaudhuri, Ganti and Kaushik
2006): put the words of both in one order; the first word of the shorter one is
then among the first three of the longer one, which has two more at most. So a
statement is kept under its first three words alone, whatever its length.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import islice

from memvault.consolidation.statements import LEAST_WORDS, Alike, Key, Statement

__all__ = ["Said", "shortens"]

_BAR = 0.75
"""As alike as two wordings must be; the built-in table gives about 0.86 to the same words."""
_MOST_DROPPED = 2
_WORDS_PER_DROPPED = 4
_MOST_COMPARED = 1_000
"""Statements held against one: more share its words only where someone made them so."""
_MOST_NEAR = 20
"""Statements nearly alike that one is measured against."""

_Word = tuple[int, str, int]
_Place = tuple[_Word, tuple[str, ...], int]
"""A word, the statement's signs, and how many words it has."""


class Said:
    """Statements that were said, to look up who says the same."""

    def __init__(self, alike: Alike) -> None:
        self._alike = alike
        self._exact: dict[Key, Statement] = {}
        self._by_first: dict[_Place, list[Statement]] = defaultdict(list)
        self._by_early: dict[_Place, list[Statement]] = defaultdict(list)

    def add(self, said: Statement) -> None:
        """Take a statement in."""
        if said.key not in self._exact:
            self._exact[said.key] = said
            stems, signs = said.key
            early = _early(stems)
            self._by_first[early[0], signs, len(stems)].append(said)
            for word in early:
                self._by_early[word, signs, len(stems)].append(said)

    def find(self, said: Statement) -> Statement | None:
        """Return the statement taken in that says the same, the most alike of several."""
        exact = self._exact.get(said.key)
        if exact is not None:
            return exact
        near = islice(self._near(said), _MOST_NEAR)
        measured = ((self._alike(said.text, other.text), other) for other in near)
        fitting = [entry for entry in measured if entry[0] >= _BAR]
        if not fitting:
            return None
        return min(fitting, key=lambda entry: (-entry[0], entry[1].key))[1]

    def _near(self, said: Statement) -> Iterator[Statement]:
        """Yield the statements taken in that shorten a statement, or that it shortens."""
        stems, signs = said.key
        early, count = _early(stems), len(stems)

        def shorter() -> Iterator[Statement]:
            for dropped in range(1, _MOST_DROPPED + 1):
                for word in early:
                    yield from self._by_first.get((word, signs, count - dropped), ())

        def longer() -> Iterator[Statement]:
            for dropped in range(1, _MOST_DROPPED + 1):
                yield from self._by_early.get((early[0], signs, count + dropped), ())

        for other in islice(shorter(), _MOST_COMPARED):
            if shortens(other, said):
                yield other
        for other in islice(longer(), _MOST_COMPARED):
            if shortens(said, other):
                yield other


def shortens(shorter: Statement, longer: Statement) -> bool:
    """Say whether a statement is another one without a word or two that may go.

    One word of four may go, and two of eight; no names, no numbers, and
    nothing that denies or limits.
    """
    most = min(_MOST_DROPPED, len(longer.stems) // _WORDS_PER_DROPPED)
    if not 0 < len(longer.stems) - len(shorter.stems) <= most or len(shorter.stems) < LEAST_WORDS:
        return False
    lost = Counter(longer.stems) - Counter(shorter.stems)
    rest = iter(longer.stems)
    in_order = all(stem in rest for stem in shorter.stems)
    return in_order and not any(stem in longer.fixed or stem.isdigit() for stem in lost)


def _early(stems: tuple[str, ...]) -> list[_Word]:
    """Return the first words of a statement in the order that all share: long ones first."""
    seen: Counter[str] = Counter()
    words = []
    for stem in stems:
        words.append((-len(stem), stem, seen[stem]))
        seen[stem] += 1
    return sorted(words)[: _MOST_DROPPED + 1]
