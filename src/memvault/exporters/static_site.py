"""Export as a static site: a page for each memory, lists, a search and a map.

The pages work from a disk and below any address, since all their addresses are relative. They are
those of ``memvault web``, so that nothing in a memory runs and secrets in it are masked. A file
in the folder lists what an export wrote, for the next one to delete what it no longer writes.
"""

from __future__ import annotations

import contextlib
import json
import os
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from memvault.errors import MemvaultError, StorageError
from memvault.exporters import folder
from memvault.exporters.files import ExportedFiles
from memvault.files import atomic, plain_files
from memvault.vault import paths
from memvault.vault.document import plain_text
from memvault.web import pages
from memvault.web.addresses import SiteAddresses
from memvault.web.renderer import Renderer, is_attachment
from memvault.web.session import WebSession

if TYPE_CHECKING:
    from memvault.call import Call
    from memvault.index.protocol import MemoryRecord, View

LIST = ".memvault-site"
"""The file with the paths of all files that an export wrote."""
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'"
)
_NEWEST = 50
_MAX_TEXT = 20_000
"""Maximum number of characters of a memory in which the site's search looks."""


def write(files: ExportedFiles, target: Path, replaces: bool) -> int:
    """Write a site to a folder; as ``ExportFormat.write``. Other files in the folder are kept."""
    is_own = (target / LIST).is_file()
    if not is_own:
        folder.require_free(target, replaces)
    session = WebSession(files.root)
    try:
        site = _StaticSite(session, files, target)
        return site.write()
    finally:
        session.close()


class _StaticSite:
    """A site that is being written: its pages and attachments, by their paths in the folder."""

    def __init__(self, session: WebSession, files: ExportedFiles, target: Path) -> None:
        self._session = session
        self._files = files
        self._target = target
        self._written: set[str] = set()
        self._linked: set[str] = set()
        self._texts: dict[str, str] = {}

    def write(self) -> int:
        """Write all files, and return how many."""
        records = self._session.records(self._memory_paths)
        self._pages = {record.mem_id: _page(record.path) for record in records}
        self._session.on_view(lambda call, view: self._write_memories(call, view, records))
        self._write_lists(records)
        self._write_map(records)
        for name in ("style.css", "app.js"):
            self._put(name, pages.asset(name))
        self._copy_attachments()
        self._delete_older()
        return len(self._written)

    @cached_property
    def _memory_paths(self) -> frozenset[str]:
        return frozenset(file.path for file in self._files.files if file.is_memory)

    @cached_property
    def _attachments(self) -> dict[str, str]:
        """The places of the files that pages may link to; a picture in SVG could run a script."""
        return {
            file.path: f"files/{file.path}"
            for file in self._files.files
            if is_attachment(file.path) and not file.path.lower().endswith(".svg")
        }

    def _render(self, template: str, at: str, **values: Any) -> None:
        to = SiteAddresses(self._pages, self._attachments, at)
        self._put(at, pages.render(template, to, policy=_POLICY, **values))
        self._linked |= to.linked

    def _put(self, path: str, content: str | bytes) -> None:
        data = content.encode("utf-8", "replace") if isinstance(content, str) else content
        atomic.write(self._target / path, data, durable=False)
        self._written.add(path)

    def _write_memories(self, call: Call, view: View, records: list[MemoryRecord]) -> None:
        renderer = Renderer(call, view)
        shown = {record.key: record for record in records}
        sources: dict[int, dict[int, MemoryRecord]] = {}
        for link in renderer.graph.indexed():
            if link.source in shown and link.target in shown:
                sources.setdefault(link.target, {})[link.source] = shown[link.source]
        for record in records:
            try:
                memory = call.reader.read(record.path)
            except MemvaultError as error:
                self._files.problems.append(f"{record.path} cannot be read: {error.message}")
                del self._pages[record.mem_id]
                continue
            at = self._pages[record.mem_id]
            to = SiteAddresses(self._pages, self._attachments, at)
            masked = call.settings.detector.masked
            self._texts[record.mem_id] = masked(plain_text(memory.body))[:_MAX_TEXT]
            self._render(
                "memory",
                at,
                title=masked(record.title),
                entry=self._entry(record),
                text=pages.as_html(renderer.html(memory, to)),
                backlinks=[self._entry(one) for one in sources.get(record.key, {}).values()],
            )
            self._linked |= to.linked

    def _entry(self, record: MemoryRecord) -> dict[str, Any]:
        masked = self._session.workspace.settings.detector.masked
        return {
            "memId": record.mem_id,
            "title": masked(record.title),
            "memoryType": record.memory_type,
            "tags": record.tags,
            "modified": record.modified,
            "filePath": record.path,
        }

    def _write_lists(self, records: list[MemoryRecord]) -> None:
        entries = self._session.run(
            lambda: [self._entry(one) for one in records if one.mem_id in self._pages]
        )
        found = {"memories": entries[:_NEWEST]}
        name = self._files.root.name
        values = {"heading": name, "count": len(entries), "found": found}
        self._render("site_index", "index.html", title=name, **values)
        by_type = [("type", entry["memoryType"], entry["memoryType"], entry) for entry in entries]
        by_tag = [("tag", tag, f"#{tag}", entry) for entry in entries for tag in entry["tags"]]
        for at, title, pairs in (("all", "All", by_type), ("tags", "Tags", by_tag)):
            groups: dict[str, dict[str, Any]] = {}
            for kind, key, heading, entry in sorted(pairs, key=lambda pair: pair[1]):
                empty = {"anchor": f"{kind}-{key}", "name": heading, "entries": []}
                groups.setdefault(key, empty)["entries"].append(entry)
            self._render("site_list", f"{at}.html", title=title, groups=list(groups.values()))

    def _write_map(self, records: list[MemoryRecord]) -> None:
        found = self._session.map(records)
        to = SiteAddresses(self._pages, {}, "index.html")
        nodes = [
            {**node, "address": to.memory(node["id"]), "text": self._texts.get(node["id"], "")}
            for node in found["nodes"]
        ]
        text = json.dumps({"nodes": nodes, "edges": found["edges"]}, ensure_ascii=False)
        self._put("data.js", f"window.memvaultSite = {text};\n")
        self._render("map", "map.html", title="Map", **pages.map_values(found))

    def _copy_attachments(self) -> None:
        for file in self._files.files:
            if file.path in self._linked:
                try:
                    self._put(self._attachments[file.path], plain_files.read(file.file))
                except (OSError, StorageError) as error:
                    self._files.problems.append(f"{file.path} cannot be copied: {error}")

    def _delete_older(self) -> None:
        """Delete what an earlier export wrote and this one did not, and list what is there now."""
        for path in _listed(self._target) - self._written:
            (self._target / path).unlink(missing_ok=True)
        names = sorted(self._written)
        self._put(LIST, b"".join(os.fsencode(f"{name}\n") for name in names))


def _page(path: str) -> str:
    return f"notes/{PurePosixPath(path).with_suffix('.html')}"


def _listed(target: Path) -> set[str]:
    """Return the memories' pages and the attachments in the list of an earlier export."""
    try:
        lines = os.fsdecode(plain_files.read(target / LIST)).splitlines()
    except OSError:
        return set()
    found = set()
    for line in lines:
        with contextlib.suppress(MemvaultError):
            found.add(paths.resolve_inside(target, line))
    return {path for path in found if path.startswith(("notes/", "files/"))}
