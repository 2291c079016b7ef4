"""What the fit of a memory means, in every vault and with every embedder alike.

A score ranks within one answer. A chance says how likely it is that a memory
answers the query, and a strength says that in a word.
"""

from __future__ import annotations

import math

from memvault.recall.ranking import Candidate, columns
from memvault.recall.weights import Fit


def evidence(candidate: Candidate, words: int) -> dict[str, float]:
    """Return what says of a memory by itself, whatever else was found, that it answers."""
    found = {name: values[0] for name, values in columns([candidate]).items()}
    few = 1.0 / max(words, 1)
    return {**found, "few": few, "covered_few": few * found["covered"]}


def chance(candidate: Candidate, fit: Fit, words: int) -> float:
    """Return the chance that a memory answers a query of so many words, in 0..1."""
    found = evidence(candidate, words)
    logit = fit.bias + sum(weight * found.get(name, 0.0) for name, weight in fit.chance.items())
    return 0.5 + 0.5 * math.tanh(logit / 2)
