"""Who is meant by a name: an agent, one of its sub-brains, or the user."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from memvault.errors import UsageError
from memvault.vault.normal_form import normalize

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
