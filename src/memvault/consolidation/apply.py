"""Read the input of consolidation, and write accepted proposals.

Each proposal creates or changes one file. Locks are acquired in this order: consolidation,
procedures, vault. An interrupted run leaves only complete files; the next run proposes the rest.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from typing import Any

from memvault import clock
from memvault.consolidation.proposals import (
    ConsolidationInput,
    NewFact,
    NewProcedure,
    Proposals,
)
from memvault.errors import Conflict, MemvaultError, NotFound
from memvault.experience import episodes, facts, procedures
from memvault.experience.episodes import Episode
from memvault.experience.procedures import Procedure
from memvault.experience.provenance import Provenance
from memvault.experience.search import ARCHIVED, is_archived, readable
from memvault.files.lock import FileLock
from memvault.index.protocol import MemoryRecord
from memvault.memories import edit
from memvault.model import Memory
from memvault.named_tuple import NamedTuple
from memvault.recall import recall_counts
from memvault.recall.recall_engine import RecallEngine
from memvault.store.memory_store import MemoryStore
from memvault.store.secret_policy import SecretRejected
from memvault.vault.private_folder import private_folder

SOURCE = "consolidation"


class ApplyResult(NamedTuple):
    """The written memories by proposal id, and messages about skipped proposals."""

    written: dict[str, Memory]
    skipped: list[str]


def locked(store: MemoryStore, engine: RecallEngine) -> AbstractContextManager[None]:
    """Hold the lock under which proposals are computed and applied."""
    lock = FileLock(private_folder(store.root) / "consolidation.lock", timeout=120.0)
    return engine.fresh_under(lock)


def load_input(
    store: MemoryStore, engine: RecallEngine, days: int, now: datetime
) -> ConsolidationInput:
    """Read the input of the rules, with the episodes of the last ``days``."""
    counts = recall_counts.counts(store.root)
    kinds = (episodes.TYPE, facts.TYPE, procedures.TYPE)
    files, records = engine.visit_records(lambda every: _count_and_select(every, kinds))
    found_episodes, found_facts, found_procedures = (list(_read(store, records, k)) for k in kinds)
    max_age = now - datetime.min.replace(tzinfo=now.tzinfo)
    since = clock.iso(now - min(timedelta(days=days), max_age))
    unused = [
        memory
        for memory in (*found_episodes, *found_facts)
        if not is_archived(memory.metadata) and not counts.get(memory.mem_id)
    ]
    return ConsolidationInput(
        [episodes.episode_of(memory) for memory in found_episodes if memory.created >= since],
        found_facts,
        found_procedures,
        unused,
        frozenset(mem_id for mem_id, count in files.items() if count > 1),
    )


def _count_and_select(
    records: Iterable[MemoryRecord], kinds: Container[str]
) -> tuple[Counter[str], list[MemoryRecord]]:
    """Return the number of files by memId, and the records of these types, sorted by path."""
    files: Counter[str] = Counter()
    selected = []
    for record in records:
        files[record.mem_id] += 1
        if record.memory_type in kinds:
            selected.append(record)
    return files, sorted(selected, key=lambda record: record.path)


def _read(store: MemoryStore, records: Iterable[MemoryRecord], kind: str) -> Iterator[Memory]:
    """Yield the memories of a type, in the order of their records; skip unreadable ones."""
    for memory in readable(store, (record for record in records if record.memory_type == kind)):
        if memory.memory_type == kind and not memory.problem:
            yield memory


def propose(
    store: MemoryStore,
    engine: RecallEngine,
    inputs: ConsolidationInput,
    extra: tuple[list[NewFact], list[NewProcedure]] | None = None,
) -> tuple[Proposals, str]:
    """Return the proposals, and the reason if no transformer could compare statements.

    ``extra`` contains the proposals of an extractor, which replace those found by meaning.
    """
    from memvault.consolidation import rules
    from memvault.index.embedding.text_clustering import open_meaning
    from memvault.index.text.analyzer import analyzer

    language = analyzer(engine.languages()[0])
    meaning, note = (None, "") if extra else open_meaning(store.settings, store.root)
    return rules.propose(inputs, language, clock.now(), extra, meaning), note


def apply_proposals(
    store: MemoryStore, engine: RecallEngine, proposals: Proposals, all_episodes: Sequence[Episode]
) -> ApplyResult:
    """Write proposals one by one, skipping those whose memories have changed.

    ``all_episodes`` contains the episodes that written memories may link to.

    Raises:
        MemvaultError: if the vault is not writable; ``written`` in its details lists the written
        paths.
    """
    written: dict[str, Memory] = {}
    skipped: list[str] = []
    paths = {episode.episode_id: episode.path for episode in all_episodes}

    def origin(new: NewFact | NewProcedure) -> Provenance:
        linked = tuple(paths[mem_id] for mem_id in new.episodes if mem_id in paths)
        supersedes = new.supersedes if isinstance(new, NewFact) else ()
        return Provenance(new.episodes, linked, new.proposal, supersedes)

    def write(proposal: str, make: Callable[..., Memory], *values: object) -> None:
        try:
            written[proposal] = make(store, *values)
        except (Conflict, NotFound, SecretRejected) as error:
            skipped.append(error.message)
        except MemvaultError as error:
            error.details.update(written=[memory.path for memory in written.values()])
            raise

    for fact in proposals.facts:
        values = (fact.text, fact.category, fact.confidence, SOURCE, origin(fact))
        write(fact.proposal, facts.add, *values)
    if proposals.procedures:
        with procedures.held(store, engine) as held:
            for new in proposals.procedures:
                numbers = (new.success_rate, len(new.episodes))
                made = Procedure("", new.name, new.prompt, *numbers, new.skill)
                write(new.proposal, procedures.add, held, made, SOURCE, origin(new))
    for merge in proposals.merged:
        write(merge.proposal, _archive, merge.other, {"superseded_by": merge.kept.mem_id})
    for proposal_to_archive in proposals.forgotten:
        write(proposal_to_archive.proposal, _archive, proposal_to_archive.memory, {})
    return ApplyResult(written, skipped)


def prune_counts(store: MemoryStore, engine: RecallEngine) -> None:
    """Delete the recall counts of deleted memories; errors are ignored."""
    with contextlib.suppress(MemvaultError, OSError, MemoryError):
        mem_ids = engine.visit_records(lambda records: {record.mem_id for record in records})
        recall_counts.prune(store.root, mem_ids)


def _archive(store: MemoryStore, memory: Memory, header: Mapping[str, Any]) -> Memory:
    """Mark a memory as archived, keeping its file in place and its earlier bytes as a revision."""
    changes = {"status": ARCHIVED, **header, **edit.modified_now(memory)}
    return store.change(memory, changes, None).memory
