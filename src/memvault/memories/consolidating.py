"""Reading what consolidation looks at, and writing what it proposes.

Each proposal is one file created or changed. One cut off half way has written
some of them whole; the next run proposes the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache, partial
from typing import Any, NamedTuple

from memvault import clock
from memvault.errors import Conflict, MemvaultError, NotFound
from memvault.memories import adding, episodes
from memvault.memories.proposals import (
    ARCHIVED,
    Given,
    NewFact,
    NewProcedure,
    Proposals,
    fact_of,
    linked,
    procedure_of,
)
from memvault.memories.statements import Alike
from memvault.model import Memory
from memvault.recall.engine import Engine
from memvault.recall.filters import Filters
from memvault.vault.lock import FileLock
from memvault.vault.store import Store, private_folder

__all__ = ["SOURCE", "Writing", "alike", "apply", "gathered", "lock"]

SOURCE = "consolidation"
_FACT, _PROCEDURE = "fact", "procedure"


class Writing(NamedTuple):
    """What was written, by the ids of the proposals, and what was passed over, and why."""

    written: dict[str, Memory]
    passed_over: list[str]


def lock(store: Store) -> FileLock:
    """Return the lock that is held while proposals are worked out and applied."""
    return FileLock(private_folder(store.root) / "consolidation.lock", timeout=120.0)


def gathered(
    store: Store, engine: Engine, counts: Mapping[str, int], days: int, now: datetime
) -> tuple[Given, dict[str, Memory]]:
    """Read what the rules look at; also return the episodes' and facts' memories by memId."""
    kinds: dict[str, list[Memory]] = {
        kind: list(_read(store, engine, kind)) for kind in (episodes.TYPE, _FACT, _PROCEDURE)
    }
    since = _ago(now, days)
    recent = [memory for memory in kinds[episodes.TYPE] if _moment(memory) >= since]
    dated = [*kinds[episodes.TYPE], *kinds[_FACT]]
    given = Given(
        [episodes.episode_of(memory) for memory in recent],
        [fact_of(memory) for memory in kinds[_FACT]],
        [procedure_of(memory) for memory in kinds[_PROCEDURE]],
        [
            memory
            for memory in dated
            if memory.metadata.get("status") != ARCHIVED and not counts.get(memory.mem_id)
        ],
    )
    return given, {memory.mem_id: memory for memory in dated}


def _ago(now: datetime, days: int) -> datetime:
    try:
        return now - timedelta(days=days)
    except OverflowError:
        return datetime.min.replace(tzinfo=now.tzinfo)


def _moment(memory: Memory) -> datetime:
    return clock.parse(memory.created) or clock.now()


def _read(store: Store, engine: Engine, kind: str) -> Iterator[Memory]:
    """Yield the memories of a type by their paths; what cannot be read as meant is left out."""
    records = engine.listed(Filters(memory_type=kind))
    for record in sorted(records, key=lambda record: record.path):
        try:
            memory = store.read(record.path)
        except NotFound:  # gone since the index looked
            continue
        if memory.memory_type == kind and not memory.problem:
            yield memory


def alike() -> Alike:
    """Return the built-in embedder's similarity, loaded when it is first asked for."""

    @cache
    def table() -> Any:
        from memvault.index.embed_static import StaticEmbedder

        return StaticEmbedder()

    @cache
    def similarity(first: str, second: str) -> float:
        vectors = table().embed([first, second])
        return float(table().calibration.similarity(float(vectors[0] @ vectors[1])))

    return lambda first, second: similarity(*sorted((first, second)))


def apply(store: Store, proposals: Proposals, known: Mapping[str, Memory]) -> Writing:
    """Write proposals one by one; what was changed meanwhile is passed over.

    Raises:
        MemvaultError: the vault cannot be written; ``written`` in its details
            are the paths that were.
    """
    written: dict[str, Memory] = {}
    passed_over: list[str] = []
    for proposal, write in _writes(store, proposals, known):
        try:
            written[proposal] = write()
        except (Conflict, NotFound) as error:
            passed_over.append(error.message)
        except MemvaultError as error:
            error.details.update(written=[memory.path for memory in written.values()])
            raise
    return Writing(written, passed_over)


def _writes(
    store: Store, proposals: Proposals, known: Mapping[str, Memory]
) -> Iterator[tuple[str, Callable[[], Memory]]]:
    for fact in proposals.facts:
        yield fact.proposal, partial(_add_fact, store, fact, known)
    for procedure in proposals.procedures:
        yield procedure.proposal, partial(_add_procedure, store, procedure, known)
    for merge in proposals.merged:
        header = {"superseded_by": merge.kept.mem_id}
        yield merge.proposal, partial(_archive, store, known[merge.other.mem_id], header)
    for gone in proposals.forgotten:
        yield gone.proposal, partial(_archive, store, gone.memory, {})


def _add_fact(store: Store, new: NewFact, known: Mapping[str, Memory]) -> Memory:
    header = {
        "category": new.category,
        "confidence": new.confidence,
        "source": SOURCE,
        "episodes": list(new.episodes),
        "proposal": new.proposal,
    }
    body = linked(new.text, _paths(new.episodes, known))
    return adding.add(store, adding.title_of(new.text), body, _FACT, header)


def _add_procedure(store: Store, new: NewProcedure, known: Mapping[str, Memory]) -> Memory:
    header: dict[str, Any] = {
        "success_rate": new.success_rate,
        "usage_count": len(new.episodes),
        "source": SOURCE,
        "episodes": list(new.episodes),
        "proposal": new.proposal,
    }
    if new.skill:
        header["skill_id"] = new.skill
    body = linked(new.prompt, _paths(new.episodes, known))
    return adding.add(store, new.name, body, _PROCEDURE, header)


def _paths(ids: Sequence[str], known: Mapping[str, Memory]) -> list[str]:
    return [known[mem_id].path for mem_id in ids if mem_id in known]


def _archive(store: Store, memory: Memory, header: Mapping[str, Any]) -> Memory:
    """Mark a memory as archived; it stays where it is, and its earlier bytes are kept."""
    stamp = {"modified": clock.iso()} if "modified" in memory.metadata else {}
    return store.change(memory, {"status": ARCHIVED, **header, **stamp}, None).memory
