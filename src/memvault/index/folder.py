"""Locate a vault's index: in a private folder of the user, never in the vault.

SQLite trusts the contents of its files, and a vault may be untrusted. An index is therefore read
only from a folder that this user created and no other user can write to: below the user's cache
folder, or below the temporary folder if the cache is not writable, as in a sandbox. Each vault has
a separate folder named after its real path.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from memvault.errors import MemvaultError, StorageError
from memvault.files import atomic
from memvault.files.lock import FileLock
from memvault.files.plain_files import MAX_SETTING_BYTES, digest_of, read
from memvault.files.user_folders import (
    SETTINGS_FILE,
    NotPrivate,
    enclosing_vault,
    make_private,
    only_user_can_write,
    user_folder,
)
from memvault.named_tuple import NamedTuple
from memvault.vault import naming

_INDEXES = "indexes"
_VAULT = "vault"
"""A file with the real path of the indexed vault; its mtime is when the index was last used."""
_LOCK = "lock"
DEEP = "deep"
"""The folder of transformer vectors, which are keyed by content and outlive the index."""
_DAY = 86_400.0
_KEPT_DAYS = 90.0
_KEPT_VERSION_DAYS = 30.0
"""Days after which other versions' index files are deleted."""


class IndexFolder(NamedTuple):
    """The folder of an index (None for an index in memory) and a note for the user."""

    folder: Path | None
    note: str = ""


def prepare_folder(root: Path) -> IndexFolder:
    """Return the folder of a vault's index, created if missing, private and writable."""
    note = ""
    for base in _bases():
        try:
            return IndexFolder(_create_folder(base, Path(os.path.realpath(root))), note)
        except NotPrivate as error:
            note = note or f"the index is not stored in {error.filename}: {error.strerror}"
        except (OSError, StorageError) as error:
            reason = error.message if isinstance(error, StorageError) else error.strerror
            if os.environ.get("MEMVAULT_CACHE"):  # probably a sandbox, not worth a note
                note = note or f"the index is not stored in MEMVAULT_CACHE: {reason}"
    in_memory = (
        "no folder for the index is writable, so each call builds one in memory; "
        "set MEMVAULT_CACHE to a writable folder"
    )
    return IndexFolder(None, f"{note}; {in_memory}" if note else in_memory)


def find_folder(root: Path) -> Path | None:
    """Return the folder of a vault's index if it exists and only this user can write to it."""
    for base in _bases():
        folder = base / folder_name(Path(os.path.realpath(root)))
        with contextlib.suppress(OSError):
            if only_user_can_write(base) and only_user_can_write(folder):
                return folder
    return None


def delete_abandoned(indexes: Path, days: float = _KEPT_DAYS) -> list[Path]:
    """Delete the indexes of missing vaults not used for ``days`` days, and return their folders."""
    deleted = []
    for folder in indexes.iterdir():
        with contextlib.suppress(OSError, MemvaultError):  # for example, the folder is not an index
            root = os.fsdecode(read(folder / _VAULT, MAX_SETTING_BYTES))
            is_old = time.time() - (folder / _VAULT).stat().st_mtime > days * _DAY
            is_named = folder.name == folder_name(Path(root))
            has_vault = os.path.lexists(os.path.join(root, SETTINGS_FILE))
            if is_old and is_named and not has_vault:
                with FileLock(folder / _LOCK, 0.0):
                    import shutil

                    shutil.rmtree(folder)
                deleted.append(folder)
    return deleted


def mark_used(folder: Path) -> bool:
    """Mark a folder of an index as used; return whether this is its first use today.

    Raises:
        OSError: if the folder is missing or cannot be changed.
    """
    if time.time() - folder.stat().st_mtime < _DAY:
        return False
    os.utime(folder)
    return True


def is_unused(folder: Path) -> bool:
    """Return whether no version of the program has used a part of an index for 30 days."""
    return time.time() - folder.lstat().st_mtime > _KEPT_VERSION_DAYS * _DAY


def folder_name(root: Path) -> str:
    """Return the name of a vault's index folder; ``root`` must be a real path."""
    digest = digest_of(os.fsencode(root), 12).hex()
    return f"{naming.slug(root.name, 40)}-{digest}"


def _bases() -> Iterator[Path]:
    """Yield the folders that may contain indexes, preferred ones first."""
    cache = user_folder("cache")
    if cache is not None:
        yield cache / _INDEXES
    import tempfile

    if sys.platform == "win32":
        user = os.environ.get("USERNAME", "user")
    else:
        user = str(os.geteuid())
    with contextlib.suppress(OSError):  # no temporary folder is available
        temporary = Path(tempfile.gettempdir())
        if temporary != Path.cwd():  # ``gettempdir`` falls back to the working directory
            yield temporary / f"memvault-{user}"


def _create_folder(base: Path, root: Path) -> Path:
    """Return the folder of a vault's index, creating it if missing.

    Raises:
        OSError: if the folder is not writable, is not private to this user, or is inside a vault.
    """
    above = enclosing_vault(base)
    if above is not None:
        raise NotPrivate(errno.EACCES, f"it is inside the vault {above}", str(base))
    make_private(base)
    folder = base / folder_name(root)
    make_private(folder)
    stamp = folder / _VAULT
    try:
        age = time.time() - stamp.lstat().st_mtime
    except FileNotFoundError:
        atomic.write(stamp, os.fsencode(root), durable=False)
        age = 0.0
    lock = folder / _LOCK
    if not lock.is_dir():  # acquiring the lock renames such a folder
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
        os.close(os.open(lock, flags, 0o600))
    if not 0 <= age < _DAY:
        os.utime(stamp)
        delete_abandoned(base)
    return folder
