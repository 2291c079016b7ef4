"""Citations of code in the headers of memories.

A citation is an entry of the header's ``cites``: a path from the repository's top folder, with a
symbol or lines, and the digest of the cited code, such as ``src/parser.py#parse_line@1a2b3c4d5e6f``
or ``src/parser.py:2@1a2b3c4d5e6f``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from memvault.lazy_pattern import lazy_pattern
from memvault.named_tuple import NamedTuple
from memvault.repository import definitions
from memvault.repository.code_files import is_plain_path

if TYPE_CHECKING:
    from memvault.results import CitedCode

KEY = "cites"
"""The header key of citations."""
MAX_CITATIONS = 20
"""Maximum number of citations of a memory to write or to check."""
MAX_LINES = 50
"""Maximum number of lines in a citation."""
_EXTENDED = 3
"""Maximum number of lines added to cited lines that occur repeatedly in their file."""
_FORM = lazy_pattern(
    r"(?P<path>[^\0\r\n]+?)(?:(?:#L|:)(?P<line>[1-9]\d{0,6})(?:-L?(?P<end>[1-9]\d{0,6}))?"
    r"|#(?P<symbol>[A-Za-z_$][\w$.]*))?"
    rf"(?:@(?P<digest>[0-9a-f]{{{definitions.DIGEST_LENGTH}}}))?"
)


class Citation(NamedTuple):
    """A file of the repository, and the symbol or lines in it that a memory cites.

    ``digest`` is empty if a person wrote the citation without one.
    """

    path: str
    symbol: str = ""
    line: int = 0
    end: int = 0
    digest: str = ""

    @property
    def name(self) -> str:
        """The citation without its digest."""
        if self.symbol:
            return f"{self.path}#{self.symbol}"
        lines = f":{self.line}" if self.line else ""
        return f"{self.path}{lines}{f'-{self.end}' if self.end > self.line else ''}"

    def __str__(self) -> str:
        """Return the citation as it is written in a header."""
        return f"{self.name}@{self.digest}" if self.digest else self.name

    def place_in(self, lines: Sequence[str] | None, until: float = math.inf) -> int | None:
        """Return the line number of the cited code in a file's lines.

        It is 0 if the code has changed, and None if its symbol is not defined.

        Raises:
            TimedOut: the monotonic time ``until`` has passed.
        """
        definitions.require_time(until)
        if not self.symbol and not self.line:
            return 1
        if lines is None:
            return 0
        if self.symbol:
            defined = definitions.definitions(lines, self.symbol)
            same = (entry.line for entry in defined if self.digest in ("", entry.digest))
            return next(same, 0) if defined else None
        last = max(self.end, self.line)
        if not self.digest:
            return self.line if last <= len(lines) else 0
        if definitions.line_digest(lines[self.line - 1 : last]) == self.digest:
            return self.line
        places = definitions.places_of(lines, self.digest, last - self.line + 1, until)
        return min(places, key=lambda number: abs(number - self.line), default=0)

    def anchored_in(self, lines: Sequence[str] | None) -> Citation | None:
        """Return the citation with the digest of the code in a file, or None.

        Cited lines are extended until they occur only once.
        """
        if self.symbol:
            defined = definitions.definitions(lines or (), self.symbol)
            is_clear = len(defined) == 1 and defined[0].digest
            return self._replace(digest=defined[0].digest) if is_clear else None
        if not self.line:
            return self._replace(digest=definitions.line_digest(lines or ()))
        first = max(self.end, self.line)
        lines = lines or ()
        for last in range(first, min(first + _EXTENDED, len(lines)) + 1):
            digest = definitions.line_digest(lines[self.line - 1 : last])
            if digest and not definitions.is_repeated(lines, self.line - 1, last):
                return self._replace(end=last, digest=digest)
        return None


def parse(value: object) -> Citation | None:
    """Return an entry of ``cites``; None if it is not a citation of code in the repository."""
    match = _FORM.fullmatch(value) if isinstance(value, str) else None
    if match is None or not is_plain_path(match["path"]):
        return None
    line = int(match["line"] or 0)
    end = max(int(match["end"] or 0), line)
    if end - line >= MAX_LINES:
        return None
    return Citation(match["path"], match["symbol"] or "", line, end, match["digest"] or "")


def entries(metadata: Mapping[str, Any]) -> list[object]:
    """Return the entries of ``cites`` in a header."""
    value = metadata.get(KEY)
    return value if isinstance(value, list) else [value] if value else []


def cited(metadata: Mapping[str, Any]) -> list[Citation]:
    """Return the citations in a header, up to the maximum number."""
    return [*islice(filter(None, map(parse, entries(metadata))), MAX_CITATIONS)]


def is_outdated(entry: CitedCode) -> bool:
    """Return whether cited code has changed or no longer exists."""
    return entry["state"] in ("changed", "gone")


def describe(entry: CitedCode) -> str:
    """Describe the state of cited code to users, such as ``src/a.py:2 changed in 1a2b3c4``."""
    name, moved, since = _name(entry), entry.get("movedTo"), entry.get("since")
    if entry["state"] == "same":
        return f"{name} is unchanged"
    if entry["state"] == "moved":
        return f"{name} is now in {moved}"
    if entry["state"] == "gone":
        return f"{name} was removed in {since}" if since else f"{name} no longer exists"
    name = f"{name}, now in {moved}," if moved else name
    return f"{name} changed in {since}" if since else f"{name} has changed"


def warning(cited: Sequence[CitedCode]) -> str:
    """Return a note for a prompt if a memory's code has changed or moved; empty if it has not."""
    entry = next(filter(is_outdated, cited), None)
    if entry is not None and "since" in entry:
        verb = "removed" if entry["state"] == "gone" else "changed"
        return f"was true until {entry['since']} {verb} {_name(entry)}"
    if entry is not None:
        return f"outdated: {describe(entry)}"
    return next((describe(entry) for entry in cited if entry["state"] == "moved"), "")


def _name(entry: CitedCode) -> str:
    return Citation(entry["path"], entry.get("symbol", ""), entry.get("line", 0)).name
