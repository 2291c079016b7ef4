"""Render a vault's markdown as HTML without scripts or resources from other sites.

HTML in a memory is shown, not interpreted. Only links to pages in the vault, to the web and to mail
URLs remain links; images in the vault are shown, others become links. Links to pages are
parsed with a number in place of the URL, so no URL in a memory can lead to a page.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from memvault.lazy_pattern import lazy_pattern
from memvault.secrets.detector import Secret, SecretDetector, mask
from memvault.web.addresses import PICTURES

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_NUMBERED = "/memvault-link/"
_SAFE = lazy_pattern(r"(?:https?://|mailto:)[^\s<>\"]*|/memvault-link/\d{1,6}|#[\w%-]*", 0)
_IMAGES = tuple(PICTURES)
_LABEL = lazy_pattern(r"[\[\]\\<>`*_!]")
_MAX_RENDERED = 400_000
"""Maximum number of characters to render; a longer text is shown as it is."""


class PlacedLink(NamedTuple):
    """A link in markdown: its position, its URL or None, and its label."""

    span: tuple[int, int]
    address: str | None
    label: str
    is_embed: bool


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    class SafeMarkdown(MarkdownIt):
        """A parser that renders links to unsafe URLs as plain text."""

        def validateLink(self, url: str) -> bool:  # noqa: N802  # the parser calls it
            return _SAFE.fullmatch(url) is not None

    return SafeMarkdown("commonmark", {"html": False}).enable(["table", "strikethrough"])


def to_html(
    text: str, links: Sequence[PlacedLink] = (), detector: SecretDetector | None = None
) -> str:
    """Return text as HTML, with its links replaced by the given ones.

    With a ``detector``, secrets are masked in the text of each block without its markup, and in the
    attributes.
    """
    from html import escape

    if len(text) > _MAX_RENDERED:
        return f"<pre>{escape(detector.masked(text) if detector else text)}</pre>"
    parser = _parser()
    tokens = parser.parse(_with_links(text, links))
    numbers = _numbers(links)
    for token in tokens:
        if detector and not token.children:
            token.content, token.info = detector.masked(token.content), detector.masked(token.info)
        if token.children:
            token.children = _without_foreign_images(token.children, numbers)
            for child in token.children:
                if child.type == "link_open":
                    address = str(child.attrs.get("href", ""))
                    if address.startswith(_NUMBERED):
                        child.attrSet("href", numbers.get(address, "#"))
                    child.attrSet("rel", "noopener noreferrer")
            if detector:
                _mask_inline(token.children, detector, frozenset(numbers.values()))
    html: str = parser.renderer.render(tokens, parser.options, {})
    return html


def _mask_inline(
    tokens: Sequence[Token], detector: SecretDetector, vault_addresses: Container[str]
) -> None:
    """Mask secrets in a block's text, which markup may split, and in attributes.

    ``vault_addresses`` contains the URLs of this vault's pages and files.
    """
    pieces: list[tuple[int, Token]] = []
    texts: list[str] = []
    length = 0
    for token in tokens:
        for name, value in token.attrs.items():
            if isinstance(value, str) and value not in vault_addresses:
                token.attrs[name] = detector.masked(value)
        # The children are an image's alternative text.
        _mask_inline(token.children or (), detector, vault_addresses)
        if token.type in ("text", "code_inline"):
            pieces.append((length, token))
            texts.append(token.content)
        elif token.type in ("softbreak", "hardbreak"):
            texts.append("\n")
        else:
            continue
        length += len(texts[-1])
    secrets = detector.find("".join(texts))
    if secrets:
        for start, token in pieces:
            token.content = _without_secrets(token.content, start, secrets)


def _without_secrets(piece: str, start: int, secrets: Sequence[Secret]) -> str:
    """Return a piece of text that begins at ``start``, with secrets in it replaced by masks."""
    out: list[str] = []
    done = 0
    for secret in secrets:
        first, last = max(0, secret.start - start), min(len(piece), secret.end - start)
        if first >= len(piece) or last <= 0:
            continue
        out += [piece[done:first], mask(secret.kind) * (secret.start >= start)]
        done = last
    return "".join([*out, piece[done:]])


def _numbers(links: Sequence[PlacedLink]) -> dict[str, str]:
    """Return the URLs of links by their placeholders in the parsed text."""
    return {f"{_NUMBERED}{number}": link.address or "#" for number, link in enumerate(links)}


def _with_links(text: str, links: Sequence[PlacedLink]) -> str:
    """Return text in which each link is a markdown link to its number, or its label."""
    pieces: list[str] = []
    done = 0
    for number, link in sorted(enumerate(links), key=lambda entry: entry[1].span):
        start, end = link.span
        if start < done:
            continue
        label = _LABEL.sub(lambda match: f"\\{match[0]}", link.label)
        is_image = link.is_embed and (link.address or "").lower().endswith(_IMAGES)
        shown = f"[{label}]({_NUMBERED}{number})" if link.address else label
        pieces += [text[done:start], f"!{shown}" if is_image and link.address else shown]
        done = end
    return "".join(pieces) + text[done:]


def _without_foreign_images(tokens: Sequence[Token], numbers: Mapping[str, str]) -> list[Token]:
    """Return inline tokens with text in place of images that are not files in the vault."""
    from markdown_it.token import Token

    shown_tokens: list[Token] = []
    for token in tokens:
        address = str(token.attrs.get("src", "")) if token.type == "image" else ""
        if token.type == "image" and address in numbers:
            token.attrSet("src", numbers[address])
        if token.type != "image" or address in numbers:
            shown_tokens.append(token)
            continue
        opening = Token("link_open", "a", 1, attrs={"href": address})
        text = Token("text", "", 0, content=token.content or address)
        shown_tokens += [opening, text, Token("link_close", "a", -1)] if address else [text]
    return shown_tokens
