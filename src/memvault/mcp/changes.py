"""What changed in a vault between two looks at it, for clients that want to be told.

A look lists the folders, which opens no file; memories are compared only where that shows a
difference. So a server may look again every second.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any, NamedTuple

from mcp.shared.subscriptions import (
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
)

from memvault.call import Call
from memvault.index.protocol import MemoryRecord
from memvault.mcp import resources
from memvault.mcp.profiles import ToolSelection


class MemoryFingerprint(NamedTuple):
    """What is compared of a memory: its text, and what a list says of it."""

    etag: str
    listed: tuple[str, str, tuple[str, ...]]

    @classmethod
    def of(cls, record: MemoryRecord) -> MemoryFingerprint:
        return cls(record.etag, (record.title, record.memory_type, record.tags))


class ChangeDetector:
    """What a vault's tools and memories were when last looked at.

    What was never looked at has not changed: nobody is told of a list that they do not know.
    """

    def __init__(self, offer: ToolSelection) -> None:
        self._offer = offer
        self._tools: list[dict[str, Any]] | None = None
        self._state: Hashable = None
        self._memories: dict[str, MemoryFingerprint] | None = None

    def tools(self, call: Call) -> list[ServerEvent]:
        """Look at the tools; return what changed since they were last looked at."""
        before, self._tools = self._tools, self._offer.tools(call)
        return [ToolsListChanged()] if before not in (None, self._tools) else []

    def memories(self, call: Call) -> list[ServerEvent]:
        """Look at the memories; return what changed since they were last looked at."""
        from memvault.recall.filters import Filters

        state = call.store.state()
        if self._memories is not None and state == self._state:
            return []
        call.only_reads = True
        found = {
            record.mem_id: MemoryFingerprint.of(record)
            for record in call.engine.list_records(Filters())
        }
        if call.engine.notes():  # not all of them were seen, so that the next look decides
            return []
        self._state = state
        before, self._memories = self._memories, found
        return [] if before is None else list(_between(before, found))

    @property
    def are_known(self) -> bool:
        """Whether anything was looked at, so that a look may find a change."""
        return self._tools is not None or self._memories is not None

    def known(self, call: Call) -> list[ServerEvent]:
        """Look at whatever was looked at before; return what changed since."""
        out = [] if self._tools is None else self.tools(call)
        return out if self._memories is None else [*out, *self.memories(call)]


def _between(
    before: dict[str, MemoryFingerprint], after: dict[str, MemoryFingerprint]
) -> Iterator[ServerEvent]:
    names = before.keys() | after.keys()
    changed = sorted(name for name in names if before.get(name) != after.get(name))
    lists: set[str] = set()
    for name in changed:
        sides = [entry for entry in (before.get(name), after.get(name)) if entry is not None]
        yield ResourceUpdated(resources.uri_for(name))
        if len(sides) == 1 or sides[0].listed != sides[1].listed:
            for _, memory_type, tags in (entry.listed for entry in sides):
                lists.add(resources.uri_for(memory_type, resources.TYPE))
                lists.update(resources.uri_for(tag, resources.TAG) for tag in tags)
    yield from (ResourceUpdated(uri) for uri in sorted(lists))
    if lists:
        yield ResourcesListChanged()
