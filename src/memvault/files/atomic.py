"""Write files atomically: after a crash, each is either complete or missing."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import NamedTuple, Self

from memvault import clock
from memvault.errors import Conflict, Refused, StorageError, Unwritable
from memvault.files import plain_files
from memvault.lazy_pattern import lazy_pattern

_TEMP_NAME = lazy_pattern(
    r"\..*\.(\d{1,9})-(?:([0-9a-f]{8})-)?[0-9a-hjkmnp-tv-z]{8}\.tmp", re.DOTALL
)
"""Matches names of temporary files, with the writer's process id and, on Linux, PID namespace."""
_STALE_SECONDS = 3_600.0
"""Seconds after which a file being written on another machine is considered abandoned."""
_OWN_STALE_SECONDS = 60.0
"""Seconds to keep a temporary file after its process, in this PID namespace, has ended."""
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
_READ_ONLY_ERRNOS = {errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOLCK}
NO_LINK_ERRNOS = {
    *(errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EACCES),
    errno.EXDEV,  # another mount, such as a bind mount or a btrfs subvolume
}
"""Errors of file systems without hard links."""
_POSIX_ACL = "system.posix_acl_access"


@contextmanager
def map_os_errors(path: Path | str) -> Iterator[None]:
    """Convert an ``OSError`` about a file to a ``StorageError``, or ``Unwritable``.

    ``FileExistsError`` and ``FileNotFoundError`` are not converted, since callers handle them.
    """
    try:
        yield
    except (FileExistsError, FileNotFoundError):
        raise
    except OSError as error:
        reason, hint = {
            errno.ENOSPC: _disk_full_error(path),
            errno.EDQUOT: ("The disk quota is exceeded", "free some space"),
            errno.EROFS: (
                "The file system is read-only",
                "use another folder, or remount it writable",
            ),
            errno.EACCES: ("Permission denied", "reading still works for readable files"),
            errno.EPERM: ("Permission denied", "reading still works for readable files"),
            errno.EFBIG: (str(error.strerror), "split it or store it outside the vault"),
            errno.ENOLCK: (str(error.strerror), "recall and adding memories still work here"),
            errno.ENAMETOOLONG: ("The name is too long for this file system", "shorten the title"),
        }.get(error.errno or 0, (error.strerror or str(error), "check the disk and try again"))
        kind = Unwritable if error.errno in _READ_ONLY_ERRNOS else StorageError
        raise kind(f"{reason}: {path}", hint) from error


_INODES_PER_FILE = 3
"""Inodes that creating a file may need: the temporary file, its name and its folder."""


def _disk_full_error(path: Path | str) -> tuple[str, str]:
    """Return the message and hint for a full disk, which may lack space or inodes."""
    if sys.platform != "win32":
        with contextlib.suppress(OSError):
            stats = os.statvfs(next(folder for folder in Path(path).parents if folder.is_dir()))
            if stats.f_files and stats.f_favail < _INODES_PER_FILE and stats.f_bavail:
                return "The disk has no free inodes", "delete some files"
    return "The disk is full", "free some space"


def best_effort() -> contextlib.suppress:
    """Suppress file system errors, including mapped ones, in best-effort work."""
    return contextlib.suppress(OSError, StorageError, Refused)


class Attributes(NamedTuple):
    """The permissions, owner, group, extended attributes and times of a file.

    ``times`` are the access and modification times in nanoseconds; None means the current time.
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
        """Set the attributes of an open file after writing it, skipping what the system refuses.

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


def create(path: Path, data: bytes, like: Attributes | None = None) -> None:
    """Create a file with its folders; never overwrite an existing file.

    The bytes are written completely to a temporary file, which is then hard-linked to the name;
    that fails if the name is taken, so no lock is needed. The file gets the attributes ``like``, by
    default those of the umask and the folder.

    Raises:
        FileExistsError: the name is taken.
        StorageError: the file cannot be written.
    """
    create_one_of([path], data, like)


def create_one_of(paths: Iterable[Path], data: bytes, like: Attributes | None = None) -> Path:
    """Create a file under the first free name of several in one folder, and return its path.

    The bytes are written once, even if names are taken. Raises the same errors as ``create``.
    """
    names = iter(paths)
    first = next(names)
    with map_os_errors(first):
        make_folders(first.parent)
        with _temporary(first, data, like=like) as temporary:
            for path in chain([first], names):
                with contextlib.suppress(FileExistsError):
                    _link(temporary, path, data, like)
                    _sync_folder(path.parent)
                    return path
    raise FileExistsError(errno.EEXIST, "All names are taken", str(first))


