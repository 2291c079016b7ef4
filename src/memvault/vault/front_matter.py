"""Parse the headers of markdown files, and patch them without touching the rest.

An edit replaces only the characters of the values that change, because dumping the YAML again would
lose comments, order and quoting (python-frontmatter issues 26, 114, 117). ``loader`` defines how
values are typed. The keys that memvault reads count in any case, and a line that is not YAML costs
only itself (``read_header``).
"""

from __future__ import annotations

import contextlib
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

from memvault.errors import Refused
from memvault.lazy_pattern import lazy_pattern
from memvault.sanitize import replace_surrogates

MAX_HEADER = 256 * 1024
"""Maximum number of characters in a header, and in all its values with aliases expanded."""
_MAX_VALUES = 5_000
_MAX_DEPTH = 30
_REPEATED = lazy_pattern(r"(?:[-?:][ \t]+){100}")


TEXT_KEYS = frozenset(("title", "aliases", "alias", "tags", "tag", "memory_type"))
"""Keys whose values are text, also where YAML would read a number, a boolean or null in a list."""
_KNOWN_KEYS = TEXT_KEYS | {
    *("created", "date", "modified", "updated", "supersedes", "superseded_by", "conflict_with"),
    *("importance", "confidence", "valid_from", "valid_to"),
}


def canonical_key(key: str) -> str:
    """Return a header key as memvault names it: the known ones count in any case."""
    lowered = key.casefold()
    return lowered if lowered in _KNOWN_KEYS else key


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

    The values of ``TEXT_KEYS`` are text as written, unless they are null. A value with an explicit
    tag is never a number, date or object, whatever the tag.
    """
    import yaml

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class HeaderLoader(base):  # type: ignore[misc]  # the base is chosen at run time
        yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012  # PyYAML's own name
        yaml_constructors: dict[str | None, Any] = {}  # noqa: RUF012
        yaml_multi_constructors: dict[str | None, Any] = {}  # noqa: RUF012

        def flatten_mapping(self, node: Any) -> None:
            """Leave merge keys unexpanded: nested ones would grow exponentially."""

        def construct_document(self, node: Any) -> Any:
            """Convert a document to Python values, those of some keys to text."""
            if isinstance(node, yaml.MappingNode):
                for key, value in node.value:
                    if canonical_key(str(key.value)) in TEXT_KEYS:
                        _keep_text(value)
            return super().construct_document(node)

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


def _keep_text(node: Any) -> None:
    """Change a YAML node so that it is read as text; the items of a list likewise."""
    is_list = isinstance(node.value, list)
    for scalar in node.value if is_list else [node]:
        tag = getattr(scalar, "tag", None)
        is_null = tag == "null" and (not is_list or scalar.value in ("", "~"))
        if isinstance(tag, _ImplicitTag) and not is_null:
            scalar.tag = "tag:yaml.org,2002:str"


def parse_header(header: str) -> dict[str, Any]:
    """Parse a header as JSON values; ``read_header`` also reads one with lines that are not YAML.

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
        name: _textual(name, converted(entry, _MAX_DEPTH))
        for name, entry in (
            (canonical_key(replace_surrogates(str(key))), entry) for key, entry in values.items()
        )
    }


class UnreadLines(NamedTuple):
    """Lines of a header that are not YAML.

    ``start`` and ``end`` are their position, ``line`` the number of the first in the file and
    ``reason`` why they are not. ``key`` is the one that they begin with, or empty, and ``value``
    the text or the list that it is read as, None if it is not.
    """

    start: int
    end: int
    line: int
    reason: str
    key: str = ""
    value: Any = None


class ReadHeader(NamedTuple):
    """The values of a header, and the lines that are not read as YAML.

    ``readable`` is the header with these as comments, in which all else has its position.
    """

    values: dict[str, Any]
    unread: tuple[UnreadLines, ...]
    readable: str


_ENTRY = lazy_pattern(r"^(?=[^\s#\]}])(?!-(?:[ \t]|$))", re.MULTILINE)
_KEY_LINE = lazy_pattern(
    r"(?![-?&*!|>%@`\[\]{}#])([^\s:](?:[^:\r\n]|:(?!\s))*?)[ \t]*:(?=\s|\Z)[ \t]*"
)
_ITEM_LINE = lazy_pattern(r"^[ \t]*+-[ \t]++([^\r\n]++)", re.MULTILINE)
_LEADING_TABS = lazy_pattern(r"^ *+\t[ \t]*+", re.MULTILINE)
_MAX_ENTRIES = 500


@lru_cache(maxsize=8)  # an edit reads the header that it changes several times
def read_header(header: str) -> ReadHeader:
    """Parse a header in which some lines may not be YAML.

    A line such as ``title: Coffee: brewing`` has the rest of it as its value. The values are shared
    and not to be changed.

    Raises:
        ValueError: as ``parse_header``, if too little of it is YAML to be a header.
    """
    try:
        return ReadHeader(parse_header(header), (), header)
    except ValueError as error:
        if len(header) > _MAX_REPAIRED or not str(error).startswith("line "):
            raise
        found = _read_by_entry(header)
        if found is None:
            raise
        return found


