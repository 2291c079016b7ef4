"""Render a vault's markdown as HTML without scripts or resources from other sites.

HTML in a memory is shown, not interpreted. Only links to pages in the vault, to the web and to mail
URLs remain links; images in the vault are shown, others become links. Links to pages are
parsed with a number in place of the URL, so no URL in a memory can lead to a page.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from memvault.lazy_pattern import lazy_pattern
from memvault.named_tuple import NamedTuple
from memvault.secrets.detector import Secret, SecretDetector, mask
from memvault.web.addresses import PICTURES
from memvault.web.anchors import anchor_of, heading_anchor, set_block_ids

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock
    from markdown_it.rules_core import StateCore
    from markdown_it.token import Token

_NUMBERED = "/memvault-link/"
_BROKEN = "#"
_SAFE = lazy_pattern(r"(?:https?://|mailto:)[^\s<>\"]*|/memvault-link/\d{1,6}|#[\w%-]*", 0)
_IMAGES = tuple(PICTURES)
_LABEL = lazy_pattern(r"[\[\]\\<>`*_!^~]")
_INLINE_MARKUP = lazy_pattern(r"[\n!&*<\[\\\]_`~]")
_CALLOUT = lazy_pattern(r"\[!([\w-]{1,40})\]([+-]?)[ \t]*")
_CHECKBOX = lazy_pattern(r'<input class="task-list-item-checkbox"(?! aria-label)')
"""Matches a checkbox without a label; checkboxes in embedded HTML already have one."""
_MAX_RENDERED = 400_000
"""Maximum number of characters to render; a longer text is shown as it is."""
MAX_MARKUP = 50_000
"""Maximum ``markup_length`` of a text to render; each unit takes about 20 us."""
_MARKUP = lazy_pattern(r"[\n\[\]!#&*<>\\_`|~]|[-+]\s|\d[.)]\s")
_MAX_NESTING = 100
_PLAIN = "This text is too large or too deeply nested to format, so it is shown as plain text."
_CALLOUTS = {
    "tip": "tip hint important success check done",
    "warning": "warning caution attention question help faq",
    "danger": "danger error failure fail missing bug",
    "quote": "quote cite abstract summary tldr example",
}
"""Obsidian's types of callouts by style; every other type is a note."""
_CALLOUT_STYLES = {kind: style for style, kinds in _CALLOUTS.items() for kind in kinds.split()}


class PlacedLink(NamedTuple):
    """A link in markdown: its position, its URL or an empty string, and its label.

    ``embedded`` is the HTML to show in place of a paragraph that only contains this link. ``size``
    is an image's width and height, which may be empty.
    """

    span: tuple[int, int]
    address: str
    label: str
    is_embed: bool
    embedded: str = ""
    size: tuple[str, str] = ("", "")


class PageHeading(NamedTuple):
    """A heading of a page: its level, text and anchor."""

    level: int
    text: str
    anchor: str


class RenderedMarkdown(NamedTuple):
    """A text as HTML, and its headings."""

    html: str
    headings: list[PageHeading]


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token
    from mdit_py_plugins.footnote import footnote_plugin

    class SafeMarkdown(MarkdownIt):
        """A parser that renders links to unsafe URLs as plain text."""

        def validateLink(self, url: str) -> bool:  # noqa: N802  # the parser calls it
            return _SAFE.fullmatch(url) is not None

    def made(nesting: int) -> MarkdownIt:
        options = {"html": False, "tasklists": True, "maxNesting": nesting}
        parser = SafeMarkdown("commonmark", options).enable(["table", "strikethrough"])
        parser.block.ruler.before("table", "plain_paragraph", _plain_paragraph)
        return parser.disable(["html_block", "html_inline"]).use(footnote_plugin, inline=False)

    def parse_inline(state: StateCore) -> None:
        for token in state.tokens:
            if token.type == "inline" and _INLINE_MARKUP.search(token.content):
                token.children = inline.inline.parse(token.content, inline, state.env, [])
            elif token.type == "inline" and token.content:
                token.children = [Token("text", "", 0, content=token.content)]

    # Nested brackets are slow to parse. Beyond the limit, inline text is kept; blocks are lost.
    parser, inline = made(_MAX_NESTING), made(20)
    parser.core.ruler.after("block", "block_ids", set_block_ids)
    parser.core.ruler.at("inline", parse_inline)
    parser.parse("*a*")  # Compile the rules, which only one thread may do.
    return parser


def _plain_paragraph(state: StateBlock, start: int, _end: int, silent: bool) -> bool:
    """Parse a paragraph all of whose lines begin with letters, to which no other rule applies."""
    line = start
    while line < state.lineMax and not state.isEmpty(line):
        if not state.src[state.bMarks[line] + state.tShift[line]].isalpha():
            return False
        line += 1
    if silent or state.is_code_block(start):
        return False
    opening = state.push("paragraph_open", "p", 1)
    inline = state.push("inline", "", 0)
    state.push("paragraph_close", "p", -1)
    state.line = line
    opening.map = inline.map = [start, line]
    inline.content = state.getLines(start, line, state.blkIndent, False).strip()
    inline.children = []
    return True


