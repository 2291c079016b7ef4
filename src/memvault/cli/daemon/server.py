"""Run other processes' command lines in a resident process that keeps their vaults open.

One process serves a user's cache folder. It runs one command at a time exactly as the client would:
with its arguments, variables, folder and standard streams. Commands that take a long time, ask the
user or run other programs are left to the client.
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
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from memvault import workspace
from memvault.agents import address
from memvault.call import LOCAL, Call
from memvault.cli import command_line, output
from memvault.cli.daemon import client as protocol
from memvault.cli.daemon import peer_check, pending_clients
from memvault.cli.daemon.request import Request, parse
from memvault.cli.daemon.workspace_cache import WorkspaceCache
from memvault.cli.shutdown import run_guarded
from memvault.errors import MemvaultError, Refused
from memvault.files.lock import FileLock
from memvault.files.user_folders import make_private
from memvault.settings import locate, vault_settings
from memvault.tools.core import invoke, registry
from memvault.tools.core.registry import Tool
from memvault.workspace import UNUSED_SECONDS, Workspace

assert sys.platform == "linux"
_IDLE_SECONDS = 1_800.0
_CHECK_SECONDS = 60.0
_PAUSE = 1.0
"""Seconds of idle time after which changes in the watched vaults are indexed."""
_BACKLOG = 64
_MAX_MEMORY = 512 << 20
"""Memory in bytes above which the process exits after a command; four vaults use up to 110 MB."""
_ENDING = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
_INTERRUPTED = 128
"""The smallest exit code that means a signal."""
_MAX_DESCRIPTORS = 65_536
_MIN_DESCRIPTORS = 256
_MAX_CLOCK_DIFFERENCE = 2_000
"""Maximum difference from a client's clock in milliseconds."""
_PACKAGE = Path(__file__).parents[1]
_STREAMS = 3
_STREAM_NAMES = ("stdin", "stdout", "stderr", "__stdin__", "__stdout__", "__stderr__")

Run = Callable[[list[str]], int]


