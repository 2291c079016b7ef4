"""Export a static site: a page for each memory, lists, a map, and a text search.

The pages work from disk or under any URL, because all links are relative. They are rendered like
``memvault web``: code in a memory never runs, and secrets are masked. A file in the folder lists
the written files, so that the next export can delete stale files.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from memvault.errors import MemvaultError, StorageError
from memvault.exporters.files import ExportedFiles
from memvault.files import plain_files
from memvault.files.target import TargetFiles, TargetFolder, target_files
from memvault.secrets.detector import BUILTIN, SecretDetector
from memvault.vault.document import plain_text
from memvault.vault.markdown import mask_comments
from memvault.web import pages
from memvault.web.addresses import SiteAddresses, hidden_name, public_id
from memvault.web.markdown_html import RenderedMarkdown
from memvault.web.memory_map import memory_map, similar_memories
from memvault.web.renderer import Renderer, is_attachment, masked_attachment
from memvault.web.session import WebSession, shown_records

if TYPE_CHECKING:
    from memvault.call import Call
    from memvault.index.protocol import MemoryRecord, View

LIST = ".memvault-site"
"""The file that lists all files written by an export."""
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'"
)
_ASSETS = [name for name in pages.ASSETS if "uplot" not in name]
_NEWEST = 50
_MAX_NAME = 250
"""Maximum number of bytes of a page's name without ``.html``, as file systems accept 255."""
_MAX_TEXT = 20_000
"""Maximum number of characters of a memory that the site's search covers."""


def write_site(files: ExportedFiles, target: Path, replaces: bool) -> int:
    """Write a site to a folder, like ``ExportFormat.write``; other files in the folder remain."""
    with target_files(target, replaces, LIST) as folder:
        session = WebSession(files.root)
        try:
            return _StaticSite(session, files, folder).write()
        finally:
            session.close()


