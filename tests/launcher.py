"""Runs ``python -m memvault`` as a process that begins with memvault's modules loaded.

Half of a short command is the loading of modules, and the tests run thousands. A launcher loads
them once, and forks a process for each command: one with its own folder, environment, pipes and
end. ``test_launcher.py`` shows that a command cannot tell.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import pkgutil
import resource
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

_EARLY = ("PYTHON", "LC_", "LANG", "LD_", "MALLOC")
"""How variables begin that a process reads before it runs any of our code."""
_LIMITS = (resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE, resource.RLIMIT_AS)
_PIPE = 65_536
"""Bytes that a pipe takes without anybody reading them."""
_SIZE = 8
"""Bytes that say how long a message is."""
_LEFT = ("memvault.mcp", "memvault.anthropic", "memvault.__main__")
"""Modules that few commands load, and dearly."""
_OTHERS = ("frontmatter", "numpy", "platformdirs", "py_rust_stemmers", "tokenizers", "whoosh.index")
"""What many commands load, and late."""


class Launcher:
    """A process that forks others, started when first needed; one command runs at a time.

    ``others`` are modules that it loads too: each makes a fork dearer.
    """

    def __init__(self, others: Sequence[str] = ()) -> None:
        self._others = others
        self._lock = threading.Lock()
        self._at: tuple[object, ...] = ()

    def _start(self) -> None:
        self._at = _surroundings()
        self._socket, theirs = socket.socketpair()
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(theirs.fileno()), *self._others],
            stdin=subprocess.PIPE,  # what its streams are, those of the forked ones are
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=[theirs.fileno()],
            start_new_session=True,
        )
        theirs.close()

    def run(
        self,
        arguments: Sequence[str],
        stdin: bytes,
        cwd: Path,
        seconds: float,
        merged: bool = False,
    ) -> tuple[int, bytes, bytes] | None:
        """Run a command; return its exit code, output and errors, these with the output if merged.

        Returns None, and runs nothing, where a command could tell that it was forked: other
        limits or variables that count from a process's start, a large input, or two at once.

        Raises:
            subprocess.TimeoutExpired: it did not end in time.
        """
        if len(stdin) > _PIPE or not self._lock.acquire(blocking=False):
            return None
        try:
            if not self._at:
                self._start()
            if _surroundings() != self._at:
                return None
            return self._run(arguments, stdin, cwd, seconds, merged)
        finally:
            self._lock.release()

    def _run(
        self, arguments: Sequence[str], stdin: bytes, cwd: Path, seconds: float, merged: bool
    ) -> tuple[int, bytes, bytes]:
        (reads, feeds), (out, out_end), (err, err_end) = (os.pipe() for _ in range(3))
        umask = os.umask(0)
        os.umask(umask)
        asked = [[*arguments], str(cwd), dict(os.environ), umask]
        message = json.dumps(asked).encode()
        size = len(message).to_bytes(_SIZE, "big")
        socket.send_fds(self._socket, [size], [reads, out_end, out_end if merged else err_end])
        self._socket.sendall(message)
        for number in (reads, out_end, err_end):
            os.close(number)
        with suppress(BrokenPipeError):
            os.write(feeds, stdin)
        os.close(feeds)
        said = _read((out, err), time.monotonic() + seconds)
        if said is None:
            self.close()
            raise subprocess.TimeoutExpired([*arguments], seconds)
        return int(self._socket.recv(16)), *said

    def close(self) -> None:
        """End the launcher, and what it runs."""
        if self._at:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.communicate()
            self._socket.close()
        self._at = ()


def _surroundings() -> tuple[object, ...]:
    early = {name: value for name, value in os.environ.items() if name.startswith(_EARLY)}
    return early, [resource.getrlimit(limit) for limit in _LIMITS]


def _read(pipes: tuple[int, int], until: float) -> tuple[bytes, bytes] | None:
    """Read two pipes to their ends; None where that takes too long."""
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
    """Be a process that was just started with some words, in a folder."""
    os.chdir(cwd)
    os.umask(umask)
    os.environ.clear()
    os.environ.update(variables)
    time.tzset()
    import memvault

    sys.argv = [str(Path(memvault.__file__).with_name("__main__.py")), *words]
    sys.path[0] = str(Path.cwd())


def _forked(asking: socket.socket) -> None:
    """Fork for each command that is asked for; return in the forked process, to run it."""
    while True:
        size, pipes, _, _ = socket.recv_fds(asking, _SIZE, 3)
        if not size:
            sys.exit()
        message = asking.recv(int.from_bytes(size, "big"), socket.MSG_WAITALL)
        child = os.fork()
        if not child:
            for number, pipe in enumerate(pipes):
                os.dup2(pipe, number)
                os.close(pipe)
            asking.close()
            _become(*json.loads(message))
            return
        for pipe in pipes:
            os.close(pipe)
        _, status = os.waitpid(child, 0)
        asking.send(str(os.waitstatus_to_exitcode(status)).encode())


def _load(others: Sequence[str]) -> None:
    import memvault

    for found in pkgutil.walk_packages(memvault.__path__, "memvault."):
        if not found.name.startswith(_LEFT):
            importlib.import_module(found.name)
    for name in (*_OTHERS, *others):
        importlib.import_module(name)
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    _load(sys.argv[2:])
    _forked(socket.socket(fileno=int(sys.argv[1])))
    from memvault.__main__ import main

    sys.exit(main())
