"""Write files outside every vault, at paths chosen by the user.

The files contain a vault's text, and other users may be able to write to the folder, such as
``/tmp``. So links owned by other users are never followed, nor is any link below the target folder
or in the last part of the path; only regular files are replaced; and new files and folders are
private to the user.
"""

from __future__ import annotations

import contextlib
import errno
import os
import posixpath
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from memvault.errors import Refused
from memvault.files import atomic, temporary_files
from memvault.files.user_folders import is_owned

_FILE_MODE, _FOLDER_MODE = 0o600, 0o700
_PATH_ONLY = getattr(os, "O_PATH", os.O_RDONLY)
_FOLDER = getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
_READ = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_READ |= getattr(os, "O_BINARY", 0)
_CREATE = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
_HAS_DESCRIPTORS = {os.open, os.mkdir, os.link, os.rename, os.unlink} <= os.supports_dir_fd
_MAX_LINKS = 40
_BEGINNING = 200
"""Number of leading bytes of a file that are searched for its mark."""


class TargetFolder:
    """An open folder to write to; no link below it is followed."""

    def __init__(self, path: Path, descriptor: int | None) -> None:
        self.path = path
        self._descriptor = descriptor

    def close(self) -> None:
        """Close the folder."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> TargetFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _at(self, name: str) -> str:
        return name if self._descriptor is not None else os.path.join(self.path, name)

    @property
    def is_ours(self) -> bool:
        """Whether the folder belongs to this user."""
        folder = self.path if self._descriptor is None else self._descriptor
        return is_owned(os.stat(folder))

    def names(self) -> list[str]:
        """Return the names of all entries."""
        if self._descriptor is None:
            return os.listdir(self.path)
        descriptor = os.open(".", os.O_RDONLY | _FOLDER, dir_fd=self._descriptor)
        try:
            return os.listdir(descriptor)
        finally:
            os.close(descriptor)

    def status(self, name: str) -> os.stat_result | None:
        """Return the status of an entry without following links; None if it is missing."""
        try:
            return os.stat(self._at(name), dir_fd=self._descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def own_file(self, name: str, max_bytes: int) -> bytes | None:
        """Return the first ``max_bytes`` of a regular file that this user owns; None otherwise."""
        try:
            descriptor = os.open(self._at(name), _READ, dir_fd=self._descriptor)
        except OSError:
            return None
        with open(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            return (
                file.read(max_bytes) if stat.S_ISREG(status.st_mode) and is_owned(status) else None
            )

    def below(self, name: str) -> TargetFolder:
        """Open a subfolder, creating it if missing.

        Raises:
            Refused: the path is a link or a file.
            OSError: the folder cannot be created or opened.
        """
        path = self.path / name
        if (status := self.status(name)) is None:
            with contextlib.suppress(FileExistsError):
                os.mkdir(self._at(name), _FOLDER_MODE, dir_fd=self._descriptor)
            status = self.status(name)
        if status is not None and stat.S_ISLNK(status.st_mode):
            raise _is_link(path)
        if self._descriptor is None:
            if not path.is_dir():
                raise _is_file(path)
            return TargetFolder(path, None)
        try:
            flags = _PATH_ONLY | _FOLDER
            return TargetFolder(path, os.open(name, flags, dir_fd=self._descriptor))
        except OSError as error:
            if error.errno == errno.ENOTDIR:
                raise _is_file(path) from error
            if error.errno == errno.ELOOP:
                raise _is_link(path) from error
            raise

    def move_to(self, other: TargetFolder) -> TargetFolder:
        """Close this folder, and return another one."""
        self.close()
        return other

    def own_link(self, name: str, status: os.stat_result) -> Path:
        """Return the target of a link that belongs to this user or root.

        Raises:
            Refused: the link belongs to another user, or has just been replaced.
        """
        target = Path(os.readlink(self._at(name), dir_fd=self._descriptor))
        now = self.status(name)
        is_same = now is not None and (now.st_ino, now.st_ctime_ns) == (
            status.st_ino,
            status.st_ctime_ns,
        )
        if not is_same or not (is_owned(status) or status.st_uid == 0):
            raise Refused(
                f"{self.path / name} is a symbolic link owned by another user",
                "choose another folder, or pass the link's target",
            )
        return target

    @contextmanager
    def replacing(self, name: str, durable: bool = True) -> Iterator[BinaryIO]:
        """Yield a file to write, which gets its name at the end of the ``with`` statement.

        It replaces only a regular file, keeping its permissions except those for group and others.
        Until then it has no name, or a temporary name if the system does not support nameless
        files; it is deleted if the body fails.

        Raises:
            Refused: the name is taken by a link, a folder or a device.
            FileExistsError: the name was free at the beginning, and is now taken.
            OSError: the file cannot be written; an older file is unchanged.
        """
        before = self.status(name)
        if before is not None and not stat.S_ISREG(before.st_mode):
            what = "a link" if stat.S_ISLNK(before.st_mode) else "not a regular file"
            raise Refused(
                f"{self.path / name} is {what}, which memvault does not replace",
                "choose another name",
            )
        mode = _FILE_MODE & (before.st_mode if before is not None else _FILE_MODE)
        temporary = temporary_files.temporary_name(name)
        nameless = self._open_nameless(mode)
        descriptor = nameless
        if descriptor is None:
            descriptor = os.open(self._at(temporary), _CREATE, mode, dir_fd=self._descriptor)
        try:
            with open(descriptor, "r+b") as file:
                yield file
                file.flush()
                if durable:
                    os.fsync(file.fileno())
                if nameless is not None:
                    source = f"/proc/self/fd/{nameless}"
                    os.link(source, temporary, dst_dir_fd=self._descriptor, follow_symlinks=True)
            self._place(temporary, name, before is not None)
        finally:
            with contextlib.suppress(OSError):
                os.unlink(self._at(temporary), dir_fd=self._descriptor)

    def _open_nameless(self, mode: int) -> int | None:
        """Open a new nameless file, which vanishes if the process dies; None if not supported."""
        if sys.platform == "linux" and self._descriptor is not None:
            with contextlib.suppress(OSError):
                return os.open(".", os.O_TMPFILE | os.O_RDWR, mode, dir_fd=self._descriptor)
        return None

    def _place(self, temporary: str, name: str, replaces: bool) -> None:
        """Give a file its name, which must be free unless it ``replaces`` another file."""
        old, new, within = self._at(temporary), self._at(name), self._descriptor
        if not replaces:
            try:
                os.link(old, new, src_dir_fd=within, dst_dir_fd=within, follow_symlinks=False)
            except OSError as error:
                if error.errno not in atomic.NO_LINK_ERRNOS:
                    raise
                # Without hard links, reserve the name with an empty file and then replace that.
                os.close(os.open(new, _CREATE, _FILE_MODE, dir_fd=within))
            else:
                return
        os.replace(old, new, src_dir_fd=within, dst_dir_fd=within)

    def unlink(self, name: str) -> None:
        """Delete an entry that is not a folder; raises ``OSError``."""
        os.unlink(self._at(name), dir_fd=self._descriptor)

    def delete(self, path: str) -> None:
        """Delete a file below the folder if it exists and no part of its path is a link."""
        *parents, name = path.split("/")
        with contextlib.ExitStack() as opened, contextlib.suppress(OSError, Refused):
            folder = self
            for part in parents:
                if folder.status(part) is None:
                    return
                folder = opened.enter_context(folder.below(part))
            folder.unlink(name)


class TargetFiles:
    """Writes files at paths below a folder, replacing older files."""

    def __init__(self, folder: TargetFolder) -> None:
        self.folder = folder
        self._parent = ""
        self._opened: list[TargetFolder] = []

    def write(self, path: str, data: bytes, durable: bool = True) -> None:
        """Write a file.

        Raises:
            Refused: a folder in the path is a link or a file, or the name is a link or folder.
            StorageError: the file cannot be written.
        """
        parent, name = posixpath.split(path)
        with atomic.map_os_errors(self.folder.path / path):
            if parent != self._parent:
                self.close()
                try:
                    for part in filter(None, parent.split("/")):
                        self._opened.append(self._last.below(part))
                except BaseException:
                    self.close()
                    raise
                self._parent = parent
            with self._last.replacing(name, durable) as file:
                file.write(data)

    @property
    def _last(self) -> TargetFolder:
        return self._opened[-1] if self._opened else self.folder

    def close(self) -> None:
        """Close all open folders."""
        for folder in reversed(self._opened):
            folder.close()
        self._opened, self._parent = [], ""


def absolute_path(text: str) -> Path:
    """Return the absolute form of a user's path; ``..`` is resolved unless it follows a link."""
    path = Path(text).expanduser().absolute()
    normalized = Path(os.path.normpath(path))
    return normalized if os.path.realpath(normalized) == os.path.realpath(path) else path


