"""What episodes, facts and procedures have in common: finding them, and where they came from.

They are found by recall's engine, narrowed to their type. Those whose header
says ``status: archived`` are put aside: plain recall finds them, these do not;
``status: example`` neither does.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple

from memvault import clock
from memvault.errors import MemvaultError, UsageError
from memvault.files import atomic, plain_files
from memvault.files.lock import FileLock
from memvault.files.plain_files import STATE
from memvault.memories import edit
from memvault.model import Memory, is_example
from memvault.store.memory_store import MemoryStore
from memvault.vault.paths import private_folder

if TYPE_CHECKING:
    from memvault.index.protocol import MemoryRecord
    from memvault.recall.answer import RecallAnswer, RecallResult
    from memvault.recall.engine import RecallEngine
    from memvault.recall.filters import Filters


_FILE = "access.json"
_RECENT = "access.jsonl"
_LOCK = "access.lock"
_MOST_RECENT = 64 * 1024
"""Bytes of the lines that are not folded in."""
_MOST = 50_000
"""Memories that counts are kept of, those recalled last; their file is then far from too large."""
_KEPT = timedelta(days=90)
"""How long counts of what is gone are kept: it may be in the trash, or on another branch."""

Counts = dict[str, dict[str, Any]]


def counts(root: Path) -> dict[str, int]:
    """Return how often each memory was recalled, by memId; what is damaged counts as never."""
    return {mem_id: entry["count"] for mem_id, entry in _read(root / ".memvault").items()}


def count(root: Path, mem_ids: Iterable[str], seconds: float = 30.0) -> None:
    """Count one more recall of each of these memories.

    Others that count at the same time are waited for, at most so many seconds.

    Raises:
        StorageError: the vault cannot be written.
        Refused: ``.memvault`` leads out of the vault, or there is no plain file.
        TimedOut: another process holds the lock.
    """
    recalled = list(dict.fromkeys(mem_ids))
    if not recalled:
        return
    folder = private_folder(root)
    with FileLock(folder / _LOCK, seconds):
        line = json.dumps([clock.iso(), *recalled], ensure_ascii=False)
        atomic.append_line(folder / _RECENT, line.encode("utf-8", "replace"))
        if (folder / _RECENT).stat().st_size > _MOST_RECENT:
            _fold(folder, _read(folder))


def prune(root: Path, known: Collection[str]) -> None:
    """Forget the counts of memories that are gone and were not recalled for long.

    Raises:
        StorageError: the vault cannot be written.
        TimedOut: another process holds the lock.
    """
    folder = private_folder(root)
    with FileLock(folder / _LOCK):
        found = _read(folder)
        since = clock.iso(clock.now() - _KEPT)
        kept = {
            mem_id: entry
            for mem_id, entry in found.items()
            if mem_id in known or entry["last"] >= since
        }
        if len(kept) < len(found):
            _fold(folder, kept)


def _fold(folder: Path, found: Counts) -> None:
    """Put counts in the place of both files; killed in between, the recent ones count twice."""
    latest = sorted(found.items(), key=lambda item: item[1]["last"])[-_MOST:]
    text = json.dumps(dict(latest), ensure_ascii=False)
    atomic.write(folder / _FILE, text.encode("utf-8", "replace"))
    with atomic.map_os_errors(folder / _RECENT):
        (folder / _RECENT).unlink(missing_ok=True)


def _read(folder: Path) -> Counts:
    """Return the entries that are whole; the recent ones first, which may move to the others."""
    found: Counts = {}
    if folder.is_symlink():
        return found
    lines: list[bytes] = []
    with contextlib.suppress(OSError):
        lines = plain_files.read(folder / _RECENT, STATE).splitlines()
    with contextlib.suppress(OSError, ValueError, RecursionError, AttributeError):
        for mem_id, entry in json.loads(plain_files.read(folder / _FILE, STATE)).items():
            number = entry.get("count") if isinstance(entry, dict) else None
            if type(number) is int and number > 0:
                found[mem_id] = {"count": number, "last": str(entry.get("last", ""))}
    for line in lines:
        with contextlib.suppress(ValueError, RecursionError, TypeError):
            stamp, *mem_ids = json.loads(line)
            for mem_id in mem_ids:
                if isinstance(mem_id, str) and isinstance(stamp, str):
                    before = found.get(mem_id, {"count": 0})
                    found[mem_id] = {"count": before["count"] + 1, "last": stamp}
    return found


ARCHIVED = "archived"
_LONGEST = 200
_UNLINKED = re.compile(r"[\[\]|#^]")

Test = Callable[["MemoryRecord"], bool]


class Provenance(NamedTuple):
    """The episodes that a memory was made of, their files, and the proposal that it was."""

    episodes: tuple[str, ...]
    paths: tuple[str, ...]
    proposal: str

    @property
    def header(self) -> dict[str, Any]:
        """What the memory's header says of it."""
        return {"episodes": list(self.episodes), "proposal": self.proposal}


