"""Find headings, links, tags, code and git conflict markers in a markdown text."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from typing import NamedTuple

from memvault.lazy_pattern import lazy_pattern

_LINK = lazy_pattern(
    r"(?<!(?<!\\)\\)!?+(?:\[\[(?P<inside>[^\[\]\n]++)\]\]"
    r"|\[(?P<shown>(?:[^\[\]\n]++|\[[^\[\]\n]*+\])*+)\]"
    r"\((?:<(?P<bracketed>[^<>\n]++)>|(?P<bare>[^\s()<>]++(?:\([^\s()<>]*+\)[^\s()<>]*+)*+))"
    r"(?:[ \t]++(?:\"[^\"\n]*+\"|'[^'\n]*+'))?+\))"
)
_EXTERNAL = lazy_pattern(r"[A-Za-z][\w+.-]*+:|//|#")
_URL = lazy_pattern(r"https?://[^\s<>]++")
_LIST_MARK = lazy_pattern(r"(?:[-*+]|\d{1,9}[.)])[ \t](?:\[[ xX]\][ \t])?")
_WORD = lazy_pattern(r"[^\W_]")


class Link(NamedTuple):
    """A link in a text.

    ``target`` is the name it links to, as ``recall.resolve.linked`` expects it; ``heading`` is the
    heading, or the block with its ``^``; ``shown`` is the text shown to readers, if it has its own.
    ``span`` is the position of the whole link, and ``target_span`` that of the target as written:
    markdown writes ``%20`` for a space.
    """

    target: str
    heading: str
    shown: str
    is_embed: bool
    is_wikilink: bool
    span: tuple[int, int]
    target_span: tuple[int, int]


def links(text: str) -> Iterator[Link]:
    """Yield the links of a text to other files, in order; links within the text are left out."""
    if "[[" not in text and "](" not in text:
        return
    for match in _LINK.finditer(mask_comments(mask_code(text))):
        link = (
            _parse_wikilink(match)
            if match["inside"] is not None
            else _parse_markdown_link(match, text)
        )
        if link is not None:
            yield link


def is_link_line(line: str) -> bool:
    """Return whether a line consists of links, one of them to another file, and of no words."""
    if not any(links(line)):
        return False
    line = line.lstrip(" \t>")
    mark = _LIST_MARK.match(line)
    rest = _URL.sub("", _LINK.sub("", line[mark.end() :] if mark else line))
    return _WORD.search(rest) is None


def path_beside(target: str, path: str) -> str:
    """Return the path that a markdown link's target names in the file at a path."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), target))


def _parse_wikilink(match: re.Match[str]) -> Link | None:
    written, bar, shown = match["inside"].partition("|")
    written = written.removesuffix("\\") if bar else written  # escaped, as required within a table
    target, _, heading = written.partition("#")
    target, caret, block = target.partition("^")
    name = target.strip()
    if not name or target.startswith(" "):  # [[ -f x ]] is shell syntax
        return None
    start = match.start("inside")
    return Link(
        name,
        heading.strip() or f"{caret}{block.strip()}",
        shown.strip(),
        match[0].startswith("!"),
        True,
        match.span(),
        (start, start + len(target.rstrip())),
    )


def _parse_markdown_link(match: re.Match[str], text: str) -> Link | None:
    from urllib.parse import unquote

    group = "bare" if match["bare"] is not None else "bracketed"
    if _EXTERNAL.match(match[group]):
        return None
    target, _, heading = match[group].partition("#")
    name = unquote(target).strip()
    if not name:
        return None
    start = match.start(group)
    return Link(
        name,
        unquote(heading),
        text[slice(*match.span("shown"))],
        match[0].startswith("!"),
        False,
        match.span(),
        (start, start + len(target)),
    )


