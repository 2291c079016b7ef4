"""Inject a fault at one numbered file change of a command.

A ``Faults`` is a process that has loaded the program. For each request, a fork of it runs one
command line. At the change with the given number, the fork is killed or the change fails with an
operating system error. Changes are links, renames, writes, syncs, removals, new folders, files
opened for writing, truncations and permission changes; a failing write is half done. Python's file
functions are wrapped here; the database's own file accesses are not.
"""

from __future__ import annotations

import builtins
import errno
import gc
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["ERRORS", "KILL", "Ended", "Faults", "plant"]

KILL = "SIGKILL"
ERRORS = ("ENOSPC", "EIO", "EACCES", "EROFS")
STAYING = {"ENOSPC": {"open", "write", "link", "mkdir"}, "EROFS": None}
"""Errors that persist after the fault, with the kinds of changes that they affect (None: all)."""

TESTED = {"mkdir": False, "unlink": True, "rmdir": True}
"""Changes that the system rejects unless the file exists (True) or is missing (False)."""


class Ended(NamedTuple):
    """The result of a command: its exit code, its output, and all changes up to the fault.

    ``seconds`` is the command's duration.
    """

    code: int
    out: str
    err: str
    places: list[str]
    seconds: float

    @property
    def json(self) -> dict[str, Any]:
        """Standard output as JSON; empty if it is incomplete."""
        try:
            found: dict[str, Any] = json.loads(self.out)
        except ValueError:
            return {}
        return found


class Faults:
    """A process whose forks run command lines, each with a fault at a given change."""

    def __init__(self, folders: Sequence[Path], scratch: Path, warm: Path) -> None:
        """Load the program with calls in the vault ``warm``; count only changes in ``folders``."""
        scratch.mkdir(parents=True)
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(scratch), str(warm), *map(str, folders)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, *lines: Sequence[str], number: int = 0, fault: str = KILL) -> Ended:
        """Run command lines with a fault at the change with this number; 0 means no fault.

        Stops after the first command line that fails.
        """
        assert self._process.stdin
        assert self._process.stdout
        print(json.dumps([lines, number, fault]), file=self._process.stdin, flush=True)
        return Ended(*json.loads(self._process.stdout.readline()))

    def __enter__(self) -> Faults:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=60)


def plant(  # noqa: C901  # what is wrapped is told in one place
    folders: Sequence[Path], number: int, fault: str, trace: int
) -> None:
    """Make the functions that change files report each change in the folders and fail at one."""
    within = tuple(map(str, folders))
    real, real_open, real_write = builtins.open, os.open, os.write
    count = 0

    def whole(path: Any, folder: int | None = None) -> str:
        if isinstance(path, int):
            return str(Path(f"/proc/self/fd/{path}").readlink())
        text = os.fsdecode(path)
        if folder is not None:
            text = os.path.join(Path(f"/proc/self/fd/{folder}").readlink(), text)
        return os.path.abspath(text)

    def met(kind: str, path: str, before: Callable[[], object] = lambda: None) -> None:
        nonlocal count
        if not path.startswith(within):
            return
        count += 1
        if number and count > number and fault in STAYING:
            kinds = STAYING[fault]
            if kinds is None or kind in kinds:
                raise OSError(getattr(errno, fault), os.strerror(getattr(errno, fault)), path)
        if not number or count <= number:
            real_write(trace, f"{kind} {path}\n".encode())
        if count == number:
            before()
            if fault == KILL:
                os.kill(os.getpid(), signal.SIGKILL)
            raise OSError(getattr(errno, fault), os.strerror(getattr(errno, fault)), path)

    def wrapped(kind: str, real: Any) -> Any:
        def change(path: Any, *rest: Any, **more: Any) -> Any:
            folder = more.get("dir_fd", more.get("src_dir_fd"))
            place = whole(path, folder)
            if kind not in TESTED or os.path.lexists(place) == TESTED[kind]:
                met(kind, place)
            return real(path, *rest, **more)

        return change

    for kind, names in {
        "link": ["link", "symlink"],
        "rename": ["rename", "replace"],
        "unlink": ["unlink", "remove"],
        "mkdir": ["mkdir"],
        "rmdir": ["rmdir"],
        "fsync": ["fsync", "fdatasync"],
        "truncate": ["truncate", "ftruncate"],
        "chmod": ["chmod", "fchmod", "utime"],
    }.items():
        for name in names:
            setattr(os, name, wrapped(kind, getattr(os, name)))

    def opened(path: Any, flags: int, *rest: Any, **more: Any) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR):
            met("open", whole(path, more.get("dir_fd")))
        return real_open(path, flags, *rest, **more)

    def written(handle: int, data: Any) -> int:
        place = whole(handle)
        met("write", place, lambda: real_write(handle, bytes(data)[: len(data) // 2]))
        return real_write(handle, data)

    class Counted(io.FileIO):
        def write(self, data: Any) -> int:
            half = bytes(data)[: len(data) // 2]
            met("write", whole(self.fileno()), lambda: io.FileIO.write(self, half))
            return io.FileIO.write(self, data)

        def truncate(self, size: int | None = None) -> int:
            met("truncate", whole(self.fileno()))
            return super().truncate(size)

    def open_(file: Any, mode: str = "r", buffering: int = -1, *rest: Any, **more: Any) -> Any:
        if not set(mode) & set("wax+"):
            return real(file, mode, buffering, *rest, **more)
        if not isinstance(file, int):
            met("open", whole(file))
        plain = mode.replace("b", "").replace("t", "")
        raw = Counted(file, plain, **_only(more, "closefd", "opener"))
        if buffering == 0:
            return raw
        kind = io.BufferedRandom if "+" in mode else io.BufferedWriter
        buffered = kind(raw)
        if "b" in mode:
            return buffered
        return io.TextIOWrapper(buffered, *rest, **_only(more, "encoding", "errors", "newline"))

    builtins.open = open_
    io.open = open_
    os.open = opened
    os.write = written


def _only(given: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: given[name] for name in names if name in given}


def _serve(scratch: Path, warm: Path, folders: list[Path]) -> None:
    """Answer each command line on standard input with its result."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # Tokenizer threads do not survive forks.
    from memvault.__main__ import main
    from tool_calls import warmed

    warmed(warm)
    gc.freeze()  # Let forks share the existing objects.
    out, err, trace = (scratch / name for name in ("out", "err", "trace"))
    for line in sys.stdin:
        lines, number, fault = json.loads(line)
        handles = [os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC) for path in (out, err, trace)]
        began = time.monotonic()
        child = os.fork()
        if not child:
            os.dup2(handles[0], 1)
            os.dup2(handles[1], 2)
            code = 1
            try:
                plant(folders, number, fault, handles[2])
                code = next((code for words in lines if (code := main(words))), 0)
                sys.stdout.flush()
            finally:
                sys.stderr.flush()
                os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        took = time.monotonic() - began
        for handle in handles:
            os.close(handle)
        texts = [path.read_text("utf-8", "replace") for path in (out, err, trace)]
        answer = Ended(code, texts[0], texts[1], texts[2].splitlines(), took)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _serve(Path(sys.argv[1]), Path(sys.argv[2]), [Path(name) for name in sys.argv[3:]])
