"""The resident process: runs command lines of other processes, with their vaults kept open.

One process serves a user's cache folder. It runs one command at a time, as the process that sent
it would: with its arguments, environment, folder and standard streams. What takes long, asks a
person or runs other programs is left to the client, which then does it itself.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import io
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from memvault import workspace
from memvault.cli import app, hand_over, output, plain_line
from memvault.cli.peer import Peer, find_peer
from memvault.cli.shutdown import run_guarded
from memvault.files.lock import FileLock
from memvault.files.user_folders import make_private
from memvault.tools.core import registry
from memvault.tools.core.registry import Tool
from memvault.workspace import KeptWorkspaces

_IDLE_SECONDS = 1_800.0
_PAUSE = 1.0
"""Seconds without a command after which changes of the watched vaults are indexed."""
_BACKLOG = 64
_MAX_MEMORY = 512 << 20
"""Bytes of memory above which the process ends after a command; a vault needs about 100 MB."""
_STREAMS = 3
_STOPPED = 128 + signal.SIGTERM
_NEEDS_CLIENT = frozenset({"wait_for"})
"""Tools that take long by design."""


class Request(NamedTuple):
    """A command line of another process, with its environment and its standard streams.

    ``errors`` is how undecodable bytes of its standard input are read.
    """

    identity: str
    errors: str
    arguments: list[str]
    environment: dict[str, str]
    streams: list[int]

    @property
    def has_terminal(self) -> bool:
        """Whether one of its streams is a terminal."""
        return any(map(os.isatty, self.streams))


class Resident:
    """The resident process of the cache folder that contains ``folder``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stops = False
        self._used = time.monotonic()
        self._answered = 0
        self._identity = hand_over.identity()

    def serve(self) -> bool:
        """Serve until the process is idle or asked to end; False if another one serves already.

        Raises:
            OSError: the socket cannot be created.
        """
        make_private(self._folder)
        lock = FileLock(self._folder / "lock")
        if not lock.acquire(0.0):
            return False
        with ExitStack() as stack:
            stack.callback(lock.release)
            (self._folder / "process").write_text(f"{os.getpid()}\n", "ascii")
            listener = stack.enter_context(_listening(self._folder))
            kept = workspace.kept = workspace.KeptWorkspaces()
            stack.callback(kept.close)
            _prepare_process(self._stop)
            self._serve(listener, kept)
        return True

    def status(self) -> dict[str, Any]:
        """Return the process, how many commands it has run, its memory, and its vaults."""
        return {
            "process": os.getpid(),
            "commands": self._answered,
            "megabytes": round(_memory() / 1e6, 1),
            "vaults": [str(root) for root in workspace.kept.roots] if workspace.kept else [],
        }

    def _serve(self, listener: socket.socket, kept: KeptWorkspaces) -> None:
        pending = False
        while not self._is_over():
            timeout = _PAUSE if pending else _IDLE_SECONDS
            watched = [] if pending else kept.watched()
            ready, _, _ = select.select([listener, *watched], [], [], timeout)
            if listener in ready:
                connection, _ = listener.accept()
                with connection:
                    self._answer(connection)
                pending = True
            elif pending:
                pending = False
                kept.refresh()
            else:
                pending = bool(ready)

    def _is_over(self) -> bool:
        is_idle = time.monotonic() - self._used >= _IDLE_SECONDS
        return self._stops or is_idle or _memory() > _MAX_MEMORY

    def _stop(self, *_: object) -> None:
        self._stops = True

    def _answer(self, connection: socket.socket) -> None:
        """Run the command of a client, if it may be run here; it works by itself otherwise."""
        connection.settimeout(hand_over.PATIENCE)
        streams: list[int] = []
        try:
            request = _receive(connection, streams)
            peer = find_peer(connection)
            if request is None or peer is None or request.identity != self._identity:
                return
            answer = self._ready_for(request)
            if answer is None:
                return
            connection.sendall(answer)
            if connection.recv(1) != hand_over.BEGIN:
                return
            self._used = time.monotonic()
            code = self._run_for(request, peer, connection)
            if code is not None:
                connection.sendall(bytes([code & 0xFF]))
            self._answered += 1
        except OSError:
            return  # the client has ended
        finally:
            for descriptor in streams:
                os.close(descriptor)

    def _ready_for(self, request: Request) -> bytes | None:
        """Return the answer to a request, None if the client has to run the command."""
        line = plain_line.parse(request.arguments)
        if line is None:
            return None
        tool = line.command if isinstance(line.command, Tool) else None
        if tool is None and line.command.words == "call":
            tool = registry.lookup(str(line.values["name"] or ""))
        if tool is None:
            is_status = line.command.words == "watch" and line.values["status"]
            return hand_over.READS if is_status else None
        if tool.name in _NEEDS_CLIENT or tool.open_world:
            return None
        if tool.read_only:
            return hand_over.READS
        return None if request.has_terminal else hand_over.WRITES

    def _run_for(self, request: Request, peer: Peer, connection: socket.socket) -> int | None:
        """Run a command as its client; return its exit code, None if the client has to run it."""
        with ExitStack() as stack:
            try:
                stack.enter_context(peer.folder_and_mask())
            except OSError:
                return None
            stack.enter_context(_environment(request.environment))
            stack.enter_context(_streams(request))
            stack.enter_context(_signals_from(connection))
            stack.enter_context(output.without_person())
            sys.argv[1:] = request.arguments
            try:
                return run_guarded(lambda: app.run(request.arguments))
            except output.PersonNeeded:
                return None
            finally:
                self._used = time.monotonic()
        raise AssertionError("nothing above suppresses exceptions")


