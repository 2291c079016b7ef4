"""The lock that an agent's processes on this machine take turns with."""

from __future__ import annotations

from memvault.errors import Refused
from memvault.vault.lock import FileLock
from memvault.vault.store import Store, private_folder
from memvault.work.agents import Address

__all__ = ["agent_lock"]


def agent_lock(store: Store, address: Address) -> FileLock:
    """Return the lock to hold while an agent's files are changed, use it with ``with``.

    Raises:
        Refused: a link leads out of the vault.
        StorageError: the vault cannot be written.
    """
    folder = private_folder(store.root)
    for part in address.private(store.root).relative_to(folder).parts:
        folder /= part
        if folder.is_symlink():
            raise Refused(f"{folder} is a link", "remove the link; memvault makes the folder anew")
    return FileLock(folder / "lock")
