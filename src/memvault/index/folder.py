"""Where a vault's index lies: in a folder of the user's own, never in the vault.

Whoosh reads pickles, SQLite trusts its pages, and a vault may come from anyone.
So an index is only ever read from a folder that this user made and nobody else
can write in: below the user's cache folder, or where that cannot be written,
as in a sandbox, below the temporary folder. Each vault has one, by its real path.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from memvault.errors import MemvaultError, StorageError
from memvault.files import atomic
from memvault.files.lock import FileLock
from memvault.files.plain_files import SETTING, read
from memvault.files.user_folders import (
    SETTINGS_FILE,
    NotPrivate,
    enclosing_vault,
    make_private,
    only_user_can_write,
    user_folder,
)
from memvault.vault import paths

_INDEXES = "indexes"
_VAULT = "vault"
"""Holds the real path of the vault that an index is of; its time is when that was last used."""
_LOCK = "lock"
DEEP = "deep"
"""Holds vectors by content, which outlive the index."""
KEPT = (_VAULT, _LOCK, DEEP)
"""What lies in an index's folder beside the index itself."""
_DAY = 86_400.0
_KEPT_DAYS = 90.0


class IndexFolder(NamedTuple):
    """Where the index lies, or None for in memory, and what a person should know of that."""

    folder: Path | None
    note: str = ""


def prepare_folder(root: Path) -> IndexFolder:
    """Return where the index of a vault lies; the folder is there, private and can be written."""
    note = ""
    for base in _bases():
        try:
            return IndexFolder(_ready(base, Path(os.path.realpath(root))), note)
        except NotPrivate as error:
            note = note or f"the index is not kept in {error.filename}: {error.strerror}"
        except (OSError, StorageError) as error:
            said = error.message if isinstance(error, StorageError) else error.strerror
            if os.environ.get("MEMVAULT_CACHE"):  # in a sandbox the usual folder is away unasked
                note = note or f"the index is not kept in MEMVAULT_CACHE: {said}"
    nowhere = (
        "the index can be kept nowhere, so each call makes one in memory; "
        "set MEMVAULT_CACHE to a folder that can be written"
    )
    return IndexFolder(None, f"{note}; {nowhere}" if note else nowhere)


def find_folder(root: Path) -> Path | None:
    """Return the folder of a vault's index if there is one that is this user's alone."""
    for base in _bases():
        folder = base / folder_name(Path(os.path.realpath(root)))
        with contextlib.suppress(OSError):
            if only_user_can_write(base) and only_user_can_write(folder):
                return folder
    return None


def forget_older(root: Path) -> None:
    """Delete an index that an earlier version left in the vault; it is never read."""
    private = root / ".memvault"
    if not private.is_symlink() and os.path.lexists(private / "index"):
        from memvault.files import walk

        walk.remove(private / "index")  # which refuses a link


def delete_abandoned(indexes: Path, days: float = _KEPT_DAYS) -> list[Path]:
    """Delete the indexes of vaults that are gone and were not used for some days; return them."""
    gone = []
    for folder in indexes.iterdir():
        with contextlib.suppress(OSError, MemvaultError):  # such as for what is no index
            root = os.fsdecode(read(folder / _VAULT, SETTING))
            old = time.time() - (folder / _VAULT).stat().st_mtime > days * _DAY
            named = folder.name == folder_name(Path(root))
            vault = os.path.lexists(os.path.join(root, SETTINGS_FILE))
            if old and named and not vault:
                with FileLock(folder / _LOCK, 0.0):
                    shutil.rmtree(folder)
                gone.append(folder)
    return gone


def folder_name(root: Path) -> str:
    """Return what the folder of a vault's index is called; ``root`` is a real path."""
    digest = hashlib.blake2b(os.fsencode(root), digest_size=12).hexdigest()
    return f"{paths.slug(root.name, 40)}-{digest}"


def _bases() -> Iterator[Path]:
    """Name the folders that indexes may lie in, the best first."""
    cache = user_folder("cache")
    if cache is not None:
        yield cache / _INDEXES
    import tempfile

    user = os.geteuid() if os.name == "posix" else os.environ.get("USERNAME", "user")
    with contextlib.suppress(OSError):  # there is no temporary folder either
        temporary = Path(tempfile.gettempdir())
        if temporary != Path.cwd():  # which Python takes where it finds no other
            yield temporary / f"memvault-{user}"


def _ready(base: Path, root: Path) -> Path:
    """Return the folder of a vault's index, made where it is missing.

    Raises:
        OSError: it cannot be written, is not this user's alone, or lies in a vault.
    """
    above = enclosing_vault(base)
    if above is not None:
        raise NotPrivate(errno.EACCES, f"it lies in the vault {above}", str(base))
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
    if not lock.is_dir():  # that is moved away when it is taken
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
        os.close(os.open(lock, flags, 0o600))
    if not 0 <= age < _DAY:
        os.utime(stamp)
        delete_abandoned(base)
    return folder
