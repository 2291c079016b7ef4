"""Find headings, links, tags, tasks, code and git conflict markers in a markdown text.

What is code, a link, an embed, a tag or a task is decided here alone, by CommonMark, GFM and
Obsidian's extensions: wikilinks, tags, comments between ``%%`` and math between ``$``. Blocks are
found by ``markdown_blocks``, what is inside them here, in one pass that is linear in the text.
"""

from __future__ import annotations

import posixpath
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, lru_cache
from typing import Literal, NamedTuple

from memvault.lazy_pattern import lazy_pattern
from memvault.vault.markdown_blocks import (
    CLOSE_TAG,
    OPEN_TAG,
    PARENTHESES,
    Blocks,
    Definition,
    Span,
    masked,
    scan_blocks,
)

LinkForm = Literal["wikilink", "inline", "reference", "definition", "html"]
"""The form of a link: ``[[a]]``, ``[a](b)``, ``[a][b]``, ``[b]: c`` that no link uses, a tag."""
_EXTERNAL = lazy_pattern(r"[A-Za-z][\w+.-]*+:|//|#")
_URL = lazy_pattern(r"https?://[^\s<>]++")
_LIST_MARK = lazy_pattern(r"(?:[-*+]|\d{1,9}[.)])[ \t](?:\[[ xX]\][ \t])?")
_WORD = lazy_pattern(r"[^\W_]")


class Link(NamedTuple):
    """A link in a text.

    ``target`` is the name it links to, as ``recall.resolve.linked`` expects it; ``heading`` is the
    heading, or the block with its ``^``; ``shown`` is the text shown to readers, if it has its own.
    ``span`` is the position of the whole link, and ``target_span`` that of the target as written,
    which may be in a definition that several links use: markdown writes ``%20`` for a space.
    """

    target: str
    heading: str
    shown: str
    is_embed: bool
    form: LinkForm
    span: Span
    target_span: Span

    @property
    def is_wikilink(self) -> bool:
        """Whether the link has Obsidian's form ``[[target]]``."""
        return self.form == "wikilink"

    def path_beside(self, path: str) -> str:
        """Return the path that the link names relative to the folder of the file at ``path``.

        It is empty for a wikilink, unless that begins with ``./`` or ``../``. The path of a note
        may lack ``.md``.
        """
        is_named = self.is_wikilink and not self.target.startswith(("./", "../"))
        return "" if is_named else path_beside(self.target, path)


def links(text: str) -> Iterator[Link]:
    """Yield the links of a text to other files, in order; links within the text are left out."""
    if "[" in text or "<" in text:
        yield from _markdown(text).inline.links


def is_link_line(line: str) -> bool:
    """Return whether a line consists of links, one of them to another file, and of no words."""
    line = line.lstrip(" \t>")
    if "[" not in line:
        return False
    mark = _LIST_MARK.match(line)
    line = line[mark.end() :] if mark else line
    inline = _Markdown(line).inline
    return bool(inline.links) and not _WORD.search(_URL.sub("", masked(line, inline.whole_links)))


