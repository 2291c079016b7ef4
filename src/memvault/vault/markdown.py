"""Find headings, links, tags, tasks, code and git conflict markers in a markdown text.

This package alone defines what counts as code, a link, an embed, a tag or a task, following
CommonMark, GFM and Obsidian's extensions: wikilinks, tags, comments between ``%%`` and math between
``$``. ``markdown_blocks`` parses blocks and ``markdown_inline`` their content; both are imported
when markdown is first parsed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from memvault.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from memvault.vault.markdown_inline import Link, ParsedMarkdown

    Span = tuple[int, int]

_BLOCK_ID = lazy_pattern(r"(?:\A|\s)\^([A-Za-z0-9-]{1,100})[ \t]*\Z")
_URL = lazy_pattern(r"https?://[^\s<>]++")
_LIST_MARK = lazy_pattern(r"(?:[-*+]|\d{1,9}[.)])[ \t](?:\[[ xX]\][ \t])?")
_WORD = lazy_pattern(r"[^\W_]")


def _parsed(text: str) -> ParsedMarkdown:
    from memvault.vault.markdown_inline import parsed

    return parsed(text)


def links(text: str) -> Iterator[Link]:
    """Yield the links to other files, in order, without ``inner_links``."""
    if "[" in text or "<" in text:
        yield from _parsed(text).inline.links


def inner_links(text: str) -> list[Link]:
    """Return the wikilinks within the document, such as ``[[#Heading]]``, in order."""
    return _parsed(text).inline.inner_links if "[[" in text else []


def is_link_line(line: str) -> bool:
    """Return whether a line consists only of links, at least one of them to another file."""
    line = line.lstrip(" \t>")
    if "[" not in line:
        return False
    from memvault.vault.markdown_blocks import masked
    from memvault.vault.markdown_inline import ParsedMarkdown

    mark = _LIST_MARK.match(line)
    line = line[mark.end() :] if mark else line
    inline = ParsedMarkdown(line).inline
    return bool(inline.links) and not _WORD.search(_URL.sub("", masked(line, inline.whole_links)))


_LINES = lazy_pattern(r"[^\n\r]*(?:\r\n|\n|\r)|[^\n\r]+")
_BEGIN, _BASE, _MIDDLE, _END = "<<<<<<< ", "||||||| ", "======= ", ">>>>>>> "
_TAG_DELIMITERS = (
    r"\s\u2000-\u206f\u2e00-\u2e7f\u3000-\u303f\uff00-\uff20'!\"#$%&()*+,.:;<=>?@\[\\\]^`{|}~"
)
_MAYBE_TAG = lazy_pattern(rf"(?<![^\s>])#[^{_TAG_DELIMITERS}]")
_TAG = lazy_pattern(rf"#(?<!\S#)(?!\d++(?![^{_TAG_DELIMITERS}]))([^{_TAG_DELIMITERS}]++)")


_TITLE = lazy_pattern(r"(?:[ \t]*+(?:\r\n|\n|\r))*+( {0,3}#[ \t]++[^\s#][^\r\n]*+)")


_MAYBE_CODE = lazy_pattern(r"```|~~~|\t| {4}")
"""Matches a fence or an indentation; text without a match has no code blocks."""


def lines(text: str) -> Iterator[re.Match[str]]:
    """Yield a string's lines with their line endings."""
    return _LINES.finditer(text)


def headings(body: str) -> Iterator[tuple[int, int, int, str]]:
    """Yield each heading with ``#`` outside code as (start, end of its line, level, text)."""
    if "#" not in body:
        return
    blocks = _parsed(body).blocks
    for number in blocks.headings:
        start, end = blocks.line_span(number)
        level, title = parse_heading(body[start:end])
        if level:
            yield start, end, level, title


def parse_heading(line: str) -> tuple[int, str]:
    """Return the level and text of a line outside code; level 0 if it is not a heading.

    The text does not include a block id.
    """
    bare = line.lstrip(" ")
    if not bare.startswith("#"):
        return 0, ""
    title = bare.lstrip("#")
    level = len(bare) - len(title)
    if len(line) - len(bare) > 3 or level > 6 or title[:1].strip():
        return 0, ""
    title = title.strip()
    unmarked = title.rstrip("#")
    # A closing # sequence must follow a space, so "C#" keeps its #.
    if not unmarked or unmarked[-1] in " \t":
        title = unmarked.strip()
    return level, without_block_id(title)


def find_block_id(text: str) -> re.Match[str] | None:
    """Return the match of Obsidian's id at the end of a block; group 1 is the id without its ^."""
    return _BLOCK_ID.search(text) if "^" in text else None


def without_block_id(title: str) -> str:
    """Return a heading without the block id at its end."""
    block_id = find_block_id(title)
    return (title[: block_id.start()].rstrip() if block_id is not None else "") or title


def first_heading(body: str) -> str:
    """Return the text of the first heading of level 1, or an empty string."""
    first = _TITLE.match(body)
    if first:  # Most files begin with their title, so they need not be parsed.
        return " ".join(parse_heading(first[1])[1].split())
    titles = (text for _, _, level, text in headings(body) if level == 1 and text)
    return " ".join(next(titles, "").split())


def mask_code(text: str) -> str:
    """Return text of the same length with spaces in place of code and math.

    Positions in the result are also valid in the text.
    """
    from memvault.vault.markdown_blocks import masked

    parsed = _parsed(text)
    blocks = parsed.blocks
    code = [blocks.line_span(line) for line, is_code in enumerate(blocks.code_lines) if is_code]
    return masked(text, [*code, *parsed.inline.code])


def replace_outside_code(
    pattern: re.Pattern[str], written: Callable[[re.Match[str]], str], text: str
) -> str:
    """Return text with each match of a pattern outside code replaced."""
    if pattern.search(text) is None:
        return text
    pieces: list[str] = []
    done = 0
    for masked_match in pattern.finditer(mask_code(text)):
        match = pattern.match(text, masked_match.start())  # The replacement may contain code.
        if match is not None and match.start() >= done:
            pieces += (text[done : match.start()], written(match))
            done = match.end()
    return "".join(pieces) + text[done:]


def comments(text: str) -> list[Span]:
    """Return the positions of Obsidian's and HTML's comments."""
    return _parsed(text).inline.comments if "%%" in text or "<!--" in text else []


def mask_comments(text: str) -> str:
    """Return text of the same length with spaces in place of Obsidian's and HTML's comments."""
    spans = comments(text)
    if not spans:
        return text
    from memvault.vault.markdown_blocks import masked

    return masked(text, spans)


def lines_with_code(text: str) -> Iterator[tuple[re.Match[str], bool]]:
    """Yield each line, and whether it is in a fenced or indented code block."""
    if _MAYBE_CODE.search(text) is None:  # Most files have no code and need not be parsed.
        return ((line, False) for line in lines(text))
    code = _parsed(text).blocks.code_lines
    return ((line, bool(is_code)) for line, is_code in zip(lines(text), code, strict=True))


def tasks(text: str) -> Iterator[int]:
    """Yield the position of each task's mark, the character between its brackets."""
    if "[" not in text:
        return
    from memvault.vault.markdown_blocks import masked

    parsed = _parsed(text)
    is_commented = bool(parsed.blocks.tasks) and "%%" in text
    visible = masked(text, parsed.inline.comments) if is_commented else text
    for position in parsed.blocks.tasks:
        if visible[position - 1] == "[":
            yield position


def tags(text: str) -> list[re.Match[str]]:
    """Return matches of tags by Obsidian's rules; group 1 is the tag without its #."""
    if _MAYBE_TAG.search(text) is None:
        return []
    from memvault.vault.markdown_blocks import masked

    parsed = _parsed(text)
    shown = masked(parsed.blocks.flat, parsed.inline.comments)
    # A backtick ends a tag.
    return list(_TAG.finditer(masked(shown, parsed.inline.hidden, "`")))


def has_conflict_markers(text: str) -> bool:
    """Return whether text has git conflict markers that are not an example in code."""
    if _BEGIN not in text:
        return False
    remaining = iter((_BEGIN, _MIDDLE, _END))
    marker = next(remaining)
    for match, is_code in lines_with_code(text):
        line = match[0].rstrip("\r\n") + " "  # Also match a marker without a label.
        if line.startswith(marker) and not (is_code and marker == _BEGIN):
            following = next(remaining, None)
            if following is None:
                return True
            marker = following
    return False


def keep_ours(text: str) -> str:
    """Return text with our side of each conflict, without their side and the markers."""
    if _BEGIN not in text:
        return text
    ours, left_out, inside = [], False, False
    for line in text.splitlines(keepends=True):
        bare = line.rstrip("\r\n") + " "
        if bare.startswith(_BEGIN):
            inside, left_out = True, False
        elif inside and bare.startswith((_BASE, _MIDDLE)):
            left_out = True
        elif inside and bare.startswith(_END):
            inside = left_out = False
        elif not left_out:
            ours.append(line)
    return "".join(ours)


def unwrapped(text: str) -> str:
    """Return text without the conflict marker at its start, if the whole file is in conflict."""
    return (
        text.partition("\n")[2] if text.startswith(_BEGIN) and has_conflict_markers(text) else text
    )
