"""The resident process: runs command lines of other processes, with their vaults kept open.

One process serves a user's cache folder. It runs one command at a time, as the process that sent
it would: with its arguments, environment, folder and standard streams. What takes long, asks a
person or runs other programs is left to the client, which then does it itself.
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import resource
import select
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from memvault.agents import address
from memvault.call import LOCAL, Call
from memvault.cli import app, hand_over, hook, kept_vaults, output, peer, plain_line
from memvault.cli.shutdown import run_guarded
from memvault.errors import MemvaultError
from memvault.files.lock import FileLock
from memvault.files.user_folders import make_private
from memvault.tools.core import invoke, registry
from memvault.tools.core.registry import Tool
from memvault.workspace import Workspace

assert sys.platform == "linux"
_IDLE_SECONDS = 1_800.0
_CHECK_SECONDS = 60.0
_PAUSE = 1.0
"""Seconds without a command after which changes of the watched vaults are indexed."""
_BACKLOG = 64
_MAX_MEMORY = 512 << 20
"""Bytes of memory above which the process ends after a command; a vault needs about 100 MB."""
_ENDING = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
_INTERRUPTED = 128
"""Exit codes from here on are those of signals."""
_MAX_DESCRIPTORS = 65_536
_FIELDS = 4
"""How many texts come before the arguments in a request."""
_PIECE = 1 << 16
_STREAMS = 3
_STREAM_NAMES = ("stdin", "stdout", "stderr", "__stdin__", "__stdout__", "__stderr__")


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
        self._program = _program_state()

    def serve(self) -> bool:
        """Serve until the process is idle or asked to end; False if another one serves already.

        Raises:
            OSError: the socket cannot be created.
        """
        # What the process that started this one has open is not kept for as long.
        os.closerange(_STREAMS, min(os.sysconf("SC_OPEN_MAX"), _MAX_DESCRIPTORS))
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # for vaults that are kept open
        make_private(self._folder)
        lock = FileLock(self._folder / "lock")
        if not lock.acquire(_PAUSE):
            return False
        with ExitStack() as stack:
            stack.callback(lock.release)
            listener = stack.enter_context(_listening(self._folder))
            kept = kept_vaults.kept = kept_vaults.KeptWorkspaces()
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
            "vaults": [str(root) for root in kept_vaults.kept.roots] if kept_vaults.kept else [],
        }

    def _serve(self, listener: socket.socket, woken: int, kept: kept_vaults.KeptWorkspaces) -> None:
        """Answer clients, and index what changes in the kept vaults, until the process ends.

        ``woken`` is a descriptor with the numbers of the signals that were received.
        """
        pending = False
        socket_file = _identity(self._folder)
        while not self._is_over(socket_file):
            waited = [listener.fileno(), woken]
            if not pending:
                waited += [watch.fileno() for watch in kept.watched()]
            ready = _readable(waited, _PAUSE if pending else _CHECK_SECONDS)
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

    def _is_over(self, socket_file: tuple[int, int] | None) -> bool:
        """Return whether the process is unused, too large, out of reach, or of another version."""
        return (
            time.monotonic() - self._used >= _IDLE_SECONDS
            or _memory() > _MAX_MEMORY
            or _identity(self._folder) != socket_file
            or _program_state() != self._program
        )

    def _answer(self, connection: socket.socket) -> None:
        """Run the command of a client, if it may be run here; it works by itself otherwise."""
        connection.settimeout(hand_over.PATIENCE)
        streams: list[int] = []
        try:
            request = _receive(connection)
            client = peer.find_peer(connection)
            if request is None or client is None or request.identity != self._identity:
                return
            if _program_state() != self._program:
                return
            answer = self._ready_for(request)
            if answer is None:
                return
            with client.folder_and_mask():
                connection.sendall(answer)
                begin, streams, _, _ = socket.recv_fds(connection, 1, _STREAMS)
                if begin != hand_over.BEGIN or len(streams) != _STREAMS:
                    return
                connection.settimeout(None)
                code = self._run_for(request, streams, connection)
            if code is not None:
                connection.sendall(hand_over.ENDED + bytes([code & 0xFF]))
        except OSError:
            return  # the client has ended
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
        if tool is None or tool.takes_long or tool.open_world:
            return None
        if tool.read_only:
            return hand_over.READS
        return None if request.has_terminal else hand_over.WRITES

    def _run_for(
        self, request: Request, streams: list[int], connection: socket.socket
    ) -> int | None:
        """Run a command as its client; return its exit code, None if the client has to run it."""
        self._used = time.monotonic()
        self._answered += 1
        is_whole = False
        with ExitStack() as stack:
            stack.enter_context(_environment(request.environment))
            stack.enter_context(_standard_streams(streams, request.errors, connection))
            signals = _ClientSignals(connection)
            stack.enter_context(signals.received())
            stack.enter_context(output.without_terminal())
            sys.argv[1:] = request.arguments
            try:
                run = hook.respond if request.is_prompt_hook else app.run
                words = request.arguments[request.is_prompt_hook :]
                code = run_guarded(lambda: signals.run(lambda: run(words)))
                is_whole = code < _INTERRUPTED
                return code
            except output.TerminalNeeded:
                return None
            finally:
                self._used = time.monotonic()
                if not is_whole and kept_vaults.kept is not None:
                    kept_vaults.kept.close()  # its parts were left anywhere
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
    own = _identity(folder)
    try:
        yield listener
    finally:
        listener.close()
        if _identity(folder) == own:  # not another process's
            path.unlink(missing_ok=True)


def _program_state() -> list[int]:
    """Return when files of the program were last added, replaced or removed, in each folder."""
    package = Path(__file__).parents[1]
    folders = (package, *(folder for folder in package.iterdir() if folder.is_dir()))
    return [folder.stat().st_mtime_ns for folder in folders if folder.name != "__pycache__"]


def _readable(descriptors: list[int], seconds: float) -> set[int]:
    """Return those of some descriptors that can be read, after waiting for one."""
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return {descriptor for descriptor, _ in poll.poll(seconds * 1_000)}


def _identity(folder: Path) -> tuple[int, int] | None:
    """Return the device and inode of the socket in a folder; None if there is none."""
    try:
        status = (folder / hand_over.SOCKET).lstat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _receive(connection: socket.socket) -> Request | None:
    """Read a request; None if there is none."""
    data = b""
    size = hand_over.SIZE
    while len(data) < size:
        piece = connection.recv(_PIECE)
        if not piece:
            return None
        data += piece
        size = hand_over.SIZE + int.from_bytes(data[: hand_over.SIZE], "big")
        if size > hand_over.MAX_REQUEST:
            return None
    texts = [os.fsdecode(text) for text in data[hand_over.SIZE :].split(b"\0")]
    if len(texts) < _FIELDS or not texts[_FIELDS - 1].isdecimal():
        return None
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


class _AnnouncedOutput(io.FileIO):
    """A standard stream of a client; ``PRINTS`` is sent before the first write to one of them."""

    def __init__(self, descriptor: int, connection: socket.socket, announced: list[bool]) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self._connection = connection
        self._announced = announced

    def write(self, data: Any, /) -> int:
        """Write bytes."""
        if not self._announced:
            self._announced.append(True)
            with contextlib.suppress(OSError):  # the client has ended
                self._connection.sendall(hand_over.PRINTS)
        return super().write(data)


@contextmanager
def _standard_streams(streams: list[int], errors: str, connection: socket.socket) -> Iterator[None]:
    """Use the standard streams of a client; ``PRINTS`` is sent to it before something is printed.

    ``errors`` is as in ``Request``.
    """
    kept = {name: getattr(sys, name) for name in _STREAM_NAMES}
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
    reader = open(0, encoding="utf-8", errors=errors, closefd=False)  # noqa: SIM115  # 0 stays open
    announced: list[bool] = []
    out, err = (
        io.TextIOWrapper(
            io.BufferedWriter(_AnnouncedOutput(number, connection, announced)),
            encoding="utf-8",
            errors="backslashreplace",
        )
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


class _ClientSignals:
    """The signals that a client sends over its connection; the client's end counts as SIGTERM."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._pending = 0
        self._interrupt: Any = None

    @contextmanager
    def received(self) -> Iterator[None]:
        """Receive signals in the block; what comes before ``run`` is kept for it."""
        descriptor = self._connection.fileno()
        kept = signal.signal(signal.SIGIO, self._receive)
        fcntl.fcntl(descriptor, fcntl.F_SETOWN, os.getpid())
        flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
        fcntl.fcntl(descriptor, fcntl.F_SETFL, flags | fcntl.FASYNC)
        try:
            os.kill(os.getpid(), signal.SIGIO)  # for what came before
            yield
        finally:
            signal.signal(signal.SIGIO, signal.SIG_IGN)
            fcntl.fcntl(descriptor, fcntl.F_SETFL, flags)
            signal.signal(signal.SIGIO, kept or signal.SIG_DFL)

    def run(self, command: Callable[[], int]) -> int:
        """Run a command within ``run_guarded``, interrupted by these signals only.

        Those that this process receives itself wait for the end of the command.
        """
        kept = {number: signal.signal(number, lambda *_: None) for number in _ENDING}
        try:
            self._interrupt = kept[signal.SIGTERM]
            if self._pending:
                self._interrupt(self._pending, None)
            return command()
        finally:
            self._interrupt = None
            for number, handler in kept.items():
                signal.signal(number, handler)

    def _receive(self, _: int, frame: object) -> None:
        try:
            data = self._connection.recv(1, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        number = data[0] if data else signal.SIGTERM
        if self._interrupt is not None:
            self._interrupt(number, frame)
        else:
            self._pending = number


def _memory() -> int:
    """Return the bytes of memory that the process occupies."""
    pages = Path("/proc/self/statm").read_text("ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")
