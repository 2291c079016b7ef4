"""What is an agent's and only of this machine: its folder, and the lock its processes share."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

from memvault.agents.address import Address, address
from memvault.errors import UsageError
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
    layout.require_plain_folders(root, folder.relative_to(root).as_posix())
    return folder


def agent_lock(root: Path, owner: Address, timeout: float = 30.0) -> FileLock:
    """Return the lock to hold while an agent's files are changed; errors as for ``private``."""
    return FileLock(private(root, owner) / "lock", timeout)


def locks_for_paths(root: Path, paths: Iterable[str]) -> Iterator[FileLock]:
    """Yield the locks of all who write such files of a vault, in the order in which to take them.

    The agents' come first, and the vault's last. Errors as for ``private``.
    """
    owners = set()
    for path in paths:
        parts = PurePosixPath(path).parts
        if len(parts) > 1 and parts[0] == "agents":
            own = parts[1].removesuffix(".md") if len(parts) == 2 else parts[1]
            brain = f"/{parts[3]}" if len(parts) > 4 and parts[2] == "brains" else ""
            with contextlib.suppress(UsageError):  # a folder that no agent can have
                owners.add(address(f"{own}{brain}"))
    for owner in sorted(owners):
        yield agent_lock(root, owner)
    yield FileLock(private_folder(root) / "lock")