def path_beside(target: str, path: str) -> str:
    """Return the path that a markdown link's target names in the file at a path."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), target))


def relative_path(path: str, folder: str) -> str:
    """Return a path relative to a folder; both are relative to the vault."""
    if path.startswith("../"):
        return "../" * (folder.count("/") + 1 if folder else 0) + path
    return posixpath.relpath(f"/{path}", f"/{folder}")


_SAFE_CHARACTERS = "/!$&'*+,;=:@()-._~"
"""Characters that are not percent-encoded in a markdown link."""
_NOT_IN_ANGLES = lazy_pattern(r"[%#<>\\&]")
_ENTITY = lazy_pattern(r"&(?=[A-Za-z][A-Za-z0-9]{1,31};)")


def written_target(link: Link, path: str, text: str) -> str:
    """Return a path relative to a file as the target of a link in the text of that file."""
    from urllib.parse import quote

    if link.is_wikilink:
        return path if path.startswith("../") else f"./{path}"

    start = link.target_span[0]
    if link.form == "html":
        written = quote(path, _SAFE_CHARACTERS.replace("&", "").replace("'", ""))
    elif text[start - 1 : start] == "<":
        written = _NOT_IN_ANGLES.sub(lambda match: quote(match[0]), path)
    else:
        is_balanced = _BALANCED.fullmatch(path) is not None
        safe = _SAFE_CHARACTERS if is_balanced else _SAFE_CHARACTERS.replace("()", "")
        written = _ENTITY.sub("%26", quote(path, safe))
    return f"./{written}" if _EXTERNAL.match(written) else written


def replaced(text: str, targets: Iterable[tuple[Link, str]]) -> str:
    """Return a text with other targets of links; links may share a definition."""
    spans = {link.target_span: written for link, written in targets}
    pieces: list[str] = []
    done = 0
    for (start, end), written in sorted(spans.items()):
        pieces += (text[done:start], written)
        done = end
    return "".join(pieces) + text[done:]


def moved_targets(
    text: str, old: str, new: str, exists: Callable[[str], bool]
) -> Iterator[tuple[Link, str]]:
    """Yield the links that a file's move would break, each with its target for the new path.

    These are the relative links to what exists, by its path in the vault, or to outside of it. A
    link to the file itself leads to its new path.
    """
    folder = posixpath.dirname(new)
    if folder == posixpath.dirname(old):
        return
    for link in links(text):
        beside = "" if link.target.startswith("/") else link.path_beside(old)
        if beside and (beside.startswith("../") or exists(beside) or exists(f"{beside}.md")):
            path = relative_path(new if beside == old else beside, folder)
            if path != posixpath.normpath(link.target):
                slash = "/" if link.target.endswith("/") and not path.endswith("/") else ""
                yield link, written_target(link, path, text) + slash


_TOKEN = lazy_pattern(r"\\[!-/:-@\[-`{-~]|`++|<|!?\[|\]|%%|\$\$?")
_TOKEN_WITHOUT_LINKS = lazy_pattern(r"\\[!-/:-@\[-`{-~]|`++|<|%%|\$\$?")
_TICKS = lazy_pattern(r"`++")
_COMMENT_END = lazy_pattern(r"`++|%%")
_WIKILINK = lazy_pattern(r"\[\[([^\[\]\n\r]++)\]\]")
_AUTOLINK = lazy_pattern(
    r"<(?:[A-Za-z][A-Za-z0-9+.-]{1,31}:[^\s<>\x00-\x20]*+"
    r"|[\w.!#$%&'*+/=?^`{|}~-]++@[A-Za-z0-9.-]++)>",
    re.ASCII,
)
_TAG_IN_TEXT = lazy_pattern(rf"(?:{OPEN_TAG}|{CLOSE_TAG}|<!--?-?>)", re.ASCII)
_MARKUP = (("<!--", "-->"), ("<?", "?>"), ("<![CDATA[", "]]>"), ("<!", ">"))
_MATH = lazy_pattern(r"(?<![\w$])\$(?=[^\s$])(?:[^$\\]|\\.){1,999}?(?<!\s)\$(?![\w$])", re.DOTALL)
_BALANCED = lazy_pattern(rf"(?:{PARENTHESES}|\s)*+")
_DESTINATION = lazy_pattern(
    r"\([ \t\r\n]*+(?:<(?P<bracketed>(?:[^<>\\\n\r]++|\\.)*+)>"
    rf"|(?P<bare>(?!<)(?:{PARENTHESES})++))?+"
    r"(?:[ \t\r\n]++(?:\"(?:[^\"\\]++|\\.){0,499}+\"|'(?:[^'\\]++|\\.){0,499}+'"
    r"|\((?:[^()\\]++|\\.){0,499}+\)))?+[ \t\r\n]*+\)",
    re.DOTALL,
)
_LABEL = lazy_pattern(r"\[((?:[^\[\]\\]++|\\.){0,499}+)\]", re.DOTALL)
_MAX_LABEL = 999
_ESCAPED = lazy_pattern(r"\\([!-/:-@\[-`{-~])")
_FRAGMENT = lazy_pattern(r"(?<!&)#")
_ADDRESS = lazy_pattern(
    r"<(?P<tag>img|a|video|audio|source|embed|iframe)\s(?:[^>\"']|\"[^\"]*\"|'[^']*')*?"
    r"(?<=\s)(?:src|href)\s*=\s*"
    r"(?:\"(?P<double>[^\"]*+)\"|'(?P<single>[^']*+)'|(?P<bare>[^\s\"'=<>`]++))",
    re.IGNORECASE | re.ASCII,
)
_EMBEDDING_TAGS = frozenset(("img", "video", "audio", "source", "embed", "iframe"))


class _Bracket(NamedTuple):
    start: int
    content: int
    is_image: bool


class _Inline:
    """The inline content of a text, found in one pass over its segments.

    ``whole_links`` are all links, also those to other places; ``code`` are code spans and math,
    ``hidden`` all that has no tags: these, HTML, and addresses and names of links.
    """

    def __init__(self, text: str, blocks: Blocks) -> None:
        self.text = text
        self.flat = blocks.flat
        self.links: list[Link] = []
        self.whole_links: list[Span] = []
        self.code: list[Span] = []
        self.hidden: list[Span] = []
        self.comments: list[Span] = [*blocks.comments]
        self._definitions: dict[str, Definition] = {}
        for definition in blocks.definitions:
            self._definitions.setdefault(_label_key(definition.label), definition)
        self._used: set[int] = set()
        self._brackets: list[_Bracket] = []
        self._inactive = 0
        """The number of brackets, from the bottom, in which no link but an image may end."""
        self._ends: dict[str, int] = {}
        self._segments = blocks.segments
        self._last_sign = self.flat.rfind("%%")
        token = _TOKEN if "[" in self.flat else _TOKEN_WITHOUT_LINKS
        done = 0
        for number, (start, end) in enumerate(blocks.segments):
            if end > done and token.search(self.flat, max(start, done), end):
                done = self._segment(number, max(start, done), token)
        for start, end in blocks.html:
            self._tags(start, end)
        visible = masked(text, self.comments)
        for definition in blocks.definitions:
            place = definition.span[0]
            if place not in self._used and visible[place] == "[":
                self._add_link("definition", definition.span, definition.label, False, definition)
        self.links.sort(key=lambda link: link.span)

    def _segment(self, number: int, start: int, token: re.Pattern[str]) -> int:
        """Find what is in a segment; return its end, or that of a comment that begins in it."""
        flat, end = self.flat, self._segments[number][1]
        self._brackets, self._inactive, self._ends = [], 0, {}
        ticks: _CodeSpans | None = None
        while match := token.search(flat, start, end):
            found, place = match[0], match.start()
            start = match.end()
            first = found[0]
            if first == "`":
                ticks = ticks or _CodeSpans(flat, place, end)
                if behind := ticks.end(match):
                    start = behind
                    self._code(place, start)
            elif first == "]":
                start = self._close_bracket(place, end)
            elif first in "[!":
                start = self._open_bracket(match, end)
            elif first == "<":
                start = self._angle(place, end)
            elif first == "$":
                start = self._math(match, end)
            elif first == "%" and (behind := self._comment_end(number, start)):
                start = behind
                self.comments.append((place, start))
        return max(start, end)

    def _comment_end(self, number: int, place: int) -> int:
        """Return where Obsidian's comment ends that begins in a segment before a place, or 0.

        Signs in code do not end it, and it may end in another segment.
        """
        if place > self._last_sign:
            return 0
        for following in range(number, len(self._segments)):
            start, end = self._segments[following]
            start = max(start, place)
            ticks: _CodeSpans | None = None
            while match := _COMMENT_END.search(self.flat, start, end):
                start = match.end()
                if match[0] == "%%":
                    return start
                ticks = ticks or _CodeSpans(self.flat, match.start(), end)
                start = ticks.end(match) or start
        self._last_sign = place
        return 0

    def _code(self, start: int, end: int) -> None:
        self.code.append((start, end))
        self.hidden.append((start, end))

    def _find(self, sign: str, start: int, end: int) -> int:
        """Return the position of a sign in this segment, or -1; linear over all calls that fail."""
        if start >= self._ends.get(sign, end):
            return -1
        place = self.flat.find(sign, start, end)
        if place < 0:
            self._ends[sign] = start
        return place

    def _math(self, match: re.Match[str], end: int) -> int:
        place, start = match.span()
        if match[0] == "$$":
            closing = self._find("$$", start, end)
            start = closing + 2 if closing >= 0 else start
        elif math := _MATH.match(self.flat, place, end):
            start = math.end()
        if start > match.end():
            self._code(place, start)
        return start

    def _angle(self, place: int, end: int) -> int:
        """Read an autolink, an HTML tag or a comment; return where it ends."""
        if match := _AUTOLINK.match(self.flat, place, end):
            self.whole_links.append(match.span())
            self.hidden.append(match.span())
            return match.end()
        if match := _TAG_IN_TEXT.match(self.flat, place, end):
            self.hidden.append(match.span())
            self._tag(place, match.end())
            return match.end()
        for opening, closing in _MARKUP:
            if self.flat.startswith(opening, place, end):
                if opening == "<!" and not self.flat[place + 2 : place + 3].isalpha():
                    break
                found = self._find(closing, place + len(opening), end)
                if found >= 0:
                    kind = self.comments if opening == "<!--" else self.hidden
                    kind.append((place, found + len(closing)))
                    return found + len(closing)
                break
        return place + 1

    def _tags(self, start: int, end: int) -> None:
        """Find the links of an HTML block's tags."""
        place = self.text.find("<", start, end)
        while place >= 0:
            behind = place + 1
            if self.text.startswith("<!--", place, end):
                closing = self.text.find("-->", place, end)
                behind = closing + 3 if closing >= 0 else end
            elif match := _TAG_IN_TEXT.match(self.text, place, end):
                self._tag(place, match.end())
                behind = match.end()
            place = self.text.find("<", behind, end)

    def _tag(self, start: int, end: int) -> None:
        address = _ADDRESS.match(self.text, start, end)
        if address is None:
            return
        group = next(name for name in ("double", "single", "bare") if address[name] is not None)
        is_embed = address["tag"].lower() in _EMBEDDING_TAGS
        self._add("html", (start, end), "", is_embed, address[group], address.span(group))

    def _open_bracket(self, match: re.Match[str], end: int) -> int:
        place, content = match.span()
        is_image = match[0] == "!["
        wikilink = _WIKILINK.match(self.flat, content - 1, end)
        link = _parse_wikilink(wikilink, is_image) if wikilink else None
        if link is None:
            self._brackets.append(_Bracket(place, content, is_image))
            return content
        span = (place, link.span[1])
        if link.target:
            self.links.append(link._replace(span=span))
        self.whole_links.append(span)
        self.hidden.append(span)
        if not is_image:
            self._inactive = len(self._brackets)
        return span[1]

    def _close_bracket(self, place: int, end: int) -> int:
        """End a link or an image at a closing bracket if there is one; return where it ends."""
        behind = place + 1
        if not self._brackets:
            return behind
        bracket = self._brackets.pop()
        is_inactive = len(self._brackets) < self._inactive
        self._inactive = min(self._inactive, len(self._brackets))
        if is_inactive and not bracket.is_image:
            return behind
        shown = self.text[bracket.content : place]
        if match := _DESTINATION.match(self.flat, behind, end):
            group = "bracketed" if match["bracketed"] is not None else "bare"
            span = (bracket.start, match.end())
            if match[group]:
                written = match.span(group)
                self._add("inline", span, shown, bracket.is_image, match[group], written)
        else:
            definition, stop = self._definition(bracket.content, place, end)
            if definition is None:
                return behind
            span = (bracket.start, stop)
            self._used.add(definition.span[0])
            self._add_link("reference", span, shown, bracket.is_image, definition)
        self.whole_links.append(span)
        self.hidden.append((behind, span[1]))
        if not bracket.is_image:
            self._inactive = len(self._brackets)
        return span[1]

    def _definition(self, start: int, place: int, end: int) -> tuple[Definition | None, int]:
        """Return the definition that a reference uses, and the end of the reference."""
        if not self._definitions:
            return None, 0
        behind = place + 1
        label = self.flat[start:place] if place - start <= _MAX_LABEL else ""
        if match := _LABEL.match(self.flat, behind, end):
            label, behind = match[1] if match[1].strip() else label, match.end()
        return self._definitions.get(_label_key(label)), behind

    def _add_link(
        self, form: LinkForm, span: Span, shown: str, is_embed: bool, to: Definition
    ) -> None:
        self._add(form, span, shown, is_embed, to.target, to.target_span)

    def _add(
        self,
        form: LinkForm,
        span: Span,
        shown: str,
        is_embed: bool,
        written: str,
        target_span: Span,
    ) -> None:
        """Add a link that is not a wikilink, unless it leads elsewhere than to a file."""
        if _EXTERNAL.match(written):
            return
        hash_sign = _FRAGMENT.search(written)
        length = hash_sign.start() if hash_sign else len(written)
        name = _unescaped(written[:length], form).strip()
        if name:
            heading = _unescaped(written[length + 1 :], form)
            start = target_span[0]
            self.links.append(
                Link(name, heading, shown, is_embed, form, span, (start, start + length))
            )


