"""What consolidation looks at and what it proposes: frozen values, nothing of files."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from memvault.memories.episodes import Episode, number
from memvault.model import Memory

__all__ = [
    "ARCHIVED",
    "Conflict",
    "Fact",
    "Forgotten",
    "Given",
    "Merge",
    "NewFact",
    "NewProcedure",
    "Procedure",
    "Proposals",
    "confidence_of",
    "fact_of",
    "linked",
    "procedure_of",
    "proposal_id",
    "steps_of",
    "told",
]

ARCHIVED = "archived"
_FROM = re.compile(r"\s*^From \[\[[^\n]*\]\]\.?\s*\Z", re.MULTILINE)
_UNLINKED = re.compile(r"[\[\]|#^]")
_STEP = re.compile(r"^\s*\d+[.)]\s+(.+?)\s*$", re.MULTILINE)


class Fact(NamedTuple):
    """A fact of the vault, as its file says; ``proposal`` names what it was made of."""

    mem_id: str
    path: str
    title: str
    text: str
    confidence: float
    modified: str
    archived: bool
    proposal: str
    episodes: tuple[str, ...]
    supersedes: tuple[str, ...]


class Procedure(NamedTuple):
    """A procedure of the vault: its name and the numbered steps of its prompt."""

    name: str
    steps: tuple[str, ...]
    skill: str
    proposal: str


class Given(NamedTuple):
    """All that the rules look at.

    ``episodes`` are those of the days asked for; ``unused`` the facts and
    episodes of any age that are not archived and were never recalled here.
    """

    episodes: Sequence[Episode]
    facts: Sequence[Fact]
    procedures: Sequence[Procedure]
    unused: Sequence[Memory]


class NewFact(NamedTuple):
    """A statement that several episodes make; ``wordings`` are those with a word more or less."""

    proposal: str
    text: str
    confidence: float
    episodes: tuple[str, ...]
    category: str = "general"
    wordings: tuple[str, ...] = ()


class NewProcedure(NamedTuple):
    """Actions that several episodes share and that mostly went well."""

    proposal: str
    name: str
    prompt: str
    success_rate: float
    episodes: tuple[str, ...]
    skill: str = ""


class Merge(NamedTuple):
    """Two facts that say the same: ``other`` would be archived, superseded by ``kept``."""

    proposal: str
    kept: Fact
    other: Fact


class Forgotten(NamedTuple):
    """A memory for the archive."""

    proposal: str
    memory: Memory
    importance: float


class Conflict(NamedTuple):
    """Two statements that cannot both hold, with the memories that make them."""

    texts: tuple[str, str]
    sources: tuple[tuple[str, ...], tuple[str, ...]]
    difference: str


class Proposals(NamedTuple):
    """What consolidation would do, and what it can only show."""

    facts: list[NewFact]
    procedures: list[NewProcedure]
    merged: list[Merge]
    contradictions: list[Conflict]
    forgotten: list[Forgotten]


def proposal_id(kind: str, *parts: object) -> str:
    """Return the id of a proposal, the same for the same content on every machine."""
    return hashlib.blake2b(repr((kind, parts)).encode(), digest_size=6).hexdigest()


def confidence_of(count: int) -> float:
    """Return how sure a statement is that so many episodes make: 2 give 0.67, 3 0.75, 4 0.8."""
    return round(count / (count + 1), 2)


def told(body: str) -> str:
    """Return a body without the closing line that names where it came from."""
    return _FROM.sub("", body).strip()


def linked(text: str, paths: Sequence[str]) -> str:
    """Return a text with a closing line of links to the files that it came from."""
    stems = [PurePosixPath(path).stem for path in paths]
    links = ", ".join(f"[[{stem}]]" for stem in stems if not _UNLINKED.search(stem))
    return f"{text}\n\nFrom {links}" if links else text


def fact_of(memory: Memory) -> Fact:
    """Read a fact; without a number of its own it is held with full confidence."""
    given = memory.metadata
    return Fact(
        memory.mem_id,
        memory.path,
        memory.title,
        told(memory.body),
        number(given.get("confidence"), 1.0),
        memory.modified,
        given.get("status") == ARCHIVED,
        str(given.get("proposal") or ""),
        _texts(given.get("episodes")),
        _texts(given.get("supersedes")),
    )


def steps_of(prompt: str) -> tuple[str, ...]:
    """Return the numbered steps of a prompt."""
    return tuple(_STEP.findall(prompt))


def procedure_of(memory: Memory) -> Procedure:
    """Read a procedure; without numbered steps it has none."""
    given = memory.metadata
    return Procedure(
        memory.title,
        steps_of(told(memory.body)),
        str(given.get("skill_id") or ""),
        str(given.get("proposal") or ""),
    )


def _texts(value: object) -> tuple[str, ...]:
    entries = value if isinstance(value, list) else [value] if value else []
    return tuple(str(entry) for entry in entries)
