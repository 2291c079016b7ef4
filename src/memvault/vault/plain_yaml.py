"""YAML to plain JSON values, whoever wrote it.

Reading goes through python-frontmatter's YAML handler with a stricter loader:
``yes`` and ``2026-01-01`` stay the text that a person wrote, and so does every
scalar with a tag.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

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
