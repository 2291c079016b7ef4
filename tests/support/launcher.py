"""Run ``python -m memvault`` in processes that start with memvault's modules loaded.

Half of a short command's time is spent loading modules, and the tests run thousands of commands. A
launcher loads the modules once, and forks a process for each command with its own folder,
environment, pipes and exit code. ``test_processes.py`` shows that a command cannot tell the
difference. Servers are started in the same way: ``start`` returns a running process, like
``subprocess.Popen``.
"""

from __future__ import annotations

import atexit
import fcntl
import gc
import importlib.util
import json
import os
import pkgutil
import resource
import select
import signal
import socket
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from functools import partial
from pathlib import Path
from typing import IO, Any, NoReturn

_EARLY = ("PYTHON", "LC_", "LANG", "LD_", "MALLOC")
"""Prefixes of variables that a process reads before it runs any of our code."""
_LIMITS = (resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE, resource.RLIMIT_AS)
_PIPE = 65_536
"""The number of bytes that fit into a pipe without a reader."""
_SIZE = 8
"""The number of bytes that encode a message's length."""
_LEFT = ("memvault.mcp", "memvault.server", "memvault.anthropic", "memvault.__main__")
"""Slow modules that few commands load."""
_OTHERS = (
    "frontmatter",
    "jsonschema",
    "numpy.ma",
    "platformdirs",
    "py_rust_stemmers",
    "tokenizers",
    "tomlkit",
    "whoosh.codec.base",
    "whoosh.filedb.filestore",
    "whoosh.lang.stopwords",
    "whoosh.support.levenshtein",
    "whoosh.writing",
)
"""Modules that many commands load on demand."""
_WARMING = ("remember a b --type fact", "recall a", "list", "show a", "goals get")
"""Commands that load the modules used by many other commands."""


COMMAND = "memvault.__main__"
"""The module whose ``main`` a process runs, unless another is named."""


class Launched:
    """A process forked by a launcher, with the part of ``subprocess.Popen`` that tests use."""

    def __init__(self, pid: int, pipes: tuple[int, int, int | None] | None, status: int) -> None:
        self.pid = pid
        feeds, out, err = pipes or (None, None, None)
        self.stdin: IO[bytes] | None = None if feeds is None else os.fdopen(feeds, "wb", 0)
        self.stdout: IO[bytes] | None = None if out is None else os.fdopen(out, "rb")
        self.stderr: IO[bytes] | None = None if err is None else os.fdopen(err, "rb")
        self.returncode: int | None = None
        self._status = status

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the process to exit; return its exit code, or the negative number of a signal.

        Raises:
            subprocess.TimeoutExpired: if it did not end in time.
        """
        if self.returncode is None:
            if not select.select([self._status], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
            self.returncode = _code(self._status)
        return self.returncode

    def poll(self) -> int | None:
        """Return the result of ``wait`` if the process has exited, else None."""
        with suppress(subprocess.TimeoutExpired):
            return self.wait(0)
        return None

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the process has exited."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill the process, unless it has exited."""
        self.send_signal(signal.SIGKILL)

    def communicate(self, timeout: float | None = None) -> tuple[bytes, bytes]:
        """Close the process's input, wait for its exit, and return the remaining output and errors.

        Raises:
            subprocess.TimeoutExpired: if it did not end in time.
        """
        if self.stdin:
            with suppress(BrokenPipeError):
                self.stdin.close()
        said = [b"", b""]
        begun = []
        for number, stream in enumerate((self.stdout, self.stderr)):
            if stream and not stream.closed:
                begun.append(threading.Thread(target=_fill, args=(said, number, stream)))
                begun[-1].start()
        self.wait(timeout)
        for thread in begun:
            thread.join(timeout)
        return said[0], said[1]


def _fill(said: list[bytes], number: int, stream: IO[bytes]) -> None:
    with stream:
        said[number] = stream.read()


def _code(status: int) -> int:
    """Return the exit code reported by a launcher, or -SIGKILL if the launcher was killed."""
    told = os.read(status, 16)
    os.close(status)
    return int(told) if told else -signal.SIGKILL


