"""Search of episodes, facts and procedures; their provenance, and counts of their recalls.

The recall engine finds them, restricted to their type. Memories with ``status: archived`` in their
header are excluded here, but not from plain recall; those with ``status: example`` are excluded
from both.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple

from memvault import clock
from memvault.errors import MemvaultError, UsageError
from memvault.files import atomic, plain_files
from memvault.files.lock import FileLock
from memvault.files.plain_files import STATE
from memvault.lazy_pattern import lazy_pattern
from memvault.model import Memory, is_example
from memvault.store.memory_store import MemoryStore
from memvault.vault.paths import existing_private, private_folder

if TYPE_CHECKING:
    from memvault.index.protocol import MemoryRecord
    from memvault.recall.answer import RecallAnswer, RecallResult
    from memvault.recall.filters import Filters
    from memvault.recall.recall_engine import RecallEngine


_COUNTS_FILE = "access.json"
_RECENT_FILE = "access.jsonl"
_LOCK_FILE = "access.lock"
_MAX_RECENT_BYTES = 64 * 1024
"""Maximum number of bytes of recent recalls before they are added to the counts."""
_MAX_COUNTED = 50_000
"""Maximum number of memories with counts, those recalled last.

This keeps their file far below the maximum size.
"""
_RETENTION = timedelta(days=90)
"""How long counts of missing memories are kept: they may be in the trash or on another branch."""

Counts = dict[str, dict[str, Any]]


def counts(root: Path) -> dict[str, int]:
    """Return how often each memory was recalled, by memId; damaged entries count as never."""
    folder = existing_private(root)
    entries = _read_counts(folder) if folder else {}
    return {mem_id: entry["count"] for mem_id, entry in entries.items()}


def count(root: Path, mem_ids: Iterable[str], seconds: float = 30.0) -> None:
    """Count one more recall of each of these memories.

    Args:
        root: the folder of the vault.
        mem_ids: the memories that were recalled.
        seconds: how long to wait for other processes that are counting.

    Raises:
        StorageError: the vault cannot be written.
        Refused: ``.memvault`` leads out of the vault, or a file in it is not a regular file.
        TimedOut: another process holds the lock.
    """
    recalled = list(dict.fromkeys(mem_ids))
    if not recalled:
        return
    folder = private_folder(root)
    with FileLock(folder / _LOCK_FILE, seconds):
        line = json.dumps([clock.iso(), *recalled], ensure_ascii=False)
        atomic.append_line(folder / _RECENT_FILE, line.encode("utf-8", "replace"))
        if (folder / _RECENT_FILE).stat().st_size > _MAX_RECENT_BYTES:
            _replace_counts(folder, _read_counts(folder))


def prune(root: Path, known: Collection[str]) -> None:
    """Delete the counts of memories that are missing and have not been recalled for 90 days.

    Raises:
        StorageError: the vault cannot be written.
        TimedOut: another process holds the lock.
    """
    folder = private_folder(root)
    with FileLock(folder / _LOCK_FILE):
        stored = _read_counts(folder)
        since = clock.iso(clock.now() - _RETENTION)
        retained = {
            mem_id: entry
            for mem_id, entry in stored.items()
            if mem_id in known or entry["last"] >= since
        }
        if len(retained) < len(stored):
            _replace_counts(folder, retained)


def _replace_counts(folder: Path, stored: Counts) -> None:
    """Replace both files by the given counts.

    If the process is killed in between, recent recalls are counted twice.
    """
    latest = sorted(stored.items(), key=lambda item: item[1]["last"])[-_MAX_COUNTED:]
    text = json.dumps(dict(latest), ensure_ascii=False)
    atomic.write(folder / _COUNTS_FILE, text.encode("utf-8", "replace"))
    with atomic.map_os_errors(folder / _RECENT_FILE):
        (folder / _RECENT_FILE).unlink(missing_ok=True)


def _read_counts(folder: Path) -> Counts:
    """Return the intact entries of both files.

    The recent recalls are read first, because they may be moved to the other file in the meantime.
    """
    entries: Counts = {}
    lines: list[bytes] = []
    with contextlib.suppress(OSError):
        lines = plain_files.read(folder / _RECENT_FILE, STATE).splitlines()
    for mem_id, entry in plain_files.read_json(folder / _COUNTS_FILE).items():
        number = entry.get("count") if isinstance(entry, dict) else None
        if type(number) is int and number > 0:
            entries[mem_id] = {"count": number, "last": str(entry.get("last", ""))}
    for line in lines:
        with contextlib.suppress(ValueError, RecursionError, TypeError):
            stamp, *mem_ids = json.loads(line)
            for mem_id in mem_ids:
                if isinstance(mem_id, str) and isinstance(stamp, str):
                    before = entries.get(mem_id, {"count": 0})
                    entries[mem_id] = {"count": before["count"] + 1, "last": stamp}
    return entries


ARCHIVED = "archived"
_MAX_LINE = 200
_NOT_IN_LINKS = lazy_pattern(r"[\[\]|#^]")

Test = Callable[["MemoryRecord"], bool]


class Provenance(NamedTuple):
    """The origin of a memory: its source episodes, their files, its proposal, what it replaces."""

    episodes: tuple[str, ...]
    paths: tuple[str, ...]
    proposal: str
    supersedes: tuple[str, ...] = ()

    @property
    def header(self) -> dict[str, Any]:
        """The header entries that record the origin."""
        supersedes = {"supersedes": list(self.supersedes)} if self.supersedes else {}
        return {"episodes": list(self.episodes), "proposal": self.proposal, **supersedes}


def is_archived(metadata: dict[str, Any]) -> bool:
    """Return whether a header marks its memory as archived."""
    return str(metadata.get("status") or "").strip().casefold() == ARCHIVED


def is_put_aside(metadata: dict[str, Any]) -> bool:
    """Return whether a memory is archived or an example, so that searches leave it out."""
    return is_archived(metadata) or is_example(metadata)


def search(
    engine: RecallEngine,
    query: str,
    memory_type: str,
    limit: int,
    passes: Test,
    only_current: bool = False,
    strict: bool = True,
) -> RecallAnswer:
    """Search the memories of a type that are not archived and not examples, best match first.

    With ``only_current``, memories that are replaced, expired or not yet valid are excluded;
    without ``strict``, memories that are unlikely to answer are included.

    Raises:
        UsageError: the query is empty.
    """
    from memvault.recall.answer import RecallRequest

    if not query.strip():
        raise UsageError("The query is empty", "say what to look for")
    filters = _filters(memory_type, passes)
    return engine.search(
        RecallRequest(query, limit=limit, filters=filters, strict=strict, only_current=only_current)
    )


def memories_of(
    store: MemoryStore, engine: RecallEngine, memory_type: str, passes: Test
) -> Iterator[Memory]:
    """Yield the memories of a type with their files as they are now, newest first.

    Archived memories and examples are left out.
    """
    return readable(store, records_of(engine, memory_type, passes))


def records_of(engine: RecallEngine, memory_type: str, passes: Test) -> list[MemoryRecord]:
    """Return the records of the memories of a type, newest first.

    Archived memories and examples are left out.
    """
    records = engine.list_records(_filters(memory_type, passes))
    return sorted(records, key=lambda record: record.created, reverse=True)


def readable(store: MemoryStore, records: Iterable[MemoryRecord]) -> Iterator[Memory]:
    """Yield the memories of records as their files are now; unreadable ones are skipped."""
    for record in records:
        with contextlib.suppress(MemvaultError):  # deleted since the folder was scanned
            yield store.read(record.path)


def _filters(memory_type: str, passes: Test) -> Filters:
    from memvault.recall.filters import Filters

    return Filters(
        memory_type=memory_type,
        passes=lambda record: not is_put_aside(record.metadata) and passes(record),
    )


def unquoted(text: str) -> str:
    """Return a text without quotes, because quotes in a query request exact words."""
    return "".join(" " if char in '"“”„«»' else char for char in text)


def distance(result: RecallResult) -> float:
    """Return the semantic distance from the query: 0 for identical, 1 for nothing in common."""
    return round(1 - result.similarity, 4)


def text_of(memory: Memory) -> str:
    """Return the text of a memory without the last line, which names its source episodes."""
    return _split_sources(memory)[0].strip("\r\n")


def with_text(memory: Memory, text: str) -> str:
    """Return the body of a memory with a new text; the line that names its episodes is kept."""
    body, sources = _split_sources(memory)
    from memvault.memories import edit

    updated = edit.replace_all(body or memory.newline, text, memory.newline)
    return f"{updated}{memory.newline}{sources}" if sources else updated


def linked(text: str, paths: Sequence[str]) -> str:
    """Return a text with a last line of links to its source files."""
    stems = [PurePosixPath(path).stem for path in paths]
    links = ", ".join(f"[[{stem}]]" for stem in stems if not _NOT_IN_LINKS.search(stem))
    return f"{text}\n\nFrom {links}" if links else text


def _split_sources(memory: Memory) -> tuple[str, str]:
    """Split a body before its last line, if that line and the header name source episodes."""
    stripped = memory.body.rstrip()
    start = max(stripped.rfind("\n"), stripped.rfind("\r")) + 1
    last = stripped[start:]
    if last.startswith("From [[") and last.endswith("]]") and memory.metadata.get("episodes"):
        return memory.body[:start].rstrip(), memory.body[start:]
    return memory.body, ""


def one_line(text: str, what: str) -> str:
    """Return a short text as a header stores it: on one line, without surrounding blanks.

    Raises:
        UsageError: the text is longer than 200 characters.
    """
    plain = " ".join(text.split())
    if len(plain) > _MAX_LINE:
        raise UsageError(
            f"{what} is longer than {_MAX_LINE} characters", "use a few words; texts go elsewhere"
        )
    return plain
