"""Who keeps something in a vault: its agents and their brains, what each has, and since when."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from memvault import clock
from memvault.agents.address import PRIMARY, Address, known
from memvault.errors import UsageError

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
