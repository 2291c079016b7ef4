"""When an agent's plans run: what their files say, seen with what this machine knows of runs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, NamedTuple

from memvault import clock
from memvault.agents.address import Address
from memvault.agents.entries import AgentFile, AgentFileUpdate, normal, one_line
from memvault.agents.locking import private
from memvault.agents.plans import files as plan_files
from memvault.agents.plans import state as plan_state
from memvault.agents.plans.files import ACTIVE, COMPLETED, EXPIRED, Plan
from memvault.agents.plans.schedule import KINDS, Schedule
from memvault.agents.plans.state import RunRecord
from memvault.errors import UsageError
from memvault.vault import layout
from memvault.vault.store import MemoryStore

_TOO_LATE = timedelta(days=7)
"""A moment further back is a mistake when it is asked for, and has passed when it is found."""
_NEVER = datetime.max.replace(tzinfo=UTC)


class PlanRequest(NamedTuple):
    """A plan as a caller asks for it."""

    name: str
    instruction: str
    schedule: Schedule


class PlanStatus(NamedTuple):
    """How a plan stands at some moment; ``status`` may be ahead of what its file says.

    ``basis`` is what the next run follows from.
    """

    plan: Plan
    status: str
    next_run: datetime | None
    last_run: datetime | None
    schedule_key: str

    @property
    def record(self) -> RunRecord:
        """What is to be kept of it."""
        ended = self.status != ACTIVE and self.plan.status == self.status
        return RunRecord(self.schedule_key, self.next_run, self.last_run, marked=ended)


def plan_status(plan: Plan, record: RunRecord | None, now: datetime, zone: tzinfo) -> PlanStatus:
    """Work out how a plan stands.

    What is recorded counts as long as the schedule is the one that it was
    recorded for. Another schedule, or an end taken back in the file, begins
    anew from now. A one-shot's moment that had passed more than a week before
    anyone looked is not made up for.
    """
    basis = _basis(plan, zone)
    known = record if record is not None and record.schedule_key == basis else None
    last = known.last_run if known else None
    changed = record is not None and known is None
    if plan.status != ACTIVE and not (changed and plan.status in (COMPLETED, EXPIRED)):
        return PlanStatus(plan, plan.status, None, last, basis)
    if known is not None and known.next_run is not None:
        return PlanStatus(plan, ACTIVE, known.next_run, last, basis)
    first = plan.due_at
    if plan.once and last is not None:
        if known is None or not known.marked:
            return PlanStatus(plan, COMPLETED, None, last, basis)
        first, last = None, None  # a person made it active again
    first = first or plan.schedule.first(now, zone)
    if first is None or (plan.once and first < now - _TOO_LATE):
        return PlanStatus(plan, EXPIRED, None, last, basis)
    return PlanStatus(plan, ACTIVE, first, last, basis)


def list_plans(
    store: MemoryStore, address: Address, now: datetime, zone: tzinfo
) -> tuple[list[PlanStatus], list[str]]:
    """Return how every plan stands, the next due first, and what to say of broken files.

    Errors as for ``Entries.read``.
    """
    found, notes = plan_files.all_plans(store, address)
    records = plan_state.load(address.private(store.root))
    stands = [plan_status(plan, records.get(plan.id), now, zone) for plan in found]
    return sorted(
        stands, key=lambda stand: (stand.status != ACTIVE, stand.next_run or _NEVER, stand.plan.id)
    ), notes


def put(
    store: MemoryStore, address: Address, wanted: Iterable[PlanRequest], now: datetime, zone: tzinfo
) -> list[PlanStatus]:
    """Set plans, over those of the same name; return how they stand now.

    All are checked before the first is written. An agent may set the plans that
    it has whenever it begins: that neither skips a run that is due nor repeats
    one that was. The caller holds the agent's lock.

    Raises:
        UsageError: a plan makes no sense; nothing is written then.
    """
    folder = private(store.root, address)
    records = plan_state.load(folder)
    entries = plan_files.entries_of(store, address)
    known: dict[str, AgentFile] = {}
    taken = entries.read().entries
    for entry in taken.values():
        known.setdefault(plan_files.name_of(entry), entry)
    puts: dict[str, AgentFileUpdate] = {}
    for plan in wanted:
        name = one_line(plan.name, "A plan's name")
        old = known.get(name)
        before = None
        if old is not None:
            with contextlib.suppress(UsageError):
                before = plan_status(plan_files.read(old), records.get(old.name), now, zone)
        header = {"name": name, **_lines(plan, name, before, now, zone)}
        fresh = layout.id_from_name(name)
        plan_id = old.name if old else fresh if fresh not in taken else layout.new_id(name)
        puts[name] = AgentFileUpdate(plan_id, old, header, plan.instruction.strip(), stem=name)
    entries.put(puts.values())
    now_there = {plan.id: plan for plan in plan_files.all_plans(store, address)[0]}
    ids = [entry.name for entry in puts.values() if entry.name in now_there]
    stands = [plan_status(now_there[name], records.get(name), now, zone) for name in ids]
    plan_state.save(folder, records | {stand.plan.id: stand.record for stand in stands})
    return stands


def remove_plans(store: MemoryStore, address: Address, wanted: Iterable[str]) -> list[str]:
    """Take plans away by their ids or exact names; return those that were not there.

    The caller holds the agent's lock.
    """
    entries = plan_files.entries_of(store, address)
    there = entries.read().entries
    meant = {plan_files.name_of(entry): name for name, entry in there.items()}
    meant |= {name: name for name in there}
    ids = {given: meant.get(normal(given), given) for given in wanted}
    missing = set(entries.delete(ids.values()))
    folder = private(store.root, address)
    records = plan_state.load(folder)
    left = {plan_id: kept for plan_id, kept in records.items() if plan_id not in ids.values()}
    if left != records:
        plan_state.save(folder, left)
    return [given for given, plan_id in ids.items() if plan_id in missing]


def _lines(
    wanted: PlanRequest, name: str, before: PlanStatus | None, now: datetime, zone: tzinfo
) -> dict[str, Any]:
    """Return the lines of a plan's header; errors as for ``put``."""
    if not wanted.instruction.strip():
        raise UsageError(f"The plan {name!r} has no instruction", "say what is to be done then")
    schedule = wanted.schedule
    first = schedule.first(now, zone)
    if first is None:
        raise UsageError(
            f"The cron line {schedule.text!r} never matches a date",
            "look at its day and month",
        )
    if schedule.kind == "scheduledAt":
        schedule = schedule._replace(text=clock.iso(first))
    again = before if before is not None and before.plan.schedule == schedule else None
    status, since = ACTIVE, None
    if schedule.kind == "scheduledAt":
        if again is not None and again.status == COMPLETED:
            status = COMPLETED
        elif first < now - _TOO_LATE and again is None:
            raise UsageError(
                f"{wanted.schedule.text} is more than a week ago",
                "a moment of the last days is due at once; choose a later one",
            )
    if schedule.kind == "runAfter":
        waiting = again.next_run if again is not None else None
        since = clock.iso(waiting if waiting is not None and waiting <= now else first)
    kinds = {**dict.fromkeys(KINDS), schedule.kind: schedule.text}
    return {**kinds, "nextRunAt": since, "status": status}


def _basis(plan: Plan, zone: tzinfo) -> str:
    """Return what the next run follows from."""
    text = plan.schedule.text
    if plan.once:
        return f"{text} {clock.iso(plan.due_at)}" if plan.due_at else text
    return f"{text} {zone}"
