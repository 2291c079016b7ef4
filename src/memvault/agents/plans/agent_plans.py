"""Deliver due plans as events, each run exactly once, without a daemon.

A reader of events holds the agent's lock, delivers due runs, and only then removes events from the
inbox, all while holding the lock. The due runs are first saved in this machine's record as
``pending``, together with the next due time of their plans; then their events are delivered; then
``pending`` is removed. If a process is killed between any two of these steps, the next reader
completes what is pending:

- killed before the event was written: it is delivered now, so no run is lost;
- killed after: delivering does nothing, because an event of that id is still in the inbox. It
  cannot have been removed already: a reader that removes events has completed the runs before under
  the same lock, which clears every ``pending`` or raises, and then removes nothing.

An event is derived from the plan and its due time only, so that two machines that run the same plan
write the same file, which git merges.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any, NamedTuple

from memvault import clock
from memvault.agents.address import Address, private
from memvault.agents.agent_files import AgentFile, AgentFileStore, AgentFileUpdate, normal, one_line
from memvault.agents.messages.inbox import PLAN, Inbox
from memvault.agents.plans import schedule
from memvault.agents.plans.schedule import KINDS, Schedule
from memvault.errors import Conflict, MemvaultError, Refused, UsageError
from memvault.files import atomic, plain_files
from memvault.sanitize import replace_surrogates
from memvault.store.memory_store import MemoryStore
from memvault.vault import paths

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


def name_of(entry: AgentFile) -> str:
    """Return a plan's name; that of the file if the header has none."""
    return normal(str(entry.header.get("name") or entry.name))


def read(entry: AgentFile) -> Plan:
    """Parse a plan from its file.

    Raises:
        UsageError: it has no schedule, several, or an invalid one.
    """
    header = entry.header
    schedules = [
        Schedule(kind, str(header[kind])) for kind in KINDS if header.get(kind) is not None
    ]
    if len(schedules) != 1:
        raise UsageError(f"it has {len(schedules)} of {', '.join(KINDS)} and needs exactly one")
    schedules[0].check()
    return Plan(
        entry.name,
        name_of(entry),
        entry.text.strip(),
        schedules[0],
        str(header.get("status") or ACTIVE).strip().lower(),
        clock.parse(str(header.get("nextRunAt"))) if schedules[0].kind == "runAfter" else None,
        entry,
    )


_FILE_NAME = "plans.json"


class PendingRun(NamedTuple):
    """A run to be delivered: the id of its event, its due time, and the event's data."""

    event_id: str
    at: datetime
    data: dict[str, Any]


class RunRecord(NamedTuple):
    """The runs of one plan.

    ``schedule_key`` identifies the schedule of ``next_run`` and ``last_run``. ``marked`` is whether
    the file records the end of the plan: if its status is then changed back, the user wants another
    run.
    """

    schedule_key: str
    next_run: datetime | None = None
    last_run: datetime | None = None
    marked: bool = False
    pending: PendingRun | None = None


def load(folder: Path) -> dict[str, RunRecord]:
    """Load the records by plan id; missing or damaged ones are left out."""
    records: dict[str, RunRecord] = {}
    plans = plain_files.read_json(folder / _FILE_NAME).get("plans")
    for plan_id, value in plans.items() if isinstance(plans, dict) else ():
        with contextlib.suppress(KeyError, TypeError, ValueError, AttributeError):
            records[plan_id] = _parse_record(value)
    return records


def save(folder: Path, records: Mapping[str, RunRecord]) -> None:
    """Save the records. The caller holds the agent's lock.

    Raises:
        StorageError: the file cannot be written.
    """
    plans = {plan_id: _as_json(record) for plan_id, record in records.items()}
    text = json.dumps({"version": 1, "plans": plans}, ensure_ascii=False)
    atomic.write(folder / _FILE_NAME, text.encode("utf-8", "replace"))


def _parse_record(value: Mapping[str, Any]) -> RunRecord:
    pending = value.get("pending")
    at = clock.parse(str(pending["at"])) if pending else None
    return RunRecord(
        str(value["basis"]),
        clock.parse(str(value.get("nextRunAt"))),
        clock.parse(str(value.get("lastRunAt"))),
        bool(value.get("marked")),
        PendingRun(str(pending["eventId"]), at, dict(pending["data"])) if pending and at else None,
    )