class Launcher:
    """A process that forks others, started when first needed.

    ``others`` are additional modules to load; each makes a fork slower.
    """

    def __init__(self, others: Sequence[str] = ()) -> None:
        self._others = others
        self._lock = threading.Lock()
        self._at: tuple[object, ...] = ()

    def _start(self) -> None:
        self._at = _surroundings(os.environ)
        self._socket, theirs = socket.socketpair()
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(theirs.fileno()), *self._others],
            stdin=subprocess.PIPE,  # Forked processes get the same kinds of streams.
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=[theirs.fileno()],
            start_new_session=True,
        )
        theirs.close()

    def start(
        self,
        arguments: Sequence[str],
        cwd: Path | None = None,
        environment: Mapping[str, str] | None = None,
        module: str = COMMAND,
        errors: bool = True,
    ) -> Launched | None:
        """Start a process; None if it could detect that it was forked."""
        where = cwd or Path.cwd()
        started = self._fork(arguments, where, environment or os.environ, module, errors)
        return Launched(*started) if started else None

    def run(
        self,
        arguments: Sequence[str],
        stdin: bytes,
        cwd: Path,
        seconds: float,
        merged: bool = False,
    ) -> tuple[int, bytes, bytes] | None:
        """Run a command; return its exit code, output and errors, merged if requested.

        Returns None, and runs nothing, if a command could detect that it was forked: with other
        limits, variables that only take effect at startup, or a large input.

        Raises:
            subprocess.TimeoutExpired: if it did not end in time.
        """
        if len(stdin) > _PIPE:
            return None
        started = self._fork(arguments, cwd, os.environ, COMMAND, merged=merged, stdin=stdin)
        if started is None:
            return None
        _, (feeds, out, err), status = started
        assert err is not None
        os.close(feeds)
        said = _read((out, err), time.monotonic() + seconds)
        if said is None:
            self.close()
            os.close(status)
            raise subprocess.TimeoutExpired([*arguments], seconds)
        return _code(status), *said

    def _fork(
        self,
        arguments: Sequence[str],
        cwd: Path,
        environment: Mapping[str, str],
        module: str,
        errors: bool = True,
        merged: bool = False,
        stdin: bytes = b"",
    ) -> tuple[int, tuple[int, int, int | None], int] | None:
        """Fork a process; return its pid, our pipe ends, and the pipe that reports its exit."""
        with self._lock:
            if not self._can_fork(environment):
                return None
            (reads, feeds), (out, out_end) = (os.pipe() for _ in range(2))
            # Before the command starts, because some commands check for data without waiting.
            os.write(feeds, stdin)
            err, err_end = os.pipe() if errors else (None, os.dup(2))
            streams = [reads, out_end, out_end if merged else err_end]
            pid, status = self._ask(streams, [*arguments], str(cwd), dict(environment), module)
            for number in (reads, out_end, err_end):
                os.close(number)
        return pid, (feeds, out, err), status

    def start_at_terminal(
        self, arguments: Sequence[str], cwd: Path, environment: Mapping[str, str], terminal: int
    ) -> Launched | None:
        """Start a command that controls a terminal; None if it could detect that it was forked."""
        with self._lock:
            if not self._can_fork(environment):
                return None
            streams = [terminal] * 3
            pid, status = self._ask(streams, [*arguments], str(cwd), dict(environment), COMMAND)
        return Launched(pid, None, status)

    def _can_fork(self, environment: Mapping[str, str]) -> bool:
        if not self._at:
            self._start()
        return _surroundings(environment) == self._at

    def _ask(
        self, streams: list[int], words: list[str], cwd: str, variables: dict[str, str], module: str
    ) -> tuple[int, int]:
        """Request a fork; return its pid, and the pipe that reports its exit."""
        status, status_end = os.pipe()
        umask = os.umask(0)
        os.umask(umask)
        message = json.dumps([words, cwd, variables, umask, module]).encode()
        size = len(message).to_bytes(_SIZE, "big")
        socket.send_fds(self._socket, [size], [*streams, status_end])
        self._socket.sendall(message)
        os.close(status_end)
        return int(self._socket.recv(16)), status

    def close(self) -> None:
        """Stop the launcher and its processes."""
        if self._at:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.communicate()
            self._socket.close()
        self._at = ()


