"""The status of a plan at a given time: when it is due, and its header."""

from __future__ import annotations

from datetime import datetime, timedelta, tzinfo
from typing import Any, NamedTuple

from memvault import clock
from memvault.agents.plans import schedule
from memvault.agents.plans.plan_files import ACTIVE, COMPLETED, EXPIRED, Plan
from memvault.agents.plans.run_record import RunRecord
from memvault.agents.plans.schedule import KINDS, Schedule
from memvault.errors import UsageError

_MAX_LATENESS = timedelta(days=7)
"""How long ago a one-shot time may be: beyond that it is refused when set, or has expired."""


class PlanRequest(NamedTuple):
    """A plan to set."""

    name: str
    instruction: str
    schedule: Schedule


class PlanStatus(NamedTuple):
    """The state of a plan at a given time; ``status`` may be newer than the one in its file.

    ``schedule_key`` identifies the schedule of the next run.
    """

    plan: Plan
    status: str
    next_run: datetime | None
    last_run: datetime | None
    schedule_key: str

    @property
    def record(self) -> RunRecord:
        """The record to save for the plan."""
        ended = self.status != ACTIVE and self.plan.status == self.status
        return RunRecord(self.schedule_key, self.next_run, self.last_run, marked=ended)


def plan_status(plan: Plan, record: RunRecord | None, now: datetime, zone: tzinfo) -> PlanStatus:
    """Compute the status of a plan.

    The record counts while the schedule is the one it was made for. With another schedule, or if
    the end of the plan was undone in the file, the plan starts again from now. A one-shot time that
    had passed by more than a week when first checked has expired.
    """
    key = _schedule_key(plan, zone)
    known = record if record is not None and record.schedule_key == key else None
    last = known.last_run if known else None
    changed = record is not None and known is None
    if plan.status != ACTIVE and not (changed and plan.status in (COMPLETED, EXPIRED)):
        return PlanStatus(plan, plan.status, None, last, key)
    if known is not None and known.next_run is not None:
        return PlanStatus(plan, ACTIVE, known.next_run, last, key)
    first = plan.due_at
    if plan.once and last is not None:
        if known is None or not known.marked:
            return PlanStatus(plan, COMPLETED, None, last, key)
        first, last = None, None  # the user made it active again
    first = first or plan.schedule.first(now, zone)
    if first is None or (plan.once and first < now - _MAX_LATENESS):
        return PlanStatus(plan, EXPIRED, None, last, key)
    return PlanStatus(plan, ACTIVE, first, last, key)


def header_for(
    wanted: PlanRequest, before: PlanStatus | None, now: datetime, zone: tzinfo
) -> dict[str, Any]:
    """Return the header values of a plan; raises as ``AgentPlans.set`` does."""
    if not wanted.instruction.strip():
        raise UsageError("it has no instruction", "say what is to be done then")
    schedule = wanted.schedule
    first = schedule.first(now, zone)
    if first is None:
        raise UsageError(
            f"the cron line {schedule.text!r} never matches a date",
            "look at its day and month",
        )
    if schedule.kind == "scheduledAt":
        schedule = schedule._replace(text=clock.iso(first))
    again = before if before is not None and before.plan.schedule == schedule else None
    status, since = ACTIVE, None
    if schedule.kind == "scheduledAt":
        if again is not None and again.status == COMPLETED:
            status = COMPLETED
        elif first < now - _MAX_LATENESS and again is None:
            raise UsageError(
                f"{wanted.schedule.text} is more than a week ago",
                "a moment of the last days is due at once; choose a later one",
            )
    if schedule.kind == "runAfter":
        waiting = again.next_run if again is not None else None
        since = clock.iso(waiting if waiting is not None and waiting <= now else first)
    kinds = {**dict.fromkeys(KINDS), schedule.kind: schedule.text}
    return {**kinds, "nextRunAt": since, "status": status}


def _schedule_key(plan: Plan, zone: tzinfo) -> str:
    """Return the key of a plan's schedule, from which the next run follows."""
    text = plan.schedule.text
    if plan.once:
        return f"{text} {clock.iso(plan.due_at)}" if plan.due_at else text
    return f"{text} {zone}"


def due(current: PlanStatus, now: datetime, zone: tzinfo) -> tuple[datetime, PlanStatus] | None:
    """Return the time for which a plan is due, if it is, and its status after that run.

    Missed runs of a cron line are merged into one, for the latest time.
    """
    at = current.next_run
    if current.status != ACTIVE or at is None or at > now:
        return None
    if current.plan.once:
        return at, current._replace(status=COMPLETED, next_run=None, last_run=at)
    line = current.plan.schedule.text
    last = schedule.latest(line, now, zone)
    at = max(at, last) if last else at
    following = schedule.next_after(line, now, zone)
    status_after = ACTIVE if following else EXPIRED
    return at, current._replace(status=status_after, next_run=following, last_run=at)
