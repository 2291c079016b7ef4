"""The resident process: runs command lines of other processes, with their vaults kept open.

One process serves a user's cache folder. It runs one command at a time, as the process that sent
it would: with its arguments, environment, folder and standard streams. What takes long, asks a
person or runs other programs is left to the client, which then does it itself.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from memvault import workspace
from memvault.agents import address
from memvault.call import LOCAL, Call
from memvault.cli import app, hand_over, hook, output, plain_line
from memvault.cli.peer import Peer, find_peer
from memvault.cli.shutdown import run_guarded
from memvault.errors import MemvaultError
from memvault.files import atomic
from memvault.files.lock import FileLock
from memvault.files.user_folders import make_private
from memvault.tools.core import invoke, registry
from memvault.tools.core.registry import Tool
from memvault.workspace import KeptWorkspaces, Workspace

_IDLE_SECONDS = 1_800.0
_CHECK_SECONDS = 60.0
_PAUSE = 1.0
"""Seconds without a command after which changes of the watched vaults are indexed."""
_BACKLOG = 64
_MAX_MEMORY = 512 << 20
"""Bytes of memory above which the process ends after a command; a vault needs about 100 MB."""
_ENDING = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
_PIECE = 1 << 16
_STREAMS = 3
_STREAM_NAMES = ("stdin", "stdout", "stderr", "__stdin__", "__stdout__", "__stderr__")
_NEEDS_CLIENT = frozenset(
    {
        "call_tool",
        "consolidate_memories",
        "git_init",
        "git_sync",
        "model_use",
        "model_verify",
        "vault_doctor",
        "vault_reindex",
        "wait_for",
    }
)
"""Tools that take long, load other libraries or run other programs."""


class Request(NamedTuple):
    """A command line of another process, with its environment.

    ``errors`` is how undecodable bytes of its standard input are read, and ``has_terminal`` whether
    one of its standard streams is a terminal.
    """

    identity: str
    errors: str
    has_terminal: bool
    arguments: list[str]
    environment: dict[str, str]

    @property
    def is_prompt_hook(self) -> bool:
        """Whether an agent's program waits for what concerns a prompt."""
        return self.arguments[:2] == ["hook", "prompt"]


