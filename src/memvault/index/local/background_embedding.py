"""Locks and state of the short-lived process that computes transformer vectors in the background.

It works like ``git gc --auto``: a process that finds vectors missing starts a worker, unless one is
running, was just started, or failed recently. Failures are recorded in ``state.json`` in the folder
of the transformer vectors, with the reason and the time of the next attempt. A process that
computes vectors in the foreground acquires a second lock, which makes the worker exit.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from memvault import clock
from memvault.files import atomic
from memvault.files.lock import FileLock
from memvault.files.plain_files import MAX_SETTING_BYTES, read
from memvault.named_tuple import NamedTuple

BACKGROUND_LOCK = "following.lock"
FOREGROUND_LOCK = "foreground.lock"
_STATE = "state.json"
_WORKER = "worker.json"
_MODULE = "memvault.index.embedding_worker"
_START_SECONDS = 60.0
"""Seconds after which a worker that has started but not embedded anything is considered dead."""
_FAILURE_SECONDS = 3_600.0
_MAX_STARTS = 4
"""The number of consecutive workers without results that is treated as a failure."""
_TAKEOVER_SECONDS = 5.0
_PROBE_SECONDS = 0.5
"""Seconds to wait for a lock that another process may only be testing."""


def start(root: Path, folder: Path | None, model: str) -> bool:
    """Start a worker that embeds missing passages unless one is running; return whether it started.

    Never raises, because a failure here must not break a search.
    """
    with atomic.best_effort():
        if folder is None or not sys.executable:
            return False
        state = _read_state(folder, model)
        if state.get("until", 0.0) > time.time() or is_running(folder):
            return False
        # The number of workers started since the last one that computed vectors or failed.
        starts = state["starts"] if isinstance(state.get("starts"), int) else 0
        if starts >= _MAX_STARTS:
            record_failure(folder, model, f"{starts} processes exited before computing any vectors")
            return False
        if not _write_state(folder, model, time.time() + _START_SECONDS, "", starts + 1):
            return False  # otherwise every search would start another worker
        from memvault import process

        command = [sys.executable, "-P", "-m", _MODULE, str(root), str(folder)]
        process.spawn_detached(command, process.environment(root))
        return True
    return False


def is_running(folder: Path | None, name: str = BACKGROUND_LOCK) -> bool:
    """Return whether any process holds the lock."""
    if folder is None or not (folder / name).exists():
        return False
    lock = FileLock(folder / name, makes_folder=False)
    free = True
    with atomic.best_effort():
        free = lock.acquire(0.0)
    lock.release()
    return not free


class Worker(NamedTuple):
    """The most recent worker: its pid and start time.

    ``rate`` is how many passages per second the last worker embedded, or 0 if unknown.
    """

    process: int = 0
    since: str = ""
    rate: float = 0.0


def record_start(folder: Path) -> None:
    """Record this process as the current worker."""
    recorded = worker(folder)
    _write(folder / _WORKER, Worker(os.getpid(), clock.iso(), recorded.rate)._asdict())


def record_rate(folder: Path, rate: float) -> None:
    """Record how many passages per second this process embeds, if it is the worker."""
    recorded = worker(folder)
    if recorded.process == os.getpid():
        _write(folder / _WORKER, recorded._replace(rate=rate)._asdict())


def worker(folder: Path | None) -> Worker:
    """Return the most recent worker; its pid is 0 if unknown."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        if folder is not None:
            values = json.loads(read(folder / _WORKER, MAX_SETTING_BYTES))
            rate = float(values.get("rate", 0.0))
            return Worker(int(values["process"]), str(values["since"]), rate)
    return Worker()


def clear_failure(folder: Path | None) -> None:
    """Clear a recorded failure."""
    if folder is not None:
        with atomic.best_effort():
            (folder / _STATE).unlink(missing_ok=True)


def record_failure(folder: Path, model: str, why: str) -> None:
    """Record a failure, which delays the next worker by an hour."""
    _write_state(folder, model, time.time() + _FAILURE_SECONDS, why)


def failure(folder: Path | None, model: str) -> str:
    """Return why embedding with a model failed within the last hour, or "" if it did not."""
    state = _read_state(folder, model) if folder is not None else {}
    return str(state.get("why", "")) if state.get("until", 0.0) > time.time() else ""


@contextmanager
def foreground(folder: Path | None) -> Iterator[None]:
    """Stop the worker while this process does the same work in the foreground."""
    if folder is None:
        yield
        return
    _make_folder(folder)
    names = FOREGROUND_LOCK, BACKGROUND_LOCK
    own_lock, background_lock = (FileLock(folder / name, makes_folder=False) for name in names)
    try:
        with atomic.best_effort():  # the index was deleted, or the disk is full
            # If the lock is held, continue: two foreground processes do no harm.
            own_lock.acquire(_PROBE_SECONDS)
            background_lock.acquire(_TAKEOVER_SECONDS)
            background_lock.release()
        yield
    finally:
        own_lock.release()


def _make_folder(folder: Path) -> None:
    """Create the folder of the transformer vectors, replacing a file or link of that name."""
    if folder.is_symlink() or folder.is_file():
        folder.unlink()
    folder.mkdir(exist_ok=True)


def _read_state(folder: Path, model: str) -> dict[str, Any]:
    try:
        state: dict[str, Any] = json.loads(read(folder / _STATE, MAX_SETTING_BYTES))
        is_valid = state["model"] == model and state["until"] <= time.time() + _FAILURE_SECONDS
        return state if is_valid else {}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _write_state(folder: Path, model: str, until: float, why: str, starts: int = 0) -> bool:
    state = {"model": model, "until": until, "why": why, "starts": starts}
    return _write(folder / _STATE, state)


def _write(file: Path, value: Mapping[str, Any]) -> bool:
    """Write a status file; return whether that succeeded."""
    with atomic.best_effort():
        _make_folder(file.parent)
        atomic.write(file, json.dumps(value).encode(), durable=False, makes_folder=False)
        return True
    return False
