"""What Linux knows about the process at the other end of a socket."""

from __future__ import annotations

import contextlib
import os
import resource
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from socket import SO_PEERCRED, SOL_SOCKET, socket
from typing import NamedTuple

_CREDENTIALS = struct.Struct("3i")
"""Process, user and group."""
_RIGHTS = ("Uid", "Gid", "Groups", "NoNewPrivs", "Seccomp", "CapEff")
"""Lines of /proc/PID/status that have to be equal for one process to act for the other."""
_NAMESPACES = ("mnt", "net", "pid", "user")
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
    data = connection.getsockopt(SOL_SOCKET, SO_PEERCRED, _CREDENTIALS.size)
    process, user, _ = _CREDENTIALS.unpack(data)
    if user != os.geteuid() or not process:
        return None
    with contextlib.suppress(OSError, ValueError):
        theirs, ours = (_status(number) for number in (str(process), "self"))
        is_alike = (
            all(theirs.get(name) == ours.get(name) for name in _RIGHTS)
            and _surroundings(str(process)) == _surroundings("self")
            and all(
                resource.prlimit(process, number) == resource.getrlimit(number)
                for number in _LIMITS
            )
            and os.getpriority(os.PRIO_PROCESS, process) == os.getpriority(os.PRIO_PROCESS, 0)
        )
        return Peer(process, int(theirs["Umask"], 8)) if is_alike else None
    return None


def _status(process: str) -> dict[str, str]:
    text = Path(f"/proc/{process}/status").read_text("utf-8", "replace")
    lines = (line.partition(":") for line in text.splitlines())
    return {name: value.strip() for name, _, value in lines}


def _surroundings(process: str) -> list[str]:
    names = [f"ns/{name}" for name in _NAMESPACES]
    return [str(Path(f"/proc/{process}/{name}").readlink()) for name in ("root", *names)]
