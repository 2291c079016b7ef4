"""Writing files so that they are there whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

from memvault import clock
from memvault.errors import Refused, StorageError, Unwritable

_TEMPORARY = re.compile(r"\..*\.(?:(\d{1,9})-)?[0-9a-hjkmnp-tv-z]{8}\.tmp", re.DOTALL)
"""The names of temporary files, which since some time carry their process's number."""
_ABANDONED = 3_600.0
"""Seconds after which a process of another machine is not writing a file any more."""
_ANYBODYS = 24 * 3_600.0
"""The same where no process is named."""
_NO_WRITING = {errno.EROFS, errno.EACCES, errno.EPERM}
_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EACCES}


@contextmanager
def map_os_errors(path: Path | str) -> Iterator[None]:
    """Turn what the operating system says of a file into a ``StorageError``, or ``Unwritable``.

    ``FileExistsError`` and ``FileNotFoundError`` pass: they are answers.
    """
    try:
        yield
    except (FileExistsError, FileNotFoundError):
        raise
    except OSError as error:
        reason, hint = {
            errno.ENOSPC: _no_room(path),
            errno.EDQUOT: ("The disk quota is used up", "free some space; nothing was changed"),
            errno.EROFS: ("The file system is read-only", "reading still works"),
            errno.EACCES: ("Permission denied", "reading still works where files can be read"),
            errno.EPERM: ("Permission denied", "reading still works where files can be read"),
            errno.EFBIG: (str(error.strerror), "split it, or keep it outside of the vault"),
            errno.ENAMETOOLONG: ("The name is too long for this file system", "shorten the title"),
        }.get(
            error.errno or 0,
            (error.strerror or str(error), "nothing was changed; check the disk and try again"),
        )
        kind = Unwritable if error.errno in _NO_WRITING else StorageError
        raise kind(f"{reason}: {path}", hint) from error


_A_FILE = 3
"""Inodes that a new file may need for a moment: its temporary one, its name, its folder."""


def _no_room(path: Path | str) -> tuple[str, str]:
    """Say what there is no more room for: bytes, or files."""
    with contextlib.suppress(OSError, AttributeError):
        left = os.statvfs(next(folder for folder in Path(path).parents if folder.is_dir()))
        if left.f_files and left.f_favail < _A_FILE and left.f_bavail:
            return "The disk takes no more files", "delete some files; nothing was changed"
    return "The disk is full", "free some space; nothing was changed"


def create(path: Path, data: bytes) -> None:
    """Write a new file, its folders too; never over an existing one.

    The file is complete on disk under another name first and then linked to
    its own, which fails where that is taken; no lock is needed.

    Raises:
        FileExistsError: the name is taken.
        StorageError: the disk refused.
    """
    create_one_of([path], data)