class _CodeSpans:
    """The positions of the runs of backticks in a part of a text, by their length."""

    def __init__(self, text: str, start: int, end: int) -> None:
        self._places: dict[int, list[int]] = {}
        for run in _TICKS.finditer(text, start, end):
            self._places.setdefault(run.end() - run.start(), []).append(run.start())

    def end(self, run: re.Match[str]) -> int:
        """Return the end of the code span that a run begins, or 0 if nothing closes it."""
        places = self._places.get(len(run[0]), [])
        number = bisect_right(places, run.start())
        return places[number] + len(run[0]) if number < len(places) else 0


def _label_key(label: str) -> str:
    return " ".join(label.split()).casefold()


def _unescaped(written: str, form: LinkForm) -> str:
    """Return a path as written in a link without its escapes."""
    if form != "html" and "\\" in written:
        written = _ESCAPED.sub(r"\1", written)
    if "&" in written:
        from html import unescape

        written = unescape(written)
    if "%" in written:
        from urllib.parse import unquote

        written = unquote(written)
    return written


def _parse_wikilink(match: re.Match[str], is_embed: bool) -> Link | None:
    """Return a wikilink, without a target if it leads within the text; None if it is none."""
    written, bar, shown = match[1].partition("|")
    written = written.removesuffix("\\") if bar else written  # escaped, as required within a table
    target, _, heading = written.partition("#")
    target, caret, block = target.partition("^")
    name = target.strip()
    if target.startswith(" ") or not (name or heading.strip() or block.strip()):
        return None  # [[ -f x ]] is shell syntax
    start = match.start(1)
    return Link(
        name,
        heading.strip() or f"{caret}{block.strip()}",
        shown.strip(),
        is_embed,
        "wikilink",
        match.span(),
        (start, start + len(target.rstrip())),
    )


