"""Arguments and result structures shared by several tools."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar, cast

from memvault.arguments.binding import FLAGS
from memvault.arguments.parameters import Arg, split_tags, to_camel
from memvault.call import Call
from memvault.errors import Conflict, MemvaultError, UsageError
from memvault.model import EPISODE, FACT, PROCEDURE, Memory

if TYPE_CHECKING:
    from memvault.index.protocol import MemoryRecord
    from memvault.memories.trash import TrashedMemory
    from memvault.recall.answer import RecallAnswer, RecallResult
    from memvault.recall.filters import Filters
    from memvault.recall.recall_engine import RecallEngine
    from memvault.results import (
        AsOfMark,
        MemoryDescription,
        PageInfo,
        RecalledEntry,
        RecalledMemories,
        RecalledMemory,
        TrashEntry,
    )
    from memvault.settings.vault_settings import Settings


Confirm = Annotated[
    bool | str | None,
    Arg(
        "true, or the token that the preview returned",
        aliases=("confirmed", "confirmation", "confirmToken", "token"),
    ),
]


def token_to_confirm(confirm: bool | str | None, items: Iterable[str], what: str) -> str:
    """Return the token that confirms an action on some items, or "" if it is confirmed already.

    ``items`` are texts that identify them; they should include the items' state, so that the
    token changes with it. ``what`` describes them. With a token, the caller returns a preview.

    Raises:
        Conflict: If the given token is another one.
    """
    import hashlib

    shown = "\n".join(sorted(items)).encode("utf-8", "surrogatepass")
    token = hashlib.blake2b(shown, digest_size=6).hexdigest()
    answer = "" if confirm is None else str(confirm).strip().lower()
    if not FLAGS.get(answer, answer):
        return token
    if answer != token and answer not in FLAGS:
        raise Conflict(
            f"The confirmation does not match {what}",
            "look at the preview again and confirm with its token",
        )
    return ""


_COMMON_FIELDS = {"memories": [], "brief": [], "count": 10, "more": 10, "next": 10}
"""The other keys of a recall result, whose tokens count in the budget."""
_MARK_LABELS = {
    "supersededBy": "replaced by",
    "newer": "newer:",
    "expired": "ended",
    "notYet": "begins",
    "asOf": "as of",
}


class RenderedMemory(NamedTuple):
    """A memory as a full entry of a result, and the data for its one-line form."""

    memory: Memory
    whole: RecalledMemory
    best: str
    marks: Mapping[str, Any]
    settings: Settings
    strength: str = ""
    vault: str = ""

    @property
    def line(self) -> str:
        """The memory as one line."""
        from memvault.recall.one_line import one_line

        marks = [f"{_MARK_LABELS[key]} {value}" for key, value in self.marks.items()]
        weak = [self.strength] * (self.strength == "weak")
        return one_line(self.memory, self.best, self.settings.detector, weak + marks, self.vault)


class ResultBudget(NamedTuple):
    """The size limits of a result: whether as lines only, and the budget in tokens (0 for none)."""

    brief: bool
    budget: int

    @classmethod
    def of(cls, call: Call, brief: bool, budget: int | None) -> ResultBudget:
        """Create it from a tool's arguments; without a budget, that of the call applies."""
        return cls(brief, call.budget if budget is None else budget)

    @property
    def has_lines(self) -> bool:
        """Whether the result may contain memories as lines."""
        return self.brief or self.budget > 0

    def result(
        self,
        about: Mapping[str, Any],
        found: Sequence[RenderedMemory],
        offset: int,
        others: Sequence[RecalledEntry] | None = None,
    ) -> RecalledMemories:
        """Build a result from ``about`` and the memories found, which are ordered best first.

        ``others``, if requested, count in the budget, and are shortened to half of it.
        """
        extra: dict[str, Any] = {} if others is None else {"others": others}
        if others and self.budget:
            from memvault.tools.core import budget

            extra = budget.shortened(extra, self.budget // 2)
        whole, lines = (0, [entry.line for entry in found]) if self.brief else (len(found), [])
        if self.budget:
            whole, lines = self._fitting({**about, **extra}, found)
        shown = whole + len(lines)
        more = len(found) - shown
        result = {
            **about,
            "memories": [entry.whole for entry in found[:whole]],
            **({"brief": lines} if lines else {}),
            "count": shown,
            **({"more": more, "next": offset + shown} if more else {}),
            **extra,
        }
        return cast("RecalledMemories", result)

    def _fitting(
        self, about: Mapping[str, Any], found: Sequence[RenderedMemory]
    ) -> tuple[int, list[str]]:
        """Return how many memories fit in full, and the lines of those after them."""
        from memvault import sanitize
        from memvault.index.embedding import tokenizer
        from memvault.recall.one_line import split_budget
        from memvault.tools.core.budget import MAX_CHARACTERS

        def cost(value: Any) -> int:
            text = f"{sanitize.safe_json(value)},"
            if len(text) > self.budget * MAX_CHARACTERS:  # not worth counting
                return self.budget + 1
            return tokenizer.count_tokens(text)

        remaining = self.budget - cost({"success": True, **about, **_COMMON_FIELDS})
        costs = [] if self.brief else [cost(entry.whole) for entry in found]
        if costs and sum(costs) <= remaining:
            return len(found), []
        lines = [entry.line for entry in found]
        whole, shown = split_budget(remaining, costs, [cost(entry) for entry in lines])
        return whole, lines[whole:shown]


class VaultSelection:
    """The vaults that a call searches, and their engine; no ``vaults`` means the call's own."""

    def __init__(self, call: Call, vaults: Mapping[str, Path]) -> None:
        self._call = call
        self._vaults = vaults
        self.engine: RecallEngine = call.federated_engine(vaults) if vaults else call.engine

    @classmethod
    def of(cls, call: Call, names: Sequence[str]) -> VaultSelection:
        """Create it from a tool's argument.

        Raises:
            VaultNotFound: If no reachable vault has one of the names.
        """
        return cls(call, call.vaults(names))

    def read(self, record: MemoryRecord) -> Memory | None:
        """Read the current file of a listed memory; None if it cannot be read any more."""
        root = self._vaults.get(record.vault)
        call = self._call.workspace.open_other(root) if root is not None else self._call
        try:
            return call.reader.read(record.path)
        except MemvaultError:  # removed since the listing
            return None

    def count(self, found: Iterable[RecallResult]) -> None:
        """Count the retrieval of these results, each in its own vault."""
        by_vault: dict[str, list[Memory]] = {}
        for entry in found:
            by_vault.setdefault(entry.vault, []).append(entry.memory)
        for vault, memories in by_vault.items():
            count_retrievals(self._call, memories, self._vaults.get(vault))


MEMORY_NAMES = "memory id or its beginning, path, or exact title"
MEMORY_HELP = f"M{MEMORY_NAMES[1:]}"
TYPE_HELP = "Such as design-decision (see `memvault types`)"
MEMORY_ALIASES = ("memId", "id", "memoryId", "filePath", "path", "title", "name")
TYPE_ALIASES = ("type", "kind", "category")
TAG_ALIASES = ("tag", "labels")
CONTENT_ALIASES = ("content", "text", "value", "body")
QUERY_ALIASES = ("q", "question", "search", "text")
LIMIT_ALIASES = ("limit", "topK", "maxResults", "numResults", "max", "n", "k", "count")
THRESHOLD_ALIASES = ("similarity", "minScore", "score")
MESSAGE_ALIASES = ("text", "content")
MemoryRef = Annotated[
    str,
    Arg(
        MEMORY_HELP,
        key="memId",
        positional=True,
        names="memory",
        aliases=(*MEMORY_ALIASES, "query"),
    ),
]
TypeName = Annotated[str | None, Arg(TYPE_HELP, flag="--type", names="type", aliases=TYPE_ALIASES)]
NewTags = Annotated[list[str] | None, Arg("Tags of the memory", names="tag", aliases=TAG_ALIASES)]
TagFilter = Annotated[
    list[str] | None, Arg("Tags that a memory must all have", names="tag", aliases=TAG_ALIASES)
]
Expression = Annotated[
    str | None,
    Arg(
        "Condition on the front matter, such as area == 'main' and 'db' in tags",
        key="filter",
        aliases=("where", "condition", "expression"),
    ),
]
QUERY_FILTERS = "filters: tag: type: in:FOLDER since: until: -WORD"
QueryLine = Annotated[
    str,
    Arg(
        f"Words that must all occur; {QUERY_FILTERS}",
        positional=True,
        join_words=True,
        names="query",
        aliases=QUERY_ALIASES,
    ),
]
Since = Annotated[
    str | None,
    Arg(
        "Changed since a date, an age such as 7d, or words such as 'last week'",
        aliases=("from", "startDate"),
    ),
]
Until = Annotated[
    str | None, Arg("Changed until then, in the same formats", aliases=("to", "endDate"))
]
LISTED = 50
"""Default limit of listings."""
Limit = Annotated[int, Arg("How many at most", minimum=1, aliases=LIMIT_ALIASES)]
Offset = Annotated[
    int,
    Arg("Entries to skip: next of the previous result", minimum=0, aliases=("skip", "start")),
]
_Entry = TypeVar("_Entry")
_MAX_SIMILAR = 3
_MAX_SIMILAR_TEXT = 400
"""Characters of a text by which similar memories are found; more take the transformer longer."""
_COUNT_TIMEOUT = 1.0
"""Maximum number of seconds that counting may delay a result."""


def item(memory: Memory | MemoryRecord) -> MemoryDescription:
    """Return the fields of a memory that all listings include."""
    return {
        "memId": memory.mem_id,
        "title": memory.title,
        "filePath": memory.path,
        "memoryType": memory.memory_type,
        "tags": list(memory.tags),
        "created": memory.created,
        "modified": memory.modified,
    }


def require_text(text: str | None, name: str, hint: str) -> str:
    """Return an optional text without surrounding whitespace, or an empty text if it is None.

    Raises:
        UsageError: If it was given but is empty, for example from an unset shell variable.
    """
    if text is not None and not text.strip():
        raise UsageError(f"{name} is empty", hint)
    return (text or "").strip()


def trashed(entry: TrashedMemory) -> TrashEntry:
    """Return the fields of a memory in the trash that all listings include."""
    return {
        "memId": entry.mem_id,
        "title": entry.title,
        "filePath": entry.path,
        "discarded": entry.when,
    }


def list_result(key: str, found: Sequence[Any], nothing: str, **more: Any) -> dict[Any, Any]:
    """Return a list as a result, with the message ``nothing`` if it is empty."""
    return {key: found, **more, **({} if found else {"message": nothing})}


def paginate(
    found: Sequence[_Entry], limit: int, offset: int, nothing: str = ""
) -> tuple[Sequence[_Entry], PageInfo]:
    """Return one page of a listing, and the page information for its result."""
    page = found[offset : offset + limit]
    return page, page_info(len(found), offset, len(page), nothing)


def page_info(total: int, offset: int, shown: int, nothing: str = "") -> PageInfo:
    """Return the total of a listing, the offset of the next page, and a message if empty."""
    if not shown and total and offset >= total:
        nothing = f"There are {total:,}; none comes after them"
    end = offset + shown
    info: PageInfo = {"total": total}
    if shown and end < total:
        info["next"] = end
    if nothing and not shown:
        info["message"] = nothing
    return info


def similar_memories(
    call: Call, text: str, own_path: str, memory_type: str = ""
) -> list[tuple[Memory, float]]:
    """Return the memories most similar to a text that was just written, with similarities in 0..1.

    Weak results, those not current, and the memory of ``own_path`` are left out. Whatever fails
    becomes a note, since a caller that sees an error would write the text again.
    """
    from memvault.errors import TimedOut, to_memvault_error
    from memvault.index.protocol import NO_WAIT
    from memvault.recall.answer import RecallRequest
    from memvault.recall.filters import Filters

    for mode in ("vector", "keyword"):
        try:
            request = RecallRequest(
                text[:_MAX_SIMILAR_TEXT],
                mode,
                _MAX_SIMILAR + 1,
                Filters(memory_type=memory_type),
                only_current=True,
                strict=True,
                patience=NO_WAIT,
            )
            return [
                (found.memory, round(found.similarity if mode == "vector" else found.coverage, 4))
                for found in call.engine.search(request).found
                if found.memory.path != own_path
            ][:_MAX_SIMILAR]
        except Exception as error:  # such as a cache that is deleted, or no memory
            reason = to_memvault_error(error).message
            call.notes.append(f"similar memories were not looked for: {reason}")
            if isinstance(error, TimedOut):
                break
    return []


def collect_hits(call: Call, answer: RecallAnswer) -> list[RecallResult]:
    """Return the results of a search, and add its notes to the call's."""
    call.notes += answer.notes
    return answer.found


def fields(entry: object, *names: str) -> dict[Any, Any]:
    """Return attributes of an object under their names in camelCase, as a part of a result."""
    return {to_camel(name): getattr(entry, name) for name in names}


def without_none(**values: Any) -> dict[Any, Any]:
    """Return the values that are not None, as they may be missing in a result."""
    return {key: value for key, value in values.items() if value is not None}


_NOTICES = {
    "none": "Probably no memory answers this. Closest results:",
    "weak": "No good match. Closest results:",
}


def with_notice(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return a result with a line that warns if none of its memories is a good match."""
    shown = found.get("memories") or found.get("results")
    return {**found, "notice": _NOTICES.get(found.get("best", "")) if shown else None}


def relevant(found: Iterable[RecallResult]) -> list[RecallResult]:
    """Return the results that count as retrievals: those that may answer the query."""
    return [entry for entry in found if entry.is_relevant]


def count_accesses(call: Call, mem_ids: list[str]) -> dict[str, int]:
    """Count a recall of these memories; return the counts of all memories.

    If the counts cannot be written, a note is added and the recall still succeeds.
    """
    from memvault.experience import recall_counts

    try:
        if call.caller.scope != "read":  # a read-only caller changes no file
            recall_counts.count(call.root, mem_ids)
    except MemvaultError as error:
        call.notes.append(f"the access was not counted: {error.message}")
    return recall_counts.counts(call.root)


def as_of_field(sent: str) -> AsOfMark:
    """Return the time as of which a memory is known, if another machine sent it."""
    return {"asOf": sent} if sent else {}


def count_retrievals(call: Call, memories: Iterable[Memory], root: Path | None = None) -> None:
    """Count the retrieval of these memories, for the types whose recalls are tracked.

    ``root`` is the root of their vault if it is not the call's. The count is a side
    effect, so failures are ignored silently, and a read-only caller counts nothing.
    """
    if call.caller.scope == "read":
        return
    kinds = (EPISODE, FACT, PROCEDURE)
    mem_ids = [memory.mem_id for memory in memories if memory.memory_type in kinds]
    if not mem_ids:
        return
    from memvault.experience import recall_counts

    with contextlib.suppress(MemvaultError):
        recall_counts.count(root or call.root, mem_ids, seconds=_COUNT_TIMEOUT)


def filters(
    memory_type: str | None,
    tags: list[str] | None,
    since: str | None,
    until: str | None,
    expression: str | None,
    also: Filters | None = None,
) -> Filters:
    """Create filters from a tool's arguments, and those of its query.

    Raises:
        UsageError: If ``since`` or ``until`` is not a date.
    """
    from memvault.recall.filters import Filters

    own = Filters(
        memory_type=(memory_type or "").strip(),
        tags=tuple(
            part
            for tag in tags or ()
            # A file may have a tag with a comma.
            for part in (split_tags(tag) if " #" in tag or "\n" in tag else [tag])
            if part.strip()
        ),
        since=parse_date_argument(since, "since", False),
        until=parse_date_argument(until, "until", True),
        expression=expression or "",
    )
    return own if also is None else own.both(also)


def warn_unknown_filters(call: Call, chosen: Filters, engine: RecallEngine | None = None) -> None:
    """Add notes on types and tags of the filters that no memory has, for empty results."""
    if any(one.memory_type or one.types or one.tags or one.folders for one in chosen.required()):
        from memvault.recall.filters import Filters, unknown_value_notes

        every = (engine or call.engine).list_records(Filters())
        call.notes += unknown_value_notes(every, chosen, call.settings.types)


class TypeChoice(NamedTuple):
    """The type of a memory to write, empty for the default, and known types perhaps meant."""

    name: str
    meant: tuple[str, ...] = ()

    def warn(self, call: Call, mem_id: str) -> None:
        """Add a note that suggests the known types for the memory that was written."""
        if self.meant:
            call.notes.append(
                f"there was no memory type {self.name!r}; if you mean {' or '.join(self.meant)}, "
                f'`memvault compound {mem_id} "" --type {self.meant[0]}` changes it'
            )


def choose_type(call: Call, given: str | None) -> TypeChoice:
    """Return the type for a memory, after asking the person at the terminal about a close one.

    Only a type that is neither built in nor declared is compared with those that memories or
    templates of the vault have; if they cannot be read at once, it is taken as it is.

    Raises:
        UsageError: If it cannot be the name of a type.
    """
    from memvault.vault import naming

    name = naming.normal_type(given) if given and given.strip() else ""
    if not name or name in call.store.known_types:
        return TypeChoice(name)
    from memvault.index.protocol import NO_WAIT
    from memvault.memories import templates
    from memvault.recall.filters import Filters, types_meant
    from memvault.recall.recall_engine import RecallEngine

    if name in templates.names(call.root):
        return TypeChoice(name)
    try:
        engine = RecallEngine(call.reader, call.workspace.search_index, NO_WAIT)
        records = engine.list_records(Filters())
    except (MemvaultError, OSError, MemoryError):
        return TypeChoice(name)
    meant = types_meant(name, records, [entry.name for entry in call.settings.types])
    if not meant or call.caller.confirm_suggestion is None:
        return TypeChoice(name, tuple(meant))
    line = f"There is no memory type {name!r} yet; similar: {', '.join(meant)}"
    uses_known = call.caller.confirm_suggestion([line], f"Use {meant[0]}? n keeps {name}")
    return TypeChoice(meant[0] if uses_known else name)


def tags_in(query: str) -> Filters:
    """Convert the query of a tag search to filters."""
    from memvault.recall.filters import Filters

    return Filters(tags=tuple(query.replace(",", " ").split()))


def parse_date_argument(text: str | None, name: str, end: bool) -> datetime | None:
    """Parse a date argument to the first moment of that date, or with ``end`` the last.

    Raises:
        UsageError: If it is not a date.
    """
    from memvault.recall import dates

    if not text or not text.strip():
        return None
    moment = dates.parse_moment(text, end)
    if moment is None:
        shown = text if len(text) <= 60 else f"{text[:60]}..."
        raise UsageError(
            f"{name} must be a date, a time, an age, or words for one, not {shown!r}",
            "write 2026-01-31, 2026-01-31T12:00:00Z, 2026-W05, 7d, 12h, 2w, or such as 'last week'",
        )
    return moment
