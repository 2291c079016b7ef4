"""Insert and remove entries in a JSON text, which may contain comments.

These functions are pure. They change only the entry itself and preserve comments, order,
indentation and line endings of the rest. Removing an entry also removes the objects and lists that
become empty.

The standard library parses the values from a copy of the text in which spaces replace comments and
trailing commas, so positions in the copy and the text match.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from memvault.lazy_pattern import lazy_pattern
from memvault.named_tuple import NamedTuple

_STRING = r'"(?:[^"\\\r\n]|\\.)*+"?'  # An unterminated string ends at the end of its line.
_NO_JSON = lazy_pattern(
    rf"({_STRING})|//[^\r\n]*+|/\*(?:[^*]|\*(?!/))*+(?:\*/)?|[^\S \t\r\n]|\ufeff", re.DOTALL
)
"""Matches comments and whitespace that JSON forbids; also matches strings, to skip them."""
_TRAILING_COMMA = lazy_pattern(rf"({_STRING}|[^\s,:\[{{\"])(\s*+),(?=\s*+[}}\]])|{_STRING}")
_BLANKS = lazy_pattern(r"\s*")
_REST_OF_LINE = lazy_pattern(r"[^\S\r\n]*(?://[^\r\n]*|/\*[^\r\n]*?\*/)")
_INDENT = lazy_pattern(r"^([ \t]+)\S", re.MULTILINE)
_DECODER = json.JSONDecoder()


class JsonSyntaxError(ValueError):
    """The text is not valid JSON; the message contains the line, counted from 1, and the reason."""

    def __init__(self, text: str, position: int, reason: str) -> None:
        self.line = text.count("\n", 0, position) + 1
        super().__init__(f"line {self.line}: {reason}")


class JsonEntry(NamedTuple):
    """A value below nested keys or, if ``listed``, an item of the list there.

    ``is_ours`` recognizes the entry later, even if others have added keys to it.
    """

    keys: tuple[str, ...]
    value: Any
    is_ours: Callable[[Any], bool]
    listed: bool = False

    @property
    def content(self) -> Any:
        """The content of a file that has only this entry."""
        return [self.value] if self.listed else self.value


class _Node(NamedTuple):
    """A value and its position; ``start`` is the position of its key, if any."""

    start: int
    begin: int
    end: int
    value: Any
    key: str = ""


class _Document:
    """A JSON text; ``bare`` is the text with comments replaced by spaces.

    Raises:
        JsonSyntaxError: the text is not valid JSON.
        RecursionError: its values are nested too deeply.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.bare = _NO_JSON.sub(_blanked, text)
        self._plain = _TRAILING_COMMA.sub(
            lambda match: match[0] if match[1] is None else f"{match[1]}{match[2]} ", self.bare
        )
        begin = self.skip(0)
        try:
            value, end = _DECODER.raw_decode(self._plain, begin)
        except json.JSONDecodeError as error:
            raise JsonSyntaxError(text, error.pos, error.msg.removesuffix(" at")) from error
        if self.skip(end) < len(text):
            raise JsonSyntaxError(text, self.skip(end), "unexpected text after the end")
        self.root = _Node(begin, begin, end, value)

    def skip(self, position: int) -> int:
        """Return the position of the next character that is not whitespace or in a comment."""
        match = _BLANKS.match(self.bare, position)
        return match.end() if match else position

    def in_line_comment(self, position: int) -> bool:
        """Return whether a position is in or at the end of a ``//`` comment."""
        return any(
            match.start() < position <= match.end() and match[0].startswith("//")
            for match in _NO_JSON.finditer(self.text)
        )

    def entries(self, holder: _Node) -> list[_Node]:
        """Return the values of an object or a list, in order."""
        nodes: list[_Node] = []
        if not isinstance(holder.value, dict | list):
            return nodes
        start = self.skip(holder.begin + 1)
        while start < holder.end - 1:
            key, begin = "", start
            if isinstance(holder.value, dict):
                key, end = _DECODER.raw_decode(self._plain, start)
                begin = self.skip(self.skip(end) + 1)
            value, end = _DECODER.raw_decode(self._plain, begin)
            nodes.append(_Node(start, begin, end, value, key))
            comma = self.skip(end)
            start = self.skip(comma + 1) if self.bare[comma] == "," else comma
        return nodes

    def path(self, keys: tuple[str, ...]) -> list[_Node]:
        """Return the existing values on the path of keys, starting with the whole document.

        Of duplicate keys, the last one counts.
        """
        path = [self.root]
        for key in keys:
            if not isinstance(path[-1].value, dict) or key not in path[-1].value:
                break
            path.append(next(node for node in self.entries(path[-1])[::-1] if node.key == key))
        return path


