"""Headers of markdown files: found, and patched without touching the rest.

Editing replaces only the characters of the values that change, because dumping
YAML again loses comments, order and quoting (python-frontmatter issues 26, 114,
117). What the values are says ``plain_yaml``.
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

MAX_HEADER = 256 * 1024
"""Characters of a header at most, and of all that its values say."""
_MAX_VALUES = 5_000
_MAX_DEPTH = 30
_REPEATED = re.compile(r"(?:[-?:][ \t]+){100}")


class _Meant(str):
    """The tag of a scalar without one, by what it looks like; no file can write such a tag."""

    __slots__ = ()


def _integer(text: str) -> int | str:
    number = int(text)
    return number if _fits(number) else text


def _fraction(text: str) -> float | str:
    number = float(text)
    return number if math.isfinite(number) else text


_READ: Mapping[str, Callable[[str], Any]] = {
    "bool": lambda text: text.lower() == "true",
    "null": lambda _: None,
    "int": _integer,
    "float": _fraction,
}


@cache
def loader() -> Any:
    """Return a loader for which all but booleans, null and decimal numbers is text.

    What carries a tag is no number, date or object, whatever the tag says.
    """
    import yaml

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class HeaderLoader(base):  # type: ignore[misc]  # the base is chosen at run time
        yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012  # PyYAML's own spelling
        yaml_constructors: dict[str | None, Any] = {}  # noqa: RUF012
        yaml_multi_constructors: dict[str | None, Any] = {}  # noqa: RUF012

        def flatten_mapping(self, node: Any) -> None:
            """Leave merge keys alone: written into each other they multiply without end."""

    def construct(loader: Any, node: Any) -> Any:
        if isinstance(node, yaml.MappingNode):
            return loader.construct_yaml_map(node)
        if isinstance(node, yaml.SequenceNode):
            return loader.construct_yaml_seq(node)
        return _READ[node.tag](node.value) if isinstance(node.tag, _Meant) else node.value

    HeaderLoader.add_constructor(None, construct)
    for tag, pattern, first in (
        ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
        ("null", r"~|null|Null|NULL|", "~nN"),
        ("int", r"[-+]?(?:0|[1-9][0-9]{0,18})", "-+0123456789"),
        ("float", r"[-+]?(?:0|[1-9][0-9]*)\.[0-9]+(?:[eE][-+]?[0-9]+)?", "-+0123456789"),
    ):
        HeaderLoader.add_implicit_resolver(
            _Meant(tag),
            re.compile(f"^(?:{pattern})$"),
            [*first, ""] if tag == "null" else list(first),
        )
    return HeaderLoader


def parse_header(header: str) -> dict[str, Any]:
    """Read a header as plain JSON values.

    Raises:
        ValueError: it is not YAML, not a mapping, or made to exhaust its reader.
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
    """Refuse a header nested so deeply that the reader of nodes, which recurses, would crash.

    Brackets and dashes in a text only look like it, and closing ones there like less of
    it: where there are many, events tell. What makes these does not recurse.
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
    """Return a mapping's values as a header can hold them: JSON, larger numbers as their digits.

    Raises:
        ValueError: they are too many, too long or nested too deeply.
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
            return {whole(str(key)): converted(entry, depth - 1) for key, entry in value.items()}
        if isinstance(value, list | tuple):
            return [converted(entry, depth - 1) for entry in value]
        if isinstance(value, str):
            return whole(value)
        fits = (isinstance(value, int) and _fits(value)) or (
            isinstance(value, float) and math.isfinite(value)
        )
        return value if value is None or fits else str(value)

    return {whole(str(key)): converted(entry, _MAX_DEPTH) for key, entry in values.items()}


