"""Run other programs with time and output limits, and memvault's own in the background.

No shell is used. Programs are started in this module only, which a lint rule checks.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO, NoReturn, cast

from memvault.errors import UsageError
from memvault.named_tuple import NamedTuple

if TYPE_CHECKING:
    import subprocess
    from asyncio.subprocess import Process
    from typing import TypeAlias

    Worker: TypeAlias = subprocess.Popen[bytes]
    """A worker process started by ``start_worker``."""

_MAX_STDERR = 64 * 1024
"""Maximum number of trailing bytes to keep of a program's standard error."""
_CHUNK = 64 * 1024
_MIN_PAUSE, _MAX_PAUSE = 0.001, 0.05
"""Seconds between checks of whether the program has exited."""
_PATH_LIKE = ("PATH", "PERL5LIB", "PERLLIB", "RUBYLIB")
"""Suffixes of environment variables with search paths for programs and modules."""
_SIGNAL_SECONDS = 0.5
"""Seconds between checks for a signal that did not interrupt the main thread's wait."""
_GRACE_SECONDS = 1.0
"""Seconds for which a program's child processes may continue to write after it has exited."""


class ProcessResult(NamedTuple):
    """A program's result.

    ``stdout`` is its standard output, and ``stderr`` is the end of its standard error.
    ``timed_out`` and ``truncated`` mean that it was killed: it ran too long, or wrote too much.
    """

    code: int
    stdout: bytes
    stderr: str
    timed_out: bool
    truncated: bool

    @property
    def output(self) -> str:
        """The standard output as text."""
        return self.stdout.decode("utf-8", "replace")

    @property
    def last_error_line(self) -> str:
        """The last line of standard error that is not blank."""
        lines = (line.strip() for line in reversed(self.stderr.splitlines()))
        return next(filter(None, lines), "")


def run(
    command: Sequence[str],
    text: str | bytes,
    seconds: float,
    max_bytes: int,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    pause: Callable[[float], object] = time.sleep,
    terminate_first: bool = False,
) -> ProcessResult:
    """Run a program with text as its standard input.

    It is killed after ``seconds``, or when its standard output exceeds ``max_bytes``; with
    ``terminate_first`` it first gets SIGTERM and a second to clean up. Processes that it leaves in
    its process group are always killed, even if this process is terminated first. A program without
    a slash in its name is looked up only in the folders of ``PATH``. ``pause`` waits between two
    checks. Processes that outlive the program and keep its output open may write for a limited
    time.

    Raises:
        UsageError: the program is not installed, or cannot be started.
    """
    if sys.platform == "win32":  # Windows cannot poll pipes.
        raise UsageError("Programs cannot be run on this system", "use memvault in WSL")
    variables = dict(os.environ if environment is None else environment)
    full_command = [find_program(command[0], folder, variables), *command[1:]]
    data = text.encode("utf-8", "replace") if isinstance(text, str) else text
    child = _Child(data, max_bytes, pause)
    try:
        child.start(full_command, folder, variables)
        deadline = time.monotonic() + seconds
        in_time = child.attend(child.has_ended, deadline)
        if not in_time and terminate_first:
            child.ask_to_end()
            child.attend(child.has_ended, time.monotonic() + _GRACE_SECONDS)
        afterwards = time.monotonic() + _GRACE_SECONDS
        if in_time:
            child.attend(child.is_silent, min(deadline, afterwards))
        child.kill()
        child.attend(child.is_silent, afterwards)
        return child.finished(not in_time)
    finally:
        child.close()


