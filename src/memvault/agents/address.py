"""Addresses of agents and their brains, their folders and locks, and an overview of them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from memvault import clock
from memvault.errors import UsageError
from memvault.files.lock import FileLock
from memvault.vault.file_names import normalize
from memvault.vault.paths import private_folder, require_plain_folders

USER = "user"
"""The participant that is a human."""
PRIMARY = "primary"
"""The name of an agent's main brain."""
_LONGEST = 60
_WINDOWS = ("con", "prn", "aux", "nul", "com", "lpt")


class Address(NamedTuple):
    """The address of an agent or one of its sub-brains; ``brain`` is empty for the main one."""

    agent: str
    brain: str = ""

    def __str__(self) -> str:
        return f"{self.agent}/{self.brain}" if self.brain else self.agent

    def folder(self, root: Path) -> Path:
        """Return the folder of its files in the vault, which are synced by git."""
        own = root / "agents" / self.agent
        return own / "brains" / self.brain if self.brain else own

    def private(self, root: Path) -> Path:
        """Return the folder of its files that belong to this machine only."""
        return self.folder(root / ".memvault")

    def of_brain(self, name: str) -> Address:
        """Return the address of a brain of the same agent; ``primary`` is the main one.

        Raises:
            UsageError: the name is invalid, or is that of another agent's brain.
        """
        found = address(name if "/" in name else f"{self.agent}/{name}")
        if found.agent != self.agent:
            raise UsageError(
                f"{name!r} is a brain of another agent",
                "brains talk to brains of the same agent; talk agent reaches the others",
            )
        return found


def address(text: str) -> Address:
    """Parse ``AGENT`` or ``AGENT/BRAIN``.

    Raises:
        UsageError: the name is invalid.
    """
    agent, slash, brain = text.strip().partition("/")
    main = not slash or brain == PRIMARY
    return Address(_checked(agent, "an agent"), "" if main else _checked(brain, "a sub-brain"))


def alike(root: Path, wanted: Address) -> str:
    """Return the vault's agent with a name close to that of an unknown one; empty if none."""
    from difflib import get_close_matches

    names = known(root)
    if wanted.agent in (USER, *names):
        return ""
    folded = {name.casefold(): name for name in names}
    near = get_close_matches(wanted.agent.casefold(), list(folded), n=1, cutoff=0.8)
    return folded[near[0]] if near else ""


def known(root: Path) -> list[str]:
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


def _checked(name: str, what: str) -> str:
    """Return a name after checking that it can be a folder's on every system."""
    plain = normalize("NFC", name.strip())
    size = len(plain.encode("utf-8", "surrogatepass"))
    fits = plain and size <= _LONGEST and plain[0].isalnum()
    if not fits or not all(char.isalnum() or char in "-_." for char in plain):
        shown = name if len(name) <= _LONGEST else f"{name[:_LONGEST]}..."
        raise UsageError(
            f"{shown!r} cannot be the name of {what}",
            "use up to 60 letters, digits, hyphens, dots and underscores",
        )
    stem = plain.lower().split(".")[0].rstrip("0123456789")
    if plain.endswith(".") or stem in _WINDOWS:
        raise UsageError(f"{name!r} is a name that some systems reserve", "use another")
    return plain


def private(root: Path, owner: Address) -> Path:
    """Return the private folder of an agent on this machine, which may not exist yet.

    Raises:
        Refused: a part of the path is a link.
        StorageError: the vault cannot be written.
    """
    private_folder(root)
    folder = owner.private(root)
    require_plain_folders(root, folder.relative_to(root).as_posix())
    return folder


def agent_lock(root: Path, owner: Address, timeout: float = 30.0) -> FileLock:
    """Return the lock for changes to an agent's files; raises as ``private`` does."""
    return FileLock(private(root, owner) / "lock", timeout)


def locks_for_paths(root: Path, paths: Iterable[str]) -> Iterator[FileLock]:
    """Yield the locks of all writers of the given files, in the order to acquire them.

    The agents' locks come first, the vault's last. Raises as ``private`` does.
    """
    owners = set()
    for path in paths:
        parts = PurePosixPath(path).parts
        if len(parts) > 1 and parts[0] == "agents":
            own = parts[1].removesuffix(".md") if len(parts) == 2 else parts[1]
            brain = f"/{parts[3]}" if len(parts) > 4 and parts[2] == "brains" else ""
            with contextlib.suppress(UsageError):  # not a valid name of an agent
                owners.add(address(f"{own}{brain}"))
    for owner in sorted(owners):
        yield agent_lock(root, owner)
    yield FileLock(private_folder(root) / "lock")


_KEPT = ("memories", "goals", "plans", "inbox")
"""The folders of an agent's files, one file for each item."""


class AgentSummary(NamedTuple):
    """An agent or brain: the number of its items of each kind, and the last change of one."""

    address: Address
    counts: dict[str, int]
    changed: str


def entries(root: Path) -> list[AgentSummary]:
    """Return every agent of a vault, sorted, each followed by its brains."""
    return [_entry(root, address) for name in known(root) for address in _brains(root, name)]


def _brains(root: Path, agent: str) -> Iterator[Address]:
    own = Address(agent)
    yield own
    with contextlib.suppress(OSError):
        folder = own.folder(root) / "brains"
        for name in sorted(name for name in os.listdir(folder) if (folder / name).is_dir()):
            with contextlib.suppress(UsageError):
                if name != PRIMARY:
                    yield own.of_brain(name)


def _entry(root: Path, address: Address) -> AgentSummary:
    counts, last = {}, 0
    for kind in _KEPT:
        times = list(_times(address.folder(root) / kind))
        counts[kind] = len(times)
        last = max([last, *times])
    return AgentSummary(address, counts, clock.iso_from_ns(last) if last else "")


def _times(folder: Path) -> Iterator[int]:
    """Yield the modification time of each markdown file in a folder, in nanoseconds."""
    with contextlib.suppress(OSError), os.scandir(folder) as found:
        for entry in found:
            if entry.name.lower().endswith(".md") and entry.is_file(follow_symlinks=False):
                yield entry.stat(follow_symlinks=False).st_mtime_ns
