"""What an agent is to be reminded of, one file ``agents/<agent>/plans/<slug>.md`` each.

A header holds ``id``, ``name``, one of ``cron``, ``runAfter`` and
``scheduledAt``, ``status``, and what the program works out: ``nextRunAt``,
``nextRunFor`` (the schedule that it was worked out from; if a person has
changed that by hand, it is worked out again) and ``lastRunAt``. ``pending`` is
there only while a run is on its way to the inbox (``work.firing``). The body
is the instruction.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, NamedTuple

from memvault import clock
from memvault.errors import UsageError
from memvault.vault import codec, layout
from memvault.vault.store import Store
from memvault.work.agents import Address
from memvault.work.entries import Entries, Entry, one_line
from memvault.work.schedule import KINDS, Schedule

__all__ = [
    "ACTIVE",
    "COMPLETED",
    "EXPIRED",
    "Plan",
    "Wanted",
    "all_plans",
    "delete",
    "entries_of",
    "planned",
    "put",
    "stale",
    "timed",
    "upcoming",
]

ACTIVE, COMPLETED, EXPIRED = "active", "completed", "expired"
_TOO_LATE = timedelta(days=7)
"""A moment further back is a mistake when it is asked for, and has passed when it is found."""


class Plan(NamedTuple):
    """A plan as its file says; ``next_run`` is None where it is to be worked out."""

    id: str
    name: str
    instruction: str
    schedule: Schedule
    status: str
    next_run: datetime | None
    next_run_for: str
    last_run: datetime | None
    pending: datetime | None
    entry: Entry


class Wanted(NamedTuple):
    """A plan as a caller asks for it."""

    name: str
    instruction: str
    schedule: Schedule


def all_plans(store: Store, address: Address) -> tuple[list[Plan], list[str]]:
    """Return every plan, the next due first, and what to say of broken files."""
    found = entries_of(store, address).read()
    plans, notes = [], found.notes
    for entry in found.entries.values():
        try:
            plans.append(_plan(entry))
        except UsageError as error:
            notes.append(f"{codec.printable(entry.path)} is passed over: {error.message}")
    return sorted(plans, key=_order), notes


def upcoming(
    store: Store, address: Address, now: datetime, zone: tzinfo
) -> tuple[list[Plan], list[str]]:
    """Return the same as ``all_plans``, the next runs of new and changed plans worked out."""
    plans, notes = all_plans(store, address)
    return sorted((timed(plan, now, zone) for plan in plans), key=_order), notes


def _order(plan: Plan) -> tuple[bool, datetime, str]:
    never = datetime.max.replace(tzinfo=UTC)
    return plan.status != ACTIVE, plan.next_run or never, plan.id


def put(
    store: Store, address: Address, wanted: Iterable[Wanted], now: datetime, zone: tzinfo
) -> list[Plan]:
    """Set plans, over those of the same name; return them as they are now.

    All are checked before the first is written. The caller holds the agent's lock.

    Raises:
        UsageError: a plan makes no sense; nothing is written then.
    """
    checked = {plan.name: (plan, header) for plan, header in _checked(wanted, now, zone)}
    entries = entries_of(store, address)
    known: dict[str, Entry] = {}
    for entry in entries.read().entries.values():
        known.setdefault(_name(entry), entry)
    ids = []
    for name, (plan, header) in checked.items():
        old = known.get(name)
        plan_id = old.name if old else layout.new_id(name)
        header |= _unchanged(old, plan.schedule, zone) if old else {}
        entries.put(plan_id, old, header, plan.instruction, stem=name)
        ids.append(plan_id)
    plans = {plan.id: plan for plan in all_plans(store, address)[0]}
    return [plans[plan_id] for plan_id in ids if plan_id in plans]


def _checked(
    wanted: Iterable[Wanted], now: datetime, zone: tzinfo
) -> Iterator[tuple[Wanted, dict[str, Any]]]:
    """Yield plans as they are kept, each with its header; errors as for ``put``."""
    for plan in wanted:
        name = one_line(plan.name, "A plan's name")
        instruction = plan.instruction.strip()
        if not instruction:
            raise UsageError(f"The plan {name!r} has no instruction", "say what is to be done then")
        schedule = plan.schedule
        first = schedule.first(now, zone)
        if first is None:
            raise UsageError(
                f"The time of the cron line {schedule.text!r} never comes",
                "look at its day and month",
            )
        if schedule.kind == "scheduledAt":
            if first < now - _TOO_LATE:
                raise UsageError(
                    f"{schedule.text} is more than a week ago",
                    "a moment of the last days is due at once; choose a later one",
                )
            schedule = schedule._replace(text=clock.iso(first))
        lines = {**dict.fromkeys(KINDS), schedule.kind: schedule.text}
        header = {"name": name, **lines, "status": ACTIVE, **_timing(schedule, first, zone)}
        yield Wanted(name, instruction, schedule), header


def _unchanged(old: Entry, schedule: Schedule, zone: tzinfo) -> dict[str, Any]:
    """Return what stays as it was of a plan that is set again with the schedule that it has.

    An agent may set its plans whenever it begins: that neither skips a run that
    is due nor repeats one that was.
    """
    try:
        before = _plan(old)
    except UsageError:
        return {}
    if schedule.kind == "cron" and before.schedule == schedule and before.status == ACTIVE:
        return {} if stale(before, zone) else _timing(schedule, before.next_run, zone)
    if schedule.kind == "scheduledAt" and before.last_run == schedule.first(clock.now(), zone):
        return {"status": COMPLETED, "nextRunAt": None, "nextRunFor": None}
    return {}


def delete(store: Store, address: Address, ids: Iterable[str]) -> list[str]:
    """Take plans away; return the ids that were not there. The caller holds the agent's lock."""
    return entries_of(store, address).delete(ids)


