"""The map with all texts as one HTML file, which loads nothing and needs no server."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import TYPE_CHECKING

from memvault.secrets.detector import masked
from memvault.web import pages

if TYPE_CHECKING:
    from memvault.web.session import WebSession

MARK = "made by memvault graph"
"""What a file of this command contains near its beginning."""


def document(session: WebSession) -> str:
    """Return the file's text: the style, the script and the data of a vault in one page."""
    data = {**session.map(), "texts": session.texts()}
    text = json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")
    style, script = pages.asset("style.css"), pages.asset("app.js")
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    return pages.render(
        "graph_file",
        title=masked(session.root.name),
        mark=MARK,
        policy=policy,
        style=pages.as_html(style),
        script=pages.as_html(script),
        data=pages.as_html(text),
    )


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
