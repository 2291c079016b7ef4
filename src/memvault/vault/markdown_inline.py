"""Find links, code, comments and math in the blocks of a markdown text, with positions.

One linear pass over the inline content. Other packages call the functions of ``markdown``.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, lru_cache
from typing import Literal

from memvault.lazy_pattern import lazy_pattern
from memvault.named_tuple import NamedTuple
from memvault.vault.markdown_blocks import (
    CLOSE_TAG,
    OPEN_TAG,
    PARENTHESES,
    TITLE,
    Blocks,
    Definition,
    Span,
    masked,
    scan_blocks,
)

LinkForm = Literal["wikilink", "inline", "reference", "definition", "html"]
"""The form of a link: ``[[a]]``, ``[a](b)``, ``[a][b]``, an unused ``[b]: c``, or an HTML tag."""
_EXTERNAL = lazy_pattern(r"[A-Za-z][\w+.-]*+:|//|#")


_SIZE = lazy_pattern(r"(?:\A|\\?\|)[ \t]*([0-9]{1,5})(?:x([0-9]{1,5}))?[ \t]*\Z")
"""Matches an embed's size at the end of its label, as Obsidian writes it."""


class Link(NamedTuple):
    """A link in a document.

    ``target`` is the name it links to, as expected by ``recall.resolve.linked``; ``heading`` is the
    heading, or the block with its ``^``; ``shown`` is the label, if any. ``span`` is the position
    of the whole link. ``target_span`` is the position of the target as written (markdown writes
    ``%20`` for a space), which may be in a definition that several links share.
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
        """Whether it is a wikilink such as ``[[target]]``."""
        return self.form == "wikilink"

    @property
    def label(self) -> str:
        """The label, or else the target and heading as Obsidian shows them: ``Note > Heading``.

        The label of an embed does not include its size.
        """
        parts = (self.target, *map(str.strip, self.heading.split("#")))
        shown = _SIZE.sub("", self.shown) if self.is_embed else self.shown
        return shown or " > ".join(filter(None, parts))

    @property
    def size(self) -> tuple[str, str]:
        """The width and height of an embed in pixels, as in ``![[a.png|100x50]]``, or ''."""
        size = _SIZE.search(self.shown) if self.is_embed else None
        return (size[1], size[2] or "") if size else ("", "")

    def path_beside(self, path: str) -> str:
        """Return the path that the link refers to from the file at ``path``.

        It is empty for a wikilink, unless that begins with ``./`` or ``../``. The path of a note
        may lack ``.md``.
        """
        is_named = self.is_wikilink and not self.target.startswith(("./", "../"))
        return "" if is_named else path_beside(self.target, path)


def path_beside(target: str, path: str) -> str:
    """Return the path that a markdown link's target refers to in the file at a path."""
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
    """Return a relative path formatted as a link target."""
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
    """Return text with changed link targets; links may share a definition."""
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
    """Yield the links that moving a file would break, each with its new target.

    These are relative links to existing paths in the vault, and to paths outside of it. A link from
    the file to itself gets its new path.
    """
    folder = posixpath.dirname(new)
    if folder == posixpath.dirname(old):
        return
    for link in parsed(text).inline.links:
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
    rf"(?:[ \t\r\n]++{TITLE})?+[ \t\r\n]*+\)",
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


