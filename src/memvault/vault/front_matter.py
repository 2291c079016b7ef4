"""Parse the headers of markdown files, and patch them without touching the rest.

An edit replaces only the characters of the values that change, because dumping the YAML again would
lose comments, order and quoting (python-frontmatter issues 26, 114, 117). ``loader`` defines how
values are typed.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

from memvault.errors import Refused
from memvault.lazy_pattern import lazy_pattern
from memvault.sanitize import replace_surrogates

MAX_HEADER = 256 * 1024
"""Maximum number of characters in a header, and in all its values with aliases expanded."""
_MAX_VALUES = 5_000
_MAX_DEPTH = 30
_REPEATED = lazy_pattern(r"(?:[-?:][ \t]+){100}")


class _ImplicitTag(str):
    """The tag of an untagged scalar, chosen by its form; no file can contain such a tag."""

    __slots__ = ()


def _to_int(text: str) -> int | str:
    number = int(text)
    return number if _is_int64(number) else text


def _to_float(text: str) -> float | str:
    number = float(text)
    return number if math.isfinite(number) else text


_CONVERTERS: Mapping[str, Callable[[str], Any]] = {
    "bool": lambda text: text.lower() == "true",
    "null": lambda _: None,
    "int": _to_int,
    "float": _to_float,
}


@cache
def loader() -> Any:
    """Return a YAML loader that reads everything but booleans, null and decimal numbers as text.

    A value with an explicit tag is never a number, date or object, whatever the tag.
    """
    import yaml

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class HeaderLoader(base):  # type: ignore[misc]  # the base is chosen at run time
        yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012  # PyYAML's own name
        yaml_constructors: dict[str | None, Any] = {}  # noqa: RUF012
        yaml_multi_constructors: dict[str | None, Any] = {}  # noqa: RUF012

        def flatten_mapping(self, node: Any) -> None:
            """Leave merge keys unexpanded: nested ones would grow exponentially."""

    def construct(loader: Any, node: Any) -> Any:
        if isinstance(node, yaml.MappingNode):
            return loader.construct_yaml_map(node)
        if isinstance(node, yaml.SequenceNode):
            return loader.construct_yaml_seq(node)
        return (
            _CONVERTERS[node.tag](node.value) if isinstance(node.tag, _ImplicitTag) else node.value
        )

    HeaderLoader.add_constructor(None, construct)
    for tag, pattern, first in (
        ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
        ("null", r"~|null|Null|NULL|", "~nN"),
        ("int", r"[-+]?(?:0|[1-9][0-9]{0,18})", "-+0123456789"),
        ("float", r"[-+]?(?:0|[1-9][0-9]*)\.[0-9]+(?:[eE][-+]?[0-9]+)?", "-+0123456789"),
    ):
        HeaderLoader.add_implicit_resolver(
            _ImplicitTag(tag),
            re.compile(f"^(?:{pattern})$"),
            [*first, ""] if tag == "null" else list(first),
        )
    return HeaderLoader


def parse_header(header: str) -> dict[str, Any]:
    """Parse a header as JSON values.

    Raises:
        ValueError: it is not YAML, not a mapping, or built to exhaust the parser.
    """
    import yaml
    from frontmatter.default_handlers import YAMLHandler

    try:
        _check_depth(header)
        value = YAMLHandler().load(header, Loader=loader())
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 2 if error.problem_mark else 2
        raise ValueError(f"line {line}: {error.problem or 'not valid YAML'}") from error
    except (yaml.YAMLError, ValueError, RecursionError, OverflowError, TypeError) as error:
        first = str(error).splitlines()[0] if str(error) else "not valid YAML"
        raise ValueError(first) from error
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError("the front matter is not a list of keys and values")
    return to_json_values(value)


def _check_depth(header: str) -> None:
    """Refuse a header nested so deeply that PyYAML's composer, which recurses, would crash.

    Brackets and dashes inside strings only look like nesting, and closing brackets there hide some.
    If there are many, the depth is therefore counted from the parser's events; the event parser
    does not recurse.
    """
    import yaml

    many = header.count("[") + header.count("{") > _MAX_DEPTH * 3
    if not many and not _REPEATED.search(header):
        return
    depth = 0
    for event in yaml.parse(header, Loader=loader()):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > _MAX_DEPTH * 3:
            raise ValueError("the front matter is nested too deeply")


def to_json_values(values: Mapping[Any, Any]) -> dict[str, Any]:
    """Return a mapping's values as a header can hold them: JSON, with too large numbers as strings.

    Raises:
        ValueError: there are too many values, or they are too long or too deeply nested.
    """
    values_left, characters_left = _MAX_VALUES, MAX_HEADER  # aliases repeat what is written once

    def converted(value: Any, depth: int) -> Any:
        nonlocal values_left, characters_left
        values_left -= 1
        if isinstance(value, str):
            characters_left -= len(value)
        elif isinstance(value, dict):
            characters_left -= sum(len(key) for key in value if isinstance(key, str))
        if min(values_left, characters_left, depth) < 0:
            raise ValueError("the front matter holds too many values")
        if isinstance(value, dict):
            return {
                replace_surrogates(str(key)): converted(entry, depth - 1)
                for key, entry in value.items()
            }
        if isinstance(value, list | tuple):
            return [converted(entry, depth - 1) for entry in value]
        if isinstance(value, str):
            return replace_surrogates(value)
        fits = (isinstance(value, int) and _is_int64(value)) or (
            isinstance(value, float) and math.isfinite(value)
        )
        return value if value is None or fits else str(value)

    return {
        replace_surrogates(str(key)): converted(entry, _MAX_DEPTH) for key, entry in values.items()
    }


def _is_int64(number: int) -> bool:
    return -(2**63) <= number < 2**63


_OPENING = lazy_pattern(r"\A---[ \t]*(\r\n|\n|\r)\ufeff*")
"""Byte order marks after the line belong to it, since YAML's positions skip one."""
_CLOSING = lazy_pattern(r"(?:(?<=[\r\n])|\A)(?:---|\.\.\.)[ \t]*(?:\r\n|\n|\r|\Z)")
_PLAIN_SCALAR = lazy_pattern(r"\w(?:[\w .,;/+()@%'=~^-]|:(?=[^\s]))*")
_MAX_DUMPED = MAX_HEADER - len("---\r\n")
_LINE_ENDS = ("\n", "\r")
_COLON = lazy_pattern(r"[ \t]*:")
_LINE_END = lazy_pattern(r"\r\n|\n|\r|\Z")
_UNPRINTABLE = lazy_pattern("[\x00-\x1f\x7f-\xa0\xad\u2028\u2029\ufeff\ufffe\uffff]")


