"""Complete the names of memories, headings, blocks, tags, and the keys and values of headers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice

from lsprotocol import types

from memvault.index.protocol import MemoryRecord
from memvault.lsp.documents import MAX_NAME, CompletionName, EditorDocument, EditorState
from memvault.lsp.navigation import blocks_in
from memvault.named_tuple import NamedTuple
from memvault.sanitize import escape_line
from memvault.vault.front_matter import FrontMatter, close_front_matter
from memvault.vault.header_links import LINK_KEYS
from memvault.vault.header_yaml import dump_value
from memvault.vault.markdown import headings, mask_code
from memvault.vault.names import NOT_IN_LINKS, link_path, normalize_title, tag_key

TRIGGERS = ["[", "#", "^", "/"]
"""The characters, in addition to letters, after which an editor requests completions."""
_MOST = 100
_TAG = re.compile(r"(?:^|(?<=[\s(>]))#([^\s#\[\]()`'\",;:!?]*)$")
_KEY_LINE = re.compile(r"([^\s:#'\"\[\]-][^:]{0,80}):(?:[ \t]+(.*))?$")
_ITEM_LINE = re.compile(r"[ \t]*-[ \t]+(.*)$")
_HEADER_KEYS = {
    "title": "The title, if it differs from the first heading and the file name",
    "aliases": "Other names that links can use",
    "tags": "Tags",
    "memory_type": "The type, such as decision or procedure",
    "created": "When it was created",
    "modified": "When it was last changed",
    "supersedes": "The memories that this one replaces",
    "superseded_by": "The memory that replaces this one",
    "valid_from": "The first day on which it is valid",
    "valid_to": "The last day on which it is valid",
    "importance": "A number from 0 to 1",
    "area": "The area it belongs to",
    "cites": "The code in the repository that it describes",
    "secrets": "allowed: this memory may contain secrets",
}


class _Choice(NamedTuple):
    """A completion: the text to insert, and how the editor lists it."""

    text: str
    label: str = ""
    detail: str = ""
    kind: types.CompletionItemKind = types.CompletionItemKind.Value


def complete(document: EditorDocument, position: types.Position) -> types.CompletionList | None:
    """Return the completions at a position, best first, or None if there is nothing to complete."""
    offset = document.lines.offset(position)
    start, _ = document.line_at(offset)
    before = document.text[start:offset]
    parts = _header_parts(document, offset)
    opening = before.rfind("[[")
    typed = before[opening + 2 :] if opening >= 0 else ""
    if opening >= 0 and not {"|", "]"} & set(typed):
        if parts is None and _is_code(document, start + opening):
            return None
        return _links(document, typed, offset)
    if parts is not None:
        lines = document.text[len(parts.before) : start].splitlines()
        return _header(document, lines, before, offset)
    tag = _TAG.search(before)
    # A # at the start of a line is usually a heading.
    if tag is None or before == "#" or _is_code(document, offset - 1):
        return None
    return _list(document, tag[1], offset, _tags(document.state, tag[1]))


def _header_parts(document: EditorDocument, offset: int) -> FrontMatter | None:
    """Return the parts of the text if an offset is in its header, which may be unclosed."""
    parts = document.parts
    if not parts.before:
        closed = close_front_matter(document.text)
        if closed is None:
            return None
        parts = closed
    start = len(parts.before)
    return parts if start <= offset <= start + len(parts.header) else None


def _is_code(document: EditorDocument, offset: int) -> bool:
    at = offset - document.body_start
    body = document.parts.body
    return at >= 0 and mask_code(body)[at : at + 1] != body[at : at + 1]


def _list(
    document: EditorDocument, typed: str, offset: int, choices: Iterable[_Choice], end: str = ""
) -> types.CompletionList:
    """Return choices that replace the typed text, except those that contain a secret.

    ``end`` closes the link or list, and is inserted if it is missing.
    """
    missing = "" if document.text.startswith(end, offset) else end
    replaced = document.lines.range(offset - len(typed), offset)
    is_clean = document.state.is_clean
    short = (choice for choice in choices if len(choice.text) + len(choice.label) <= 3 * MAX_NAME)
    clean = (choice for choice in short if is_clean("\n".join(choice[:3])))
    items = [
        types.CompletionItem(
            label=escape_line(choice.label or choice.text),
            kind=choice.kind,
            detail=escape_line(choice.detail) or None,
            filter_text=choice.label or choice.text,
            sort_text=f"{number:04}",
            text_edit=types.TextEdit(replaced, f"{choice.text}{missing}"),
        )
        for number, choice in enumerate(islice(clean, _MOST))
    ]
    return types.CompletionList(is_incomplete=True, items=items)


def _links(document: EditorDocument, typed: str, offset: int) -> types.CompletionList:
    """Return the names that a link may use, or the headings and blocks of its target."""
    state = document.state
    sign = next((sign for sign in typed if sign in "#^"), "")
    if not sign:
        return _list(document, typed, offset, _names(state, typed), "]]")
    name, _, part = typed.partition(sign)
    target = state.graph.by_name(name.strip(), document.path) if name.strip() else None
    if name.strip() and target is None:
        choices: list[_Choice] = []
    else:
        body = document.parts.body if target is None else state.store.read(target.path).body
        if part.startswith("^"):
            sign, part = "^", part[1:]
        choices = _blocks(body) if sign == "^" else _headings(body)
    key = normalize_title(part)
    fitting = (choice for choice in choices if key in normalize_title(choice.label or choice.text))
    return _list(document, part, offset, fitting, "]]")


def _headings(body: str) -> list[_Choice]:
    kind = types.CompletionItemKind.Reference
    texts = [(level, " ".join(text.split())) for _, _, level, text in headings(body)]
    return [
        _Choice(written, text, "#" * level, kind)
        for level, text in texts
        for written in [" ".join("".join(" " if c in NOT_IN_LINKS else c for c in text).split())]
        if written
    ]


def _blocks(body: str) -> list[_Choice]:
    kind = types.CompletionItemKind.Reference
    return [_Choice(block, detail=line[:80], kind=kind) for block, line, _ in blocks_in(body)]


def _names(state: EditorState, typed: str) -> list[_Choice]:
    """Return the memories with a name that contains the typed text, best matches first."""
    key = normalize_title(typed.strip())
    ranked: list[list[CompletionName]] = [[] for _ in range(6)]
    for name in state.names():
        at = name.folded.find(key)
        if at < 0:
            continue
        is_word = at == 0 or not name.folded[at - 1].isalnum() or f" {key}" in name.folded
        rank = (0 if at == 0 else 1 if is_word else 2) + 3 * (name.kind == "path")
        ranked[rank].append(name)
    chosen: dict[tuple[int, str], _Choice] = {}
    for name in (name for names in ranked for name in names):
        if name.kind == "path" and any(uid == name.record.uid for uid, _ in chosen):
            continue
        choice = _name_choice(state, name)
        if choice is not None:
            chosen.setdefault((name.record.uid, choice.label), choice)
        if len(chosen) >= _MOST:
            break
    return list(chosen.values())


def _name_choice(state: EditorState, name: CompletionName) -> _Choice | None:
    """Return the link to a memory under one of its names; None if no link resolves to it."""
    record, kind = name.record, types.CompletionItemKind.File
    target = link_name(state, record)
    if target is None:
        return None
    is_label = name.kind == "alias" and name.name != target
    if is_label and not NOT_IN_LINKS.intersection(name.name):
        target = f"{target}|{name.name}"
    return _Choice(target, name.name, f"{record.memory_type}  {record.path}", kind)


def link_name(state: EditorState, record: MemoryRecord) -> str | None:
    """Return the text of a link to a memory: its title, or else its path; None if neither works."""
    for name in (record.title, link_path(record.path)):
        is_usable = len(name) <= MAX_NAME and not NOT_IN_LINKS.intersection(name)
        if is_usable and state.leads_only_to(name, record):
            return name
    return None


def _tags(state: EditorState, typed: str) -> Iterator[_Choice]:
    key = tag_key(typed)
    kind = types.CompletionItemKind.Keyword
    for count in state.saved.tags:
        if key in tag_key(count.tag) and tag_key(count.tag) != key:
            yield _Choice(count.tag, detail=f"{count.memories:,}", kind=kind)


def _header(
    document: EditorDocument, above: list[str], before: str, offset: int
) -> types.CompletionList | None:
    """Return the completions in a header: keys, or the values of a key."""
    key_line, item = _KEY_LINE.match(before), _ITEM_LINE.match(before)
    if item is not None:
        key = next((line for line in reversed(above) if not line.startswith((" ", "\t", "-"))), "")
        match = _KEY_LINE.match(key)
        if match is None or (match[2] or "").strip():
            return None
        return _values(document, match[1], item[1], offset)
    if key_line is not None:
        value = key_line[2] or ""
        if key_line[2] is None:
            return None
        if value.startswith("["):
            value = re.split(r"[\[,][ \t]*", value)[-1]
        return _values(document, key_line[1], value, offset)
    if ":" in before or before != before.strip():
        return None
    present = {line.partition(":")[0] for line in document.parts.header.splitlines()}
    kind = types.CompletionItemKind.Property
    counts = document.state.saved.header_values
    others = sorted(counts, key=lambda name: -counts[name].total())[:_MOST]
    keys = [key for key in dict.fromkeys([*_HEADER_KEYS, *others]) if key not in present]
    choices = (
        _Choice(f"{key}: ", key, _HEADER_KEYS.get(key, ""), kind)
        for key in keys
        if key.startswith(before) and re.fullmatch(r"[\w-]{1,60}", key)
    )
    return _list(document, before, offset, choices)


def _values(document: EditorDocument, key: str, typed: str, offset: int) -> types.CompletionList:
    """Return the known values of a header key."""
    state = document.state
    bare = typed.lstrip("\"'")
    folded = normalize_title(bare)
    if key in LINK_KEYS:
        links = (choice._replace(text=f'"[[{choice.text}]]"') for choice in _names(state, bare))
        return _list(document, typed, offset, links)
    choices: Iterable[_Choice]
    if key == "memory_type":
        kinds = {entry.name: entry.description for entry in state.call.settings.types}
        used = dict.fromkeys((r.memory_type for r in state.saved.records.values()), "")
        choices = (_Choice(name, detail=about) for name, about in {**used, **kinds}.items())
    elif key in ("tags", "tag"):
        choices = (_Choice(count.tag, detail=f"{count.memories:,}") for count in state.saved.tags)
    else:
        known = None if key in ("id", "title") else state.saved.header_values.get(key)
        common = known.most_common(_MOST) if known is not None else []
        choices = (_Choice(dump_value(value), str(value), f"{n:,}") for value, n in common)
    fitting = (
        choice for choice in choices if folded in normalize_title(choice.label or choice.text)
    )
    return _list(document, typed, offset, fitting)
