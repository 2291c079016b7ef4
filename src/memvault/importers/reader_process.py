"""The process that reads a source which may come from a stranger, and the one that starts it.

Parsers of a dozen formats meet files made to exhaust memory or time. They run in a process with
limits, which sends plain values: a message is JSON with a length before it, and the bytes of a
file, if it has some. If it exceeds a limit, the file that it was reading is left out and a new
process reads the others; what was read before counts.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import struct
import sys
import threading
import time
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from memvault import process
from memvault.errors import MemvaultError, UsageError
from memvault.importers import detection, formats, records
from memvault.importers.archives import open_source
from memvault.importers.items import (
    Attachment,
    GivenBytes,
    ImportedNote,
    Item,
    ItemWarning,
    SkippedItem,
    StoredBytes,
    TypeCount,
    VaultFile,
)
from memvault.importers.source import MAX_FILE, Source

if TYPE_CHECKING:
    from memvault.process import Worker

MEMORY = 2 << 30
"""Bytes of address space that the process may use; macOS and Windows do not enforce this."""
_MAX_WRITTEN = 1 << 30
"""Maximum size in bytes of a file that it writes, such as a database unpacked from a zip."""
SILENCE = 120
"""Seconds in which it has to send something, while the other process waits for it."""
_BEAT = 1.0
"""Seconds between two messages while it reads without finding anything."""
_MAX_MESSAGE = 16 * MAX_FILE
_MAX_GROWTH, _MIN_GROWN = 50, 256 << 20
"""Maximum size of the items: this many times the bytes read, or this many bytes if that is more."""
_MIN_ITEM, _MIN_ITEMS = 16, 10_000
"""Minimum bytes of the source per item, once there are more items than this."""
_QUEUED = 64
_PAUSE = 0.01
_HEAD = struct.Struct(">II")


_PLAIN: dict[str, type[SkippedItem | ItemWarning | TypeCount]] = {
    "unreadable": SkippedItem,
    "noted": ItemWarning,
    "counted": TypeCount,
}
"""The items whose messages are their values."""


class ReaderMessage(NamedTuple):
    """A message: its name, its values, and bytes."""

    name: str
    values: list[Any]
    data: bytes = b""


def _of_item(item: Item) -> ReaderMessage:
    if isinstance(item, ImportedNote):
        return ReaderMessage("note", [*item[:3], dict(item.header), item.refs, item.masked])
    for name, of_kind in _PLAIN.items():
        if isinstance(item, of_kind):
            return ReaderMessage(name, list(item))
    assert isinstance(item, Attachment | VaultFile)
    name = item.read.name if isinstance(item.read, StoredBytes) else ""
    kind, refs = ("attachment", item.refs) if isinstance(item, Attachment) else ("file", ())
    return ReaderMessage(kind, [item.path, name, refs], b"" if name else item.read())


def _item_of(message: ReaderMessage, source: Source) -> Item:
    values = message.values
    if message.name == "note":
        key, path, text, header, refs, masked = values
        return ImportedNote(key, path, text, header, tuple(refs), masked)
    if message.name in _PLAIN:
        return _PLAIN[message.name](*values)
    path, name, refs = values
    read = StoredBytes(source.read, name) if name else GivenBytes(message.data)
    return (
        Attachment(path, read, tuple(refs))
        if message.name == "attachment"
        else VaultFile(path, read)
    )


def encoded(item: Item) -> bytes:
    """Return an item as it is sent."""
    message = _of_item(item)
    return _head(message) + message.data


def _head(message: ReaderMessage) -> bytes:
    return json.dumps([message.name, message.values], default=str).encode()


def _write(stream: IO[bytes], message: ReaderMessage) -> int:
    head = _head(message)
    stream.write(_HEAD.pack(len(head), len(message.data)))
    stream.write(head)
    stream.write(message.data)
    stream.flush()
    return len(head) + len(message.data)


def _read(stream: IO[bytes]) -> ReaderMessage | None:
    """Return the next message; None at the end, or if it is none."""
    start = stream.read(_HEAD.size)
    if len(start) < _HEAD.size:
        return None
    lengths = _HEAD.unpack(start)
    if sum(lengths) > _MAX_MESSAGE:
        return None
    head, data = (stream.read(length) for length in lengths)
    if len(head) + len(data) < sum(lengths):
        return None
    name, values = json.loads(head)
    return ReaderMessage(name, values, data)


class SourceReader:
    """Reads a source in a process with limits, which is started when it is needed."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._process: Worker | None = None
        self._messages: queue.Queue[ReaderMessage | None] = queue.Queue(_QUEUED)
        self._receiver: threading.Thread | None = None

    @property
    def process_id(self) -> int:
        """The id of the process; 0 if there is none."""
        return self._process.pid if self._process is not None else 0

    def detect(self) -> detection.Detection:
        """Return the kind of the source, and how much of it the kind claims.

        Raises:
            UsageError: no kind or several fit; the message lists those.
        """
        for message in self._answers("recognize"):
            if message.name == "kind":
                name, covered, total = message.values
                return detection.Detection(formats.find_format(name), covered, total)
        hint = "pass --from KIND"
        raise UsageError(f"Detecting the kind of {self.source.path} hit a resource limit", hint)

    def read(self, kind: formats.ImportFormat) -> Iterator[Item]:
        """Yield what a source of a kind holds, as ``Kind.read``."""
        seen, left_out = formats.SeenItems(), list[str]()
        while True:
            current, is_complete = "", False
            for message in self._answers("read", kind.name, *left_out):
                if message.name == "at":
                    current = message.values[0]
                elif message.name == "end":
                    is_complete = True
                else:
                    item = _item_of(message, self.source)
                    if seen.is_new(item):
                        yield item
            if is_complete:
                return
            reason = f"{formats.REST}: it exceeded the time or memory limit"
            yield SkippedItem(current or self.source.label, reason)
            left_out.append(current)
            if not current or len(left_out) >= formats.MAX_RESTARTS:
                return
            seen.restart()

    def close(self) -> None:
        """Kill the process, even while it works."""
        if self._process is not None:
            self._process.terminate()  # it handles no signal, whatever it does
            self._process.wait()
        while self._receiver is not None and self._receiver.is_alive():
            with contextlib.suppress(queue.Empty):  # it may wait for room
                self._messages.get(timeout=_PAUSE)
        if self._process is not None:
            for pipe in (self._process.stdin, self._process.stdout):
                with contextlib.suppress(OSError):
                    if pipe is not None:
                        pipe.close()
            self._process = None

    def _answers(self, *request: object) -> Iterator[ReaderMessage]:
        """Yield the replies to a request until the last one or until the process exits.

        Raises:
            UsageError: the process reports an error of the user.
        """
        worker = self._start()
        assert worker.stdin is not None
        with contextlib.suppress(OSError):  # it has ended, as the missing answer shows
            worker.stdin.write(json.dumps(request).encode() + b"\n")
            worker.stdin.flush()
        is_whole = False
        try:
            while (message := self._next()) is not None:
                if message.name == "error":
                    raise UsageError(*message.values)
                is_whole = message.name in ("kind", "end")
                yield message
                if is_whole:
                    return
        finally:
            if not is_whole:
                self.close()

    def _next(self) -> ReaderMessage | None:
        with contextlib.suppress(queue.Empty):
            return self._messages.get(timeout=SILENCE)
        return None

    def _start(self) -> Worker:
        if self._process is not None:
            return self._process
        self._process = process.start_worker(
            [sys.executable, "-P", "-m", "memvault.importers.reader_process"],
            process.environment(self.source.path),
        )
        self._messages = queue.Queue(_QUEUED)
        arguments = self._process.stdout, self._messages
        self._receiver = threading.Thread(target=_receive, args=arguments, daemon=True)
        self._receiver.start()
        with contextlib.suppress(OSError):
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps(str(self.source.path)).encode() + b"\n")
        return self._process