_LINES = lazy_pattern(r"[^\n\r]*(?:\r\n|\n|\r)|[^\n\r]+")
_BEGIN, _BASE, _MIDDLE, _END = "<<<<<<< ", "||||||| ", "======= ", ">>>>>>> "
_FENCES = ("```", "~~~")
_OPENING = lazy_pattern(r"^([ \t>]*+)([-*+] |\d++[.)] )?[ \t]*+(`{3,}+(?![^\n`]*`)|~{3,})")
_TICKS = lazy_pattern(r"`+|(?:\n|\r\n?)[ \t]*(?=[\n\r])")
_COMMENT = lazy_pattern(r"%%.*?%%", re.DOTALL)
_COMMENT_START = lazy_pattern(r"%%|(?P<line>(?<![^\n\r]) {0,3})?<!--")
_NOT_LINE_END = lazy_pattern(r"[^\n\r]")
_HTML_TAG = lazy_pattern(
    r"<[A-Za-z][\w-]*+(?:\s++[A-Za-z_:][\w.:-]*+"
    r"(?:\s*+=\s*+(?:[^\s\"'=<>`]++|'[^']{0,999}+'|\"[^\"]{0,999}+\"))?+){1,99}+\s*+/?+>",
    re.ASCII,
)
"""An HTML tag with attributes, as CommonMark defines it."""
_TAG_DELIMITERS = (
    r"\s\u2000-\u206f\u2e00-\u2e7f\u3000-\u303f\uff00-\uff20'!\"#$%&()*+,.:;<=>?@\[\\\]^`{|}~"
)
_TAG = lazy_pattern(rf"#(?<!\S#)(?!\d++(?![^{_TAG_DELIMITERS}]))([^{_TAG_DELIMITERS}]++)")


def lines(text: str) -> Iterator[re.Match[str]]:
    """Yield a text's lines with their line ends."""
    return _LINES.finditer(text)


def headings(body: str) -> Iterator[tuple[int, int, int, str]]:
    """Yield each heading outside code as (start, end of its line, level, text)."""
    for line, is_code in lines_with_code(body):
        level, title = (0, "") if is_code else parse_heading(line[0])
        if level:
            yield line.start(), line.end(), level, title


def parse_heading(line: str) -> tuple[int, str]:
    """Return the level and text of a line outside code; level 0 if it is not a heading."""
    bare = line.lstrip(" ")
    if not bare.startswith("#"):
        return 0, ""
    title = bare.lstrip("#")
    level = len(bare) - len(title)
    if len(line) - len(bare) > 3 or level > 6 or title[:1].strip():
        return 0, ""
    title = title.strip()
    unmarked = title.rstrip("#")
    if not unmarked or unmarked[-1] in " \t":  # closing marks follow a space; C# keeps its #
        title = unmarked.strip()
    return level, title


def first_heading(body: str) -> str:
    """Return the text of the first heading of level 1, or an empty string."""
    titles = (text for _, _, level, text in headings(body) if level == 1 and text)
    return " ".join(next(titles, "").split())


def mask_code(text: str) -> str:
    """Return a text of the same length with spaces in place of code and Obsidian's comments.

    Positions found in it are valid in the text itself.
    """
    text = _without_code(text)
    return _COMMENT.sub(_blank, text) if "%%" in text else text


def mask_comments(text: str) -> str:
    """Return a text of the same length with spaces in place of Obsidian's and HTML's comments."""
    if "%%" not in text and "<!--" not in text:
        return text
    return _without_comments(text, _without_code(text))


def _without_comments(text: str, bare: str) -> str:
    """Return a text with spaces in place of its comments, which are found in ``bare``.

    An HTML comment without an end is one only if it begins a line, and ends with the text, as
    CommonMark defines it.
    """
    pieces: list[str] = []
    done, last = 0, bare.rfind("-->")
    for mark in _COMMENT_START.finditer(bare):
        start, behind = mark.span()
        if start < done:
            continue
        closing = "%%" if mark[0] == "%%" else "-->"
        end = bare.find(closing, behind) if closing == "%%" or behind <= last else -1
        if end >= 0:
            end += len(closing)
        elif mark["line"] is not None:
            end = len(bare)
        if end >= 0:
            pieces += (text[done:start], _NOT_LINE_END.sub(" ", text[start:end]))
            done = end
    return "".join(pieces) + text[done:]


