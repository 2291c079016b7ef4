"""HTML as an intermediate form for a program's own document format.

Links to ids and literal markdown are represented by custom elements, because the source's text is
escaped.
"""

from __future__ import annotations

from html import escape
from typing import Any

from memvault.importers import convert, html_markdown

_LINK, _RAW = "import-link", "import-raw"


def task(is_done: bool) -> str:
    """Return the checkbox of a task."""
    return f'<input type="checkbox"{" checked" if is_done else ""}>'


def link(ref: str, shown: str, is_embed: bool = False) -> str:
    """Return a link to an id in the source."""
    mark = " embed" if is_embed else ""
    return f'<{_LINK} ref="{escape(ref)}"{mark}>{escape(shown)}</{_LINK}>'


def web_link(url: str, shown: str) -> str:
    """Return a link to a web or mailto URL; for other URLs, return only the text."""
    if not url.startswith(("http:", "https:", "mailto:")):
        return shown
    return f'<a href="{escape(url)}">{shown}</a>'


def raw(text: str) -> str:
    """Return literal markdown."""
    return f"<{_RAW}>{escape(text)}</{_RAW}>"


def markdown(html: str) -> str:
    """Convert the HTML to markdown; raises ``ValueError`` as ``html_markdown.markdown`` does."""
    return html_markdown.markdown(html, _custom)


def _custom(element: Any) -> str | None:
    if element.tag == _LINK:
        shown = element.text or ""
        return convert.id_link(element.get("ref"), shown, is_embed="embed" in element.attrib)
    return element.text if element.tag == _RAW else None
