"""Read and write the goals of an agent."""

from __future__ import annotations

from collections.abc import Iterable

from memvault.agents.address import Address
from memvault.agents.agent_files import AgentFileStore, AgentFileUpdate, one_line
from memvault.errors import UsageError
from memvault.lazy_pattern import lazy_pattern
from memvault.named_tuple import NamedTuple
from memvault.sanitize import quote_argument, shorten
from memvault.store.memory_store import MemoryStore

ACTIVE = "active"
_STATUS_WORD = lazy_pattern(r"\w[\w-]{0,39}")


class Goal(NamedTuple):
    """A goal; if ``status`` is None, it keeps the status in its file, or starts as active."""

    id: str
    description: str
    status: str | None = None
    modified: str = ""


def all_goals(store: MemoryStore, address: Address) -> tuple[list[Goal], list[str]]:
    """Return every goal sorted by id, and notes about skipped files."""
    current = goals_of(store, address).read()
    goals = []
    for name, entry in current.entries.items():
        status = str(entry.header.get("status") or ACTIVE).strip().lower()
        goals.append(Goal(name, entry.text.strip(), status, entry.modified))
    return goals, current.notes


def set_goals(store: MemoryStore, address: Address, goals: Iterable[Goal]) -> int:
    """Write goals, keeping fields that are left empty, and return their number.

    Raises:
        UsageError: an id or a status is invalid, or a new goal has no description; nothing is
            written.
    """
    entries = goals_of(store, address)
    puts: dict[str, AgentFileUpdate] = {}
    with entries.lock():
        current = entries.read()
        for goal in goals:
            name = one_line(goal.id, "A goal's id")
            before = puts.get(name) or current.entries.get(name)
            text = goal.description.strip() or (before.text if before else "")
            if not (before or text):
                hint = (
                    "; ".join(current.notes)
                    or f"run `memvault goals set {quote_argument(name)} DESCRIPTION`"
                )
                raise UsageError(f"There is no goal {name!r}; a new goal needs a description", hint)
            old_status = before.header.get("status") if before else None
            status = old_status or ACTIVE if goal.status is None else status_word(goal.status)
            puts[name] = AgentFileUpdate(name, current.entries.get(name), {"status": status}, text)
        entries.put(puts.values())
    return len(puts)


def status_word(text: str) -> str:
    """Return a status in its stored form.

    Raises:
        UsageError: the status is not one short word.
    """
    word = text.strip().lower()
    if not _STATUS_WORD.fullmatch(word):
        raise UsageError(
            f"{shorten(text, 40)!r} is not a valid status",
            "use one short word, such as active, completed or dropped",
        )
    return word


def goals_of(store: MemoryStore, address: Address) -> AgentFileStore:
    """Return the store of an agent's goals."""
    return AgentFileStore(store, address, "goals", "id")
