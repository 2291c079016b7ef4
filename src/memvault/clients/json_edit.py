"""Insertion and removal of entries in a JSON text, which may contain comments.

These functions are pure. They write nothing but the entry itself, so that comments, order,
indentation and line endings are preserved. The position of an entry shows whether the object or
list around it existed before. An entry that follows other entries, or directly follows the opening
bracket of an empty container, is in an existing container; an entry alone on a line of its own is
in a container that was created for it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, NamedTuple

_BLANK = re.compile(r"[\s\ufeff]*")
_COMMENT = re.compile(r"//[^\r\n]*|/\*.*?\*/", re.DOTALL)
_SAME_LINE = re.compile(r"[^\S\r\n]*(?://[^\r\n]*|/\*[^\r\n]*?\*/)")
_STRING = re.compile(r'(?<!\\)"(?:[^"\\\r\n]++|\\.)*+"')
_WORD = re.compile(r"[^\s,\[\]{}\":/]+")
_INDENT = re.compile(r"^([ \t]+)\S", re.MULTILINE)
_DEEPEST = 100


class JsonSyntaxError(ValueError):
    """The text is not valid JSON; the message names the line, counted from 1, and the reason."""

    def __init__(self, text: str, place: int, reason: str) -> None:
        self.line = text.count("\n", 0, place) + 1
        super().__init__(f"line {self.line}: {reason}")


class JsonEntry(NamedTuple):
    """An object below nested keys or, if ``listed``, an item of the list there.

    ``is_ours`` recognises the entry later, even if others have added keys to it.
    """

    keys: tuple[str, ...]
    value: dict[str, Any]
    is_ours: Callable[[Any], bool]
    listed: bool = False


class _Node(NamedTuple):
    """A parsed value and its position; ``start`` is the position of its key, if it has one."""

    start: int
    begin: int
    end: int
    value: Any
    entries: list[tuple[str, _Node]]

    def last(self, key: str) -> _Node | None:
        """Return the value of a key; of duplicate keys the last one counts."""
        return next((node for name, node in reversed(self.entries) if name == key), None)


def insert_entry(text: str | None, entry: JsonEntry, base: dict[str, Any]) -> str:
    """Return a text with an entry; a text that already contains it is returned unchanged.

    ``base`` holds the other entries of a file that is created for the entry. Keys that others have
    added to an older version of the entry are preserved.

    Raises:
        JsonSyntaxError: the text is not valid JSON, or holds something else in the entry's place.
    """
    if text is None or not text.strip():
        whole = {**_nested(entry.keys, _inner(entry)), **base}
        return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"
    node, depth = _deepest(text, entry.keys)
    if depth < len(entry.keys):
        _check(text, node, entry.keys[:depth], dict)
        value = _nested(entry.keys[depth + 1 :], _inner(entry))
        return _inserted(text, node, value, entry.keys[depth])
    if entry.listed:
        _check(text, node, entry.keys, list)
    for item in [item for _, item in node.entries] if entry.listed else [node]:
        if entry.is_ours(item.value):
            whole = {**item.value, **entry.value}
            return text if item.value == whole else _replaced(text, item, whole)
    if not entry.listed:
        name = ".".join(entry.keys)
        raise JsonSyntaxError(
            text, node.start, f"{name} is there already, and not memvault setup's"
        )
    return _inserted(text, node, entry.value, None)


def remove_entry(text: str, entry: JsonEntry, base: dict[str, Any]) -> str | None:
    """Return a text without an entry, or None if the file was created for the entry.

    Raises:
        JsonSyntaxError: the text is not valid JSON.
    """
    path = [_parsed(text)]
    for key in entry.keys:
        found = path[-1].last(key) if isinstance(path[-1].value, dict) else None
        if found is None:
            return text
        path.append(found)
    if entry.listed:
        path += [item for _, item in path[-1].entries if entry.is_ours(item.value)][:1]
    gone = path.pop()
    if not entry.is_ours(gone.value):
        return text
    while path[1:] and len(path[-1].entries) == 1 and _is_generated_container(text, path[-1], gone):
        gone = path.pop()
    holder = path[-1]
    first = holder.entries[0][1] is gone and _is_generated_container(text, holder, gone)
    rest = _cut(text, holder, gone)
    if len(path) == 1 and first and _parsed(rest).value == base:
        return None
    return rest


def _inner(entry: JsonEntry) -> Any:
    return [entry.value] if entry.listed else entry.value


def _nested(keys: tuple[str, ...], value: Any) -> Any:
    for key in reversed(keys):
        value = {key: value}
    return value


def _check(text: str, node: _Node, keys: tuple[str, ...], kind: type) -> None:
    if not isinstance(node.value, kind):
        name = ".".join(keys) or "the whole"
        what = "an object" if kind is dict else "a list"
        raise JsonSyntaxError(text, node.begin, f"{name} is not {what}")


def _deepest(text: str, keys: tuple[str, ...]) -> tuple[_Node, int]:
    """Return the deepest value that the keys lead to, and the number of keys used."""
    node = _parsed(text)
    for depth, key in enumerate(keys):
        found = node.last(key) if isinstance(node.value, dict) else None
        if found is None:
            return node, depth
        node = found
    return node, len(keys)


def _inserted(text: str, holder: _Node, value: Any, key: str | None) -> str:
    """Return a text with another entry at the end of an object or a list."""
    start = holder.begin + 1
    own_line = _line_indent(text, holder.begin)
    if not holder.entries:
        return text[:start] + _written(text, value, key, own_line) + text[start:]
    last = holder.entries[-1][1]
    gap = _gap(text, last.end)
    trailing = text[gap : gap + 1] == ","
    place = gap + 1 if trailing else last.end
    beside = _SAME_LINE.match(text, place)
    behind = beside.end() if beside else place
    if "\n" in text[start : holder.end]:
        indent = _line_indent(text, last.start)
        if "\n" not in text[start : last.start]:
            indent = own_line + _unit(text)
        before = _newline(text) + indent
    else:
        before, indent = " ", own_line
    piece = before + _written(text, value, key, indent)
    if trailing:
        return text[:behind] + piece + "," + text[behind:]
    return text[: last.end] + "," + text[last.end : behind] + piece + text[behind:]


def _cut(text: str, holder: _Node, gone: _Node) -> str:
    """Return a text without one entry of an object or a list."""
    index = next(at for at, (_, node) in enumerate(holder.entries) if node is gone)
    start = gone.start
    if len(holder.entries) > 1:
        start = _line_before(text, start)
    gap = _gap(text, gone.end)
    if text[gap : gap + 1] == ",":
        return text[:start] + text[gone.end : gap] + text[gap + 1 :]
    if not index:
        return text[:start] + text[gone.end :]
    comma = _gap(text, holder.entries[index - 1][1].end)
    return text[:comma] + text[comma + 1 : start] + text[gone.end :]


def _is_generated_container(text: str, holder: _Node, first: _Node) -> bool:
    """Return whether an object or a list was created for its first entry.

    The entry then begins a line of its own.
    """
    before = text[holder.begin + 1 : first.start]
    return "\n" in before and not before.strip()


def _replaced(text: str, node: _Node, value: Any) -> str:
    written = _written(text, value, None, _line_indent(text, node.start))
    return text[: node.begin] + written + text[node.end :]


def _written(text: str, value: Any, key: str | None, indent: str) -> str:
    lines = json.dumps(value, indent=_unit(text), ensure_ascii=False)
    name = "" if key is None else f"{json.dumps(key, ensure_ascii=False)}: "
    return name + lines.replace("\n", _newline(text) + indent)


def _unit(text: str) -> str:
    found = _INDENT.search(text)
    return found[1] if found else "  "


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _line_indent(text: str, place: int) -> str:
    line = text[text.rfind("\n", 0, place) + 1 : place]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _gap(text: str, place: int) -> int:
    """Return the position of the next character that is neither white space nor in a comment."""
    while True:
        end = _blanks(text, place)
        comment = _COMMENT.match(text, end)
        if comment is None:
            return end
        place = comment.end()


def _blanks(text: str, place: int) -> int:
    found = _BLANK.match(text, place)
    return found.end() if found else place


def _parsed(text: str) -> _Node:
    node = _value(text, _gap(text, 0), 0)
    end = _gap(text, node.end)
    if end < len(text):
        raise JsonSyntaxError(text, end, "there is more behind the end")
    return node


def _value(text: str, place: int, depth: int, start: int | None = None) -> _Node:
    first = place if start is None else start
    if depth > _DEEPEST:
        raise JsonSyntaxError(text, place, "it is nested too deeply")
    sign = text[place : place + 1]
    if sign in ("{", "["):
        return _holder(text, place, depth, first)
    found = (_STRING if sign == '"' else _WORD).match(text, place)
    if found is None:
        raise JsonSyntaxError(
            text, place, f"{sign!r} is not expected here" if sign else "the end is missing"
        )
    try:
        value = json.loads(found[0], strict=False)
    except ValueError as error:
        raise JsonSyntaxError(text, place, f"{found[0][:40]!r} is no value") from error
    return _Node(first, place, found.end(), value, [])


def _holder(text: str, place: int, depth: int, first: int) -> _Node:
    is_object = text[place] == "{"
    close = "}" if is_object else "]"
    entries: list[tuple[str, _Node]] = []
    at = _gap(text, place + 1)
    while text[at : at + 1] != close:
        entries.append(_member(text, at, depth) if is_object else ("", _value(text, at, depth + 1)))
        at = _gap(text, entries[-1][1].end)
        if text[at : at + 1] == ",":
            at = _gap(text, at + 1)
        elif text[at : at + 1] != close:
            raise JsonSyntaxError(text, at, f"a comma or {close} is missing")
    values = [node.value for _, node in entries]
    names = [name for name, _ in entries]
    whole = dict(zip(names, values, strict=True)) if is_object else values
    return _Node(first, place, at + 1, whole, entries)


def _line_before(text: str, place: int) -> int:
    """Return the end of the previous line, if only blanks precede a position in its line."""
    kept = text[:place].rstrip(" \t")
    return len(kept.removesuffix("\n").removesuffix("\r") if kept.endswith("\n") else kept)


def _member(text: str, place: int, depth: int) -> tuple[str, _Node]:
    name = _STRING.match(text, place)
    if name is None:
        raise JsonSyntaxError(text, place, "a name in double quotes is missing")
    colon = _gap(text, name.end())
    if text[colon : colon + 1] != ":":
        raise JsonSyntaxError(text, colon, "a colon is missing")
    node = _value(text, _gap(text, colon + 1), depth + 1, place)
    return str(json.loads(name[0], strict=False)), node
