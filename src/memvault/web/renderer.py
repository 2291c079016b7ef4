"""Render memories as HTML, with links to the pages of other memories and to attachments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from pathlib import PurePosixPath
from typing import TYPE_CHECKING
from urllib.parse import quote

from memvault.errors import MemvaultError
from memvault.lazy_pattern import lazy_pattern
from memvault.model import Memory, is_document
from memvault.secrets.detector import allows
from memvault.vault import paths
from memvault.vault.linked_files import LinkedFiles
from memvault.vault.markdown import comments, first_heading, inner_links, links, mask_comments
from memvault.web.addresses import PICTURES, Addresses, public_id
from memvault.web.anchors import anchor_of, around_block, section_of
from memvault.web.markdown_html import (
    MAX_MARKUP,
    PlacedLink,
    RenderedMarkdown,
    markup_length,
    to_html,
)
from memvault.web.memory_map import BEGINNING

if TYPE_CHECKING:
    from memvault.call import Call
    from memvault.index.protocol import MemoryRecord, View
    from memvault.memories.link_graph import LinkGraph
    from memvault.secrets.detector import SecretDetector

_FIRST_HEADING = lazy_pattern(r"\A<h1([^>\n]*)>(<a id=[^>\n]*></a>)?[^\n]*</h1>\n")
"""Matches a title at the beginning of a memory's text, which the page already shows."""
_MIN_EMBEDDED = MAX_MARKUP // 20
"""Minimum length of markup counted for an embed, so that a page reads at most 20 texts.

It is also counted for a text that is too long to embed.
"""
_READ_PER_MARKUP = 200
"""Number of characters of an embedded memory that take as long to read as one unit of markup."""
_MAX_EMBEDDED = 50_000
"""Maximum number of characters of an embedded text or part; a longer one is only linked."""
_FILE_SUFFIXES = PICTURES.keys() | frozenset(
    ".svg .pdf .txt .csv .docx .pptx .xlsx .epub .mp3 .mp4".split()
)
_PAGE = lazy_pattern(r"page=\d{1,9}")