@contextmanager
def target_file(path: Path, force: bool, mark: bytes = b"") -> Iterator[BinaryIO]:
    """Yield a file to write, which gets the name ``path`` at the end of the ``with`` statement.

    An existing regular file is replaced with ``force``, or if it belongs to this user and its
    beginning contains ``mark``. Missing folders are created.

    Raises:
        Refused: the name is taken, or a folder in the path is another user's link.
        StorageError: the file cannot be written; an older file is unchanged.
    """
    with atomic.map_os_errors(path), open_folder(path.parent) as folder:
        temporary_files.remove_stale_temp_files(path.parent, only_own=True)
        message = f"{path} already exists" + (", and memvault did not create it" if mark else "")
        taken = Refused(message, "choose another name, or `--force` to replace it")
        before = folder.status(path.name)
        if before is not None and stat.S_ISREG(before.st_mode) and not force:
            beginning = folder.own_file(path.name, _BEGINNING) if mark else None
            if beginning is None or mark not in beginning:
                raise taken
        try:
            with folder.replacing(path.name) as file:
                yield file
        except FileExistsError as error:
            raise taken from error


@contextmanager
def target_files(path: Path, force: bool, mark: str = "") -> Iterator[TargetFiles]:
    """Yield a writer of files below a folder, which is created if missing.

    Without ``force``, the folder must belong to this user, and be empty or contain a file named
    ``mark`` that this user owns.

    Raises:
        Refused: the folder does not qualify, or a folder in the path is another user's link.
        StorageError: the folder cannot be created or opened.
    """
    with atomic.map_os_errors(path):
        folder = open_folder(path)
    with folder:
        if not force:
            if not folder.is_ours:
                raise Refused(f"{path} belongs to another user", "pass `--force` to write into it")
            if folder.names() and not (mark and folder.own_file(mark, 0) is not None):
                raise Refused(
                    f"{path} already exists and is not empty", "pass `--force` to write into it"
                )
        # A killed export may leave a file there.
        temporary_files.sweep_below(path, only_own=True)
        files = TargetFiles(folder)
        try:
            yield files
        finally:
            files.close()