class _Markdown:
    """A parsed text; its inline content is parsed when it is first asked for."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.blocks = scan_blocks(text)

    @cached_property
    def inline(self) -> _Inline:
        """The inline content."""
        return _Inline(self.text, self.blocks)


@lru_cache(maxsize=1)  # the features of a note ask for it in turn
def _markdown(text: str) -> _Markdown:
    return _Markdown(text)


_LINES = lazy_pattern(r"[^\n\r]*(?:\r\n|\n|\r)|[^\n\r]+")
_BEGIN, _BASE, _MIDDLE, _END = "<<<<<<< ", "||||||| ", "======= ", ">>>>>>> "
_TAG_DELIMITERS = (
    r"\s\u2000-\u206f\u2e00-\u2e7f\u3000-\u303f\uff00-\uff20'!\"#$%&()*+,.:;<=>?@\[\\\]^`{|}~"
)
_MAYBE_TAG = lazy_pattern(rf"(?<![^\s>])#[^{_TAG_DELIMITERS}]")
_TAG = lazy_pattern(rf"#(?<!\S#)(?!\d++(?![^{_TAG_DELIMITERS}]))([^{_TAG_DELIMITERS}]++)")


def lines(text: str) -> Iterator[re.Match[str]]:
    """Yield a text's lines with their line ends."""
    return _LINES.finditer(text)