_MAX_REPAIRED = 64 * 1024


def _read_by_entry(header: str) -> ReadHeader | None:
    """Read each entry of a header by itself; None if it seems to be no header."""
    starts = sorted({0, *(match.start() for match in _ENTRY.finditer(header))})
    if len(starts) > _MAX_ENTRIES:
        return None
    unread: list[UnreadLines] = []
    with_alias: list[UnreadLines] = []
    for start, following in pairwise([*starts, len(header)]):
        entry = _without_comments(header[start:following])
        try:
            parse_header(entry)
        except ValueError as error:
            is_alias = "undefined alias" in str(error)  # its anchor may be in another entry
            part = _unread_part(header, start, start + len(entry), str(error))
            (with_alias if is_alias else unread).append(part)
    for parts in (unread, sorted([*unread, *with_alias])):
        keyless = sum(not lines.key for lines in parts)
        whole = len(starts) - len(parts)
        known = any(canonical_key(lines.key) in _KNOWN_KEYS for lines in parts)
        if whole + len(parts) - keyless < keyless or not (whole or known):
            return None
        readable = header
        for lines in parts:
            readable = _commented(readable, lines.start, lines.end)
        with contextlib.suppress(ValueError):
            values = parse_header(readable)
            for lines in parts:
                if lines.value is not None:
                    values[canonical_key(lines.key)] = lines.value
            return ReadHeader(values, tuple(parts), readable)
    return None


def _without_comments(entry: str) -> str:
    """Return an entry without the comments and blank lines below it."""
    lines = entry.splitlines(keepends=True)
    while len(lines) > 1 and lines[-1].lstrip()[:1] in ("", "#"):
        lines.pop()
    return "".join(lines)


def _unread_part(header: str, start: int, end: int, reason: str) -> UnreadLines:
    """Return the lines of an entry that are not YAML: one of several if the others are."""
    entry = header[start:end]
    number = header.count("\n", 0, start) + 2
    match = _KEY_LINE.match(entry)
    key = match[1].strip("\"'") if match else ""
    reason = reason.partition(": ")[2] or reason
    first, _, below = entry.partition("\n")
    rest = first[match.end() :].strip() if match else ""
    if below.strip() and key:
        items = [_unquoted(item.strip()) for item in _ITEM_LINE.findall(below)]
        if canonical_key(key) in TEXT_KEYS and items:
            return UnreadLines(start, end, number, reason, key, items)
        if (spaced := _with_spaces(entry, key)) is not None:
            return UnreadLines(start, end, number, reason, key, spaced)
        for line in _LINE.finditer(header, start + len(first) + 1, end):
            commented = _commented(entry, line.start() - start, line.end() - start)
            with contextlib.suppress(ValueError):
                if line[0].strip() and parse_header(commented):
                    number += header.count("\n", start, line.start())
                    return UnreadLines(line.start(), line.end(), number, reason)
        return UnreadLines(start, end, number, reason, key)
    value: Any = _unquoted(rest) or None
    if key and canonical_key(key) in TEXT_KEYS - {"title", "memory_type"} and rest.startswith("["):
        names = rest.strip("[]").split(",")
        value = [name for name in (_unquoted(entry.strip()) for entry in names) if name]
    return UnreadLines(start, end, number, reason, key, value if key else None)


def _with_spaces(entry: str, key: str) -> Any:
    """Return the value of an entry that is YAML with spaces in place of tabs, else None."""
    spaced = _LEADING_TABS.sub(lambda tabs: tabs[0].replace("\t", "  "), entry)
    with contextlib.suppress(ValueError):
        return parse_header(spaced).get(canonical_key(key)) if spaced != entry else None
    return None


def _unquoted(text: str) -> str:
    """Return a text without the quotes at its ends, of which one may be missing."""
    return text.strip(text[0]).strip() if text[:1] in ("'", '"') else text


def _commented(text: str, start: int, end: int) -> str:
    """Return a text with ``#`` in place of the first character of each of its lines in a part."""
    return text[:start] + _LINE_START.sub("#", text[start:end]) + text[end:]


def _textual(key: str, value: Any) -> Any:
    """Return a value under a key as it is read from a header: that of some keys is text."""
    if canonical_key(key) not in TEXT_KEYS:
        return value
    if isinstance(value, list | tuple):
        return [_dump_value(one) if isinstance(one, int | float) else one for one in value]
    return _dump_value(value) if isinstance(value, int | float) else value


def _is_int64(number: int) -> bool:
    return -(2**63) <= number < 2**63