def _receive(stream: IO[bytes], messages: queue.Queue[ReaderMessage | None]) -> None:
    """Put the messages of a process into a queue, and None at the end."""
    with contextlib.suppress(OSError, ValueError):
        while (message := _read(stream)) is not None:
            messages.put(message)
    messages.put(None)


class _TooMuch(Exception):
    """A source expanded to more than the import limit; the message has the figures."""


class _Sender:
    """Sends messages of this process, and progress while it reads."""

    def __init__(self, source: Source, stream: IO[bytes]) -> None:
        self._source = source
        self._stream = stream
        self._current = ""
        self._last = 0.0
        self._sent = self._items = 0
        source.tick = self.tick

    def tick(self) -> None:
        """Report the current file if it has changed or some time has passed."""
        if self._source.current != self._current or time.monotonic() - self._last > _BEAT:
            self._current = self._source.current
            self.send(ReaderMessage("at", [self._current]))

    def send(self, message: ReaderMessage) -> None:
        """Send a message."""
        self._sent += _write(self._stream, message)
        self._last = time.monotonic()

    def send_item(self, item: Item) -> None:
        """Send an item; raises ``_TooMuch`` if there were too many before, or too large ones."""
        try:
            message = _of_item(item)
        except (OSError, ValueError) as error:
            message = ReaderMessage(
                "unreadable", [getattr(item, "path", ""), records.reason_for(error)]
            )
        self.send(message)
        self._items += 1
        read = self._source.opened_bytes
        most = _MIN_ITEMS + len(self._source.names) + read // _MIN_ITEM
        if self._sent > max(_MIN_GROWN, _MAX_GROWTH * read) or self._items > most:
            raise _TooMuch(
                f"{formats.REST}: {read:,} bytes expanded to {self._items:,} notes and files "
                f"({self._sent >> 20:,} MB), over the import limit"
            )


