"""Read an untrusted source in a process with limits.

Files may be crafted to exhaust memory or time, so a worker process parses them and sends plain
values. A message is length-prefixed JSON, followed by the bytes of a file if it has one. If the
worker exceeds a limit, the current file is skipped and a new worker reads the others; items already
received are kept.
"""

from __future__ import annotations

import contextlib
import json
import queue
import signal
import struct
import sys
import threading
import time
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING, Any, get_args

from memvault import process
from memvault.errors import MemvaultError, UsageError
from memvault.importers import detection, formats, records
from memvault.importers.archives import open_source
from memvault.importers.items import (
    Attachment,
    GivenBytes,
    ImportedNote,
    Item,
    SkippedItem,
    StoredBytes,
    VaultFile,
)
from memvault.importers.source import MAX_FILE, Source
from memvault.named_tuple import NamedTuple

if TYPE_CHECKING:
    from memvault.process import Worker

MEMORY = 2 << 30
"""Maximum address space of the worker in bytes; macOS and Windows do not enforce it."""
_MAX_WRITTEN = 1 << 30
"""Maximum size in bytes of a file that the worker writes, such as an unpacked database."""
SILENCE = 120
"""Maximum time between two messages of the worker, in seconds."""
_BEAT = 1.0
"""Seconds between two messages while the worker reads without producing items."""
_MAX_MESSAGE = 16 * MAX_FILE
_MAX_GROWTH, _MIN_GROWN = 50, 256 << 20
"""Limits of the items' total size: a multiple of the bytes read, and a minimum in bytes."""
_MIN_ITEM, _MIN_ITEMS = 16, 10_000
"""Limit on items: one for every ``_MIN_ITEM`` bytes read, one per file, and ``_MIN_ITEMS``."""
_QUEUED = 64
_PAUSE = 0.01
_HEAD = struct.Struct(">II")


_ITEMS: dict[str, Any] = {kind.__name__: kind for kind in get_args(Item)}


class ReaderMessage(NamedTuple):
    """A message with values and bytes."""

    name: str
    values: list[Any]
    data: bytes = b""


def _of_item(item: Item) -> ReaderMessage:
    fields, data = item._asdict(), b""
    if isinstance(item, ImportedNote):
        fields["header"] = dict(item.header)
    elif isinstance(item, Attachment | VaultFile):
        fields["read"] = item.read.name if isinstance(item.read, StoredBytes) else ""
        data = b"" if fields["read"] else item.read()
    return ReaderMessage(type(item).__name__, [fields], data)


def _item_of(message: ReaderMessage, source: Source) -> Any:
    (fields,) = message.values
    if "read" in fields:
        name = fields["read"]
        fields["read"] = StoredBytes(source.read, name) if name else GivenBytes(message.data)
    if "refs" in fields:
        fields["refs"] = tuple(fields["refs"])
    return _ITEMS[message.name](**fields)


