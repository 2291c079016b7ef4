"""Change values in a header and leave every other character as it is.

Dumping the YAML again would lose comments, order and quoting (python-frontmatter issues 26, 114 and
117). A patched header is parsed again; if its values are not as intended, the edit is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from memvault.errors import Refused
from memvault.lazy_pattern import lazy_pattern
from memvault.vault.front_matter import LINE_ENDS, MAX_DUMPED, read_header
from memvault.vault.header_yaml import (
    canonical_key,
    dump_item,
    dump_key,
    dump_value,
    loader,
    match_key,
    textual,
    to_json_values,
)

_COLON = lazy_pattern(r"[ \t]*:")
_LINE_END = lazy_pattern(r"\r\n|\n|\r|\Z")


def patch_header(header: str, changes: Mapping[str, Any], newline: str = "\n") -> str:
    """Set keys, or remove them if the value is None, leaving every other character unchanged.

    Raises:
        ValueError: the header does not parse.
        Refused: the header is written in a way that cannot be patched safely.
    """
    changes = {canonical_key(key): textual(key, value) for key, value in changes.items()}
    expected = {**read_header(header).values, **changes}
    expected = {key: value for key, value in expected.items() if changes.get(key, "") is not None}

    def patched() -> str:
        text = header
        for key, value in changes.items():
            text = _patch_key(text, key, value, newline)
        return text

    return _patch_safely(header, patched, expected, changes)


def patch_mapping(header: str, key: str, name: str, value: Any, newline: str = "\n") -> str:
    """Set one entry of the mapping at a key.

    Raises:
        ValueError: the header does not parse.
        Refused: the header is written in a way that cannot be patched safely.
    """
    expected = {**read_header(header).values}
    current = expected.get(key)
    if not isinstance(current, Mapping) or not current:
        return patch_header(header, {key: {name: value}}, newline)
    expected[key] = {**current, name: value}
    return _patch_safely(
        header,
        lambda: _set_mapping_entry(header, key, name, value, newline),
        expected,
        {f"{key}.{name}": value},
    )


def _patch_safely(
    header: str, make: Callable[[], str], values: Mapping[str, Any], changes: Mapping[str, Any]
) -> str:
    """Return a patched header if it parses to the intended values, otherwise raise ``Refused``.

    Lines that are not YAML stay as they are, except those of changed keys.
    """
    import yaml

    try:
        expected = to_json_values(values)
        patched = make()
        whole_lines = not patched or not header.endswith(LINE_ENDS) or patched.endswith(LINE_ENDS)
        if whole_lines and len(patched) <= MAX_DUMPED:
            reread = read_header(patched)
            unread = [
                line for line in _unread_texts(header) if canonical_key(line[0]) not in changes
            ]
            if reread.values == expected and _unread_texts(patched) == unread:
                return patched
    except (ValueError, yaml.YAMLError):
        pass
    raise Refused(
        f"The front matter cannot be edited safely ({', '.join(changes)})",
        "edit the file in an editor, with one key per line",
    )


def _unread_texts(header: str) -> list[tuple[str, str]]:
    """Return the lines of a header that are not YAML, each with its key."""
    unread = read_header(header).unread
    return [(lines.key, header[lines.start : lines.end]) for lines in unread]


def _set_mapping_entry(header: str, key: str, name: str, value: Any, newline: str) -> str:
    import yaml

    root: Any = yaml.compose(read_header(header).readable, Loader=loader())
    pairs = reversed(root.value)
    node = next(pair[1] for pair in pairs if canonical_key(str(pair[0].value)) == key)
    for label, entry in node.value:
        if str(label.value) == name:
            start, end = int(entry.start_mark.index), int(entry.end_mark.index)
            if start == end:  # The entry has no value yet.
                start = end = header.index(":", label.end_mark.index) + 1
                return f"{header[:start]} {dump_item(value)}{header[end:]}"
            return header[:start] + dump_item(value) + header[end:]
    written = f"{dump_key(name)}: {dump_item(value)}"
    if node.flow_style:
        end = int(node.end_mark.index) - 1
        return f"{header[:end].rstrip(', ')}, {written}{header[end:]}"
    line = _LINE_END.search(header, _value_end(node, header))
    assert line is not None
    indent = " " * int(node.start_mark.column)
    return f"{header[: line.start()]}{newline}{indent}{written}{header[line.start() :]}"


def _patch_key(header: str, key: str, value: Any, newline: str) -> str:
    import yaml

    root = yaml.compose(read_header(header).readable, Loader=loader())
    entry = None
    if isinstance(root, yaml.MappingNode):
        pairs = reversed(root.value)  # The last of duplicate keys is used.
        entry = next((pair for pair in pairs if canonical_key(str(pair[0].value)) == key), None)
    unread = (lines for lines in read_header(header).unread if canonical_key(lines.key) == key)
    lines = next(unread, None)
    name = match_key(header, lines.start) if lines else None
    if lines and name:
        written = "" if value is None else f"{name[0].rstrip()} {dump_value(value)}{newline}"
        return header[: lines.start] + written + header[lines.end :]
    if entry is None:
        if value is None:
            return header
        if root is not None and getattr(root, "flow_style", False):
            raise Refused(
                f"The front matter is one {{…}} mapping, so {key!r} cannot be added to it",
                "write it with one key per line",
            )
        gap = newline if header and not header.endswith(("\n", "\r")) else ""
        return f"{header}{gap}{dump_key(key)}: {dump_value(value)}{newline}"
    name, node = entry
    start, end = node.start_mark.index, _value_end(node, header)
    if value is None:
        begin = max(header.rfind(mark, 0, name.start_mark.index) for mark in "\r\n") + 1
        line_end = _LINE_END.search(header, end)
        assert line_end is not None, "the end of the header also ends a line"
        return header[:begin] + header[line_end.end() :]
    block = not isinstance(node, yaml.ScalarNode) and not node.flow_style
    if isinstance(node, yaml.SequenceNode) and isinstance(value, list) and value:
        return _patch_list(header, node, read_header(header).values[key], value, newline)
    if block or start <= name.end_mark.index + 1 or not header[start:end]:
        # Put the value directly after the key, before any comment.
        colon = header.index(":", name.end_mark.index) + 1
        line = _LINE_END.search(header, colon)
        assert line is not None
        between = header[colon : line.start()] if block else ""
        rest = header[end:] if block else header[max(colon, end) :]
        return f"{header[:colon]} {dump_value(value)}{between}{rest}"
    return header[:start] + dump_value(value) + header[end:]


def _patch_list(header: str, node: Any, old: list[Any], value: list[Any], newline: str) -> str:
    """Return a header with changed items in a list.

    Unchanged items keep their source text and order. A list in brackets with comments between its
    items is refused.
    """
    import yaml

    start, end = int(node.start_mark.index), _value_end(node, header)
    glue, mark = ", ", ""
    spans = [(int(item.start_mark.index), _value_end(item, header)) for item in node.value]
    if node.flow_style:
        if spans and value[: len(old)] == old:  # Keep comments and line endings between the items.
            added = "".join(f", {dump_item(item)}" for item in value[len(old) :])
            return f"{header[: spans[-1][1]]}{added}{header[spans[-1][1] :]}"
        edges = [start, *(edge for span in spans for edge in span), end]
        if any("#" in header[edges[n] : edges[n + 1]] for n in range(0, len(edges), 2)):
            raise ValueError("comments between the items would be lost")
    else:
        glue, mark = f"{newline}{' ' * node.start_mark.column}", "- "
        line = _LINE_END.search(header, end)
        assert line is not None
        end = line.start()
        starts = [
            int(token.start_mark.index)
            for token in yaml.scan(read_header(header).readable, Loader=loader())
            if isinstance(token, yaml.BlockEntryToken)
            and token.start_mark.column == node.start_mark.column
            and start <= token.start_mark.index < end
        ]
        ends = [max(header.rfind(char, 0, start) for char in "\r\n") for start in starts[1:]]
        spans = [*zip(starts, [*ends, end], strict=True)]
    written, next_index = [], 0
    for item in value:
        index = next((n for n in range(next_index, len(old)) if old[n] == item), None)
        if index is None:
            written.append(f"{mark}{dump_item(item)}")
        else:
            written.append(header[slice(*spans[index])].rstrip("\r\n"))
            next_index = index + 1
    text = glue.join(written)
    return f"{header[:start]}{text if mark else f'[{text}]'}{header[end:]}"


def _value_end(node: Any, header: str) -> int:
    """Return the index where a value ends; PyYAML's end mark may be after comments."""
    import yaml

    if isinstance(node, yaml.ScalarNode):
        if node.style in ("|", ">"):
            start, end = int(node.start_mark.index), int(node.end_mark.index)
            return start + len(header[start:end].rstrip())
        return int(node.end_mark.index)
    if node.flow_style or not node.value:
        return int(node.end_mark.index)
    last = node.value[-1]
    if not isinstance(last, tuple):
        return _value_end(last, header)
    name, value = last
    if value.start_mark.index < value.end_mark.index:
        return _value_end(value, header)
    end = _value_end(name, header)  # YAML may report the end of an empty value after comments.
    colon = _COLON.match(header, end)
    return colon.end() if colon else end
