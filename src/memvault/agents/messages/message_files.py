"""Store messages and events as small markdown files that never change.

A file's name starts with the time of writing, so names sort by time, and ends with random
characters, so two machines never choose the same one. A file that a person added under another name
is a message file too; its time comes from its header or its modification time. If a file is moved
to a folder where its name is taken, the new name contains the original one.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memvault import clock
from memvault.errors import UsageError
from memvault.files import atomic, plain_files
from memvault.lazy_pattern import lazy_pattern
from memvault.named_tuple import NamedTuple
from memvault.store.change_set import FileRef
from memvault.vault import document, paths
from memvault.vault.header_files import read_header_file

if TYPE_CHECKING:
    from memvault.store.writer import VaultWriter

_ID = lazy_pattern(r"\d{8}T\d{6}\.\d{6}Z-\w+")
_RENAMED = lazy_pattern(rf"(.+?)-{_ID.pattern}", re.DOTALL)
_STAMP = "%Y%m%dT%H%M%S.%fZ"
_MAX_PREFIX_BYTES = 180
"""Maximum length in bytes of the original name in a new name; file systems allow 255."""


class MessageFile(NamedTuple):
    """A message file: its name without suffix, its header and its text.

    ``timestamp`` is the time in the header, or else the modification time.
    """

    name: str
    header: dict[str, Any]
    text: str
    timestamp: str


def new_id() -> str:
    """Return a new name that sorts after all earlier ones of this process."""
    return f"{clock.monotonic_now():{_STAMP}}-{clock.random_id(10)}"


def is_id(name: str) -> bool:
    """Return whether a name has the format of ``new_id``."""
    return _ID.fullmatch(name) is not None


def alternative_name(name: str) -> str:
    """Return a new name for a message file whose name is taken."""
    prefix = os.fsencode(original_name(name))[:_MAX_PREFIX_BYTES].decode("utf-8", "ignore")
    return f"{prefix}-{new_id()}"


def original_name(name: str) -> str:
    """Return the name that a message file had before ``alternative_name``."""
    again = _RENAMED.fullmatch(name)
    return again[1] if again else name


def write(
    folder: Path, name: str, header: Mapping[str, Any], text: str, changes: VaultWriter | None
) -> None:
    """Create a message file.

    Without ``changes``, it is not recorded in the journal and cannot be undone.

    Raises:
        FileExistsError: the name is in use.
    """
    file, data = folder / f"{name}.md", document.encode_new(header, text)
    if changes is None:
        plain_files.check_size(data)
        atomic.create(file, data)
    else:
        title = (text.strip() or name).splitlines()[0]
        changes.create([file.relative_to(changes.root).as_posix()], data, FileRef("", title))


def listed(folder: Path) -> list[str]:
    """Return the names of the message files in a folder, oldest first; empty if it is missing.

    Names made by ``new_id`` contain the time. For any other name, the time is the one in the
    header, or else the file's modification time.

    Raises:
        StorageError: the folder cannot be read.
    """
    try:
        with atomic.map_os_errors(folder), os.scandir(folder) as entries:
            files = [entry.name for entry in entries if not entry.is_symlink()]
    except FileNotFoundError:
        return []
    names = [name for name in files if name.endswith(".md") and not name.startswith(".")]
    return sorted(names, key=lambda name: (_sort_key(folder / name), name))


def _sort_key(path: Path) -> str:
    if is_id(path.stem):
        return path.stem
    moment = None
    with contextlib.suppress(ValueError, OSError):
        moment = clock.parse(read(path).timestamp)
    return f"{moment or clock.now():{_STAMP}}"


def read(path: Path) -> MessageFile:
    """Read a message file.

    Raises:
        FileNotFoundError: the file is missing or not a regular file.
        ValueError: the file is not a valid message; the error gives the reason.
    """
    try:
        file = read_header_file(path.parent, path.name)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ValueError(f"it cannot be read: {error.strerror}") from error
    text = file.document.decoded.text
    if file.document.header is None and not text.strip():
        raise ValueError("it is empty")
    if file.document.header is None and re.match(r"---[ \t]*(\r?\n|\Z)", text):
        raise ValueError("its front matter has no closing line")
    header = file.document.header or {}
    moment = clock.parse(str(header.get("timestamp", "")))
    timestamp = clock.iso(moment) if moment else clock.iso_from_ns(file.mtime)
    return MessageFile(path.name[:-3], header, file.document.text, timestamp)


def read_or_warn(
    root: Path, path: Path, kind: str, warn: Callable[[str], object]
) -> MessageFile | None:
    """Read a message file; return None if it is missing or invalid, and warn if it is invalid."""
    with contextlib.suppress(FileNotFoundError):
        try:
            return read(path)
        except ValueError as error:
            warn(f"{path.relative_to(root).as_posix()} is not {kind}: {error}")
    return None


def header_of(path: Path) -> dict[str, Any]:
    """Return a message file's header; empty if it cannot be read."""
    with contextlib.suppress(FileNotFoundError, ValueError):
        return read(path).header
    return {}


def checked_text(text: str, label: str = "message") -> str:
    """Return text in the form stored in message files.

    Raises:
        UsageError: the text is empty.
    """
    cleaned = document.plain_text(text).strip("\n")
    if not cleaned.strip():
        raise UsageError(f"The {label} is empty", "pass the text, or - to read standard input")
    return cleaned


def inside(root: Path, folder: Path) -> Path:
    """Return a folder in the vault, which may not exist yet.

    Raises:
        Refused: the folder or one of its parents is a link or a file.
    """
    paths.require_plain_folders(root, folder.relative_to(root).as_posix())
    return folder