class Daemon:
    """The daemon of the cache folder that contains ``folder``."""

    def __init__(self, folder: Path, run: Run, respond: Run) -> None:
        """Prepare the daemon.

        Args:
            folder: The socket's folder, below the cache folder.
            run: Runs a command line and returns its exit code.
            respond: Answers a prompt hook and returns its exit code.
        """
        self._folder = folder
        self._run = run
        self._respond = respond
        self._used = time.monotonic()
        self._answered = 0
        self._identity = protocol.identity()
        self._program = _program_state()
        self._variables = {
            name: value
            for name, value in os.environ.items()
            if protocol.is_sent(name) and name not in protocol.APPLIED
        }
        self._cache = WorkspaceCache()
        self._descriptors = (0, 0)
        self._null = -1

    def serve(self) -> bool:
        """Serve until idle or asked to stop; return False if another daemon is serving.

        Raises:
            Refused: this process may be in a sandbox, or may not open enough files.
            OSError: the socket cannot be created.
        """
        # Close the files inherited from the process that started this one.
        os.closerange(_STREAMS, min(os.sysconf("SC_OPEN_MAX"), _MAX_DESCRIPTORS))
        with peer_check.Process(os.getpid()) as own_process:
            # Read before this process raises its own limit.
            limits = pending_clients.limits_of(own_process)
            if peer_check.may_be_sandboxed(own_process.rights()):
                raise Refused(
                    "The resident process cannot run in a sandbox",
                    "run it outside the sandbox, or run commands without it",
                )
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        if most < _MIN_DESCRIPTORS:
            raise Refused(
                f"The resident process needs {_MIN_DESCRIPTORS} open files, "
                f"but its limit is {most}",
                f"run `ulimit -n {_MIN_DESCRIPTORS}` first",
            )
        self._descriptors = (most, most)
        # Open vaults need many descriptors.
        resource.setrlimit(resource.RLIMIT_NOFILE, self._descriptors)
        secret, self._null = _keep_secret(), _null_device()
        make_private(self._folder)
        lock = FileLock(self._folder / "lock")
        if not lock.acquire(_PAUSE):
            return False
        with ExitStack() as stack:
            stack.callback(lock.release)
            socket_path = _socket_of(self._folder)
            listener = stack.enter_context(_listening(socket_path))
            clients = pending_clients.WaitingClients(listener, secret, limits)
            stack.callback(clients.close)
            stack.callback(self._cache.close)
            workspace.reuse = self._cache.open
            os.chdir("/")
            _leave_streams(self._null)
            woken = stack.enter_context(_wake_up_by_signals())
            self._serve(clients, woken)
        return True

    def status(self) -> dict[str, Any]:
        """Return the pid, the number of commands run, the memory use and the vaults."""
        return {
            "process": os.getpid(),
            "commands": self._answered,
            "megabytes": round(_memory() / 1e6, 1),
            "vaults": list(map(str, self._cache.roots)),
        }

    def _serve(self, clients: pending_clients.WaitingClients, woken: int) -> None:
        """Answer clients, and index changes in the cached vaults, until the daemon ends.

        ``woken`` is a descriptor from which the numbers of received signals can be read.
        """
        pending = False
        socket_path = _socket_of(self._folder)
        socket_file = _identity(socket_path)
        while not self._is_over(socket_path, socket_file):
            waited = [woken, *clients.descriptors()]
            if not pending:
                waited += [watch.fileno() for watch in self._cache.watched()]
            seconds = clients.seconds_left()
            if seconds is None:
                seconds = _PAUSE if pending else _CHECK_SECONDS
            ready = _readable(waited, seconds)
            if woken in ready:
                if _ENDING & {*os.read(woken, 4096)}:
                    return
            elif clients.are_waiting or clients.listener.fileno() in ready:
                pending |= self._attend(clients, ready)
            elif pending or not ready:
                pending = False
                self._cache.for_each(_keep_up)
                self._cache.free_memory(UNUSED_SECONDS)
            else:
                pending = True

    def _attend(self, clients: pending_clients.WaitingClients, ready: set[int]) -> bool:
        """Accept a client and run fully received commands; return whether any ran.

        ``ready`` contains the descriptors that can be read.
        """
        answered = False
        if clients.listener.fileno() in ready:
            try:
                clients.accept()
            except BlockingIOError:  # The client has disconnected.
                pass
            except OSError:  # For example, too many open files.
                clients.close()
                self._cache.close()
                time.sleep(protocol.PATIENCE)
        for client, body in clients.whole_requests(ready):
            if len(os.listdir("/proc/self/fd")) > self._descriptors[0] // 2:
                self._cache.close()
            self._answer(client, body, clients)
            answered = True
        clients.close_late()
        return answered

    def _is_over(self, socket_path: Path, socket_file: tuple[int, int] | None) -> bool:
        """Return whether the daemon is idle, too large, unreachable or outdated."""
        return (
            time.monotonic() - self._used >= _IDLE_SECONDS
            or _memory() > _MAX_MEMORY
            or _identity(socket_path) != socket_file
            or _socket_of(self._folder) != socket_path
            or resource.getrlimit(resource.RLIMIT_NOFILE) != self._descriptors
            or _program_state() != self._program
        )

    def _answer(
        self, client: pending_clients.Client, body: bytes, clients: pending_clients.WaitingClients
    ) -> None:
        """Run a client's command if possible; otherwise tell the client to run it."""
        connection = client.connection
        connection.settimeout(protocol.PATIENCE)
        try:
            request = parse(body)
            if request is None:
                return
            reason = self._reason_against(request)
            with _folder_and_mask(client.process):
                answer = None if reason else self._ready_for(request)
                if answer is None:
                    connection.sendall(protocol.LEFT + reason.encode())
                    return
                connection.sendall(answer)
                streams = client.receive_streams()
                try:
                    connection.settimeout(None)
                    last = protocol.LEFT
                    if streams and clients.may_act_for(client):
                        last = self._run_for(request, streams, connection, answer)
                finally:
                    for descriptor in streams:
                        os.close(descriptor)
            connection.sendall(last)
        except OSError:
            return  # The client has disconnected.

    def _reason_against(self, request: Request) -> str:
        """Return why a process's commands cannot run here; empty if they can."""
        if request.identity != self._identity or _program_state() != self._program:
            return "different memvault version, installation or Python options"
        if abs(request.milliseconds - time.time() * 1_000) > _MAX_CLOCK_DIFFERENCE:
            return "different system time"
        theirs = request.compared
        names = {name for name, _ in theirs.items() ^ self._variables.items()}
        return f"different values of {', '.join(sorted(names))}" if names else ""

    def _ready_for(self, request: Request) -> bytes | None:
        """Return the answer to a request, or None if the client must run the command."""
        # The client will report the error.
        with contextlib.suppress(Exception), _variables(request.applied):
            return self._answer_to(request)
        return None

    def _answer_to(self, request: Request) -> bytes | None:
        if request.is_prompt_hook:
            return protocol.READS
        line = command_line.parse(request.arguments)
        if line is None:
            return None
        tool: Tool | None = None
        if isinstance(line.command, Tool):
            tool = line.command
        elif line.command.words == "call":
            tool = registry.lookup(str(line.values["name"]))
        elif line.command.words == "watch" and line.values["status"]:
            return protocol.READS
        if tool is None or tool.takes_long or tool.open_world:
            return None
        if tool.read_only and "-" not in request.arguments:
            return protocol.READS
        # A command that changes something or reads standard input cannot be rerun.
        is_left = not tool.read_only and _is_committed(line.shared["vault"], request.arguments)
        return None if request.has_terminal or is_left else protocol.WRITES

    def _run_for(
        self, request: Request, streams: list[int], connection: socket.socket, answer: bytes
    ) -> bytes:
        """Run a command for a client that was sent ``answer``; return the last message to send."""
        self._used = time.monotonic()
        self._answered += 1
        is_whole = False
        with ExitStack() as stack:
            stack.enter_context(_variables(request.applied))
            announced = stack.enter_context(
                _standard_streams(streams, request.errors, connection, self._null)
            )
            signals = _ClientSignals(connection)
            stack.enter_context(signals.received())
            stack.enter_context(
                output.for_client(lambda: answer == protocol.READS and not announced)
            )
            sys.argv[1:] = request.arguments
            try:
                run = self._respond if request.is_prompt_hook else self._run
                argv = request.arguments[request.is_prompt_hook :]
                code = run_guarded(lambda: signals.run(lambda: run(argv)))
                is_whole = code < _INTERRUPTED
                return protocol.ENDED + bytes([code & 0xFF])
            except output.ClientNeeded:
                return b""
            finally:
                self._used = time.monotonic()
                if not is_whole:
                    self._cache.close()  # An interrupt may have left the vaults in any state.
        raise AssertionError("nothing above suppresses exceptions")


