"""Find action sequences that episodes share in different words or order, or with insertions.

Two episodes are compared step by step: each step is matched with the most similar unused step of
the other episode. Episodes with three or more similar steps are grouped by average linkage. The
steps of a group are aligned with its most central episode, and the steps that most episodes have
form its procedure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from memvault.consolidation.proposals import Quote
from memvault.experience.episodes import Episode
from memvault.index.embedding.arrays import Matrix
from memvault.index.embedding.text_clustering import (
    MAX_EMBEDDED,
    RELATED,
    STEP,
    EmbeddedTexts,
    Meaning,
    Similar,
    best_matches,
    grouped,
    mean_vector,
    similar_counts,
)
from memvault.named_tuple import NamedTuple

MIN_STEPS = 3
MIN_EPISODES = 3
_MAX_ACTIONS = 20
"""The maximum number of actions per episode to compare; later ones are ignored."""
_MAX_PAIRS = 20_000
_MIN_SHARE = 0.6
"""The minimum share of the shorter episode's actions that also occur in the other episode."""

_Column = list[tuple[int, int]]
"""A step of a procedure: the positions of an episode and of its action."""


class SharedSequence(NamedTuple):
    """The steps that most episodes of a group share, in their usual order and wording."""

    texts: tuple[str, ...]
    episodes: tuple[Episode, ...]
    quotes: tuple[Quote, ...]
    varies: tuple[Quote, ...]
    reordered: tuple[str, ...]


class _Steps(NamedTuple):
    """The actions of episodes; each episode's ``vectors`` have the shape (actions, dimension)."""

    episodes: list[Episode]
    actions: list[list[str]]
    vectors: list[Matrix]
    space: EmbeddedTexts


def shared_sequences(episodes: Sequence[Episode], meaning: Meaning) -> list[SharedSequence]:
    """Return the sequences that at least three episodes share by meaning.

    If there are too many actions, only the latest episodes are compared.
    """
    steps = _embed(episodes, meaning)
    if steps is None:
        return []
    scores = _scores(steps)

    def joined(some: Sequence[int], others: Sequence[int]) -> bool:
        pairs = [(min(one, other), max(one, other)) for one in some for other in others]
        mean = sum(scores.get(pair, 0.0) for pair in pairs) / len(pairs)
        return steps.space.calibration.similarity(mean) >= RELATED

    ordered = sorted(scores, key=lambda pair: (-round(scores[pair], 4), pair))
    sequences = []
    for group in grouped((Similar(*pair, scores[pair]) for pair in ordered), joined):
        if len(group) >= MIN_EPISODES:
            sequence = _aligned(steps, group, scores)
            if len(sequence.texts) >= MIN_STEPS:
                sequences.append(sequence)
    return sequences


def _embed(episodes: Sequence[Episode], meaning: Meaning) -> _Steps | None:
    """Embed the actions of the latest episodes; duplicates and short episodes are skipped."""
    chosen: dict[str, Episode] = {}
    texts: dict[str, int] = {}
    latest = sorted(episodes, key=lambda each: (each.created, each.episode_id, each.path))
    for episode in reversed(latest):
        actions = _actions(episode)
        new = [text for text in dict.fromkeys(actions) if text not in texts]
        if len(actions) < MIN_STEPS or episode.episode_id in chosen:
            continue
        if len(texts) + len(new) > MAX_EMBEDDED:
            break
        chosen[episode.episode_id] = episode
        texts.update((text, len(texts) + offset) for offset, text in enumerate(new))
    if len(chosen) < MIN_EPISODES:
        return None
    spelled = sorted(texts)
    space = meaning.space(spelled)
    rows = {text: row for row, text in enumerate(spelled)}
    chosen_episodes = [chosen[name] for name in sorted(chosen)]
    rows_of = [_actions(episode) for episode in chosen_episodes]
    vectors = [space.vectors[[rows[text] for text in each]] for each in rows_of]
    return _Steps(chosen_episodes, rows_of, vectors, space)


def _actions(episode: Episode) -> list[str]:
    return [" ".join(text.split()) for text in episode.actions[:_MAX_ACTIONS]]


