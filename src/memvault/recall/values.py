"""The plain values that the stages of a recall hand on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from memvault.index.protocol import Patience
from memvault.model import Memory
from memvault.recall.filters import Filters
from memvault.recall.strength import Strength, strength

if TYPE_CHECKING:
    from memvault.index.protocol import Record


class Request(NamedTuple):
    """What to look for. ``mode`` is hybrid, keyword, vector or tag.

    With ``rerank`` a cross-encoder orders the best again; without ``diverse``
    what repeats a better answer keeps its score. ``threshold`` is the least
    chance, and ``strict`` leaves out what is weak. ``patience`` is for another
    process that is indexing, where it is not the call's.
    """

    query: str
    mode: str = "hybrid"
    limit: int = 10
    filters: Filters = Filters()
    threshold: float = 0.0
    explain: bool = False
    rerank: bool = False
    diverse: bool = True
    strict: bool = False
    patience: Patience | None = None

    @property
    def uses_vectors(self) -> bool:
        """Whether vectors are asked."""
        return self.mode in ("hybrid", "vector")


class Scored(NamedTuple):
    """A memory's key in the view, its score, and the parts that add up to it."""

    key: int
    score: float
    parts: dict[str, float]


class Found(NamedTuple):
    """A memory that was found, read from its file after it was found.

    ``score`` ranks within one answer. ``chance`` (that the memory answers the
    query), ``similarity`` (calibrated) and ``coverage`` (the share of the query's
    words that the memory holds) mean the same in every answer. ``why`` holds the
    weighted ``parts`` that add up to ``score``, and what they were made of.
    """

    memory: Memory
    score: float
    chance: float
    similarity: float
    coverage: float
    title_coverage: float
    snippet: str
    heading: str
    why: dict[str, object]

    @property
    def in_title(self) -> bool:
        """Say whether a word of the query stands in the title."""
        return self.title_coverage > 0

    @property
    def strength(self) -> Strength:
        """How well the memory fits the query, in a word."""
        return strength(self.chance)


class Answer(NamedTuple):
    """What was found, best first, and what the caller should be told besides."""

    found: list[Found]
    notes: list[str]

    @property
    def best(self) -> Strength | Literal["none"]:
        """How strong the strongest of what was found is."""
        order: tuple[Strength, ...] = ("strong", "fair", "weak")
        held = {entry.strength for entry in self.found}
        return next((strength for strength in order if strength in held), "none")


def brief(memory: Memory | Record) -> dict[str, Any]:
    """Return how a result names a memory."""
    return {"memId": memory.mem_id, "title": memory.title, "filePath": memory.path}
