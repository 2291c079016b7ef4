"""Name temporary files, and delete those left by killed processes."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import time
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from memvault import clock
from memvault.files import plain_files
from memvault.lazy_pattern import lazy_pattern

_TEMP_NAME = lazy_pattern(
    r"\..*\.(\d{1,9})-(?:([0-9a-f]{8})-)?[0-9a-hjkmnp-tv-z]{8}\.tmp", re.DOTALL
)
"""Matches the names of temporary files: the writing process's id and, on Linux, PID namespace."""
_STALE_SECONDS = 3_600.0
"""Seconds after which a process on another machine is assumed to have stopped writing a file."""
_OWN_STALE_SECONDS = 60.0
"""Seconds to keep a file whose process, in this PID namespace, has exited."""


def temporary_name(name: str) -> str:
    """Return a temporary name in the form that ``remove_stale_temp_files`` deletes."""
    stem = os.fsencode(name)[:80].decode("utf-8", "ignore").lstrip(".")
    origin = "-".join(filter(None, (str(os.getpid()), _pid_namespace(), clock.random_id(8))))
    return f".{stem}.{origin}.tmp"


def remove_stale_temp_files(folder: Path, only_own: bool = False) -> None:
    """Delete temporary files left in a folder by killed processes.

    Only files with this program's temporary names are considered, and a file whose process is
    alive, even if suspended, is kept. Files from this machine are deleted after a minute. Files
    from other machines are deleted after an hour, or, with ``only_own``, never.
    """
    for path in _stale_temp_files(folder, _OWN_STALE_SECONDS, only_own):
        with contextlib.suppress(OSError):
            path.unlink()


def sweep_below(root: Path, only_own: bool = False) -> None:
    """Delete stale temporary files in a folder and its subfolders, except in ``.git``.

    Files from this machine's processes are deleted immediately; with ``only_own``, no other files
    are deleted.
    """
    for path in abandoned_below(root, only_own):
        with contextlib.suppress(OSError):
            path.unlink()


def abandoned_below(root: Path, only_own: bool = False) -> Iterator[Path]:
    """Yield the files that ``sweep_below`` would delete."""
    from memvault.files.walk import walk

    for parent, folders, names in walk(root):
        folders[:] = [name for name in folders if name != ".git"]
        if any(name.endswith(".tmp") for name in names):
            yield from _stale_temp_files(Path(parent), 0.0, only_own)


def _stale_temp_files(folder: Path, own_seconds: float, only_own: bool) -> Iterator[Path]:
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            match = entry.name.endswith(".tmp") and _TEMP_NAME.fullmatch(entry.name)
            if not match or is_alive(int(match[1])):
                continue
            is_own = match[2] is not None and match[2] == _pid_namespace()
            if only_own and not is_own:
                continue
            limit = own_seconds if is_own else _STALE_SECONDS
            with contextlib.suppress(OSError):
                age = time.time() - entry.stat(follow_symlinks=False).st_mtime
                if age > limit or not limit:
                    yield Path(entry.path)


@lru_cache(maxsize=1)
def _pid_namespace() -> str:
    """Return an id of this boot and PID namespace; empty if unknown.

    It differs between machines, containers and boots.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError, ValueError):
            boot = plain_files.read(Path("/proc/sys/kernel/random/boot_id"), 100)
            space = os.stat("/proc/self/ns/pid").st_ino
            return f"{(int(boot[:8], 16) ^ space) & 0xFFFFFFFF:08x}"
    return ""


def is_alive(process: int) -> bool:
    """Return whether a process on this machine is running; False if that cannot be determined."""
    if sys.platform == "win32":
        # On Windows os.kill would terminate the process, so only the file's age counts.
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # another user's process
        return True
    return True
