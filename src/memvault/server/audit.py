"""The audit log of the HTTP server: one line of JSON for each request to a vault.

A line contains the token, its agent, the vault, the tool or method, the outcome and the duration.
It never contains an argument or a result.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Hashable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext

from memvault import clock, sanitize
from memvault.errors import StorageError, UsageError
from memvault.files.user_folders import is_owned
from memvault.named_tuple import NamedTuple
from memvault.tools.core import registry

OK = "ok"
_APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0)
_MIN_PAUSE, _MAX_PAUSE = 1.0, 60.0
"""Minimum and maximum seconds between two log lines of the same kind."""
Kind = TypeVar("Kind", bound=Hashable)
_UNLOGGED_METHODS = frozenset(("initialize", "ping", "server/discover", "logging/setLevel"))
"""Methods that do not access a vault, and so are not logged."""
_LOGGED_METHODS = frozenset(
    (
        *("tools/list", "tools/call", "prompts/list", "prompts/get", "completion/complete"),
        *("resources/list", "resources/templates/list", "resources/read"),
        *("resources/subscribe", "resources/unsubscribe", "subscriptions/listen"),
    )
)
"""Methods that access a vault, logged by name; any other method is logged as ``unknown``."""


class AuditRecord(NamedTuple):
    """A line of the audit log.

    Unknown fields are empty, for example if the gateway refused the request. ``tool`` is the tool's
    name, or the method of any other request.
    """

    token: str
    agent: str
    vault: str
    tool: str
    outcome: str
    ms: int


@dataclass
class _RepeatCount:
    """When the last line of one kind was written, the pause after it, and the lines since.

    ``written`` is a monotonic time in seconds, ``pause`` a duration in seconds.
    """

    written: float
    pause: float
    unwritten: int = 0


class RepeatLimiter(Generic[Kind]):
    """Limits the rate of log lines that clients trigger.

    The first line of a kind is written immediately. Further lines of that kind are only counted,
    and ``write`` is called with the count: first after one second, then after pauses that double up
    to a minute, until no more arrive. It can be used from several threads.
    """

    def __init__(self, write: Callable[[Kind, int], None]) -> None:
        self._write = write
        self._lock = threading.Lock()
        self._seen: dict[Kind, _RepeatCount] = {}

    def note(self, kind: Kind) -> None:
        """Write the first line of a kind, or count a further one."""
        with self._lock:
            if kind in self._seen:
                self._seen[kind].unwritten += 1
                return
            self._seen[kind] = _RepeatCount(time.monotonic(), _MIN_PAUSE)
            self._write(kind, 1)

    def flush(self, is_end: bool = False) -> None:
        """Write the counts whose pause has passed, or all of them at the end."""
        now = time.monotonic()
        with self._lock:
            for kind, seen in list(self._seen.items()):
                if now - seen.written < seen.pause and not is_end:
                    continue
                if seen.unwritten:
                    self._write(kind, seen.unwritten)
                    self._seen[kind] = _RepeatCount(now, min(2 * seen.pause, _MAX_PAUSE))
                else:
                    del self._seen[kind]


class RepeatLimitingHandler(logging.Handler):
    """A logging handler that writes warnings of libraries to standard error.

    Repeated messages from the same line of code are counted instead of written.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._texts: dict[tuple[str, int], str] = {}
        self._repeats = RepeatLimiter(self._print)

    def emit(self, record: logging.LogRecord) -> None:
        """Write a message, or count it if the same line of code logged one recently."""
        location = record.pathname, record.lineno
        self._texts[location] = self.format(record)
        self._repeats.note(location)

    def summarize(self, is_end: bool = False) -> None:
        """Write the numbers of messages that were only counted."""
        self._repeats.flush(is_end)

    def _print(self, location: tuple[str, int], times: int) -> None:
        first, *rest = self._texts[location].splitlines() or [""]
        if times > 1:
            first, rest = f"{first} ({times:,} times)", []
        print(
            *map(sanitize.escape_line, (f"note: {first}", *rest)),
            sep="\n",
            file=sys.stderr,
            flush=True,
        )