def headings(body: str) -> Iterator[tuple[int, int, int, str]]:
    """Yield each heading with ``#`` outside code as (start, end of its line, level, text)."""
    if "#" not in body:
        return
    blocks = _markdown(body).blocks
    for start, number, _ in blocks.headings:
        end = blocks.line_starts[number + 1] if number + 1 < len(blocks.line_starts) else len(body)
        level, title = parse_heading(body[start:end])
        if level:
            yield start, end, level, title


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
    """Return a text of the same length with spaces in place of code and math.

    Positions found in it are valid in the text itself.
    """
    found = _markdown(text)
    return masked(text, [*_code_spans(found), *found.inline.code])


def replace_outside_code(
    pattern: re.Pattern[str], written: Callable[[re.Match[str]], str], text: str
) -> str:
    """Return a text with other text in place of each match of a pattern that is not in code."""
    if pattern.search(text) is None:
        return text
    pieces: list[str] = []
    done = 0
    for found in pattern.finditer(mask_code(text)):
        match = pattern.match(text, found.start())  # which may have code in it
        if match is not None and match.start() >= done:
            pieces += (text[done : match.start()], written(match))
            done = match.end()
    return "".join(pieces) + text[done:]


def _code_spans(found: _Markdown) -> Iterator[Span]:
    """Yield the lines of code blocks."""
    starts = found.blocks.line_starts
    for number, is_code in enumerate(found.blocks.code_lines):
        if is_code:
            end = starts[number + 1] if number + 1 < len(starts) else len(found.text)
            yield starts[number], end