class FrontMatter(NamedTuple):
    """A file's text, split so that ``before + header + after + body`` is the text.

    ``before`` is the opening line, ``after`` the closing one; without a header all three are empty.
    """

    before: str
    header: str
    after: str
    body: str

    @property
    def newline(self) -> str:
        """The line ending that the file uses."""
        endings = ("\r\n", "\n", "\r")
        texts = (self.before, self.body)
        return next((end for text in texts for end in endings if end in text), "\n")

    @property
    def body_line(self) -> int:
        """The number of the line on which the body begins."""
        end = self.newline[-1:]
        return 1 + sum(part.count(end) for part in (self.before, self.header, self.after))


def split_front_matter(text: str) -> FrontMatter:
    """Split a text at the lines around its header; without a closing line it has no header."""
    opening = _OPENING.match(text)
    if opening is None:
        return FrontMatter("", "", "", text)
    closing = _CLOSING.search(text, opening.end(), opening.end() + MAX_HEADER)
    if closing is None:
        return FrontMatter("", "", "", text)
    return FrontMatter(
        text[: opening.end()],
        text[opening.end() : closing.start()],
        text[closing.start() : closing.end()],
        text[closing.end() :],
    )


def repeated_keys(header: str) -> list[str]:
    """Return the keys that a header, or a mapping in it, has more than once, as ``a.b``.

    A header that does not parse has none.
    """
    import yaml

    try:
        parse_header(header)
    except ValueError:
        return []
    return list(_repeated("", yaml.compose(header, Loader=loader())))


def _repeated(above: str, node: Any) -> Iterator[str]:
    if isinstance(node.value if node is not None else None, list):
        pairs = [entry if isinstance(entry, tuple) else (None, entry) for entry in node.value]
        names = [f"{above}{name.value}" if name is not None else "" for name, _ in pairs]
        yield from (name for name, times in Counter(names).items() if name and times > 1)
        for name, (_, value) in zip(names, pairs, strict=True):
            yield from _repeated(f"{name}." if name else above, value)


