"""Walk folder trees of any depth, beyond Python's recursion and path limits."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from memvault.sanitize import shorten

_MAX_SHOWN_PATH = 100
TOO_DEEP = "is nested so deep that its path exceeds the system's limit, so it is not read"


def walk(
    top: str | os.PathLike[str], unreadable: Callable[[OSError], object] = lambda _: None
) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield each folder from ``top`` down with its subfolders and other entries, like ``os.walk``.

    It does not recurse, unlike ``os.walk`` before Python 3.12, and does not follow links.
    ``unreadable`` is called with the error for a folder that cannot be listed or whose path exceeds
    the system's limit.
    """
    pending = [os.fspath(top)]
    while pending:
        folder = pending.pop()
        folders: list[str] = []
        names: list[str] = []
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    (folders if _is_folder(entry) else names).append(entry.name)
        except OSError as error:
            unreadable(error)
            continue
        yield folder, folders, names
        below = (os.path.join(folder, name) for name in reversed(folders))
        pending += [path for path in below if not is_link(path)]


def shown_path(folder: str) -> str:
    """Return a folder's path for a message, shortened if it is long."""
    return shorten(folder, _MAX_SHOWN_PATH)


def listing_problem(root: Path, folder: str) -> str:
    """Return why a folder in a vault cannot be listed."""
    try:
        os.scandir(root / folder).close()
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            return TOO_DEEP
    return "cannot be listed by this user"


def is_link(path: str) -> bool:
    """Return whether a path is a link; False if the path exceeds the system's limit."""
    try:
        return stat.S_ISLNK(os.lstat(path).st_mode)
    except OSError:
        return False


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False
