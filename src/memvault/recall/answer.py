"""Values passed between the stages of a recall."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Literal, cast

from memvault.index.protocol import MemoryRecord, WaitPolicy
from memvault.model import Memory
from memvault.named_tuple import NamedTuple
from memvault.recall.filters import Filters

if TYPE_CHECKING:
    from memvault.results import MemoryCandidate, MemoryReference, ValidityMarks

Strength = Literal["strong", "fair", "weak"]
STRONG, FAIR = 0.8, 0.25
"""Minimum match probabilities of a strong and of a fair answer. A first result rated fair is more
likely right than wrong: see "Strength" in docs/development/quality.md.
"""
RELEVANT = 0.08
"""The minimum match probability of a relevant result."""


class RecallRequest(NamedTuple):
    """A recall's parameters. ``mode`` is hybrid, keyword, vector or tag.

    With ``rerank`` a cross-encoder reorders the best results. Without ``diverse``, memories that
    repeat a better result or were superseded keep their score and rank. ``threshold`` is the
    minimum match probability; ``strict`` omits irrelevant results. ``specific`` also omits the
    results of a query that would fit any vault, such as "run the tests again";
    ``marks_specific`` sets ``RecallResult.is_specific`` instead. ``only_current`` omits memories
    that are superseded, expired or not yet valid. ``as_of`` searches the vault as it
    was at that time. ``lines`` adds a one-line excerpt to each result, starting at its most
    relevant sentence. Quoted phrases that no memory contains are searched as plain words, unless
    ``exact`` is set. ``unmerged`` also searches memories that exist only in other git worktrees.
    ``patience`` overrides how long to wait for another process that is indexing.
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
    specific: bool = False
    marks_specific: bool = False
    only_current: bool = False
    as_of: datetime | None = None
    lines: bool = False
    exact: bool = False
    unmerged: bool = False
    patience: WaitPolicy | None = None

    @property
    def uses_vectors(self) -> bool:
        """Return whether the search uses vectors."""
        return self.mode in ("hybrid", "vector")


class ScoredMemory(NamedTuple):
    """A memory's uid in the view, its score, and the parts that add up to the score."""

    uid: int
    score: float
    parts: dict[str, float]

    def scaled(self, factor: float) -> ScoredMemory:
        """Return this memory with its score and all parts multiplied by a factor."""
        parts = {name: factor * part for name, part in self.parts.items()}
        return self._replace(score=factor * self.score, parts=parts)

    def plus(self, part: str, amount: float) -> ScoredMemory:
        """Return this memory with an amount added to its score as a named part."""
        parts = {**self.parts, part: self.parts.get(part, 0.0) + amount}
        return self._replace(score=self.score + amount, parts=parts)


class Validity(NamedTuple):
    """The reasons why a memory is not current; all fields are empty for a current memory.

    ``replaced_by`` is the memory that currently supersedes it, at the end of the chain.
    ``expired_on`` and ``starts_on`` are the header values for the end or start of its validity.
    ``newer`` is the memId of a newer memory about the same subject, which may make this one
    obsolete although no header says so.
    """

    replaced_by: MemoryRecord | None = None
    expired_on: str = ""
    starts_on: str = ""
    newer: str = ""

    @property
    def is_current(self) -> bool:
        """Return whether the memory is valid and not superseded."""
        return self.replaced_by is None and not self.expired_on and not self.starts_on

    def marks(self) -> ValidityMarks:
        """Return the non-empty keys that a result shows for this validity."""
        values = {
            "supersededBy": self.replaced_by.mem_id if self.replaced_by else "",
            "expired": self.expired_on,
            "notYet": self.starts_on,
            "newer": "" if self.replaced_by else self.newer,
        }
        return cast("ValidityMarks", {key: value for key, value in values.items() if value})


CURRENT = Validity()


class RecallResult(NamedTuple):
    """A result: a memory as read from its file after the search.

    ``score`` orders the results of one answer. ``probability`` (that the memory answers the query),
    ``similarity`` (calibrated) and ``coverage`` (the share of the query's words in the memory) are
    comparable between answers. ``why`` contains the weighted ``parts`` that add up to ``score``,
    and their raw values. ``is_earlier`` is true if an earlier version is shown and the memory has
    changed since. ``line`` is the snippet starting at its most relevant sentence, if requested;
    ``line_number`` is the line number in the file where the snippet begins. ``vault`` is the
    memory's vault if several were searched. ``sent`` is when another machine published the memory,
    if its file is on that machine. ``branch`` is the memory's git branch if this worktree
    does not contain the memory. ``is_specific`` is whether the memory is relevant and the query
    would not fit any vault; it is None unless the request asked for it.
    """

    memory: Memory
    score: float
    probability: float
    similarity: float
    coverage: float
    title_coverage: float
    snippet: str
    why: dict[str, object]
    validity: Validity = CURRENT
    is_earlier: bool = False
    line: str = ""
    line_number: int = 1
    vault: str = ""
    sent: str = ""
    branch: str = ""
    is_specific: bool | None = None

    @property
    def parts(self) -> dict[str, float]:
        """Return the named parts that add up to the score."""
        return cast("dict[str, float]", self.why["parts"])

    def demoted(self, part: str, factor: float) -> RecallResult:
        """Multiply the score by a factor; the reduction becomes a named part."""
        loss = self.score * (1.0 - factor)
        why = {**self.why, "parts": {**self.parts, part: round(-loss, 4)}}
        return self._replace(score=self.score - loss, why=why)

    @property
    def in_title(self) -> bool:
        """Return whether the title contains a word in the query."""
        return self.title_coverage > 0

    @property
    def is_relevant(self) -> bool:
        """Return whether the memory is likely to answer the query."""
        return self.probability >= RELEVANT

    @property
    def strength(self) -> Strength:
        """Return the category of the match probability."""
        if self.probability >= STRONG:
            return "strong"
        return "fair" if self.probability >= FAIR else "weak"


def by_probability(results: Sequence[RecallResult]) -> list[RecallResult]:
    """Sort results by probability, keeping an older memory after a newer one on the same subject.

    Memories that are not current come last.
    """
    probabilities = {entry.memory.mem_id: entry.probability for entry in results}

    def order(entry: RecallResult) -> tuple[bool, float, bool]:
        newer = entry.validity.newer
        probability = min(entry.probability, probabilities.get(newer, 1.0))
        return not entry.validity.is_current, -probability, bool(newer)

    return sorted(results, key=order)  # A stable sort: equal results keep their rank.


class RecallAnswer(NamedTuple):
    """The results, best first, and notes for the caller."""

    found: list[RecallResult]
    notes: list[str]

    @property
    def best(self) -> Strength | Literal["none"]:
        """Return the strength of the strongest result; none if no memory may answer the query."""
        if not any(entry.is_relevant for entry in self.found):
            return "none"
        order: tuple[Strength, ...] = ("strong", "fair", "weak")
        strengths = {entry.strength for entry in self.found}
        return next((strength for strength in order if strength in strengths), "none")


def memory_reference(memory: Memory | MemoryRecord) -> MemoryReference:
    """Return the keys that identify a memory in a result."""
    return {"memId": memory.mem_id, "title": memory.title, "filePath": memory.path}


def memory_candidate(memory: Memory | MemoryRecord) -> MemoryCandidate:
    """Return the keys that tell apart memories that match the same name."""
    return {**memory_reference(memory), "memoryType": memory.memory_type}
