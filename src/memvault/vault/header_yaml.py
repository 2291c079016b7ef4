"""Parse the YAML of headers as JSON values, and write values as YAML.

``loader`` defines the types of values. Keys that memvault reads are case-insensitive.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from memvault.lazy_pattern import lazy_pattern
from memvault.named_tuple import NamedTuple
from memvault.sanitize import replace_surrogates

MAX_HEADER = 256 * 1024
"""Maximum number of characters in a header, and in all its values with aliases expanded."""
_MAX_VALUES = 5_000
_MAX_DEPTH = 30
_REPEATED = lazy_pattern(r"(?:[-?:][ \t]+){100}")


TEXT_KEYS = frozenset(("title", "aliases", "alias", "tags", "tag", "memory_type"))
"""Keys whose values are always text, even if YAML would parse a number, boolean or null."""
KNOWN_KEYS = TEXT_KEYS | {
    *("created", "date", "modified", "updated", "supersedes", "superseded_by", "conflict_with"),
    *("importance", "confidence", "valid_from", "valid_to"),
}


def canonical_key(key: str) -> str:
    """Return a header key with the case that memvault uses for it."""
    lowered = key.casefold()
    return lowered if lowered in KNOWN_KEYS else key


class _ImplicitTag(str):
    """The tag of an untagged scalar, chosen by its format; distinct from any tag in a file."""

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
    """Return a YAML loader that parses all but booleans, null and decimal numbers as text.

    Values of ``TEXT_KEYS`` are text as written, unless they are null. A value with an explicit tag
    is never parsed as a number, date or object.
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
            """Convert a document to Python values; the values of ``TEXT_KEYS`` become text."""
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
    """Change a YAML node, or each item of a list node, so it is parsed as text."""
    is_list = isinstance(node.value, list)
    for scalar in node.value if is_list else [node]:
        tag = getattr(scalar, "tag", None)
        is_null = tag == "null" and (not is_list or scalar.value in ("", "~"))
        if isinstance(tag, _ImplicitTag) and not is_null:
            scalar.tag = "tag:yaml.org,2002:str"


def parse_header(header: str) -> dict[str, Any]:
    """Parse a header as JSON values; use ``read_header`` if some lines may not be YAML.

    Raises:
        ValueError: the header is not YAML, not a mapping, or crafted to exhaust the parser.
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
    """Refuse a header nested so deeply that PyYAML's recursive composer would crash.

    Brackets and dashes inside strings look like nesting but are not, and closing brackets there can
    hide real nesting. If there are many, the depth is counted from parser events instead, which the
    parser produces without recursion.
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
    """Return a mapping's values as JSON, with integers that are too large as strings.

    Raises:
        ValueError: the values are too many, too long or too deeply nested.
    """
    # Limit the expanded size, because aliases repeat a value that is written only once.
    values_left, characters_left = _MAX_VALUES, MAX_HEADER

    def converted(value: Any, depth: int) -> Any:
        nonlocal values_left, characters_left
        values_left -= 1
        if isinstance(value, str):
            characters_left -= len(value)
        elif isinstance(value, dict):
            characters_left -= sum(len(key) for key in value if isinstance(key, str))
        if min(values_left, characters_left, depth) < 0:
            raise ValueError("the front matter contains too many values")
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
        name: textual(name, converted(entry, _MAX_DEPTH))
        for name, entry in (
            (canonical_key(replace_surrogates(str(key))), entry) for key, entry in values.items()
        )
    }


def textual(key: str, value: Any) -> Any:
    """Return a value as it would be parsed from a header under a key."""
    if canonical_key(key) not in TEXT_KEYS:
        return value
    if isinstance(value, list | tuple):
        return [dump_value(entry) if isinstance(entry, int | float) else entry for entry in value]
    return dump_value(value) if isinstance(value, int | float) else value


def _is_int64(number: int) -> bool:
    return -(2**63) <= number < 2**63


_PLAIN_SCALAR = lazy_pattern(r"\w(?:[\w .,;/+()@%'=~^-]|:(?=[^\s]))*")
_UNPRINTABLE = lazy_pattern("[\x00-\x1f\x7f-\xa0\xad\u2028\u2029\ufeff\ufffe\uffff]")


def dump_key(key: str) -> str:
    """Return a key as YAML, quoted if necessary."""
    return key if _is_plain(key) and ":" not in key and "," not in key else _quote(key)


def dump_value(value: Any) -> str:
    """Return a JSON value as YAML on one line."""
    if isinstance(value, str):
        return value if _is_plain(value) else _quote(value)
    if isinstance(value, Mapping):
        pairs = (f"{dump_key(str(key))}: {dump_item(entry)}" for key, entry in value.items())
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(dump_item(entry) for entry in value)}]"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # YAML does not parse JSON's Infinity and NaN as numbers.
    text = json.dumps(value)
    if isinstance(value, float) and "e" in text and "." not in text:
        return text.replace("e", ".0e")  # Without a decimal point, YAML would parse it as a string.
    return text


def dump_item(value: Any) -> str:
    """Return a value as YAML for use inside brackets, where an unquoted comma would end it."""
    return _quote(value) if isinstance(value, str) and "," in value else dump_value(value)


def _is_plain(text: str) -> bool:
    """Return whether a string survives a YAML round trip without quotes."""
    import yaml

    if not _PLAIN_SCALAR.fullmatch(text) or text != text.strip() or not text.isprintable():
        return False
    try:
        return bool(yaml.load(text, Loader=loader()) == text)  # noqa: S506  # a safe loader
    except yaml.YAMLError:
        return False


def _quote(text: str) -> str:
    """Return text in double quotes, escaping the characters that YAML requires."""

    def escaped(match: re.Match[str]) -> str:
        number = ord(match[0])
        return f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}"

    raw = replace_surrogates(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{_UNPRINTABLE.sub(escaped, raw)}"'


_KEY_LINE = lazy_pattern(
    r"(?![-?&*!|>%@`\[\]{}#])([^\s:](?:[^:\r\n]|:(?!\s))*?)[ \t]*:(?=\s|\Z)[ \t]*"
)


def match_key(text: str, position: int = 0) -> re.Match[str] | None:
    """Match a key (group 1) in a header at a position, with its colon and the spaces after it."""
    return _KEY_LINE.match(text, position)


class UnreadLines(NamedTuple):
    """Lines of a header that are not YAML.

    ``start`` and ``end`` are their position, ``line`` is the number of the first one in the file,
    and ``reason`` explains why they are invalid. ``key`` is the key at their beginning, or empty.
    ``value`` is the text or list that is used as their value, or None.
    """

    start: int
    end: int
    line: int
    reason: str
    key: str = ""
    value: Any = None


class ReadHeader(NamedTuple):
    """A header's values, and its lines that are not YAML.

    ``readable`` is the header with these lines commented out, so positions are unchanged.
    """

    values: dict[str, Any]
    unread: tuple[UnreadLines, ...]
    readable: str
