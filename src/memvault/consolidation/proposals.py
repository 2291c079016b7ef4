"""What consolidation looks at and what it proposes: frozen values, nothing of files."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Container, Sequence
from typing import NamedTuple

from memvault.memories.episodes import Episode, texts
from memvault.model import CATEGORY, EPISODE, Memory

_STEP = re.compile(r"\d+[.)]\s+(.+)")


class ConsolidationInput(NamedTuple):
    """All that the rules look at.

    ``episodes`` are those of the days asked for; ``unused`` the facts and
    episodes of any age that are not archived and were never recalled here;
    ``shared`` the memIds that several files have.
    """

    episodes: Sequence[Episode]
    facts: Sequence[Memory]
    procedures: Sequence[Memory]
    unused: Sequence[Memory]
    shared: frozenset[str] = frozenset()


class NewFact(NamedTuple):
    """A statement that several episodes make; ``wordings`` are those with a word more or less."""

    proposal: str
    text: str
    confidence: float
    episodes: tuple[str, ...]
    category: str = CATEGORY
    wordings: tuple[str, ...] = ()


class NewProcedure(NamedTuple):
    """Actions that several episodes share and that mostly went well."""

    proposal: str
    name: str
    prompt: str
    success_rate: float
    episodes: tuple[str, ...]
    skill: str = ""


class FactMerge(NamedTuple):
    """Two facts that say the same: ``other`` would be archived, superseded by ``kept``."""

    proposal: str
    kept: Memory
    other: Memory


class ArchiveProposal(NamedTuple):
    """A memory for the archive."""

    proposal: str
    memory: Memory
    importance: float


class Contradiction(NamedTuple):
    """Statements of which no two can hold, with the memories that make them, and in what."""

    texts: tuple[str, ...]
    sources: tuple[tuple[str, ...], ...]
    difference: str


class Proposals(NamedTuple):
    """What consolidation would do, and what it can only show."""

    facts: list[NewFact]
    procedures: list[NewProcedure]
    merged: list[FactMerge]
    contradictions: list[Contradiction]
    forgotten: list[ArchiveProposal]

    def only(self, ids: Container[str]) -> Proposals:
        """Return those with these ids; what can only be shown stays."""
        return self._replace(
            facts=[entry for entry in self.facts if entry.proposal in ids],
            procedures=[entry for entry in self.procedures if entry.proposal in ids],
            merged=[entry for entry in self.merged if entry.proposal in ids],
            forgotten=[entry for entry in self.forgotten if entry.proposal in ids],
        )


def origin(memory: Memory) -> list[str]:
    """Return the episodes behind a memory: those that it names, or itself if it is one."""
    if memory.memory_type == EPISODE:
        return [memory.mem_id]
    return texts(memory.metadata.get("episodes"))


def proposal_id(kind: str, *parts: object) -> str:
    """Return the id of a proposal, the same for the same content on every machine."""
    return hashlib.blake2b(repr((kind, parts)).encode(), digest_size=6).hexdigest()


def confidence_of(count: int) -> float:
    """Return how sure a statement is that so many episodes make: 2 give 0.67, 3 0.75, 4 0.8."""
    return round(count / (count + 1), 2)


def steps_of(prompt: str) -> tuple[str, ...]:
    """Return the numbered steps of a prompt; one without has none."""
    found = (_STEP.match(line.strip()) for line in prompt.splitlines())
    return tuple(match[1] for match in found if match)
