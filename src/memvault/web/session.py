"""What the pages show of a vault, read in one thread; texts are masked as for agents."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import quote

from memvault.call import LOCAL, Call
from memvault.errors import MemvaultError, NotFound
from memvault.files import plain_files
from memvault.lazy_pattern import lazy_pattern
from memvault.memories.link_graph import LinkGraph
from memvault.model import Memory, is_example
from memvault.recall.filters import Filters
from memvault.tools.core import invoke
from memvault.vault import paths
from memvault.vault.markdown import first_heading, links
from memvault.web.markdown_html import PlacedLink, to_html
from memvault.workspace import Workspace

if TYPE_CHECKING:
    from memvault.index.protocol import MemoryRecord, View

Result = TypeVar("Result")
_READER = LOCAL._replace(scope="read", asks=None, prefers=None)
_FIRST_HEADING = lazy_pattern(r"\A<h1>[^\n]*</h1>\n")
"""The title of a memory as its text begins with it, which the page shows already."""
_MOST = 30
_MAX_NODES = 20_000
_FILE_SUFFIXES = frozenset(".png .jpg .jpeg .gif .webp .avif .svg .pdf .txt .csv .mp3 .mp4".split())


class ReadMemory(NamedTuple):
    """A memory to read: its description, its text as HTML, and the lines that link to it."""

    entry: Mapping[str, Any]
    html: str
    backlinks: list[Mapping[str, Any]]


class WebSession:
    """A vault that is kept open for the pages."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._thread = ThreadPoolExecutor(1, "vault")
        self._workspace: Workspace | None = None
        self._map: tuple[object, dict[str, Any]] | None = None

    def run(self, work: Callable[[], Result]) -> Result:
        """Return what a function returns in the vault's thread."""
        return self._thread.submit(work).result()

    def close(self) -> None:
        """Close the vault."""
        self.run(self._close)
        self._thread.shutdown()

    def _close(self) -> None:
        if self._workspace is not None:
            self._workspace.close()

    @property
    def workspace(self) -> Workspace:
        """The open vault; for the vault's thread."""
        if self._workspace is None:
            self._workspace = Workspace(self.root, stays=True)
        return self._workspace

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Run a tool that reads, and return its result with secrets masked."""

        def work() -> dict[str, Any]:
            with invoke.call(self.workspace, tool, arguments, _READER) as outcome:
                found: dict[str, Any] = self._masked(dict(outcome.result))
            return found

        return self.run(work)

    def _masked(self, value: Any) -> Any:
        """Return a value with the secrets in its texts masked."""
        if isinstance(value, str):
            return self.workspace.settings.detector.masked(value)
        if isinstance(value, Mapping):
            return {key: self._masked(entry) for key, entry in value.items()}
        return [self._masked(entry) for entry in value] if isinstance(value, list) else value

    def search(self, query: str, filters: Mapping[str, Any]) -> dict[str, Any]:
        """Return the memories for a query, or the newest that pass the filters."""
        if query.strip():
            return self.call("memory_recall", query=query, limit=_MOST, **filters)
        return self.call("memory_list", limit=_MOST, **filters)

    def read(self, name: str) -> ReadMemory:
        """Return a memory with its text as HTML; raises ``NotFound`` and ``Ambiguous``."""
        entry = self.call("memory_show", memId=name)
        backlinks = self.call("memory_backlinks", memId=name)["backlinks"]
        return ReadMemory(entry, self.run(lambda: self._html(entry["filePath"])), backlinks)

    def _call(self) -> Call:
        return Call(self.workspace, _READER, tool="web", read_only=True)

    def _html(self, path: str) -> str:
        call = self._call()
        memory = call.reader.read(path)
        graph = call.engine.on_view(lambda view: self._placed(call, view, memory))
        masked = call.settings.detector.masked(memory.body)
        html = to_html(masked, graph if masked == memory.body else ())
        return (
            html if first_heading(memory.body) != memory.title else _FIRST_HEADING.sub("", html, 1)
        )

    def _placed(self, call: Call, view: View, memory: Memory) -> list[PlacedLink]:
        """Return the links of a memory's text with the addresses of pages and files."""
        graph = LinkGraph(call.index.links(view), view.record)
        known = {
            found.link.span: found.target
            for found in graph.outgoing(memory)
            if found.link is not None
        }
        placed = []
        for link in links(memory.body):
            target = known.get(link.span)
            label = link.shown or link.target
            address = f"/m/{quote(target.mem_id)}" if target is not None else None
            if address is None:
                file = self._file_beside(link.target, memory.path)
                address = f"/f/{quote(file)}" if file else None
            placed.append(PlacedLink(link.span, address, label, link.is_embed))
        return placed

    def _file_beside(self, target: str, path: str) -> str:
        """Return the path of a file of the vault that a link names, or an empty text."""
        if PurePosixPath(target).suffix.lower() not in _FILE_SUFFIXES:
            return ""
        for name in (str(PurePosixPath(path).parent / target), target):
            try:
                inside = paths.resolve_inside(self.root, name)
            except MemvaultError:
                continue
            if _is_shown(inside) and (self.root / inside).is_file():
                return inside
        return ""

    def file(self, path: str) -> bytes:
        """Return the bytes of an attachment.

        Raises:
            NotFound: there is none, it is hidden, or it is a memory.
        """
        try:
            inside = paths.resolve_inside(self.root, path)
            if not _is_shown(inside):
                raise NotFound("There is no such file", "")
            return plain_files.read(self.root / inside)
        except (OSError, MemvaultError) as error:
            raise NotFound("There is no such file", "the memory may be older than it") from error

    def map(self) -> dict[str, Any]:
        """Return the nodes of the map with both positions, and the edges, as JSON values."""
        return self.run(self._make_map)

    def _make_map(self) -> dict[str, Any]:
        call = self._call()
        records = [
            record
            for record in call.engine.list_records(Filters())
            if not is_example(record.metadata)
        ][:_MAX_NODES]
        state = tuple((record.path, record.etag) for record in records)
        if self._map is None or self._map[0] != state:
            self._map = state, call.engine.on_view(lambda view: self._laid_out(call, view, records))
        return self._map[1]

    def _laid_out(self, call: Call, view: View, records: list[MemoryRecord]) -> dict[str, Any]:
        from memvault.index.embedding.meaning import open_meaning
        from memvault.web import layout

        places = {record.key: number for number, record in enumerate(records)}
        edges = sorted(
            {
                (places[link.source], places[link.target])
                for link in LinkGraph(call.index.links(view), view.record).indexed()
                if link.source in places and link.target in places
            }
        )
        quick = call.settings.replace(embedder=call.settings.embedder.replace(deep="off"))
        meaning, _ = open_meaning(quick, call.root)
        texts = [self._beginning(call, record) for record in records]
        vectors: Any = meaning.space(texts).vectors if texts else []
        mask = call.settings.detector.masked
        return {
            "nodes": [
                {
                    "id": record.mem_id,
                    "title": mask(record.title),
                    "type": record.memory_type,
                    "tags": list(record.tags),
                    "links": position,
                    "meaning": meant,
                }
                for record, position, meant in zip(
                    records,
                    layout.by_links(len(records), edges),
                    layout.by_meaning(vectors),
                    strict=True,
                )
            ],
            "edges": edges,
        }

    def _beginning(self, call: Call, record: MemoryRecord) -> str:
        """Return a memory's title, tags and first characters, by which it is placed."""
        text = f"{record.title}\n{' '.join(record.tags)}"
        try:
            return f"{text}\n{call.reader.read(record.path).body[:600]}"
        except MemvaultError:
            return text

    def texts(self) -> dict[str, str]:
        """Return the HTML of each memory on the map, by its memId."""

        def work() -> dict[str, str]:
            call = self._call()
            found = {}
            for record in call.engine.list_records(Filters())[:_MAX_NODES]:
                if not is_example(record.metadata):
                    try:
                        found[record.mem_id] = self._html(record.path)
                    except MemvaultError:
                        continue
            return found

        return self.run(work)


def _is_shown(path: str) -> bool:
    """Return whether a file is an attachment of a known kind that is not hidden."""
    pure = PurePosixPath(path)
    is_hidden = any(part.startswith(".") for part in pure.parts)
    return not is_hidden and pure.suffix.lower() in _FILE_SUFFIXES