def markup_length(text: str) -> int:
    """Return the number of line ends and of characters that may be markup."""
    return len(_MARKUP.findall(text))


def to_html(
    text: str,
    links: Sequence[PlacedLink] = (),
    detector: SecretDetector | None = None,
    prefix: str = "",
    block: str = "",
) -> RenderedMarkdown:
    """Render text as HTML, with its links replaced by the given ones.

    With a ``detector``, secrets are masked in the text of each block without its markup, and in the
    attributes; secrets in the markdown source must already be masked. The ids of headings and
    footnotes contain ``prefix``, so that texts with different ones can be on one page. With
    ``block``, such as ``^quote``, only that block is rendered. Text that would take too long is
    shown as it is.
    """
    if len(text) > _MAX_RENDERED or len(text) > MAX_MARKUP < markup_length(text):
        return _plain(text, links, detector)
    parser = _parser()
    environment: dict[str, Any] = {"docId": prefix} if prefix else {}
    if block:
        environment["block"] = anchor_of(block)
    tokens = parser.parse(_with_links(text, links), environment)
    if any(token.level >= _MAX_NESTING - 1 for token in tokens):
        return _plain(text, links, detector)
    _resolve_links(tokens, links, detector, prefix)
    _set_callouts(tokens)
    tokens = _with_embedded(tokens, links)
    found = _set_anchors(tokens, prefix)
    html: str = parser.renderer.render(tokens, parser.options, environment)
    return RenderedMarkdown(_CHECKBOX.sub(r'\g<0> aria-label="Task"', html), found)


def _plain(
    text: str, links: Sequence[PlacedLink], detector: SecretDetector | None
) -> RenderedMarkdown:
    """Return the source text without comments, which are the ``links`` with an empty label."""
    from html import escape

    text = _with_links(text, [link for link in links if not link.label])
    shown = escape(detector.masked(text) if detector else text)
    return RenderedMarkdown(f'<p class="notice">{_PLAIN}</p>\n<pre>\n{shown}</pre>', [])


def _resolve_links(
    tokens: Sequence[Token],
    links: Sequence[PlacedLink],
    detector: SecretDetector | None,
    prefix: str,
) -> None:
    """Set the URLs of links and images, and images' sizes, remove styles, and mask secrets."""
    numbers = _numbers(links)
    sizes = {f"{_NUMBERED}{number}": link.size for number, link in enumerate(links)}
    addresses = frozenset(numbers.values())
    # Text without markup is part of a masked line, unless it contains the label of a broken link.
    has_labels = _BROKEN in addresses
    for token in tokens:
        if token.attrs and (alignment := str(token.attrs.pop("style", ""))):
            # The content security policy forbids styles in attributes.
            token.attrSet("class", alignment.removeprefix("text-align:"))
        if detector and (token.content or token.info) and not token.children:
            token.content, token.info = detector.masked(token.content), detector.masked(token.info)
        if token.children and (has_labels or token.children[0].content != token.content):
            token.children = _without_foreign_images(token.children, numbers, sizes)
            for child in token.children:
                if child.type == "link_open":
                    _set_address(child, numbers, prefix)
            if detector:
                _mask_inline(token.children, detector, addresses)


def _set_address(token: Token, numbers: Mapping[str, str], prefix: str) -> None:
    address = str(token.attrs.get("href", ""))
    if address.startswith(_NUMBERED):
        token.meta["link"] = address
        token.attrSet("href", numbers.get(address, _BROKEN))
    elif address.startswith("#"):
        name = unquote(address[1:])
        anchor = anchor_of(name if name.startswith("^") else name.replace("-", " "))
        token.attrSet("href", f"#{prefix}{anchor}")
    token.attrSet("rel", "noopener noreferrer")


def _set_anchors(tokens: Sequence[Token], prefix: str) -> list[PageHeading]:
    """Give each heading an anchor next to that of its block id, and return the headings."""
    from markdown_it.token import Token

    found: list[PageHeading] = []
    counts: dict[str, int] = {}
    for token, content in pairwise(tokens):
        if token.type == "heading_open":
            text = "".join(
                child.content
                for child in content.children or ()
                if child.type in ("text", "code_inline")
            )
            anchor = f"{prefix}{heading_anchor(text)}"
            counts[anchor] = counts.get(anchor, 0) + 1
            if counts[anchor] > 1:
                anchor = f"{anchor}-{counts[anchor]}"
            if content.children and (block := token.attrs.get("id")):
                block_anchor = Token("html_inline", "", 0, content=f'<a id="{block}"></a>')
                content.children.insert(0, block_anchor)
            token.attrSet("id", anchor)
            found.append(PageHeading(int(token.tag[1:]), text, anchor))
    return found


