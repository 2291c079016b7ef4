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
_MAX_DEPTH = 100


class JsonSyntaxError(ValueError):
    """The text is not valid JSON; the message names the line, counted from 1, and the reason."""

    def __init__(self, text: str, position: int, reason: str) -> None:
        self.line = text.count("\n", 0, position) + 1
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
        content = {**_nest(entry.keys, _entry_value(entry)), **base}
        return json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    node, depth = _deepest_value(text, entry.keys)
    if depth < len(entry.keys):
        _check_type(text, node, entry.keys[:depth], dict)
        value = _nest(entry.keys[depth + 1 :], _entry_value(entry))
        return _insert(text, node, value, entry.keys[depth])
    if entry.listed:
        _check_type(text, node, entry.keys, list)
    for item in [item for _, item in node.entries] if entry.listed else [node]:
        if entry.is_ours(item.value):
            content = {**item.value, **entry.value}
            return text if item.value == content else _replace(text, item, content)
    if not entry.listed:
        name = ".".join(entry.keys)
        raise JsonSyntaxError(
            text, node.start, f"{name} is there already, and not memvault setup's"
        )
    return _insert(text, node, entry.value, None)


def remove_entry(text: str, entry: JsonEntry, base: dict[str, Any]) -> str | None:
    """Return a text without an entry, or None if the file was created for the entry.

    Raises:
        JsonSyntaxError: the text is not valid JSON.
    """
    path = [_parse(text)]
    for key in entry.keys:
        child = path[-1].last(key) if isinstance(path[-1].value, dict) else None
        if child is None:
            return text
        path.append(child)
    if entry.listed:
        path += [item for _, item in path[-1].entries if entry.is_ours(item.value)][:1]
    removed = path.pop()
    if not entry.is_ours(removed.value):
        return text
    while (
        path[1:] and len(path[-1].entries) == 1 and _is_generated_container(text, path[-1], removed)
    ):
        removed = path.pop()
    holder = path[-1]
    first = holder.entries[0][1] is removed and _is_generated_container(text, holder, removed)
    result = _without_entry(text, holder, removed)
    if len(path) == 1 and first and _parse(result).value == base:
        return None
    return result


def _entry_value(entry: JsonEntry) -> Any:
    return [entry.value] if entry.listed else entry.value


def _nest(keys: tuple[str, ...], value: Any) -> Any:
    for key in reversed(keys):
        value = {key: value}
    return value


def _check_type(text: str, node: _Node, keys: tuple[str, ...], kind: type) -> None:
    if not isinstance(node.value, kind):
        name = ".".join(keys) or "the whole"
        what = "an object" if kind is dict else "a list"
        raise JsonSyntaxError(text, node.begin, f"{name} is not {what}")


def _deepest_value(text: str, keys: tuple[str, ...]) -> tuple[_Node, int]:
    """Return the deepest value that the keys lead to, and the number of keys used."""
    node = _parse(text)
    for depth, key in enumerate(keys):
        child = node.last(key) if isinstance(node.value, dict) else None
        if child is None:
            return node, depth
        node = child
    return node, len(keys)


def _insert(text: str, holder: _Node, value: Any, key: str | None) -> str:
    """Return a text with another entry at the end of an object or a list."""
    start = holder.begin + 1
    holder_indent = _line_indent(text, holder.begin)
    if not holder.entries:
        return text[:start] + _serialize(text, value, key, holder_indent) + text[start:]
    last = holder.entries[-1][1]
    next_token = _skip_blanks_and_comments(text, last.end)
    trailing = text[next_token : next_token + 1] == ","
    position = next_token + 1 if trailing else last.end
    comment = _SAME_LINE.match(text, position)
    line_end = comment.end() if comment else position
    if "\n" in text[start : holder.end]:
        indent = _line_indent(text, last.start)
        if "\n" not in text[start : last.start]:
            indent = holder_indent + _indent_unit(text)
        before = _newline(text) + indent
    else:
        before, indent = " ", holder_indent
    piece = before + _serialize(text, value, key, indent)
    if trailing:
        return text[:line_end] + piece + "," + text[line_end:]
    return text[: last.end] + "," + text[last.end : line_end] + piece + text[line_end:]


def _without_entry(text: str, holder: _Node, removed: _Node) -> str:
    """Return a text without one entry of an object or a list."""
    index = next(at for at, (_, node) in enumerate(holder.entries) if node is removed)
    start = removed.start
    if len(holder.entries) > 1:
        start = _end_of_previous_line(text, start)
    next_token = _skip_blanks_and_comments(text, removed.end)
    if text[next_token : next_token + 1] == ",":
        return text[:start] + text[removed.end : next_token] + text[next_token + 1 :]
    if not index:
        return text[:start] + text[removed.end :]
    comma = _skip_blanks_and_comments(text, holder.entries[index - 1][1].end)
    return text[:comma] + text[comma + 1 : start] + text[removed.end :]


