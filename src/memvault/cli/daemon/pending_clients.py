"""Connections to the resident process whose request is incomplete.

Each client is checked before any of its bytes is read. Reading never blocks on a client, and each
client has limited time to send its complete request.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import time
from collections import deque
from collections.abc import Iterator

from memvault.cli.daemon import client as protocol
from memvault.cli.daemon import peer_check

assert sys.platform == "linux"
_MAX_WAITING = 16
_SECONDS = 1.0
"""Seconds within which a client must send its complete request."""
_STREAMS = 3
_PIECE = 1 << 16
_HELLO = protocol.SECRET_SIZE + protocol.DESCRIPTOR_SIZE
_HEAD = protocol.SIZE + protocol.SECRET_SIZE
_LIMITS = (
    "Max cpu time", "Max file size", "Max data size", "Max address space", "Max processes",
    "Max open files",
)  # fmt: skip
_LIMIT_WIDTH = 25
_NICE = 16
"""The index of the nice value in /proc/PID/stat, counted from the field after the name."""
_ANCILLARY = socket.CMSG_SPACE(peer_check.CREDENTIALS) + socket.CMSG_SPACE(4 * _STREAMS)


class Client:
    """A connected process, and the data received from it so far."""

    def __init__(self, connection: socket.socket, process: peer_check.Process) -> None:
        self.connection = connection
        self.process = process
        self.until = time.monotonic() + _SECONDS
        self._data = bytearray()
        self._number = b""

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()
        self.process.close()

    def read(self, secret: int) -> bytes | None:
        """Read the available data; return the request once it is complete.

        Raises:
            OSError: the client has exited, sent something else, or does not have the secret.
        """
        data, streams = self._receive(_PIECE, socket.MSG_DONTWAIT)
        _close_all(streams)
        if not data:
            raise ConnectionError
        self._data += data
        if not self._number:
            if len(self._data) >= _HELLO:
                self._answer_hello(secret)
            return None
        size = int.from_bytes(self._data[: protocol.SIZE], "big")
        if size > protocol.MAX_REQUEST:
            raise ConnectionError
        if len(self._data) < _HEAD + size:
            return None
        if self._data[protocol.SIZE : _HEAD] != self._number:
            raise ConnectionError
        self.process.check()  # The process is still alive, so its id was not reused.
        return bytes(self._data[_HEAD : _HEAD + size])

    def _answer_hello(self, secret: int) -> None:
        hello = bytes(self._data)
        size = protocol.SECRET_SIZE
        if len(hello) > _HELLO or hello[:size] != secret.to_bytes(size, "big"):
            raise ConnectionError
        theirs = self.process.secret(int.from_bytes(hello[size:], "big"))
        self._data.clear()
        self._number = os.urandom(size)
        self.connection.send(theirs.to_bytes(size, "big") + self._number, socket.MSG_DONTWAIT)

    def receive_streams(self) -> list[int]:
        """Wait for the confirmation with the standard streams; return their descriptors.

        The list is empty if this process has too many open files.

        Raises:
            OSError: the confirmation did not arrive.
        """
        begin, streams = self._receive(1)
        if begin == protocol.BEGIN and len(streams) == _STREAMS:
            return streams
        _close_all(streams)
        if begin != protocol.BEGIN:
            raise ConnectionError
        return []

    def _receive(self, size: int, flags: int = 0) -> tuple[bytes, list[int]]:
        """Receive bytes and descriptors.

        Raises:
            OSError: another process sent them, or they did not arrive.
        """
        flags |= socket.MSG_CMSG_CLOEXEC
        data, ancillary, _, _ = self.connection.recvmsg(size, _ANCILLARY, flags)
        streams: list[int] = []
        sender = 0
        for _, kind, value in ancillary:
            if kind == socket.SCM_RIGHTS:
                whole = len(value) // 4 * 4
                parts = (value[start : start + 4] for start in range(0, whole, 4))
                streams += [int.from_bytes(part, sys.byteorder) for part in parts]
            elif kind == socket.SCM_CREDENTIALS:
                sender = peer_check.sender_of(value)
        if data and sender != self.process.number:
            _close_all(streams)
            raise PermissionError
        return data, streams


class WaitingClients:
    """The connected processes, and the checks that each must pass."""

    def __init__(self, listener: socket.socket, secret: int, limits: dict[str, str]) -> None:
        """Accept only processes with the rights of this one and with the given limits."""
        self.listener = listener
        self._secret = secret
        self._limits = limits
        with peer_check.Process(os.getpid()) as own_process:
            self._rights = own_process.rights()
        self._clients: deque[Client] = deque()

    def descriptors(self) -> list[int]:
        """Return the descriptors to wait for."""
        return [self.listener.fileno(), *(client.connection.fileno() for client in self._clients)]

    @property
    def are_waiting(self) -> bool:
        """Return whether any client has not yet sent its complete request."""
        return bool(self._clients)

    def seconds_left(self) -> float | None:
        """Return the seconds until the first client times out; None without a client."""
        return max(0.0, self._clients[0].until - time.monotonic()) if self._clients else None

    def accept(self) -> None:
        """Accept a client if this process may act for it.

        Raises:
            OSError: the client cannot be accepted.
        """
        connection, _ = self.listener.accept()
        client = None
        with contextlib.suppress(OSError):
            client = Client(connection, peer_check.find_peer(connection))
            if self.may_act_for(client):
                self._clients.append(client)
                if len(self._clients) > _MAX_WAITING:
                    self._clients.popleft().close()
                return
        (client or connection).close()

    def may_act_for(self, client: Client) -> bool:
        """Return whether a process has the same rights and limits as this one."""
        with contextlib.suppress(OSError):
            rights, limits = client.process.rights(), limits_of(client.process)
            client.process.check()
            return not (
                peer_check.differences(rights, self._rights)
                or peer_check.differences(limits, self._limits)
            )
        return False

    def whole_requests(self, ready: set[int]) -> Iterator[tuple[Client, bytes]]:
        """Yield each client whose request is complete, with the request.

        ``ready`` contains the readable descriptors. Each yielded client is closed afterward.
        """
        for client in list(self._clients):
            if client.connection.fileno() not in ready:
                continue
            body = None
            try:
                body = client.read(self._secret)
                if body is None:
                    continue
            except OSError:
                pass
            self._clients.remove(client)
            try:
                if body is not None:
                    yield client, body
            finally:
                client.close()

    def close_late(self) -> None:
        """Close the clients that have timed out."""
        while self._clients and time.monotonic() > self._clients[0].until:
            self._clients.popleft().close()

    def close(self) -> None:
        """Close all clients."""
        while self._clients:
            self._clients.pop().close()


def limits_of(process: peer_check.Process) -> dict[str, str]:
    """Return a process's priority and resource limits, by name.

    Raises:
        OSError: the process has exited.
    """
    lines = [line for line in process.read("limits").splitlines() if line.startswith(_LIMITS)]
    nice = process.read("stat").rpartition(")")[2].split()[_NICE]
    limits = {line[:_LIMIT_WIDTH].strip(): line[_LIMIT_WIDTH:].strip() for line in lines}
    return {"priority": nice, **limits}


def _close_all(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