def insert_entry(text: str | None, entry: JsonEntry, base: dict[str, Any]) -> str:
    """Return text with an entry; text that already contains it is returned unchanged.

    ``base`` has the other entries of a file that is created for the entry. Keys that other programs
    or people have added to an older version of the entry are preserved.

    Raises:
        JsonSyntaxError: the text is not valid JSON, or has something else in the entry's place.
    """
    if text is None or not text.strip():
        created = {**_nest(entry.keys, entry.content), **base}
        return f"{json.dumps(created, indent=2, ensure_ascii=False)}\n"
    document = _Document(text)
    path = document.path(entry.keys)
    node, depth = path[-1], len(path) - 1
    if depth < len(entry.keys):
        _check_type(text, node, entry.keys[:depth], dict)
        value = _nest(entry.keys[depth + 1 :], entry.content)
        return _insert(document, node, value, entry.keys[depth])
    if entry.listed:
        _check_type(text, node, entry.keys, list)
    for item in document.entries(node) if entry.listed else [node]:
        if entry.is_ours(item.value):
            is_object = isinstance(item.value, dict)
            updated = {**item.value, **entry.value} if is_object else entry.value
            if item.value == updated:
                return text
            written = _serialize(text, updated, None, _line_indent(text, item.start))
            return text[: item.begin] + written + text[item.end :]
    if not entry.listed:
        name = ".".join(entry.keys)
        raise JsonSyntaxError(text, node.start, f"{name} was not written by `memvault setup`")
    return _insert(document, node, entry.value, None)


def remove_entry(text: str, entry: JsonEntry, base: dict[str, Any]) -> str | None:
    """Return text without an entry, and without objects and lists that become empty.

    Returns None if only ``base`` would remain.

    Raises:
        JsonSyntaxError: the text is not valid JSON.
    """
    document = _Document(text)
    path = document.path(entry.keys)
    if len(path) <= len(entry.keys):
        return text
    items = document.entries(path[-1]) if entry.listed else [path.pop()]
    removed = next((item for item in items if entry.is_ours(item.value)), None)
    if removed is None:
        return text
    while len(path) > 1 and len(path[-1].value) == 1:
        removed = path.pop()
    rest = _Document(_without_entry(document, document.entries(path[-1]), removed))
    has_comments = rest.bare != rest.text
    return None if rest.root.value in ({}, base) and not has_comments else rest.text


def _nest(keys: tuple[str, ...], value: Any) -> Any:
    for key in reversed(keys):
        value = {key: value}
    return value


def _check_type(text: str, node: _Node, keys: tuple[str, ...], kind: type) -> None:
    if not isinstance(node.value, kind):
        name = ".".join(keys) or "the whole"
        type_name = "an object" if kind is dict else "a list"
        raise JsonSyntaxError(text, node.begin, f"{name} is not {type_name}")


def _insert(document: _Document, holder: _Node, value: Any, key: str | None) -> str:
    """Return text with a value appended to an object or a list."""
    text, start = document.text, holder.begin + 1
    holder_indent = _line_indent(text, holder.begin)
    entries = document.entries(holder)
    if not entries:
        return text[:start] + _serialize(text, value, key, holder_indent) + text[start:]
    last = entries[-1]
    comma = document.skip(last.end)
    trailing = document.bare[comma] == ","
    position = comma + 1 if trailing else last.end
    comment = _REST_OF_LINE.match(text, position)
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


def _without_entry(document: _Document, entries: list[_Node], removed: _Node) -> str:
    """Return text without one entry of an object or a list."""
    text, start = document.text, removed.start
    index = entries.index(removed)
    comma = document.skip(removed.end)
    has_comma = document.bare[comma] == ","
    if len(entries) > 1:
        line_end = _end_of_previous_line(text, start)
        following = text[comma + 1 if has_comma else removed.end :]
        # Do not append the rest of this line to a line that ends in a comment.
        if following.startswith(("\n", "\r\n")) or not document.in_line_comment(line_end):
            start = line_end
    if has_comma:
        return text[:start] + text[removed.end : comma] + text[comma + 1 :]
    if not index:
        return text[:start] + text[removed.end :]
    comma = document.skip(entries[index - 1].end)
    return text[:comma] + text[comma + 1 : start] + text[removed.end :]


def _serialize(text: str, value: Any, key: str | None, indent: str) -> str:
    lines = json.dumps(value, indent=_indent_unit(text), ensure_ascii=False)
    name = "" if key is None else f"{json.dumps(key, ensure_ascii=False)}: "
    return name + lines.replace("\n", _newline(text) + indent)


def _blanked(match: re.Match[str]) -> str:
    return match[1] or re.sub(r"[^\r\n]", " ", match[0])


def _indent_unit(text: str) -> str:
    indent = _INDENT.search(text)
    return indent[1] if indent else "  "


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _line_indent(text: str, position: int) -> str:
    line = text[text.rfind("\n", 0, position) + 1 : position]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _end_of_previous_line(text: str, position: int) -> int:
    """Return the end of the previous line if only whitespace precedes a position in its line."""
    before = text[:position].rstrip(" \t")
    return len(before.removesuffix("\n").removesuffix("\r") if before.endswith("\n") else before)