def _as_json(record: RunRecord) -> dict[str, Any]:
    pending = record.pending
    values = {
        "basis": record.schedule_key,
        "nextRunAt": record.next_run and clock.iso(record.next_run),
        "lastRunAt": record.last_run and clock.iso(record.last_run),
        "marked": record.marked,
        "pending": pending
        and {"eventId": pending.event_id, "at": clock.iso(pending.at), "data": pending.data},
    }
    return {key: value for key, value in values.items() if value or key == "basis"}


_MAX_LATENESS = timedelta(days=7)
"""How long ago a one-shot time may be: beyond that it is refused when set, or has expired."""
_NEVER = datetime.max.replace(tzinfo=UTC)


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


def _header_for(
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


Deliver = Callable[[str, datetime, dict[str, Any]], object]
"""A function that writes an event under an id, unless an event of that id exists."""
_MAX_ID = 60


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


def event_id(plan_id: str, at: datetime) -> str:
    """Return the id of a run's event, valid as a file name."""
    name = paths.slug(plan_id, _MAX_ID)
    if name != plan_id:
        import hashlib

        name += "-" + hashlib.blake2b(plan_id.encode(), digest_size=4).hexdigest()
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
    """The plans of an agent; cron lines are in the time zone, and ``now`` returns the time.

    Under the agent's lock the time is read once, after waiting for the lock.
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
        """The files of the plans."""
        return AgentFileStore(self.store, self.address, "plans", "id")

    def read(self) -> tuple[list[Plan], list[str]]:
        """Return every plan sorted by id, and notes about skipped files.

        Raises as ``AgentFileStore.read`` does.
        """
        files = self.files.read()
        plans, notes = [], files.notes
        for entry in files.entries.values():
            try:
                plans.append(read(entry))
            except UsageError as error:
                notes.append(f"{replace_surrogates(entry.path)} is skipped: {error.message}")
        return plans, notes

    def statuses(self) -> tuple[list[PlanStatus], list[str]]:
        """Return the status of every plan, next due first, and notes about skipped files.

        Raises as ``AgentFileStore.read`` does.
        """
        plans, notes = self.read()
        records, now = load(self.address.private(self.store.root)), self.now()
        return sorted(
            (self._status(plan, records, now) for plan in plans),
            key=lambda status: (status.status != ACTIVE, status.next_run or _NEVER, status.plan.id),
        ), notes

    def set(self, wanted: Iterable[PlanRequest]) -> list[PlanStatus]:
        """Set plans, replacing those of the same name, and return their status.

        All are checked before the first is written. An agent may set its existing plans at every
        start: that neither skips a due run nor repeats an earlier one.

        Raises:
            UsageError: a plan is invalid; nothing is written.
        """
        with self.files.lock():
            records, now = load(self._folder), self.now()
            by_name: dict[str, AgentFile] = {}
            existing = self.files.read().entries
            for entry in existing.values():
                by_name.setdefault(name_of(entry), entry)
            puts: dict[str, AgentFileUpdate] = {}
            for plan in wanted:
                name = one_line(plan.name, "A plan's name")
                old, before = by_name.get(name), None
                if old is not None:
                    with contextlib.suppress(UsageError):
                        before = self._status(read(old), records, now)
                try:
                    header = {"name": name, **_header_for(plan, before, now, self.zone)}
                except UsageError as error:
                    message = f"The plan {name!r} is invalid: {error.message}"
                    raise UsageError(message, error.hint) from error
                fresh = paths.id_from_name(name)
                new_id = fresh if fresh not in existing else paths.new_id(name)
                text = plan.instruction.strip()
                puts[name] = AgentFileUpdate(old.name if old else new_id, old, header, text, name)
            self.files.put(puts.values())
            current = {plan.id: plan for plan in self.read()[0]}
            ids = [entry.name for entry in puts.values() if entry.name in current]
            statuses = [self._status(current[name], records, now) for name in ids]
            save(self._folder, records | {status.plan.id: status.record for status in statuses})
        return statuses

    def delete(self, wanted: Iterable[str]) -> list[str]:
        """Delete plans by id or exact name, and return those that were missing."""
        with self.files.lock():
            existing = self.files.read().entries
            ids_by_name = {name_of(entry): name for name, entry in existing.items()}
            ids_by_name |= {name: name for name in existing}
            ids = {given: ids_by_name.get(normal(given), given) for given in wanted}
            missing = set(self.files.delete_locked(ids.values()))
            records = load(self._folder)
            remaining = {key: value for key, value in records.items() if key not in ids.values()}
            if remaining != records:
                save(self._folder, remaining)
        return [given for given, plan_id in ids.items() if plan_id in missing]

    def fire(self, deliver: Deliver) -> list[str]:
        """Deliver an event for every due plan, and return notes about plans that cannot run.

        The caller holds the agent's lock.

        Raises:
            MemvaultError: a pending run could not be completed; no event may be removed from the
                inbox then.
        """
        records, now = load(self._folder), self.now()
        self._deliver_pending(records, deliver)  # of a call that was interrupted
        try:
            plans, notes = self.read()
        except MemvaultError as error:
            return [f"no plan runs: {error.message}"]
        statuses = []
        # Keep the records of plans whose files cannot be read now.
        entered = dict(records) if notes else {}
        for plan in plans:
            status = self._status(plan, records, now)
            run = due(status, now, self.zone)
            if run is not None:
                at, status = run
            statuses.append(status)
            pending = _pending_run(plan, at) if run else None
            entered[plan.id] = status.record._replace(pending=pending)
        if entered != records:
            save(self._folder, entered)
        self._deliver_pending(entered, deliver)
        before = dict(entered)
        notes += self._write_statuses(statuses, entered)
        if entered != before:
            save(self._folder, entered)
        return notes

    def next_due(self) -> datetime | None:
        """Return when the next plan is due, or None; in the past if its event cannot be written.

        Plans that cannot be read are left out.
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
        return private(self.store.root, self.address)

    def _status(self, plan: Plan, records: Mapping[str, RunRecord], now: datetime) -> PlanStatus:
        return plan_status(plan, records.get(plan.id), now, self.zone)

    def _deliver_pending(self, records: dict[str, RunRecord], deliver: Deliver) -> None:
        """Deliver the pending runs and remove them from the records; raise if that fails."""
        pending_runs = {name: record.pending for name, record in records.items() if record.pending}
        for pending in pending_runs.values():
            deliver(pending.event_id, pending.at, pending.data)
        if pending_runs:
            records.update({name: records[name]._replace(pending=None) for name in pending_runs})
            save(self._folder, records)

    def _write_statuses(
        self, statuses: list[PlanStatus], records: dict[str, RunRecord]
    ) -> list[str]:
        """Write to files which plans have ended or started again, for people and other machines.

        Updates ``marked`` in the records of these plans, and returns notes about files that could
        not be written.
        """
        notes = []
        for plan, status, *_ in statuses:
            if status != plan.status:
                try:
                    self.files.update_header(plan.entry, {"status": status})
                    records[plan.id] = records[plan.id]._replace(marked=True)
                except (Conflict, Refused):
                    pass  # the user is changing it now, or its header cannot be patched
                except MemvaultError as error:
                    notes.append(f"{plan.entry.path} does not say {status}: {error.message}")
        return notes


class PlannedInbox(Inbox):
    """An agent's inbox to which its due plans are delivered before each read, under one lock."""

    def __init__(self, plans: AgentPlans) -> None:
        super().__init__(plans.store.root, plans.address)
        self._plans = plans

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the agent's lock, with due plans delivered; if one cannot be, nothing is popped."""

        def deliver(name: str, at: datetime, data: dict[str, Any]) -> None:
            self.deliver(PLAN, data, name, clock.iso(at))

        with super().locked():
            self.warnings += self._plans.fire(deliver)
            yield

    def next_due(self) -> float:
        """Return the seconds until the next plan is due."""
        at = self._plans.next_due()
        return (at - self._plans.now()).total_seconds() if at else math.inf
