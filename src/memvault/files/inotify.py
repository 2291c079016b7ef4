"""Watch folders with Linux's inotify, reading events in the calling thread.

The kernel queues an event within the system call that makes the change, so ``Inotify.read`` returns
every change that was complete before the call. Watchdog delivers events later, from its own thread,
which is too late for an answer that must not miss a change.
"""

from __future__ import annotations

import ctypes
import errno
import os
import select
import struct
import sys
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from memvault.named_tuple import NamedTuple

_HEADER = struct.Struct("iIII")
"""An event's fields: watch, mask, cookie, and length of the name."""
_BUFFER = 1 << 16
_NONBLOCK, _CLOEXEC = 0o4000, 0o2000000

MODIFY, ATTRIB, CLOSE_WRITE = 0x2, 0x4, 0x8
MOVED_FROM, MOVED_TO, CREATE, DELETE = 0x40, 0x80, 0x100, 0x200
DELETE_SELF, MOVE_SELF, UNMOUNT, OVERFLOW, IGNORED = 0x400, 0x800, 0x2000, 0x4000, 0x8000
IS_DIRECTORY = 0x40000000
_ONLY_DIRECTORY, _DONT_FOLLOW = 0x01000000, 0x02000000
_CHANGES = (
    MODIFY | ATTRIB | CLOSE_WRITE | MOVED_FROM | MOVED_TO | CREATE | DELETE | DELETE_SELF
    | MOVE_SELF | _ONLY_DIRECTORY | _DONT_FOLLOW
)  # fmt: skip

_LOCAL_FILE_SYSTEMS = {
    0xEF53: "ext",
    0x58465342: "xfs",
    0x9123683E: "btrfs",
    0xF2F52010: "f2fs",
    0x2FC12FC1: "zfs",
    0xCA451A4E: "bcachefs",
    0x01021994: "tmpfs",
    0x794C7630: "overlay",
}
"""The statfs(2) type numbers of file systems that no other machine can change."""


class FolderEvent(NamedTuple):
    """A change: the watch of its folder, its mask, and the name of the entry.

    The name is empty for a change of the folder itself.
    """

    watch: int
    mask: int
    name: str


class Inotify:
    """An inotify instance.

    Raises:
        OSError: the platform has no inotify, or the user's limit is reached.
    """

    descriptor: int
    _libc: Any
    _close: Callable[[], object]

    def __init__(self) -> None:
        if sys.platform != "linux":
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
        self._libc = ctypes.CDLL(None, use_errno=True)
        self.descriptor = _checked(self._libc.inotify_init1(_NONBLOCK | _CLOEXEC))
        self._close = weakref.finalize(self, os.close, self.descriptor)

    def add(self, folder: str) -> int:
        """Watch the files directly in a folder, and return the watch; links are not followed.

        Raises:
            OSError: the path is not a folder, cannot be read, or the user's limit is reached.
        """
        path = os.fsencode(folder)
        return _checked(self._libc.inotify_add_watch(self.descriptor, path, _CHANGES))

    def remove(self, watch: int) -> None:
        """Stop watching a folder, if it has not been deleted."""
        self._libc.inotify_rm_watch(self.descriptor, watch)

    def read(self) -> Iterator[FolderEvent]:
        """Yield the events since the last call.

        Raises:
            OSError: the events cannot be read.
        """
        while True:
            try:
                data = os.read(self.descriptor, _BUFFER)
            except BlockingIOError:
                return
            position = 0
            while position < len(data):
                watch, mask, _, length = _HEADER.unpack_from(data, position)
                position += _HEADER.size + length
                name = data[position - length : position].rstrip(b"\0")
                yield FolderEvent(watch, mask, os.fsdecode(name))

    def close(self) -> None:
        """Close the instance, which removes all watches."""
        self._close()


class Mounts:
    """Detects new mounts, because a file system mounted on a folder hides the folder's files.

    Raises:
        OSError: the mounts cannot be listed.
    """

    _poll: Any
    _close: Callable[[], object]

    def __init__(self) -> None:
        if sys.platform != "linux":
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
        descriptor = os.open("/proc/self/mountinfo", os.O_RDONLY)
        self._close = weakref.finalize(self, os.close, descriptor)
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLPRI)

    def has_changed(self) -> bool:
        """Return whether something was mounted or unmounted since the last call."""
        return bool(self._poll.poll(0))

    def close(self) -> None:
        """Close the kernel's list of mounts."""
        self._close()


def reports_all_changes(folder: str) -> bool:
    """Return whether inotify reports all changes in a folder: no other machine can change it.

    Raises:
        OSError: the folder cannot be examined.
    """
    status = (ctypes.c_long * 64)()
    libc = ctypes.CDLL(None, use_errno=True)
    _checked(libc.statfs(os.fsencode(folder), status))
    return status[0] & 0xFFFFFFFF in _LOCAL_FILE_SYSTEMS


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
