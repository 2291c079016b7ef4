"""Compute vault statistics: growth, activity, links, recalls, and stale memories."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Set
from datetime import timedelta
from itertools import groupby, islice
from typing import TYPE_CHECKING, TypeVar

from memvault import clock
from memvault.agents import receipts
from memvault.call import Call
from memvault.index.protocol import MemoryRecord, View
from memvault.memories.link_graph import LinkGraph
from memvault.model import is_document, is_example
from memvault.named_tuple import NamedTuple
from memvault.recall import recall_counts
from memvault.recall.answer import memory_reference
from memvault.recall.validity import ValidityChecker

if TYPE_CHECKING:
    from memvault.results import CountedMemory, NamedCount, VaultStatistics

Key = TypeVar("Key")

_MONTHS, _DAYS = 12, 30
_LISTED = 10
_OFTEN = 3
"""How often agents must have been given a memory without using it for the statistics to list it."""
_STALE_DAYS = 365
"""Days after which a memory that was neither changed nor recalled counts as stale."""
_MAX_SORTED = 1_000
"""The number of stale memories to collect before all but the oldest are dropped."""


class Activity(NamedTuple):
    """Data recorded on this machine: recalls by memId, ``receipts.unused``, and changes by day."""

    recalls: Mapping[str, int]
    unused: Mapping[tuple[str, str], int]
    days: list[NamedCount]


def activity(call: Call) -> Activity:
    """Read the statistics that can change even if no memory does."""
    return Activity(
        recall_counts.counts(call.root), receipts.unused(call.root, _OFTEN), _days(call)
    )


class _Totals:
    """Sums over all memories; only the memories to list are stored."""

    def __init__(self) -> None:
        self.memories = self.bytes = self.unlinked = self.superseded = self.expired = self.stale = 0
        self.types, self.tags, self.months = Counter[str](), Counter[str](), Counter[str]()
        self.recalled: dict[str, int] = {}
        """The uid of each recalled memory by memId."""
        self.unused: dict[tuple[str, str], int] = {}
        """The uid of each unused memory by memId and etag."""
        self.oldest: list[MemoryRecord] = []
        """The memories that were neither changed for a year nor recalled, oldest first."""


def statistics(call: Call) -> VaultStatistics:
    """Return a vault's statistics; examples and documents are not counted."""
    recorded = activity(call)
    return call.engine.on_view(lambda view: _statistics(view, recorded))


def _statistics(view: View, recorded: Activity) -> VaultStatistics:
    backlinks = Counter[int]()
    linked: set[int] = set()
    graph = LinkGraph.without_unlinked(view, view.record)
    total = 0
    for source, links in groupby(graph.indexed(), lambda link: link.source):
        targets = [(link.target, link.stored.key, link.stored.line) for link in links]
        total += len(targets)
        # Count lines, like the list of a memory's backlinks.
        backlinks.update(target for target, *_ in set(targets))
        linked |= {source, *(target for target, *_ in targets)}
    totals = view.visit_records(lambda records: _totals(view, records, recorded, linked))
    recalls = recorded.recalls
    recalled = {mem_id: recalls[mem_id] for mem_id in totals.recalled}
    return {
        "memories": totals.memories,
        "bytes": totals.bytes,
        "links": total,
        "unlinked": totals.unlinked,
        "superseded": totals.superseded,
        "expired": totals.expired,
        "stale": totals.stale,
        "types": _counted(totals.types),
        "tags": _counted(totals.tags),
        "months": _months(totals.months),
        "days": recorded.days,
        "mostLinked": _listed(view, _ranked(backlinks, lambda uid: graph.entries[uid].path)),
        "mostRecalled": _listed(
            view, ((totals.recalled[mem_id], n) for mem_id, n in _ranked(recalled, str)[:_LISTED])
        ),
        "mostUnused": _listed(
            view, ((totals.unused[m], n) for m, n in recorded.unused.items() if m in totals.unused)
        ),
        "oldest": [_memory(record, recalls.get(record.mem_id, 0)) for record in totals.oldest],
    }


def _totals(
    view: View, records: Iterable[MemoryRecord], recorded: Activity, linked: Set[int]
) -> _Totals:
    """Return the sums over records; ``linked`` contains the uids of memories with a link."""
    totals = _Totals()
    checker = ValidityChecker(view, clock.now())
    limit = clock.iso(clock.now() - timedelta(days=_STALE_DAYS))
    for record in filter(_is_counted, records):
        totals.memories += 1
        totals.bytes += record.size
        totals.unlinked += record.uid not in linked
        totals.types[record.memory_type] += 1
        for tag in record.tags:
            totals.tags[tag] += 1
        totals.months[clock.local(record.created)[:7]] += 1
        validity = checker.check(record)
        totals.superseded += validity.replaced_by is not None
        totals.expired += bool(validity.expired_on)
        if record.mem_id in recorded.recalls:
            totals.recalled[record.mem_id] = record.uid
        elif record.modified < limit:
            totals.stale += 1
            totals.oldest.append(record)
            if len(totals.oldest) == _MAX_SORTED:
                totals.oldest = _oldest(totals.oldest)
        if (record.mem_id, record.etag) in recorded.unused:
            totals.unused[record.mem_id, record.etag] = record.uid
    totals.oldest = _oldest(totals.oldest)
    return totals


def _is_counted(record: MemoryRecord) -> bool:
    return not is_example(record.metadata) and not is_document(record.path)


def _oldest(records: Iterable[MemoryRecord]) -> list[MemoryRecord]:
    return sorted(records, key=lambda record: (record.modified, record.path))[:_LISTED]


def _ranked(counts: Mapping[Key, int], name: Callable[[Key], str]) -> list[tuple[Key, int]]:
    """Return keys and counts, highest first; equal counts are in the order of their names."""
    return sorted(counts.items(), key=lambda item: (-item[1], name(item[0])))


def _listed(view: View, counts: Iterable[tuple[int, int]]) -> list[CountedMemory]:
    """Return the first counted memories, given their uids and counts."""
    listed: list[CountedMemory] = []
    remaining = iter(counts)
    while len(listed) < _LISTED and (some := dict(islice(remaining, _LISTED))):
        records = view.records_of(some)
        listed += [
            _memory(records[uid], count)
            for uid, count in some.items()
            if uid in records and _is_counted(records[uid])
        ]
    return listed[:_LISTED]


def _memory(record: MemoryRecord, count: int) -> CountedMemory:
    return {**memory_reference(record), "modified": record.modified, "count": count}


def _counted(counts: Counter[str]) -> list[NamedCount]:
    return [{"name": name, "count": count} for name, count in _ranked(counts, str)[:_LISTED]]


def _months(created: Counter[str]) -> list[NamedCount]:
    """Return the number of memories at the end of each of the last ``_MONTHS`` months."""
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
