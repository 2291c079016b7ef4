"""The vault's folder ``.memvault``: machine-local data that cannot be rebuilt, not in git."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from memvault.errors import MemvaultError, Refused
from memvault.files import atomic, plain_files
from memvault.vault.paths import require_plain_folders

RECEIPTS = "receipts"
"""The name of the folder of receipts."""
MOVE_INTENT = ".memvault/moving.json"
"""The file that records a move of a memory until it is complete."""

HOOK_FAILURE = ".memvault/hook.json"
"""The file that records why a hook last printed nothing."""


def private_folder(root: Path, name: str = "") -> Path:
    """Return ``.memvault``, created if missing and excluded from git, or a folder in it.

    Raises:
        StorageError: the folder cannot be created.
        Refused: a part of the path is a link or a file, or ``.memvault`` has links in it.
    """
    folder = root / ".memvault"
    with atomic.map_os_errors(folder):
        require_plain_folders(root, f"{folder.name}/{name}")
        for path in (folder / part for part in ("lock", "history", "trash", "journal")):
            if path.is_symlink():
                raise Refused(f"{path} is a link", "remove the link")
        if not (folder / ".gitignore").is_file():
            atomic.make_folders(folder)
            with contextlib.suppress(FileExistsError):
                atomic.create(folder / ".gitignore", b"*\n")
                _exclude_from_git(root)
    return folder / name


def has_receipts(root: Path) -> bool:
    """Return whether ``memvault.agents.receipts`` has recorded anything."""
    return (root / ".memvault" / RECEIPTS).is_dir()


def existing_private(root: Path, name: str = "") -> Path | None:
    """Return the path of a folder in ``.memvault`` for reading.

    Returns None if a part of it is a link, or a folder above it cannot be searched.
    Reading through a link would present someone else's files as the vault's own.
    """
    with contextlib.suppress(Refused, OSError):
        require_plain_folders(root, f".memvault/{name}")
        return root / ".memvault" / name
    return None


def list_private(root: Path, name: str) -> list[str]:
    """Return the sorted names in a folder of ``.memvault``; none if it is missing or a link."""
    folder = existing_private(root, name)
    with contextlib.suppress(OSError):
        return sorted(os.listdir(folder)) if folder else []
    return []


def _exclude_from_git(root: Path) -> None:
    """Exclude temporary files from git in a vault that has no .gitignore for them.

    Only ``.git/info/exclude`` is changed, which belongs to this clone and is never committed. A
    repository whose root is above the vault is left unchanged.
    """
    exclude = root / ".git" / "info" / "exclude"
    with contextlib.suppress(MemvaultError, OSError):
        require_plain_folders(root, ".git/info")
        data = plain_files.read(exclude, plain_files.MAX_SETTING_BYTES)
        if b".*.tmp" not in data.splitlines():
            atomic.replace_unchanged(exclude, data, data.rstrip(b"\n") + b"\n.*.tmp\n")
