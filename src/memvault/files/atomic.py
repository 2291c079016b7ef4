"""Write files atomically, so that each is complete or missing."""

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
from itertools import chain
from pathlib import Path

from memvault import clock
from memvault.errors import Refused, StorageError, Unwritable
from memvault.lazy_pattern import lazy_pattern

_TEMP_NAME = lazy_pattern(r"\..*\.(?:(\d{1,9})-)?[0-9a-hjkmnp-tv-z]{8}\.tmp", re.DOTALL)
"""The names of temporary files; those of newer versions include the id of their process."""
_STALE_SECONDS = 3_600.0
"""Seconds after which a process on another machine is assumed to have stopped writing a file."""
_UNKNOWN_STALE_SECONDS = 24 * 3_600.0
"""The same for a temporary file whose name has no process id."""
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
_READ_ONLY_ERRNOS = {errno.EROFS, errno.EACCES, errno.EPERM}
NO_LINK_ERRNOS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EACCES}
"""Errors of a file system without hard links."""


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
            errno.EDQUOT: ("The disk quota is used up", "free some space"),
            errno.EROFS: ("The file system is read-only", "reading still works"),
            errno.EACCES: ("Permission denied", "reading still works where files can be read"),
            errno.EPERM: ("Permission denied", "reading still works where files can be read"),
            errno.EFBIG: (str(error.strerror), "split it, or keep it outside of the vault"),
            errno.ENAMETOOLONG: ("The name is too long for this file system", "shorten the title"),
        }.get(error.errno or 0, (error.strerror or str(error), "check the disk and try again"))
        kind = Unwritable if error.errno in _READ_ONLY_ERRNOS else StorageError
        raise kind(f"{reason}: {path}", hint) from error


_INODES_PER_FILE = 3
"""Inodes that a new file may need for a moment: the temporary file, its name, its folder."""


def _disk_full_error(path: Path | str) -> tuple[str, str]:
    """Return the message and hint for a full disk, which may lack space or inodes."""
    if sys.platform != "win32":
        with contextlib.suppress(OSError):
            stats = os.statvfs(next(folder for folder in Path(path).parents if folder.is_dir()))
            if stats.f_files and stats.f_favail < _INODES_PER_FILE and stats.f_bavail:
                return "The disk takes no more files", "delete some files"
    return "The disk is full", "free some space"


def create(path: Path, data: bytes) -> None:
    """Create a file with its folders; never overwrite an existing file.

    The bytes are written completely to a temporary file, which is then hard-linked to the name;
    that fails if the name is taken, so no lock is needed.

    Raises:
        FileExistsError: the name is taken.
        StorageError: the file cannot be written.
    """
    create_one_of([path], data)


def create_one_of(paths: Iterable[Path], data: bytes) -> Path:
    """Create a file under the first free name of several in one folder, and return its path.

    The bytes are written once, however many names are taken. Raises as ``create`` does.
    """
    names = iter(paths)
    first = next(names)
    with map_os_errors(first):
        first.parent.mkdir(parents=True, exist_ok=True)
        with _temporary(first, data) as temporary:
            for path in chain([first], names):
                with contextlib.suppress(FileExistsError):
                    _link(temporary, path, data)
                    _sync_folder(path.parent)
                    return path
    raise FileExistsError(errno.EEXIST, "All names are taken", str(first))


def replace(path: Path, data: bytes, last_look: Callable[[], None] = lambda: None) -> None:
    """Replace an existing file's bytes atomically, keeping its permissions.

    ``last_look`` is called directly before the replacement; if it raises, the file is unchanged.

    Raises:
        StorageError: the file cannot be written; the old file is unchanged.
    """
    with map_os_errors(path):
        mode = stat.S_IMODE(path.stat().st_mode)
        if not mode & stat.S_IWUSR:
            raise PermissionError(errno.EACCES, "Permission denied")
        with _temporary(path, data, mode=mode & 0o600) as temporary:
            temporary.chmod(mode)
            last_look()
            temporary.replace(path)
        _sync_folder(path.parent)


def hard_link(path: Path, name: Path, data: bytes) -> None:
    """Hard-link a file to a second name, which keeps all that is written to it until replaced.

    On a file system without hard links, a file with ``data`` is created under the name.

    Raises:
        FileExistsError: the name is taken.
        FileNotFoundError: the file is missing.
        StorageError: the link cannot be created.
    """
    with map_os_errors(path):
        name.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(path, name, follow_symlinks=False)
        except OSError as error:
            if error.errno not in NO_LINK_ERRNOS:
                raise
            create(name, data)


