"""Read the data for the pages, with secrets masked as for agents.

The vault is opened twice: once for searches and reading, and once for slow work such as the map, so
searches need not wait. The server does the slow work in another process.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar, cast

from memvault import clock
from memvault.call import LOCAL, Call
from memvault.errors import MemvaultError, NotFound
from memvault.files import plain_files
from memvault.index.protocol import MemoryRecord, latest_first, state_of
from memvault.insights.statistics import activity
from memvault.model import is_document, is_example
from memvault.named_tuple import NamedTuple
from memvault.recall import query_filters
from memvault.secrets.detector import masked
from memvault.serial_executor import SerialExecutor
from memvault.tools.core import invoke, registry
from memvault.tools.core.result_parts import with_code_lines
from memvault.tools.doctor import vault_review, vault_stats
from memvault.tools.notes import memory_backlinks, memory_orphans, tag_list
from memvault.tools.recall import memory_list_types, memory_recall
from memvault.tools.vault import memory_list, memory_show
from memvault.vault import paths
from memvault.web.addresses import Addresses, is_hidden, public_id
from memvault.web.markdown_html import RenderedMarkdown
from memvault.web.memory_map import memory_map, similar_memories
from memvault.web.renderer import Renderer, is_attachment, masked_attachment
from memvault.workspace import Workspace

if TYPE_CHECKING:
    from memvault.index.protocol import View
    from memvault.results import (
        MemoryTypes,
        OrphanedMemories,
        ReviewedVault,
        TagListing,
        VaultStatistics,
    )

Result = TypeVar("Result")
ToolResult = TypeVar("ToolResult", bound=Mapping[str, Any])
Arguments = ParamSpec("Arguments")
_READER = LOCAL._replace(scope="read", sees_worktrees=False)
_WRITER = LOCAL._replace(scope="write", sees_worktrees=False, vaults=())
_MOST = 30
_PATIENCE = 1.0
"""Seconds that a search waits for the tags and types to show as filters."""
_MAX_REVIEWED = 200
_MAX_TAGS = 1_000
_SLOW_TOOLS = (vault_review, vault_stats, memory_orphans, memory_list_types, tag_list)
"""The tools that read every memory."""


class ReadMemory(NamedTuple):
    """A memory to show: its description, its text as HTML, and the lines that link to it.

    ``file`` is the URL of a document's file, or None.
    """

    entry: Mapping[str, Any]
    text: RenderedMarkdown
    backlinks: Sequence[Mapping[str, Any]]
    file: str | None


class Overview(NamedTuple):
    """The statistics, the newest orphans, and the daily counts of created or changed memories."""

    stats: VaultStatistics
    orphans: OrphanedMemories
    days: Mapping[str, int]


class PageWorker(Protocol):
    """A process with its own session that does the slow work."""

    def run(self, method: str) -> Any:
        """Run a session method and return its result; raises ``MemvaultError``."""

    def close(self) -> None:
        """Stop the process."""


class WebSession:
    """An open vault for the pages; ``worker`` does the slow work, by default this process."""

    def __init__(self, root: Path, worker: PageWorker | None = None) -> None:
        self.root = root
        self._worker = worker
        self._background = SerialExecutor()
        self._fast, self._slow = (Workspace(root, long_lived=True) for _ in range(2))
        self._results: dict[str, tuple[object, Any]] = {}

    @cached_property
    def name(self) -> str:
        """The name of the vault's folder, with secrets masked."""
        return masked(self.root.name)

    def close(self) -> None:
        """Close the vault."""
        if self._worker:
            self._worker.close()
        for workspace in (self._fast, self._slow):
            with workspace.lock:
                workspace.close()

    def call(
        self,
        function: Callable[Concatenate[Call, Arguments], ToolResult],
        /,
        *positional: Arguments.args,
        **named: Arguments.kwargs,
    ) -> ToolResult:
        """Run a read-only tool, and return its result with secrets masked."""
        arguments = registry.arguments_by_name(function, positional, named)

        workspace = self._slow if function in _SLOW_TOOLS else self._fast
        with invoke.call(
            workspace, function.__name__, arguments, _READER, present=self._presented
        ) as outcome:
            return cast("ToolResult", outcome.result)

    def write(
        self,
        function: Callable[Concatenate[Call, Arguments], ToolResult],
        find: invoke.FindTool,
        /,
        *positional: Arguments.args,
        **named: Arguments.kwargs,
    ) -> ToolResult:
        """Run a tool as the user, and return its result with secrets masked."""
        arguments = registry.arguments_by_name(function, positional, named)
        with invoke.call(
            self._fast, function.__name__, arguments, _WRITER, find=find, present=self._presented
        ) as outcome:
            return cast("ToolResult", outcome.result)

    def _presented(
        self, call: Call, result: Mapping[str, Any], shown: dict[str, Any]
    ) -> dict[str, Any]:
        """Return a result in which each memId that is a secret is replaced by a public id."""
        ids = _mem_ids(result)
        hidden = {name for name in ids if call.settings.detector.masked(name) != name}
        if not hidden:
            return shown
        public = call.engine.on_view(
            lambda view: {
                record.mem_id: public_id(record, call.settings.detector)
                for record in view.records()
                if record.mem_id in hidden
            }
        )
        named: dict[str, Any] = _with_ids(result, shown, public)
        return named

    def path_of(self, name: str) -> str:
        """Return a name that the tools accept for the memId or public id in a URL."""
        if not is_hidden(name):
            return name
        paths = self.on_view(
            lambda call, view: [
                record.path
                for record in view.records()
                if public_id(record, call.settings.detector) == name
            ]
        )
        return paths[0] if paths else name

    def search(
        self, query: str, tags: Sequence[str] = (), memory_type: str = "", since: str = ""
    ) -> Mapping[str, Any]:
        """Return the memories that match a query and filters; without words, the newest ones."""
        filters: Any = {
            "tags": list(tags) or None,
            "memory_type": memory_type or None,
            "since": since or None,
            "limit": _MOST,
        }
        if query_filters.parse(query).words.strip():
            result = self.call(memory_recall, query, **filters)
            return {**result, "memories": list(map(with_code_lines, result["memories"]))}
        return self.call(memory_list, query, **filters)

    def read(self, name: str, to: Addresses) -> ReadMemory:
        """Return a memory with its text as HTML; raises ``NotFound`` and ``Ambiguous``."""
        name = self.path_of(name)
        entry = self.call(memory_show, name)
        backlinks = self.call(memory_backlinks, name)["backlinks"]
        path = entry["filePath"]
        file = to.file(path) if is_document(path) and is_attachment(path) else None
        return ReadMemory(with_code_lines(entry), self._rendered(name, to), backlinks, file)

    def file(self, path: str) -> bytes:
        """Return an attachment's bytes, with secrets masked if it is text.

        Raises:
            NotFound: the file is missing, hidden or a memory, or its name contains a secret.
        """
        try:
            inside = paths.resolve_inside(self.root, path)
            if not is_attachment(inside):
                raise NotFound("There is no such file", "")
            data = plain_files.read(self.root / inside)
        except (OSError, MemvaultError) as error:
            raise NotFound(
                "There is no such file", "check the link, which may be outdated"
            ) from error
        with self.reading() as call:
            detector = call.settings.detector
        if detector.masked(inside) != inside:
            raise NotFound(
                "There is no such file", "rename the file, because its name contains a secret"
            )
        return masked_attachment(inside, data, detector.masked)

    def tags(self) -> tuple[TagListing, MemoryTypes]:
        """Return the tags and the types."""

        def count() -> tuple[TagListing, MemoryTypes]:
            return self.call(tag_list, limit=_MAX_TAGS), self.call(memory_list_types)

        return self._cached("tags", count)

    def quick_tags(self) -> tuple[TagListing, MemoryTypes] | None:
        """Return the tags and types; if this takes over a second, the previous ones, if any."""
        try:
            return self._background.submit(self.tags).result(_PATIENCE)
        except TimeoutError:
            return self._results["tags"][1] if "tags" in self._results else None

    def overview(self) -> Overview:
        """Return the statistics, the newest orphans, and the changes by day."""

        def compute() -> Overview:
            stats, orphans = self.call(vault_stats), self.call(memory_orphans, limit=_MOST)
            days = self.on_view(lambda _, view: _changes_by_day(view), slow=True)
            return Overview(stats, orphans, days)

        with self.reading() as call:
            recorded = activity(call)
        return self._cached("overview", compute, (recorded, _hour()))

    def review(self) -> ReviewedVault:
        """Return the items to review."""
        return self._cached("review", lambda: self.call(vault_review, limit=_MAX_REVIEWED), _hour())

    def _cached(self, name: str, compute: Callable[[], Result], state: object = None) -> Result:
        """Return a result, cached until the vault, its settings or ``state`` changes.

        A cached result is returned without waiting for slow work.
        """
        state = state, self.on_view(_state)
        if name not in self._results or self._results[name][0] != state:
            with self._slow.lock:
                # Another request may have computed it in the meantime.
                if name not in self._results or self._results[name][0] != state:
                    result = self._worker.run(name) if self._worker else compute()
                    self._results[name] = state, result
        found: Result = self._results[name][1]
        return found

    def on_view(self, work: Callable[[Call, View], Result], slow: bool = False) -> Result:
        """Call a function with a reader's call and a view of the index.

        The function is called again if the view becomes stale.
        """
        with self.reading(slow) as call:
            return call.engine.on_view(lambda view: work(call, view))

    @contextlib.contextmanager
    def reading(self, slow: bool = False) -> Iterator[Call]:
        """Yield a reader's call while the vault is locked in this process."""
        workspace = self._slow if slow else self._fast
        with workspace.lock:
            workspace.refresh_settings()
            yield Call(workspace, _READER, tool="web", read_only=True)

    def _rendered(self, name: str, to: Addresses) -> RenderedMarkdown:
        with self.reading() as call:
            memory = call.resolve(name)
            render = call.engine.on_view(lambda view: Renderer(call, view).prepared(memory, to))
        return render()  # without the lock, so that other pages need not wait

    def map(self) -> dict[str, Any]:
        """Return ``memory_map`` of all memories."""

        def build(call: Call, view: View) -> dict[str, Any]:
            records = list(view.records())
            return memory_map(call, call.link_graph(view, records), shown_records(records))

        return self._cached("map", lambda: self.on_view(build, slow=True))

    def similar(self) -> list[tuple[int, int]]:
        """Return ``similar_memories`` of all memories, in the order of the map."""

        def build(call: Call, view: View) -> list[tuple[int, int]]:
            return similar_memories(call, shown_records(view.records()))

        return self._cached("similar", lambda: self.on_view(build, slow=True))