def _set_callouts(tokens: list[Token]) -> None:
    """Convert quotes that begin with a type such as ``[!note]`` to callouts, as in Obsidian."""
    open_quotes: list[Token | None] = []
    for number, token in enumerate(tokens):
        if token.type == "blockquote_open":
            open_quotes.append(_as_callout(tokens, number))
        elif token.type == "blockquote_close":
            opening = open_quotes.pop()
            token.tag = opening.tag if opening else token.tag


def _as_callout(tokens: list[Token], number: int) -> Token | None:
    """Convert the quote that begins at a position to a callout, and return its first token."""
    from markdown_it.token import Token

    paragraph = tokens[number + 1 : number + 4]
    if [token.type for token in paragraph] != ["paragraph_open", "inline", "paragraph_close"]:
        return None
    content = paragraph[1].children or []
    match = _CALLOUT.match(content[0].content) if content and content[0].type == "text" else None
    if match is None:
        return None
    kind, fold = match[1].lower(), match[2]
    breaks = (place for place, child in enumerate(content) if child.type == "softbreak")
    end = next(breaks, len(content))
    content[0].content = content[0].content[match.end() :]
    title = [child for child in content[:end] if child.type != "text" or child.content]
    if fold:  # A title that can be clicked cannot contain links.
        title = [child for child in title if not child.type.startswith("link_")]
    title = title or [Token("text", "", 0, content=kind.replace("-", " ").capitalize())]
    tag, title_tag = ("details", "summary") if fold else ("div", "p")
    quote = tokens[number]
    quote.tag = tag
    quote.attrSet("class", f"callout {_CALLOUT_STYLES.get(kind, 'note')}")
    if fold == "+":
        quote.attrSet("open", "")
    paragraph[0].tag = paragraph[2].tag = title_tag
    paragraph[0].hidden = paragraph[2].hidden = False
    paragraph[0].attrSet("class", "callout-title")
    paragraph[1].children = title
    if rest := content[end + 1 :]:
        opening, closing = Token("paragraph_open", "p", 1), Token("paragraph_close", "p", -1)
        opening.block = closing.block = True
        inline = Token("inline", "", 0, children=rest)
        tokens[number + 4 : number + 4] = [opening, inline, closing]
    return quote


def _with_embedded(tokens: list[Token], links: Sequence[PlacedLink]) -> list[Token]:
    """Return tokens with embedded HTML in place of paragraphs that only contain its link."""
    from html import escape

    from markdown_it.token import Token

    embeds = {f"{_NUMBERED}{number}": link for number, link in enumerate(links) if link.embedded}
    shown = list(tokens)
    for number, token in enumerate(tokens if embeds else ()):
        children = token.children or []
        if [child.type for child in children] != ["link_open", "text", "link_close"]:
            continue
        link = embeds.get(children[0].meta.get("link", ""))
        if link is not None and tokens[number - 1].type == "paragraph_open":
            title = f'<a href="{escape(link.address)}">{escape(children[1].content)}</a>'
            html = f'<blockquote class="embed"><p>{title}</p>\n{link.embedded}</blockquote>\n'
            shown[number] = Token("html_block", "", 0, content=html)
            for beside in (number - 1, number + 1):
                shown[beside] = Token("html_block", "", 0)
    return shown


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
    return {f"{_NUMBERED}{number}": link.address or _BROKEN for number, link in enumerate(links)}


def _with_links(text: str, links: Sequence[PlacedLink]) -> str:
    """Return text with each link replaced by a markdown link to its number, or by its label."""
    pieces: list[str] = []
    done = 0
    for number, link in sorted(enumerate(links), key=lambda entry: entry[1].span):
        start, end = link.span
        if start < done:
            continue
        label = _LABEL.sub(lambda match: f"\\{match[0]}", link.label)
        is_image = link.is_embed and link.address.lower().endswith(_IMAGES)
        shown = f"[{label}]({_NUMBERED}{number})" if link.address else label
        pieces += [text[done:start], f"!{shown}" if is_image else shown]
        done = end
    return "".join(pieces) + text[done:]


def _without_foreign_images(
    tokens: Sequence[Token], numbers: Mapping[str, str], sizes: Mapping[str, tuple[str, str]]
) -> list[Token]:
    """Return inline tokens with text in place of images that are not files in the vault."""
    from markdown_it.token import Token

    shown_tokens: list[Token] = []
    for token in tokens:
        address = str(token.attrs.get("src", "")) if token.type == "image" else ""
        if token.type == "image" and address in numbers:
            token.attrSet("src", numbers[address])
            for name, pixels in zip(("width", "height"), sizes[address], strict=True):
                if pixels:
                    token.attrSet(name, pixels)
        if token.type != "image" or address in numbers:
            shown_tokens.append(token)
            continue
        opening = Token("link_open", "a", 1, attrs={"href": address})
        text = Token("text", "", 0, content=token.content or address)
        shown_tokens += [opening, text, Token("link_close", "a", -1)] if address else [text]
    return shown_tokens