def dump_header(values: Mapping[str, Any], newline: str = "\n") -> str:
    """Return a header's lines for values in their order.

    Raises:
        Refused: it would not read back: it is longer, or has more values, than a header may.
    """
    with contextlib.suppress(ValueError):
        expected = to_json_values(values)  # first, as deeply nested values cannot even be written
        lines = (
            f"{_dump_key(key)}: {_dump_value(value)}{newline}" for key, value in values.items()
        )
        written = "".join(lines)
        if len(written) <= _MAX_DUMPED and parse_header(written) == expected:
            return written
    raise Refused(
        f"The front matter cannot hold so much ({', '.join(values)[:150]})",
        "nest values less, give fewer and shorter keys, and put long texts into the body",
    )


def patch_header(header: str, changes: Mapping[str, Any], newline: str = "\n") -> str:
    """Set keys, or remove them if the value is None, leaving every other character unchanged.

    Raises:
        ValueError: the header does not parse.
        Refused: the header is written in a way that cannot be patched safely.
    """
    expected = parse_header(header)
    for key, value in changes.items():
        if value is None:
            expected.pop(key, None)
        else:
            expected[key] = value

    def patched() -> str:
        text = header
        for key, value in changes.items():
            text = _patch_key(text, key, value, newline)
        return text

    return _patch_safely(header, patched, expected, ", ".join(changes))


def patch_mapping(header: str, key: str, name: str, value: Any, newline: str = "\n") -> str:
    """Set one entry of the mapping at a key; raises as ``patch_header`` does."""
    expected = parse_header(header)
    current = expected.get(key)
    if not isinstance(current, Mapping) or not current:
        return patch_header(header, {key: {name: value}}, newline)
    expected[key] = {**current, name: value}
    return _patch_safely(
        header,
        lambda: _set_mapping_entry(header, key, name, value, newline),
        expected,
        f"{key}.{name}",
    )


def _patch_safely(
    header: str, make: Callable[[], str], values: Mapping[str, Any], what: str
) -> str:
    """Return a patched header if it reads back as intended, otherwise raise ``Refused``."""
    import yaml

    try:
        expected = to_json_values(values)
        patched = make()
        whole_lines = not patched or not header.endswith(_LINE_ENDS) or patched.endswith(_LINE_ENDS)
        if whole_lines and len(patched) <= _MAX_DUMPED and parse_header(patched) == expected:
            return patched
    except (ValueError, yaml.YAMLError):
        pass
    raise Refused(
        f"The front matter cannot be edited safely ({what})",
        "edit the file by hand, one key a line",
    )


def _set_mapping_entry(header: str, key: str, name: str, value: Any, newline: str) -> str:
    import yaml

    root: Any = yaml.compose(header, Loader=loader())
    node = next(pair[1] for pair in reversed(root.value) if str(pair[0].value) == key)
    for label, entry in node.value:
        if str(label.value) == name:
            start, end = int(entry.start_mark.index), int(entry.end_mark.index)
            if start == end:  # the entry has no value yet
                start = end = header.index(":", label.end_mark.index) + 1
                return f"{header[:start]} {_dump_item(value)}{header[end:]}"
            return header[:start] + _dump_item(value) + header[end:]
    written = f"{_dump_key(name)}: {_dump_item(value)}"
    if node.flow_style:
        end = int(node.end_mark.index) - 1
        return f"{header[:end].rstrip(', ')}, {written}{header[end:]}"
    line = _LINE_END.search(header, _value_end(node, header))
    assert line is not None
    indent = " " * int(node.start_mark.column)
    return f"{header[: line.start()]}{newline}{indent}{written}{header[line.start() :]}"


