"""Statements to look up who says the same in a word or two more or less, and who says what.

Which of thousands of statements a new one shortens or lengthens is found
through a few of its words, as in a prefix filter (Chaudhuri, Ganti and Kaushik
2006): put the words of both in one order; the first word of the shorter one is
then among the first three of the longer one, which has two more at most. So a
statement is kept under its first three words alone, whatever its length.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import cache, lru_cache
from itertools import chain, islice
from typing import Any, NamedTuple

from memvault.consolidation.statements import LEAST_WORDS, Key, Statement, sentences, statement
from memvault.index.analysis import Analyser
from memvault.memories.episodes import Episode

_BAR = 0.75
"""As alike as two wordings must be; the built-in table gives about 0.86 to the same words."""
_MOST_DROPPED = 2
_WORDS_PER_DROPPED = 4
_MOST_COMPARED = 1_000
"""Statements held against one: more share its words only where someone made them so."""
_MOST_NEAR = 20
"""Statements nearly alike that one is measured against."""
_CLAIM = re.compile(r"(?i)\b(?:is|are|must|should|needs?|uses?|never|always|not)\b")
"""What a context says that is no mere situation; in other languages its full stop tells."""

_Word = tuple[int, str, int]
_Place = tuple[_Word, tuple[str, ...], int]
"""A word, the statement's signs, and how many words it has."""


class StatementCluster(NamedTuple):
    """A statement, the ids of the episodes that make it, and its other wordings."""

    statement: Statement
    episodes: tuple[str, ...]
    wordings: tuple[str, ...]


@cache
def _embedder() -> Any:
    from memvault.index.embedding.static import open_table

    return open_table()


@lru_cache(10_000)
def _similarity(first: str, second: str) -> float:
    vectors = _embedder().embed(sorted((first, second)))
    return float(_embedder().calibration.similarity(float(vectors[0] @ vectors[1])))


class StatementIndex:
    """Statements, to look up which of them says the same as another one.

    ``alike`` says how alike two texts are, in 0..1; the built-in embedder does if nothing else.
    """

    def __init__(self, alike: Callable[[str, str], float] = _similarity) -> None:
        self._alike = alike
        self._exact: dict[Key, Statement] = {}
        self._by_first: defaultdict[_Place, list[Statement]] = defaultdict(list)
        self._by_early: defaultdict[_Place, list[Statement]] = defaultdict(list)

    def add(self, new: Statement) -> None:
        """Take a statement in."""
        if new.key not in self._exact:
            self._exact[new.key] = new
            stems, signs = new.key
            early = [(word, signs, len(stems)) for word in _early(stems)]
            self._by_first[early[0]].append(new)
            for place in early:
                self._by_early[place].append(new)

    def find(self, wanted: Statement) -> Statement | None:
        """Return the statement taken in that says the same, the most alike of several."""
        if wanted.key in self._exact:
            return self._exact[wanted.key]
        near = islice(self._near(wanted), _MOST_NEAR)
        measured = [(-self._alike(wanted.text, other.text), other.key, other) for other in near]
        best = min(measured, default=None)
        return best[2] if best and -best[0] >= _BAR else None

    def _near(self, wanted: Statement) -> Iterator[Statement]:
        """Yield the statements taken in that shorten a statement, or that it shortens."""
        stems, signs = wanted.key
        early, count, dropped = _early(stems), len(stems), range(1, _MOST_DROPPED + 1)
        shorter = (self._by_first.get((word, signs, count - n)) for n in dropped for word in early)
        longer = (self._by_early.get((early[0], signs, count + n)) for n in dropped)
        for other in islice(chain.from_iterable(filter(None, shorter)), _MOST_COMPARED):
            if shortens(other, wanted):
                yield other
        for other in islice(chain.from_iterable(filter(None, longer)), _MOST_COMPARED):
            if shortens(wanted, other):
                yield other


def clusters(episodes: Iterable[Episode], analyser: Analyser) -> list[StatementCluster]:
    """Return the statements of episodes, each once.

    Of those that say the same the wording that most episodes have leads, the
    shorter of two.
    """
    makers: dict[Statement, set[str]] = defaultdict(set)
    by_words: dict[Key, set[str]] = defaultdict(set)
    for episode in episodes:
        for text in (episode.reflection, *filter(_is_claim, episode.context)):
            for sentence in sentences(text):
                made = statement(sentence, analyser)
                if made is not None:
                    makers[made].add(episode.episode_id)
                    by_words[made.key].add(episode.episode_id)
    ordered = sorted(
        makers,
        key=lambda made: (
            -len(by_words[made.key]),
            len(made.stems),
            made.key,
            -len(makers[made]),
            made.text,
        ),
    )
    known = StatementIndex()
    members: dict[Statement, list[Statement]] = {}
    for made in ordered:
        leader = known.find(made)
        if leader is None:
            known.add(made)
            leader = made
        members.setdefault(leader, []).append(made)
    found = []
    for leader, same in members.items():
        ids = set().union(*(makers[made] for made in same))
        others = {made.key: made.text for made in same if made.key != leader.key}
        found.append(StatementCluster(leader, tuple(sorted(ids)), tuple(others.values())))
    return found


def _is_claim(context: str) -> bool:
    """Say whether an entry of the context is a statement; most only name a situation."""
    return context.rstrip().endswith((".", "!", "。", "！")) or bool(_CLAIM.search(context))


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