class InlineContent:
    """The inline content of a document, found in one pass over its segments.

    ``inner_links`` are the wikilinks within the document, such as ``[[#Heading]]``.
    ``whole_links`` contains all links, including links to websites; ``code`` contains code spans
    and math; ``hidden`` contains the spans that cannot contain tags: code, HTML, and the addresses
    and names of links.
    """

    def __init__(self, text: str, blocks: Blocks) -> None:
        self.text = text
        self.flat = blocks.flat
        self.links: list[Link] = []
        self.inner_links: list[Link] = []
        self.whole_links: list[Span] = []
        self.code: list[Span] = []
        self.hidden: list[Span] = []
        self.comments: list[Span] = [*blocks.comments]
        self._definitions: dict[str, Definition] = {}
        for definition in blocks.definitions:
            self._definitions.setdefault(_label_key(definition.label), definition)
        self._used: set[int] = set()
        self._brackets: list[tuple[int, int, bool]] = []
        """For each open bracket: its start, its content's start, and whether it is an image's."""
        self._inactive = 0
        """The number of outermost brackets that can still become an image but not a link."""
        self._ends: dict[str, int] = {}
        self._code_spans = _CodeSpans("", 0, 0)
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
            position = definition.span[0]
            if position not in self._used and visible[position] == "[":
                self._add_link("definition", definition.span, definition.label, False, definition)
        self.links.sort(key=lambda link: link.span)

    def _segment(self, number: int, start: int, token: re.Pattern[str]) -> int:
        """Parse a segment; return its end, or the end of a comment that begins in it."""
        flat, end = self.flat, self._segments[number][1]
        self._brackets, self._inactive, self._ends = [], 0, {}
        while match := token.search(flat, start, end):
            sign, position = match[0], match.start()
            start = match.end()
            first = sign[0]
            if first == "`":
                if behind := self._code_span_end(match, end):
                    start = behind
                    self._code(position, start)
            elif first == "]":
                start = self._close_bracket(position, end)
            elif first in "[!":
                start = self._open_bracket(match, end)
            elif first == "<":
                start = self._angle(position, end)
            elif first == "$":
                start = self._math(match, end)
            elif first == "%" and (behind := self._comment_end(number, start)):
                start = behind
                self.comments.append((position, start))
        return max(start, end)

    def _comment_end(self, number: int, position: int) -> int:
        """Return the end of an Obsidian comment opened before a position in a segment, or 0.

        Delimiters in code do not end it, and it may end in another segment.
        """
        if position > self._last_sign:
            return 0
        for following in range(number, len(self._segments)):
            start, end = self._segments[following]
            start = max(start, position)
            while match := _COMMENT_END.search(self.flat, start, end):
                start = match.end()
                if match[0] == "%%":
                    return start
                start = self._code_span_end(match, end) or start
        self._last_sign = position
        return 0

    def _code_span_end(self, run: re.Match[str], end: int) -> int:
        """Return the end of the code span that a backtick run opens, or 0 if it is not closed.

        The positions of the runs in a segment with this end are found only once.
        """
        if self._code_spans.stop != end:
            self._code_spans = _CodeSpans(self.flat, run.start(), end)
        return self._code_spans.end(run)

    def _code(self, start: int, end: int) -> None:
        self.code.append((start, end))
        self.hidden.append((start, end))

    def _find(self, sign: str, start: int, end: int) -> int:
        """Return the position of a delimiter in this segment, or -1.

        All failed searches together take linear time.
        """
        if start >= self._ends.get(sign, end):
            return -1
        position = self.flat.find(sign, start, end)
        if position < 0:
            self._ends[sign] = start
        return position

    def _math(self, match: re.Match[str], end: int) -> int:
        position, start = match.span()
        if match[0] == "$$":
            closing = self._find("$$", start, end)
            start = closing + 2 if closing >= 0 else start
        elif math := _MATH.match(self.flat, position, end):
            start = math.end()
        if start > match.end():
            self._code(position, start)
        return start

    def _angle(self, position: int, end: int) -> int:
        """Read an autolink, an HTML tag or a comment; return where it ends."""
        if match := _AUTOLINK.match(self.flat, position, end):
            self.whole_links.append(match.span())
            self.hidden.append(match.span())
            return match.end()
        if match := _TAG_IN_TEXT.match(self.flat, position, end):
            self.hidden.append(match.span())
            self._tag(position, match.end())
            return match.end()
        for opening, closing in _MARKUP:
            if self.flat.startswith(opening, position, end):
                if opening == "<!" and not self.flat[position + 2 : position + 3].isalpha():
                    break
                closing_at = self._find(closing, position + len(opening), end)
                if closing_at >= 0:
                    kind = self.comments if opening == "<!--" else self.hidden
                    kind.append((position, closing_at + len(closing)))
                    return closing_at + len(closing)
                break
        return position + 1

    def _tags(self, start: int, end: int) -> None:
        """Add the links in the tags of an HTML block."""
        position = self.text.find("<", start, end)
        while position >= 0:
            behind = position + 1
            if self.text.startswith("<!--", position, end):
                closing = self.text.find("-->", position, end)
                behind = closing + 3 if closing >= 0 else end
            elif match := _TAG_IN_TEXT.match(self.text, position, end):
                self._tag(position, match.end())
                behind = match.end()
            position = self.text.find("<", behind, end)

    def _tag(self, start: int, end: int) -> None:
        address = _ADDRESS.match(self.text, start, end)
        if address is None:
            return
        group = next(name for name in ("double", "single", "bare") if address[name] is not None)
        is_embed = address["tag"].lower() in _EMBEDDING_TAGS
        self._add("html", (start, end), "", is_embed, address[group], address.span(group))

    def _open_bracket(self, match: re.Match[str], end: int) -> int:
        position, content = match.span()
        is_image = match[0] == "!["
        wikilink = _WIKILINK.match(self.flat, content - 1, end)
        link = _parse_wikilink(wikilink, is_image) if wikilink else None
        if link is None:
            self._brackets.append((position, content, is_image))
            return content
        span = (position, link.span[1])
        (self.links if link.target else self.inner_links).append(link._replace(span=span))
        self.whole_links.append(span)
        self.hidden.append(span)
        if not is_image:
            self._inactive = len(self._brackets)
        return span[1]

    def _close_bracket(self, position: int, end: int) -> int:
        """Close the link or image that ends at a closing bracket, if any; return where it ends."""
        behind = position + 1
        if not self._brackets:
            return behind
        start, content, is_image = self._brackets.pop()
        is_inactive = len(self._brackets) < self._inactive
        self._inactive = min(self._inactive, len(self._brackets))
        if is_inactive and not is_image:
            return behind
        shown = self.text[content:position]
        if match := _DESTINATION.match(self.flat, behind, end):
            group = "bracketed" if match["bracketed"] is not None else "bare"
            span = (start, match.end())
            if match[group]:
                written = match.span(group)
                self._add("inline", span, shown, is_image, match[group], written)
        else:
            definition, stop = self._definition(content, position, end)
            if definition is None:
                return behind
            span = (start, stop)
            self._used.add(definition.span[0])
            self._add_link("reference", span, shown, is_image, definition)
        self.whole_links.append(span)
        self.hidden.append((behind, span[1]))
        if not is_image:
            self._inactive = len(self._brackets)
        return span[1]

    def _definition(self, start: int, position: int, end: int) -> tuple[Definition | None, int]:
        """Return the definition that a reference uses, and the end of the reference."""
        if not self._definitions:
            return None, 0
        behind = position + 1
        label = self.flat[start:position] if position - start <= _MAX_LABEL else ""
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
        """Add a link other than a wikilink, if it leads to a file."""
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
    """The positions of backtick runs in part of the text, by length."""

    def __init__(self, text: str, start: int, end: int) -> None:
        self.stop = end
        self._places: dict[int, list[int]] = {}
        for run in _TICKS.finditer(text, start, end):
            self._places.setdefault(run.end() - run.start(), []).append(run.start())

    def end(self, run: re.Match[str]) -> int:
        """Return the end of the code span that a backtick run opens, or 0 if it is not closed."""
        from bisect import bisect_right

        positions = self._places.get(len(run[0]), [])
        number = bisect_right(positions, run.start())
        return positions[number] + len(run[0]) if number < len(positions) else 0


def _label_key(label: str) -> str:
    return " ".join(label.split()).casefold()


def _unescaped(written: str, form: LinkForm) -> str:
    """Return a path in a link with its escapes decoded."""
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
    """Parse a wikilink, without a target if it is within the text; return None if invalid."""
    written, bar, shown = match[1].partition("|")
    written = written.removesuffix("\\") if bar else written  # Tables require an escaped bar.
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


class ParsedMarkdown:
    """A parsed text; its inline content is parsed when first used."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.blocks = scan_blocks(text)

    @cached_property
    def inline(self) -> InlineContent:
        """The inline content."""
        return InlineContent(self.text, self.blocks)


@lru_cache(maxsize=1)  # One note's features parse the same text several times.
def parsed(text: str) -> ParsedMarkdown:
    """Parse text."""
    return ParsedMarkdown(text)