def shown_records(records: Iterable[MemoryRecord]) -> list[MemoryRecord]:
    """Return the records of all memories except examples and documents, newest first."""
    return latest_first(
        record
        for record in records
        if not is_example(record.metadata) and not is_document(record.path)
    )


def _changes_by_day(view: View) -> dict[str, int]:
    """Return the number of memories that were created or last changed on each day."""
    days: Counter[str] = Counter()
    for record in shown_records(view.records()):
        days.update({clock.local(record.created), clock.local(record.modified)})
    return days


def _state(call: Call, view: View) -> object:
    """Return a value that changes whenever a memory or a setting changes."""
    return call.settings, state_of(view)


def _hour() -> object:
    """Return the current hour, after which memories may have expired."""
    return clock.today(), clock.now().hour


def _mem_ids(value: Any) -> set[str]:
    """Return the memIds in a result."""
    if isinstance(value, Mapping):
        mem_ids = {str(value["memId"])} if value.get("memId") else set()
        return mem_ids.union(*map(_mem_ids, value.values()))
    return set[str]().union(*map(_mem_ids, value)) if isinstance(value, list | tuple) else set()


def _with_ids(value: Any, shown: Any, public: Mapping[str, str]) -> Any:
    """Return the masked form of a value with public ids for the memIds in it.

    Values below a masked key stay as they are, because several keys may have the same mask.
    """
    if isinstance(value, Mapping):
        return {
            key: public.get(value[key], masked)
            if key == "memId"
            else _with_ids(value.get(key), masked, public)
            for key, masked in shown.items()
        }
    if isinstance(value, list | tuple):
        pairs = zip(value, shown, strict=True)
        return [_with_ids(entry, masked, public) for entry, masked in pairs]
    return shown
