"""The input and the proposals of consolidation, as immutable values independent of files."""

from __future__ import annotations

import re
from collections.abc import Container, Sequence

from memvault.experience.episodes import Episode, texts
from memvault.files.plain_files import digest_of
from memvault.model import CATEGORY, EPISODE, Memory
from memvault.named_tuple import NamedTuple

_STEP = re.compile(r"\d+[.)]\s+(.+)")


class ConsolidationInput(NamedTuple):
    """The input to the consolidation rules.

    ``episodes`` contains the episodes of the requested days. ``unused`` are facts and episodes of
    any age that are not archived and were never recalled on this machine. ``shared`` contains
    memIds that more than one file has.
    """

    episodes: Sequence[Episode]
    facts: Sequence[Memory]
    procedures: Sequence[Memory]
    unused: Sequence[Memory]
    shared: frozenset[str] = frozenset()


class Quote(NamedTuple):
    """A sentence or an action as worded in an episode."""

    text: str
    episode: str


class NewFact(NamedTuple):
    """A statement in several episodes; ``wordings`` contains its paraphrases.

    ``supersedes`` contains the memIds of facts that it contradicts in later episodes.
    """

    proposal: str
    text: str
    confidence: float
    episodes: tuple[str, ...]
    category: str = CATEGORY
    wordings: tuple[str, ...] = ()
    quotes: tuple[Quote, ...] = ()
    supersedes: tuple[str, ...] = ()


class NewProcedure(NamedTuple):
    """A mostly successful sequence of actions that several episodes share.

    ``quotes`` contains its steps as worded in each episode. ``varies`` contains the actions between
    the steps that at most half of the episodes have. ``reordered`` contains the ids of the episodes
    whose steps are in a different order.
    """

    proposal: str
    name: str
    prompt: str
    success_rate: float
    episodes: tuple[str, ...]
    skill: str = ""
    quotes: tuple[Quote, ...] = ()
    varies: tuple[Quote, ...] = ()
    reordered: tuple[str, ...] = ()


class FactMerge(NamedTuple):
    """Two equivalent facts: ``other`` is archived and superseded by ``kept``."""

    proposal: str
    kept: Memory
    other: Memory


class ArchiveProposal(NamedTuple):
    """A memory to archive."""

    proposal: str
    memory: Memory
    importance: float


class Contradiction(NamedTuple):
    """Contradictory statements, the memories that contain them, and the difference.

    ``current`` is the latest statement, if the times are known.
    """

    texts: tuple[str, ...]
    sources: tuple[tuple[str, ...], ...]
    difference: str
    current: str = ""


class Proposals(NamedTuple):
    """The proposed changes, and contradictions, which are only reported."""

    facts: list[NewFact]
    procedures: list[NewProcedure]
    merged: list[FactMerge]
    contradictions: list[Contradiction]
    forgotten: list[ArchiveProposal]

    def ids(self) -> list[str]:
        """Return the ids of the proposals; contradictions have none."""
        groups = (self.facts, self.procedures, self.merged, self.forgotten)
        return [entry.proposal for group in groups for entry in group]

    def only(self, ids: Container[str]) -> Proposals:
        """Return the proposals with these ids, and all contradictions."""
        return self._replace(
            facts=[entry for entry in self.facts if entry.proposal in ids],
            procedures=[entry for entry in self.procedures if entry.proposal in ids],
            merged=[entry for entry in self.merged if entry.proposal in ids],
            forgotten=[entry for entry in self.forgotten if entry.proposal in ids],
        )


def origin(memory: Memory) -> list[str]:
    """Return a memory's source episodes: the episodes in its header, or the episode itself."""
    if memory.memory_type == EPISODE:
        return [memory.mem_id]
    return texts(memory.metadata.get("episodes"))


def proposal_id(kind: str, *parts: object) -> str:
    """Return a proposal's id, which is the same for the same content on every machine."""
    return digest_of(repr((kind, parts)).encode(), 6).hex()


def confidence_of(count: int) -> float:
    """Return a statement's confidence: 0.67 for 2 episodes, 0.75 for 3, and 0.8 for 4."""
    return round(count / (count + 1), 2)


def steps_of(prompt: str) -> tuple[str, ...]:
    """Return the numbered steps of a prompt; empty if it has none."""
    matches = (_STEP.match(line.strip()) for line in prompt.splitlines())
    return tuple(match[1] for match in matches if match)
