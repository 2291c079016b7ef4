"""Record the runs of an agent's plans on this machine."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from memvault import clock
from memvault.files import atomic, plain_files
from memvault.named_tuple import NamedTuple

_FILE_NAME = "plans.json"


class PendingRun(NamedTuple):
    """A run to deliver: the id of its event, its due time, and the event's data."""

    event_id: str
    at: datetime
    data: dict[str, Any]


class RunRecord(NamedTuple):
    """The runs of one plan.

    ``schedule_key`` identifies the schedule of ``next_run`` and ``last_run``. ``end_written`` is
    true once the end is written to the plan's file; if the plan is active again after that, the
    user wants another run.
    """

    schedule_key: str
    next_run: datetime | None = None
    last_run: datetime | None = None
    end_written: bool = False
    pending: PendingRun | None = None


def load(folder: Path) -> dict[str, RunRecord]:
    """Load the records by plan id; damaged records are left out."""
    records: dict[str, RunRecord] = {}
    plans = plain_files.read_json(folder / _FILE_NAME).get("plans")
    for plan_id, value in plans.items() if isinstance(plans, dict) else ():
        with contextlib.suppress(KeyError, TypeError, ValueError, AttributeError):
            records[plan_id] = _parse_record(value)
    return records


def save(folder: Path, records: Mapping[str, RunRecord]) -> None:
    """Save the records; the caller must hold the agent's lock.

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
        str(value["schedule"]),
        clock.parse(str(value.get("nextRunAt"))),
        clock.parse(str(value.get("lastRunAt"))),
        bool(value.get("endWritten")),
        PendingRun(str(pending["eventId"]), at, dict(pending["data"])) if pending and at else None,
    )


def _as_json(record: RunRecord) -> dict[str, Any]:
    pending = record.pending
    values = {
        "schedule": record.schedule_key,
        "nextRunAt": record.next_run and clock.iso(record.next_run),
        "lastRunAt": record.last_run and clock.iso(record.last_run),
        "endWritten": record.end_written,
        "pending": pending
        and {"eventId": pending.event_id, "at": clock.iso(pending.at), "data": pending.data},
    }
    return {key: value for key, value in values.items() if value or key == "schedule"}