def run_interactive(
    command: Sequence[str], environment: Mapping[str, str], text: str | None = None
) -> int:
    """Run an interactive program in this terminal, and return its exit code.

    Its input is ``text``, or the terminal if that is None. This process's output is flushed first.
    Ctrl-C is left to the program, so that an editor does not lose unsaved text.

    Raises:
        UsageError: the program is not installed, or cannot be started.
    """
    import subprocess
    import threading

    full_command = [find_program(command[0], None, environment), *command[1:]]
    stdin = None if text is None else subprocess.PIPE
    before = signal.getsignal(signal.SIGINT)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
    try:
        child = subprocess.Popen(full_command, stdin=stdin, env=dict(environment))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(
            f"{command[0]!r} cannot be run: {reason}", "correct the command"
        ) from error
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Affects only this process.
        data = None if text is None else text.encode("utf-8", "replace")
        waiting = threading.Thread(target=child.communicate, args=(data,), daemon=True)
        waiting.start()
        # Wake up regularly, so that Python handles signals that another thread received.
        while waiting.is_alive():
            waiting.join(_SIGNAL_SECONDS)
        return child.returncode
    finally:
        signal.signal(signal.SIGINT, before if before is not None else signal.SIG_DFL)


def words_of(command: str, name: str) -> list[str]:
    """Return the words of a command from the environment variable ``name``.

    Raises:
        UsageError: the command has an unclosed quote.
    """
    import shlex

    try:
        return shlex.split(command, posix=sys.platform != "win32")
    except ValueError as error:
        raise UsageError(f"{name} cannot be read: {error}", "close the quote in it") from error


class _Child:
    """A running program, whose pipes are read and written by one loop."""

    def __init__(self, text: bytes, max_bytes: int, pause: Callable[[float], object]) -> None:
        self._left = memoryview(text)
        self._max_bytes = max_bytes
        self._pause = pause
        import selectors

        self._process: subprocess.Popen[bytes] | None = None
        self._pipes = selectors.DefaultSelector()
        self._stdout = bytearray()
        self._stderr = bytearray()
        self._killed = False

    def start(self, command: list[str], folder: Path | None, environment: dict[str, str]) -> None:
        """Start the program as the leader of its own process group."""
        import selectors
        import subprocess

        pipe = subprocess.PIPE
        try:
            with _signals_deferred():
                self._process = subprocess.Popen(
                    command, 0, cwd=folder, env=environment, stdin=pipe, stdout=pipe, stderr=pipe,
                    start_new_session=True,
                )  # fmt: skip
        except (OSError, ValueError) as error:
            message = getattr(error, "strerror", None) or str(error)
            raise UsageError(
                f"{command[0]!r} cannot be run: {message}",
                "a script needs a #! line such as #!/bin/sh, and execute permission",
            ) from error
        for file, event, buffer in (
            (self._process.stdin, selectors.EVENT_WRITE, None),
            (self._process.stdout, selectors.EVENT_READ, self._stdout),
            (self._process.stderr, selectors.EVENT_READ, self._stderr),
        ):
            assert file is not None
            if sys.platform != "win32":
                # It may read only part of the input, then wait.
                os.set_blocking(file.fileno(), False)
            self._pipes.register(file, event, buffer)

    def attend(self, done: Callable[[], bool], deadline: float) -> bool:
        """Read and write until ``done()`` or too much output; return False at the deadline."""
        step = _MIN_PAUSE
        while not (done() or self._is_truncated()):
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                return False
            ready = self._pipes.select(0)
            for key, _ in ready:
                pipe = cast("IO[bytes]", key.fileobj)
                if not self._transfer(pipe, key.data):
                    self._pipes.unregister(pipe)
                    pipe.close()
            self._pause(0 if ready else min(step, remaining))
            step = _MIN_PAUSE if ready else min(step * 1.5, _MAX_PAUSE)
        return True

    def _transfer(self, pipe: IO[bytes], buffer: bytearray | None) -> bool:
        """Read the available data, or write as much as fits; return whether more may follow."""
        if buffer is None:
            with contextlib.suppress(OSError):  # A program may ignore its input.
                self._left = self._left[pipe.write(self._left) or 0 :]
                return bool(self._left)
            return False
        chunk: bytes | None = pipe.read(_CHUNK)  # None if nothing is available yet
        buffer += chunk or b""
        if buffer is self._stderr:
            del buffer[:-_MAX_STDERR]
        return chunk != b""

    def has_ended(self) -> bool:
        """Return whether the program has exited."""
        return self._process is not None and self._process.poll() is not None

    def is_silent(self) -> bool:
        """Return whether all output pipes are closed."""
        return all(key.data is None for key in self._pipes.get_map().values())

    def _is_truncated(self) -> bool:
        return len(self._stdout) > self._max_bytes

    def ask_to_end(self) -> None:
        """Send SIGTERM to the program's process group."""
        if sys.platform != "win32" and self._process is not None and not self._killed:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGTERM)

    def kill(self) -> None:
        """Kill the program's process group, even if the program has already exited."""
        if sys.platform != "win32" and self._process is not None and not self._killed:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._killed = True  # Its pid may be reused after this.

    def close(self) -> None:
        """Kill the program, and close the pipes even if other processes hold their other ends."""
        if self._process is not None:
            self.kill()
            for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
                assert pipe is not None
                pipe.close()
        self._pipes.close()

    def finished(self, timed_out: bool) -> ProcessResult:
        """Return the program's result after it was killed."""
        assert self._process is not None
        stdout = bytes(self._stdout[: self._max_bytes])
        stderr = bytes(self._stderr).decode("utf-8", "replace")
        return ProcessResult(
            self._process.returncode, stdout, stderr, timed_out, self._is_truncated()
        )