def _scores(steps: _Steps) -> dict[tuple[int, int], float]:
    """Return the mean cosine of similar steps for each pair of episodes that share enough steps."""
    limit = steps.space.cosine(STEP)
    counted = similar_counts(steps.vectors, limit)
    candidates = [pair for count, *pair in counted if count >= MIN_STEPS]
    scores = {}
    for first, second in candidates[:_MAX_PAIRS]:
        rows, other_rows = steps.vectors[first], steps.vectors[second]
        cosines = [cosine for cosine, _, _ in best_matches(list(rows), list(other_rows), limit)]
        if len(cosines) >= max(MIN_STEPS, _MIN_SHARE * min(len(rows), len(other_rows))):
            scores[first, second] = sum(cosines) / len(cosines)
    return scores


def _aligned(
    steps: _Steps, group: Sequence[int], scores: dict[tuple[int, int], float]
) -> SharedSequence:
    """Align the actions of episodes and keep the steps that more than half of them have."""

    def near(one: int, other: int) -> float:
        return scores.get((min(one, other), max(one, other)), 0.0)

    def distance(episode: int) -> tuple[float, int]:
        return -round(sum(near(episode, other) for other in group), 4), episode

    center = min(group, key=distance)
    others = sorted(set(group) - {center}, key=lambda episode: (-near(center, episode), episode))
    columns: list[_Column] = [[(center, step)] for step in range(len(steps.actions[center]))]
    limit = steps.space.cosine(STEP)
    for episode in others:
        means = [_mean(steps, column) for column in columns]
        matches = best_matches(list(steps.vectors[episode]), means, limit)
        matched = {row: column for _, row, column in matches}
        for step in range(len(steps.actions[episode])):
            if step in matched:
                columns[matched[step]].append((episode, step))
            else:
                columns.append([(episode, step)])
    usual = [column for column in columns if 2 * len(column) > len(group)]
    rare = [column for column in columns if 2 * len(column) <= len(group)]
    ordered = [usual[index] for index in _usual_order(usual)]
    return SharedSequence(
        tuple(_wording(steps, column) for column in ordered),
        tuple(steps.episodes[episode] for episode in sorted(group)),
        tuple(quote for column in ordered for quote in _quotes(steps, column)),
        tuple(sorted(quote for column in rare for quote in _quotes(steps, column))),
        tuple(steps.episodes[episode].episode_id for episode in _reordered(ordered)),
    )


def _mean(steps: _Steps, column: _Column) -> Matrix:
    """Return the mean vector of a step's wordings."""
    return mean_vector([steps.vectors[episode][step] for episode, step in column])


def _usual_order(columns: Sequence[_Column]) -> list[int]:
    """Return the steps' indexes, sorted by how many other steps each step usually precedes."""
    taken = [dict(column) for column in columns]

    def precedes(first: int, second: int) -> bool:
        both = taken[first].keys() & taken[second].keys()
        before = sum(taken[first][episode] < taken[second][episode] for episode in both)
        return (2 * before, second) > (len(both), first)

    indexes = range(len(columns))
    wins = {
        first: sum(precedes(first, second) for second in indexes if second != first)
        for first in indexes
    }
    return sorted(indexes, key=lambda first: (-wins[first], first))


def _reordered(columns: Sequence[_Column]) -> list[int]:
    """Return the episodes whose steps are not in the order of the columns."""
    taken: dict[int, list[int]] = defaultdict(list)
    for column in columns:
        for episode, step in column:
            taken[episode].append(step)
    return sorted(episode for episode, order in taken.items() if order != sorted(order))


def _wording(steps: _Steps, column: _Column) -> str:
    """Return the wording of a step that is most similar to its mean."""
    mean = _mean(steps, column)
    texts = {
        steps.actions[episode][step]: round(float(steps.vectors[episode][step] @ mean), 4)
        for episode, step in column
    }
    return min(texts, key=lambda text: (-texts[text], text))


def _quotes(steps: _Steps, column: _Column) -> list[Quote]:
    return [
        Quote(steps.actions[episode][step], steps.episodes[episode].episode_id)
        for episode, step in sorted(column)
    ]
