"""Letters: messages and events as small markdown files, one each, that only ever come and go.

A letter's name begins with the moment it was written, so that names are in
the order of time, and ends at random, so that two machines never choose the
same one. A file that a person put there under another name is a letter too,
of the moment that its header tells, or when it was last saved. Where its name
was given away meanwhile, it gets another one that tells what it was.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from memvault import clock
from memvault.errors import UsageError
from memvault.vault import atomic, codec, layout

__all__ = [
    "Letter",
    "another",
    "checked_text",
    "inside",
    "is_id",
    "listed",
    "new_id",
    "original",
    "read",
    "write",
]

_ID = re.compile(r"\d{8}T\d{6}\.\d{6}Z-\w+")
_AGAIN = re.compile(rf"(.+?)-{_ID.pattern}", re.DOTALL)
_LONGEST_AGAIN = 180
"""Bytes of a name that are kept in front of an id; file systems take 255."""


class Letter(NamedTuple):
    """One file: the name without its ending, its header, its text, and when it was saved."""

    name: str
    header: dict[str, Any]
    text: str
    saved: str

    @property
    def timestamp(self) -> str:
        """When it was written: as its header says, else when it was saved."""
        moment = clock.parse(str(self.header.get("timestamp", "")))
        return clock.iso(moment) if moment else self.saved


def new_id() -> str:
    """Return a fresh name, later in order than any that this process made before."""
    return f"{_stamp(clock.rising())}-{clock.nonce(10)}"


def is_id(name: str) -> bool:
    """Say whether ``new_id`` can have made a name."""
    return _ID.fullmatch(name) is not None


def another(name: str) -> str:
    """Return a fresh name for a letter whose own is taken."""
    kept = os.fsencode(original(name))[:_LONGEST_AGAIN].decode("utf-8", "ignore")
    return f"{kept}-{new_id()}"


def original(name: str) -> str:
    """Return the name that a letter had before ``another``."""
    again = _AGAIN.fullmatch(name)
    return again[1] if again else name


def _stamp(moment: datetime) -> str:
    return f"{moment:%Y%m%dT%H%M%S.%fZ}"


def write(folder: Path, name: str, header: Mapping[str, Any], text: str) -> None:
    """Write a new letter, whole or not at all.

    Raises:
        FileExistsError: there is one of that name.
        StorageError: the disk refused.
    """
    values = {key: value for key, value in header.items() if value is not None}
    atomic.create(folder / f"{name}.md", codec.encode_new(values, text))


def listed(folder: Path) -> list[str]:
    """Return the names of the letters in a folder, the oldest first; none where it is missing.

    The program's own names tell the moment; of all others the header does, or
    when the file was last saved.

    Raises:
        StorageError: the folder cannot be read.
    """
    found: list[tuple[str, str]] = []
    try:
        with atomic.explained(folder), os.scandir(folder) as entries:
            for entry in entries:
                name = entry.name
                if name.startswith(".") or not name.endswith(".md") or entry.is_symlink():
                    continue
                stem = name[:-3]
                found.append((stem if is_id(stem) else _written_stamp(entry), name))
    except FileNotFoundError:
        return []
    return [name for _, name in sorted(found)]


def _written_stamp(entry: os.DirEntry[str]) -> str:
    with contextlib.suppress(ValueError, OSError):
        moment = clock.parse(read(Path(entry.path)).timestamp)
        if moment is not None:
            return _stamp(moment)
    return _stamp(clock.now())


def read(path: Path) -> Letter:
    """Read a letter.

    Raises:
        FileNotFoundError: it is gone, or no plain file.
        ValueError: it is none; the text says why.
    """
    try:
        data = atomic.read(path)
        saved = clock.iso_from_ns(path.stat().st_mtime_ns)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ValueError(f"it cannot be read: {error.strerror}") from error
    header, body = codec.read_header(data)
    if header is None:
        if not body.strip():
            raise ValueError("it is empty")
        if re.match(r"---[ \t]*(\r?\n|\Z)", body):
            raise ValueError("its front matter has no closing line")
    return Letter(path.name[:-3], header or {}, codec.plain_text(body).strip("\n"), saved)


def checked_text(text: str, what: str = "message") -> str:
    """Return a text as a letter keeps it.

    Raises:
        UsageError: there is nothing in it.
    """
    plain = codec.plain_text(text).strip("\n")
    if not plain.strip():
        raise UsageError(f"The {what} is empty", "give the text, - for standard input")
    return plain


def inside(root: Path, folder: Path) -> Path:
    """Return a folder of the vault; it may not be there yet.

    Raises:
        Refused: a part of the way to it, or itself, is a link or a file.
    """
    layout.check_folders(root, folder.relative_to(root).as_posix())
    return folder
