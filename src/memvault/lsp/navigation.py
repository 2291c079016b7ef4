"""Resolve the link under the cursor, and find the links to a memory."""

from __future__ import annotations

import re
from collections.abc import Iterator, Set
from itertools import islice

from lsprotocol import types

from memvault import clock
from memvault.index.protocol import MemoryRecord
from memvault.lsp.documents import MAX_NAME, MAX_SECRET, EditorDocument, EditorState
from memvault.lsp.positions import TextLines
from memvault.memories.link_graph import ResolvedLink
from memvault.model import is_document
from memvault.named_tuple import NamedTuple
from memvault.recall.answer import RecallRequest
from memvault.recall.document_place import heading_of
from memvault.sanitize import escape_line, escape_text, shorten
from memvault.vault.front_matter import split_front_matter
from memvault.vault.linked_files import LinkedFiles
from memvault.vault.markdown import (
    find_block_id,
    headings,
    inner_links,
    lines_with_code,
    links,
    without_block_id,
)
from memvault.vault.names import name_key, normalize_title

_MAX_PREVIEW = 800
_MAX_REFERENCES = 5_000
_MAX_SYMBOLS = 50
_ALPHANUMERIC = re.compile(r"[^\W_]+")
_FENCE = re.compile(r"`{3,}")


class LinkUnderCursor(NamedTuple):
    """A link in the open document and the span of the name that it links to."""

    resolved: ResolvedLink
    span: tuple[int, int]

    @property
    def heading(self) -> str:
        """The heading or block in the link's target."""
        return self.resolved.link.heading if self.resolved.link is not None else ""


def link_at(document: EditorDocument, offset: int) -> LinkUnderCursor | None:
    """Return the link at an offset, in the body or in the header."""
    start, graph = document.body_start, document.state.graph
    if offset < start:
        begin, end = document.line_at(offset)
        for resolved in graph.outgoing(document.memory._replace(body="")):
            at = document.text.find(resolved.name, begin, end)
            if at >= 0 and at - 2 <= offset <= at + len(resolved.name) + 2:
                return LinkUnderCursor(resolved, (at, at + len(resolved.name)))
        return None
    at = offset - start
    body = document.parts.body
    every = (*links(body), *inner_links(body))
    link = next((x for x in every if x.span[0] <= at <= x.span[1]), None)
    if link is None:
        return None
    if not link.target:
        own = ResolvedLink(document.memory, "", document.state.record_at(document.path), link)
        return LinkUnderCursor(own, (link.span[0] + start, link.span[1] + start))
    unresolved = ResolvedLink(document.memory, link.target, None, link)
    outgoing = graph.outgoing(document.memory)
    found = next((entry for entry in outgoing if entry.link == link), unresolved)
    first, last = link.target_span
    return LinkUnderCursor(found, (first + start, last + start))


def blocks_in(body: str) -> Iterator[tuple[str, str, int]]:
    """Yield each block id with its line and the line's offset."""
    if "^" in body:
        for match, is_code in lines_with_code(body):
            line = match[0].rstrip("\r\n")
            block = None if is_code else find_block_id(line)
            if block is not None:
                yield block[1], line, match.start()


def _heading_key(text: str) -> str:
    """Normalize a heading for comparison; links to headings omit some characters."""
    return " ".join(_ALPHANUMERIC.findall(normalize_title(without_block_id(text))))


def place_of(body: str, heading: str) -> int:
    """Return the offset of a heading or block in a body; 0 if there is none."""
    name = heading.rpartition("#")[2].strip()
    if name.startswith("^"):
        key = name[1:].casefold()
        return next((at for block, _, at in blocks_in(body) if block.casefold() == key), 0)
    key = _heading_key(name)
    return next((at for at, _, _, text in headings(body) if key and _heading_key(text) == key), 0)


