"""Find the user's folders outside every vault, and check who owns files."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
from pathlib import Path
from typing import Literal

from memvault.errors import UsageError

SETTINGS_FILE = "memvault.toml"
"""The settings file; a folder that contains it is a vault."""
UNREAD_DOCUMENTS = "unread-documents"
"""The file in the index's folder with the paths of documents to read again.

Its modification time is the time of the last attempt.
"""


def expand_home(text: str) -> Path:
    """Return a path with ``~`` expanded; unchanged if the user has no home folder."""
    try:
        return Path(text).expanduser()
    except RuntimeError:
        return Path(text)


def user_folder(kind: Literal["cache", "config", "state"]) -> Path | None:
    """Return the folder set by a variable such as ``MEMVAULT_CACHE``, or the default folder.

    The cache folder contains data that can be rebuilt; the state folder contains the user's
    decisions on this machine. Returns None if the user has no home folder.

    Raises:
        UsageError: the variable is not an absolute path.
    """
    variable = f"MEMVAULT_{kind.upper()}"
    if os.environ.get(variable):
        chosen = expand_home(os.environ[variable])
        if not chosen.is_absolute():  # A relative path would depend on the current folder.
            raise UsageError(
                f"{variable} is not an absolute path: {chosen}", "set it to an absolute path"
            )
        return chosen
    xdg = _xdg_folder(kind)
    if xdg is not None:
        return xdg
    import platformdirs

    try:
        folder = Path(getattr(platformdirs, f"user_{kind}_dir")("memvault", appauthor=False))
    except RuntimeError:  # The user's home folder is unknown.
        return None
    return folder if folder.is_absolute() else None


_XDG = {"cache": ".cache", "config": ".config", "state": ".local/state"}


def _xdg_folder(kind: Literal["cache", "config", "state"]) -> Path | None:
    """Return the folder that platformdirs would return on Linux; None on other systems.

    Importing platformdirs takes 6 ms, half of it for ``tempfile``.
    """
    if sys.platform != "linux" or "ANDROID_DATA" in os.environ:
        return None
    base = os.environ.get(f"XDG_{kind.upper()}_HOME", "")
    if not base.startswith("/"):
        home = os.environ.get("HOME", "")
        base = os.path.join(home, _XDG[kind]) if home.startswith("/") else ""
    return Path(base, "memvault") if base else None


def models_folder() -> Path:
    """Return the folder for downloaded models: ``MEMVAULT_MODELS``, or ``models`` in the cache.

    Raises:
        OSError: there is no cache folder.
    """
    if os.environ.get("MEMVAULT_MODELS"):
        return expand_home(os.environ["MEMVAULT_MODELS"])
    cache = user_folder("cache")
    if cache is None:
        raise FileNotFoundError(errno.ENOENT, "There is no cache folder; set MEMVAULT_MODELS")
    return cache / "models"


def enclosing_vault(folder: Path) -> Path | None:
    """Return the vault that contains a folder, or None.

    Another user's vault does not count: it cannot contain files that only this user owns.
    """
    resolved = Path(os.path.realpath(folder))
    for above in (resolved, *resolved.parents):
        with contextlib.suppress(OSError):
            if is_owned(os.lstat(above / SETTINGS_FILE)):
                return above
    return None


def is_owned(status: os.stat_result) -> bool:
    """Return whether a file belongs to this user; always true on Windows, where it is not checked.

    With ``sudo``, the calling user's files count too.
    """
    if sys.platform == "win32":
        return True
    user = os.geteuid()
    caller = os.environ.get("SUDO_UID", "") if user == 0 else ""
    return status.st_uid == user or (caller.isdecimal() and status.st_uid == int(caller))


def ownership_problem(folder: Path) -> str:
    """Return why a vault does not belong to this user; empty if it does.

    The user must own both the settings file and its folder, because a folder's owner controls the
    files next to the settings. A shared folder such as ``/tmp`` (sticky and writable by everyone)
    belongs to nobody. A writable folder without the sticky bit is accepted, because shared disks
    and Windows drives show all folders that way.

    Raises:
        OSError: the folder or its settings cannot be read.
    """
    status = folder.stat()
    if not (is_owned(os.lstat(folder / SETTINGS_FILE)) and is_owned(status)):
        return "belongs to another user"
    is_open = status.st_mode & stat.S_ISVTX and status.st_mode & stat.S_IWOTH
    return "is in a folder that every user can write to" if is_open else ""


def only_user_can_write(path: Path) -> bool:
    """Return whether only this user can write to a file or folder; False for a link.

    Raises:
        OSError: the permissions cannot be checked.
    """
    status = os.lstat(path)
    if sys.platform == "win32":
        return not stat.S_ISLNK(status.st_mode)
    writable = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return status.st_uid == os.geteuid() and not writable and not stat.S_ISLNK(status.st_mode)


class NotPrivate(OSError):
    """An existing folder may belong to another user, or be accessible to other users."""


def make_private(folder: Path) -> None:
    """Create a folder that only this user can access, or check that an existing one is private.

    Raises:
        NotPrivate: the folder is a link, belongs to another user, or is accessible to others.
        OSError: the folder cannot be created.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        folder.mkdir(0o700)
    status = os.lstat(folder)
    if not stat.S_ISDIR(status.st_mode):
        raise NotPrivate(errno.ENOTDIR, "it is a link or a file", str(folder))
    if sys.platform != "win32" and (status.st_uid != os.geteuid() or status.st_mode & 0o077):
        raise NotPrivate(
            errno.EACCES, "it belongs to another user, or others can read it", str(folder)
        )
