"""Report a vault's status: counts, index, embedders, sizes and problems."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Set
from pathlib import Path
from typing import TYPE_CHECKING

from memvault import clock
from memvault.call import Call
from memvault.doctor.file_problems import file_sizes, too_large, unlisted
from memvault.errors import MemvaultError
from memvault.files.user_folders import SETTINGS_FILE
from memvault.index.protocol import EmbedderStatus, MemoryRecord, by_time, latest_first
from memvault.recall.filters import Filters

if TYPE_CHECKING:
    from memvault.results import EmbedderSummary, FileProblem, VaultStatus, WaitingEvents


class _Counts:
    """Sums over all memories; only records with problems are stored."""

    def __init__(self, records: Iterable[MemoryRecord]) -> None:
        self.memories = self.bytes = 0
        self.tags: set[str] = set()
        self.problems: list[MemoryRecord] = []
        self.shared_ids: set[str] = set()
        counts: Counter[str] = Counter()
        latest: dict[str, tuple[str, str]] = {}
        mem_ids: set[str] = set()
        for record in records:
            self.memories += 1
            self.bytes += record.size
            self.tags.update(record.tags)
            if record.problem:
                self.problems.append(record)
            if record.mem_id in mem_ids:
                self.shared_ids.add(record.mem_id)
            mem_ids.add(record.mem_id)
            kind = record.memory_type
            counts[kind] += 1
            latest[kind] = max(latest.get(kind, ("", "")), by_time(record))
        kinds = sorted(counts, key=lambda kind: (counts[kind], latest[kind]), reverse=True)
        self.types = {kind: counts[kind] for kind in kinds}
        """The number of memories by type, highest first; ties are ordered by last change."""


def status(call: Call) -> VaultStatus:
    """Return a vault's counts, index state, embedders, sizes, pending work and problems."""
    totals = call.engine.visit_records(_Counts)
    settings = call.settings
    folder, index = call.index.folder, call.index.status()
    call.notes += index.notes
    if index.unwritable:
        reason = call.hide_paths(index.unwritable)
        call.notes.append(f"the index cannot be written, so recall is slower: {reason}")
    result: VaultStatus = {
        "vault": str(call.root) if call.caller.may_see_paths else call.root.name,
        "memories": totals.memories,
        "types": totals.types,
        "tags": len(totals.tags),
        "index": {
            "state": index.freshness,
            "language": settings.language,
        },
        "embedder": _static_embedder(call, index.static),
        "deep": _transformer_embedder(call, index.transformer),
        "pending": index.static.waiting,
        "events": _waiting_events(call),
        "sizes": {
            "memories": totals.bytes,
            "index": _size(folder) if folder else 0,
            "history": _size(call.root / ".memvault" / "history"),
            "trash": _size(call.root / ".memvault" / "trash"),
        },
        "trash": len(call.store.trash.files()),
        "settings": {
            key: {"value": value, "from": SETTINGS_FILE if name in settings.explicit else "default"}
            for key, name, value in (
                ("language", "language", settings.language),
                ("embedder", "embedder.model", call.hide_paths(settings.embedder.model)),
                ("ignore", "ignore", list(settings.ignore)),
            )
        },
    }
    if folder and call.caller.may_see_paths:
        result["index"]["folder"] = str(folder)
    if "rerank.model" in settings.explicit:
        result["reranker"] = {"name": call.hide_paths(settings.rerank.model)}
    problems: list[FileProblem] = [
        {"filePath": record.path, "problem": record.problem}
        for record in latest_first(totals.problems)
    ]
    problems += _shared_ids(call, totals.shared_ids)
    problems += [*too_large(call.root), *unlisted(call, index.unlisted)]
    if problems:
        result["problems"] = problems
    return result


def _waiting_events(call: Call) -> WaitingEvents:
    """Return the events in the agent's inbox, the oldest of them, and its next plan."""
    from memvault.agents.messages.inbox import Inbox

    result: WaitingEvents = {"waiting": 0}
    try:
        events = Inbox(call.root, call.address).waiting().events
        result["waiting"] = len(events)
        if events:
            result["since"] = min(event.timestamp for event in events)
        if due := call.plans.next_due():
            result |= {"nextPlan": clock.iso(due), "planIsDue": due <= clock.now()}
    except MemvaultError as error:  # for example, a link instead of a folder
        call.notes.append(f"events or plans cannot be read: {error.message}")
    return result


def _static_embedder(call: Call, static: EmbedderStatus) -> EmbedderSummary:
    """Return the state of the built-in static embedder."""
    if static.problem:
        return {"name": static.name, "problem": call.hide_paths(static.problem)}
    return {
        "name": static.name,
        "version": static.version,
        "dimension": static.dimension,
        "vectors": static.vectors,
    }


def _transformer_embedder(call: Call, transformer: EmbedderStatus) -> EmbedderSummary:
    """Return the transformer's state, such as how many memories it has yet to embed."""
    entry: EmbedderSummary = {"name": call.hide_paths(transformer.name), "mode": transformer.mode}
    if transformer.mode == "off":
        return entry
    if transformer.version:
        entry["version"], entry["dimension"] = transformer.version, transformer.dimension
    entry["vectors"] = transformer.vectors
    entry["waiting"] = transformer.waiting
    entry["working"] = transformer.is_running
    if transformer.waiting:
        entry["passages"] = transformer.passages
        entry["waitingPassages"] = transformer.waiting_passages
        if transformer.seconds_left:
            entry["secondsLeft"] = max(1, round(transformer.seconds_left))
    if transformer.process:
        entry["process"], entry["since"] = transformer.process, transformer.since
    if transformer.problem:
        entry["problem"] = call.hide_paths(transformer.problem)
    return entry


def _shared_ids(call: Call, shared_ids: Set[str]) -> list[FileProblem]:
    """Return the files that share a memId and are therefore distinguished only by their paths."""
    if not shared_ids:
        return []
    sharing: dict[str, list[str]] = {}
    records = call.engine.list_records(Filters(passes=lambda record: record.mem_id in shared_ids))
    for record in sorted(records, key=lambda record: record.path):
        sharing.setdefault(record.mem_id, []).append(record.path)
    return [
        {
            "filePath": path,
            "problem": f"has the same memory id ({mem_id}) as {', '.join(others[:9])}",
        }
        for mem_id, (path, *others) in sharing.items()
        if others
    ]


def _size(folder: Path) -> int:
    return sum(size for _, size in file_sizes(folder))
