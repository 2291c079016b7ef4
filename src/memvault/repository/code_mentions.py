"""Find the code that a text mentions: paths, lines and symbols of a repository."""

from __future__ import annotations

import posixpath
import re
import time
from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING

from memvault.lazy_pattern import lazy_pattern
from memvault.repository.citations import MAX_CITATIONS, MAX_LINES, Citation
from memvault.repository.code_files import CodeFiles

if TYPE_CHECKING:
    from memvault.repository.code_history import CodeHistory

_MAX_TEXT = 100_000
"""Maximum number of characters of a text to read."""
_MAX_PATHS, _MAX_SYMBOLS = 200, 100
_SECONDS = 1.0
"""Time limit in seconds for finding the mentioned lines in their files."""
_PATH = lazy_pattern(
    r"(?<![\w/.:@~+-])(?P<path>/?(?:[\w.@+-]+/)*[\w.@+-]*\w)"
    r"(?:(?:#L|:|`?,? \(?lines? )(?P<line>[1-9]\d{0,6})(?:[-–]L?(?P<end>[1-9]\d{0,6}))?(?!\w)"
    r"|(?:#|::)(?P<symbol>[A-Za-z_$][\w$]*(?:(?:\.|::)[A-Za-z_$][\w$]*)*))?"
)
"""Matches a possible path, with lines or a symbol."""
_HAS_SUFFIX = lazy_pattern(r"[^.].*\.[A-Za-z]\w{0,9}")
_SYMBOL = lazy_pattern(
    r"(?<![\w$./@-])(?P<code>`)?"
    r"(?P<name>[A-Za-z_$][\w$]*(?:(?:\.|::|#)[A-Za-z_$][\w$]*)*)(?P<call>\()?"
)
_CODE_BLOCK = lazy_pattern(r"^ {0,3}(```|~~~).*?(?:^ {0,3}\1|\Z)", re.DOTALL | re.MULTILINE)
_IDENTIFIER = lazy_pattern(
    r"[^\W_]*_\w+|[a-z][^\WA-Z]*[A-Z]\w*|[A-Z]+[a-z0-9]+[A-Z]\w*|[A-Z][A-Z0-9]{2,}"
)
"""Matches names that are hardly words of a language: snake_case, camelCase and capitals."""


def mentioned_code(
    text: str, folder: str, files: CodeFiles, history: Callable[[], CodeHistory | None]
) -> list[Citation]:
    """Return citations of the code that a text mentions, with digests.

    ``folder`` is the folder in the vault from which relative paths start. A symbol counts if a
    mentioned file defines it or, if git may run, exactly one file of the repository does. A file
    is cited as a whole only if no code in it is cited.
    """
    mentions = _Mentions(text[:_MAX_TEXT], folder, files)
    unknown = [symbol for symbol in mentions.symbols if not mentions.add_symbol(symbol)]
    # A name such as GitHub is not worth a search.
    unknown = [symbol for symbol in unknown if "_" in symbol or mentions.symbols[symbol]]
    if unknown and (opened := history()) is not None:
        others = opened.files_with(list(map(_last, unknown)))
        for symbol in unknown:
            defining = [path for path in others if mentions.citation(path, symbol)]
            if len(defining) == 1:
                mentions.add(mentions.citation(defining[0], symbol))
    return mentions.citations()


class _Mentions:
    """The paths, lines and symbols in one text."""

    def __init__(self, text: str, folder: str, files: CodeFiles) -> None:
        self._files = files
        self._folder = folder
        self._paths: dict[str, None] = {}
        self._lines: list[Citation] = []
        self._cited: dict[str, Citation] = {}
        rest = text
        for match in islice(filter(_may_be_path, _PATH.finditer(text)), _MAX_PATHS):
            path = self._resolve(match["path"])
            if not path:
                continue
            self._paths[path] = None
            first = int(match["line"] or 0)
            last = min(max(int(match["end"] or 0), first), first + MAX_LINES - 1)
            if first:
                self._lines.append(Citation(path, "", first, last))
            if match["symbol"]:
                self.add(self.citation(path, match["symbol"]))
            rest = f"{rest[: match.start()]}{' ' * len(match[0])}{rest[match.end() :]}"
        self.symbols: dict[str, bool] = {}
        """The names in the text outside of code blocks, and whether each is marked as code."""
        for match in _SYMBOL.finditer(_CODE_BLOCK.sub("", rest)):
            is_marked = bool(match["code"] or match["call"])
            is_name = is_marked or _IDENTIFIER.fullmatch(_last(match["name"]))
            if is_name and len(self.symbols) < _MAX_SYMBOLS:
                name = match["name"].replace("::", ".").replace("#", ".")
                self.symbols[name] = is_marked or self.symbols.get(name, False)

    def add(self, citation: Citation | None) -> None:
        """Add a citation, unless it is None."""
        if citation is not None:
            self._cited[citation.name] = citation

    def add_symbol(self, symbol: str) -> bool:
        """Cite a symbol in each mentioned file that defines it; return whether any does."""
        defined = list(filter(None, (self.citation(path, symbol) for path in self._paths)))
        for citation in defined:
            self.add(citation)
        return bool(defined)

    def citation(self, path: str, symbol: str) -> Citation | None:
        """Return the citation of a symbol that a file defines, possibly without its prefix."""
        if not self._files.is_code(path) or not self._files.has_word(path, _last(symbol)):
            return None
        lines = self._files.lines(path)
        for name in dict.fromkeys((symbol.replace("::", "."), _last(symbol))):
            if (anchored := Citation(path, name).anchored_in(lines)) is not None:
                return anchored
        return None

    def citations(self) -> list[Citation]:
        """Return all citations, without lines that only begin the definition of a cited symbol.

        Lines that are not found in time are left out.
        """
        until = time.monotonic() + _SECONDS
        for lines in islice(dict.fromkeys(self._lines), MAX_CITATIONS):
            if time.monotonic() > until:
                break
            anchored = lines.anchored_in(self._files.lines(lines.path))
            if anchored is not None and not self._is_defined_at(anchored.path, anchored.line):
                self.add(anchored)
        inside = {citation.path for citation in self._cited.values()}
        for path in self._paths:
            if path not in inside:
                self.add(Citation(path).anchored_in(self._files.lines(path)))
        return list(self._cited.values())[:MAX_CITATIONS]

    def _is_defined_at(self, path: str, line: int) -> bool:
        cited = [entry for entry in self._cited.values() if entry.symbol and entry.path == path]
        return any(entry.place_in(self._files.lines(path)) == line for entry in cited)

    def _resolve(self, mention: str) -> str:
        """Return the file that a path in the text refers to, or an empty string.

        The path may start at the repository's top folder, the memory or the vault, or be the end of
        exactly one path.
        """
        files, prefix = self._files, self._files.prefix
        if mention.startswith("/"):
            mention = mention.removeprefix(f"{files.top}/")
        bases = ("", f"{prefix}{self._folder}", prefix)
        for path in dict.fromkeys(posixpath.normpath(posixpath.join(b, mention)) for b in bases):
            if files.is_code(path):
                return path
        ending = files.ending_with(mention) if _HAS_SUFFIX.fullmatch(mention) else []
        return ending[0] if len(ending) == 1 and files.is_code(ending[0]) else ""


def _may_be_path(match: re.Match[str]) -> bool:
    return "/" in match["path"] or "." in match["path"][1:]


def _last(symbol: str) -> str:
    return re.split(r"[.:#]", symbol)[-1]
