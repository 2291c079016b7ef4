"""Plans that are due become events, each run exactly once, without a daemon.

Whoever looks for events holds the agent's lock, fires what is due, and only
then takes events out of the inbox, all within one hold of the lock. A run is
first entered in the plan's header as ``pending``, together with when the plan
is due next; then its event is delivered; then ``pending`` is taken away. A
process may be killed between any two of these steps, and the next one that
looks completes what is pending:

- killed before the event was written: it is delivered now, so no run is lost;
- killed after: delivering does nothing, because an event of that id is still
  in the inbox. It cannot have been taken out already: whoever takes events out
  has fired before under the same lock, which clears every ``pending`` or
  raises, and then takes nothing out.

An event is made of nothing but the plan and its moment, so that two machines
that run the same plan write the same file, which git merges.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import datetime, tzinfo
from typing import Any, NamedTuple

from memvault import clock
from memvault.errors import Conflict, MemvaultError
from memvault.vault import layout
from memvault.vault.store import Store
from memvault.work import plans, schedule
from memvault.work.agents import Address
from memvault.work.entries import Entries
from memvault.work.plans import ACTIVE, COMPLETED, EXPIRED, Plan

__all__ = ["Deliver", "Fired", "Firing", "due", "event_id", "fire", "next_due"]

Deliver = Callable[[str, datetime, dict[str, Any]], None]
"""Writes an event under its id; does nothing where there is one of that id."""
_ATTEMPTS = 5
_LONGEST_ID = 60


class Firing(NamedTuple):
    """A run of a plan: the moment it is for, and what is to be done afterwards."""

    at: datetime
    next_run: datetime | None
    status: str


class Fired(NamedTuple):
    """The events that were delivered, and what to say of plans that could not run."""

    events: list[str]
    notes: list[str]


def due(plan: Plan, now: datetime, zone: tzinfo) -> Firing | None:
    """Return the run that a plan is due for, if any; missed runs of a cron line are one."""
    if plan.status != ACTIVE or plan.next_run is None or plan.next_run > now:
        return None
    if plans.stale(plan, zone):
        return None
    if plan.schedule.kind != "cron":
        return Firing(plan.next_run, None, COMPLETED)
    last = schedule.latest(plan.schedule.text, now, zone)
    following = schedule.next_after(plan.schedule.text, now, zone)
    at = max(plan.next_run, last) if last else plan.next_run
    return Firing(at, following, ACTIVE if following else EXPIRED)


def fire(store: Store, address: Address, now: datetime, zone: tzinfo, deliver: Deliver) -> Fired:
    """Deliver an event for every plan that is due. The caller holds the agent's lock.

    A plan whose file cannot be written does not run, and is named in the notes.

    Raises:
        MemvaultError: a run was begun and could not be completed; no event may
            be taken out of the inbox then.
    """
    entries = plans.entries_of(store, address)
    found, notes = plans.all_plans(store, address)
    begun = [plan for plan in found if plan.pending is not None]
    events = [_complete(entries, plan, plan.pending, deliver) for plan in begun if plan.pending]
    if begun:
        found, notes = plans.all_plans(store, address)
    for plan in found:
        try:
            at = _entered(entries, plan, now, zone)
        except Conflict:
            continue  # a person is just changing it; the next look sees the change
        except MemvaultError as error:
            notes.append(f"the plan {plan.name!r} does not run: {error.message}")
            continue
        if at is not None:
            events.append(_complete(entries, plan, at, deliver))
    return Fired(events, notes)


def next_due(
    store: Store, address: Address, zone: tzinfo, now: datetime | None = None
) -> datetime | None:
    """Return when the next plan is due, or None; it may be past where a plan cannot run."""
    moments: list[datetime] = []
    for plan in plans.upcoming(store, address, now or clock.now(), zone)[0]:
        if plan.pending is not None:
            moments.append(plan.pending)
        elif plan.status == ACTIVE and plan.next_run is not None:
            moments.append(plan.next_run)
    return min(moments, default=None)


def event_id(plan_id: str, at: datetime) -> str:
    """Return the id of a run's event, which can be a file's name."""
    name = layout.slug(plan_id, _LONGEST_ID)
    if name != plan_id:
        name += "-" + hashlib.blake2b(plan_id.encode(), digest_size=4).hexdigest()
    return f"{clock.iso(at).replace('-', '').replace(':', '')}-{name}"


def _entered(entries: Entries, plan: Plan, now: datetime, zone: tzinfo) -> datetime | None:
    """Write into a plan's header what is due and when it is due next; return the moment."""
    lines = plans.planned(plan, now, zone)
    firing = due(plans.timed(plan, now, zone), now, zone)
    if firing is not None:
        lines |= {
            "nextRunAt": clock.iso(firing.next_run) if firing.next_run else None,
            "status": firing.status,
            "lastRunAt": clock.iso(firing.at),
            "pending": clock.iso(firing.at),
        }
        if firing.next_run is None:
            lines["nextRunFor"] = None
    if lines:
        entries.change(plan.entry, lines)
    return firing.at if firing else None


def _complete(entries: Entries, plan: Plan, at: datetime, deliver: Deliver) -> str:
    """Deliver the event of a run that is entered, and strike the entry out.

    Raises:
        MemvaultError: one of both was not possible.
    """
    name = event_id(plan.id, at)
    data = {
        "planId": plan.id,
        "planName": plan.name,
        "instruction": plan.instruction,
        "scheduledFor": clock.iso(at),
    }
    deliver(name, at, data)
    for attempt in range(_ATTEMPTS):
        entry = entries.again(plan.entry)
        if entry is None or "pending" not in entry.header:
            break
        try:
            entries.change(entry, {"pending": None})
        except Conflict:  # an editor came in between
            if attempt == _ATTEMPTS - 1:
                raise
        else:
            break
    return name