def _patch_key(header: str, key: str, value: Any, newline: str) -> str:
    import yaml

    root = yaml.compose(header, Loader=loader())
    entry = None
    if isinstance(root, yaml.MappingNode):
        pairs = reversed(root.value)  # the last of duplicate keys is used
        entry = next((pair for pair in pairs if str(pair[0].value) == key), None)
    if entry is None:
        if value is None:
            return header
        if root is not None and getattr(root, "flow_style", False):
            raise Refused(
                f"The front matter is one {{…}} mapping, so {key!r} cannot be added to it",
                "write it with one key a line",
            )
        gap = newline if header and not header.endswith(("\n", "\r")) else ""
        return f"{header}{gap}{_dump_key(key)}: {_dump_value(value)}{newline}"
    name, node = entry
    start, end = node.start_mark.index, _value_end(node, header)
    if value is None:
        begin = max(header.rfind(mark, 0, name.start_mark.index) for mark in "\r\n") + 1
        line_end = _LINE_END.search(header, end)
        assert line_end is not None, "the end of the header is the end of a line too"
        return header[:begin] + header[line_end.end() :]
    block = not isinstance(node, yaml.ScalarNode) and not node.flow_style
    if isinstance(node, yaml.SequenceNode) and isinstance(value, list) and value:
        return _patch_list(header, node, parse_header(header)[key], value, newline)
    if block or start <= name.end_mark.index + 1 or not header[start:end]:
        # Put the value directly after the key, and keep a comment there after it.
        colon = header.index(":", name.end_mark.index) + 1
        line = _LINE_END.search(header, colon)
        assert line is not None
        between = header[colon : line.start()] if block else ""
        rest = header[end:] if block else header[max(colon, end) :]
        return f"{header[:colon]} {_dump_value(value)}{between}{rest}"
    return header[:start] + _dump_value(value) + header[end:]


def _patch_list(header: str, node: Any, old: list[Any], value: list[Any], newline: str) -> str:
    """Return a header with other items in a list; items that it has already stay as written."""
    import yaml

    start, end = int(node.start_mark.index), _value_end(node, header)
    glue, mark = ", ", ""
    spans = [(int(item.start_mark.index), _value_end(item, header)) for item in node.value]
    if node.flow_style:
        if spans and value[: len(old)] == old:  # keeps comments and line ends between the items
            added = "".join(f", {_dump_item(item)}" for item in value[len(old) :])
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
            for token in yaml.scan(header, Loader=loader())
            if isinstance(token, yaml.BlockEntryToken)
            and token.start_mark.column == node.start_mark.column
            and start <= token.start_mark.index < end
        ]
        ends = [max(header.rfind(one, 0, place) for one in "\r\n") for place in starts[1:]]
        spans = [*zip(starts, [*ends, end], strict=True)]
    written, place = [], 0
    for item in value:
        known = next((n for n in range(place, len(old)) if old[n] == item), None)
        if known is None:
            written.append(f"{mark}{_dump_item(item)}")
        else:
            written.append(header[slice(*spans[known])].rstrip("\r\n"))
            place = known + 1
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
    end = _value_end(name, header)  # the end mark of an empty value may be after comments
    colon = _COLON.match(header, end)
    return colon.end() if colon else end


def _dump_key(key: str) -> str:
    return key if _is_plain(key) and ":" not in key and "," not in key else _quote(key)


def _dump_value(value: Any) -> str:
    """Return a JSON value as YAML on one line."""
    if isinstance(value, str):
        return value if _is_plain(value) else _quote(value)
    if isinstance(value, Mapping):
        pairs = (f"{_dump_key(str(key))}: {_dump_item(entry)}" for key, entry in value.items())
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(_dump_item(entry) for entry in value)}]"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON's name for it is not a number in YAML
    text = json.dumps(value)
    if isinstance(value, float) and "e" in text and "." not in text:
        return text.replace("e", ".0e")  # without a point YAML would read a string
    return text


def _dump_item(value: Any) -> str:
    """Return a value as YAML inside brackets, where an unquoted comma would end it."""
    return _quote(value) if isinstance(value, str) and "," in value else _dump_value(value)


def _is_plain(text: str) -> bool:
    """Return whether a text reads back as itself without quotes."""
    import yaml

    if not _PLAIN_SCALAR.fullmatch(text) or text != text.strip() or not text.isprintable():
        return False
    try:
        return bool(yaml.load(text, Loader=loader()) == text)  # noqa: S506  # a safe loader
    except yaml.YAMLError:
        return False


def _quote(text: str) -> str:
    """Return a text in double quotes, with escapes for what YAML does not allow unescaped."""

    def escaped(match: re.Match[str]) -> str:
        number = ord(match[0])
        return f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}"

    raw = replace_surrogates(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{_UNPRINTABLE.sub(escaped, raw)}"'
