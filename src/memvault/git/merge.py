"""Merge three versions of a file: the header by key, and the text by lines, as git does.

If both sides appended to a body, both additions are kept, one after the other.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from memvault.errors import MemvaultError
from memvault.files import atomic
from memvault.git.header_merge import merge_headers
from memvault.named_tuple import NamedTuple
from memvault.repository.program import Git
from memvault.vault import naming
from memvault.vault.decoding import DecodedText, decode
from memvault.vault.front_matter import FrontMatter, split_front_matter
from memvault.vault.header_patch import patch_header
from memvault.vault.header_yaml import parse_header

_LONG = 40
_MARKS = tuple(mark * _LONG for mark in "<|=>")


class MergedFile(NamedTuple):
    """A merged file, and the values dropped from its header as ``key: value``."""

    data: bytes
    dropped_values: list[str]


class FileVersion(NamedTuple):
    """One version of a file: its text, its parsed header and body, and its header values."""

    decoded: DecodedText
    parts: FrontMatter
    values: Mapping[str, Any]

    @property
    def own_id(self) -> str:
        """The memId in the header; empty if it is missing or invalid."""
        mem_id = self.values.get("id")
        return mem_id if isinstance(mem_id, str) and naming.is_mem_id(mem_id) else ""


def parse_version(data: bytes) -> FileVersion | None:
    """Parse one version of a file; return None if it is binary or its header is invalid."""
    decoded = decode(data)
    if decoded.encoding == "binary":
        return None
    parts = split_front_matter(decoded.text)
    try:
        return FileVersion(decoded, parts, parse_header(parts.header))
    except ValueError:
        return None


class MemoryMerger:
    """Merges three versions of a file; runs git with temporary files in the folder ``scratch``."""

    def __init__(self, git: Git, scratch: Path) -> None:
        self._git = git
        self._scratch = scratch

    def file(self, base: bytes | None, ours: bytes, theirs: bytes) -> MergedFile | None:
        """Merge three versions of a memory; return None if both sides changed the same text.

        ``base`` is None if both sides added the file.
        """
        if ours == theirs or theirs == base:
            return MergedFile(ours, [])
        if ours == base:
            return MergedFile(theirs, [])
        old, here, there = (parse_version(data) for data in (base or b"", ours, theirs))
        if old is None or here is None or there is None:
            return None
        body = self.body(old.parts.body, here.parts.body, there.parts.body)
        return None if body is None else self.with_body(old, here, there, body)

    def with_body(
        self, old: FileVersion, here: FileVersion, there: FileVersion, body: str
    ) -> MergedFile | None:
        """Merge three headers and add a body; return None if they cannot be patched."""
        header = merge_headers(old.values, here.values, there.values)
        header_side = here.parts if here.parts.before else there.parts
        try:
            lines = self._lines(old, here, there, header.values)
            text = f"{header_side.before}{lines}{header_side.after}{body}"
            return MergedFile(here.decoded.encode(text), header.dropped_values)
        except (MemvaultError, ValueError):
            return None

    def plain(self, base: bytes, ours: bytes, theirs: bytes) -> bytes | None:
        """Merge three versions of any text file like git does; return None for a conflict."""
        if ours == theirs or theirs == base:
            return ours
        return theirs if ours == base else self.marked((base, ours, theirs))[0]

    def body(self, base: str, ours: str, theirs: str) -> str | None:
        """Merge three versions; return None if both sides changed the same lines."""
        if ours == theirs or theirs == base:
            return ours
        if ours == base:
            return theirs
        if _newline(ours) != _newline(theirs):  # One side converted its line endings.
            unified = (text.replace("\r\n", "\n") for text in (base, ours, theirs))
            merge = self.body(*unified)
            return None if merge is None else merge.replace("\n", _newline(ours))
        merged, _ = self.marked(map(_bytes, (base, ours, theirs)))
        if merged is None:
            return self._both_added(base, ours, theirs)
        return merged.decode("utf-8", "surrogatepass")

    def _both_added(self, base: str, ours: str, theirs: str) -> str | None:
        """Return the merged text if the only conflict is that both sides appended, else None."""
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
        """Return the merge of base, ours and theirs, and the merge with conflict markers.

        The first is None for a conflict. With markers of ``_LONG`` characters the base's
        text is included in the conflicts.
        """
        base, ours, theirs = versions
        with tempfile.TemporaryDirectory(prefix="memvault-", dir=self._scratch) as folder:
            names = []
            for name, data in (("ours", ours), ("base", base), ("theirs", theirs)):
                file = Path(folder, name)
                atomic.write(file, data, durable=False)
                names.append(str(file))
            style = ["--diff3"] if marks == _LONG else []
            args = ("-p", "-q", *style, f"--marker-size={marks}", "-L", "ours", "-L", "base", "-L")
            ran = self._git.run_unchecked("merge-file", *args, "theirs", *names)
        # The exit code is the number of conflicts; 128 or more, as for binary files, is a failure.
        whole = ran.stdout if ran.code == 0 else None
        return whole, ran.stdout

    def _lines(
        self, old: FileVersion, here: FileVersion, there: FileVersion, values: Mapping[str, Any]
    ) -> str:
        """Return merged header lines, keeping comments and order of both sides."""
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