def stale(plan: Plan, zone: tzinfo) -> bool:
    """Say whether an active plan's next run is to be worked out."""
    changed = plan.next_run_for and plan.next_run_for != _basis(plan.schedule, zone)
    return plan.status == ACTIVE and (plan.next_run is None or bool(changed))


def planned(plan: Plan, now: datetime, zone: tzinfo) -> dict[str, Any]:
    """Return the header lines that a plan lacks because a person wrote or changed it.

    A one-shot's moment that passed more than a week before anyone looked is
    not made up for.
    """
    if plan.status != ACTIVE:
        return {}
    if not stale(plan, zone):
        return {} if plan.next_run_for else {"nextRunFor": _basis(plan.schedule, zone)}
    first = plan.schedule.first(now, zone)
    if first is None or first < now - _TOO_LATE:
        return {"status": EXPIRED, "nextRunAt": None, "nextRunFor": None}
    return _timing(plan.schedule, first, zone)


def timed(plan: Plan, now: datetime, zone: tzinfo) -> Plan:
    """Return a plan with what ``planned`` would write into it."""
    lines = planned(plan, now, zone)
    at = clock.parse(lines["nextRunAt"] or "") if "nextRunAt" in lines else plan.next_run
    basis = lines.get("nextRunFor", plan.next_run_for) or ""
    status = lines.get("status", plan.status)
    return plan._replace(next_run=at, next_run_for=basis, status=status)


def entries_of(store: Store, address: Address) -> Entries:
    """Return the folder of an agent's plans."""
    return Entries(store, address.folder(store.root) / "plans", "id")


def _timing(schedule: Schedule, first: datetime | None, zone: tzinfo) -> dict[str, Any]:
    at = None if first is None else clock.iso(first)
    return {"nextRunAt": at, "nextRunFor": _basis(schedule, zone)}


def _basis(schedule: Schedule, zone: tzinfo) -> str:
    """Return what the next run follows from."""
    return f"{schedule.text} {zone}" if schedule.kind == "cron" else schedule.text


def _name(entry: Entry) -> str:
    return str(entry.header.get("name") or entry.name).strip()


def _plan(entry: Entry) -> Plan:
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
        _name(entry),
        entry.text.strip(),
        given[0],
        str(header.get("status") or ACTIVE).strip().lower(),
        _moment(header.get("nextRunAt")),
        str(header.get("nextRunFor") or ""),
        _moment(header.get("lastRunAt")),
        _moment(header.get("pending")),
        entry,
    )


def _moment(value: Any) -> datetime | None:
    return clock.parse(str(value)) if isinstance(value, str | int) else None