_detached: list[int] = []
"""Ids of background processes that have not been reaped."""


def spawn_detached(command: Sequence[str], environment: Mapping[str, str]) -> None:
    """Start a program in its own session, without input or output, and do not wait for it.

    This takes a few milliseconds at most. The program should close other inherited files and lower
    its own priority.

    Raises:
        OSError: the program cannot be started.
    """
    if sys.platform == "win32":
        import subprocess

        flags = subprocess.DETACHED_PROCESS | subprocess.CREATE_NEW_PROCESS_GROUP
        flags |= subprocess.IDLE_PRIORITY_CLASS
        null = subprocess.DEVNULL
        subprocess.Popen(
            list(command), env=dict(environment), stdin=null, stdout=null, stderr=null,
            creationflags=flags, close_fds=True,
        )  # fmt: skip
        return
    for number in list(_detached):  # Reap background processes that have exited.
        with contextlib.suppress(ChildProcessError):
            if os.waitpid(number, os.WNOHANG) == (0, 0):
                continue
        _detached.remove(number)
    streams = [
        (os.POSIX_SPAWN_OPEN, descriptor, os.devnull, os.O_RDWR, 0) for descriptor in range(3)
    ]
    spawn_arguments = list(command), dict(environment)
    try:
        number = os.posix_spawn(command[0], *spawn_arguments, file_actions=streams, setsid=True)
    except NotImplementedError:
        number = os.posix_spawn(command[0], *spawn_arguments, file_actions=streams, setpgroup=0)
    _detached.append(number)


def start_worker(command: Sequence[str], environment: Mapping[str, str]) -> Worker:
    """Start a memvault process that reads tasks from its input and writes answers to its output.

    Raises:
        OSError: the process cannot be started.
    """
    import subprocess

    pipe = subprocess.PIPE
    return subprocess.Popen(
        list(command), env=dict(environment), stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL
    )


def end_worker(worker: Worker) -> None:
    """Stop a process that ``start_worker`` started, even while it is busy."""
    worker.kill()
    worker.wait()
    for pipe in (worker.stdin, worker.stdout):
        with contextlib.suppress(OSError):
            if pipe is not None:
                pipe.close()