def encoded(item: Item) -> bytes:
    """Return the bytes that are sent for an item."""
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
    """Return the next message; None at the end or for an invalid message."""
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
    """Reads a source in a worker process, which is started on demand."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._process: Worker | None = None
        self._messages: queue.Queue[ReaderMessage | None] = queue.Queue(_QUEUED)
        self._receiver: threading.Thread | None = None

    def detect(self) -> detection.Detection:
        """Detect the format of the source, and how many of its notes the format claims.

        Raises:
            UsageError: if no format fits, or several do.
        """
        for message in self._answers("recognize"):
            if message.name == "kind":
                name, covered, total = message.values
                return detection.Detection(formats.find_format(name), covered, total)
        reason = f"Detecting the format of {self.source.path} exceeded a resource limit"
        raise UsageError(reason, "pass `--from KIND`")

    def read(self, kind: formats.ImportFormat) -> Iterator[Item]:
        """Yield the items of a source, as ``ImportFormat.read``."""
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
            reason = f"{formats.REST}: time or memory limit exceeded"
            yield SkippedItem(current or self.source.label, reason)
            left_out.append(current)
            if not current or len(left_out) >= formats.MAX_RESTARTS:
                return
            seen.restart()

    def close(self) -> None:
        """Stop the worker, even while it is busy."""
        if self._process is not None:
            self._process.terminate()  # the worker has no signal handlers
            self._process.wait()
        while self._receiver is not None and self._receiver.is_alive():
            # The receiving thread may be blocked by a full queue.
            with contextlib.suppress(queue.Empty):
                self._messages.get(timeout=_PAUSE)
        if self._process is not None:
            for pipe in (self._process.stdin, self._process.stdout):
                with contextlib.suppress(OSError):
                    if pipe is not None:
                        pipe.close()
            self._process = None

    def _answers(self, *request: object) -> Iterator[ReaderMessage]:
        """Yield the replies to a request, until the last one or until the worker exits.

        Raises:
            UsageError: if the worker reports a user error.
        """
        worker = self._start()
        assert worker.stdin is not None
        with contextlib.suppress(OSError):  # the worker has exited, so there will be no reply
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
    """Put the messages of a worker into a queue, and None at the end."""
    with contextlib.suppress(OSError, ValueError):
        while (message := _read(stream)) is not None:
            messages.put(message)
    messages.put(None)


class _TooMuch(Exception):
    """A source expands beyond the import limit."""


class _Sender:
    """Sends the items and the progress of this process."""

    def __init__(self, source: Source, stream: IO[bytes]) -> None:
        self._source = source
        self._stream = stream
        self._current = ""
        self._last = 0.0
        self._sent = self._items = 0
        source.tick = self.tick

    def tick(self) -> None:
        """Report the current file if it has changed or no message was sent recently."""
        if self._source.current != self._current or time.monotonic() - self._last > _BEAT:
            self._current = self._source.current
            self.send(ReaderMessage("at", [self._current]))

    def send(self, message: ReaderMessage) -> None:
        """Send a message."""
        self._sent += _write(self._stream, message)
        self._last = time.monotonic()

    def send_item(self, item: Item) -> None:
        """Send an item; raises ``_TooMuch`` beyond the limits."""
        try:
            message = _of_item(item)
        except (OSError, ValueError) as error:
            message = _of_item(SkippedItem(getattr(item, "path", ""), records.reason_for(error)))
        self.send(message)
        self._items += 1
        read = self._source.opened_bytes
        most = _MIN_ITEMS + len(self._source.names) + read // _MIN_ITEM
        if self._sent > max(_MIN_GROWN, _MAX_GROWTH * read) or self._items > most:
            raise _TooMuch(
                f"{formats.REST}: {read:,} bytes expand to {self._items:,} items "
                f"({self._sent >> 20:,} MB), beyond the import limit"
            )


def limit() -> None:
    """Limit the memory, file size and time of this process, where the system supports it."""
    records.limit_time()
    if sys.platform == "win32":
        return
    import resource

    for kind, most in (("AS", MEMORY), ("FSIZE", _MAX_WRITTEN), ("CORE", 0)):
        with contextlib.suppress(OSError, ValueError):  # not supported, as on macOS
            number = getattr(resource, f"RLIMIT_{kind}")
            _, hard = resource.getrlimit(number)
            most = most if hard == resource.RLIM_INFINITY else min(most, hard)
            resource.setrlimit(number, (most, most))


def serve(requests: IO[bytes], results: IO[bytes]) -> None:
    """Answer requests; the first line is the source's path."""
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
        sender.send(_of_item(SkippedItem(source.current or source.label, str(error))))
    sender.send(ReaderMessage("end", []))


def main() -> None:
    """Serve the parent process, which handles Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    limit()
    with contextlib.suppress(BrokenPipeError):
        serve(sys.stdin.buffer, process.claimed_output())


if __name__ == "__main__":
    main()
