"""Render memories as HTML, with links to the pages of other memories and to attachments."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import PurePosixPath
from typing import TYPE_CHECKING
from urllib.parse import quote

from memvault.errors import MemvaultError
from memvault.lazy_pattern import lazy_pattern
from memvault.model import Memory, is_document
from memvault.secrets.detector import allows
from memvault.vault import paths
from memvault.vault.markdown import first_heading, links
from memvault.vault.sections import find_section
from memvault.web.addresses import PICTURES, Addresses, public_id
from memvault.web.markdown_html import PlacedLink, RenderedMarkdown, heading_anchor, to_html

if TYPE_CHECKING:
    from memvault.call import Call
    from memvault.index.protocol import MemoryRecord, View
    from memvault.memories.link_graph import LinkGraph

_FIRST_HEADING = lazy_pattern(r"\A<h1[^>\n]*>[^\n]*</h1>\n")
"""Matches a title at the beginning of a memory's text, which the page already shows."""
_MAX_EMBEDS = 20
_MAX_EMBEDDED = 50_000
"""Maximum number of characters of an embedded text; a longer one is only linked."""
_FILE_SUFFIXES = PICTURES.keys() | frozenset(
    ".svg .pdf .txt .csv .docx .pptx .xlsx .epub .mp3 .mp4".split()
)
_PAGE = lazy_pattern(r"page=\d{1,9}")


class Renderer:
    """Renders memories in one view of the index; its methods may raise ``StaleView``.

    With all ``records`` of the view, the targets of links are not looked up in the index.
    """

    def __init__(self, call: Call, view: View, records: Iterable[MemoryRecord] = ()) -> None:
        self._call = call
        self._view = view
        self._records = records

    @cached_property
    def graph(self) -> LinkGraph:
        """The vault's links."""
        return self._call.link_graph(self._view, self._records)

    def rendered(
        self, memory: Memory, to: Addresses, embeds: bool = True, prefix: str = ""
    ) -> RenderedMarkdown:
        """Return a memory's text as HTML without its title, with secrets masked.

        ``embeds`` shows the text of embedded memories, without the memories embedded in these.
        The ids in the text contain ``prefix``.
        """
        detector = None if allows(memory.metadata) else self._call.settings.detector
        shown = memory._replace(body=detector.masked(memory.body) if detector else memory.body)
        rendered = to_html(shown.body, self._placed(shown, to, embeds), detector, prefix)
        if first_heading(memory.body) != memory.title:
            return rendered
        html, count = _FIRST_HEADING.subn("", rendered.html, 1)
        return RenderedMarkdown(html, rendered.headings[count:])

    def _placed(self, memory: Memory, to: Addresses, embeds: bool) -> list[PlacedLink]:
        """Return the links in a memory's text with the URLs of pages and files."""
        body_links = [
            link for link in links(memory.body) if link.form not in ("definition", "html")
        ]
        if not body_links:
            return []
        targets = {
            resolved.link.span: resolved.target
            for resolved in self.graph.outgoing(memory)
            if resolved.link is not None
        }
        detector = self._call.settings.detector
        placed = []
        room = _MAX_EMBEDS
        for link in body_links:
            target = targets.get(link.span)
            name = public_id(target, detector) if target is not None else ""
            address = to.memory(name) if name else None
            embedded, file = "", ""
            if address and target is not None and not is_document(target.path):
                if link.is_embed and embeds:
                    prefix = f"e{room}-"
                    embedded = self._embedded(target, link.heading, to, prefix) if room > 0 else ""
                    room -= 1
                if link.heading and not link.heading.startswith("^"):
                    anchor = heading_anchor(link.heading.rpartition("#")[2])
                    address = f"{address}#{quote(anchor)}"
            if target is None:
                file = self._file_beside(link.target, memory.path)
            elif is_document(target.path) and is_attachment(target.path):
                file = target.path
            if file or target is None:
                is_secret = detector.masked(file) != file
                address = to.file(file) if file and not is_secret else None
                if address and _PAGE.fullmatch(link.heading):
                    address += f"#{link.heading}"
            label = link.shown or link.target
            placed.append(PlacedLink(link.span, address, label, link.is_embed, embedded))
        return placed

    def _embedded(self, target: MemoryRecord, heading: str, to: Addresses, prefix: str) -> str:
        """Return the HTML of an embedded memory, or of its section with a heading."""
        try:
            memory = self._call.reader.read(target.path)
            if heading:
                section = find_section(memory.body, heading)
                memory = memory._replace(body=memory.body[section.start : section.end])
        except MemvaultError:
            return ""
        if len(memory.body) > _MAX_EMBEDDED:
            return ""
        return self.rendered(memory, to, embeds=False, prefix=prefix).html

    def _file_beside(self, target: str, path: str) -> str:
        """Return the path of a file in the vault that a link refers to, or an empty string."""
        if PurePosixPath(target).suffix.lower() not in _FILE_SUFFIXES:
            return ""
        root = self._call.root
        for name in (str(PurePosixPath(path).parent / target), target):
            try:
                inside = paths.resolve_inside(root, name)
            except MemvaultError:
                continue
            if is_attachment(inside) and (root / inside).is_file():
                return inside
        return ""


def is_attachment(path: str) -> bool:
    """Return whether pages show or link to a file of this kind, and it is not hidden."""
    pure = PurePosixPath(path)
    is_hidden = any(part.startswith(".") for part in pure.parts)
    return not is_hidden and pure.suffix.lower() in _FILE_SUFFIXES


_TEXT_SUFFIXES = frozenset(".svg .txt .csv".split())
_BYTE_ORDER_MARKS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16", b"\xef\xbb\xbf": "utf-8-sig"}


def masked_attachment(path: str, data: bytes, masked: Callable[[str], str]) -> bytes:
    """Return the bytes of an attachment, with secrets masked if it is text.

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
