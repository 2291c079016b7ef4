"""Find facts, procedures and contradictions in paraphrased statements and actions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from memvault.consolidation.differences import are_incompatible, wording
from memvault.consolidation.paraphrases import (
    Paraphrases,
    StatedText,
    changes,
    compare,
    paraphrases,
)
from memvault.consolidation.proposals import (
    ConsolidationInput,
    Contradiction,
    NewFact,
    confidence_of,
    proposal_id,
)
from memvault.consolidation.statements import (
    StatementCluster,
    clusters,
    outcome_claims,
    sentences,
)
from memvault.experience.episodes import texts
from memvault.experience.provenance import text_of
from memvault.experience.search import is_archived
from memvault.index.embedding.text_clustering import SAME, Meaning
from memvault.index.text.analyzer import Analyzer
from memvault.model import Memory

_MAX_FACT = 300


def by_meaning(
    inputs: ConsolidationInput,
    statement_clusters: Sequence[StatementCluster],
    facts: Iterable[NewFact],
    analyzer: Analyzer,
    meaning: Meaning,
) -> tuple[list[NewFact], list[Contradiction]]:
    """Join paraphrased statements, and find statements that later ones contradict.

    Returns the facts found by exact wording or by meaning, and the contradictions found by meaning.
    ``facts`` come from the exact rules; a fact that is part of a group is replaced by the group. If
    a stored fact is contradicted, the later statement becomes a fact that supersedes it.
    """
    comparison = compare(_sources(inputs, statement_clusters, analyzer), meaning, analyzer)
    groups = paraphrases(comparison)
    joined = {_proposal(cluster) for group in groups for cluster in group.clusters}
    unjoined = [fact for fact in facts if fact.proposal not in joined]
    grouped = {fact.proposal for fact in map(_fact, groups)}
    ordered = sorted(
        [*unjoined, *map(_fact, groups)], key=lambda fact: (-len(fact.episodes), fact.text)
    )
    if groups:
        ordered = _not_stated(ordered, grouped, inputs.facts, analyzer, meaning)
    contradicted = changes(comparison)
    for contradiction, sources in contradicted:
        ordered = _with_superseding(ordered, contradiction, sources, inputs.shared)
    return ordered, [contradiction for contradiction, _ in contradicted]


def _sources(
    inputs: ConsolidationInput, statement_clusters: Sequence[StatementCluster], analyzer: Analyzer
) -> list[StatedText]:
    """Return the statements of episodes, and the current single-sentence facts."""
    created = {episode.episode_id: episode.created for episode in inputs.episodes}
    keys = {cluster.statement.key for cluster in statement_clusters}
    outcomes = [
        cluster
        for cluster in clusters(inputs.episodes, analyzer, outcome_claims)
        if cluster.statement.key not in keys
    ]
    replaced = {
        name for memory in inputs.facts for name in texts(memory.metadata.get("supersedes"))
    }
    held = [
        StatedText(text, (memory.mem_id,), memory.modified)
        for memory in inputs.facts
        if not is_archived(memory.metadata)
        and memory.mem_id not in replaced
        and len(text := text_of(memory)) <= _MAX_FACT
    ]
    return held + [
        StatedText(
            cluster.statement.text,
            cluster.episodes,
            max(created[name] for name in cluster.episodes),
            cluster,
            supports,
        )
        for group, supports in ((statement_clusters, False), (outcomes, True))
        for cluster in group
    ]


def _proposal(cluster: StatementCluster) -> str:
    return proposal_id("fact", cluster.statement.key)


def _fact(group: Paraphrases) -> NewFact:
    (leader, *_) = [cluster for cluster in group.clusters if cluster.statement.text == group.text]
    others = dict.fromkeys(quote.text for quote in group.quotes if quote.text != group.text)
    return NewFact(
        _proposal(leader),
        group.text,
        confidence_of(len(group.episodes)),
        group.episodes,
        wordings=tuple(others),
        quotes=group.quotes,
    )


def _not_stated(
    facts: Sequence[NewFact],
    grouped: set[str],
    held: Iterable[Memory],
    analyzer: Analyzer,
    meaning: Meaning,
) -> list[NewFact]:
    """Return the facts, omitting groups that a stored or earlier fact already states.

    Archived facts count too, so that a dismissed proposal does not return in other words.
    """
    known_texts = [
        text for memory in held for text in (memory.title, *sentences(text_of(memory))) if text
    ]
    spelled = [*dict.fromkeys([*known_texts, *(fact.text for fact in facts)])]
    space, rows = meaning.space(spelled), {text: row for row, text in enumerate(spelled)}
    fresh = []
    for fact in facts:
        mine = wording(fact.text, analyzer)
        known_vectors = space.vectors[[rows[text] for text in known_texts]]
        cosines = known_vectors @ space.vectors[rows[fact.text]]
        stated = fact.proposal in grouped and any(
            cosine >= space.cosine(SAME) and not are_incompatible(mine, wording(text, analyzer))
            for cosine, text in zip(cosines.tolist(), known_texts, strict=True)
        )
        if not stated:
            fresh.append(fact)
        known_texts.append(fact.text)
    return fresh


def _with_superseding(
    facts: Sequence[NewFact],
    contradiction: Contradiction,
    sources: Sequence[StatedText],
    shared: frozenset[str],
) -> list[NewFact]:
    """Make the fact of a later statement supersede the stored facts that it contradicts."""
    *denied, latest = sources
    held = {name for source in denied if source.cluster is None for name in source.ids}
    outdated = tuple(sorted(held - shared))
    if not contradiction.current or latest.cluster is None or not outdated:
        return list(facts)
    result = list(facts)
    for index, fact in enumerate(facts):
        if latest.text in {fact.text, *fact.wordings}:
            supersedes = tuple(sorted({*fact.supersedes, *outdated}))
            result[index] = fact._replace(supersedes=supersedes)
            return result
    new = NewFact(
        _proposal(latest.cluster),
        latest.text,
        confidence_of(len(latest.ids)),
        latest.ids,
        quotes=latest.cluster.quotes,
        supersedes=outdated,
    )
    return [*facts, new]
