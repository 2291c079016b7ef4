"""What an agent is to be reminded of, one file ``agents/<agent>/plans/<slug>.md`` each.

A header holds ``id``, ``name``, one of ``cron``, ``runAfter`` and
``scheduledAt``, and ``status``; with ``runAfter`` also ``nextRunAt``, the
moment that the delay came to when it was set. The body is the instruction.
When a plan runs next follows from its file and from what this machine knows of
its runs (``agenda``).
"""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from memvault import clock
from memvault.agents.address import Address
from memvault.agents.entries import AgentFile, AgentFileStore, normal
from memvault.agents.plans.schedule import KINDS, Schedule
from memvault.errors import UsageError
from memvault.vault import codec
from memvault.vault.store import MemoryStore

ACTIVE, COMPLETED, EXPIRED = "active", "completed", "expired"


class Plan(NamedTuple):
    """A plan as its file says; ``since`` is the moment that a delay came to."""

    id: str
    name: str
    instruction: str
    schedule: Schedule
    status: str
    due_at: datetime | None
    entry: AgentFile

    @property
    def once(self) -> bool:
        """Say whether it runs a single time."""
        return self.schedule.kind != "cron"


def all_plans(store: MemoryStore, address: Address) -> tuple[list[Plan], list[str]]:
    """Return every plan in the order of ids, and what to say of broken files.

    Errors as for ``Entries.read``.
    """
    found = entries_of(store, address).read()
    plans, notes = [], found.notes
    for entry in found.entries.values():
        try:
            plans.append(read(entry))
        except UsageError as error:
            notes.append(f"{codec.replace_surrogates(entry.path)} is passed over: {error.message}")
    return plans, notes


def entries_of(store: MemoryStore, address: Address) -> AgentFileStore:
    """Return the folder of an agent's plans."""
    return AgentFileStore(store, address, "plans", "id")


def name_of(entry: AgentFile) -> str:
    """Return a plan's name, which is the file's where the header says none."""
    return normal(str(entry.header.get("name") or entry.name))


def read(entry: AgentFile) -> Plan:
    """Make a plan of a file.

    Raises:
        UsageError: it has no schedule, several, or one that makes no sense.
    """
    header = entry.header
    given = [Schedule(kind, str(header[kind])) for kind in KINDS if header.get(kind) is not None]
    if len(given) != 1:
        raise UsageError(f"it has {len(given)} of {', '.join(KINDS)} and needs exactly one")
    given[0].check()
    return Plan(
        entry.name,
        name_of(entry),
        entry.text.strip(),
        given[0],
        str(header.get("status") or ACTIVE).strip().lower(),
        clock.parse(str(header.get("nextRunAt"))) if given[0].kind == "runAfter" else None,
        entry,
    )