class _StaticSite:
    """The writer of a site's pages and attachments."""

    def __init__(self, session: WebSession, files: ExportedFiles, target: TargetFiles) -> None:
        self._session = session
        self._files = files
        self._target = target
        self._written: set[str] = set()
        self._linked: set[str] = set()
        self._texts: dict[str, str] = {}
        self._pages: dict[str, str] = {}
        """The path of each page, keyed by memory path."""
        self._by_id: dict[str, str] = {}
        """The paths of pages by public memory id."""
        self._detector = BUILTIN

    def write(self) -> int:
        """Write all files and return their number."""
        # lets the next export continue an interrupted one
        if self._target.folder.own_file(LIST, 0) is None:
            self._put(LIST, b"")
        self._session.on_view(self._write_pages)
        for name in _ASSETS:
            self._put(name, pages.asset(name))
        self._copy_attachments()
        self._delete_older()
        return len(self._written - {LIST})

    def _write_pages(self, call: Call, view: View) -> None:
        """Write the pages for a view; called again if the view becomes stale."""
        for seen in (self._written, self._linked, self._texts):
            seen.clear()
        chosen = {file.path for file in self._files.files if file.is_memory}
        records = [record for record in shown_records(view.records()) if record.path in chosen]
        self._detector = call.settings.detector
        self._pages = _page_paths(records, self._detector)
        self._by_id = {}
        for record in records:
            name = public_id(record, self._detector)
            page = self._by_id.setdefault(name, self._pages[record.path])
            if page != self._pages[record.path]:
                problem = f"has the same memory id {name} as another memory"
                self._report(f"{record.path} {problem}, so links open the other memory")
        renderer = Renderer(call, view, view.records())
        self._write_memories(renderer, records)
        self._write_lists(records)
        self._write_map(call, renderer, records)

    def _report(self, problem: str) -> None:
        if problem not in self._files.problems:
            self._files.problems.append(problem)

    @cached_property
    def _attachments(self) -> dict[str, str]:
        """Return the link targets of attachments, except those whose names contain secrets.

        SVG images are excluded, because they can run scripts.
        """
        return {
            file.path: f"files/{file.path}"
            for file in self._files.files
            if is_attachment(file.path)
            and not file.path.lower().endswith(".svg")
            and self._detector.masked(file.path) == file.path
        }

    def _render(self, template: str, page_path: str, **values: Any) -> None:
        to = SiteAddresses(self._by_id, self._attachments, page_path)
        values |= {"vault": self._session.name, "policy": _POLICY, "terms": []}
        self._put(page_path, pages.render(template, to, **values))
        self._linked |= to.linked

    def _put(self, path: str, content: str | bytes) -> None:
        data = content.encode("utf-8", "replace") if isinstance(content, str) else content
        self._target.write(path, data, durable=False)
        self._written.add(path)

    def _write_memories(self, renderer: Renderer, records: list[MemoryRecord]) -> None:
        shown = {record.uid: record for record in records}
        sources: dict[int, dict[int, MemoryRecord]] = {}
        for link in renderer.graph.indexed():
            if link.source in shown and link.target in shown:
                sources.setdefault(link.target, {})[link.source] = shown[link.source]
        for record in records:
            page_path = self._pages[record.path]
            to = SiteAddresses(self._by_id, self._attachments, page_path)
            try:
                memory = renderer.memory(record)
            except MemvaultError as error:
                self._report(f"{record.path} cannot be read: {error.message}")
                text, headings = RenderedMarkdown("", [])
            else:
                masked = self._detector.masking(memory.metadata)
                visible = mask_comments(memory.body)
                if visible != memory.body:  # A comment may be inside a secret.
                    visible = mask_comments(masked(memory.body))
                plain = masked(plain_text(visible))[:_MAX_TEXT]
                self._texts[public_id(record, self._detector)] = plain
                text, headings = renderer.prepared(memory, to)()
            entry = self._entry(record)
            self._render(
                "memory",
                page_path,
                title=entry["title"],
                entry=entry,
                text=pages.as_html(text),
                headings=headings,
                backlinks=[self._entry(source) for source in sources.get(record.uid, {}).values()],
            )
            self._linked |= to.linked

    def _entry(self, record: MemoryRecord) -> dict[str, Any]:
        masked = self._detector.masking(record.metadata)
        return {
            "memId": public_id(record, self._detector),
            "title": masked(record.title),
            "memoryType": masked(record.memory_type),
            "tags": list(map(masked, record.tags)),
            "modified": record.modified,
            "filePath": masked(record.path),
        }

    def _write_lists(self, records: list[MemoryRecord]) -> None:
        entries = [self._entry(record) for record in records]
        listing = {"memories": entries[:_NEWEST]}
        name = self._detector.masked(self._files.root.name)
        values = {"heading": name, "count": len(entries), "found": listing}
        self._render("site_index", "index.html", title=name, **values)
        by_type = [("type", entry["memoryType"], entry["memoryType"], entry) for entry in entries]
        by_tag = [("tag", tag, f"#{tag}", entry) for entry in entries for tag in entry["tags"]]
        for list_name, title, pairs in (("all", "All", by_type), ("tags", "Tags", by_tag)):
            groups: dict[str, dict[str, Any]] = {}
            for kind, key, heading, entry in sorted(pairs, key=lambda pair: pair[1]):
                empty = {"anchor": f"{kind}-{key}", "name": heading, "entries": []}
                groups.setdefault(key, empty)["entries"].append(entry)
            self._render(
                "site_list", f"{list_name}.html", title=title, groups=list(groups.values())
            )

    def _write_map(self, call: Call, renderer: Renderer, records: list[MemoryRecord]) -> None:
        graph = memory_map(call, renderer.graph, records)
        to = SiteAddresses(self._by_id, {}, "index.html")
        nodes = [
            {**node, "address": to.memory(node["id"]), "text": self._texts.get(node["id"], "")}
            for node in graph["nodes"]
        ]
        similar = similar_memories(call, records, renderer.beginnings)
        data = {"nodes": nodes, "edges": graph["edges"], "similar": similar}
        text = json.dumps(data, ensure_ascii=False)
        self._put("data.js", f"window.memvaultSite = {text};\n")
        self._render("map", "map.html", title="Map", **pages.map_values(graph))

    def _copy_attachments(self) -> None:
        for file in self._files.files:
            if file.path in self._linked:
                try:
                    data = plain_files.read(file.file)
                    shown = masked_attachment(file.path, data, self._detector.masked)
                    self._put(self._attachments[file.path], shown)
                except (OSError, StorageError) as error:
                    self._report(f"{file.path} cannot be copied: {error}")

    def _delete_older(self) -> None:
        """Delete stale files of an earlier export, and update the list of files."""
        for path in _listed(self._target.folder) - self._written:
            self._target.folder.delete(path)
        names = sorted(self._written - {LIST})
        self._put(LIST, b"".join(os.fsencode(f"{name}\n") for name in names))


def _page_paths(records: Iterable[MemoryRecord], detector: SecretDetector) -> dict[str, str]:
    """Return the path of each memory's page.

    A digest replaces a path that contains a secret or whose last name would be too long.
    """
    page_paths = {}
    for record in records:
        path = str(PurePosixPath(record.path).with_suffix(""))
        is_short = len(os.fsencode(path.rpartition("/")[2])) <= _MAX_NAME
        is_shown = is_short and detector.masking(record.metadata)(path) == path
        page_paths[record.path] = f"notes/{path if is_shown else hidden_name(record.path)}.html"
    return page_paths


def _listed(target: TargetFolder) -> set[str]:
    """Return the pages and attachments listed by an earlier export."""
    lines = os.fsdecode(target.own_file(LIST, plain_files.MAX_MEMORY_BYTES) or b"").splitlines()
    below = (path for path in lines if path.startswith(("notes/", "files/")))
    return {path for path in below if ".." not in path.split("/")}