class AuditLog:
    """The audit log, which is appended to a file or, without one, written to standard error.

    Raises:
        StorageError: the file cannot be written.
    """

    def __init__(self, file: str) -> None:
        self._lock = threading.Lock()
        self._refusals = RepeatLimiter(self.note)
        self._file = Path(file).expanduser() if file else None
        if self._file is not None:
            try:
                os.close(self._open(self._file))
            except OSError as error:
                raise StorageError(
                    f"The audit file {file} cannot be written: {error.strerror}",
                    "use `--audit FILE` with another file",
                ) from error

    def note(self, entry: AuditRecord, times: int = 1) -> None:
        """Write a line; if the file cannot be written, write it to standard error."""
        extra = {"times": times} if times > 1 else {}
        line = json.dumps({"when": clock.iso(), **entry._asdict(), **extra})
        with self._lock:
            try:
                if self._file is not None:
                    self._append(self._file, f"{line}\n".encode())
                    return
            except OSError as error:
                print(f"note: the audit log cannot be written: {error.strerror}", file=sys.stderr)
            print(sanitize.escape_line(line), file=sys.stderr, flush=True)

    def note_refused(self, entry: AuditRecord) -> None:
        """Write a line for a request that the gateway refused, or count it."""
        self._refusals.note(entry)

    def flush(self, is_end: bool = False) -> None:
        """Write the counts of refusals whose pause has passed, or all of them at the end."""
        self._refusals.flush(is_end)

    def _append(self, file: Path, line: bytes) -> None:
        descriptor = self._open(file)  # Opened on each write, because log rotation moves the file.
        try:
            os.write(descriptor, line)
        finally:
            os.close(descriptor)

    @staticmethod
    def _open(file: Path) -> int:
        try:
            return os.open(file, _APPEND | getattr(os, "O_NOFOLLOW", 0), 0o600)
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
            status = os.lstat(file)
            if status.st_uid != 0 and not is_owned(status):  # /dev/stderr is a link owned by root.
                raise OSError(errno.ELOOP, "it is a symbolic link owned by another user") from error
        return os.open(file, _APPEND, 0o600)


class AuditMiddleware:
    """A middleware of the SDK's server that logs one token's requests to one vault."""

    def __init__(self, audit: AuditLog, token: str, agent: str, vault: str) -> None:
        self._audit = audit
        self._identity = (token, agent, vault)

    async def __call__(
        self, ctx: ServerRequestContext[Any, Any], call_next: CallNext
    ) -> HandlerResult:
        """Handle a request, and write its line of the audit log."""
        if ctx.request_id is None or ctx.method in _UNLOGGED_METHODS:
            return await call_next(ctx)
        started = time.monotonic()
        outcome, vault = "failed", self._identity[2]
        try:
            result = await call_next(ctx)
            outcome, vault = _outcome(result), _vault(result, vault)
            return result
        finally:
            elapsed_ms = round((time.monotonic() - started) * 1000)
            tool = _logged_name(ctx.method, ctx.params or {})
            self._audit.note(AuditRecord(*self._identity[:2], vault, tool, outcome, elapsed_ms))


def _logged_name(method: str, params: Mapping[str, Any]) -> str:
    """Return the tool's name, or the method; names invented by a client become ``unknown``."""
    if method != "tools/call":
        return method if method in _LOGGED_METHODS else "unknown"
    return _tool_name(params.get("name"), params.get("arguments"))


def _tool_name(name: Any, arguments: Any) -> str:
    tool = registry.lookup(name) if isinstance(name, str) else None
    if tool is None:
        return "unknown"
    if tool.name != "call_tool":
        return tool.name
    inner = None
    if isinstance(arguments, Mapping):
        with suppress(UsageError):
            inner = tool.by_name(arguments, []).get("tool_name")  # Accepts any spelling of the key.
    return f"{tool.name}:{_tool_name(inner, None)}"


def _outcome(result: Any) -> str:
    content = _structured(result)
    error = content.get("error")
    if content.get("success") is not False or error is None:
        return OK
    return str((error if isinstance(error, Mapping) else content).get("code", "failed"))


def _vault(result: Any, default: str) -> str:
    """Return the vault in which a tool ran, which differs for a memory in another vault."""
    content = _structured(result)
    called = content.get("result")  # The result of call_tool.
    vault = (called if isinstance(called, Mapping) else content).get("vault")
    return vault if isinstance(vault, str) else default


def _structured(result: Any) -> Mapping[str, Any]:
    content = result.get("structuredContent") if isinstance(result, Mapping) else None
    return content if isinstance(content, Mapping) else {}