class Resident:
    """The resident process of the cache folder that contains ``folder``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
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
            atomic.write(self._folder / "process", b"%d\n" % os.getpid(), durable=False)
            listener = stack.enter_context(_listening(self._folder))
            kept = workspace.kept = workspace.KeptWorkspaces()
            stack.callback(kept.close)
            os.chdir("/")
            _leave_streams()
            woken = stack.enter_context(_wake_up_by_signals())
            self._serve(listener, woken, kept)
        return True

    def status(self) -> dict[str, Any]:
        """Return the process, how many commands it has run, its memory, and its vaults."""
        return {
            "process": os.getpid(),
            "commands": self._answered,
            "megabytes": round(_memory() / 1e6, 1),
            "vaults": [str(root) for root in workspace.kept.roots] if workspace.kept else [],
        }

    def _serve(self, listener: socket.socket, woken: int, kept: KeptWorkspaces) -> None:
        """Answer clients, and index what changes in the kept vaults, until the process ends.

        ``woken`` is a descriptor with the numbers of the signals that were received.
        """
        pending = False
        while not self._is_over():
            waited = [listener.fileno(), woken]
            if not pending:
                waited += [watch.fileno() for watch in kept.watched()]
            ready, _, _ = select.select(waited, [], [], _PAUSE if pending else _CHECK_SECONDS)
            if woken in ready:
                if _ENDING & {*os.read(woken, 4096)}:
                    return
            elif listener.fileno() in ready:
                connection, _ = listener.accept()
                with connection:
                    self._answer(connection)
                pending = True
            elif pending or not ready:
                pending = False
                kept.for_each(_keep_up)
            else:
                pending = True

    def _is_over(self) -> bool:
        is_idle = time.monotonic() - self._used >= _IDLE_SECONDS
        return is_idle or _memory() > _MAX_MEMORY or not (self._folder / hand_over.SOCKET).exists()

    def _answer(self, connection: socket.socket) -> None:
        """Run the command of a client, if it may be run here; it works by itself otherwise."""
        connection.settimeout(hand_over.PATIENCE)
        streams: list[int] = []
        try:
            request = _receive(connection)
            peer = find_peer(connection)
            if request is None or peer is None or request.identity != self._identity:
                return
            answer = self._ready_for(request)
            if answer is None:
                return
            connection.sendall(answer)
            begin, streams, _, _ = socket.recv_fds(connection, 1, _STREAMS)
            if begin != hand_over.BEGIN or len(streams) != _STREAMS:
                return
            self._used = time.monotonic()
            code = self._run_for(request, streams, peer, connection)
            if code is not None:
                connection.sendall(bytes([code & 0xFF]))
            self._answered += 1
        except (OSError, ValueError):
            return  # the client has ended, or is none
        finally:
            for descriptor in streams:
                os.close(descriptor)

    def _ready_for(self, request: Request) -> bytes | None:
        """Return the answer to a request, None if the client has to run the command."""
        if request.is_prompt_hook:
            return hand_over.READS
        line = plain_line.parse(request.arguments)
        if line is None:
            return None
        tool: Tool | None = None
        if isinstance(line.command, Tool):
            tool = line.command
        elif line.command.words == "call":
            tool = registry.lookup(str(line.values["name"]))
        elif line.command.words == "watch" and line.values["status"]:
            return hand_over.READS
        if tool is None or tool.name in _NEEDS_CLIENT or tool.open_world:
            return None
        if tool.read_only:
            return hand_over.READS
        return None if request.has_terminal else hand_over.WRITES

    def _run_for(
        self, request: Request, streams: list[int], peer: Peer, connection: socket.socket
    ) -> int | None:
        """Run a command as its client; return its exit code, None if the client has to run it."""
        with ExitStack() as stack:
            try:
                stack.enter_context(peer.folder_and_mask())
            except OSError:
                return None
            stack.enter_context(_environment(request.environment))
            stack.enter_context(_standard_streams(streams, request.errors))
            stack.enter_context(_signals_from(connection))
            stack.enter_context(output.without_person())
            sys.argv[1:] = request.arguments
            try:
                if request.is_prompt_hook:
                    return run_guarded(lambda: hook.respond(request.arguments[1:]))
                return run_guarded(lambda: app.run(request.arguments))
            except output.PersonNeeded:
                return None
            finally:
                self._used = time.monotonic()
        raise AssertionError("nothing above suppresses exceptions")


def _keep_up(opened: Workspace) -> None:
    """Index what has changed in a vault, and deliver the events of plans that are due."""
    opened.progress = lambda *_: None
    if opened.settings.index.sent:  # its memories are elsewhere
        return
    opened.index.keep_up()
    for name in address.known(opened.root):
        call = Call(opened, LOCAL._replace(agent=name), tool="watch", read_only=False)
        with contextlib.suppress(MemvaultError):  # such as a name that no agent can have
            due = call.plans.next_due()
            if due is not None and due <= call.plans.now():
                with call.inbox.locked():
                    pass  # the events of plans are delivered before anything else
                invoke.autocommit(call)


@contextmanager
def _wake_up_by_signals() -> Iterator[int]:
    """Yield a descriptor that can be read once a signal was received, with its number."""
    reader, writer = os.pipe()
    for descriptor in (reader, writer):
        os.set_blocking(descriptor, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    kept = {number: signal.signal(number, lambda *_: None) for number in _ENDING}
    try:
        yield reader
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(-1)
        os.close(reader)
        os.close(writer)


def _leave_streams() -> None:
    """Read and write nothing between two commands."""
    null = os.open(os.devnull, os.O_RDWR)
    for number in range(_STREAMS):
        os.dup2(null, number)
    os.close(null)


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


def _receive(connection: socket.socket) -> Request | None:
    """Read a request; None if the client has ended.

    Raises:
        ValueError: it is not a request.
    """
    data = b""
    size = hand_over.SIZE
    while len(data) < size:
        piece = connection.recv(_PIECE)
        if not piece:
            return None
        data += piece
        size = hand_over.SIZE + int.from_bytes(data[: hand_over.SIZE], "big")
        if size > hand_over.MAX_REQUEST:
            raise ValueError(f"a request of {size} bytes")
    texts = [os.fsdecode(text) for text in data[hand_over.SIZE :].split(b"\0")]
    identity, errors, has_terminal, count, *texts = texts
    number = int(count)
    variables = (text.partition("=") for text in texts[number:])
    environment = {name: value for name, _, value in variables}
    return Request(identity, errors, bool(has_terminal), texts[:number], environment)


@contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    """Have the environment of a client, until another client comes."""
    if dict(os.environ) != variables:
        zone = os.environ.get("TZ")
        os.environ.clear()
        os.environ.update(variables)
        if zone != variables.get("TZ"):
            time.tzset()
        tempfile.tempdir = None  # found anew
    yield


@contextmanager
def _standard_streams(streams: list[int], errors: str) -> Iterator[None]:
    """Use the standard streams of a client; ``errors`` as in ``Request``."""
    kept = {name: getattr(sys, name) for name in _STREAM_NAMES}
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
    reader = open(0, encoding="utf-8", errors=errors, closefd=False)  # noqa: SIM115
    out, err = (
        open(number, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
        for number in (1, 2)
    )
    err.reconfigure(line_buffering=True)
    if out.isatty():
        out.reconfigure(line_buffering=True)
    for name, stream in zip(_STREAM_NAMES, (reader, out, err) * 2, strict=True):
        setattr(sys, name, stream)
    try:
        yield
    finally:
        for stream in (out, err):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
            with contextlib.suppress(OSError, ValueError):
                stream.detach()
        for name, stream in kept.items():
            setattr(sys, name, stream)
        _leave_streams()


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
