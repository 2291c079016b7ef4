"""Compute the edits of renames and code actions, which only the editor applies."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import PurePosixPath
from typing import Any

from lsprotocol import types

from memvault.doctor import checks_links
from memvault.errors import MemvaultError, Refused, UsageError
from memvault.index.protocol import MemoryRecord
from memvault.lsp.completion import link_name
from memvault.lsp.diagnostics import inspect
from memvault.lsp.documents import EditorDocument, EditorState
from memvault.lsp.navigation import link_at
from memvault.lsp.positions import TextLines
from memvault.memories import create, rename, tagging
from memvault.model import FALLBACK_TYPE, Memory
from memvault.recall.answer import RecallRequest
from memvault.sanitize import escape_line, shorten
from memvault.store.memory_store import require_memory
from memvault.vault import decoding, document, naming, paths
from memvault.vault.markdown import headings, links, mask_code
from memvault.vault.markdown_inline import Link
from memvault.vault.memory_file import tag_items
from memvault.vault.names import tag_key

_WORD = re.compile(r"[\w'’-]+")
_MAX_WORDS = 5
"""Maximum number of words in a title that is looked up at the cursor."""
_MAX_CANDIDATES = 3
_MAX_SELECTION = 200


class EditBuilder:
    """Collects edits to a vault's files as one ``WorkspaceEdit``.

    ``versioned`` is whether the editor supports versioned document edits, and ``resources``
    contains the kinds of file operations that it supports.
    """

    def __init__(
        self, state: EditorState, encoding: str, versioned: bool, resources: Iterable[str]
    ) -> None:
        self._state = state
        self._encoding = encoding
        self._versioned = versioned
        self._resources = frozenset(resources)
        self._changes: list[Any] = []

    def replace(self, path: str, data: bytes) -> None:
        """Add the edits that change a file to new bytes."""
        text = decoding.decode(data, self._state.store.settings.encoding).text
        lines = TextLines(self._state.text_of(path), self._encoding)
        if "\r" not in lines.text:  # Some editors pass only LF.
            text = text.replace("\r\n", "\n")
        self.add(path, lines.edits(text))

    def add(self, path: str, edits: list[types.TextEdit]) -> None:
        """Add edits to a file."""
        buffer = self._state.buffers.get(path)
        identifier = types.OptionalVersionedTextDocumentIdentifier(
            self._state.uri(path), buffer.version if buffer is not None else None
        )
        if edits:
            self._changes.append(types.TextDocumentEdit(identifier, list(edits)))

    def create(self, path: str, text: str) -> None:
        """Add a file creation."""
        self._require("create")
        self._changes.append(types.CreateFile(self._state.uri(path)))
        start = types.Position(0, 0)
        self.add(path, [types.TextEdit(types.Range(start, start), text)])

    def move(self, old: str, new: str) -> None:
        """Add a file rename."""
        self._require("rename")
        self._changes.append(types.RenameFile(self._state.uri(old), self._state.uri(new)))

    def can(self, kind: str) -> bool:
        """Return whether the editor supports a kind of file operation."""
        return kind in self._resources

    def _require(self, kind: str) -> None:
        if not self.can(kind):
            raise Refused(f"This editor cannot {kind} files", "use the command line instead")

    def build(self) -> types.WorkspaceEdit:
        """Return the edit; editors without versioned edits get only text changes."""
        if self._versioned:
            return types.WorkspaceEdit(document_changes=self._changes)
        changes = {change.text_document.uri: change.edits for change in self._changes}
        return types.WorkspaceEdit(changes=changes)


def rename_target(doc: EditorDocument, offset: int) -> tuple[Memory, tuple[int, int]]:
    """Return the memory to rename at an offset, and the span of its name there.

    It is the target of a link, or the open memory if the offset is in its title.

    Raises:
        UsageError: the offset is neither in a link to a memory nor in the title.
        Refused: the offset is in a link to a document.
    """
    found = link_at(doc, offset)
    if found is not None and found.resolved.target is not None and found.resolved.name:
        path = found.resolved.target.path
        require_memory(path)
        return doc.state.store.read(path), found.span
    start, end = doc.line_at(offset)
    if offset < doc.body_start:
        is_title = doc.text[start:end].startswith("title:")
        span = (min(start + len("title: "), end), end)
    else:
        first = next((entry for entry in headings(doc.parts.body) if entry[2] == 1), None)
        is_title = first is not None and first[0] <= offset - doc.body_start <= first[1]
        span = (min(start + len("# "), end), end)
    if not is_title:
        raise UsageError(
            "There is nothing to rename here",
            "put the cursor on a link to a memory, or on the title",
        )
    return doc.memory, span


def renamed(
    edit: EditBuilder, state: EditorState, memory: Memory, name: str
) -> types.WorkspaceEdit:
    """Return the edit that changes a memory's title, or its path if ``name`` ends in .md.

    The file keeps its name if the editor cannot rename files.

    Raises:
        MemvaultError: the name is invalid or taken, or a file cannot be changed.
    """
    name = memory.title if name == state.mask(memory.title) else name  # unchanged, perhaps masked
    is_path = name.strip().lower().endswith(".md")
    unmoved = "" if edit.can("rename") else memory.path
    title, path = ("", name.strip()) if is_path else (name, unmoved)
    plan = rename.plan_rename(state.store, lambda: state.graph, memory, title, path)
    if not plan.changes_nothing:
        for entry, data in rename.edited_files(state.store, plan):
            edit.replace(entry.path, data)
        if plan.path != memory.path:
            edit.move(memory.path, plan.path)
    return edit.build()


def moved(
    edit: EditBuilder, state: EditorState, moves: Iterable[tuple[str, str]]
) -> types.WorkspaceEdit:
    """Return the link edits for files that the editor is about to move."""
    changed: dict[str, bytes] = {}
    for old, new in moves:
        memory = state.store.read(old)
        plan = rename.plan_rename(state.store, lambda: state.graph, memory, "", new)
        for entry, data in rename.edited_files(state.store, plan):
            if entry.path in changed:
                raise Refused(
                    f"{entry.path} links to several of these files", "move one file at a time"
                )
            changed[entry.path] = data
    for path, data in changed.items():
        edit.replace(path, data)
    return edit.build()


def code_actions(
    doc: EditorDocument, new_edit: Callable[[], EditBuilder], selected: types.Range, invoked: bool
) -> list[types.CodeAction]:
    """Return the code actions at a range; recall is only used if they were ``invoked`` by hand."""
    start, end = doc.lines.offset(selected.start), doc.lines.offset(selected.end)
    found = link_at(doc, start)
    if found is not None:
        link = found.resolved.link if found.resolved.target is None else None
        return list(_create_note(doc, new_edit(), link)) if link is not None else []
    at, body = start - doc.body_start, doc.parts.body
    if at < 0 or end - start > _MAX_SELECTION or mask_code(body)[at:][:1] != body[at:][:1]:
        return []
    linkable = _linkable(doc, start, end, invoked)
    actions = [_link(doc, new_edit(), span, record) for span, record in linkable]
    return [*filter(None, actions), *_add_tag(doc, new_edit(), start, end, invoked)]


def _action(title: str, kind: types.CodeActionKind, edit: types.WorkspaceEdit) -> types.CodeAction:
    return types.CodeAction(shorten(escape_line(title), 120), kind=kind, edit=edit)


def _create_note(doc: EditorDocument, edit: EditBuilder, link: Link) -> Iterator[types.CodeAction]:
    """Yield the action that creates the missing note of a link, if it is broken."""
    suffix = PurePosixPath(link.target).suffix.lower()
    is_file = suffix in checks_links.FILE_SUFFIXES and suffix != ".md"
    inspection = inspect(doc)
    if is_file or not (link.is_wikilink or suffix == ".md") or inspection is None:
        return
    if link not in checks_links.broken_in(inspection, doc.parts.body):
        return
    state = doc.state
    title = PurePosixPath(link.target).name.removesuffix(".md")
    path = link.path_beside(doc.path) or (link.target if "/" in link.target else "")
    if not path and not (state.store.root / FALLBACK_TYPE).is_dir():
        path = str(PurePosixPath(doc.path).with_name(naming.file_name(title)))
    path = f"{path}.md" if path and suffix != ".md" else path
    try:
        inside = paths.resolve_inside(state.store.root, path) if path else ""
        new_path, data = create.new_file(state.store, title, inside)
        edit.create(new_path, data.decode())
    except MemvaultError:
        return
    exclusions = state.call.settings.exclusions
    if not paths.is_memory(new_path, exclusions) or os.path.lexists(state.store.root / new_path):
        return
    kind = types.CodeActionKind.QuickFix
    yield _action(f"Create the note {state.mask(new_path)}", kind, edit.build())


def _linkable(
    doc: EditorDocument, start: int, end: int, invoked: bool
) -> list[tuple[tuple[int, int], MemoryRecord]]:
    """Return the memories that the selection, or the words at the cursor, can link to."""
    state, own, body_start = doc.state, doc.path, doc.body_start
    inside = (link.span for link in links(doc.parts.body))
    if any(first < end - body_start and start - body_start < last for first, last in inside):
        return []
    if start < end:
        text = doc.text[start:end]
        if "\n" in text.strip() or not text.strip():
            return []
        start, end = end - len(text.lstrip()), start + len(text.rstrip())
        named = [entry for entry in state.graph.named(text.strip()) if entry.path != own]
        if not named and invoked:
            request = RecallRequest(text.strip(), limit=_MAX_CANDIDATES + 1)
            found = state.call.engine.search(request).found
            records = (state.record_at(entry.memory.path) for entry in found)
            named = [record for record in records if record is not None and record.path != own]
        return [((start, end), record) for record in named[:_MAX_CANDIDATES]]
    words = [match.span() for match in _WORD.finditer(doc.text, *doc.line_at(start))]
    for size in range(_MAX_WORDS, 0, -1):
        for group in (words[at : at + size] for at in range(len(words) - size + 1)):
            span = group[0][0], group[-1][1]
            name = doc.text[span[0] : span[1]]
            if span[0] <= start <= span[1] and state.graph.has_name(name):
                named = [entry for entry in state.graph.named(name) if entry.path != own]
                if named:
                    return [(span, record) for record in named[:_MAX_CANDIDATES]]
    return []


def _link(
    doc: EditorDocument, edit: EditBuilder, span: tuple[int, int], record: MemoryRecord
) -> types.CodeAction | None:
    """Return the action that makes a span of text a link to a memory."""
    target = link_name(doc.state, record)
    text = doc.text[span[0] : span[1]]
    if target is None or set("[]|") & set(text):
        return None
    link = f"[[{target}]]" if text == target else f"[[{target}|{text}]]"
    edit.add(doc.path, [types.TextEdit(doc.lines.range(*span), link)])
    title = f"Link to {doc.state.mask(record.title)} ({doc.state.mask(record.path)})"
    return _action(title, types.CodeActionKind.RefactorRewrite, edit.build())


def _add_tag(
    doc: EditorDocument, edit: EditBuilder, start: int, end: int, invoked: bool
) -> Iterator[types.CodeAction]:
    """Yield the action that adds the word at the cursor, or the selection, to the tags.

    If it was not ``invoked`` by hand, the word must be an existing tag.
    """
    state = doc.state
    if start == end:
        spans = (match.span() for match in _WORD.finditer(doc.text, *doc.line_at(start)))
        start, end = next((span for span in spans if span[0] <= start <= span[1]), (start, start))
    word = "-".join(doc.text[start:end].split()).strip("-'’")
    known = {tag_key(count.tag): count.tag for count in state.saved.tags}
    tag = known.get(tag_key(word), word)
    is_present = tag_key(tag) in map(tag_key, doc.memory.tags)
    if not word or is_present or not (invoked or tag_key(word) in known):
        return
    data, _ = state.store.read_bytes(doc.path)
    try:
        tags = [*tag_items(doc.memory.metadata), tagging.validate_tag(tag)]
        new = document.edit(data, {"tags": tags}, None, state.store.settings.encoding)
    except MemvaultError:
        return
    edit.replace(doc.path, new)
    title = f"Add the tag {state.mask(tag)}"
    yield _action(title, types.CodeActionKind.RefactorRewrite, edit.build())