def mask_comments(text: str) -> str:
    """Return a text of the same length with spaces in place of Obsidian's and HTML's comments."""
    if "%%" not in text and "<!--" not in text:
        return text
    return masked(text, _markdown(text).inline.comments)


def lines_with_code(text: str) -> Iterator[tuple[re.Match[str], bool]]:
    """Yield a text's lines, each with whether it belongs to a fenced or indented code block."""
    code = _markdown(text).blocks.code_lines
    return ((line, bool(is_code)) for line, is_code in zip(lines(text), code, strict=True))


def tasks(text: str) -> Iterator[int]:
    """Yield the position of the mark of each task, the character between its brackets."""
    if "[" not in text:
        return
    found = _markdown(text)
    is_commented = bool(found.blocks.tasks) and "%%" in text
    visible = masked(text, found.inline.comments) if is_commented else text
    for place in found.blocks.tasks:
        if visible[place - 1] == "[":
            yield place


def tags(text: str) -> list[re.Match[str]]:
    """Return the matches of tags in a text, by Obsidian's rules; group 1 is a tag without its #."""
    if _MAYBE_TAG.search(text) is None:
        return []
    found = _markdown(text)
    shown = masked(found.blocks.flat, found.inline.comments)
    return list(_TAG.finditer(masked(shown, found.inline.hidden, "`")))  # which ends a tag


def has_conflict_markers(text: str) -> bool:
    """Return whether a text has git conflict markers that are not an example in code."""
    if _BEGIN not in text:
        return False
    remaining = iter((_BEGIN, _MIDDLE, _END))
    marker = next(remaining)
    for match, is_code in lines_with_code(text):
        line = match[0].rstrip("\r\n") + " "  # so that a marker without a label is matched too
        if line.startswith(marker) and not (is_code and marker == _BEGIN):
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