def write(
    path: Path,
    data: bytes,
    durable: bool = True,
    private: bool = False,
    makes_folder: bool = True,
) -> None:
    """Write a file of the program itself with its folders, replacing an older one.

    A file that can be rebuilt need not be ``durable``: it may be lost in a power cut. A ``private``
    file can be read and written only by its user. Without ``makes_folder``, a missing folder is an
    error.

    Raises:
        StorageError: the file cannot be written; an older file is unchanged.
    """
    with map_os_errors(path):
        if makes_folder:
            path.parent.mkdir(0o700 if private else 0o777, parents=True, exist_ok=True)
        with _temporary(path, data, durable, 0o600 if private else 0o666) as temporary:
            temporary.replace(path)


def move_exclusive(source: Path, target: Path) -> None:
    """Move a file to a name that must be free, keeping its bytes and times.

    If interrupted, the file has both names, never none.

    Raises:
        FileExistsError: the name is taken.
        StorageError: the file cannot be moved and is where it was.
    """
    with map_os_errors(source):
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(source, target, follow_symlinks=False)
        except OSError as error:
            if error.errno not in NO_LINK_ERRNOS:
                raise
            if target.exists():
                raise FileExistsError(errno.EEXIST, "File exists", str(target)) from error
            source.rename(target)
        else:
            try:
                source.unlink()
            except OSError:
                # A signal handler may raise after the old name was removed; and if the old name is
                # gone for any reason, the new one may be the only one left.
                if os.path.lexists(source):
                    target.unlink()
                raise
        _sync_folder(target.parent)
        _sync_folder(source.parent)


def remove_stale_temp_files(folder: Path) -> None:
    """Delete temporary files left in a folder by killed processes.

    Only names that this program gives to temporary files are considered, and no file is deleted
    whose process is alive, even if it is suspended.
    """
    for path in _stale_temp_files(folder):
        with contextlib.suppress(OSError):
            path.unlink()


def sweep_below(root: Path) -> None:
    """Delete stale temporary files in a folder and its subfolders, except in ``.git``."""
    for path in abandoned_below(root):
        with contextlib.suppress(OSError):
            path.unlink()


def abandoned_below(root: Path) -> Iterator[Path]:
    """Yield the files that ``sweep_below`` would delete."""
    from memvault.files.walk import walk

    for parent, folders, names in walk(root):
        folders[:] = [name for name in folders if name != ".git"]
        if any(name.endswith(".tmp") for name in names):
            yield from _stale_temp_files(Path(parent))


def _stale_temp_files(folder: Path) -> Iterator[Path]:
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            named = entry.name.endswith(".tmp") and _TEMP_NAME.fullmatch(entry.name)
            if not named or (named[1] and is_alive(int(named[1]))):
                continue
            with contextlib.suppress(OSError):
                age = time.time() - entry.stat(follow_symlinks=False).st_mtime
                if age > (_STALE_SECONDS if named[1] else _UNKNOWN_STALE_SECONDS):
                    yield Path(entry.path)


def is_alive(process: int) -> bool:
    """Return whether a process of this machine is running; False if that cannot be determined."""
    if sys.platform == "win32":
        return False  # os.kill would terminate it on Windows; the file's age has to suffice
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # a process of another user
        return True
    return True


@contextmanager
def _temporary(path: Path, data: bytes, durable: bool = True, mode: int = 0o666) -> Iterator[Path]:
    """Write a temporary file next to a path, for linking or renaming, and delete it at the end."""
    stem = os.fsencode(path.name)[:80].decode("utf-8", "ignore").lstrip(".")
    nonce = clock.random_id(8)
    if nonce.startswith("0"):  # one call in 32
        remove_stale_temp_files(path.parent)
    temporary = path.parent / f".{stem}.{os.getpid()}-{nonce}.tmp"
    try:
        with open(os.open(temporary, _CREATE, mode), "wb") as file:
            file.write(data)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        yield temporary
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def _link(temporary: Path, path: Path, data: bytes) -> None:
    try:
        os.link(temporary, path)
    except OSError as error:
        if error.errno not in NO_LINK_ERRNOS:
            raise
        # A file system without hard links: exclusive, but not atomic.
        with open(path, "xb") as file:
            try:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            except BaseException:
                path.unlink(missing_ok=True)
                raise


def _sync_folder(folder: Path) -> None:
    """Sync a folder so that a rename in it is durable; not every system can open a folder."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def append_line(path: Path, line: bytes) -> None:
    """Append a line to a regular file, created if missing, after ending an incomplete last line.

    Each line is a single write at the end of the file, so that concurrent appends do not mix.

    Raises:
        Refused: the path is a link, or not a regular file.
        StorageError: the line cannot be written.
    """
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT
    for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY", "O_CLOEXEC"):
        flags |= getattr(os, name, 0)
    with map_os_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_symlink() or (path.exists() and not path.is_file()):
            raise Refused(f"{path} is not a plain file", "move it away; memvault creates it again")
        with open(os.open(path, flags, 0o644), "ab+") as file:
            end = file.seek(0, os.SEEK_END)
            if end:
                file.seek(end - 1)
                line = line if file.read(1) == b"\n" else b"\n" + line
            file.write(line + b"\n")
