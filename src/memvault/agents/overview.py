"""Summarize a vault's agents and their brains."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from memvault import clock
from memvault.agents.address import PRIMARY, Address, agent_names
from memvault.errors import UsageError
from memvault.named_tuple import NamedTuple

_ITEM_FOLDERS = ("memories", "goals", "plans", "inbox")
"""The folders of an agent's files, with one file per item."""


class AgentSummary(NamedTuple):
    """An agent or brain: the number of its items of each kind, and the time of the last change."""

    address: Address
    counts: dict[str, int]
    changed: str


def entries(root: Path) -> list[AgentSummary]:
    """Return all agents in a vault, sorted, each followed by its brains."""
    return [
        _summarize(root, address) for name in agent_names(root) for address in brains(root, name)
    ]


def brains(root: Path, agent: str) -> Iterator[Address]:
    """Yield an agent's main brain, and then its other brains, sorted."""
    main = Address(agent)
    yield main
    with contextlib.suppress(OSError):
        folder = main.folder(root) / "brains"
        for name in sorted(name for name in os.listdir(folder) if (folder / name).is_dir()):
            with contextlib.suppress(UsageError):
                if name != PRIMARY:
                    yield main.of_brain(name)


def _summarize(root: Path, address: Address) -> AgentSummary:
    counts, last = {}, 0
    for kind in _ITEM_FOLDERS:
        times = list(_modification_times(address.folder(root) / kind))
        counts[kind] = len(times)
        last = max([last, *times])
    return AgentSummary(address, counts, clock.iso_from_ns(last) if last else "")


def _modification_times(folder: Path) -> Iterator[int]:
    """Yield the modification time of each markdown file in a folder, in nanoseconds."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.lower().endswith(".md") and entry.is_file(follow_symlinks=False):
                yield entry.stat(follow_symlinks=False).st_mtime_ns
