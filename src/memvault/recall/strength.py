"""What the fit of a memory means, in every vault and with every embedder alike.

A score ranks within one answer. A chance says how likely it is that a memory
answers the query, and a strength says that in a word.
"""

from __future__ import annotations

from typing import Literal

Strength = Literal["strong", "fair", "weak"]

_STRONG, _FAIR = 0.75, 0.4


def strength(chance: float) -> Strength:
    """Say in a word what a chance in 0..1 means."""
    if chance >= _STRONG:
        return "strong"
    return "fair" if chance >= _FAIR else "weak"
