"""Write files atomically: after a crash, each file is either complete or missing."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from memvault import clock
from memvault.errors import Conflict, Refused, StorageError, Unwritable
from memvault.files import plain_files

if TYPE_CHECKING:
    from memvault.files.attributes import Attributes

_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
_READ_ONLY_ERRNOS = {errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOLCK}
NO_LINK_ERRNOS = {
    *(errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EACCES),
    errno.EXDEV,  # another mount, such as a bind mount or a btrfs subvolume
}
"""Error numbers from file systems without hard links."""


@contextmanager
def map_os_errors(path: Path | str) -> Iterator[None]:
    """Convert an ``OSError`` about a file to a ``StorageError``, or ``Unwritable``.

    ``FileExistsError`` and ``FileNotFoundError`` are not converted, because callers handle them.
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
                "remount it as writable, or use another folder",
            ),
            errno.EACCES: ("Permission denied", "reading still works for readable files"),
            errno.EPERM: ("Permission denied", "reading still works for readable files"),
            errno.EFBIG: (str(error.strerror), "split it or store it outside the vault"),
            errno.ENOLCK: (str(error.strerror), "recall and adding memories still work here"),
            errno.ENAMETOOLONG: ("The name is too long for this file system", "use a shorter name"),
        }.get(error.errno or 0, (error.strerror or str(error), "check the disk and try again"))
        kind = Unwritable if error.errno in _READ_ONLY_ERRNOS else StorageError
        raise kind(f"{reason}: {path}", hint) from error


_INODES_PER_FILE = 3
"""Number of inodes needed to create a file: the temporary file, its name and its folder."""


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


def create(path: Path, data: bytes, like: Attributes | None = None) -> None:
    """Create a file with its folders; never overwrite an existing file.

    The bytes are written completely to a temporary file, which is then hard-linked to the name.
    Linking fails if the name is taken, so no lock is needed. The file gets the attributes ``like``,
    by default from the umask and the folder.

    Raises:
        FileExistsError: the name is taken.
        StorageError: the file cannot be written.
    """
    create_one_of([path], data, like)


def create_one_of(paths: Iterable[Path], data: bytes, like: Attributes | None = None) -> Path:
    """Create a file under the first free name of several in one folder, and return its path.

    The bytes are written once, even if names are taken.

    Raises:
        FileExistsError: all names are taken.
        StorageError: the file cannot be written.
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
    from memvault.files.attributes import Attributes

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
    """Hard-link a file to a second name, so later in-place writes appear under both.

    On another mount or a file system without hard links, a copy is created instead, with ``data``
    and the file's attributes.

    Raises:
        FileExistsError: the name is taken.
        FileNotFoundError: the file is missing.
        StorageError: the link cannot be created.
    """
    from memvault.files.attributes import Attributes

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
    """Write one of memvault's own files with its folders, replacing an older file.

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


def make_folders(folder: Path, private: bool = False, attempts: int = 3) -> None:
    """Create a folder and its missing parents; only the user can access a ``private`` folder.

    It makes several ``attempts``, because another process may remove an empty parent.

    Raises:
        OSError: a folder cannot be created.
        StorageError: its parent exists, but cannot contain folders, as in ``/proc``.
    """
    try:
        folder.mkdir(0o700 if private else 0o777)
    except FileNotFoundError:
        if folder.parent == folder:
            raise
        if not attempts:
            raise StorageError(
                f"The folder {folder} cannot be created", "use another folder"
            ) from None
        make_folders(folder.parent)
        make_folders(folder, private, attempts - 1)
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

    If the move is interrupted, the file may have both names, but always has at least one. A move to
    another mount copies the file.

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
    from memvault.files.attributes import Attributes

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
    """Remove a file's old name after it got a new name; if that fails, remove the new name."""
    try:
        source.unlink()
    except OSError:
        # A signal handler may raise after the old name was removed, so the new name may be the only
        # one left.
        if os.path.lexists(source):
            target.unlink()
        raise


@contextmanager
def _temporary(
    path: Path,
    data: bytes,
    durable: bool = True,
    private: bool = False,
    like: Attributes | None = None,
) -> Iterator[Path]:
    """Write a temporary file next to a path, for linking or renaming; delete it afterward."""
    from memvault.files import temporary_files

    temporary = path.parent / temporary_files.temporary_name(path.name)
    if clock.random_id(1) == "0":  # Clean up on one call in 32.
        temporary_files.remove_stale_temp_files(path.parent)
    try:
        _write_new(temporary, data, durable, private, like)
        yield temporary
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def _write_new(
    path: Path, data: bytes, durable: bool, private: bool, like: Attributes | None
) -> None:
    """Write a file under a free name; other users cannot read it until its permissions are set."""
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
        # Without hard links, the creation is exclusive but not atomic.
        _write_new(path, data, True, False, like)


def _sync_folder(folder: Path) -> None:
    """Sync a folder so that a rename in it is durable; not every system can open a folder."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def append_line(path: Path, line: bytes, private: bool = False) -> None:
    """Append a line to a regular file, creating it if missing and ending an incomplete last line.

    With ``private``, a new file can only be read by its owner.
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
        with open(os.open(path, flags, 0o600 if private else 0o666), "ab+") as file:
            adopt(file.fileno(), path)
            end = file.seek(0, os.SEEK_END)
            if end:
                file.seek(end - 1)
                line = line if file.read(1) == b"\n" else b"\n" + line
            file.write(line + b"\n")
