"""Statements that say the same in other words, and later statements that contradict earlier ones.

Vectors propose which statements to compare, and ``differences`` decides. Groups are formed by
average linkage: the mean similarity of two groups must reach ``meaning.SAME``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from memvault.consolidation.differences import Wording, are_incompatible, contradiction, wording
from memvault.consolidation.proposals import Contradiction, Quote
from memvault.consolidation.statements import StatementCluster
from memvault.index.embedding.text_clustering import (
    RELATED,
    SAME,
    EmbeddedTexts,
    Meaning,
    Similar,
    grouped,
    similar_pairs,
)
from memvault.index.text.analyzer import Analyser

REPEATED_IN_OTHER_WORDS = 3
"""The minimum number of different episodes behind what is joined by meaning only."""
_NEARLY = 0.05


class StatedText(NamedTuple):
    """A statement to compare: its text, the memories that make it, and when it was made last.

    ``cluster`` is None for a fact of the vault. ``supports`` marks a statement of outcomes only,
    which makes no fact by itself.
    """

    text: str
    ids: tuple[str, ...]
    time: str
    cluster: StatementCluster | None = None
    supports: bool = False


class Paraphrases(NamedTuple):
    """Statements that say the same; the text is that of the most central one."""

    text: str
    clusters: tuple[StatementCluster, ...]

    @property
    def episodes(self) -> tuple[str, ...]:
        """The ids of the episodes that make one of the statements."""
        return tuple(sorted({name for cluster in self.clusters for name in cluster.episodes}))

    @property
    def quotes(self) -> tuple[Quote, ...]:
        """The sentences of the episodes."""
        return tuple(sorted({quote for cluster in self.clusters for quote in cluster.quotes}))


class Comparison(NamedTuple):
    """Statements, their vectors, and the pairs that may say the same or contradict each other."""

    sources: list[StatedText]
    space: EmbeddedTexts
    pairs: list[Similar]
    analyser: Analyser

    def wording(self, place: int) -> Wording:
        """Return the words of a statement, parsed once."""
        return wording(self.sources[place].text, self.analyser)


def compare(sources: Iterable[StatedText], meaning: Meaning, analyser: Analyser) -> Comparison:
    """Embed statements and find the pairs with similar meanings."""
    ordered = sorted(sources, key=lambda source: (source.time, source.text, source.ids))
    places = meaning.select([source.text for source in ordered])
    selected = [ordered[place] for place in places]
    space = meaning.space([source.text for source in selected])
    pairs = similar_pairs(space, RELATED) if len(selected) > 1 else []
    return Comparison(selected, space, pairs, analyser)


def paraphrases(given: Comparison) -> list[Paraphrases]:
    """Return the groups of statements that at least three episodes make in other words."""
    words = given.wording

    def joined(some: Sequence[int], others: Sequence[int]) -> bool:
        if given.space.mean(some, others) < SAME:
            return False
        return not any(
            are_incompatible(words(one), words(other)) for one in some for other in others
        )

    found = []
    same = (
        pair
        for pair in given.pairs
        if pair.similarity >= SAME
        and given.sources[pair.first].cluster
        and given.sources[pair.second].cluster
    )
    for places in grouped(same, joined):
        members = [given.sources[place] for place in places]
        clusters = tuple(member.cluster for member in members if member.cluster)
        episodes = {name for cluster in clusters for name in cluster.episodes}
        stated = [place for place in places if not given.sources[place].supports]
        if stated and len(episodes) >= REPEATED_IN_OTHER_WORDS:
            found.append(Paraphrases(_central(given, places, stated), clusters))
    return found


def _central(given: Comparison, places: Sequence[int], stated: Sequence[int]) -> str:
    """Return the statement most similar to all; of nearly equal ones that with the most words.

    Statements that several episodes make in the same words come first.
    """
    most = max(len(given.sources[place].ids) for place in stated)
    mean = {place: given.space.mean([place], places) for place in stated}
    usual = [place for place in stated if len(given.sources[place].ids) == most]
    best = max(mean[place] for place in usual)
    near = [place for place in usual if mean[place] >= best - _NEARLY]
    content = {place: len(given.wording(place).content) for place in near}
    first = min(near, key=lambda place: (-content[place], given.sources[place].text))
    return given.sources[first].text


def changes(given: Comparison) -> list[tuple[Contradiction, list[StatedText]]]:
    """Return the statements that contradict each other, oldest first.

    With each come the sources that its latest statement contradicts itself, and at the end that
    of the latest: an older one may say the same as the latest, if another was made in between.
    """
    linked: dict[int, int] = {}
    kinds: dict[int, set[str]] = defaultdict(set)

    def root(place: int) -> int:
        while linked.setdefault(place, place) != place:
            place = linked[place]
        return place

    found = []
    denied: dict[int, list[int]] = defaultdict(list)
    for one, other, _ in given.pairs:
        earlier, later = sorted((one, other))  # sources are in the order of their times
        if set(given.sources[earlier].ids) & set(given.sources[later].ids):
            continue
        kind = contradiction(given.wording(earlier), given.wording(later))
        if kind:
            found.append((earlier, kind))
            denied[later].append(earlier)
            first, second = sorted((root(earlier), root(later)))
            linked[second] = first
    for place, kind in found:
        kinds[root(place)].add(kind)
    components: dict[int, list[int]] = defaultdict(list)
    for place in sorted(linked):
        components[root(place)].append(place)
    return [
        (
            _contradiction([given.sources[place] for place in places], min(kinds[first])),
            [given.sources[place] for place in (*sorted(denied[places[-1]]), places[-1])],
        )
        for first, places in components.items()
    ]


def _contradiction(sources: list[StatedText], kind: str) -> Contradiction:
    *_, before, last = (source.time for source in sources)
    current = sources[-1].text if last > before else ""
    texts = tuple(source.text for source in sources)
    return Contradiction(texts, tuple(source.ids for source in sources), kind, current)
