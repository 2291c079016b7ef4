"""Search, read and change a vault for the browser, in a separate thread.

All calls run in order in that thread, so the screen never waits for the vault. If several searches
are queued, only the latest is run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar

from memvault import clock
from memvault.call import Call, Caller
from memvault.errors import MemvaultError
from memvault.named_tuple import NamedTuple
from memvault.tools.core.render import rounded_down
from memvault.workspace import Workspace, silent

Result = TypeVar("Result")
ToolResult = TypeVar("ToolResult", bound=Mapping[str, Any])
Arguments = ParamSpec("Arguments")
_MOST = 50
"""Maximum number of search results."""
_NEWEST = 200
"""Maximum number of memories to list without a query."""


class BrowsedMemory(NamedTuple):
    """A memory in the list; ``line`` is the line of the matching passage.

    Secrets are masked in the fields that are only displayed: ``label`` (the title in the list),
    ``place`` (the path in the list) and all fields after it.
    """

    mem_id: str
    title: str
    path: str
    line: int
    label: str
    place: str
    tags: tuple[str, ...]
    day: str
    snippet: str
    strength: str

    @classmethod
    def of(cls, entry: Mapping[str, Any], masked: Mapping[str, Any]) -> BrowsedMemory:
        """Create a memory from an entry in a result, and the entry with masked secrets."""
        return cls(
            entry["memId"],
            entry["title"],
            entry["filePath"],
            int(entry.get("line", 1)),
            masked["title"],
            masked["filePath"],
            tuple(masked["tags"]),
            clock.local(entry["modified"]),
            str(masked.get("snippet", "")),
            _strength(entry),
        )


def _strength(entry: Mapping[str, Any]) -> str:
    """Return the strength and match probability of a search result; empty for a listed memory."""
    if "strength" not in entry:
        return ""
    return f"{entry['strength']} {rounded_down(entry['probability'])}"


class SearchOutcome(NamedTuple):
    """The memories that match a query line, or the reason why there are none.

    ``summary`` states how many there are, and ``words`` is the query without its filters.
    """

    line: str
    memories: tuple[BrowsedMemory, ...]
    summary: str = ""
    problem: str = ""
    words: str = ""


def _summary(result: Mapping[str, Any]) -> str:
    """Return how many memories a result has, and a notice if none is a good match."""
    from memvault.tools.core.result_parts import with_notice

    shown = len(result["memories"])
    if "total" in result:
        total = result["total"]
        return f"{shown:,} of {total:,}" if total > shown else f"{total:,}"
    count = f"the best {shown:,}" if shown == _MOST else f"{shown:,}"
    notice = str(with_notice(result)["notice"] or "").partition(". Closest")[0]
    return f"{count}  {notice}".rstrip()


Part = Literal["text", "links", "history"]
"""The parts of a memory that can be shown beside the list."""


class BrowserSession:
    """An open vault for ``memvault browse``.

    Every method returns a ``Future``, whose exceptions are ``MemvaultError``.
    """

    def __init__(self, root: Path, caller: Caller) -> None:
        self.root = root
        self.progress: Callable[[str, int, int], None] = silent
        # A tool must not ask questions on standard input, because Textual reads the keys.
        self._caller = caller._replace(confirm=None, confirm_suggestion=None, sees_worktrees=False)
        self._reader = self._caller._replace(scope="read")  # recalls while browsing are not counted
        self._finder = self._reader._replace(secrets="shown")
        self._workspace = Workspace(root, self._report, long_lived=True)
        self._submit = self._workspace.executor.submit
        self._latest: Counter[str] = Counter()

    def search(self, line: str) -> Future[SearchOutcome | None]:
        """Search for a query line; an empty line lists the newest memories.

        The result is None if a later search is queued.
        """
        return self._submit_latest("search", lambda: self._search(line))

    def search_beside(self, line: str) -> Future[SearchOutcome | None]:
        """Like ``search``, for a second list that is independent of the first."""
        return self._submit_latest("beside", lambda: self._search(line))

    def part(self, memory: BrowsedMemory, part: Part) -> Future[list[tuple[str, str]] | None]:
        """Read a part of a memory as pairs of strings; the second string may be empty.

        Depending on the part, the pairs contain the path and text, the title and line of each
        backlink, or the time and tool of each change. Returns None if a later part was requested in
        the meantime.
        """
        return self._submit_latest("part", lambda: self._part(memory, part))

    def _submit_latest(self, pane: str, work: Callable[[], Result]) -> Future[Result | None]:
        """Run a function for a pane of the screen, unless a later function is queued for it."""
        self._latest[pane] += 1
        number = self._latest[pane]
        return self._submit(lambda: work() if number == self._latest[pane] else None)

    def fingerprint(self) -> Future[object]:
        """Return a value that changes whenever a memory is added, changed or deleted."""
        return self._submit(self._fingerprint)

    def run(
        self,
        function: Callable[Concatenate[Call, Arguments], ToolResult],
        /,
        *positional: Arguments.args,
        **arguments: Arguments.kwargs,
    ) -> Future[ToolResult]:
        """Run a tool that changes the vault."""
        from memvault.tools.core import invoke

        return self._submit(
            lambda: invoke.run(self._workspace, self._caller, function, *positional, **arguments)
        )

    def tag(
        self, memory: BrowsedMemory, added: Sequence[str], removed: Sequence[str]
    ) -> Future[None]:
        """Add and remove tags of a memory as one change, which a single undo reverts."""
        return self._submit(lambda: self._tag(memory.path, added, removed))

    def close(self) -> None:
        """Close the vault once the running call has finished."""
        self._latest.update(("search", "beside", "part"))
        self._submit(self._workspace.close)
        self._workspace.executor.wait()

    def _report(self, what: str, done: int, total: int) -> None:
        self.progress(what, done, total)

    def _search(self, line: str) -> SearchOutcome:
        from memvault.tools.core import invoke, saved_searches
        from memvault.tools.recall import memory_recall
        from memvault.tools.vault import memory_list

        result: Mapping[str, Any]
        try:
            query_text = saved_searches.words_of(line, self._workspace.settings.searches)
            if query_text:
                result = invoke.run(
                    self._workspace, self._finder, memory_recall, query=line, limit=_MOST
                )
            else:
                result = invoke.run(
                    self._workspace, self._finder, memory_list, query=line, limit=_NEWEST
                )
        except MemvaultError as error:
            problem = f"{error.message}; {error.hint}".rstrip("; ")
            return SearchOutcome(line, (), problem=problem)
        masked = self._masked(result)
        memories = tuple(map(BrowsedMemory.of, result["memories"], masked["memories"]))
        problem = "" if memories else str(result.get("message", ""))
        return SearchOutcome(line, memories, _summary(result), problem, query_text)

    def _masked(self, result: Mapping[str, Any]) -> Mapping[str, Any]:
        from memvault.tools.core import redaction

        return redaction.masked(Call(self._workspace, self._reader, read_only=True), result)

    def _part(self, memory: BrowsedMemory, part: Part) -> list[tuple[str, str]]:
        from memvault.tools.core import invoke
        from memvault.tools.history import memory_log
        from memvault.tools.notes import memory_backlinks
        from memvault.tools.vault import memory_show

        workspace, reader, name = self._workspace, self._reader, memory.path
        if part == "text":
            shown = invoke.run(workspace, reader, memory_show, name=name)
            return [(f"{memory.path}:{memory.line}", shown["content"])]
        if part == "links":
            links = invoke.run(workspace, reader, memory_backlinks, name=name)["backlinks"]
            return [
                (entry["title"], str(entry.get("text") or entry.get("key", ""))) for entry in links
            ]
        changes = invoke.run(workspace, reader, memory_log, name=name, limit=30)["changes"]
        return [
            (
                clock.local(change["when"], 16).replace("T", " "),
                f"{change['tool']} by {change['agent']}",
            )
            for change in changes
        ]

    def _fingerprint(self) -> object:
        from memvault.index.protocol import state_of

        call = Call(self._workspace, self._reader, tool="browse", read_only=True)
        return call.engine.on_view(state_of)

    def _tag(self, path: str, added: Sequence[str], removed: Sequence[str]) -> None:
        from memvault.memories import tagging
        from memvault.tools.core import invoke

        call = Call(self._workspace, self._caller, tool="tag")
        invoke.require_local_files(call, "this key")
        memory = call.store.read(path)
        new = tagging.parse_new_tags(added) if added else []
        gone = tagging.parse_existing_tags(removed, memory) if removed else []
        if new:
            memory = tagging.add(call.store, memory, new)
        if gone:
            tagging.remove(call.store, memory, gone)
        invoke.autocommit(call)
