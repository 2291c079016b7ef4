"""Deliver due plans as events, each run exactly once, without a daemon.

A reader of events acquires the agent's lock, delivers due runs, removes events from the inbox, and
only then releases the lock. The due runs are first saved in this machine's record as ``pending``,
together with the next due time of their plans; then their events are delivered; then ``pending`` is
removed. If a process is killed between any two of these steps, the next reader completes the
pending runs:

- killed before the event was written: it is delivered now, so no run is lost;
- killed after: delivering does nothing, because an event with that id is still in the inbox. It
  cannot have been removed already: before a reader removes events, it completes the runs under the
  same lock. Completing the runs either clears every ``pending``, or raises an error, and then no
  event is removed.

An event is derived from the plan and its due time only, so that two machines that run the same plan
write the same file, which git merges.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Any

from memvault import clock
from memvault.agents.address import Address, private_folder_of
from memvault.agents.agent_files import (
    AgentFile,
    AgentFileStore,
    AgentFileUpdate,
    normalize_name,
    one_line,
)
from memvault.agents.plans.plan_files import ACTIVE, Plan, parse_plan, plan_name
from memvault.agents.plans.run_records import PendingRun, RunRecord, load, save
from memvault.agents.plans.status import PlanRequest, PlanStatus, due, header_for, plan_status
from memvault.errors import Conflict, MemvaultError, Refused, UsageError
from memvault.files.plain_files import digest_of
from memvault.sanitize import replace_surrogates
from memvault.store.memory_store import MemoryStore
from memvault.vault import naming

_NEVER = datetime.max.replace(tzinfo=UTC)


Deliver = Callable[[str, datetime, dict[str, Any]], object]
"""A function that writes an event under an id, unless an event with that id exists."""
_MAX_ID = 60


def event_id(plan_id: str, at: datetime) -> str:
    """Return the event id of a run, which is a valid file name."""
    name = naming.slug(plan_id, _MAX_ID)
    if name != plan_id:
        name += "-" + digest_of(plan_id.encode(), 4).hex()
    return f"{clock.iso(at).replace('-', '').replace(':', '')}-{name}"


def _pending_run(plan: Plan, at: datetime) -> PendingRun:
    data = {
        "planId": plan.id,
        "planName": plan.name,
        "instruction": plan.instruction,
        "scheduledFor": clock.iso(at),
    }
    return PendingRun(event_id(plan.id, at), at, data)


class AgentPlans:
    """The plans of an agent; ``zone`` is the time zone of cron lines, ``now`` returns the time.

    Under the agent's lock, the time is read only once, after the lock is acquired.
    """

    def __init__(
        self,
        store: MemoryStore,
        address: Address,
        zone: tzinfo,
        now: Callable[[], datetime] = clock.now,
    ) -> None:
        self.store = store
        self.address = address
        self.zone = zone
        self.now = now

    @property
    def files(self) -> AgentFileStore:
        """The store of the plans' files."""
        return AgentFileStore(self.store, self.address, "plans", "id")

    def read(self) -> tuple[list[Plan], list[str]]:
        """Return all plans sorted by id, and notes about skipped files."""
        files = self.files.read()
        plans, notes = [], files.notes
        for entry in files.entries.values():
            try:
                plans.append(parse_plan(entry))
            except UsageError as error:
                notes.append(f"{replace_surrogates(entry.path)} is skipped: {error.message}")
        return plans, notes

    def statuses(self) -> tuple[list[PlanStatus], list[str]]:
        """Return the status of all plans, next due first, and notes about skipped files."""
        plans, notes = self.read()
        records, now = load(self.address.private(self.store.root)), self.now()
        return sorted(
            (self._status(plan, records, now) for plan in plans),
            key=lambda status: (status.status != ACTIVE, status.next_run or _NEVER, status.plan.id),
        ), notes

    def set(self, requests: Iterable[PlanRequest]) -> list[PlanStatus]:
        """Set plans, replacing plans with the same name, and return their status.

        All are checked before the first is written. An agent can set its plans again at every start
        without skipping a due run or repeating an earlier one.

        Raises:
            UsageError: a plan is invalid; nothing is written.
        """
        with self.files.lock():
            records, now = load(self._folder), self.now()
            by_name: dict[str, AgentFile] = {}
            existing = self.files.read().entries
            for entry in existing.values():
                by_name.setdefault(plan_name(entry), entry)
            puts: dict[str, AgentFileUpdate] = {}
            for plan in requests:
                name = one_line(plan.name, "A plan's name")
                old, before = by_name.get(name), None
                if old is not None:
                    with contextlib.suppress(UsageError):
                        before = self._status(parse_plan(old), records, now)
                try:
                    header = {"name": name, **header_for(plan, before, now, self.zone)}
                except UsageError as error:
                    message = f"The plan {name!r} is invalid: {error.message}"
                    raise UsageError(message, error.hint) from error
                fresh = naming.id_from_name(name)
                new_id = fresh if fresh not in existing else naming.new_id(name)
                text = plan.instruction.strip()
                puts[name] = AgentFileUpdate(old.name if old else new_id, old, header, text, name)
            self.files.put(puts.values())
            current = {plan.id: plan for plan in self.read()[0]}
            ids = [entry.name for entry in puts.values() if entry.name in current]
            statuses = [self._status(current[name], records, now) for name in ids]
            save(self._folder, records | {status.plan.id: status.record for status in statuses})
        return statuses

    def delete(self, names: Iterable[str]) -> list[str]:
        """Delete plans by id or exact name, and return the names that were missing."""
        with self.files.lock():
            existing = self.files.read().entries
            ids_by_name = {plan_name(entry): name for name, entry in existing.items()}
            ids_by_name |= {name: name for name in existing}
            ids = {plan: ids_by_name.get(normalize_name(plan), plan) for plan in names}
            missing = set(self.files.delete_locked(ids.values()))
            records = load(self._folder)
            remaining = {key: value for key, value in records.items() if key not in ids.values()}
            if remaining != records:
                save(self._folder, remaining)
        return [plan for plan, plan_id in ids.items() if plan_id in missing]

    def fire(self, deliver: Deliver) -> list[str]:
        """Deliver an event for every due plan; return notes about plans that cannot run.

        The caller must hold the agent's lock.

        Raises:
            MemvaultError: a pending run could not be delivered; the caller must not remove events
                from the inbox.
        """
        records, now = load(self._folder), self.now()
        self._deliver_pending(records, deliver)  # Runs left by an interrupted call.
        try:
            plans, notes = self.read()
        except MemvaultError as error:
            return [f"no plan was run: {error.message}"]
        statuses = []
        # Keep the records of plans whose files cannot be read now.
        new_records = dict(records) if notes else {}
        for plan in plans:
            status = self._status(plan, records, now)
            run = due(status, now, self.zone)
            if run is not None:
                at, status = run
            statuses.append(status)
            pending = _pending_run(plan, at) if run else None
            new_records[plan.id] = status.record._replace(pending=pending)
        if new_records != records:
            save(self._folder, new_records)
        self._deliver_pending(new_records, deliver)
        before = dict(new_records)
        notes += self._write_statuses(statuses, new_records)
        if new_records != before:
            save(self._folder, new_records)
        return notes

    def next_due(self) -> datetime | None:
        """Return when the next plan is due, or None; a time in the past means that it is due now.

        Unreadable plans are left out.
        """
        records, now = load(self.address.private(self.store.root)), self.now()
        moments = [record.pending.at for record in records.values() if record.pending]
        with contextlib.suppress(MemvaultError):
            for plan in self.read()[0]:
                at = self._status(plan, records, now).next_run
                moments += [at] if at is not None else []
        return min(moments, default=None)

    @property
    def _folder(self) -> Path:
        return private_folder_of(self.store.root, self.address)

    def _status(self, plan: Plan, records: Mapping[str, RunRecord], now: datetime) -> PlanStatus:
        return plan_status(plan, records.get(plan.id), now, self.zone)

    def _deliver_pending(self, records: dict[str, RunRecord], deliver: Deliver) -> None:
        """Deliver the pending runs and remove them from the records.

        Raises:
            MemvaultError: a run could not be delivered.
        """
        pending_runs = {name: record.pending for name, record in records.items() if record.pending}
        for pending in pending_runs.values():
            deliver(pending.event_id, pending.at, pending.data)
        if pending_runs:
            records.update({name: records[name]._replace(pending=None) for name in pending_runs})
            save(self._folder, records)

    def _write_statuses(
        self, statuses: list[PlanStatus], records: dict[str, RunRecord]
    ) -> list[str]:
        """Update the files of plans that have ended or started again.

        Sets ``end_written`` in the records of these plans, and returns notes about files that could
        not be written.
        """
        notes = []
        for plan, status, *_ in statuses:
            if status != plan.status:
                try:
                    self.files.update_header(plan.entry, {"status": status})
                    records[plan.id] = records[plan.id]._replace(end_written=True)
                except (Conflict, Refused):
                    pass  # The user is changing it now, or its header cannot be patched.
                except MemvaultError as error:
                    notes.append(
                        f"the status {status} could not be written to {plan.entry.path}: "
                        f"{error.message}"
                    )
        return notes
