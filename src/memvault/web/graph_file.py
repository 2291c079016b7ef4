"""Write the map with all memories as one self-contained HTML file, which needs no server."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from memvault.errors import NotFound
from memvault.web import pages
from memvault.web.addresses import PICTURES, ServedAddresses

if TYPE_CHECKING:
    from memvault.web.session import WebSession

MARK = "made by memvault graph"
"""Text near the beginning of files written by this command."""

_SCRIPTS = ("vendor/graph.js", "vendor/layout.js", "map.js", "app.js")
_MAX_PICTURE, _MAX_PICTURES = 5_000_000, 50_000_000
"""Maximum size in bytes of an image in the file, and of all images."""


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


def document(session: WebSession) -> str:
    """Return one page with the style sheet, the script and the data of a vault."""
    addresses = _FileAddresses(session)
    texts = session.texts(addresses)
    graph = {**session.map(), "similar": session.similar()}
    data = {**graph, "texts": texts, "pictures": addresses.pictures}
    text = json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")
    style, scripts = pages.asset("style.css"), list(map(pages.asset, _SCRIPTS))
    allowed = " ".join(f"'{_hash(script)}'" for script in scripts)
    policy = (
        f"default-src 'none'; script-src {allowed}; style-src '{_hash(style)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    return pages.render(
        "graph_file",
        title=session.name,
        mark=MARK,
        policy=policy,
        style=pages.as_html(style),
        scripts=list(map(pages.as_html, scripts)),
        data=pages.as_html(text),
    )


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