def _is_committed(vault: str | None, arguments: list[str]) -> bool:
    """Return whether a command's changes are committed to git.

    Raises:
        MemvaultError: there is no vault, or its settings are invalid.
    """
    opened = workspace.open_workspace(locate.find_vault(vault, lambda *_: None))
    opened.refresh_settings()
    if opened.settings.git.autocommit:
        return True
    if not any(":" in argument for argument in arguments):  # Not a NAME:MEMORY in another vault.
        return False
    others = locate.reachable_vaults(LOCAL.vaults).values()
    return any(vault_settings.load_settings(root).git.autocommit for root in others)


def _keep_up(opened: Workspace) -> None:
    """Index the changes in a vault, and deliver the events of due plans."""
    opened.progress = lambda *_: None
    if opened.settings.index.sent:  # Its memories are on another machine.
        return
    opened.index.index_small_changes()
    for name in address.agent_names(opened.root):
        call = Call(opened, LOCAL._replace(agent=name), tool="watch", read_only=False)
        with contextlib.suppress(MemvaultError):  # For example, an invalid agent name.
            due = call.plans.next_due()
            if due is not None and due <= call.plans.now():
                with call.inbox.locked():
                    pass  # Locking the inbox delivers due plans.
                invoke.autocommit(call)


@contextmanager
def _wake_up_by_signals() -> Iterator[int]:
    """Yield a descriptor from which the number of each received signal can be read."""
    reader, writer = os.pipe()
    for descriptor in (reader, writer):
        os.set_blocking(descriptor, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    handlers = {number: signal.signal(number, lambda *_: None) for number in _ENDING}
    try:
        yield reader
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(-1)
        os.close(reader)
        os.close(writer)


def _keep_secret() -> int:
    """Return a new secret, which other processes can read at ``SECRET_DESCRIPTOR``."""
    secret, descriptor = peer_check.keep_secret()
    if descriptor != protocol.SECRET_DESCRIPTOR:
        os.dup2(descriptor, protocol.SECRET_DESCRIPTOR, inheritable=False)
        os.close(descriptor)
    return secret


def _null_device() -> int:
    """Return a descriptor of the null device that is not a standard stream."""
    first = os.open(os.devnull, os.O_RDWR)
    null = fcntl.fcntl(first, fcntl.F_DUPFD_CLOEXEC, _STREAMS)
    if first >= _STREAMS:
        os.close(first)
    return null


def _leave_streams(null: int) -> None:
    """Point the standard streams at the null device ``null``, as between commands."""
    for number in range(_STREAMS):
        os.dup2(null, number)


@contextmanager
def _folder_and_mask(process: peer_check.Process) -> Iterator[None]:
    """Use a client's working directory and file mode mask.

    Raises:
        OSError: the folder cannot be entered.
    """
    descriptor = os.open("cwd", os.O_PATH | os.O_DIRECTORY, dir_fd=process.folder)
    try:
        mask = int(peer_check.line_of(process.read("status"), "Umask"), 8)
        os.fchdir(descriptor)
    finally:
        os.close(descriptor)
    own_mask = os.umask(mask)
    try:
        yield
    finally:
        os.umask(own_mask)
        os.chdir("/")


def _socket_of(folder: Path) -> Path:
    """Return the path of the socket of a folder's daemon; empty if it is gone."""
    try:
        return Path(*protocol.socket_place(str(folder)))
    except OSError:
        return Path()


@contextmanager
def _listening(socket_path: Path) -> Iterator[socket.socket]:
    """Listen on a socket, which is deleted at the end."""
    descriptor = os.open(socket_path.parent, os.O_RDONLY | os.O_DIRECTORY)
    socket_path.unlink(missing_ok=True)
    mask = os.umask(0o177)
    try:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        listener.bind(f"/proc/self/fd/{descriptor}/{socket_path.name}")  # The path may be too long.
    finally:
        os.umask(mask)
        os.close(descriptor)
    listener.listen(_BACKLOG)
    listener.setblocking(False)
    socket_identity = _identity(socket_path)
    try:
        yield listener
    finally:
        listener.close()
        if _identity(socket_path) == socket_identity:  # Do not delete another process's socket.
            socket_path.unlink(missing_ok=True)


def _program_state() -> list[int]:
    """Return when each of the program's folders was last changed."""
    with os.scandir(_PACKAGE) as entries:
        folders = [
            entry.path for entry in entries if entry.is_dir() and entry.name != "__pycache__"
        ]
    return [os.stat(folder).st_mtime_ns for folder in (str(_PACKAGE), *folders)]


def _readable(descriptors: list[int], seconds: float) -> set[int]:
    """Return the descriptors that are readable, after waiting for at least one."""
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return {descriptor for descriptor, _ in poll.poll(seconds * 1_000)}


def _identity(path: Path) -> tuple[int, int] | None:
    """Return the device and inode of a socket, or None."""
    try:
        status = path.lstat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


@contextmanager
def _variables(values: dict[str, str]) -> Iterator[None]:
    """Set a client's variables for one command."""
    previous = {name: os.environ[name] for name in protocol.APPLIED if name in os.environ}
    _apply(values)
    try:
        yield
    finally:
        _apply(previous)


def _apply(values: dict[str, str]) -> None:
    zone = os.environ.get("TZ")
    for name in protocol.APPLIED - values.keys():
        os.environ.pop(name, None)
    os.environ.update(values)
    if zone != values.get("TZ"):
        time.tzset()


class _AnnouncedOutput(io.FileIO):
    """One of a client's output streams.

    ``PRINTS`` is sent before the first write to any of the client's streams.
    """

    def __init__(self, descriptor: int, connection: socket.socket, announced: list[bool]) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self._connection = connection
        self._announced = announced

    def write(self, data: Any, /) -> int:
        """Write bytes."""
        if not self._announced:
            self._announced.append(True)
            with contextlib.suppress(OSError):  # The client has disconnected.
                self._connection.sendall(protocol.PRINTS)
        return super().write(data)


@contextmanager
def _standard_streams(
    streams: list[int], errors: str, connection: socket.socket, null: int
) -> Iterator[list[bool]]:
    """Use a client's standard streams, sending ``PRINTS`` to it before the first output.

    ``errors`` is explained in ``Request``; ``null`` is a descriptor of the null device. The yielded
    list is empty until ``PRINTS`` is sent.
    """
    previous = {name: getattr(sys, name) for name in _STREAM_NAMES}
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
        yield announced
    finally:
        for stream in (out, err):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
            with contextlib.suppress(OSError, ValueError):
                stream.detach()
        for name, stream in previous.items():
            setattr(sys, name, stream)
        _leave_streams(null)


class _ClientSignals:
    """The signals sent by a client over its connection; a closed connection counts as SIGTERM."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._pending = 0
        self._interrupt: Any = None

    @contextmanager
    def received(self) -> Iterator[None]:
        """Receive signals in the block; signals that arrive before ``run`` are delivered to it."""
        descriptor = self._connection.fileno()
        previous = signal.signal(signal.SIGIO, self._receive)
        fcntl.fcntl(descriptor, fcntl.F_SETOWN, os.getpid())
        flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
        fcntl.fcntl(descriptor, fcntl.F_SETFL, flags | fcntl.FASYNC)
        try:
            # For signals that arrived before the handler was installed.
            os.kill(os.getpid(), signal.SIGIO)
            yield
        finally:
            signal.signal(signal.SIGIO, signal.SIG_IGN)
            fcntl.fcntl(descriptor, fcntl.F_SETFL, flags)
            signal.signal(signal.SIGIO, previous or signal.SIG_DFL)

    def run(self, command: Callable[[], int]) -> int:
        """Run a command within ``run_guarded``, interrupted only by the client's signals.

        Signals of this process itself are deferred until the command ends.
        """
        handlers = {number: signal.signal(number, lambda *_: None) for number in _ENDING}
        try:
            self._interrupt = handlers[signal.SIGTERM]
            if self._pending:
                self._interrupt(self._pending, None)
            return command()
        finally:
            self._interrupt = None
            for number, handler in handlers.items():
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
    """Return this process's memory use in bytes."""
    pages = Path("/proc/self/statm").read_text("ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")
