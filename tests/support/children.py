"""Run work in a forked process: as another user, or with private mounts."""

from __future__ import annotations

import ctypes
import json
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

_NEW_MOUNTS = 0x0002_0000
_BIND, _PRIVATE = 4096, (1 << 18) | 16384


def in_child(work: Callable[[], object]) -> Any:
    """Run some work in a forked process, and return its JSON-serializable value."""
    reads, writes = os.pipe()
    child = os.fork()
    if not child:
        code = 1
        try:
            os.close(reads)
            with open(writes, "wb") as file:
                file.write(json.dumps(work()).encode())
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    os.close(writes)
    with open(reads, "rb") as file:
        data = file.read()
    assert os.waitpid(child, 0)[1] == 0, "the work failed, as printed"
    return json.loads(data)


def become(user: int, group: int, umask: int, home: Path) -> None:
    """Continue this process as another user with separate folders."""
    os.umask(umask)
    os.setgroups([])
    os.setgid(group)
    os.setuid(user)
    for kind in ("CACHE", "STATE", "CONFIG"):
        os.environ[f"XDG_{kind}_HOME"] = str(home / str(user))


def only_as_root() -> None:
    """Skip a test that changes users."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")


def bind(source: Path, target: Path) -> None:
    """Mount a folder on another one, visible only in this forked process."""
    _mount(os.fsencode(source), target, None, _BIND)


def mount_in_memory(target: Path, size: str) -> None:
    """Mount a memory disk on a folder, visible only in this forked process."""
    _mount(b"none", target, b"tmpfs", 0, f"size={size}".encode())


def _mount(
    source: bytes, target: Path, kind: bytes | None, flags: int, data: bytes | None = None
) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    failed = (
        libc.unshare(_NEW_MOUNTS)
        or libc.mount(b"none", b"/", None, _PRIVATE, None)
        or libc.mount(source, os.fsencode(target), kind, flags, data)
    )
    if failed:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
