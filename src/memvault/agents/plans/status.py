"""The status of a plan at a given time, and the header of its file."""

from __future__ import annotations

from datetime import datetime, timedelta, tzinfo
from typing import Any

from memvault import clock
from memvault.agents.plans import schedule
from memvault.agents.plans.plan_files import ACTIVE, COMPLETED, EXPIRED, Plan
from memvault.agents.plans.run_records import RunRecord
from memvault.agents.plans.schedule import KINDS, Schedule
from memvault.errors import UsageError
from memvault.named_tuple import NamedTuple

_MAX_LATENESS = timedelta(days=7)
"""The maximum age of a one-shot time: a new plan with an older time is refused, others expire."""


class PlanRequest(NamedTuple):
    """A plan to set."""

    name: str
    instruction: str
    schedule: Schedule


class PlanStatus(NamedTuple):
    """The state of a plan at a given time; ``status`` may be newer than in its file.

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
        return RunRecord(self.schedule_key, self.next_run, self.last_run, end_written=ended)


def plan_status(plan: Plan, record: RunRecord | None, now: datetime, zone: tzinfo) -> PlanStatus:
    """Compute a plan's status.

    A record belongs to one schedule; if the schedule changes, the plan starts over. A one-shot plan
    is completed after its run, unless the user set it back to active. A one-shot plan expires if
    its time is more than a week before the first check.
    """
    key = _schedule_key(plan, zone)
    has_new_schedule = record is not None and record.schedule_key != key
    if record is None or has_new_schedule:
        record = RunRecord(key)

    last_run = record.last_run

    def status(word: str, next_run: datetime | None = None) -> PlanStatus:
        return PlanStatus(plan, word, next_run, last_run, key)

    starts_again = has_new_schedule and plan.status in (COMPLETED, EXPIRED)
    if plan.status != ACTIVE and not starts_again:
        return status(plan.status)
    if record.next_run is not None:
        return status(ACTIVE, record.next_run)
    due_at = plan.due_at
    if plan.once and last_run is not None:
        if not record.end_written:
            return status(COMPLETED)
        last_run, due_at = None, None  # The user made it active again.
    next_run = due_at or plan.schedule.first(now, zone)
    if next_run is None or (plan.once and next_run < now - _MAX_LATENESS):
        return status(EXPIRED)
    return status(ACTIVE, next_run)


def header_for(
    request: PlanRequest, before: PlanStatus | None, now: datetime, zone: tzinfo
) -> dict[str, Any]:
    """Return the header for the file of a plan to set; ``before`` is the existing plan.

    Setting the same schedule again neither skips a due run nor repeats an earlier one.

    Raises:
        UsageError: the plan is invalid.
    """
    if not request.instruction.strip():
        raise UsageError("it has no instruction", "add an instruction to follow when it is due")
    schedule = request.schedule
    first = schedule.first(now, zone)
    if first is None:
        raise UsageError(
            f"the cron line {schedule.text!r} never matches a date", "check its day and month"
        )
    if schedule.kind == "scheduledAt":
        schedule = schedule._replace(text=clock.iso(first))
    same = before if before is not None and before.plan.schedule == schedule else None
    status, due_at = ACTIVE, None
    if schedule.kind == "scheduledAt":
        if same is not None and same.status == COMPLETED:
            status = COMPLETED
        elif first < now - _MAX_LATENESS and same is None:
            raise UsageError(
                f"{request.schedule.text} is more than a week ago",
                "choose a future time, or one within the last week to run now",
            )
    if schedule.kind == "runAfter":
        waiting_since = same.next_run if same is not None else None
        is_due = waiting_since is not None and waiting_since <= now
        due_at = clock.iso(waiting_since if is_due else first)
    kinds = {**dict.fromkeys(KINDS), schedule.kind: schedule.text}
    return {**kinds, "nextRunAt": due_at, "status": status}


def _schedule_key(plan: Plan, zone: tzinfo) -> str:
    """Return a key for a plan's schedule, including its time zone or due time."""
    text = plan.schedule.text
    if plan.once:
        return f"{text} {clock.iso(plan.due_at)}" if plan.due_at else text
    return f"{text} {zone}"


def due(current: PlanStatus, now: datetime, zone: tzinfo) -> tuple[datetime, PlanStatus] | None:
    """Return the due time of a plan and its status after that run, or None if it is not due.

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
