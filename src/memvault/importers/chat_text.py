"""Convert messages of chat programs to markdown that is safe below a heading."""

from __future__ import annotations

import re

from memvault.importers import plain_text
from memvault.lazy_pattern import lazy_pattern
from memvault.vault import markdown

_OPENING = lazy_pattern(r"(`{3,}+)(?!.*`)|(~{3,}+)")
_PREFIX = lazy_pattern(r"[ \t>]*+(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)*+[ \t>]*+")
_INDENTED = ("    ", "\t")
_HEADING = lazy_pattern(r"( {0,3})(#{1,6})(?=[ \t]|\Z)")
_UNDERLINE = lazy_pattern(r" {0,3}(=+|-+)[ \t]*\Z")
_NO_PARAGRAPH = lazy_pattern(r"[ \t]*+(?:[-*+>#|<]|\d{1,9}[.)]|\Z)")
_SIGNS_OF_ANY = (
    r"(?<![^\s>])#(?=\d*+[^\W\d])"  # a tag
    r"|%%"  # an Obsidian comment
    r"|(?<!\\)(?P<slashes>\\*+)(?:"
    r"\[\[(?P<link>[^\[\]]*\]\]\()?|"  # a wikilink; or a link whose label is in brackets
)
_SIGNS = lazy_pattern(  # in markdown: also unclosed HTML
    _SIGNS_OF_ANY + r"<(?=!--|\?|![A-Za-z\[]|/?(?:script|pre|style|textarea)\b))", re.IGNORECASE
)
_PLAIN_SIGNS = lazy_pattern(  # in plain text: also any HTML tag, and backslashes before punctuation
    _SIGNS_OF_ANY + r"<(?=[A-Za-z/!?])(?!(?:https?|mailto):)|(?<=\\)(?=<))"
)
_RESERVED = 2
"""Number of heading levels reserved for the title and the speakers, above headings in messages.
"""
_NEXT = "\n\n## Next"


def fenced(text: str, language: str = "") -> str:
    """Return text as a code block, without surrounding blank lines."""
    return plain_text.fenced(text.replace("\r\n", "\n").strip("\n"), language)


def message(text: str, is_plain: bool = False) -> str:
    """Return a message as markdown that cannot affect the surrounding text.

    Headings are moved to lower levels, code blocks are closed, and tags, wikilinks and comments
    outside of code are escaped. In plain text typed by a person, only code is treated as markup.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n").strip("\n")
    scan = _Scan(is_plain)
    converted = "\n".join(scan.lines(text.split("\n")))
    if scan.is_open:
        converted = markdown.replace_outside_code(scan.signs, scan.escaped_later, converted)
    if scan.is_sure or _ends_and_has_no_upper_heading(converted):
        return converted
    return fenced(text)


def _ends_and_has_no_upper_heading(text: str) -> bool:
    """Return whether markdown has no high-level heading and leaves no block open."""
    found_headings = list(markdown.headings(text + _NEXT))
    is_next = bool(found_headings) and found_headings[-1][0] > len(text)
    return is_next and all(level > _RESERVED for _, _, level, _ in found_headings[:-1])


class _Scan:
    """Reads a message line by line; ``is_sure`` is set if the result is known to be safe."""

    def __init__(self, is_plain: bool) -> None:
        self._is_plain = is_plain
        self._fence = ""
        self._done: list[str] = []
        self._paragraph = 0
        """Number of lines of the current paragraph."""
        self.is_sure = True
        self.is_open = False
        """Whether code must be located in the whole text to decide which characters to escape."""
        self.signs = _PLAIN_SIGNS if is_plain else _SIGNS

    def lines(self, lines: list[str]) -> list[str]:
        """Return the escaped lines, closing an open code block."""
        prefix = ""
        for line in lines:
            if self._fence:
                self._paragraph = 0
                bare = line.strip(" \t>" if ">" in prefix else " \t")
                is_indented = not prefix and line.startswith(_INDENTED)
                if (
                    bare.startswith(self._fence)
                    and not bare.strip(self._fence[0])
                    and not is_indented
                ):
                    self._fence = ""
            elif ("```" in line or "~~~" in line) and (opening := self._opening(line)) is not None:
                prefix, self._fence = opening
                self.is_sure = self.is_sure and not prefix
            elif line.startswith(_INDENTED):
                self._paragraph += bool(self._paragraph)
                self.is_open |= self.signs.search(line) is not None
            else:
                line = self._outside(line)
            self._done.append(line)
        if self._fence:
            self._done.append(f"{re.sub('[^ >]', ' ', prefix)}{self._fence}")
        return self._done

    @staticmethod
    def _opening(line: str) -> tuple[str, str] | None:
        """Return the prefix and the fence if a line starts a code block, else None."""
        prefix = _PREFIX.match(line)
        assert prefix is not None  # the pattern also matches an empty string
        fence = _OPENING.match(line, prefix.end())
        return None if fence is None else (prefix[0], fence[1] or fence[2])

    def _outside(self, line: str) -> str:
        if line.lstrip().startswith("<"):
            self.is_sure = False
        heading = _HEADING.match(line)
        if heading is not None:
            self._paragraph = 0
            rest = self._signs(line[heading.end() :])
            if self._is_plain:
                return f"{heading[1]}\\{heading[2]}{rest}"
            return f"{'#' * min(6, len(heading[2]) + _RESERVED)}{rest}"
        line = self._signs(line)
        underline = _UNDERLINE.match(line) if self._paragraph else None
        if underline is None:
            self._paragraph = 0 if _NO_PARAGRAPH.match(line) else self._paragraph + 1
            return line
        is_heading = self._paragraph == 1 and not self._is_plain
        self._paragraph = 0
        if not is_heading:
            return f"\\{line.strip()}"
        level = _RESERVED + (1 if underline[1][0] == "=" else 2)
        self._done[-1] = f"{'#' * level} {self._done[-1].strip()}"
        return ""

    def _signs(self, line: str) -> str:
        if "#" in line or "[[" in line or "%%" in line or "<" in line:
            self.is_open |= "`" in line and self.signs.search(line) is not None
            line = markdown.replace_outside_code(self.signs, self._escaped, line)
        return line

    def _escaped(self, match: re.Match[str]) -> str:
        slashes = match["slashes"] or ""
        if self._is_plain:
            slashes *= 2
        elif len(slashes) % 2:  # it is already escaped
            return match[0]
        if match["link"]:
            return f"{slashes}[\\[{match['link'].removesuffix(']](')}\\]]("
        sign = match[0][len(match["slashes"] or "") :]
        if sign == "%%":
            return "%\\%"
        return f"{slashes}\\{sign}" if sign else slashes

    def escaped_later(self, match: re.Match[str]) -> str:
        """Escape a character, unless the pass over the lines has escaped it."""
        begin = match.string.rfind("\n", 0, match.start()) + 1
        is_escaped = len(match["slashes"] or "") % 2 == 1 or match[0].endswith("\\")
        if is_escaped and not match.string.startswith(_INDENTED, begin):
            return match[0]
        return self._escaped(match)
