"""Markdown of a vault as HTML that runs and loads nothing.

HTML in a text is shown, not interpreted. Only links to pages of the vault, to the web and to mail
addresses remain links; images of the vault are shown, others become links.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from memvault.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_SAFE = lazy_pattern(r"(?:https?://|mailto:)[^\s<>\"]*|/[mf]/[^\s<>\"]*|#[\w%-]*", 0)
_IMAGES = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".avif")
_LABEL = lazy_pattern(r"[\[\]\\<>`*_!]")
_MAX_RENDERED = 400_000
"""Maximum number of characters that are rendered; a longer text is shown as it is."""


class PlacedLink(NamedTuple):
    """A link in a text: its position, the address that it leads to or None, and its label."""

    span: tuple[int, int]
    address: str | None
    label: str
    is_embed: bool


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    class SafeMarkdown(MarkdownIt):
        """A parser that leaves an address that is not safe as text."""

        def validateLink(self, url: str) -> bool:  # noqa: N802  # the parser calls it
            return _SAFE.fullmatch(url) is not None

    return SafeMarkdown("commonmark", {"html": False}).enable(["table", "strikethrough"])


def to_html(text: str, links: Sequence[PlacedLink] = ()) -> str:
    """Return a text as HTML; its links are replaced by those that are given."""
    from html import escape

    if len(text) > _MAX_RENDERED:
        return f"<pre>{escape(text)}</pre>"
    parser = _parser()
    tokens = parser.parse(_with_links(text, links))
    for token in tokens:
        if token.children:
            token.children = _without_foreign_images(token.children)
            for child in token.children:
                if child.type == "link_open":
                    child.attrSet("rel", "noopener noreferrer")
    html: str = parser.renderer.render(tokens, parser.options, {})
    return html


def _with_links(text: str, links: Sequence[PlacedLink]) -> str:
    """Return a text in which each link is a markdown link to its address, or its label."""
    pieces: list[str] = []
    done = 0
    for link in sorted(links, key=lambda link: link.span):
        start, end = link.span
        if start < done:
            continue
        label = _LABEL.sub(lambda match: f"\\{match[0]}", link.label)
        is_image = link.is_embed and (link.address or "").lower().endswith(_IMAGES)
        shown = f"[{label}](<{link.address}>)" if link.address else label
        pieces += [text[done:start], f"!{shown}" if is_image and link.address else shown]
        done = end
    return "".join(pieces) + text[done:]


def _without_foreign_images(tokens: Sequence[Token]) -> list[Token]:
    """Return inline tokens with text in place of images that are no files of the vault."""
    from markdown_it.token import Token

    kept: list[Token] = []
    for token in tokens:
        address = str(token.attrs.get("src", "")) if token.type == "image" else ""
        if token.type != "image" or address.startswith("/f/"):
            kept.append(token)
            continue
        opening = Token("link_open", "a", 1, attrs={"href": address})
        text = Token("text", "", 0, content=token.content or address)
        kept += [opening, text, Token("link_close", "a", -1)] if address else [text]
    return kept
