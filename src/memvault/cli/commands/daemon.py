"""The command ``watch``, which starts, shows and stops the resident process."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from memvault.arguments.parameters import Arg
from memvault.cli.daemon import process
from memvault.cli.options import GlobalOptions
from memvault.cli.registry import command
from memvault.errors import Refused, exclusive

own_status: Callable[[], dict[str, Any]] | None = None
"""Function that returns the status of the resident process; set only in that process."""


@command(
    "watch",
    ("memvault watch --detach", "memvault watch --status", "memvault watch --stop"),
    view="""{running:a resident process is running|no resident process}  process {process}  \
        {commands:command|commands}  {megabytes:.0f} MB
           {vaults:each}
           not used here: {unused}
        {stopped:stopped the resident process|no resident process was running}""",
    group="setup",
)
def watch(
    _: GlobalOptions,
    detach: Annotated[bool, Arg("Run in the background until idle for 30 minutes")] = False,
    status: Annotated[bool, Arg("Show the running process and its memory use")] = False,
    stop: Annotated[bool, Arg("Stop the running process")] = False,
) -> dict[str, Any] | None:
    """Keep vaults open in a process that answers other commands within milliseconds.

    Results are the same as without it, and no edit is missed. By default the second recall within
    ten minutes starts it in the background; MEMVAULT_RESIDENT=off disables both starting and using
    it. Linux only.
    """
    exclusive({"--detach": detach, "--status": status, "--stop": stop})
    folder = process.socket_folder()
    if status:
        return _status(folder)
    if stop:
        return {"stopped": process.stop(folder)}
    if detach:
        process.start(folder)
        return None
    _serve(folder)
    return None


def _status(folder: Path) -> dict[str, Any]:
    if own_status is not None:
        return {"running": True, **own_status()}
    resident = process.find(folder)
    if resident is None:
        return {"running": False}
    unused = {"unused": resident.unused} if resident.unused else {}
    return {"running": True, "process": resident.number, **unused}


def _serve(folder: Path) -> None:
    global own_status  # noqa: PLW0603  # one process serves once
    if sys.platform == "linux":  # Other systems have no such folder.
        from memvault.cli import app, hook
        from memvault.cli.daemon.server import Daemon

        resident = Daemon(folder, app.run, hook.respond)
        own_status = resident.status
        if not resident.serve():
            raise Refused(
                "A resident process is already running",
                "run `memvault watch --status` to see its state",
            )
