"""Identify and check the process at the other end of a local socket, on Linux.

The client and the resident process check each other before they exchange anything of value. Every
client loads this module, so it imports next to nothing.

A process is identified by its folder in /proc, which is opened once. After the process exits, the
opened folder stays empty, so a new process with the same pid is never mistaken for the old one.
Namespaces, privileges and limits are compared. A Landlock sandbox is not visible in any file, so
each process must also present a secret of the other process, which the kernel reveals only to a
process that may inspect the secret's owner. A sandboxed process may not inspect others, even if it
is run by root.
"""

from __future__ import annotations

import _socket
import errno
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from socket import socket

assert sys.platform == "linux"
CREDENTIALS = 12
"""Size in bytes of ``struct ucred``: pid, uid and gid."""
_PEER_PIDFD = 77
"""SO_PEERPIDFD, from Linux 6.5 on."""
_STATUS = (
    "Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs",
    "Seccomp", "Seccomp_filters",
)  # fmt: skip
"""Lines of /proc/PID/status that must be equal for one process to run another's commands."""
_SANDBOXED = "NoNewPrivs"
"""The line of /proc/PID/status whose value is 1 for a process in most sandboxes."""
_LINKS = (
    "root", "ns/cgroup", "ns/ipc", "ns/mnt", "ns/net", "ns/pid", "ns/time", "ns/user", "ns/uts",
)  # fmt: skip
_LABEL = "attr/current"
"""The file with the label of a security module such as AppArmor or SELinux."""
_MAX_FILE = 1 << 16


class Process:
    """A process, identified even if its pid is reused.

    ``folder`` is a descriptor of its folder in /proc. All methods raise OSError once the process
    has exited.
    """

    def __init__(self, number: int) -> None:
        """Open a process's folder in /proc.

        Raises:
            OSError: there is no such process.
        """
        self.number = number
        self.folder = os.open(f"/proc/{number}", os.O_PATH | os.O_DIRECTORY)

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the folder."""
        os.close(self.folder)

    def check(self) -> None:
        """Raise OSError if the process has exited."""
        os.stat("status", dir_fd=self.folder)

    def rights(self) -> dict[str, str]:
        """Return its user, capabilities, namespaces and label, by name."""
        status = self.read("status")
        values = {name: line_of(status, name) for name in _STATUS}
        for name in _LINKS:
            try:
                values[name] = os.readlink(name, dir_fd=self.folder)
            except FileNotFoundError:  # The kernel lacks this namespace.
                self.check()
        try:
            values[_LABEL] = self.read(_LABEL)
        except OSError:  # There is no security module.
            self.check()
        return values

    def secret(self, descriptor: int) -> int:
        """Return the secret behind one of the process's descriptors (see ``keep_secret``).

        Raises:
            OSError: this process may not inspect the other one, or there is no secret.
        """
        for line in self.read(f"fdinfo/{descriptor}").splitlines():
            name, _, value = line.partition(":")
            if name == "eventfd-count":
                return int(value, 16)
        raise OSError("no secret")

    def read(self, name: str) -> str:
        """Return the text of a file in its folder."""
        descriptor = os.open(name, os.O_RDONLY, dir_fd=self.folder)
        try:
            return os.read(descriptor, _MAX_FILE).decode("utf-8", "replace")
        finally:
            os.close(descriptor)


def line_of(text: str, name: str) -> str:
    """Return the value of a line such as ``Uid:  0``, or an empty string."""
    start = text.find(f"\n{name}:") + 1
    return text[start + len(name) + 1 : text.find("\n", start)].strip() if start else ""


def find_peer(connection: socket) -> Process:
    """Return the process connected to or listening on a socket; this user must own it.

    Raises:
        OSError: the process has exited, or belongs to another user or PID namespace.
    """
    data = connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, CREDENTIALS)
    number = sender_of(data)
    if number <= 0 or int.from_bytes(data[4:8], sys.byteorder) != os.geteuid():
        raise OSError("another user or namespace")
    process = Process(number)
    try:
        _check_number(connection, number)
    except BaseException:
        process.close()
        raise
    return process


def _check_number(connection: socket, number: int) -> None:
    """Raise OSError if a process has exited, because its pid may have been reused.

    Kernels before 6.5 do not support this check, and it says nothing about a process that inherited
    the socket. In both cases, only the sender of a later message is reliable (see ``sender_of``).
    """
    try:
        data = connection.getsockopt(_socket.SOL_SOCKET, _PEER_PIDFD, 4)
    except OSError as error:
        if error.errno in (errno.ENOPROTOOPT, errno.EOPNOTSUPP):
            return
        raise
    descriptor = int.from_bytes(data, sys.byteorder)
    file = None
    try:
        file = os.open(f"/proc/self/fdinfo/{descriptor}", os.O_RDONLY)
        lines = os.read(file, _MAX_FILE).decode("ascii", "replace").splitlines()
    finally:
        os.close(descriptor)
        if file is not None:
            os.close(file)
    if f"Pid:\t{number}" not in lines:
        raise OSError("the process has exited")


def sender_of(credentials: bytes) -> int:
    """Return the pid of the process that sent a message, from its SCM_CREDENTIALS."""
    return int.from_bytes(credentials[:4], sys.byteorder, signed=True)


def may_be_sandboxed(rights: dict[str, str]) -> bool:
    """Return whether a process cannot gain privileges (no_new_privs), as in most sandboxes."""
    return rights.get(_SANDBOXED, "0") != "0"


def differences(theirs: dict[str, str], ours: dict[str, str]) -> list[str]:
    """Return the names of rights or limits that prevent a process from acting for another one."""
    return [
        name
        for name in {**theirs, **ours}
        if theirs.get(name) != ours.get(name) or (name == _SANDBOXED and theirs[name] != "0")
    ]


def keep_secret() -> tuple[int, int]:
    """Return a random number, and a descriptor through which other processes can read it."""
    secret = int.from_bytes(os.urandom(8)) >> 1 | 1
    descriptor = os.eventfd(0)
    os.eventfd_write(descriptor, secret)
    return secret, descriptor
