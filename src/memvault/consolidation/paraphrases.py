"""Find paraphrased statements, and later statements that contradict earlier ones.

Vectors propose the statements to compare, and ``differences`` decides. Groups are formed by average
linkage: the mean similarity of two groups must reach ``meaning.SAME``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

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
from memvault.index.text.analyzer import Analyzer
from memvault.named_tuple import NamedTuple

REPEATED_IN_OTHER_WORDS = 3
"""The minimum number of distinct episodes in a group joined only by meaning."""
_NEARLY = 0.05


class StatedText(NamedTuple):
    """A statement to compare: its text, its memories, and its latest time.

    ``cluster`` is None for a fact in the vault. ``supports`` marks a statement found in outcomes,
    which is not a fact by itself.
    """

    text: str
    ids: tuple[str, ...]
    time: str
    cluster: StatementCluster | None = None
    supports: bool = False


class Paraphrases(NamedTuple):
    """Statements with the same meaning; ``text`` is the most central statement."""

    text: str
    clusters: tuple[StatementCluster, ...]

    @property
    def episodes(self) -> tuple[str, ...]:
        """Return the ids of the episodes that contain one of the statements."""
        return tuple(sorted({name for cluster in self.clusters for name in cluster.episodes}))

    @property
    def quotes(self) -> tuple[Quote, ...]:
        """Return the sentences of the episodes."""
        return tuple(sorted({quote for cluster in self.clusters for quote in cluster.quotes}))


class Comparison(NamedTuple):
    """Statements, their vectors, and the pairs that may agree or contradict each other."""

    sources: list[StatedText]
    space: EmbeddedTexts
    pairs: list[Similar]
    analyzer: Analyzer

    def wording(self, index: int) -> Wording:
        """Parse the statement at an index."""
        return wording(self.sources[index].text, self.analyzer)


def compare(sources: Iterable[StatedText], meaning: Meaning, analyzer: Analyzer) -> Comparison:
    """Embed statements and find the pairs with similar meanings."""
    ordered = sorted(sources, key=lambda source: (source.time, source.text, source.ids))
    indexes = meaning.select([source.text for source in ordered])
    selected = [ordered[index] for index in indexes]
    space = meaning.space([source.text for source in selected])
    pairs = similar_pairs(space, RELATED) if len(selected) > 1 else []
    return Comparison(selected, space, pairs, analyzer)


def paraphrases(comparison: Comparison) -> list[Paraphrases]:
    """Return groups of paraphrased statements from at least three episodes."""
    wording_of = comparison.wording

    def joined(some: Sequence[int], others: Sequence[int]) -> bool:
        if comparison.space.mean(some, others) < SAME:
            return False
        return not any(
            are_incompatible(wording_of(one), wording_of(other)) for one in some for other in others
        )

    groups = []
    same = (
        pair
        for pair in comparison.pairs
        if pair.similarity >= SAME
        and comparison.sources[pair.first].cluster
        and comparison.sources[pair.second].cluster
    )
    for indexes in grouped(same, joined):
        members = [comparison.sources[index] for index in indexes]
        clusters = tuple(member.cluster for member in members if member.cluster)
        episodes = {name for cluster in clusters for name in cluster.episodes}
        stated = [index for index in indexes if not comparison.sources[index].supports]
        if stated and len(episodes) >= REPEATED_IN_OTHER_WORDS:
            groups.append(Paraphrases(_central(comparison, indexes, stated), clusters))
    return groups


def _central(comparison: Comparison, indexes: Sequence[int], stated: Sequence[int]) -> str:
    """Return the statement most similar to the others; near ties are broken by word count.

    Statements that several episodes share word for word are preferred.
    """
    most = max(len(comparison.sources[index].ids) for index in stated)
    mean = {index: comparison.space.mean([index], indexes) for index in stated}
    usual = [index for index in stated if len(comparison.sources[index].ids) == most]
    best = max(mean[index] for index in usual)
    near = [index for index in usual if mean[index] >= best - _NEARLY]
    content = {index: len(comparison.wording(index).content) for index in near}
    first = min(near, key=lambda index: (-content[index], comparison.sources[index].text))
    return comparison.sources[first].text


def changes(comparison: Comparison) -> list[tuple[Contradiction, list[StatedText]]]:
    """Return chains of statements that contradict each other, oldest first.

    Each chain comes with the sources that its latest statement directly contradicts, followed by
    the source of the latest statement. An older statement may agree with the latest one if a
    statement between them contradicts both.
    """
    linked: dict[int, int] = {}
    kinds: dict[int, set[str]] = defaultdict(set)

    def root(index: int) -> int:
        while linked.setdefault(index, index) != index:
            index = linked[index]
        return index

    contradicted = []
    denied: dict[int, list[int]] = defaultdict(list)
    for one, other, _ in comparison.pairs:
        earlier, later = sorted((one, other))  # sources are ordered by time
        if set(comparison.sources[earlier].ids) & set(comparison.sources[later].ids):
            continue
        kind = contradiction(comparison.wording(earlier), comparison.wording(later))
        if kind:
            contradicted.append((earlier, kind))
            denied[later].append(earlier)
            first, second = sorted((root(earlier), root(later)))
            linked[second] = first
    for index, kind in contradicted:
        kinds[root(index)].add(kind)
    components: dict[int, list[int]] = defaultdict(list)
    for index in sorted(linked):
        components[root(index)].append(index)
    return [
        (
            _contradiction([comparison.sources[index] for index in indexes], min(kinds[first])),
            [comparison.sources[index] for index in (*sorted(denied[indexes[-1]]), indexes[-1])],
        )
        for first, indexes in components.items()
    ]


def _contradiction(sources: list[StatedText], kind: str) -> Contradiction:
    *_, before, last = (source.time for source in sources)
    current = sources[-1].text if last > before else ""
    texts = tuple(source.text for source in sources)
    return Contradiction(texts, tuple(source.ids for source in sources), kind, current)
