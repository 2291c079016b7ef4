"""Read documents as markdown: a heading and the text for each page or section.

A separate process parses the files, because they may be crafted to exhaust memory or time. Texts
are cached by the content of the file, so an unchanged document is parsed only once.
"""

from __future__ import annotations

import contextlib
import json
import os
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from memvault.errors import MemvaultError, StorageError
from memvault.files import atomic, plain_files
from memvault.files.user_folders import UNREAD_DOCUMENTS
from memvault.named_tuple import NamedTuple

if TYPE_CHECKING:
    from memvault.process import Worker
    from memvault.settings.vault_settings import Settings

VERSION = 2
"""Increment this and the index's ``_FORMAT`` when the conversion of documents changes."""
SECONDS = 10
"""Maximum CPU time for one document in seconds; Windows limits only elapsed time."""
MEMORY = 500 << 20
"""Maximum address space of the process in bytes; macOS and Windows do not enforce it."""
REQUEST, REPLY = struct.Struct(">HHQ"), struct.Struct(">?Q")
_WALL_SECONDS = 10 if sys.platform == "win32" else 60
_WORKER = "memvault.documents.worker"
"""The module of the parser process, not imported here because it is in a higher layer."""
_LIBRARY = "pypdfium2"
_FOLDER = f"documents-{VERSION}"
_KEPT_DAYS, _DAY = 30, 86_400.0
_RETRY_SECONDS = 600.0
_REST_SECONDS = 60.0
_DUE, _LATE, _READ = "due", "late", "read"
"""States of a document: will be retried, not retried because reading takes too long, and read."""
_NOT_STARTED = b"the parser process cannot be started"


class _Reply(NamedTuple):
    """A document's text, or the reason it has none; ``is_final`` if retrying would not help.

    With ``is_due``, the document is read again later, because the process could not start or was
    killed by another process.
    """

    is_read: bool
    content: bytes
    is_final: bool = True
    is_due: bool = False


