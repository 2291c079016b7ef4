"""What an agent is after, one file ``agents/<agent>/goals/<slug>.md`` each."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from memvault.agents.address import Address
from memvault.agents.entries import AgentFileStore, AgentFileUpdate, one_line
from memvault.errors import UsageError
from memvault.vault.store import MemoryStore

ACTIVE = "active"
_WORD = re.compile(r"\w[\w-]{0,39}")


class Goal(NamedTuple):
    """A goal; a file that does not name its status is an active one."""

    id: str
    description: str
    status: str = ""
    modified: str = ""


def all_goals(store: MemoryStore, address: Address) -> tuple[list[Goal], list[str]]:
    """Return every goal in the order of ids, and what to say of broken files."""
    found = _goal_entries(store, address).read()
    goals = []
    for name, entry in found.entries.items():
        status = str(entry.header.get("status") or ACTIVE).strip().lower()
        goals.append(Goal(name, entry.text.strip(), status, entry.modified))
    return goals, found.notes


def put_goals(store: MemoryStore, address: Address, goals: Iterable[Goal]) -> int:
    """Set goals; what one leaves empty stays as it is; return how many there were.

    The caller holds the agent's lock, and has statuses from ``status_word``.

    Raises:
        UsageError: an id is invalid, or a new goal has no description; nothing is written then.
    """
    entries = _goal_entries(store, address)
    found = entries.read()
    puts: dict[str, AgentFileUpdate] = {}
    for goal in goals:
        name = one_line(goal.id, "A goal's id")
        before = puts.get(name) or found.entries.get(name)
        text = goal.description.strip()
        if not (before or text):
            hint = "; ".join(found.notes) or "say what is to be reached"
            raise UsageError(f"There is no goal {name!r}, and no description for one", hint)
        status = goal.status or (before and before.header.get("status")) or ACTIVE
        text = text or (before.text if before else "")
        puts[name] = AgentFileUpdate(name, found.entries.get(name), {"status": status}, text)
    entries.put(puts.values())
    return len(puts)


def delete_goals(store: MemoryStore, address: Address, ids: Iterable[str]) -> list[str]:
    """Take goals away; return the ids that were not there. The caller holds the agent's lock."""
    return _goal_entries(store, address).delete(ids)


def status_word(text: str) -> str:
    """Return a status as it is kept.

    Raises:
        UsageError: it is no short word.
    """
    plain = text.strip().lower()
    if not _WORD.fullmatch(plain):
        raise UsageError(
            f"{text[:40]!r} cannot be a status", "use one short word: active, completed, dropped"
        )
    return plain


def _goal_entries(store: MemoryStore, address: Address) -> AgentFileStore:
    return AgentFileStore(store, address, "goals", "id")