def _is_generated_container(text: str, holder: _Node, first: _Node) -> bool:
    """Return whether an object or a list was created for its first entry.

    The entry then begins a line of its own.
    """
    before = text[holder.begin + 1 : first.start]
    return "\n" in before and not before.strip()


def _replace(text: str, node: _Node, value: Any) -> str:
    written = _serialize(text, value, None, _line_indent(text, node.start))
    return text[: node.begin] + written + text[node.end :]


def _serialize(text: str, value: Any, key: str | None, indent: str) -> str:
    lines = json.dumps(value, indent=_indent_unit(text), ensure_ascii=False)
    name = "" if key is None else f"{json.dumps(key, ensure_ascii=False)}: "
    return name + lines.replace("\n", _newline(text) + indent)


def _indent_unit(text: str) -> str:
    indent = _INDENT.search(text)
    return indent[1] if indent else "  "


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _line_indent(text: str, position: int) -> str:
    line = text[text.rfind("\n", 0, position) + 1 : position]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _skip_blanks_and_comments(text: str, position: int) -> int:
    """Return the position of the next character that is neither white space nor in a comment."""
    while True:
        end = _skip_blanks(text, position)
        comment = _COMMENT.match(text, end)
        if comment is None:
            return end
        position = comment.end()


def _skip_blanks(text: str, position: int) -> int:
    blanks = _BLANK.match(text, position)
    return blanks.end() if blanks else position


def _parse(text: str) -> _Node:
    node = _parse_value(text, _skip_blanks_and_comments(text, 0), 0)
    end = _skip_blanks_and_comments(text, node.end)
    if end < len(text):
        raise JsonSyntaxError(text, end, "there is more behind the end")
    return node


def _parse_value(text: str, position: int, depth: int, start: int | None = None) -> _Node:
    first = position if start is None else start
    if depth > _MAX_DEPTH:
        raise JsonSyntaxError(text, position, "it is nested too deeply")
    char = text[position : position + 1]
    if char in ("{", "["):
        return _parse_container(text, position, depth, first)
    match = (_STRING if char == '"' else _WORD).match(text, position)
    if match is None:
        raise JsonSyntaxError(
            text, position, f"{char!r} is not expected here" if char else "the end is missing"
        )
    try:
        value = json.loads(match[0], strict=False)
    except ValueError as error:
        raise JsonSyntaxError(text, position, f"{match[0][:40]!r} is no value") from error
    return _Node(first, position, match.end(), value, [])


def _parse_container(text: str, position: int, depth: int, first: int) -> _Node:
    is_object = text[position] == "{"
    close = "}" if is_object else "]"
    entries: list[tuple[str, _Node]] = []
    cursor = _skip_blanks_and_comments(text, position + 1)
    while text[cursor : cursor + 1] != close:
        entries.append(
            _parse_member(text, cursor, depth)
            if is_object
            else ("", _parse_value(text, cursor, depth + 1))
        )
        cursor = _skip_blanks_and_comments(text, entries[-1][1].end)
        if text[cursor : cursor + 1] == ",":
            cursor = _skip_blanks_and_comments(text, cursor + 1)
        elif text[cursor : cursor + 1] != close:
            raise JsonSyntaxError(text, cursor, f"a comma or {close} is missing")
    values = [node.value for _, node in entries]
    names = [name for name, _ in entries]
    value = dict(zip(names, values, strict=True)) if is_object else values
    return _Node(first, position, cursor + 1, value, entries)


def _end_of_previous_line(text: str, position: int) -> int:
    """Return the end of the previous line, if only blanks precede a position in its line."""
    before = text[:position].rstrip(" \t")
    return len(before.removesuffix("\n").removesuffix("\r") if before.endswith("\n") else before)


def _parse_member(text: str, position: int, depth: int) -> tuple[str, _Node]:
    name = _STRING.match(text, position)
    if name is None:
        raise JsonSyntaxError(text, position, "a name in double quotes is missing")
    colon = _skip_blanks_and_comments(text, name.end())
    if text[colon : colon + 1] != ":":
        raise JsonSyntaxError(text, colon, "a colon is missing")
    node = _parse_value(text, _skip_blanks_and_comments(text, colon + 1), depth + 1, position)
    return str(json.loads(name[0], strict=False)), node
