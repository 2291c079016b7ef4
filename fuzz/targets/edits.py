"""An edit sets one key, preserves every other byte, and reads back as requested."""

from __future__ import annotations

import contextlib
from typing import Any

import yaml

from memvault.errors import Refused
from memvault.vault import decoding, document
from memvault.vault.front_matter import read_header, split_front_matter
from memvault.vault.header_yaml import canonical_key, loader, to_json_values
from targets.shapes import HEADER_TOKENS, first_line, value_of

TOKENS = (
    *HEADER_TOKENS,
    "title=tA new title\n---\n",
    "tags=lta|tb\n---\n",
    "a=n\n---\n",
    "b=f1.2e9\n---\n",
    "facts=dx~t1|y~n\n---\n",
    "a=i7\n---\n",
)


def check(data: bytes) -> None:
    """Set the key in the first line in the file that follows."""
    wish, file = first_line(data)
    key, _, told = wish.partition("=")
    key, value = key.encode("utf-8", "replace").decode(), value_of(told)
    _written(key, value, file)
    old = _header(file)
    _edited(file, key, value, old)
    if old is not None and value is not None:
        _entry_set(file, key, told[:3], value, old)


def _header(file: bytes) -> dict[str, Any] | None:
    """Return the header's values; None if it cannot be read."""
    parsed = document.Document.parse(file)
    if parsed.problem and "no closing line" not in parsed.problem:  # an edit adds a header
        return None
    return parsed.header or {}


def _written(key: str, value: Any, body: bytes) -> None:
    """Write a new memory and read it back."""
    text = decoding.decode(body).text
    try:
        written = document.encode_new({key: value}, text)
    except Refused:  # too long, or nested too deeply
        return
    read = document.Document.parse(written)
    assert read.header == to_json_values({key: value})
    assert read.text == document.plain_text(text).strip("\n")


def _edited(file: bytes, key: str, value: Any, old: dict[str, Any] | None) -> None:
    try:
        fresh = document.edit(file, {key: value}, None)
    except Refused:
        return
    assert old is not None, "a header that cannot be read cannot be edited"
    wanted = dict(old)
    wanted.pop(key, None)
    if value is not None:
        wanted[key] = value
    assert _header(fresh) == to_json_values(wanted)
    before = decoding.decode(file)
    assert fresh.startswith(before.bom)
    after = fresh[len(before.bom) :].decode(before.encoding)
    was, now = split_front_matter(before.text), split_front_matter(after)
    if not was.before:
        assert after.endswith(was.body)
        return
    assert (was.before, was.after, was.body) == (now.before, now.after, now.body)
    start, end = _span(was.header, key)
    if value is None and start < end:
        start = max(was.header.rfind("\n", 0, start), was.header.rfind("\r", 0, start)) + 1
        line = was.header[end:].splitlines(keepends=True)
        end += len(line[0]) if line and not was.header[:end].endswith(("\n", "\r")) else 0
        assert now.header == was.header[:start] + was.header[end:]
    assert now.header.startswith(was.header[:start])
    # The rest of a list's last line belongs to its item, and is removed with it.
    behind = was.header[end:].splitlines(keepends=True)[:1] if isinstance(value, list) else []
    assert now.header.endswith(was.header[end + sum(map(len, behind)) :])
    with contextlib.suppress(Refused):
        assert document.edit(fresh, {key: value}, None) == fresh


def _entry_set(file: bytes, key: str, name: str, value: Any, old: dict[str, Any]) -> None:
    """Set an entry of the mapping under the key."""
    try:
        fresh = document.edit_entry(file, key, name, value)
    except Refused:
        return
    held = old.get(key)
    entries = {**held, name: value} if isinstance(held, dict) else {name: value}
    assert _header(fresh) == to_json_values({**old, key: entries})
    was, now = (
        split_front_matter(decoding.decode(file).text),
        split_front_matter(decoding.decode(fresh).text),
    )
    if was.before:
        assert (was.before, was.after, was.body) == (now.before, now.after, now.body)
        start, end = _span(was.header, key)
        assert now.header.startswith(was.header[:start])
        behind = was.header[end:].splitlines(keepends=True)[:1]
        assert "".join(behind).strip() in now.header
        assert now.header.endswith(was.header[end + sum(map(len, behind)) :])


def _span(header: str, key: str) -> tuple[int, int]:
    """Return the positions of a key and its value; the end of the header if it is missing."""
    root = yaml.compose(read_header(header).readable, Loader=loader())
    for name, node in reversed(root.value) if isinstance(root, yaml.MappingNode) else []:
        if canonical_key(str(name.value)) == canonical_key(key):
            return name.start_mark.index, max(_end(node, header), name.end_mark.index)
    return len(header), len(header)


def _end(node: Any, header: str) -> int:
    """Return the position of the last character of a value."""
    end: int = node.end_mark.index
    if isinstance(node, yaml.ScalarNode):
        blocks = node.style in ("|", ">")
        return len(header[:end].rstrip()) if blocks else end
    if node.flow_style or not node.value:
        return end
    last = node.value[-1]
    if isinstance(last, tuple) and last[1].start_mark.index == last[1].end_mark.index:
        end = _end(last[0], header)  # nothing follows that key
        rest = header[end:].lstrip(" \t")
        return len(header) - len(rest) + 1 if rest.startswith(":") else end
    return _end(last[1] if isinstance(last, tuple) else last, header)