def definition(document: EditorDocument, position: types.Position) -> types.Location | None:
    """Return the target location of the link at a position."""
    state = document.state
    found = link_at(document, document.lines.offset(position))
    if found is None:
        return None
    start = types.Position(0, 0)
    target, link = found.resolved.target, found.resolved.link
    if target is None:
        files = LinkedFiles(state.store.root)
        path = files.target(link, document.path) if link is not None else ""
        return types.Location(state.uri(path), types.Range(start, start)) if path else None
    if is_document(target.path):  # its unsaved text has different lines than its file
        return types.Location(state.uri(target.path), types.Range(start, start))
    lines = TextLines(state.text_of(target.path), document.lines.encoding)
    body = split_front_matter(lines.text).body
    at = place_of(body, found.heading) if found.heading else 0
    at = len(lines.text) - len(body) + at if at else 0
    return types.Location(state.uri(target.path), lines.range(at, at))


def hover(document: EditorDocument, position: types.Position, markdown: bool) -> types.Hover | None:
    """Return the beginning of the target memory of the link at a position."""
    found = link_at(document, document.lines.offset(position))
    if found is None or found.resolved.target is None:
        return None
    text = _preview(document.state, found.resolved.target, found.heading, markdown)
    kind = types.MarkupKind.Markdown if markdown else types.MarkupKind.PlainText
    return types.Hover(types.MarkupContent(kind, text), document.lines.range(*found.span))


def _preview(state: EditorState, record: MemoryRecord, heading: str, markdown: bool) -> str:
    """Return a memory's title, type, tags and the beginning of its text, with secrets masked.

    In markdown, the text is a code block, so an editor neither loads nor runs anything in it.
    """
    mask = state.call.settings.detector.masking(record.metadata)
    body = split_front_matter(state.text_of(record.path)).body
    if is_document(record.path):
        heading = heading_of(heading, body)
    start = place_of(body, heading) if heading else 0
    shown = mask(body[start : start + MAX_SECRET]).strip().replace("\r\n", "\n")
    text = escape_text(shorten(shown, _MAX_PREVIEW).replace("\r", "\n"))
    shown_tags = " ".join(f"#{tag}" for tag in record.tags[:10])
    facts = [record.memory_type, shown_tags, clock.local(record.modified), record.path]
    about = "\n".join(
        escape_line(shorten(mask(fact[:MAX_SECRET]), MAX_NAME))
        for fact in (record.title, "  ".join(filter(None, facts)))
    )
    if not markdown:
        return f"{about}\n\n{text}"
    longest = max((len(run) for run in _FENCE.findall(f"{about}{text}")), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}text\n{about}\n{fence}\n\n{fence}markdown\n{text}\n{fence}"


def _reference_key(heading: str) -> str:
    """Normalize a link's heading or block reference for comparison."""
    name = heading.rpartition("#")[2].strip()
    return name.casefold() if name.startswith("^") else _heading_key(name)


def _subject(document: EditorDocument, offset: int) -> tuple[MemoryRecord | None, set[str]]:
    """Return the memory whose references are requested, and the keys of its heading or block.

    It is the target of the link at ``offset``, or else the open memory and the heading or block at
    ``offset``. The set is empty if references to the whole memory are requested.
    """
    found = link_at(document, offset)
    if found is not None:
        return found.resolved.target, {_reference_key(found.heading)} - {""}
    record = document.state.record_at(document.path)
    at = offset - document.body_start
    start, end = document.line_at(offset)
    block = find_block_id(document.text[start:end]) if at >= 0 else None
    names = [f"^{block[1]}"] if block else []
    for start, end, level, text in headings(document.parts.body):
        if start <= at <= end:
            names = [text, *names] if level > 1 else []
            break
    return record, set(map(_reference_key, names)) - {""}


