"""Deep vectors follow behind: a process of bounded life makes them, as ``git gc --auto`` works.

Whoever sees that some are missing starts one, unless one is at it, or one has
just been started or has failed lately: then ``state.json`` in the folder of the
deep vectors says until when nobody tries again, and why. Whoever makes them
in the foreground holds another lock, which lets the process end.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from memvault.files import atomic
from memvault.files.lock import FileLock
from memvault.files.plain_files import SETTING, read

BACKGROUND_LOCK = "following.lock"
FOREGROUND_LOCK = "foreground.lock"
_STATE = "state.json"
_MODULE = "memvault.index.embedding_worker"
_STARTED = 60.0
"""Seconds after which a process that was started and has embedded nothing counts for lost."""
_FAILED = 3_600.0
_TAKING_OVER = 5.0
_PROBED = 0.5
"""Seconds to wait for a lock that somebody may only be looking at."""


def start(root: Path, folder: Path | None, model: str) -> bool:
    """Start a process that embeds what is missing, unless there is one; say whether it did.

    Never raises: what goes wrong here must cost no answer.
    """
    with contextlib.suppress(OSError):
        if folder is None or not sys.executable or _waits(folder, model) or is_running(folder):
            return False
        _note(folder, model, time.time() + _STARTED, "")
        from memvault import process

        command = [sys.executable, "-P", "-m", _MODULE, str(root), str(folder)]
        process.spawn_detached(command, process.environment(root))
        return True
    return False


def is_running(folder: Path | None, name: str = BACKGROUND_LOCK) -> bool:
    """Say whether a process is at it."""
    if folder is None or not (folder / name).exists():
        return False
    lock = FileLock(folder / name, makes_folder=False)
    free = True
    with contextlib.suppress(FileNotFoundError):
        free = lock.acquire(0.0)
    lock.release()
    return not free


def succeeded(folder: Path | None) -> None:
    """Forget what went wrong before."""
    if folder is not None:
        (folder / _STATE).unlink(missing_ok=True)


def failed(folder: Path, model: str, why: str) -> None:
    """Have nobody try again for an hour."""
    _note(folder, model, time.time() + _FAILED, why)


def failure(folder: Path | None, model: str) -> str:
    """Say why embedding with a model failed within the last hour; empty where it did not."""
    found = _state(folder, model) if folder is not None else {}
    return str(found.get("why", "")) if found.get("until", 0.0) > time.time() else ""


@contextmanager
def foreground(folder: Path | None) -> Iterator[None]:
    """Let a process in the background end while the same is done here."""
    if folder is None:
        yield
        return
    _make(folder)
    names = FOREGROUND_LOCK, BACKGROUND_LOCK
    mine, other = (FileLock(folder / name, makes_folder=False) for name in names)
    try:
        with contextlib.suppress(FileNotFoundError):  # the index was deleted
            mine.acquire(_PROBED)  # two in the foreground do no harm
            other.acquire(_TAKING_OVER)
            other.release()
        yield
    finally:
        mine.release()


def _make(folder: Path) -> None:
    """Make the folder of the deep vectors, also where something else lies."""
    if folder.is_symlink() or folder.is_file():
        folder.unlink()
    folder.mkdir(exist_ok=True)


def _waits(folder: Path, model: str) -> bool:
    return bool(_state(folder, model).get("until", 0.0) > time.time())


def _state(folder: Path, model: str) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(read(folder / _STATE, SETTING))
        return found if found["model"] == model and found["until"] <= time.time() + _FAILED else {}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _note(folder: Path, model: str, until: float, why: str) -> None:
    _make(folder)
    data = json.dumps({"model": model, "until": until, "why": why}).encode()
    atomic.write(folder / _STATE, data, durable=False, makes_folder=False)
