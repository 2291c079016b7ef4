"""Words and meaning together: candidates of both, a closer look at the best, the rest behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import NamedTuple

from memvault.config import Ranking
from memvault.index.analysis import Analyser
from memvault.index.embedding.static import StaticEmbedder
from memvault.model import Memory
from memvault.recall import closer, dates, fuse, rank
from memvault.recall.query import Query
from memvault.recall.scored import Scored
from memvault.recall.sides import Near, Words

__all__ = ["CANDIDATES", "Asked", "Look", "asked_days", "fused_sides", "order"]

CANDIDATES = 200
"""How many hits of each side make the candidates, whatever the limit."""
_LOOKED_AT = 30
"""Memories that are read before they are ranked; 50 or 100 gave no better order."""
_EVENTS = frozenset("happen did do done".split())
"""Words that ask for anything at all."""


class Asked(NamedTuple):
    """The days that a query asks for, their weight, and what else it says.

    ``mostly`` says that there is little else; ``rest`` is the query without the days.
    """

    days: rank.Days
    mostly: bool
    rest: str


class Look(NamedTuple):
    """What a closer look is taken with: files, terms, the table of words, weights, the time."""

    read: Callable[[int], Memory | None]
    analyser: Analyser
    table: StaticEmbedder | None
    ranking: Ranking
    now: datetime


def order(
    query: Query,
    words: Words,
    near: Near,
    fused: Sequence[tuple[int, float]],
    behind: Sequence[tuple[int, float]],
    dated: Sequence[int],
    asked: Asked | None,
    look: Look,
) -> Iterator[tuple[Memory, Scored]]:
    """Rank the best of ``fused``; those of ``behind`` follow in their order, never above them.

    ``dated`` are candidates whatever they say. No file is read twice.
    """
    shares = words.shares()
    unfit: set[int] = set()

    def read(uid: int) -> Memory | None:
        memory = None if uid in unfit else look.read(uid)
        if memory is None:
            unfit.add(uid)
        return memory

    readable = ((uid, memory) for uid, _ in fused if (memory := read(uid)) is not None)
    memories = dict(islice(readable, _LOOKED_AT))
    regular = set(memories)
    also = ((uid, read(uid)) for uid in dated if uid not in memories)
    memories |= {uid: memory for uid, memory in also if memory is not None}
    looks = closer.look(query, list(memories.values()), words.rarity, look.analyser, look.table)
    candidates = [
        rank.Candidate(
            uid,
            memory,
            shares.get(uid, 0.0),
            near.hits[uid].cosine if uid in near.hits else None,
            close,
        )
        for (uid, memory), close in zip(memories.items(), looks, strict=True)
    ]
    ranked = rank.rank(candidates, look.ranking, look.now, asked.days if asked else None)
    whole = [entry.whole for entry in ranked if entry.candidate.uid in regular]
    most = min(whole, default=1.0)
    scores = [
        *(Scored(entry.candidate.uid, entry.score, entry.parts) for entry in ranked),
        *(
            Scored(uid, min(score, most), {"fused": min(score, most)})
            for uid, score in behind
            if uid not in memories
        ),
    ]
    for entry in sorted(scores, key=lambda entry: -entry.score):
        memory = memories.get(entry.uid) or read(entry.uid)
        if memory is not None:
            yield memory, entry


def fused_sides(words: Words, near: Near) -> list[tuple[int, float]]:
    """Fuse the sides' candidates."""
    cosines = {uid: hit.cosine for uid, hit in near.hits.items()}
    return fuse.fuse(words.shares(), cosines, fuse.KEYWORD_WEIGHT if near.embedder else 1.0)


def asked_days(query: Query, analyser: Analyser, ranking: Ranking, now: datetime) -> Asked | None:
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
    days = rank.Days(named.span, share / Ranking().date if mostly else 1.0)
    return Asked(days, mostly, rest if telling else "")
