"""Compute vault statistics: growth, activity, links, recalls, and stale memories."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING

from memvault import clock
from memvault.agents import receipts
from memvault.call import Call
from memvault.index.protocol import MemoryRecord, View
from memvault.model import is_document, is_example
from memvault.named_tuple import NamedTuple
from memvault.recall import recall_counts
from memvault.recall.answer import memory_reference

if TYPE_CHECKING:
    from memvault.results import CountedMemory, NamedCount, VaultStatistics

_MONTHS, _DAYS = 12, 30
_LISTED = 10
_OFTEN = 3
"""How often agents must have been given a memory without using it for the statistics to list it."""
_STALE_DAYS = 365
"""Days after which a memory that was neither changed nor recalled counts as stale."""


class Activity(NamedTuple):
    """What this machine recorded: recalls by memId, ``receipts.unused``, and changes by day."""

    recalls: Mapping[str, int]
    unused: Mapping[tuple[str, str], int]
    days: list[NamedCount]


def activity(call: Call) -> Activity:
    """Read the part of the statistics that changes without the memories."""
    return Activity(
        recall_counts.counts(call.root), receipts.unused(call.root, _OFTEN), _days(call)
    )


def statistics(call: Call) -> VaultStatistics:
    """Return a vault's statistics; examples and documents are not counted."""
    recorded = activity(call)
    return call.engine.on_view(lambda view: _statistics(call, view, recorded))


def _statistics(call: Call, view: View, recorded: Activity) -> VaultStatistics:
    stored = list(view.records())
    records = {
        record.uid: record
        for record in stored
        if not is_example(record.metadata) and not is_document(record.path)
    }
    links = Counter[int]()
    linked: set[int] = set()
    for link in call.link_graph(view, stored).indexed():
        links[link.target] += 1
        linked |= {link.source, link.target}
    recalls = recorded.recalls
    every = list(records.values())
    current = call.engine.validities(every)
    stale = _stale(every, recalls)
    by_id = {record.mem_id: record for record in every}
    current_files = {(record.mem_id, record.etag): record for record in every}
    recalled = Counter({mem_id: recalls[mem_id] for mem_id in by_id.keys() & recalls.keys()})
    return {
        "memories": len(every),
        "bytes": sum(record.size for record in every),
        "links": links.total(),
        "unlinked": len(records.keys() - linked),
        "superseded": sum(validity.replaced_by is not None for validity in current),
        "expired": sum(bool(validity.expired_on) for validity in current),
        "stale": len(stale),
        "types": _counted(Counter(record.memory_type for record in every)),
        "tags": _counted(Counter(tag for record in every for tag in record.tags)),
        "months": _months(every),
        "days": recorded.days,
        "mostLinked": [
            _memory(records[key], count) for key, count in links.most_common() if key in records
        ][:_LISTED],
        "mostRecalled": [
            _memory(by_id[mem_id], count) for mem_id, count in recalled.most_common(_LISTED)
        ],
        "mostUnused": [
            _memory(current_files[memory], count)
            for memory, count in recorded.unused.items()
            if memory in current_files
        ][:_LISTED],
        "oldest": [_memory(record, recalls.get(record.mem_id, 0)) for record in stale[:_LISTED]],
    }


def _memory(record: MemoryRecord, count: int) -> CountedMemory:
    return {**memory_reference(record), "modified": record.modified, "count": count}


def _counted(counts: Counter[str]) -> list[NamedCount]:
    return [{"name": name, "count": count} for name, count in counts.most_common(_LISTED)]


def _months(records: Iterable[MemoryRecord]) -> list[NamedCount]:
    """Return the number of memories at the end of each of the last ``_MONTHS`` months."""
    created = Counter(clock.local(record.created)[:7] for record in records)
    day = clock.today().replace(day=1)
    names = []
    for _ in range(_MONTHS):
        names.append(day.strftime("%Y-%m"))
        day = (day - timedelta(days=1)).replace(day=1)
    return [
        {"name": name, "count": sum(n for month, n in created.items() if month <= name)}
        for name in reversed(names)
    ]


def _days(call: Call) -> list[NamedCount]:
    """Return the number of changes by tools on each of the last ``_DAYS`` days."""
    first = clock.today() - timedelta(days=_DAYS - 1)
    changes: Counter[str] = Counter()
    for change in call.store.changes.journal.changes():
        day = clock.local(change.when)
        if day < first.isoformat():
            break
        changes[day] += 1
    days = ((first + timedelta(days=number)).isoformat() for number in range(_DAYS))
    return [{"name": day, "count": changes[day]} for day in days]


def _stale(records: Iterable[MemoryRecord], recalls: Mapping[str, int]) -> list[MemoryRecord]:
    """Return the memories that were neither changed for a year nor recalled, oldest first."""
    limit = clock.iso(clock.now() - timedelta(days=_STALE_DAYS))
    stale = [
        record for record in records if record.modified < limit and record.mem_id not in recalls
    ]
    return sorted(stale, key=lambda record: record.modified)