Process = subprocess.Popen[bytes] | Launched
_LAUNCHERS: dict[tuple[str, ...], Launcher] = {}


def launcher_with(others: tuple[str, ...] = ()) -> Launcher:
    """Return the launcher with these modules preloaded, which lives until ``close_all``."""
    return _LAUNCHERS.setdefault(others, Launcher(others))


def close_all() -> None:
    """Stop every launcher."""
    for launcher in _LAUNCHERS.values():
        launcher.close()
    _LAUNCHERS.clear()


def start(
    arguments: Sequence[str],
    cwd: Path | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    others: tuple[str, ...] = (),
    module: str = COMMAND,
    errors: bool = True,
    prefix: Sequence[str] = (),
    fresh: bool = False,
) -> Process:
    """Start a module as a process: forked with ``others`` loaded, or ``fresh`` by Python itself.

    Without ``errors`` it shares this process's standard error. ``prefix`` is a program that starts
    it; a prefix requires a fresh process.
    """
    if not fresh and not prefix:
        launched = launcher_with(others).start(arguments, cwd, environment, module, errors)
        if launched:
            return launched
    found = importlib.util.find_spec(module)
    assert found
    line = ["-m", "memvault"] if module == COMMAND else [str(found.origin)]
    return subprocess.Popen(
        [*prefix, sys.executable, *line, *arguments],
        cwd=cwd,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE if errors else None,
    )


def _surroundings(environment: Mapping[str, str]) -> tuple[object, ...]:
    early = {name: value for name, value in environment.items() if name.startswith(_EARLY)}
    return early, [resource.getrlimit(limit) for limit in _LIMITS]


def _read(pipes: tuple[int, int], until: float) -> tuple[bytes, bytes] | None:
    """Read two pipes to their ends; None if that takes too long."""
    said = dict.fromkeys(pipes, b"")
    waiting = list(pipes)
    while waiting:
        ready, _, _ = select.select(waiting, [], [], max(0.0, until - time.monotonic()))
        if not ready:
            break
        for number in ready:
            piece = os.read(number, 1 << 20)
            said[number] += piece
            if not piece:
                waiting.remove(number)
    for number in pipes:
        os.close(number)
    return None if waiting else (said[pipes[0]], said[pipes[1]])


def _become(words: Sequence[str], cwd: str, variables: Mapping[str, str], umask: int) -> None:
    """Act as a process that was just started with these arguments in a folder."""
    os.chdir(cwd)
    os.umask(umask)
    os.environ.clear()
    os.environ.update(variables)
    time.tzset()
    import memvault

    sys.argv = [str(Path(memvault.__file__).with_name("__main__.py")), *words]
    sys.path[0] = str(Path.cwd())
    from memvault import process

    process.start_worker = partial(_start_worker, process.start_worker)