def require_writable(path: Path) -> None:
    """Check that a file can be replaced: that it and its folder are writable.

    Raises:
        OSError: the file is missing, or its permissions or the file system forbid writing.
    """
    if not os.access(path, os.W_OK) or not os.access(path.parent, os.W_OK | os.X_OK):
        path.stat()
        is_read_only = sys.platform != "win32" and os.statvfs(path).f_flag & os.ST_RDONLY
        code = errno.EROFS if is_read_only else errno.EACCES
        raise OSError(code, os.strerror(code), str(path))


def replace(
    path: Path,
    data: bytes,
    last_look: Callable[[], None] = lambda: None,
    times: tuple[int, int] | None = None,
) -> None:
    """Replace an existing file's bytes atomically, keeping its ``Attributes`` except the times.

    The times are set to ``times``. ``last_look`` is called directly before the replacement; if it
    raises, the file is unchanged.

    Raises:
        StorageError: the file cannot be written; the old file is unchanged.
    """
    with map_os_errors(path):
        attributes = Attributes.of(path)._replace(times=times)
        require_writable(path)
        with _temporary(path, data, like=attributes) as temporary:
            last_look()
            temporary.replace(path)
        _sync_folder(path.parent)


def replace_unchanged(path: Path, before: bytes, after: bytes) -> None:
    """Replace a file's bytes atomically if they are still ``before``.

    Raises:
        Conflict: the bytes have changed, or the file is missing.
        StorageError: the file cannot be written; the old file is unchanged.
    """
    changed = Conflict.changed(path)

    def last_look() -> None:
        if plain_files.read(path, sys.maxsize - 1) != before:
            raise changed

    try:
        replace(path, after, last_look)
    except FileNotFoundError:
        raise changed from None


def hard_link(path: Path, name: Path, data: bytes) -> None:
    """Hard-link a file to a second name, so that later writes to it are kept under that name.

    On another mount or a file system without hard links, a copy is created instead, with ``data``
    and the file's attributes.

    Raises:
        FileExistsError: the name is taken.
        FileNotFoundError: the file is missing.
        StorageError: the link cannot be created.
    """
    with map_os_errors(path):
        make_folders(name.parent)
        try:
            os.link(path, name, follow_symlinks=False)
        except OSError as error:
            if error.errno not in NO_LINK_ERRNOS:
                raise
            create(name, data, Attributes.of(path))


def write(
    path: Path,
    data: bytes,
    durable: bool = True,
    private: bool = False,
    makes_folder: bool = True,
    like: Attributes | None = None,
) -> None:
    """Write one of memvault's own files with its folders, replacing an older one.

    A file that is not ``durable`` may be lost in a power failure. A ``private`` file is accessible
    only to its user. Without ``makes_folder``, a missing folder is an error. ``like`` has the same
    meaning as in ``create``.

    Raises:
        StorageError: the file cannot be written; an older file is unchanged.
    """
    with map_os_errors(path):
        if makes_folder:
            make_folders(path.parent, private)
        with _temporary(path, data, durable, private, like) as temporary:
            temporary.replace(path)


def make_folders(folder: Path, private: bool = False) -> None:
    """Create a folder and its missing parents; only the user can access a ``private`` one.

    Raises:
        OSError: a folder cannot be created.
    """
    try:
        folder.mkdir(0o700 if private else 0o777)
    except FileNotFoundError:
        if folder.parent == folder:
            raise
        make_folders(folder.parent)
        make_folders(folder, private)
    except OSError:
        if not folder.is_dir():
            raise
    else:
        if not private and sys.platform != "win32" and os.geteuid() == 0:
            with contextlib.suppress(OSError):
                above = folder.parent.stat()
                os.chown(folder, above.st_uid, above.st_gid, follow_symlinks=False)


def adopt(file: int, path: Path) -> None:
    """Give a file created by root to its folder's owner, who otherwise could not edit it."""
    if sys.platform != "win32" and os.geteuid() == 0:
        above, status = path.parent.stat(), os.fstat(file)
        if status.st_uid == 0 != above.st_uid and status.st_nlink <= 1:
            with contextlib.suppress(OSError):
                os.fchown(file, above.st_uid, above.st_gid)


def move_exclusive(source: Path, target: Path) -> None:
    """Move a file to a free name, keeping its bytes, times and ``Attributes``.

    If interrupted, the file has both names, never none. To another mount it is copied.

    Raises:
        FileExistsError: the name is taken.
        Conflict: the file was changed while being copied, and was not moved.
        StorageError: the file cannot be moved.
    """
    with map_os_errors(source):
        make_folders(target.parent)
        try:
            os.link(source, target, follow_symlinks=False)
        except OSError as error:
            if error.errno not in NO_LINK_ERRNOS:
                raise
            if os.path.lexists(target):
                raise FileExistsError(errno.EEXIST, "File exists", str(target)) from error
            if error.errno == errno.EXDEV:
                _move_to_mount(source, target)
            else:
                _rename_to(source, target)
        else:
            _remove_moved(source, target)
        _sync_folder(target.parent)
        _sync_folder(source.parent)


