"""``.memvault``: what is of this machine and cannot be made anew, kept out of git."""

from __future__ import annotations

import contextlib
from pathlib import Path

from memvault import plain_files
from memvault.errors import MemvaultError, Refused
from memvault.vault import atomic, layout


def private_folder(root: Path) -> Path:
    """Return ``.memvault``, created if missing, with the line that keeps it out of git.

    Raises:
        StorageError: it cannot be made.
        Refused: it leads out of the vault.
    """
    folder = root / ".memvault"
    with atomic.map_os_errors(folder):
        layout.require_plain_folders(root, folder.name)
        for name in ("lock", "history", "trash", "journal"):
            if (folder / name).is_symlink():
                raise Refused(f"{folder / name} is a link", "remove the link")
        if not (folder / ".gitignore").is_file():
            folder.mkdir(exist_ok=True)
            with contextlib.suppress(FileExistsError):
                atomic.create(folder / ".gitignore", b"*\n")
                _tell_git(root)
    return folder


def _tell_git(root: Path) -> None:
    """Have git pass over temporary files in a vault made by hand, as .gitignore does in others.

    ``.git/info/exclude`` is of this clone only and never committed. A repository
    that begins above the vault is left as it is.
    """
    exclude = root / ".git" / "info" / "exclude"
    with contextlib.suppress(MemvaultError, OSError):
        layout.require_plain_folders(root, ".git/info")
        data = plain_files.read(exclude, plain_files.SETTING)
        if b".*.tmp" not in data.splitlines():
            atomic.replace(exclude, data.rstrip(b"\n") + b"\n.*.tmp\n")