class _ForkedWorker:
    """The process that reads an import source, forked by the command that needs it."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        (reads, feeds), (out, out_end) = os.pipe(), os.pipe()
        self.pid = os.fork()
        if not self.pid:
            try:
                _read_source(reads, out_end, environment)
            finally:
                os._exit(1)
        os.close(reads)
        os.close(out_end)
        self.stdin = os.fdopen(feeds, "wb", 0)
        self.stdout = os.fdopen(out, "rb")

    def terminate(self) -> None:
        """Terminate the process."""
        os.kill(self.pid, signal.SIGTERM)

    def wait(self) -> int:
        """Wait for the process to exit; return its exit code."""
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def _read_source(reads: int, writes: int, environment: Mapping[str, str]) -> NoReturn:
    """Act as the process that reads an import source, with these pipes as input and output."""
    from memvault.importers import reader_process

    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for descriptor, number in ((reads, 0), (writes, 1), (os.open(os.devnull, os.O_RDWR), 2)):
        os.dup2(descriptor, number)
    os.closerange(3, 1_024)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    sys.stdin = os.fdopen(0)
    reader_process.main()
    os._exit(0)


def _start_worker(
    start: Callable[..., Any], command: Sequence[str], environment: Mapping[str, str]
) -> Any:
    """Fork readers of import sources; start other workers as the program does."""
    if command[-1] == "memvault.importers.reader_process":
        return _ForkedWorker(environment)
    return start(command, environment)


@contextmanager
def _ends_told() -> Iterator[int]:
    """Return a descriptor that becomes readable whenever a forked process exits."""
    waking, woken = socket.socketpair()
    waking.setblocking(False)
    woken.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(woken.fileno())
    yield waking.detach()
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    woken.close()


def _reap(running: dict[int, int]) -> None:
    """Report the exit codes of all processes that have exited."""
    while running:
        child, status = os.waitpid(-1, os.WNOHANG)
        if not child:
            return
        with suppress(BrokenPipeError):  # the test that started the process has exited
            os.write(running[child], str(os.waitstatus_to_exitcode(status)).encode())
        os.close(running.pop(child))


def _control_terminal() -> None:
    """Begin a session with standard input as its controlling terminal."""
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]


def _forked(asking: socket.socket) -> str:
    """Fork for each requested process; in the forked process, return its task."""
    running: dict[int, int] = {}
    with _ends_told() as ended:
        while True:
            ready, _, _ = select.select([asking.fileno(), ended], [], [])
            if ended in ready:
                os.read(ended, 1024)
                _reap(running)
            if asking.fileno() not in ready:
                continue
            size, pipes, _, _ = socket.recv_fds(asking, _SIZE, 4)
            if not size:
                sys.exit()
            message = asking.recv(int.from_bytes(size, "big"), socket.MSG_WAITALL)
            child = os.fork()
            if not child:
                break
            *streams, status = pipes
            for pipe in streams:
                os.close(pipe)
            running[child] = status
            asking.send(str(child).encode())
    for number, pipe in enumerate(pipes[:3]):
        os.dup2(pipe, number)
    for descriptor in (*pipes, *running.values(), ended):
        os.close(descriptor)
    asking.close()
    if os.isatty(0):
        _control_terminal()
    *begin, module = json.loads(message)
    _become(*begin)
    return str(module)


def _warm_up() -> None:
    """Run commands in a temporary vault, so that all later forks share their caches."""
    from memvault.cli import app

    kept = dict(os.environ)
    for name in [name for name in kept if name.startswith("MEMVAULT_")]:
        del os.environ[name]
    with tempfile.TemporaryDirectory() as scratch, open(os.devnull, "w") as nowhere:
        os.environ |= {f"XDG_{kind}_HOME": scratch for kind in ("CACHE", "CONFIG", "STATE")}
        os.environ |= {"MEMVAULT_DEEP": "off", "TOKENIZERS_PARALLELISM": "false"}
        root = Path(scratch, "vault")
        root.mkdir()
        (root / "memvault.toml").write_text("version = 1\n", "utf-8")
        with redirect_stdout(nowhere):
            for line in _WARMING:
                assert app.run(["--vault", str(root), *line.split()]) == 0, line
    os.environ.clear()
    os.environ |= kept
    tempfile.tempdir = None  # Determined again in each fork, because a test may set TMPDIR.


def _load(others: Sequence[str]) -> None:
    import memvault

    for found in pkgutil.walk_packages(memvault.__path__, "memvault."):
        if not found.name.startswith(_LEFT):
            importlib.import_module(found.name)
    for name in (*_OTHERS, *others):
        importlib.import_module(name)
    import result_types
    from memvault.index.embedding.tokenizer import open_tokenizer

    result_types.install(result_types.fail)
    open_tokenizer()  # used for passages and budgets; loading takes 40 ms
    _warm_up()
    gc.collect()
    gc.freeze()


def _end(code: int) -> NoReturn:
    """Exit like Python, without tearing down modules.

    Teardown writes to all memory shared with the launcher, so the kernel copies it. Copying takes
    35 ms per process, and 90 ms with pymilvus, while the fork itself takes 2 ms.
    """
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    try:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    except Exception:  # Let Python print any error.
        sys.exit(code)
    os._exit(code)


if __name__ == "__main__":
    _load(sys.argv[2:])
    _end(importlib.import_module(_forked(socket.socket(fileno=int(sys.argv[1])))).main() or 0)
