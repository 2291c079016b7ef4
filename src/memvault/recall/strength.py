"""What the fit of a memory means, in every vault and with every embedder alike.

A score ranks within one answer. A chance says how likely it is that a memory
answers the query, where half of those that are weighed do. Most of it is what
says so of the memory by itself; what is far behind the best is less likely meant.
"""

from __future__ import annotations

import math

from memvault.recall.ranking import FeatureRow, columns
from memvault.recall.weights import RankingWeights

_BEHIND = 4.0
"""What a score of 0 beside one of 1 takes from the logit."""


def evidence(candidate: FeatureRow, words: int) -> dict[str, float]:
    """Return what says of a memory that it answers a query of so many words."""
    found = {name: values[0] for name, values in columns([candidate]).items()}
    few = 1.0 / max(words, 1)
    return {**found, "few": few, "covered_few": few * found["covered"]}


def answer_probability(found: dict[str, float], fit: RankingWeights, behind: float) -> float:
    """Return the chance that a memory answers, in 0..1; its score is ``behind`` the best."""
    logit = fit.bias + sum(weight * found.get(name, 0.0) for name, weight in fit.chance.items())
    return 0.5 + 0.5 * math.tanh((logit - _BEHIND * behind) / 2)
