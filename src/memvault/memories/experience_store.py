"""What episodes, facts and procedures have in common: finding them, and where they came from.

They are found by recall's engine, narrowed to their type. Those whose header
says ``status: archived`` are put aside: plain recall finds them, these do not;
``status: example`` neither does.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple

from memvault.errors import MemvaultError, UsageError
from memvault.memories import edit
from memvault.model import Memory, is_example
from memvault.vault.store import MemoryStore

if TYPE_CHECKING:  # storing needs none of recall
    from memvault.index.protocol import MemoryRecord
    from memvault.recall.engine import RecallEngine
    from memvault.recall.filters import Filters
    from memvault.recall.values import RecallAnswer, RecallResult

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
    from memvault.recall.values import RecallRequest

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