def claimed_output() -> BinaryIO:
    """Return a file for a worker's answers, and redirect other output to standard error."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return answers


async def start_async_worker(
    command: Sequence[str], environment: Mapping[str, str], limit: int
) -> Process:
    """Start a process for asyncio like ``start_worker``; the process inherits standard error.

    ``limit`` is the maximum number of bytes in a line of its output.

    Raises:
        OSError: the process cannot be started.
    """
    import asyncio

    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(
        *command, stdin=pipe, stdout=pipe, env=dict(environment), limit=limit
    )


def restart(command: Sequence[str]) -> NoReturn:
    """Replace this process with a new run of Python."""
    os.execv(command[0], list(command))  # noqa: S606  # without a shell on purpose


def open_on_windows(target: str) -> None:
    """Open a URL or a file with its default Windows application.

    Raises:
        OSError: there is no default application.
    """
    if sys.platform == "win32":
        os.startfile(target)  # noqa: S606  # built by memvault


def environment(*roots: Path) -> dict[str, str]:
    """Return this process's environment without folders through which a vault could inject files.

    An empty or relative entry in ``PATH`` and similar variables means the program's working
    directory. With such an entry, or one in a vault's folder ``roots``, a vault's file could be run
    instead of the intended program, library or module.
    """
    bases = [os.path.realpath(root) for root in roots]
    variables = dict(os.environ)
    for name in [name for name in variables if name.upper().endswith(_PATH_LIKE)]:
        entries = [
            entry
            for entry in variables[name].split(os.pathsep)
            if Path(entry).is_absolute()
            and not any(is_below(os.path.realpath(entry), base) for base in bases)
        ]
        if entries:
            variables[name] = os.pathsep.join(entries)
        else:
            del variables[name]
    return variables


def is_below(path: str, folder: str) -> bool:
    """Return whether a path is a folder or inside it; both must be real paths."""
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def find_program(
    name: str, folder: Path | None = None, environment: Mapping[str, str] = os.environ
) -> str:
    """Return the path to a command's program.

    Relative folders in ``PATH`` are ignored, because a vault's file could be run instead of a
    program with the same name.

    Raises:
        UsageError: there is no such program.
    """
    import shutil

    if "/" in name or os.sep in name:
        file = (folder or Path.cwd()) / name
        if file.is_file():
            return str(file)
        raise UsageError(f"{name!r} cannot be run: the file does not exist", "correct the command")
    path = environment.get("PATH", os.defpath)
    folders = [entry for entry in path.split(os.pathsep) if Path(entry).is_absolute()]
    program = shutil.which(name, path=os.pathsep.join(folders)) if name and folders else None
    if program is None or not Path(program).is_absolute():
        message = f"{name!r} cannot be run: it is not installed"
        raise UsageError(message, "install it, or correct the command")
    return program


def find_first(names: Sequence[str], environment: Mapping[str, str]) -> str | None:
    """Return the path of the first program that exists, or None."""
    for name in names:
        with contextlib.suppress(UsageError):
            return find_program(name, None, environment)
    return None


@contextlib.contextmanager
def _signals_deferred() -> Iterator[None]:
    """Defer signals while a process is started, until it is registered and can be killed."""
    received: list[int] = []
    before: dict[int, Any] = {}
    with contextlib.suppress(ValueError):  # Only the main thread receives signals.
        for name in ("SIGINT", "SIGTERM", "SIGHUP"):
            number = getattr(signal, name)
            before[number] = signal.signal(number, lambda sent, _: received.append(sent))
    try:
        yield
    finally:
        for which, handler in before.items():
            signal.signal(which, handler if handler is not None else signal.SIG_DFL)
    if received:
        signal.raise_signal(received[0])


@contextlib.contextmanager
def claimed_stdio(client: str = "an MCP client", command: str = "mcp") -> Iterator[tuple[int, int]]:
    """Yield private descriptors of standard input and output, for the protocol only.

    Within the block, descriptor 0 is empty and descriptor 1 is standard error, so libraries and
    programs started by a tool cannot interfere with the protocol by reading or printing. The
    arguments are used in the error message.

    Raises:
        UsageError: the process was started without standard input or output.
    """
    if sys.stdin is None or sys.stdout is None:
        raise UsageError(
            "Standard input or output is closed",
            f"let {client} start `memvault {command}`, which connects both",
        )
    read, written = os.dup(0), os.dup(1)
    empty = os.open(os.devnull, os.O_RDWR)
    os.dup2(empty, 0)
    try:
        os.dup2(2, 1)
    except OSError:  # The process was started without standard error.
        os.dup2(empty, 1)
    os.close(empty)
    try:
        yield read, written
    finally:
        with contextlib.suppress(OSError, ValueError, AttributeError):
            sys.stdout.flush()  # Flush output that libraries printed, so it goes to standard error.
        os.dup2(read, 0)
        os.dup2(written, 1)


def write_whole(descriptor: int, data: bytes) -> None:
    """Write all of the data, even if each write accepts only a part."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
