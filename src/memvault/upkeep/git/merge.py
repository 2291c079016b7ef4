"""Three versions of a file put together: the header by key, the text as git does it.

Where both sides added to the end of a text, both additions stay, as if one had
come after the other.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from memvault.errors import MemvaultError
from memvault.upkeep.git import header
from memvault.upkeep.git.program import Git
from memvault.vault import atomic, layout
from memvault.vault.codec import DecodedText, decode
from memvault.vault.frontmatter import FrontMatter, patch_header, split_front_matter
from memvault.vault.plain_yaml import parse_header

_LONG = 40
_MARKS = tuple(mark * _LONG for mark in "<|=>")


class MergedFile(NamedTuple):
    """A file put together, and ``key: value`` of what its header says no more."""

    data: bytes
    dropped_values: list[str]


class FileVersion(NamedTuple):
    """One version of a file: how its bytes are spelled, its parts, its header's values."""

    spelling: DecodedText
    parts: FrontMatter
    values: Mapping[str, Any]

    @property
    def own_id(self) -> str:
        """The memId that the header gives; empty where it gives none."""
        own = self.values.get("id")
        return own if isinstance(own, str) and layout.is_mem_id(own) else ""


def version(data: bytes) -> FileVersion | None:
    """Read one version of a file; None where it is no text or its header is broken."""
    spelling = decode(data)
    if spelling.encoding == "binary":
        return None
    parts = split_front_matter(spelling.text)
    try:
        return FileVersion(spelling, parts, parse_header(parts.header))
    except ValueError:
        return None


class MemoryMerger:
    """Puts versions together with git's help; ``scratch`` is a folder for its short-lived files."""

    def __init__(self, git: Git, scratch: Path) -> None:
        self._git = git
        self._scratch = scratch

    def file(self, base: bytes | None, ours: bytes, theirs: bytes) -> MergedFile | None:
        """Put three versions of a memory together; None where both sides changed the same text.

        Without a base both sides are new.
        """
        if ours == theirs or theirs == base:
            return MergedFile(ours, [])
        if ours == base:
            return MergedFile(theirs, [])
        old, here, there = (version(data) for data in (base or b"", ours, theirs))
        if old is None or here is None or there is None:
            return None
        body = self.body(old.parts.body, here.parts.body, there.parts.body)
        return None if body is None else self.with_body(old, here, there, body)

    def with_body(
        self, old: FileVersion, here: FileVersion, there: FileVersion, body: str
    ) -> MergedFile | None:
        """Put three headers together above a body; None where they cannot be patched."""
        found = header.merge_headers(old.values, here.values, there.values)
        frame = here.parts if here.parts.before else there.parts
        try:
            lines = self._lines(old, here, there, found.values)
            text = f"{frame.before}{lines}{frame.after}{body}"
            return MergedFile(here.spelling.encode(text), found.dropped_values)
        except (MemvaultError, ValueError):
            return None

    def plain(self, base: bytes, ours: bytes, theirs: bytes) -> bytes | None:
        """Put three versions of any text together as git does; None where that is a conflict."""
        if ours == theirs or theirs == base:
            return ours
        return theirs if ours == base else self.marked((base, ours, theirs))[0]

    def body(self, base: str, ours: str, theirs: str) -> str | None:
        """Put three texts together; None where both sides changed the same lines."""
        if ours == theirs or theirs == base:
            return ours
        if ours == base:
            return theirs
        if _newline(ours) != _newline(theirs):  # one side converted all lines
            unified = (text.replace("\r\n", "\n") for text in (base, ours, theirs))
            found = self.body(*unified)
            return found if found is None else found.replace("\n", _newline(ours))
        merged, _ = self.marked(map(_bytes, (base, ours, theirs)))
        if merged is None:
            return self._both_added(base, ours, theirs)
        return merged.decode("utf-8", "surrogatepass")

    def _both_added(self, base: str, ours: str, theirs: str) -> str | None:
        """Return texts together whose only conflict is what both added to the end."""
        if not base.strip() or any(m in text for m in _MARKS for text in (base, ours, theirs)):
            return None
        stems = (_bytes(text.rstrip("\r\n") + _newline(base)) for text in (base, ours, theirs))
        merged, marked = self.marked(stems, _LONG)
        text, *rest = marked.decode("utf-8", "surrogatepass").split(_MARKS[0])
        here = ""
        if merged is None:
            if len(rest) != 1:
                return None
            for mark in _MARKS[1:]:
                rest[-1:] = rest[-1].partition(mark)[::2]
            here, old, there, after = (part.partition("\n")[2] for part in rest)
            if (old + after).strip():
                return None
            if not here.strip().startswith(there.strip()):
                here += there
        whole = (text + here).rstrip("\r\n")
        return str(whole + theirs[len(theirs.rstrip("\r\n")) :])

    def marked(self, versions: Iterable[bytes], marks: int = 7) -> tuple[bytes | None, bytes]:
        """Return base, ours and theirs put together, None for a conflict, and with its marks.

        Marks of ``_LONG`` characters have the base's text among them too.
        """
        base, ours, theirs = versions
        with tempfile.TemporaryDirectory(prefix="memvault-", dir=self._scratch) as folder:
            names = []
            for name, data in (("ours", ours), ("base", base), ("theirs", theirs)):
                file = Path(folder, name)
                atomic.write(file, data, durable=False)
                names.append(str(file))
            style = ["--diff3"] if marks == _LONG else []
            words = ("-p", "-q", *style, f"--marker-size={marks}", "-L", "ours", "-L", "base", "-L")
            ran = self._git.run_unchecked("merge-file", *words, "theirs", *names)
        # The code is the number of conflicts; from 128 on, such as for binary files, a failure.
        whole = ran.stdout if ran.code == 0 else None
        return whole, ran.stdout

    def _lines(
        self, old: FileVersion, here: FileVersion, there: FileVersion, values: Mapping[str, Any]
    ) -> str:
        """Return a header's lines with the values, and the comments and order of both sides."""
        newline = here.parts.newline
        before, ours, theirs = (_patched(side, values, newline) for side in (old, here, there))
        if theirs in (ours, before) or here.parts.before != there.parts.before:
            return ours if here.parts.before else theirs
        if ours == before:
            return theirs
        merged, _ = self.marked(map(_bytes, (before, ours, theirs)))
        if merged is not None:
            text = merged.decode("utf-8", "surrogatepass")
            try:
                if parse_header(text) == parse_header(ours):
                    return text
            except ValueError:
                pass
        return ours


def _patched(side: FileVersion, values: Mapping[str, Any], newline: str) -> str:
    gone: dict[str, Any] = {key: None for key in side.values if key not in values}
    changed = {key: value for key, value in values.items() if side.values.get(key) != value}
    return patch_header(side.parts.header, {**gone, **changed}, newline)


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
