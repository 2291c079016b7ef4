"""The command ``watch``: the resident process, which makes commands quick."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from memvault.arguments.parameters import Arg
from memvault.cli import hand_over, output
from memvault.cli.options import GlobalOptions
from memvault.cli.registry import command
from memvault.errors import Refused, StorageError, TimedOut

if TYPE_CHECKING:
    from memvault.cli.resident import Resident

_START_SECONDS = 10.0
_STOP_SECONDS = 10.0
_STEP = 0.05
_RECENT_SECONDS = 600.0
_ASKED = "asked"
"""A file whose modification time is that of the last recall that started no process."""
current: Resident | None = None
"""The resident process, in that process only."""


@command(
    "watch",
    ("memvault watch --detach", "memvault watch --status", "memvault watch --stop"),
    view="""{running:a resident process runs|no resident process runs}  process {process}  \
        {commands:command|commands}  {megabytes:.0f} MB
           {vaults:each}
        {stopped:the resident process has ended|no resident process runs}""",
)
def watch(
    options: GlobalOptions,
    detach: Annotated[bool, Arg("Run in the background, until unused for 30 minutes")] = False,
    status: Annotated[bool, Arg("Show the process that runs, and its memory")] = False,
    stop: Annotated[bool, Arg("End the process that runs")] = False,
) -> dict[str, Any] | None:
    """Keep vaults open in a process that answers other commands within milliseconds.

    Results are the same as without it, and no edit is missed. By default the second recall
    within ten minutes starts it in the background; MEMVAULT_RESIDENT=off prevents that,
    and leaves a running one unused. It needs Linux.
    """
    folder = _folder()
    if status:
        return _status()
    if stop:
        return {"stopped": _stop(folder)}
    if detach:
        _start(folder)
        return None
    return _serve(folder)


def _folder() -> Path:
    """Return the folder of the socket.

    Raises:
        Refused: the platform lacks what the process needs, or there is no cache folder.
    """
    if sys.platform != "linux":
        raise Refused("watch needs Linux", "all commands work without it")
    folder = hand_over.socket_folder(os.environ)
    if not folder:
        raise Refused("There is no cache folder", "set MEMVAULT_CACHE to a folder of yours")
    return Path(folder)


def _status() -> dict[str, Any]:
    if current is None:
        return {"running": False}
    return {"running": True, **current.status()}


def _serve(folder: Path) -> None:
    global current  # noqa: PLW0603  # one process serves once
    from memvault.cli.resident import Resident

    current = Resident(folder)
    if not current.serve():
        raise Refused("A resident process runs already", "memvault watch --status shows it")


def _start(folder: Path) -> None:
    spawn()
    until = time.monotonic() + _START_SECONDS
    while time.monotonic() < until:
        if (folder / hand_over.SOCKET).exists() and _process_of(folder):
            return
        time.sleep(_STEP)
    raise TimedOut("The resident process did not start", "memvault watch shows why")


def spawn() -> None:
    """Start the resident process in the background.

    Raises:
        OSError: it cannot be started.
    """
    from memvault import process

    command_line = [sys.executable, "-P", "-m", "memvault", "watch"]
    process.spawn_detached(command_line, dict(os.environ))


def _stop(folder: Path) -> bool:
    """End the process and wait for its end; return whether one ran.

    Raises:
        TimedOut: it does not end.
    """
    import signal

    process = _process_of(folder)
    if not process:
        return False
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGTERM)
    until = time.monotonic() + _STOP_SECONDS
    while _process_of(folder):
        if time.monotonic() > until:
            raise TimedOut(f"Process {process} does not end", f"kill -9 {process}")
        time.sleep(_STEP)
    return True


def _process_of(folder: Path) -> int:
    """Return the resident process that holds the lock; 0 if none does."""
    from memvault.files.lock import FileLock

    if not (folder / "lock").exists():
        return 0
    lock = FileLock(folder / "lock", makes_folder=False)
    if lock.acquire(0.0):
        lock.release()
        return 0
    with contextlib.suppress(OSError, ValueError):
        return int((folder / "process").read_text("ascii"))
    return 0
