"""Split files into header and body, and read and write headers."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from memvault.errors import Refused
from memvault.lazy_pattern import lazy_pattern
from memvault.named_tuple import NamedTuple
from memvault.vault.header_yaml import (
    MAX_HEADER,
    ReadHeader,
    canonical_key,
    dump_key,
    dump_value,
    loader,
    parse_header,
    textual,
    to_json_values,
)


@lru_cache(maxsize=8)  # An edit parses the same header several times.
def read_header(header: str) -> ReadHeader:
    """Parse a header, tolerating lines that are not valid YAML.

    In a line such as ``title: Coffee: brewing``, the rest of the line is the value. The returned
    values are shared and must not be changed.

    Raises:
        ValueError: too little of it is YAML to be a header (see ``parse_header``).
    """
    try:
        return ReadHeader(parse_header(header), (), header)
    except ValueError as error:
        if not str(error).startswith("line "):
            raise
        from memvault.vault.header_lines import read_by_entry

        by_entry = read_by_entry(header)
        if by_entry is None:
            raise
        return by_entry


_OPENING = lazy_pattern(r"\A---[ \t]*(\r\n|\n|\r)\ufeff*")
"""Matches the opening line and byte order marks after it, because YAML's positions skip one."""
_CLOSING = lazy_pattern(r"(?:(?<=[\r\n])|\A)(?:---|\.\.\.)[ \t]*(?:\r\n|\n|\r|\Z)")
MAX_DUMPED = MAX_HEADER - len("---\r\n")
"""Maximum number of characters in a written header."""
LINE_ENDS = ("\n", "\r")


_UNCLOSED_LINES = lazy_pattern(
    r"(?:[\w-][^:\r\n]*+:(?=[\s]|\Z)[^\r\n]*+(?:\r\n|\n|\Z)"
    r"(?:(?:[ \t]+[^\s]|- )[^\r\n]*+(?:\r\n|\n|\Z))*+)++"
)


class FrontMatter(NamedTuple):
    """A file's text, split so that ``before + header + after + body`` is the whole text.

    ``before`` is the opening line, and ``after`` is the closing line. In a text without a header,
    ``before``, ``header`` and ``after`` are empty.
    """

    before: str
    header: str
    after: str
    body: str

    @property
    def newline(self) -> str:
        """The line ending of the file."""
        endings = ("\r\n", "\n", "\r")
        texts = (self.before, self.body)
        return next((end for text in texts for end in endings if end in text), "\n")

    @property
    def body_line(self) -> int:
        """The number of the line on which the body begins."""
        end = self.newline[-1:]
        return 1 + sum(part.count(end) for part in (self.before, self.header, self.after))


def split_front_matter(text: str) -> FrontMatter:
    """Split text at the lines around its header; without a closing line it has no header."""
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
    """Split text whose header lacks its closing line, ending the header at its last line.

    Returns None if there is no such header.
    """
    opening = _OPENING.match(text)
    below = _UNCLOSED_LINES.match(text, opening.end()) if opening else None
    if opening is None or below is None or below.end() - below.start() > MAX_HEADER:
        return None
    newline = opening[1]
    end = "" if below[0].endswith(LINE_ENDS) else newline
    return FrontMatter(opening[0], below[0] + end, f"---{newline}", text[below.end() :])


def repeated_keys(header: str) -> list[str]:
    """Return the keys that occur more than once in a header or a mapping in it, as ``a.b``.

    The list is empty for a header that does not parse.
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
    """Return header lines for values, in order.

    Raises:
        Refused: the header could not be read back, because it would be too long or have too many
        values.
    """
    values = {key: textual(key, value) for key, value in values.items()}
    with contextlib.suppress(ValueError):
        # First, because deeply nested values cannot even be written.
        expected = to_json_values(values)
        lines = (f"{dump_key(key)}: {dump_value(value)}{newline}" for key, value in values.items())
        written = "".join(lines)
        if len(written) <= MAX_DUMPED and parse_header(written) == expected:
            return written
    raise Refused(
        f"The front matter is too large or too deeply nested ({', '.join(values)[:150]})",
        "use fewer keys and less nesting, and put long text in the body",
    )
