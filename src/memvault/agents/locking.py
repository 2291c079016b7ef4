"""What is an agent's and only of this machine: its folder, and the lock its processes share."""

from __future__ import annotations

from pathlib import Path

from memvault.agents.address import Address
from memvault.vault import layout
from memvault.vault.lock import FileLock
from memvault.vault.private import private_folder


def private(root: Path, owner: Address) -> Path:
    """Return the folder of what is an agent's and only of this machine; it may not be there yet.

    Raises:
        Refused: a part of it is a link.
        StorageError: the vault cannot be written.
    """
    private_folder(root)
    folder = owner.private(root)
    layout.check_folders(root, folder.relative_to(root).as_posix())
    return folder


def agent_lock(root: Path, owner: Address, timeout: float = 30.0) -> FileLock:
    """Return the lock to hold while an agent's files are changed; errors as for ``private``."""
    return FileLock(private(root, owner) / "lock", timeout)
