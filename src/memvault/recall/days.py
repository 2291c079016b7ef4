"""The days that a query asks for, and how much they count beside its words."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from memvault.config import Ranking
from memvault.index.analysis import Analyser
from memvault.recall import dates
from memvault.recall.query import Query

__all__ = ["Days", "asked_days"]

_EVENTS = frozenset("happen did do done".split())
"""Words that ask for anything at all."""


class Days(NamedTuple):
    """The days that a query asks for.

    ``stress`` is how many times their usual weight they count. ``mostly`` says
    that the query asks for little else; ``rest`` is the query without them.
    """

    span: dates.Span
    stress: float = 1.0
    mostly: bool = False
    rest: str = ""


def asked_days(query: Query, analyser: Analyser, ranking: Ranking, now: datetime) -> Days | None:
    """Return the days that a query asks for, unless the settings say that they do not count.

    A query that says little else is answered by them more than by its words.
    """
    if not ranking.date:
        return None
    named = dates.named(query.text, now.date())
    if named is None:
        return None
    rest = query.text.replace(named.words, " ")
    telling = set(analyser.telling(rest)) - _EVENTS
    naming = len(analyser.sequence(named.words))
    share = naming / (naming + len(telling))
    mostly = share >= 0.5
    # With the usual weight the days then count as much as they make up of the query.
    stress = share / Ranking().date if mostly else 1.0
    return Days(named.span, stress, mostly, rest if telling else "")