def _prepare_process(stop: Callable[..., None]) -> None:
    """Leave the terminal and the folder of the process that started this one."""
    os.chdir("/")
    null = os.open(os.devnull, os.O_RDWR)
    for number in range(_STREAMS):
        os.dup2(null, number)
    os.close(null)
    signal.signal(signal.SIGTERM, stop)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    gc.set_threshold(100_000, 20, 20)


@contextmanager
def _listening(folder: Path) -> Iterator[socket.socket]:
    """Listen on the socket in a folder, which is deleted at the end."""
    path = folder / hand_over.SOCKET
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    path.unlink(missing_ok=True)
    mask = os.umask(0o177)
    try:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(f"/proc/self/fd/{descriptor}/{hand_over.SOCKET}")  # may be too long a path
    finally:
        os.umask(mask)
        os.close(descriptor)
    listener.listen(_BACKLOG)
    try:
        yield listener
    finally:
        listener.close()
        with contextlib.suppress(OSError):
            path.unlink()


def _receive(connection: socket.socket, streams: list[int]) -> Request | None:
    """Read a request; its descriptors are added to ``streams``. None if it is not one."""
    data, descriptors, _, _ = socket.recv_fds(connection, 1 << 16, _STREAMS)
    streams += descriptors
    size = int.from_bytes(data[: hand_over.SIZE], "big")
    parts = [data[hand_over.SIZE :]]
    missing = size - len(parts[0])
    while missing > 0:
        parts.append(connection.recv(min(missing, 1 << 16)))
        if not parts[-1]:
            return None
        missing -= len(parts[-1])
    identity, errors, count, *texts = map(os.fsdecode, b"".join(parts).split(b"\0"))
    number = int(count)
    variables = (text.partition("=") for text in texts[number:])
    environment = {name: value for name, _, value in variables}
    found = Request(identity, errors, texts[:number], environment, streams)
    return found if len(streams) == _STREAMS else None


@contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    """Have the environment of a client, until another client comes."""
    if dict(os.environ) != variables:
        zone = os.environ.get("TZ")
        os.environ.clear()
        os.environ.update(variables)
        if zone != variables.get("TZ"):
            time.tzset()
        if "tempfile" in sys.modules:
            sys.modules["tempfile"].tempdir = None  # found anew
    yield


@contextmanager
def _streams(request: Request) -> Iterator[None]:
    """Use the standard streams of a client."""
    kept = sys.stdin, sys.stdout, sys.stderr, sys.__stdin__, sys.__stdout__, sys.__stderr__
    for number, descriptor in enumerate(request.streams):
        os.dup2(descriptor, number)
    reader = io.open(0, encoding="utf-8", errors=request.errors, closefd=False)
    out, err = (
        io.open(number, "w", encoding="utf-8", errors="backslashreplace", closefd=False)
        for number in (1, 2)
    )
    err.reconfigure(line_buffering=True)
    if out.isatty():
        out.reconfigure(line_buffering=True)
    sys.stdin = sys.__stdin__ = reader
    sys.stdout = sys.__stdout__ = out
    sys.stderr = sys.__stderr__ = err
    try:
        yield
    finally:
        for stream in (out, err):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
            with contextlib.suppress(OSError, ValueError):
                stream.detach()
        sys.stdin, sys.stdout, sys.stderr, sys.__stdin__, sys.__stdout__, sys.__stderr__ = kept
        null = os.open(os.devnull, os.O_RDWR)
        for number in range(_STREAMS):
            os.dup2(null, number)
        os.close(null)


@contextmanager
def _signals_from(connection: socket.socket) -> Iterator[None]:
    """Handle the signals that the client sends over the connection, and its end as SIGTERM."""

    def receive(_: int, frame: object) -> None:
        try:
            data = connection.recv(1, socket.MSG_DONTWAIT)
        except OSError:
            return
        number = data[0] if data else signal.SIGTERM
        handler = signal.getsignal(number)
        if callable(handler):
            handler(number, frame)  # type: ignore[arg-type]  # a frame, or None

    kept = signal.signal(signal.SIGIO, receive)
    descriptor = connection.fileno()
    fcntl.fcntl(descriptor, fcntl.F_SETOWN, os.getpid())
    flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
    fcntl.fcntl(descriptor, fcntl.F_SETFL, flags | fcntl.FASYNC)
    try:
        yield
    finally:
        signal.signal(signal.SIGIO, signal.SIG_IGN)
        fcntl.fcntl(descriptor, fcntl.F_SETFL, flags)
        signal.signal(signal.SIGIO, kept or signal.SIG_DFL)


def _memory() -> int:
    """Return the bytes of memory that the process occupies."""
    pages = Path("/proc/self/statm").read_text("ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")
