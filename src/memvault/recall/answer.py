"""The plain values that the stages of a recall hand on."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, NamedTuple

from memvault.index.protocol import MemoryRecord, WaitPolicy
from memvault.model import Memory
from memvault.recall.filters import Filters

Strength = Literal["strong", "fair", "weak"]
STRONG, FAIR = 0.8, 0.08
"""The chances from which a memory is a strong or a fair answer."""


class RecallRequest(NamedTuple):
    """What to look for. ``mode`` is hybrid, keyword, vector or tag.

    With ``rerank`` a cross-encoder orders the best again; without ``diverse``
    what repeats a better answer, or was replaced, keeps its score and place.
    ``threshold`` is the least chance, and ``strict`` leaves out what is weak.
    ``only_current`` leaves out what was replaced, has ended or has not begun;
    ``as_of`` asks what was so at a moment, ``lines`` for what tells most in a line.
    ``patience`` is for another process that is indexing, where it is not the call's.
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
    only_current: bool = False
    as_of: datetime | None = None
    lines: bool = False
    patience: WaitPolicy | None = None

    @property
    def uses_vectors(self) -> bool:
        """Whether vectors are asked."""
        return self.mode in ("hybrid", "vector")


class ScoredMemory(NamedTuple):
    """A memory's key in the view, its score, and the parts that add up to it."""

    key: int
    score: float
    parts: dict[str, float]


class Validity(NamedTuple):
    """What is to be said of a memory that is not current; nothing of one that is.

    ``replaced_by`` is the memory that stands in its place by now. ``expired``
    and ``not_yet`` are what its header says of when it ended, or begins.
    ``newer`` is the memId of a newer one about the same thing: what it says may
    be so no longer, but nobody has said that.
    """

    replaced_by: MemoryRecord | None = None
    expired_on: str = ""
    starts_on: str = ""
    newer: str = ""

    @property
    def is_current(self) -> bool:
        """Whether the memory says what is so."""
        return self.replaced_by is None and not self.expired_on and not self.starts_on

    def marks(self) -> dict[str, Any]:
        """Return what a result says of it."""
        said = {
            "supersededBy": self.replaced_by.mem_id if self.replaced_by else "",
            "expired": self.expired_on,
            "notYet": self.starts_on,
            "newer": "" if self.replaced_by else self.newer,
        }
        return {key: value for key, value in said.items() if value}


CURRENT = Validity()


class RecallResult(NamedTuple):
    """A memory that was found, read from its file after it was found.

    ``score`` ranks within one answer. ``chance`` (that the memory answers the
    query), ``similarity`` (calibrated) and ``coverage`` (the share of the query's
    words that the memory holds) mean the same in every answer. ``why`` holds the
    weighted ``parts`` that add up to ``score``, and what they were made of.
    ``is_earlier`` says that the memory is as it was at the moment asked for, and
    another by now. ``line`` is the snippet from the sentence on that tells most,
    where it was asked for. ``vault`` names the memory's vault where several were asked;
    ``sent`` says when another machine sent it, where the files are there.
    """

    memory: Memory
    score: float
    probability: float
    similarity: float
    coverage: float
    title_coverage: float
    snippet: str
    heading: str
    why: dict[str, object]
    standing: Validity = CURRENT
    is_earlier: bool = False
    line: str = ""
    vault: str = ""
    sent: str = ""

    @property
    def in_title(self) -> bool:
        """Say whether a word of the query stands in the title."""
        return self.title_coverage > 0

    @property
    def strength(self) -> Strength:
        """How well the memory fits the query, in a word."""
        if self.probability >= STRONG:
            return "strong"
        return "fair" if self.probability >= FAIR else "weak"


class RecallAnswer(NamedTuple):
    """What was found, best first, and what the caller should be told besides."""

    found: list[RecallResult]
    notes: list[str]

    @property
    def best(self) -> Strength | Literal["none"]:
        """How strong the strongest of what was found is."""
        order: tuple[Strength, ...] = ("strong", "fair", "weak")
        held = {entry.strength for entry in self.found}
        return next((strength for strength in order if strength in held), "none")


def memory_reference(memory: Memory | MemoryRecord) -> dict[str, Any]:
    """Return how a result names a memory."""
    return {"memId": memory.mem_id, "title": memory.title, "filePath": memory.path}
