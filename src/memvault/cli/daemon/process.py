"""Find, start and end the resident process."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from pathlib import Path

from memvault.cli.daemon import client
from memvault.errors import MemvaultError, Refused, TimedOut
from memvault.files.user_folders import enclosing_vault
from memvault.named_tuple import NamedTuple
from memvault.settings import user_settings

_START_SECONDS = 10.0
_STOP_SECONDS = 10.0
_STEP = 0.05
_MAX_REASON = 1 << 16
_OTHER = "different resource limits, priority or memvault version"


def socket_folder() -> Path:
    """Return the socket's folder.

    Raises:
        Refused: the platform is not supported, or there is no cache folder outside a vault.
    """
    if sys.platform != "linux" or not hasattr(os, "eventfd"):
        raise Refused("`memvault watch` needs Linux", "run commands without it; they are slower")
    folder = client.socket_folder(os.environ)
    if not folder:
        raise Refused("There is no cache folder", "set MEMVAULT_CACHE to a folder")
    above = enclosing_vault(Path(folder).parent)
    if above is not None:
        raise Refused(
            f"The cache folder is in the vault {above}, which may be untrusted",
            "set MEMVAULT_CACHE to a folder outside every vault",
        )
    return Path(folder)


def start(folder: Path) -> None:
    """Start the daemon in the background unless it is running, and wait until it answers.

    Raises:
        Refused: a daemon is running, but cannot run this process's commands.
        TimedOut: the daemon does not answer.
    """
    resident = find(folder)
    if resident is not None and resident.unused:
        raise Refused(
            f"The resident process {resident.number} cannot run commands from this shell: "
            f"{resident.unused}",
            "run `memvault watch --stop`, then start it again",
        )
    if resident is not None:
        return
    _spawn()
    until = time.monotonic() + _START_SECONDS
    while time.monotonic() < until:
        if process_of(folder):
            return
        time.sleep(_STEP)
    raise TimedOut("The resident process did not start", "run `memvault watch` to see why")


def _spawn() -> None:
    """Start the resident process in the background.

    Raises:
        OSError: the process cannot be started.
    """
    from memvault import process

    command_line = [sys.executable, "-P", "-m", "memvault", "watch"]
    process.spawn_detached(command_line, dict(os.environ))


def start_in_background() -> None:
    """Start the daemon unless one is running or the user disabled it; ignore failures."""
    if sys.platform != "linux":
        return
    with contextlib.suppress(OSError, MemvaultError):
        is_wanted = user_settings.load().resident == "auto" and os.nice(0) == 0
        if is_wanted and not _is_sandboxed() and not process_of(socket_folder()):
            _spawn()


def _is_sandboxed() -> bool:
    """Return whether this process may be in a sandbox, where it cannot serve other processes."""
    if sys.platform != "linux":
        return False
    from memvault.cli.daemon import peer_check

    with peer_check.Process(os.getpid()) as own_process:
        return peer_check.may_be_sandboxed(own_process.rights())


def stop(folder: Path) -> bool:
    """Stop the daemon and wait for it to exit; return whether one was running.

    Raises:
        TimedOut: the daemon does not exit.
    """
    import signal

    process = process_of(folder)
    if not process:
        return False
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGTERM)
    until = time.monotonic() + _STOP_SECONDS
    while process_of(folder):
        if time.monotonic() > until:
            raise TimedOut(f"Process {process} does not stop", f"run `kill -9 {process}`")
        time.sleep(_STEP)
    return True


class Found(NamedTuple):
    """A running daemon; ``unused`` is the reason why this process cannot use it, or empty."""

    number: int
    unused: str


def find(folder: Path) -> Found | None:
    """Return the daemon of a folder, or None."""
    number = process_of(folder)
    return Found(number, _why_unused(folder)) if number else None


def _why_unused(folder: Path) -> str:
    """Return why the daemon of a folder cannot run commands for this process."""
    try:
        connection = client.connected(str(folder))
        if connection is None:
            return "other users can write to its socket"
        with contextlib.closing(connection):
            answer = client.ask(connection, ["watch", "--status"])
            reason = connection.recv(_MAX_REASON) if answer == client.LEFT else b""
    except TimeoutError:  # It is running a command.
        return ""
    except PermissionError as error:
        return str(error)
    except OSError:
        return _OTHER
    if answer in (client.READS, client.LEFT):
        return reason.decode("utf-8", "replace")
    return _OTHER


def process_of(folder: Path) -> int:
    """Return the pid of the process that listens on the socket of a folder; 0 if there is none."""
    if sys.platform != "linux":
        return 0
    from memvault.cli.daemon import peer_check

    with contextlib.suppress(OSError):
        connection = client.connected(str(folder))
        if connection is not None:
            with contextlib.closing(connection), peer_check.find_peer(connection) as process:
                return process.number
    return 0