def _rename_to(source: Path, target: Path) -> None:
    """Rename a file on a file system without hard links, after checking that the name is free."""
    try:
        source.rename(target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        _move_to_mount(source, target)


def _move_to_mount(source: Path, target: Path) -> None:
    """Copy a file to a free name on another mount, then delete it unless it has changed."""
    attributes = Attributes.of(source)
    data = plain_files.read(source, sys.maxsize - 1)
    create(target, data, attributes)
    try:
        if plain_files.read(source, sys.maxsize - 1) != data:
            raise Conflict(f"{source} was changed while it was moved", "try again")
    except BaseException:
        target.unlink()
        raise
    _remove_moved(source, target)


def _remove_moved(source: Path, target: Path) -> None:
    """Remove the old name of a file that has a new one; if that fails, remove the new one."""
    try:
        source.unlink()
    except OSError:
        # A signal handler may raise after the old name was removed. Whatever removed it, the new
        # name may be the only one left.
        if os.path.lexists(source):
            target.unlink()
        raise


def remove_stale_temp_files(folder: Path, only_own: bool = False) -> None:
    """Delete temporary files left in a folder by killed processes.

    Only files with this program's temporary names are considered, and a file whose process is
    alive, even if suspended, is kept. Files from this machine are deleted after a minute, others
    after an hour, or never if ``only_own`` is set.
    """
    for path in _stale_temp_files(folder, _OWN_STALE_SECONDS, only_own):
        with contextlib.suppress(OSError):
            path.unlink()


def sweep_below(root: Path, only_own: bool = False) -> None:
    """Delete stale temporary files in a folder and its subfolders, except in ``.git``.

    Files from this machine's processes are deleted immediately; with ``only_own``, no others are.
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
    """Return whether a process of this machine is running; False if that cannot be determined."""
    if sys.platform == "win32":
        # On Windows os.kill would terminate the process, so only the file's age counts.
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # a process of another user
        return True
    return True


@contextmanager
def _temporary(
    path: Path,
    data: bytes,
    durable: bool = True,
    private: bool = False,
    like: Attributes | None = None,
) -> Iterator[Path]:
    """Write a temporary file next to a path, for linking or renaming; delete it afterwards."""
    temporary = path.parent / temporary_name(path.name)
    if clock.random_id(1) == "0":  # Sweep in one call of 32.
        remove_stale_temp_files(path.parent)
    try:
        _write_new(temporary, data, durable, private, like)
        yield temporary
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def temporary_name(name: str) -> str:
    """Return a temporary name in the form that ``remove_stale_temp_files`` deletes."""
    stem = os.fsencode(name)[:80].decode("utf-8", "ignore").lstrip(".")
    origin = "-".join(filter(None, (str(os.getpid()), _pid_namespace(), clock.random_id(8))))
    return f".{stem}.{origin}.tmp"


def _write_new(
    path: Path, data: bytes, durable: bool, private: bool, like: Attributes | None
) -> None:
    """Write a file under a free name; others cannot read it until its permissions are set."""
    handle = os.open(path, _CREATE, 0o600 if private or like is not None else 0o666)
    try:
        with open(handle, "wb") as file:
            file.write(data)
            file.flush()
            if like is not None:
                like.apply(handle, path)
            elif not private:
                adopt(handle, path)
            if durable:
                os.fsync(handle)
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def _link(temporary: Path, path: Path, data: bytes, like: Attributes | None) -> None:
    try:
        os.link(temporary, path)
    except OSError as error:
        if error.errno not in NO_LINK_ERRNOS:
            raise
        # A file system without hard links: exclusive, but not atomic.
        _write_new(path, data, True, False, like)


def _sync_folder(folder: Path) -> None:
    """Sync a folder so that a rename in it is durable; not every system can open a folder."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def append_line(path: Path, line: bytes) -> None:
    """Append a line to a regular file, creating it if missing and ending an incomplete last line.

    Each line is a single write at the end of the file, so concurrent appends do not mix.

    Raises:
        Refused: the path is a link, or not a regular file.
        StorageError: the line cannot be written.
    """
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT
    for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY", "O_CLOEXEC"):
        flags |= getattr(os, name, 0)
    with map_os_errors(path):
        make_folders(path.parent)
        if path.is_symlink() or (path.exists() and not path.is_file()):
            raise Refused(
                f"{path} is not a regular file", "move it away, and memvault will create a new one"
            )
        with open(os.open(path, flags, 0o666), "ab+") as file:
            adopt(file.fileno(), path)
            end = file.seek(0, os.SEEK_END)
            if end:
                file.seek(end - 1)
                line = line if file.read(1) == b"\n" else b"\n" + line
            file.write(line + b"\n")