def whole(text: str) -> str:
    """Return a text with question marks for half characters, which YAML spells and UTF-8 cannot."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _fits(number: int) -> bool:
    return -(2**63) <= number < 2**63


_OPENING = re.compile(r"\A---[ \t]*(\r\n|\n|\r)\ufeff*")
"""Marks of byte order behind the line are of it: YAML's places leave one out."""
_CLOSING = re.compile(r"(?:(?<=[\r\n])|\A)(?:---|\.\.\.)[ \t]*(?:\r\n|\n|\r|\Z)")
_PLAIN = re.compile(r"\w(?:[\w .,;/+()@%'=~^-]|:(?=[^\s]))*")
_LONGEST = MAX_HEADER - len("---\r\n")
_ENDS = ("\n", "\r")
_COLON = re.compile(r"[ \t]*:")
_LINE_END = re.compile(r"\r\n|\n|\r|\Z")
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\xa0\xad\u2028\u2029\ufeff\ufffe\uffff]")


class FrontMatter(NamedTuple):
    """A file's text, cut so that ``before + header + after + body`` is the text.

    ``before`` is the opening line, ``after`` the closing one; without a header
    all three are empty.
    """

    before: str
    header: str
    after: str
    body: str

    @property
    def newline(self) -> str:
        """The file's own line ending."""
        endings = ("\r\n", "\n", "\r")
        texts = (self.before, self.body)
        return next((end for text in texts for end in endings if end in text), "\n")


def split_front_matter(text: str) -> FrontMatter:
    """Cut a text at its header's lines; a header without an end is no header."""
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

    There are none in one that does not parse.
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
    """Write a header's lines for values in their order.

    Raises:
        Refused: it would not read back: longer, or with more, than a header may hold.
    """
    with contextlib.suppress(ValueError):
        meant = to_json_values(values)  # first, as what is nested too deeply cannot even be written
        lines = (f"{_key(key)}: {_flow(value)}{newline}" for key, value in values.items())
        written = "".join(lines)
        if len(written) <= _LONGEST and parse_header(written) == meant:
            return written
    raise Refused(
        f"The front matter cannot hold so much ({', '.join(values)[:150]})",
        "nest values less, give fewer and shorter keys, and put long texts into the body",
    )


def patch_header(header: str, changes: Mapping[str, Any], newline: str = "\n") -> str:
    """Set or (with None) remove keys, leaving every other character as it was.

    Raises:
        ValueError: the header does not parse.
        Refused: the header is written in a way that cannot be patched safely.
    """
    wanted = parse_header(header)
    for key, value in changes.items():
        if value is None:
            wanted.pop(key, None)
        else:
            wanted[key] = value

    def patched() -> str:
        text = header
        for key, value in changes.items():
            text = _patch(text, key, value, newline)
        return text

    return _made_safely(header, patched, wanted, ", ".join(changes))


def patch_mapping(header: str, key: str, name: str, value: Any, newline: str = "\n") -> str:
    """Set one entry of the mapping under a key; errors as for ``patch_header``."""
    wanted = parse_header(header)
    held = wanted.get(key)
    if not isinstance(held, Mapping) or not held:
        return patch_header(header, {key: {name: value}}, newline)
    wanted[key] = {**held, name: value}
    return _made_safely(
        header, lambda: _with_entry(header, key, name, value, newline), wanted, f"{key}.{name}"
    )


def _made_safely(header: str, make: Callable[[], str], wanted: Mapping[str, Any], what: str) -> str:
    """Return a patched header that reads as it should; one that does not is ``Refused``."""
    import yaml

    try:
        meant = to_json_values(wanted)
        patched = make()
        whole_lines = not patched or not header.endswith(_ENDS) or patched.endswith(_ENDS)
        if whole_lines and len(patched) <= _LONGEST and parse_header(patched) == meant:
            return patched
    except (ValueError, yaml.YAMLError):
        pass
    raise Refused(
        f"The front matter cannot be edited safely ({what})",
        "edit the file by hand, one key a line",
    )