def _without_code(text: str) -> str:
    return _without_spans(_without_fenced(text)) if "`" in text or "~~~" in text else text


def _blank(match: re.Match[str]) -> str:
    return _NOT_LINE_END.sub(" ", match[0])


def _without_fenced(text: str) -> str:
    return "".join(_blank(line) if is_code else line[0] for line, is_code in lines_with_code(text))


def lines_with_code(text: str) -> Iterator[tuple[re.Match[str], bool]]:
    """Yield a text's lines, each with whether it belongs to a fenced code block.

    A fence in a list item or quote ends with that at the latest.
    """
    fence = ""
    quoted, indent = False, 0
    for line in lines(text):
        if fence and not _is_outside_block(line[0], quoted, indent):
            closing = line[0].strip("> \t\r\n")
            if closing == closing[:1] * len(closing) and closing.startswith(fence):
                fence = ""
            yield line, True
            continue
        may = "```" in line[0] or "~~~" in line[0]
        mark = _OPENING.match(line[0]) if may else None
        fence = mark[3] if mark else ""
        if mark:
            quoted = ">" in mark[1]
            indent = mark.end(2) if mark[2] and not quoted else 0
        yield line, bool(mark)


def _is_outside_block(line: str, quoted: bool, indent: int) -> bool:
    """Return whether a line is outside of the quote or list item that a fence is in."""
    bare = line.lstrip(" \t>" if quoted else " \t")
    if quoted:
        return ">" not in line[: len(line) - len(bare)]
    return bool(bare.strip()) and len(line) - len(bare) < indent and "\t" not in line[:indent]


def _without_spans(text: str) -> str:
    """Replace code spans, between equal runs of backticks in one paragraph, by spaces."""
    ends: list[int] = []
    following: dict[int, int] = {}
    for run in reversed(list(_TICKS.finditer(text))):  # backwards, so that the time is linear
        length = run.end() - run.start() if run[0][0] == "`" else 0
        if not length:  # a blank line
            following.clear()
        ends.append(following.get(length, 0))
        following[length] = run.end()
    pieces: list[str] = []
    done = 0
    for run, end in zip(_TICKS.finditer(text), reversed(ends), strict=True):
        if end and run.start() >= done:
            pieces += (text[done : run.start()], _NOT_LINE_END.sub(" ", text[run.start() : end]))
            done = end
    return "".join(pieces) + text[done:]


def tags(text: str) -> list[re.Match[str]]:
    """Return the matches of tags in a text, by Obsidian's rules; group 1 is a tag without its #."""
    if _TAG.search(text) is None:
        return []
    text = _without_code(text)
    text = _without_comments(text, text)
    return list(_TAG.finditer(_HTML_TAG.sub(_blank, text) if "<" in text else text))


def has_conflict_markers(text: str) -> bool:
    """Return whether a text has git conflict markers that are not an example in code."""
    if _BEGIN not in text:
        return False
    remaining = iter((_BEGIN, _MIDDLE, _END))
    marker = next(remaining)
    fenced = False
    for line in _padded_lines(text):
        if marker == _BEGIN and line.lstrip(" ").startswith(_FENCES):
            fenced = not fenced
        elif line.startswith(marker) and not fenced:
            following = next(remaining, None)
            if following is None:
                return True
            marker = following
    return False


def keep_ours(text: str) -> str:
    """Return a text with our side of each conflict, without the other side and the markers."""
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
    """Return a text without the marker it starts with, if the whole file is in conflict."""
    return (
        text.partition("\n")[2] if text.startswith(_BEGIN) and has_conflict_markers(text) else text
    )


def _padded_lines(text: str) -> Iterator[str]:
    """Yield lines with a space appended, so that a marker without a label is matched too."""
    return (line.rstrip("\r") + " " for line in text.split("\n"))