def create_one_of(paths: Iterable[Path], data: bytes) -> Path:
    """Write a new file under the first name that is free, of several in one folder; return it.

    The bytes are written once, however many of the names are taken. Errors as for ``create``.
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
    """Put new bytes in an existing file's place at once, keeping its permissions.

    ``last_look`` is called when nothing is left to be done but the replacing;
    what it raises leaves the file as it is.

    Raises:
        StorageError: the disk refused; the old file is as it was.
    """
    with map_os_errors(path):
        mode = stat.S_IMODE(path.stat().st_mode)
        if not mode & stat.S_IWUSR:
            raise PermissionError(errno.EACCES, "Permission denied")
        with _temporary(path, data) as temporary:
            temporary.chmod(mode)
            last_look()
            temporary.replace(path)
        _sync_folder(path.parent)


def hard_link(path: Path, name: Path, data: bytes) -> None:
    """Give a file a second name, so that whatever is written into it until it is replaced stays.

    Where the file system has no links a file with ``data`` gets the name.

    Raises:
        FileExistsError: the name is taken.
        FileNotFoundError: the file is gone.
        StorageError: the disk refused.
    """
    with map_os_errors(path):
        name.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(path, name, follow_symlinks=False)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            create(name, data)


def write(
    path: Path,
    data: bytes,
    durable: bool = True,
    private: bool = False,
    makes_folder: bool = True,
) -> None:
    """Write a file of the program's own, its folders too, in place of an older one.

    What can be made anew need not be ``durable``: after a power cut it may be
    gone. What is ``private`` nobody but its user may read or write. Without
    ``makes_folder`` a missing folder is an error.

    Raises:
        StorageError: the disk refused; an older file is as it was.
    """
    with map_os_errors(path):
        if makes_folder:
            path.parent.mkdir(0o700 if private else 0o777, parents=True, exist_ok=True)
        with _temporary(path, data, durable) as temporary:
            if private:
                temporary.chmod(0o600)
            temporary.replace(path)


def move_exclusive(source: Path, target: Path) -> None:
    """Move a file to a name that must be free, its bytes and times as they are.

    Cut off in between it has both names, never none.

    Raises:
        FileExistsError: the name is taken.
        StorageError: the disk refused; the file is where it was.
    """
    with map_os_errors(source):
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(source, target, follow_symlinks=False)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            if target.exists():
                raise FileExistsError(errno.EEXIST, "File exists", str(target)) from error
            source.rename(target)
        else:
            try:
                source.unlink()
            except OSError:
                # What a signal's handler raises may come after the old name has gone; and
                # where it has gone anyway, the new one may be the only one.
                if os.path.lexists(source):
                    target.unlink()
                raise
        _sync_folder(target.parent)
        _sync_folder(source.parent)


def remove_stale_temp_files(folder: Path) -> None:
    """Take away what processes left in a folder that were killed while they wrote a file.

    Only what is named as this program names it is looked at, and no file goes
    whose process is alive, such as one that was halted.
    """
    for path in _abandoned(folder):
        with contextlib.suppress(OSError):
            path.unlink()


def sweep_below(root: Path) -> None:
    """Sweep a folder and all below it but git's own."""
    for path in abandoned_below(root):
        with contextlib.suppress(OSError):
            path.unlink()


def abandoned_below(root: Path) -> Iterator[Path]:
    """Yield what ``sweep_below`` would take away."""
    from memvault.files.walk import walk

    for parent, folders, names in walk(root):
        folders[:] = [name for name in folders if name != ".git"]
        if any(name.endswith(".tmp") for name in names):
            yield from _abandoned(Path(parent))


def _abandoned(folder: Path) -> Iterator[Path]:
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            named = entry.name.endswith(".tmp") and _TEMPORARY.fullmatch(entry.name)
            if not named or (named[1] and is_alive(int(named[1]))):
                continue
            with contextlib.suppress(OSError):
                age = time.time() - entry.stat(follow_symlinks=False).st_mtime
                if age > (_ABANDONED if named[1] else _ANYBODYS):
                    yield Path(entry.path)


def is_alive(process: int) -> bool:
    """Say whether a process of this machine runs, where that can be found out."""
    if os.name != "posix":
        return False  # there a look would end it; the age has to do
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # another user's
        return True
    return True


@contextmanager
def _temporary(path: Path, data: bytes, durable: bool = True) -> Iterator[Path]:
    """Write a file beside a path, to be linked or renamed; under its own name it never stays."""
    stem = os.fsencode(path.name)[:80].decode("utf-8", "ignore").lstrip(".")
    nonce = clock.random_id(8)
    if nonce.startswith("0"):  # one time in 32
        remove_stale_temp_files(path.parent)
    temporary = path.parent / f".{stem}.{os.getpid()}-{nonce}.tmp"
    try:
        with open(temporary, "xb") as file:
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
        if error.errno not in _NO_LINKS:
            raise
        # A file system without hard links: exclusive, though not at once.
        with open(path, "xb") as file:
            try:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            except BaseException:
                path.unlink(missing_ok=True)
                raise


def _sync_folder(folder: Path) -> None:
    """Make a rename in a folder last; not every system can open a folder."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def append_line(path: Path, line: bytes) -> None:
    """Append a line to a plain file, created if missing; a line cut off before ends first.

    Each line is one write to the file's end, so that two who append at once spoil no line.

    Raises:
        Refused: it is a link, or no file.
        StorageError: the disk refused.
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