def references(document: EditorDocument, position: types.Position) -> list[types.Location]:
    """Return the locations of all links to the memory at a position, latest memory first."""
    state = document.state
    record, keys = _subject(document, document.lines.offset(position))
    found: dict[tuple[str, int, int], types.Location] = {}
    lines_by_path: dict[str, tuple[TextLines, int]] = {}
    backlinks = state.graph.backlinks(record.path) if record is not None else []
    lines_with_links = {(link.source, link.stored): link for link in backlinks}
    for link in islice(lines_with_links.values(), _MAX_REFERENCES):
        path = state.graph.entries[link.source].path
        if path not in lines_by_path:
            lines = TextLines(state.text_of(path), document.lines.encoding)
            body_start = len(lines.text) - len(split_front_matter(lines.text).body)
            lines_by_path[path] = lines, lines.line_number(body_start)
        lines, first = lines_by_path[path]
        if not link.stored.key:
            number = first + link.stored.line
            places = _link_places(lines, number, link.stored.target, keys)
        else:
            places = [] if keys else _header_places(lines, first, link.stored.target)
        for start, end in places:
            where = lines.range(start, end)
            found[path, start, end] = types.Location(state.uri(path), where)
    return list(found.values())


def _header_places(lines: TextLines, end: int, target: str) -> list[tuple[int, int]]:
    """Return the span of a name in the header, which ends before the line ``end``."""
    for start, text in ((lines.span(number)[0], lines.line(number)) for number in range(end)):
        at = text.find(target)
        if at >= 0:
            return [(start + at, start + at + len(target))]
    return [lines.span(0)]


def _link_places(
    lines: TextLines, number: int, target: str, keys: Set[str]
) -> list[tuple[int, int]]:
    """Return the spans of a line's links to a target.

    A link that continues on the next line gets the span of the line. With ``keys``, only links to
    a heading or block with one of them count.
    """
    if number >= len(lines):
        return []
    start, end = lines.span(number)
    on_line = [link for link in links(lines.text[start:end]) if link.target == target]
    if not on_line:
        return [] if keys else [(start, end)]
    return [
        (start + link.span[0], start + link.span[1])
        for link in on_line
        if not keys or _reference_key(link.heading) in keys
    ]


def document_symbols(document: EditorDocument) -> list[types.DocumentSymbol]:
    """Return the headings, each with the headings below it."""
    roots: list[types.DocumentSymbol] = []
    parents: list[tuple[int, list[types.DocumentSymbol]]] = [(0, roots)]
    offset, found = document.body_start, list(headings(document.parts.body))
    for number, (start, end, level, text) in enumerate(found):
        below = (later[0] for later in found[number + 1 :] if later[2] <= level)
        until = next(below, len(document.parts.body))
        children: list[types.DocumentSymbol] = []
        symbol = types.DocumentSymbol(
            name=document.state.mask(" ".join(text.split())) or "#",
            kind=types.SymbolKind.String,
            range=document.lines.range(offset + start, offset + until),
            selection_range=document.lines.range(offset + start, offset + end),
            children=children,
        )
        while parents[-1][0] >= level:
            parents.pop()
        parents[-1][1].append(symbol)
        parents.append((level, children))
    return roots


def workspace_symbols(state: EditorState, query: str) -> list[types.WorkspaceSymbol]:
    """Return the memories that recall finds for a query, or the latest ones if it is empty."""
    if query.strip():
        answer = state.call.engine.search(RecallRequest(query.strip(), limit=_MAX_SYMBOLS))
        places = {
            entry.memory.path: 1 if is_document(entry.memory.path) else entry.line_number
            for entry in answer.found
        }
    else:
        latest, _ = state.call.engine.latest_records(_MAX_SYMBOLS, 0)
        places = {record.path: 1 for record in latest}
    key = name_key(query.strip())
    for path, memory in state.unsaved.items():  # recall searches the saved texts
        if key in name_key(memory.title):
            places.setdefault(path, 1)
    starts = {path: types.Position(max(0, line - 1), 0) for path, line in places.items()}
    return [
        types.WorkspaceSymbol(
            location=types.Location(state.uri(path), types.Range(start, start)),
            name=state.mask(record.title),
            kind=types.SymbolKind.File,
            container_name=state.mask(record.memory_type),
        )
        for path, start in starts.items()
        if (record := state.record_at(path)) is not None
    ]
