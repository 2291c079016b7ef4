"""What Linux knows about the process at the other end of a socket."""

from __future__ import annotations

import contextlib
import os
import resource
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from socket import SOL_SOCKET, socket
from typing import NamedTuple

assert sys.platform == "linux"
_CREDENTIALS = struct.Struct("3i")
"""Process, user and group."""
_RIGHTS = ("Uid", "Gid", "Groups", "Seccomp", "Seccomp_filters", "CapEff")
"""Lines of /proc/PID/status that have to be equal for one process to act for the other."""
_SANDBOXED = "NoNewPrivs"
"""The line that is 1 in a process that may be in a sandbox of Landlock, which no file shows."""
_NAMESPACES = ("cgroup", "mnt", "net", "pid", "user")
_LIMITS = (resource.RLIMIT_FSIZE, resource.RLIMIT_AS, resource.RLIMIT_DATA, resource.RLIMIT_CPU)


class Peer(NamedTuple):
    """A process of the same user with the same rights; ``umask`` is its file mode mask."""

    process: int
    umask: int

    @contextmanager
    def folder_and_mask(self) -> Iterator[None]:
        """Work in its folder and with its file mode mask.

        Raises:
            OSError: the folder cannot be entered.
        """
        os.chdir(f"/proc/{self.process}/cwd")
        mask = os.umask(self.umask)
        try:
            yield
        finally:
            os.umask(mask)
            os.chdir("/")


def find_peer(connection: socket) -> Peer | None:
    """Return the connected process; None if this process must not act for it.

    Another user, a sandbox, a container, other limits and another priority are reasons.
    """
    process, user, _ = _credentials(connection)
    if user != os.geteuid() or not process:
        return None
    with contextlib.suppress(OSError, ValueError):
        theirs, ours = (_status(number) for number in (str(process), "self"))
        is_alike = (
            all(theirs.get(name) == ours.get(name) for name in _RIGHTS)
            and theirs.get(_SANDBOXED) == "0"
            and _surroundings(str(process)) == _surroundings("self")
            and all(
                resource.prlimit(process, number) == resource.getrlimit(number)
                for number in _LIMITS
            )
            and os.getpriority(os.PRIO_PROCESS, process) == os.getpriority(os.PRIO_PROCESS, 0)
        )
        return Peer(process, int(theirs["Umask"], 8)) if is_alike else None
    return None


def process_behind(connection: socket) -> int:
    """Return the process at the other end; 0 if it is in another namespace.

    Raises:
        OSError: the connection has none.
    """
    return _credentials(connection)[0]


def _credentials(connection: socket) -> tuple[int, ...]:
    from socket import SO_PEERCRED

    data = connection.getsockopt(SOL_SOCKET, SO_PEERCRED, _CREDENTIALS.size)
    return _CREDENTIALS.unpack(data)


def _status(process: str) -> dict[str, str]:
    text = Path(f"/proc/{process}/status").read_text("utf-8", "replace")
    lines = (line.partition(":") for line in text.splitlines())
    return {name: value.strip() for name, _, value in lines}


def _surroundings(process: str) -> list[str]:
    names = [f"ns/{name}" for name in _NAMESPACES]
    found = [str(Path(f"/proc/{process}/{name}").readlink()) for name in ("root", *names)]
    with contextlib.suppress(OSError):  # without a security module
        found.append(Path(f"/proc/{process}/attr/current").read_text("utf-8", "replace"))
    return found