def _with_entry(header: str, key: str, name: str, value: Any, newline: str) -> str:
    import yaml

    root: Any = yaml.compose(header, Loader=loader())
    node = next(pair[1] for pair in reversed(root.value) if str(pair[0].value) == key)
    for label, entry in node.value:
        if str(label.value) == name:
            start, end = int(entry.start_mark.index), int(entry.end_mark.index)
            if start == end:  # nothing is written there yet
                start = end = header.index(":", label.end_mark.index) + 1
                return f"{header[:start]} {_item(value)}{header[end:]}"
            return header[:start] + _item(value) + header[end:]
    written = f"{_key(name)}: {_item(value)}"
    if node.flow_style:
        end = int(node.end_mark.index) - 1
        return f"{header[:end].rstrip(', ')}, {written}{header[end:]}"
    line = _LINE_END.search(header, _end_of(node, header))
    assert line is not None
    indent = " " * int(node.start_mark.column)
    return f"{header[: line.start()]}{newline}{indent}{written}{header[line.start() :]}"


def _patch(header: str, key: str, value: Any, newline: str) -> str:
    import yaml

    root = yaml.compose(header, Loader=loader())
    entry = None
    if isinstance(root, yaml.MappingNode):
        pairs = reversed(root.value)  # of a key that is there twice the last one counts
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
        return f"{header}{gap}{_key(key)}: {_flow(value)}{newline}"
    name, node = entry
    start, end = node.start_mark.index, _end_of(node, header)
    if value is None:
        begin = max(header.rfind(mark, 0, name.start_mark.index) for mark in "\r\n") + 1
        line_end = _LINE_END.search(header, end)
        assert line_end is not None, "the end of the header is the end of a line too"
        return header[:begin] + header[line_end.end() :]
    block = not isinstance(node, yaml.ScalarNode) and not node.flow_style
    if block and isinstance(node, yaml.SequenceNode) and isinstance(value, list) and value:
        glue = newline + " " * node.start_mark.column
        return header[:start] + glue.join(f"- {_item(item)}" for item in value) + header[end:]
    if block or start <= name.end_mark.index + 1 or not header[start:end]:
        # The value goes behind the key; a comment that stands there stays behind it.
        colon = header.index(":", name.end_mark.index) + 1
        line = _LINE_END.search(header, colon)
        assert line is not None
        kept = header[colon : line.start()] if block else ""
        rest = header[end:] if block else header[max(colon, end) :]
        return f"{header[:colon]} {_flow(value)}{kept}{rest}"
    return header[:start] + _flow(value) + header[end:]


def _end_of(node: Any, header: str) -> int:
    """Return where a value's last character is; PyYAML's mark may lie behind comments."""
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
        return _end_of(last, header)
    name, value = last
    if value.start_mark.index < value.end_mark.index:
        return _end_of(value, header)
    end = _end_of(name, header)  # the mark of what is not written may lie behind comments
    colon = _COLON.match(header, end)
    return colon.end() if colon else end


def _key(key: str) -> str:
    return key if _is_plain(key) and ":" not in key and "," not in key else _quoted(key)


def _flow(value: Any) -> str:
    """Write a JSON value as YAML on one line."""
    if isinstance(value, str):
        return value if _is_plain(value) else _quoted(value)
    if isinstance(value, Mapping):
        pairs = (f"{_key(str(key))}: {_item(entry)}" for key, entry in value.items())
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(_item(entry) for entry in value)}]"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # what JSON calls it is no number in YAML either
    text = json.dumps(value)
    if isinstance(value, float) and "e" in text and "." not in text:
        return text.replace("e", ".0e")  # without a point it would be read as a text
    return text


def _item(value: Any) -> str:
    """Write a value inside brackets, where a comma would end it."""
    return _quoted(value) if isinstance(value, str) and "," in value else _flow(value)


def _is_plain(text: str) -> bool:
    """Say whether a text reads back as itself without quotes."""
    import yaml

    if not _PLAIN.fullmatch(text) or text != text.strip() or not text.isprintable():
        return False
    try:
        return bool(yaml.load(text, Loader=loader()) == text)  # noqa: S506  # a safe loader
    except yaml.YAMLError:
        return False


def _quoted(text: str) -> str:
    """Write a text in double quotes, what YAML does not take raw as escapes."""

    def escaped(match: re.Match[str]) -> str:
        number = ord(match[0])
        return f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}"

    raw = whole(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{_UNPRINTABLE.sub(escaped, raw)}"'
