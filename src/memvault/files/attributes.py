"""Permissions, owner, group, extended attributes and times of a file."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from pathlib import Path
from typing import Self

from memvault.named_tuple import NamedTuple

_POSIX_ACL = "system.posix_acl_access"


class Attributes(NamedTuple):
    """The permissions, owner, group, extended attributes and times of a file.

    ``times`` contains the access and modification times in nanoseconds; None means the current
    time.
    """

    mode: int
    user: int
    group: int
    extended: tuple[tuple[str, bytes], ...]
    times: tuple[int, int] | None

    @classmethod
    def of(cls, path: Path) -> Self:
        """Return the attributes of a file.

        Raises:
            OSError: the file is missing or cannot be examined.
        """
        status = path.stat()
        extended: list[tuple[str, bytes]] = []
        if sys.platform == "linux":
            with contextlib.suppress(OSError):  # The file system has no extended attributes.
                for name in os.listxattr(path, follow_symlinks=False):
                    if name.startswith("user.") or name == _POSIX_ACL:
                        value = os.getxattr(path, name, follow_symlinks=False)
                        extended.append((name, value))
        return cls(
            stat.S_IMODE(status.st_mode),
            status.st_uid,
            status.st_gid,
            tuple(extended),
            (status.st_atime_ns, status.st_mtime_ns),
        )

    def apply(self, file: int, path: Path) -> None:
        """Set the attributes of an open file after writing it, skipping any that are refused.

        If the group cannot be set, the group's permissions are reduced to everyone's.

        Raises:
            OSError: the permissions cannot be set.
        """
        mode = self.mode & 0o777
        if self.times is not None:
            with contextlib.suppress(OSError):
                os.utime(path, ns=self.times)
        if sys.platform == "win32":
            path.chmod(mode)
            return
        status = os.fstat(file)
        if status.st_uid != self.user:
            with contextlib.suppress(OSError):  # Only root may change the owner.
                os.fchown(file, self.user, self.group)
        keeps_group = status.st_gid == self.group
        if not keeps_group:
            with contextlib.suppress(OSError):  # The user is not in this group.
                os.fchown(file, -1, self.group)
                keeps_group = True
        if not keeps_group:
            mode &= ~0o070 | (mode & 0o007) << 3
        os.fchmod(file, mode)
        if sys.platform == "linux":
            for name, value in self.extended:
                if keeps_group or name != _POSIX_ACL:
                    with contextlib.suppress(OSError):
                        os.setxattr(file, name, value)