_OPENING = lazy_pattern(r"\A---[ \t]*(\r\n|\n|\r)\ufeff*")
"""Byte order marks after the line belong to it, since YAML's positions skip one."""
_CLOSING = lazy_pattern(r"(?:(?<=[\r\n])|\A)(?:---|\.\.\.)[ \t]*(?:\r\n|\n|\r|\Z)")
_PLAIN_SCALAR = lazy_pattern(r"\w(?:[\w .,;/+()@%'=~^-]|:(?=[^\s]))*")
_MAX_DUMPED = MAX_HEADER - len("---\r\n")
_LINE_ENDS = ("\n", "\r")
_LINE = lazy_pattern(r"[^\r\n]+")
_LINE_START = lazy_pattern(r"(?:(?<=[\r\n])|\A)[^\r\n]")
_COLON = lazy_pattern(r"[ \t]*:")
_LINE_END = lazy_pattern(r"\r\n|\n|\r|\Z")
_UNPRINTABLE = lazy_pattern("[\x00-\x1f\x7f-\xa0\xad\u2028\u2029\ufeff\ufffe\uffff]")


_UNCLOSED_LINES = lazy_pattern(
    r"(?:[\w-][^:\r\n]*+:(?=[\s]|\Z)[^\r\n]*+(?:\r\n|\n|\Z)"
    r"(?:(?:[ \t]+[^\s]|- )[^\r\n]*+(?:\r\n|\n|\Z))*+)++"
)


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


def close_front_matter(text: str) -> FrontMatter | None:
    """Split a text that begins with a header without a closing line below the header's last line.

    Returns None if there is no such header.
    """
    opening = _OPENING.match(text)
    below = _UNCLOSED_LINES.match(text, opening.end()) if opening else None
    if opening is None or below is None or below.end() - below.start() > MAX_HEADER:
        return None
    newline = opening[1]
    end = "" if below[0].endswith(_LINE_ENDS) else newline
    return FrontMatter(opening[0], below[0] + end, f"---{newline}", text[below.end() :])


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
        names = [_key_path(above, name.value) if name is not None else "" for name, _ in pairs]
        yield from (name for name, times in Counter(names).items() if name and times > 1)
        for name, (_, value) in zip(names, pairs, strict=True):
            yield from _repeated(f"{name}." if name else above, value)


def _key_path(above: str, key: Any) -> str:
    return f"{above}{key}" if above else canonical_key(str(key))


def dump_header(values: Mapping[str, Any], newline: str = "\n") -> str:
    """Return a header's lines for values in their order.

    Raises:
        Refused: it would not read back: it is longer, or has more values, than a header may.
    """
    values = {key: _textual(key, value) for key, value in values.items()}
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
    changes = {canonical_key(key): _textual(key, value) for key, value in changes.items()}
    expected = {**read_header(header).values, **changes}
    expected = {key: value for key, value in expected.items() if changes.get(key, "") is not None}

    def patched() -> str:
        text = header
        for key, value in changes.items():
            text = _patch_key(text, key, value, newline)
        return text

    return _patch_safely(header, patched, expected, changes)


def patch_mapping(header: str, key: str, name: str, value: Any, newline: str = "\n") -> str:
    """Set one entry of the mapping at a key; raises as ``patch_header`` does."""
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
    """Return a patched header if it reads back as intended, otherwise raise ``Refused``.

    Lines that are not YAML stay as they are, except those of the keys that change.
    """
    import yaml

    try:
        expected = to_json_values(values)
        patched = make()
        whole_lines = not patched or not header.endswith(_LINE_ENDS) or patched.endswith(_LINE_ENDS)
        if whole_lines and len(patched) <= _MAX_DUMPED:
            found = read_header(patched)
            kept = [line for line in _unread_texts(header) if canonical_key(line[0]) not in changes]
            if found.values == expected and _unread_texts(patched) == kept:
                return patched
    except (ValueError, yaml.YAMLError):
        pass
    raise Refused(
        f"The front matter cannot be edited safely ({', '.join(changes)})",
        "edit the file by hand, one key a line",
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

    root = yaml.compose(read_header(header).readable, Loader=loader())
    entry = None
    if isinstance(root, yaml.MappingNode):
        pairs = reversed(root.value)  # the last of duplicate keys is used
        entry = next((pair for pair in pairs if canonical_key(str(pair[0].value)) == key), None)
    unread = (lines for lines in read_header(header).unread if canonical_key(lines.key) == key)
    lines = next(unread, None)
    name = _KEY_LINE.match(header, lines.start) if lines else None
    if lines and name:
        written = "" if value is None else f"{name[0].rstrip()} {_dump_value(value)}{newline}"
        return header[: lines.start] + written + header[lines.end :]
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
        return _patch_list(header, node, read_header(header).values[key], value, newline)
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
            for token in yaml.scan(read_header(header).readable, Loader=loader())
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
