"""Plain text as markdown that shows the same text: no headings, links, tags, tasks or code."""

from __future__ import annotations

import re

from memvault.lazy_pattern import lazy_pattern

_INLINE = lazy_pattern(r"[\\`*\[\]<]|(?<![\w_])_+|_+(?![\w_])|&(?=[#\w])|~~|==|%%|\$|\|")
"""Matches what can begin or end markup within a line."""
_BLOCK = lazy_pattern(r"#+(?=\s|\Z)|[-+>](?=\s|\Z)|(?<=\d)[.)](?=\s|\Z)|[-=~:]{2,}")
_TAG = lazy_pattern(r"(?<!\S)#(?=[^\s#])")
_BLOCK_ID = lazy_pattern(r"(?<!\S)\^(?=[\w-]+\s*\Z)")
_START = lazy_pattern(r"[ \t]*+(?:\d{1,9}(?=[.)](?:\s|\Z)))?")
_ADDRESS = lazy_pattern(r"\b(?:https?|ftp|mailto):[^\s<>\[\]\"`|]+")


def escaped(text: str, is_line: bool = False) -> str:
    """Return plain text as markdown that has the same words, lines and paragraphs.

    Addresses stay as they are, so that they are links. With ``is_line`` the result is one line,
    for use within other text.
    """
    if is_line:
        return _inline(" ".join(text.split()))
    lines = text.expandtabs(4).splitlines()
    while lines and not lines[0].strip():
        del lines[0]
    return "\n".join(map(_line, lines)).rstrip()


def _line(line: str) -> str:
    start = _START.match(line)
    assert start is not None  # it can be empty
    indentation = len(line) - len(line.lstrip())
    # Four spaces would begin code, or continue a list.
    lead = ("\u00a0" if indentation > 3 else " ") * indentation
    number = start[0].lstrip()
    rest = line[start.end() :].rstrip()
    mark = _BLOCK.match(rest) if not number else re.match(r"[.)]", rest)
    if mark is None:
        return lead + number + _inline(rest)
    return f"{lead}{number}\\{mark[0]}{_inline(rest[mark.end() :])}"


def _inline(text: str) -> str:
    parts: list[str] = []
    done = 0
    for address in _ADDRESS.finditer(text):
        parts += [_escaped_part(text[done : address.start()]), address[0]]
        done = address.end()
    return "".join([*parts, _escaped_part(text[done:])])


def _escaped_part(text: str) -> str:
    text = _INLINE.sub(lambda match: "".join(f"\\{sign}" for sign in match[0]), text)
    return _BLOCK_ID.sub(r"\\^", _TAG.sub(r"\\#", text))