def open_folder(path: Path) -> TargetFolder:
    """Open a folder, creating it if missing; follows only links that this user or root owns.

    Raises:
        Refused: a part of the path is another user's link, or a file.
        OSError: the folder cannot be created or opened.
    """
    absolute = path if path.is_absolute() else Path.cwd() / path
    pending = list(reversed(absolute.parts[1:]))
    folder = _top(absolute.anchor)
    followed = 0
    try:
        while pending:
            name = pending.pop()
            status = folder.status(name)
            if status is None or not stat.S_ISLNK(status.st_mode):
                folder = folder.move_to(folder.below(name))
                continue
            followed += 1
            if followed > _MAX_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
            target = folder.own_link(name, status)
            if target.is_absolute():
                folder = folder.move_to(_top(target.anchor))
            pending += reversed(target.parts[target.is_absolute() :])
    except BaseException:
        folder.close()
        raise
    folder.path = path
    return folder


def _top(anchor: str) -> TargetFolder:
    descriptor = os.open(anchor, _PATH_ONLY | _FOLDER) if _HAS_DESCRIPTORS else None
    return TargetFolder(Path(anchor), descriptor)


def _is_link(path: Path) -> Refused:
    return Refused(
        f"{path} is a link, which memvault does not follow here",
        "replace it with a regular folder",
    )


def _is_file(path: Path) -> Refused:
    return Refused(f"{path} is a file where a folder should be", "rename that file")
