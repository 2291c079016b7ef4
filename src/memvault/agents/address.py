"""Who keeps something in a vault: its agents and their brains, what each has, and since when."""

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
"""The participant that is a person."""
PRIMARY = "primary"
"""The name of an agent's main brain."""
_LONGEST = 60
_WINDOWS = ("con", "prn", "aux", "nul", "com", "lpt")


class Address(NamedTuple):
    """An agent, or a sub-brain of it; ``brain`` is empty for the main one."""

    agent: str
    brain: str = ""

    def __str__(self) -> str:
        return f"{self.agent}/{self.brain}" if self.brain else self.agent

    def folder(self, root: Path) -> Path:
        """Return the folder of its files in the vault, which travel with git."""
        own = root / "agents" / self.agent
        return own / "brains" / self.brain if self.brain else own

    def private(self, root: Path) -> Path:
        """Return the folder of what is only of this machine."""
        return self.folder(root / ".memvault")

    def of_brain(self, name: str) -> Address:
        """Return the address of a brain of the same agent; ``primary`` is the main one.

        Raises:
            UsageError: the name is invalid, or names another agent's brain.
        """
        found = address(name if "/" in name else f"{self.agent}/{name}")
        if found.agent != self.agent:
            raise UsageError(
                f"{name!r} is a brain of another agent",
                "brains talk to brains of the same agent; talk agent reaches the others",
            )
        return found


def address(text: str) -> Address:
    """Read ``AGENT`` or ``AGENT/BRAIN``.

    Raises:
        UsageError: it cannot be a name.
    """
    agent, slash, brain = text.strip().partition("/")
    main = not slash or brain == PRIMARY
    return Address(_checked(agent, "an agent"), "" if main else _checked(brain, "a sub-brain"))


def alike(root: Path, wanted: Address) -> str:
    """Return the agent of a vault whose name is almost that of one who is not there; else empty."""
    from difflib import get_close_matches

    names = known(root)
    if wanted.agent in (USER, *names):
        return ""
    folded = {name.casefold(): name for name in names}
    near = get_close_matches(wanted.agent.casefold(), list(folded), n=1, cutoff=0.8)
    return folded[near[0]] if near else ""


def known(root: Path) -> list[str]:
    """Return the agents that have a folder in a vault, or a file, in the order of their names."""
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
    """Return a name that can be a folder's on every system."""
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
    """Return the folder of what is an agent's and only of this machine; it may not be there yet.

    Raises:
        Refused: a part of it is a link.
        StorageError: the vault cannot be written.
    """
    private_folder(root)
    folder = owner.private(root)
    require_plain_folders(root, folder.relative_to(root).as_posix())
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


_KEPT = ("memories", "goals", "plans", "inbox")
"""The folders of what an agent has, a file each."""


class AgentSummary(NamedTuple):
    """An agent or a brain of it: how many of each it has, and when one of them was changed last."""

    address: Address
    counts: dict[str, int]
    changed: str


def entries(root: Path) -> list[AgentSummary]:
    """Return every agent of a vault, each before its brains, in the order of their names."""
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
    """Yield when each markdown file of a folder was changed, in nanoseconds."""
    with contextlib.suppress(OSError), os.scandir(folder) as found:
        for entry in found:
            if entry.name.lower().endswith(".md") and entry.is_file(follow_symlinks=False):
                yield entry.stat(follow_symlinks=False).st_mtime_ns
