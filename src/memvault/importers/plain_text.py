"""Escape plain text so that markdown shows it unchanged.

Only characters that would be markup are escaped: ``snake_case``, ``3 * 4``, ``a < b``, ``C#`` and
``$5`` are unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from memvault.lazy_pattern import lazy_pattern

_ADDRESS = lazy_pattern(
    r"(?<![A-Za-z0-9\\])([A-Za-z][A-Za-z0-9+.-]{1,19}://|(?i:mailto):)"
    r"(?:[^\s<>\[\]\"`|\\$\x00-\x20]|\$(?=\w))+"  # a dollar sign elsewhere would start math
)
_AFTER_ADDRESS = "?!.,:*'\")"
"""Punctuation after a URL that is not part of it."""
MARKUP = "\x01"
"""Placeholder for markdown that the caller inserts after escaping."""
_MARKUP = (
    r"\*+|_+|==+|\\(?=[!-/:-@\[-`{-~\x01]|\Z)|`+|~~+|[~=](?=\x01)|(?<=\x01)[~=]|%%+|\$\$+|(?<=\S)\$(?![0-9])"
    r"|\[\[+|\](?=[(\[:])|\[(?=\^)|\^(?=\[)|<(?=[A-Za-z/!?]|[^\s<>@]*+@)"
    r"|&(?=#?[A-Za-z0-9]{1,32};)|(?<!\S)#(?=[^\s#])(?![0-9]+(?:[\s.,;:!?)]|\Z))"
    r"|(?<!\S)\^(?=[A-Za-z0-9-]+\Z)"
)
_IN_TEXT = lazy_pattern(_MARKUP)
"""Matches characters of inline markup."""
_IN_LINE = lazy_pattern(rf"{_MARKUP}|[\[\]|]|(?<=\s)#+\Z")
"""Matches characters of inline markup in link labels, headings and tables."""
_START = lazy_pattern(
    r"#{1,6}(?=\s|\Z)|[-+*](?=\s|\Z)|>|[0-9]{1,9}(?=[.)](?:\s|\Z))|=+\Z|-+\Z"
    r"|[*_](?=[*_\s]{2,}\Z)|(?=[|:\s]*-)[-|:](?=[-|:\s]*\Z)|\[(?=[^\]]\](?:\s|\Z))"
)
"""Matches characters that start a block, or turn the previous line into a heading or table."""
_SIGN = lazy_pattern(r"\A[ \t0-9+>:-]|[\\`*_~=%$|\[\]^<&#\x01]|:(?=//)|(?i:mailto:)|-\Z|\s\Z")
"""Matches if a line may need escapes, which is rare."""
_INDENT = lazy_pattern(r"[ \t]*")
_TICKS = lazy_pattern(r"`++")
_LANGUAGE = lazy_pattern(r"[\w+#.-]{1,30}")
MAX_CELLS = 200_000
TOO_MANY_CELLS = f"a table has more than {MAX_CELLS:,} cells"


def escaped(text: str, is_line: bool = False) -> str:
    """Return plain text as markdown with the same words, lines and paragraphs.

    URLs are unchanged, so they become links. With ``is_line`` the result is one line, for a list
    item, a table cell, a heading or a link label.
    """
    if is_line:
        return _line(" ".join(text.split()), _IN_LINE)
    return "\n".join(map(_indented, text.splitlines())).lstrip("\n").rstrip()


def _indented(line: str) -> str:
    if _SIGN.search(line) is None:
        return line
    indent = _INDENT.match(line)
    assert indent is not None  # always matches, possibly an empty string
    rest = line[indent.end() :].rstrip()
    if not rest:
        return ""
    width = len(indent[0].expandtabs(4))
    if width > 3:  # four spaces would start a code block
        return "\u00a0" * width + _inline(rest, _IN_TEXT)
    return " " * width + _line(rest, _IN_TEXT)


def _line(text: str, markup: re.Pattern[str]) -> str:
    block_start = _START.match(text)
    if block_start is None:
        return _inline(text, markup)
    sign_index = block_start.end() if text[0].isdigit() else 0
    return f"{text[:sign_index]}\\{text[sign_index]}{_inline(text[sign_index + 1 :], markup)}"


def _inline(text: str, markup: re.Pattern[str]) -> str:
    parts: list[str] = []
    done = 0
    for match in _ADDRESS.finditer(text) if ":" in text else ():
        address = _without_punctuation(match[0])
        if len(address) <= len(match[1]):
            continue
        start, end = match.start(), match.start() + len(address)
        parts.append(_escaped(text, done, start, markup))
        following = markup.match(text, end)
        is_plain = following is None or _written(following) == following[0]
        if not is_plain or _escaped(text, start, end, markup) != address:
            address = f"<{address}>"
        parts.append(address)
        done = end
    return "".join([*parts, _escaped(text, done, len(text), markup)])


def _without_punctuation(address: str) -> str:
    """Return a URL without trailing punctuation, but with balanced parentheses."""
    end = len(address.rstrip(_AFTER_ADDRESS))
    depth = address.count("(", 0, end) - address.count(")", 0, end)
    while depth > 0 and address[end : end + 1] == ")":
        end, depth = end + 1, depth - 1
    return address[:end]


def _escaped(text: str, start: int, end: int, markup: re.Pattern[str]) -> str:
    parts: list[str] = []
    for match in markup.finditer(text, start):
        if match.start() >= end:
            break
        parts += (text[start : match.start()], _written(match))
        start = match.end()
    return "".join([*parts, text[start:end]])


def _written(match: re.Match[str]) -> str:
    """Escape a run of characters if it could start emphasis."""
    signs, text = match[0], match.string
    if signs[0] in "*_=":
        before = text[match.start() - 1] if match.start() else ""
        after = text[match.end() : match.end() + 1]
        is_within_word = signs[0] == "_" and before.isalnum()
        if is_within_word or not (before.strip() or after.strip()):
            return signs
    return "".join(f"\\{sign}" for sign in signs)


def fenced(text: str, language: str = "") -> str:
    """Return code as a block with a fence longer than any run of backticks in it."""
    fence = "`" * max(3, 1 + _longest(text))
    info = _LANGUAGE.match(language)
    return f"{fence}{info[0] if info else ''}\n{text}\n{fence}"


def code_span(text: str) -> str:
    """Return one line of text as a code span."""
    ticks = "`" * (1 + _longest(text))
    is_padded = text[:1] == "`" or text[-1:] == "`" or (text[:1] == " " and text[-1:] == " ")
    return f"{ticks} {text} {ticks}" if is_padded else f"{ticks}{text}{ticks}"


def table(rows: Iterable[list[str]]) -> str:
    """Return rows of cells as a table with the first row as its head; "" without rows.

    Raises:
        ValueError: if the table has more than ``MAX_CELLS`` cells.
    """
    table_rows: list[list[str]] = []
    cells = 0
    for row in filter(None, rows):
        table_rows.append(row)
        cells += len(row)
        if cells > MAX_CELLS:
            raise ValueError(TOO_MANY_CELLS)
    if not table_rows:
        return ""
    width = max(map(len, table_rows))
    table_rows[:1] = [table_rows[0] + [""] * (width - len(table_rows[0])), ["---"] * width]
    return "\n".join(f"| {' | '.join(row)} |" for row in table_rows)


def _longest(text: str) -> int:
    return max(map(len, _TICKS.findall(text)), default=0) if "`" in text else 0
