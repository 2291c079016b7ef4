"""Write the map with all memories as one self-contained HTML file, which needs no server."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from memvault.errors import MemvaultError, NotFound
from memvault.web import pages
from memvault.web.addresses import PICTURES, ServedAddresses
from memvault.web.memory_map import MAX_NODES, memory_map, similar_memories
from memvault.web.renderer import Renderer
from memvault.web.session import WebSession, shown_records

if TYPE_CHECKING:
    from memvault.call import Call
    from memvault.index.protocol import View

MARK = "made by memvault graph"
"""Text near the beginning of files written by this command."""

_SCRIPTS = ("vendor/graph.js", "vendor/layout.js", "map.js", "app.js")
_MAX_PICTURE, _MAX_PICTURES = 5_000_000, 50_000_000
"""Maximum size in bytes of an image in the file, and of all images."""
_MAX_EMBEDDING = 50_000_000
"""Number of characters of HTML after which embeds are rendered as links."""


class _FileAddresses(ServedAddresses):
    """The URLs in the file, which refer to memories and images in the script's data.

    ``pictures`` contains the images as data URLs, without duplicates, ordered by number.
    """

    def __init__(self, session: WebSession) -> None:
        super().__init__()
        self._session = session
        self._addresses: dict[str, str | None] = {}
        self._room = _MAX_PICTURES
        self.pictures: list[str] = []

    def file(self, path: str) -> str | None:
        """See ``Addresses.file``; returns None for a file that is too large or is not an image."""
        if path not in self._addresses:
            self._addresses[path] = self._added(path)
        return self._addresses[path]

    def _added(self, path: str) -> str | None:
        suffix = PurePosixPath(path).suffix.lower()
        try:
            data = self._session.file(path) if suffix in PICTURES else b""
        except NotFound:
            return None
        if not 0 < len(data) <= min(_MAX_PICTURE, self._room):
            return None
        self._room -= len(data)
        self.pictures.append(f"data:{PICTURES[suffix]};base64,{base64.b64encode(data).decode()}")
        return f"data:,{len(self.pictures) - 1}{suffix}"


def document(session: WebSession) -> tuple[str, int]:
    """Return one page with the style sheet, the script and the data of a vault.

    Also return the number of memories in it.
    """
    data = session.on_view(lambda call, view: _graph(session, call, view), slow=True)
    text = json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")
    style, scripts = pages.asset("style.css"), list(map(pages.asset, _SCRIPTS))
    allowed = " ".join(f"'{_hash(script)}'" for script in scripts)
    policy = (
        f"default-src 'none'; script-src {allowed}; style-src '{_hash(style)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    page = pages.render(
        "graph_file",
        title=session.name,
        mark=MARK,
        policy=policy,
        style=pages.as_html(style),
        scripts=list(map(pages.as_html, scripts)),
        data=pages.as_html(text),
    )
    return page, len(data["nodes"])


def _graph(session: WebSession, call: Call, view: View) -> dict[str, Any]:
    """Return the map of the memories, their text as HTML, and their images, as JSON values."""
    records = list(view.records())
    renderer, addresses = Renderer(call, view, records), _FileAddresses(session)
    records = shown_records(records)[:MAX_NODES]
    graph = memory_map(call, renderer.graph, records)
    texts: dict[str, str] = {}
    size = 0
    for record, node in zip(records, graph["nodes"], strict=True):
        with contextlib.suppress(MemvaultError):
            memory = renderer.memory(record)
            html = renderer.prepared(memory, addresses, embeds=size < _MAX_EMBEDDING)().html
            texts[node["id"]] = html
            size += len(html)
    return {
        **graph,
        "similar": similar_memories(call, records, renderer.beginnings),
        "texts": texts,
        "pictures": addresses.pictures,
    }


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
