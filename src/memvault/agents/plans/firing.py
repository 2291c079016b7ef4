"""Plans that are due become events, each run exactly once, without a daemon.

Whoever looks for events holds the agent's lock, fires what is due, and only
then takes events out of the inbox, all within one hold of the lock. The runs
that are due are first entered in this machine's record (``state``) as
``pending``, together with when their plans are due next; then their events are
delivered; then ``pending`` is taken away. A process may be killed between any
two of these steps, and the next one that looks completes what is pending:

- killed before the event was written: it is delivered now, so no run is lost;
- killed after: delivering does nothing, because an event of that id is still
  in the inbox. It cannot have been taken out already: whoever takes events out
  has fired before under the same lock, which clears every ``pending`` or
  raises, and then takes nothing out.

An event is made of nothing but the plan and its moment, so that two machines
that run the same plan write the same file, which git merges.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
from collections.abc import Callable
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Any

from memvault import clock
from memvault.agents.address import Address
from memvault.agents.entries import AgentFileStore
from memvault.agents.locking import private
from memvault.agents.messages.inbox import Inbox
from memvault.agents.messages.services import PLAN
from memvault.agents.plans import agenda, schedule
from memvault.agents.plans import files as plan_files
from memvault.agents.plans import state as plan_state
from memvault.agents.plans.agenda import PlanStatus
from memvault.agents.plans.files import ACTIVE, COMPLETED, EXPIRED, Plan
from memvault.agents.plans.state import PendingRun, RunRecord
from memvault.errors import Conflict, MemvaultError, Refused
from memvault.vault import layout
from memvault.vault.store import MemoryStore

Deliver = Callable[[str, datetime, dict[str, Any]], object]
"""Writes an event under its id; does nothing where there is one of that id."""
_LONGEST_ID = 60


def inbox(
    store: MemoryStore, address: Address, zone: tzinfo, now: Callable[[], datetime] = clock.now
) -> Inbox:
    """Return an agent's inbox, into which its plans are fired whenever someone looks."""

    def deliver(name: str, at: datetime, data: dict[str, Any]) -> None:
        box.deliver(PLAN, data, name, clock.iso(at))

    def due_now() -> list[str]:
        return fire(store, address, now(), zone, deliver)

    def seconds() -> float:
        at = next_due(store, address, zone, now())
        return (at - now()).total_seconds() if at else math.inf

    box = Inbox(store.root, address, due_now, seconds)
    return box


def due(stand: PlanStatus, now: datetime, zone: tzinfo) -> tuple[datetime, PlanStatus] | None:
    """Return the moment that a plan is due for, if any, and how it stands after that run.

    Missed runs of a cron line are one, for the latest moment.
    """
    at = stand.next_run
    if stand.status != ACTIVE or at is None or at > now:
        return None
    if stand.plan.once:
        return at, stand._replace(status=COMPLETED, next_run=None, last_run=at)
    line = stand.plan.schedule.text
    last = schedule.latest(line, now, zone)
    at = max(at, last) if last else at
    following = schedule.next_after(line, now, zone)
    status = ACTIVE if following else EXPIRED
    return at, stand._replace(status=status, next_run=following, last_run=at)


def fire(
    store: MemoryStore, address: Address, now: datetime, zone: tzinfo, deliver: Deliver
) -> list[str]:
    """Deliver an event for every plan that is due; return what to say of plans that cannot run.

    The caller holds the agent's lock.

    Raises:
        MemvaultError: a run was begun and could not be completed; no event may
            be taken out of the inbox then.
    """
    folder = private(store.root, address)
    records = plan_state.load(folder)
    _complete(folder, records, deliver)  # of a look that was cut off
    try:
        plans, notes = plan_files.all_plans(store, address)
    except MemvaultError as error:
        return [f"no plan runs: {error.message}"]
    stands = []
    # What is known of a plan whose file cannot be read just now is kept.
    entered = dict(records) if notes else {}
    for plan in plans:
        stand = agenda.plan_status(plan, records.get(plan.id), now, zone)
        run = due(stand, now, zone)
        if run is not None:
            at, stand = run
        stands.append(stand)
        entered[plan.id] = stand.record._replace(pending=_pending(plan, at) if run else None)
    if entered != records:
        plan_state.save(folder, entered)
    _complete(folder, entered, deliver)
    before = dict(entered)
    notes += _mark(plan_files.entries_of(store, address), stands, entered)
    if entered != before:
        plan_state.save(folder, entered)
    return notes


def next_due(
    store: MemoryStore, address: Address, zone: tzinfo, now: datetime | None = None
) -> datetime | None:
    """Return when the next plan is due, or None; it may be past where an event cannot be written.

    Plans that cannot be read are left out.
    """
    seen = now or clock.now()
    records = plan_state.load(address.private(store.root))
    moments = [record.pending.at for record in records.values() if record.pending]
    with contextlib.suppress(MemvaultError):
        for plan in plan_files.all_plans(store, address)[0]:
            at = agenda.plan_status(plan, records.get(plan.id), seen, zone).next_run
            moments += [at] if at is not None else []
    return min(moments, default=None)


def event_id(plan_id: str, at: datetime) -> str:
    """Return the id of a run's event, which can be a file's name."""
    name = layout.slug(plan_id, _LONGEST_ID)
    if name != plan_id:
        name += "-" + hashlib.blake2b(plan_id.encode(), digest_size=4).hexdigest()
    return f"{clock.iso(at).replace('-', '').replace(':', '')}-{name}"


def _pending(plan: Plan, at: datetime) -> PendingRun:
    data = {
        "planId": plan.id,
        "planName": plan.name,
        "instruction": plan.instruction,
        "scheduledFor": clock.iso(at),
    }
    return PendingRun(event_id(plan.id, at), at, data)


def _complete(folder: Path, records: dict[str, RunRecord], deliver: Deliver) -> None:
    """Deliver the events of runs that are entered, and strike the entries out; else raise."""
    begun = {name: record.pending for name, record in records.items() if record.pending}
    for pending in begun.values():
        deliver(pending.event_id, pending.at, pending.data)
    if begun:
        records.update({name: records[name]._replace(pending=None) for name in begun})
        plan_state.save(folder, records)


def _mark(
    entries: AgentFileStore, stands: list[PlanStatus], records: dict[str, RunRecord]
) -> list[str]:
    """Let files say which plans have ended, or go on again, to people and to other machines.

    Records tell whose files do now; returns what to say of the others.
    """
    notes = []
    for plan, status, *_ in stands:
        if status != plan.status:
            try:
                entries.update_header(plan.entry, {"status": status})
                records[plan.id] = records[plan.id]._replace(marked=True)
            except (Conflict, Refused):
                pass  # a person is just changing it, or wrote a header that cannot be patched
            except MemvaultError as error:
                notes.append(f"{plan.entry.path} does not say {status}: {error.message}")
    return notes
