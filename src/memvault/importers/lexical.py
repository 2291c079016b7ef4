"""Convert documents of the editor Lexical, such as Standard Notes' Super notes, to markdown.

A node has a ``type`` and usually ``children``; the ``format`` of text is a bit mask (Lexical 0.30;
Standard Notes' additional nodes: its packages/web, Components/SuperEditor).
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from html import escape
from typing import Any

from memvault.importers import convert, marked_html
from memvault.importers.content_counts import ContentCounts
from memvault.importers.items import Attachment, GivenBytes

_FORMATS = (
    *((1, "b"), (2, "i"), (4, "del"), (8, "u"), (16, "code"), (32, "sub"), (64, "sup")),
    (128, "mark"),
)
_BLOCKS = {
    "paragraph": "p",
    "quote": "blockquote",
    "table": "table",
    "tablerow": "tr",
    "collapsible-container": "div",
    "collapsible-title": "p",
    "collapsible-content": "div",
}
_HEADINGS = frozenset(("h1", "h2", "h3", "h4", "h5", "h6"))
_TRANSPARENT = frozenset(("root", "mark", "overflow"))
_MAX_URL = 10_000


class LexicalDocument:
    """Converts a document; ``linked`` has the ids of linked items, ``files`` the embedded files."""

    def __init__(self, counts: ContentCounts, key: str, titles: dict[str, str]) -> None:
        self._counts = counts
        self._key = key
        self._titles = titles
        self.linked: set[str] = set()
        self.files: list[Attachment] = []
        self._writers: dict[str, Callable[[dict[str, Any]], str]] = {
            "text": self._text,
            "code-highlight": self._plain,
            "hashtag": self._plain,
            "tab": lambda _: "\t",
            "linebreak": lambda _: "<br>",
            "horizontalrule": lambda _: "<hr>",
            "heading": self._heading,
            "list": self._list,
            "code": self._code,
            "link": self._link,
            "autolink": self._link,
            "tablecell": self._cell,
            "snbubble": lambda node: self._item(node, "itemUuid", False),
            "snfile": lambda node: self._item(node, "fileUuid", True),
            "unencrypted-image": self._image,
            "inline-file": self._file,
            "youtube": lambda node: self._site(node, "videoID", "https://www.youtube.com/watch?v="),
            "tweet": lambda node: self._site(node, "id", "https://x.com/i/status/"),
        }

    def markdown(self, root: dict[str, Any]) -> str:
        """Return the document as markdown.

        Raises:
            ValueError: if the document is too large.
        """
        return marked_html.markdown(self._node(root))

    def _node(self, node: Any) -> str:
        if not isinstance(node, dict):
            return ""
        kind = convert.text(node.get("type"))
        if kind in self._writers:
            return self._writers[kind](node)
        inner = self._children(node)
        if kind in _BLOCKS:
            return f"<{_BLOCKS[kind]}>{inner}</{_BLOCKS[kind]}>"
        if kind not in _TRANSPARENT:
            self._counts.omitted(f"super node {kind or 'without a type'}")
        return inner

    def _children(self, node: dict[str, Any]) -> str:
        return "".join(map(self._node, convert.objects_at(node, "children")))

    def _plain(self, node: dict[str, Any]) -> str:
        return escape(convert.text(node.get("text")))

    def _text(self, node: dict[str, Any]) -> str:
        text, bits = self._plain(node), node.get("format")
        for bit, tag in _FORMATS:
            if isinstance(bits, int) and bits & bit and text.strip():
                text = f"<{tag}>{text}</{tag}>"
        return text

    def _heading(self, node: dict[str, Any]) -> str:
        tag = node.get("tag")
        tag = tag if tag in _HEADINGS else "h2"
        return f"<{tag}>{self._children(node)}</{tag}>"

    def _list(self, node: dict[str, Any]) -> str:
        """Return a list; an item that contains only lists belongs to the previous item."""
        kind, items = node.get("listType"), list[str]()
        for child in convert.objects_at(node, "children"):
            inner = self._children(child)
            if items and all(
                grandchild.get("type") == "list"
                for grandchild in convert.objects_at(child, "children")
            ):
                items[-1] += inner
            else:
                mark = marked_html.task(bool(child.get("checked"))) if kind == "check" else ""
                items.append(mark + inner)
        tag, start = ("ol", node.get("start")) if kind == "number" else ("ul", None)
        opened = f'<ol start="{start}">' if isinstance(start, int) else f"<{tag}>"
        return opened + "".join(f"<li>{item}</li>" for item in items) + f"</{tag}>"

    def _code(self, node: dict[str, Any]) -> str:
        language = escape("".join(convert.text(node.get("language")).split()))
        lines = self._children(node).replace("<br>", "\n")
        return f'<pre><code class="language-{language}">{lines}</code></pre>'

    def _link(self, node: dict[str, Any]) -> str:
        return marked_html.web_link(convert.text(node.get("url")), self._children(node))

    def _cell(self, node: dict[str, Any]) -> str:
        tag = "th" if node.get("headerState") else "td"
        return f"<{tag}>{self._children(node)}</{tag}>"

    def _item(self, node: dict[str, Any], key: str, is_file: bool) -> str:
        item_id = convert.text(node.get(key))
        title = self._titles.get(item_id, "")
        if not title:
            self._counts.omitted("super node for an item missing from the backup")
            return ""
        self.linked.add(item_id)
        link = escape(title) if is_file else marked_html.link(item_id, title)
        return f"<p>{link}</p>" if is_file else link

    def _image(self, node: dict[str, Any]) -> str:
        src, alt = convert.text(node.get("src")), escape(convert.text(node.get("alt")))
        if not src.startswith(("http:", "https:")) or len(src) > _MAX_URL:
            self._counts.omitted("super node unencrypted-image without a URL")
            return ""
        return f'<img src="{escape(src)}" alt="{alt}">'

    def _file(self, node: dict[str, Any]) -> str:
        """Return an embed of a file that is stored as a data URL."""
        start, _, data = convert.text(node.get("src")).partition(",")
        try:
            content = base64.b64decode(data, validate=True)
        except binascii.Error:
            content = b""
        if not content or not start.endswith(";base64"):
            self._counts.omitted("super node inline-file without its bytes")
            return ""
        name = convert.text(node.get("fileName")) or "file"
        ref = f"{self._key}-{len(self.files) + 1}"
        path = f"files/{ref}/{name.replace('/', '-')}"
        self.files.append(Attachment(path, GivenBytes(content), (ref,)))
        return f"<p>{marked_html.link(ref, '', is_embed=True)}</p>"

    def _site(self, node: dict[str, Any], key: str, site: str) -> str:
        url = site + convert.text(node.get(key))
        return f"<p>{marked_html.web_link(url, escape(url))}</p>"
