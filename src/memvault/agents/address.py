"""Addresses of agents and their brains, with their folders and locks."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

from memvault.errors import UsageError, closest
from memvault.files.lock import FileLock
from memvault.named_tuple import NamedTuple
from memvault.sanitize import shorten
from memvault.vault.names import normalize
from memvault.vault.naming import is_reserved
from memvault.vault.private_folder import private_folder

USER = "user"
"""The name of the human participant."""
PRIMARY = "primary"
"""The name of an agent's main brain."""
_MAX_NAME = 60


class Address(NamedTuple):
    """The address of an agent or one of its sub-brains; ``brain`` is empty for the main brain."""

    agent: str
    brain: str = ""

    def __str__(self) -> str:
        return f"{self.agent}/{self.brain}" if self.brain else self.agent

    def folder(self, root: Path) -> Path:
        """Return the folder for files of this agent or brain that git syncs."""
        base = root / "agents" / self.agent
        return base / "brains" / self.brain if self.brain else base

    def private(self, root: Path) -> Path:
        """Return the folder for files of this agent or brain that stay on this machine."""
        return self.folder(root / ".memvault")

    def of_brain(self, name: str) -> Address:
        """Return the address of a brain of the same agent; ``primary`` is the main brain.

        Raises:
            UsageError: the name is invalid, or belongs to another agent's brain.
        """
        target = address(name if "/" in name else f"{self.agent}/{name}")
        if target.agent != self.agent:
            raise UsageError(
                f"{name!r} is another agent's brain",
                "use `memvault talk agent` to send to another agent",
            )
        return target


def address(text: str) -> Address:
    """Parse ``AGENT`` or ``AGENT/BRAIN``.

    Raises:
        UsageError: the name is invalid.
    """
    agent, slash, brain = text.strip().partition("/")
    main = not slash or brain == PRIMARY
    return Address(_check_name(agent, "agent"), "" if main else _check_name(brain, "sub-brain"))


def closest_agent(root: Path, unknown: Address) -> str:
    """Return the vault's agent whose name is closest to an unknown name; empty if none is close."""
    names = agent_names(root)
    if unknown.agent in (USER, *names):
        return ""
    folded = {name.casefold(): name for name in names}
    return folded.get(closest(unknown.agent.casefold(), folded, cutoff=0.75), "")


def agent_names(root: Path) -> list[str]:
    """Return the names of agents that have a folder or file in a vault, sorted."""
    try:
        with os.scandir(root / "agents") as entries:
            names = {
                entry.name if entry.is_dir() else entry.name[:-3]
                for entry in entries
                if entry.is_dir() or entry.name.endswith(".md")
            }
    except OSError:
        return []
    return sorted(names)


def _check_name(name: str, kind: str) -> str:
    """Return a name after checking that every system allows it as a folder name."""
    normalized = normalize("NFC", name.strip())
    size = len(normalized.encode("utf-8", "surrogatepass"))
    fits = normalized and size <= _MAX_NAME and normalized[0].isalnum()
    if not fits or not all(char.isalnum() or char in "-_." for char in normalized):
        raise UsageError(
            f"{shorten(name, _MAX_NAME)!r} is not a valid {kind} name",
            "use up to 60 letters, digits, hyphens, dots and underscores",
        )
    if normalized.endswith(".") or is_reserved(normalized):
        raise UsageError(f"{name!r} is a reserved name on some systems", "choose another name")
    return normalized


def private_folder_of(root: Path, owner: Address) -> Path:
    """Return the private folder of an agent on this machine, which may not exist yet.

    Raises:
        Refused: a part of the path is a link.
        StorageError: the vault cannot be written.
    """
    return private_folder(root, owner.folder(Path()).as_posix())


def agent_lock(root: Path, owner: Address, timeout: float = 30.0) -> FileLock:
    """Return the lock for changes to an agent's files.

    Raises:
        Refused: a part of the lock's path is a link.
        StorageError: the vault cannot be written.
    """
    return FileLock(private_folder_of(root, owner) / "lock", timeout)


@contextlib.contextmanager
def locks_for_paths(root: Path, paths: Iterable[str]) -> Iterator[None]:
    """Hold the locks for writing the given files, acquiring the vault's lock last."""
    owners = set()
    for path in paths:
        parts = PurePosixPath(path).parts
        if len(parts) > 1 and parts[0] == "agents":
            agent = parts[1].removesuffix(".md") if len(parts) == 2 else parts[1]
            brain = f"/{parts[3]}" if len(parts) > 4 and parts[2] == "brains" else ""
            with contextlib.suppress(UsageError):  # not a valid agent name
                owners.add(address(f"{agent}{brain}"))
    with contextlib.ExitStack() as locks:
        for owner in sorted(owners):
            locks.enter_context(agent_lock(root, owner))
        locks.enter_context(FileLock(private_folder(root) / "lock"))
        yield