def is_archived(metadata: dict[str, Any]) -> bool:
    """Say whether a header puts its memory aside."""
    return str(metadata.get("status") or "").strip().casefold() == ARCHIVED


def is_put_aside(metadata: dict[str, Any]) -> bool:
    """Say whether a memory is archived or an example, so that it is none of what is known."""
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
    """Find memories of a type that are not put aside, the best for a query first.

    With ``only_current`` not what was replaced, has ended or has not begun;
    without ``strict`` what is weak too.

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
    """Yield every memory of a type that is not put aside, newest first, as its file is now."""
    return readable(store, records_of(engine, memory_type, passes))


def records_of(engine: RecallEngine, memory_type: str, passes: Test) -> list[MemoryRecord]:
    """Return the records of every memory of a type that is not put aside, newest first."""
    records = engine.list_records(_filters(memory_type, passes))
    return sorted(records, key=lambda record: record.created, reverse=True)


def readable(store: MemoryStore, records: Iterable[MemoryRecord]) -> Iterator[Memory]:
    """Yield the memories of records as their files are now; what cannot be read is left out."""
    for record in records:
        with contextlib.suppress(MemvaultError):  # gone since the look at the folder
            yield store.read(record.path)


def _filters(memory_type: str, passes: Test) -> Filters:
    from memvault.recall.filters import Filters

    return Filters(
        memory_type=memory_type,
        passes=lambda record: not is_put_aside(record.metadata) and passes(record),
    )


def unquoted(text: str) -> str:
    """Return what was seen or said without quotes, which in a query ask for exact words."""
    return "".join(" " if char in '"“”„«»' else char for char in text)


def distance(found: RecallResult) -> float:
    """Return how far a memory is from the query in meaning: 0 the same, 1 nothing in common."""
    return round(1 - found.similarity, 4)


def text_of(memory: Memory) -> str:
    """Return what a memory says, without the line that names the episodes it came from."""
    return _cut(memory)[0].strip("\r\n")


def with_text(memory: Memory, text: str) -> str:
    """Return a memory's body with another text; the line that names its episodes stays."""
    body, sources = _cut(memory)
    fresh = edit.replace_all(body or memory.newline, text, memory.newline)
    return f"{fresh}{memory.newline}{sources}" if sources else fresh


def linked(text: str, paths: Sequence[str]) -> str:
    """Return a text with a closing line of links to the files that it came from."""
    stems = [PurePosixPath(path).stem for path in paths]
    links = ", ".join(f"[[{stem}]]" for stem in stems if not _UNLINKED.search(stem))
    return f"{text}\n\nFrom {links}" if links else text


def _cut(memory: Memory) -> tuple[str, str]:
    """Split a body before its last line, where that and the header name episodes."""
    whole = memory.body.rstrip()
    start = max(whole.rfind("\n"), whole.rfind("\r")) + 1
    last = whole[start:]
    if last.startswith("From [[") and last.endswith("]]") and memory.metadata.get("episodes"):
        return memory.body[:start].rstrip(), memory.body[start:]
    return memory.body, ""


def one_line(text: str, what: str) -> str:
    """Return a short text as a header keeps it: one line without blanks around it.

    Raises:
        UsageError: it is longer than a header's value should be.
    """
    plain = " ".join(text.split())
    if len(plain) > _LONGEST:
        raise UsageError(
            f"{what} is longer than {_LONGEST} characters", "use a few words; texts go elsewhere"
        )
    return plain
