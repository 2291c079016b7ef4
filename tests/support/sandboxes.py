"""Run a command in a sandbox provided by the kernel: ``python sandboxes.py KIND COMMAND…``."""

from __future__ import annotations

import ctypes
import os
import struct
import sys

_SET_NO_NEW_PRIVS = 38
_CREATE_RULESET, _RESTRICT_SELF = 444, 446
_VERSION = 1
_WRITE_FILE, _MAKE_REG = 1 << 1, 1 << 8
KINDS = ("no_new_privs", "landlock", "landlock_of_root")


def is_available(kind: str) -> bool:
    """Return whether a kind of sandbox is available."""
    if kind == "no_new_privs":
        return True
    has_landlock = _libc().syscall(_CREATE_RULESET, None, 0, _VERSION) > 0
    return has_landlock and (kind == "landlock" or os.geteuid() == 0)


def enter(kind: str) -> None:
    """Restrict this process; with Landlock it can no longer write or create files."""
    libc = _libc()
    if kind != "landlock_of_root":
        assert libc.prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
    if kind != "no_new_privs":
        rules = struct.pack("Q", _WRITE_FILE | _MAKE_REG)
        descriptor = libc.syscall(_CREATE_RULESET, rules, len(rules), 0)
        assert descriptor >= 0, os.strerror(ctypes.get_errno())
        assert libc.syscall(_RESTRICT_SELF, descriptor, 0) == 0, os.strerror(ctypes.get_errno())
        os.close(descriptor)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


if __name__ == "__main__":
    enter(sys.argv[1])
    os.execvp(sys.argv[2], sys.argv[2:])
