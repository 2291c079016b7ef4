"""What this machine knows of the runs of an agent's plans, ``plans.json`` among what is its own.

It is kept apart from the plans' files so that a run changes none of them: two
machines that look at one plan at different times have nothing to merge, and a
person's file stays as it was written. If it is lost, cron lines count from the
next look on; moments that have passed are known by the ``status`` in the file.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from memvault import clock, plain_files
from memvault.plain_files import STATE
from memvault.vault import atomic

_NAME = "plans.json"


class PendingRun(NamedTuple):
    """A run on its way to the inbox: its event's id, its moment, and what the event says."""

    event_id: str
    at: datetime
    data: dict[str, Any]


class RunRecord(NamedTuple):
    """The runs of one plan.

    ``basis`` is the schedule that ``next_run`` was worked out from, and what
    ``last_run`` was a run of. ``marked`` says that the file tells of the
    plan's end: if it does not any more, a person wants another run.
    """

    schedule_key: str
    next_run: datetime | None = None
    last_run: datetime | None = None
    marked: bool = False
    pending: PendingRun | None = None


def load(folder: Path) -> dict[str, RunRecord]:
    """Return the records by the plans' ids; what is missing or damaged is left out."""
    found: dict[str, RunRecord] = {}
    with contextlib.suppress(
        OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError
    ):
        for plan_id, value in json.loads(plain_files.read(folder / _NAME, STATE))["plans"].items():
            with contextlib.suppress(KeyError, TypeError, AttributeError):
                found[plan_id] = _record(value)
    return found


def save(folder: Path, records: Mapping[str, RunRecord]) -> None:
    """Keep the records. The caller holds the agent's lock.

    Raises:
        StorageError: the disk refused.
    """
    plans = {plan_id: _as_json(record) for plan_id, record in records.items()}
    text = json.dumps({"version": 1, "plans": plans}, ensure_ascii=False)
    atomic.write(folder / _NAME, text.encode("utf-8", "replace"))


def _record(value: Mapping[str, Any]) -> RunRecord:
    given = value.get("pending")
    at = clock.parse(str(given["at"])) if given else None
    return RunRecord(
        str(value["basis"]),
        clock.parse(str(value.get("nextRunAt"))),
        clock.parse(str(value.get("lastRunAt"))),
        bool(value.get("marked")),
        PendingRun(str(given["eventId"]), at, dict(given["data"])) if given and at else None,
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