class DocumentReader:
    """Reads the documents of one vault.

    ``find_folder`` returns the folder of the vault's index, which contains the cache, or None.
    """

    def __init__(
        self, root: Path, settings: Settings, find_folder: Callable[[], Path | None]
    ) -> None:
        self._root = root
        self._settings = settings
        self._find_folder = find_folder
        self._worker: Worker | None = None
        self._lock = threading.Lock()
        self._unusable: tuple[float, _Reply] | None = None
        """When the process last failed to start, and the reply."""
        self._has_cleaned = False

    @cached_property
    def is_on(self) -> bool:
        """Whether the extra is installed, and the settings do not disable documents."""
        from importlib.machinery import PathFinder

        return self._settings.documents.index and PathFinder.find_spec(_LIBRARY) is not None

    def read(self, path: str) -> bytes:
        """Return a document as the bytes of a markdown file.

        Raises:
            FileNotFoundError: there is no regular file at that path.
            StorageError: the file cannot be read.
        """
        most = self._settings.documents.megabytes << 20
        with atomic.map_os_errors(path):
            if os.lstat(self._root / path).st_size > most:
                raise StorageError(
                    f"The document is larger than {most >> 20} MB: {path}",
                    "raise `megabytes` under [documents] in memvault.toml, or add the file to "
                    "`ignore`",
                )
            data = plain_files.read(self._root / path, most)
        reply = self._reply(path[path.rfind(".") :].lower(), data)
        if not reply.is_read:
            if not reply.is_final:
                self._list(path, _DUE if reply.is_due else _LATE)
            reason = reply.content.decode("utf-8", "replace")
            raise StorageError(
                f"The document cannot be read because {reason}: {path}",
                "open it in another program, or add it to `ignore` in memvault.toml",
            )
        return reply.content

    def confirm(self, path: str) -> None:
        """Record that a document was read, so that an index that could not read it retries."""
        if self._listed().get(path, _READ) != _READ:
            self._list(path, _READ)

    def due(self) -> frozenset[str]:
        """Return the documents to read again.

        These are the documents that have since been read for another purpose and, at most every
        ten minutes, those that were not read because the process could not start or was killed.
        """
        with contextlib.suppress(OSError):
            file = self._list_file
            if file is None:
                return frozenset()
            is_time = time.time() - file.stat().st_mtime > _RETRY_SECONDS
            if is_time:
                os.utime(file)
            listed = self._listed()
            now = {path for path, state in listed.items() if state == _READ}
            if is_time:
                now |= {path for path, state in listed.items() if state == _DUE}
            if is_time or now:
                self._set_listed({**listed, **dict.fromkeys(now, _DUE)})  # Each is listed once.
            return frozenset(now)
        return frozenset()

    def settle(self, paths: Iterable[str]) -> None:
        """Forget documents that need not be read again."""
        if settled := frozenset(paths):
            listed = self._listed()
            self._set_listed({path: listed[path] for path in listed.keys() - settled})

    @property
    def _list_file(self) -> Path | None:
        folder = self._find_folder()
        return folder / UNREAD_DOCUMENTS if folder is not None else None

    def _listed(self) -> dict[str, str]:
        """Return the state of each document that an index may lack, by path."""
        file = self._list_file
        with contextlib.suppress(OSError, ValueError, TypeError):
            if file is not None:
                lines = plain_files.read(file).splitlines()
                return {str(path): str(state) for path, state in map(json.loads, lines)}
        return {}

    def _list(self, path: str, state: str) -> None:
        file = self._list_file
        with contextlib.suppress(OSError, MemvaultError):
            if file is not None:
                atomic.append_line(file, json.dumps([path, state]).encode())

    def _set_listed(self, listed: Mapping[str, str]) -> None:
        file = self._list_file
        with contextlib.suppress(OSError, MemvaultError):  # then they are not read again
            if file is not None and listed:
                written = "".join(f"{json.dumps(entry)}\n" for entry in sorted(listed.items()))
                atomic.write(file, written.encode(), durable=False)
            elif file is not None:
                file.unlink()

    def close(self) -> None:
        """Stop the process, even while it is busy."""
        worker, self._worker = self._worker, None
        if worker is not None:
            from memvault import process

            process.end_worker(worker)

    def _reply(self, ending: str, data: bytes) -> _Reply:
        """Return the cached reply for a document, or parse it."""
        encoding = self._settings.encoding
        key = plain_files.digest_of(f"{ending}\0{encoding}\0".encode() + data, 16).hex()
        folder = self._find_folder()
        file = folder / _FOLDER / key if folder is not None else None
        if file is not None:
            with contextlib.suppress(OSError):
                cached = plain_files.read(file)
                if cached[:1] in (b"+", b"-"):
                    _mark_used(file)
                    return _Reply(cached[:1] == b"+", cached[1:])
        with self._lock:
            reply = self._ask(ending, encoding, data)
        if file is not None and reply.is_final:
            with contextlib.suppress(OSError, MemvaultError):  # then it is not cached
                self._store(file, (b"+" if reply.is_read else b"-") + reply.content)
        return reply

    def _store(self, file: Path, content: bytes) -> None:
        file.parent.mkdir(mode=0o700, exist_ok=True)
        atomic.write(file, content, durable=False)
        if not self._has_cleaned:
            self._has_cleaned = True
            for other in file.parent.iterdir():
                if time.time() - other.stat().st_mtime > _KEPT_DAYS * _DAY:
                    other.unlink(missing_ok=True)

    def _ask(self, ending: str, encoding: str, data: bytes) -> _Reply:
        """Parse a document in the process, which is replaced after it exceeds a limit."""
        if self._unusable is not None and time.monotonic() - self._unusable[0] < _REST_SECONDS:
            return self._unusable[1]
        reply = self._parsed(ending, encoding, data)
        is_unusable = not reply.is_final and reply.content.startswith(_NOT_STARTED)
        self._unusable = (time.monotonic(), reply) if is_unusable else None
        return reply

    def _parsed(self, ending: str, encoding: str, data: bytes) -> _Reply:
        try:
            worker = self._started()
        except OSError as error:
            return _Reply(False, _NOT_STARTED + f": {error}".encode(), False, True)
        assert worker.stdin is not None
        assert worker.stdout is not None
        is_late = threading.Event()

        def stop() -> None:
            is_late.set()
            worker.kill()

        timer = threading.Timer(_WALL_SECONDS, stop)
        timer.start()
        head = content = b""
        try:
            names = ending.encode(), encoding.encode()
            worker.stdin.write(REQUEST.pack(*map(len, names), len(data)) + b"".join(names))
            worker.stdin.write(data)
            worker.stdin.flush()
            head = worker.stdout.read(REPLY.size)
            is_read, length = REPLY.unpack(head) if len(head) == REPLY.size else (False, 0)
            content = worker.stdout.read(length)
            if len(head) == REPLY.size and len(content) == length:
                return _Reply(is_read, content)
        except OSError:
            pass  # the process has ended
        except BaseException:
            self.close()
            raise
        finally:
            timer.cancel()
        worker.wait()
        code = worker.returncode
        self.close()
        return _failure(code, is_late.is_set())

    def _started(self) -> Worker:
        if self._worker is not None and self._worker.poll() is not None:
            self.close()  # it was killed after the last document
        if self._worker is None:
            from memvault import process

            self._worker = process.start_worker(
                [sys.executable, "-P", "-m", _WORKER], process.environment(self._root)
            )
        return self._worker


def _mark_used(file: Path) -> None:
    """Update a cached text's modification time, once a day at most, so it is not deleted."""
    if time.time() - file.stat().st_mtime > _DAY:
        os.utime(file)


def _failure(code: int, is_late: bool) -> _Reply:
    """Return the reply for a process that has exited with a code instead of answering."""
    import signal

    if code == 1 and not is_late:
        return _Reply(False, _NOT_STARTED, False, True)
    if is_late:
        reason = f"reading it takes more than {_WALL_SECONDS} seconds"
    elif code == -getattr(signal, "SIGXCPU", 0):
        reason = f"reading it takes more than {SECONDS} seconds of CPU time"
    else:
        reason = f"the parser failed or needed more than {MEMORY >> 20} MB of memory"
    others = (getattr(signal, name, 0) for name in ("SIGKILL", "SIGTERM", "SIGHUP", "SIGQUIT"))
    is_ended_by_others = -code in filter(None, others) and not is_late
    return _Reply(False, reason.encode(), not (is_late or is_ended_by_others), is_ended_by_others)
