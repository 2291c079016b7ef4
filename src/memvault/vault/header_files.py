"""Read markdown files with headers, and folders of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from memvault.files import atomic, plain_files
from memvault.named_tuple import NamedTuple
from memvault.sanitize import replace_surrogates
from memvault.vault import paths
from memvault.vault.document import Document


class HeaderFile(NamedTuple):
    """A markdown file's path in the vault, bytes, and mtime in nanoseconds when it was read."""

    path: str
    data: bytes
    document: Document
    mtime: int


def read_header_file(
    root: Path, path: str, max_bytes: int = plain_files.MAX_MEMORY_BYTES, ours: bool = False
) -> HeaderFile:
    """Read a markdown file without following links; ``ours`` is passed to ``document.parse``.

    Raises:
        OSError: the file cannot be read; ``FileNotFoundError`` if it is not a regular file.
        ValueError: its header is broken, or it is binary.
    """
    data = plain_files.read(root / path, max_bytes)
    mtime = (root / path).lstat().st_mtime_ns
    document = Document.parse(data, ours)
    if document.strict_problem:
        raise ValueError(document.strict_problem)
    return HeaderFile(path, data, document, mtime)


def read_header_files(
    root: Path,
    folder: str,
    skipped: Callable[[str, str], object],
    max_bytes: int = plain_files.MAX_MEMORY_BYTES,
    ours: bool = False,
) -> Iterator[HeaderFile]:
    """Yield the markdown files in a folder in the vault, sorted by name.

    Yields nothing if the folder is missing. ``skipped`` is called with the printable path of each
    unreadable file, and the reason.

    Raises:
        Refused: the folder is a link or a file.
        StorageError: the folder cannot be listed.
    """
    paths.require_plain_folders(root, folder)
    try:
        with atomic.map_os_errors(folder):
            names = sorted(os.listdir(root / folder))
    except FileNotFoundError:
        return
    for name in names:
        path = f"{folder}/{name}"
        if name[0] == "." or not name.lower().endswith(".md"):
            continue
        try:
            file = read_header_file(root, path, max_bytes, ours)
        except (OSError, ValueError) as error:
            skipped(replace_surrogates(path), getattr(error, "strerror", None) or str(error))
        else:
            yield file
