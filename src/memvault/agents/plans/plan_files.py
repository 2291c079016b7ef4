"""Parse plans from their files."""

from __future__ import annotations

from datetime import datetime

from memvault import clock
from memvault.agents.agent_files import AgentFile, normalize_name
from memvault.agents.plans.schedule import KINDS, Schedule
from memvault.errors import UsageError
from memvault.named_tuple import NamedTuple

ACTIVE, COMPLETED, EXPIRED = "active", "completed", "expired"


class Plan(NamedTuple):
    """A plan as stored in its file; ``due_at`` is the due time computed from a delay."""

    id: str
    name: str
    instruction: str
    schedule: Schedule
    status: str
    due_at: datetime | None
    entry: AgentFile

    @property
    def once(self) -> bool:
        """Whether it runs only once."""
        return self.schedule.kind != "cron"


def plan_name(entry: AgentFile) -> str:
    """Return a plan's name, which defaults to its file's name."""
    return normalize_name(str(entry.header.get("name") or entry.name))


def parse_plan(entry: AgentFile) -> Plan:
    """Parse a plan from its file.

    Raises:
        UsageError: the plan has no schedule, several schedules, or an invalid schedule.
    """
    header = entry.header
    schedules = [
        Schedule(kind, str(header[kind])) for kind in KINDS if header.get(kind) is not None
    ]
    if len(schedules) != 1:
        raise UsageError(f"set exactly one of {', '.join(KINDS)} (found {len(schedules)})")
    schedules[0].check()
    return Plan(
        entry.name,
        plan_name(entry),
        entry.text.strip(),
        schedules[0],
        str(header.get("status") or ACTIVE).strip().lower(),
        clock.parse(str(header.get("nextRunAt"))) if schedules[0].kind == "runAfter" else None,
        entry,
    )