def limit() -> None:
    """Limit the memory, the files and the time of this process; raises nothing."""
    records.limit_time()
    if sys.platform == "win32":
        return
    import resource

    for kind, most in (("AS", MEMORY), ("FSIZE", _MAX_WRITTEN), ("CORE", 0)):
        with contextlib.suppress(OSError, ValueError):  # as on macOS
            number = getattr(resource, f"RLIMIT_{kind}")
            _, hard = resource.getrlimit(number)
            most = most if hard == resource.RLIM_INFINITY else min(most, hard)
            resource.setrlimit(number, (most, most))


def serve(requests: IO[bytes], results: IO[bytes]) -> None:
    """Answer requests until they end: the first line is the path of the source."""
    path = json.loads(requests.readline())
    for line in requests:
        try:
            with contextlib.closing(open_source(path)) as source:
                _answer(source, _Sender(source, results), *json.loads(line))
        except MemvaultError as error:
            _write(results, ReaderMessage("error", [error.message, error.hint]))


def _answer(source: Source, sender: _Sender, action: str, name: str = "", *left_out: str) -> None:
    if action == "recognize":
        kind, covered, total = detection.detect(source)
        sender.send(ReaderMessage("kind", [kind.name, covered, total]))
        return
    for file in left_out:
        source.leave_out(file)
    try:
        for item in formats.find_format(name).read(source):
            sender.send_item(item)
    except _TooMuch as error:
        sender.send(ReaderMessage("unreadable", [source.current or source.label, str(error)]))
    sender.send(ReaderMessage("end", []))


def main() -> None:
    """Serve the process that has started this one; a Ctrl-C is its to answer."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    limit()
    results = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no result
    with contextlib.suppress(BrokenPipeError):
        serve(sys.stdin.buffer, results)


if __name__ == "__main__":
    main()