class Renderer:
    """Renders memories from one view of the index; its methods may raise ``StaleView``.

    If ``records`` contains all of the view's records, link targets are not looked up in the index.
    """

    def __init__(self, call: Call, view: View, records: Iterable[MemoryRecord] = ()) -> None:
        self._call = call
        self._view = view
        self._records = records
        self._files = LinkedFiles(call.root)
        self.beginnings: dict[str, str] = {}
        """The first characters of the memories that were read, by path."""

    @cached_property
    def graph(self) -> LinkGraph:
        """The vault's links."""
        return self._call.link_graph(self._view, self._records)

    def memory(self, record: MemoryRecord) -> Memory:
        """Read a memory; raises ``MemvaultError``."""
        data, _ = self._call.reader.read_bytes(record.path)
        memory = record.memory_in(data, self._call.settings.encoding)
        memory = memory or self._call.reader.read(record.path)
        self.beginnings[record.path] = memory.body[:BEGINNING]
        return memory

    def prepared(
        self, memory: Memory, to: Addresses, embeds: bool = True, prefix: str = "", block: str = ""
    ) -> Callable[[], RenderedMarkdown]:
        """Return a function that renders a memory's text with secrets masked.

        The title at its beginning is omitted, except for its anchor if there is no ``prefix``.

        The function needs neither the view nor the vault. ``embeds`` shows the text of embedded
        memories, without the memories embedded in these. The ids in the text contain ``prefix``.
        With ``block``, only that block is rendered.
        """
        detector = self._detector(memory)
        shown = self._masked(memory)
        placed = self._placed(shown, to, embeds)
        is_titled = first_heading(memory.body) == memory.title

        def render() -> RenderedMarkdown:
            html, headings = to_html(shown.body, placed, detector, prefix, block)
            if is_titled and not block:
                anchor = "" if prefix else r"<a\1></a>\2"
                html, count = _FIRST_HEADING.subn(anchor, html)
                headings = headings[count:]
            return RenderedMarkdown(html, [heading for heading in headings if heading.text])

        return render

    def _detector(self, memory: Memory) -> SecretDetector | None:
        return None if allows(memory.metadata) else self._call.settings.detector

    def _masked(self, memory: Memory) -> Memory:
        detector = self._detector(memory)
        return memory._replace(body=detector.masked(memory.body)) if detector else memory

    def _placed(self, memory: Memory, to: Addresses, embeds: bool) -> list[PlacedLink]:
        """Return the links in a memory's text with the URLs of pages and files.

        A comment becomes a link without a label, so it is not shown.
        """
        hidden = (_with_blanks(memory.body, *span) for span in comments(memory.body))
        placed = [PlacedLink(span, "", "", False) for span in hidden]
        shown = [link for link in links(memory.body) if link.form not in ("definition", "html")]
        shown += inner_links(memory.body)
        if not shown:
            return placed
        targets = {
            resolved.link.span: resolved.target
            for resolved in self.graph.outgoing(memory)
            if resolved.link is not None
        }
        room = MAX_MARKUP
        for link in shown:
            target = targets.get(link.span) if link.target else memory
            address = embedded = ""
            if target is None or (is_document(target.path) and is_attachment(target.path)):
                file = target.path if target else self._file_beside(link.target, memory.path)
                address = self._file_address(file, link.heading, to)
            elif page := to.memory(public_id(target, self._call.settings.detector)):
                anchor = f"#{quote(anchor_of(link.heading))}" if link.heading else ""
                address = anchor if target is memory and embeds else f"{page}{anchor}"
                if link.is_embed and embeds and not is_document(target.path):
                    source = memory if target is memory else target.path
                    embedded, room = self._embedded(source, link.heading, to, room)
            label = link.label if link.is_wikilink else mask_comments(link.label)
            placed.append(PlacedLink(link.span, address, label, link.is_embed, embedded, link.size))
        return placed

    def _file_address(self, file: str, heading: str, to: Addresses) -> str:
        """Return the URL of a file, or of a page in it, or an empty string."""
        is_secret = self._call.settings.detector.masked(file) != file
        address = to.file(file) if file and not is_secret else None
        return f"{address}#{heading}" if address and _PAGE.fullmatch(heading) else address or ""

    def _embedded(
        self, target: Memory | str, heading: str, to: Addresses, room: int
    ) -> tuple[str, int]:
        """Return the HTML of an embedded memory or path, or of its section or block.

        ``room`` is how much markup may still be embedded in the page; the rest is also returned.
        """
        if room < _MIN_EMBEDDED:
            return "", room
        try:
            memory = self._call.reader.read(target) if isinstance(target, str) else target
        except MemvaultError:
            return "", room
        block = heading if heading.rpartition("#")[2].startswith("^") else ""
        cost = max(_MIN_EMBEDDED, len(memory.body) // _READ_PER_MARKUP)
        if heading and (not block or len(memory.body) > _MAX_EMBEDDED):
            body = self._masked(memory).body  # A part may contain only part of a secret.
            part = around_block(body, block) if block else section_of(body, heading)
            memory = memory._replace(body=part)
        left = room - max(markup_length(memory.body), cost)
        if len(memory.body) > _MAX_EMBEDDED or left < 0:
            return "", room - cost
        return self.prepared(memory, to, False, f"e{room}-", block)().html, left

    def _file_beside(self, target: str, path: str) -> str:
        """Return the path of a link's target file in the vault, or an empty string."""
        if PurePosixPath(target).suffix.lower() not in _FILE_SUFFIXES:
            return ""
        root = self._call.root

        def candidates() -> Iterator[str]:
            yield str(PurePosixPath(path).parent / target)
            yield target
            yield self._files.find(target, path)

        for name in candidates():
            try:
                inside = paths.resolve_inside(root, name)
            except MemvaultError:
                continue
            if is_attachment(inside) and (root / inside).is_file():
                return inside
        return ""


def _with_blanks(body: str, start: int, end: int) -> tuple[int, int]:
    """Extend a comment's span by the blanks after it, which could indent the text, as in code."""
    if not body[max(0, start - 1) : start].strip():
        while body[end : end + 1] in (" ", "\t"):
            end += 1
    return start, end


def is_attachment(path: str) -> bool:
    """Return whether a file is of a kind that pages show or link to, and is not hidden."""
    pure = PurePosixPath(path)
    is_hidden = any(part.startswith(".") for part in pure.parts)
    return not is_hidden and pure.suffix.lower() in _FILE_SUFFIXES


_TEXT_SUFFIXES = frozenset(".svg .txt .csv".split())
_BYTE_ORDER_MARKS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16", b"\xef\xbb\xbf": "utf-8-sig"}


def masked_attachment(path: str, data: bytes, masked: Callable[[str], str]) -> bytes:
    """Return an attachment's bytes, with secrets masked if it is text.

    Only text formats can be masked, not an image or a PDF.
    """
    if PurePosixPath(path).suffix.lower() not in _TEXT_SUFFIXES:
        return data
    marked = (name for mark, name in _BYTE_ORDER_MARKS.items() if data.startswith(mark))
    for encoding in (*marked, "utf-8", "latin-1"):  # Latin-1 decodes every byte
        try:
            text = data.decode(encoding)
        except UnicodeDecodeError:
            continue
        shown = masked(text)
        return data if shown == text else shown.encode(encoding)
    raise AssertionError("Latin-1 decodes all bytes")
