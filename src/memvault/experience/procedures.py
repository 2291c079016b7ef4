"""Store instructions as memories of the type ``procedure``.

The title is the name of the procedure, and names are unique; the body is its prompt. The header
contains ``success_rate`` and ``usage_count``, and ``skill_id`` if the procedure belongs to the
skill tree. ``upsert`` and ``record_outcome`` acquire a lock, and callers of ``add`` must hold it,
so that no outcome is lost and names stay unique. People, git and general tools do not
acquire it; if two files have the same name, the oldest is used.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from memvault.errors import Conflict, NotFound, suggestion
from memvault.experience import provenance, search
from memvault.experience.episodes import number
from memvault.experience.skill_tree import checked_id, found_id, key
from memvault.files.atomic import map_os_errors
from memvault.files.lock import FileLock
from memvault.memories import create, edit
from memvault.model import RATE, Memory
from memvault.named_tuple import NamedTuple
from memvault.recall.filters import Filters
from memvault.recall.recall_engine import RecallEngine
from memvault.store.memory_store import MemoryStore, WriteResult
from memvault.vault.document import plain_text
from memvault.vault.names import normalize
from memvault.vault.private_folder import private_folder

TYPE = "procedure"
ALPHA = 0.1
"""The weight of the latest outcome in the moving average."""
_LOCK_FILE = "procedures.lock"
_MAX_RESULTS = 10


class Procedure(NamedTuple):
    """A procedure as parsed from its file."""

    procedure_id: str
    name: str
    prompt: str
    success_rate: float
    usage_count: int
    skill_id: str


def procedure_of(memory: Memory) -> Procedure:
    """Parse a procedure; missing header keys get the values of an unused procedure."""
    header = memory.metadata
    uses: Any = header.get("usage_count")
    return Procedure(
        memory.mem_id,
        memory.title,
        provenance.text_of(memory),
        number(header.get("success_rate"), RATE),
        max(uses, 0) if type(uses) is int else 0,
        found_id(header.get("skill_id")),
    )


def averaged(rate: float, success: bool) -> float:
    """Return the moving average of a procedure's success after one more outcome."""
    return (1 - ALPHA) * rate + ALPHA * (1.0 if success else 0.0)


def upsert(
    store: MemoryStore, engine: RecallEngine, name: str, prompt: str, rate: float, skill_id: str
) -> tuple[WriteResult, bool]:
    """Store a procedure; if a procedure with that name exists, change its prompt and skillId.

    An archived procedure or an example becomes active again. Returns the result, and whether the
    procedure existed before.

    Raises:
        UsageError: the name, the prompt or the skillId is invalid.
        Conflict: another program is editing the file.
    """
    title = clean_name(name)
    create.title_of(prompt)  # raises UsageError if it is empty
    skill = checked_id(skill_id) if skill_id.strip() else ""

    def change(memory: Memory) -> WriteResult:
        changes: dict[str, Any] = {}
        if skill and memory.metadata.get("skill_id") != skill:
            changes["skill_id"] = skill
        if search.is_put_aside(memory.metadata):
            changes["status"] = None
        body = None
        if provenance.text_of(memory) != plain_text(prompt).strip("\n"):
            body = provenance.with_text(memory, prompt)
        elif not changes:
            return WriteResult(memory, "")
        return store.change(memory, {**changes, **edit.modified_now(memory)}, body)

    with held(store, engine) as paths:
        if title in paths:
            return edit.retry_on_conflict(store, store.read(paths[title]), change), True
        return WriteResult(
            create.add(store, title, prompt, TYPE, _header(rate, 0, skill)), ""
        ), False


def add(
    store: MemoryStore,
    paths: dict[str, str],
    new: Procedure,
    source: str,
    origin: provenance.Provenance,
) -> Memory:
    """Store a procedure derived from episodes, with links to them.

    Its name and skillId must be in stored form. ``paths`` contains the existing procedures from
    ``held``; the new procedure is added to them.

    Raises:
        Conflict: a procedure with that name was created concurrently.
    """
    if new.name in paths:
        raise Conflict(
            f"A procedure {new.name!r} already exists",
            "run it again to get a proposal with another name",
        )
    header = {
        **_header(new.success_rate, new.usage_count, new.skill_id),
        "source": source,
        **origin.header,
    }
    body = provenance.linked(new.prompt, origin.paths)
    memory = create.add(store, new.name, body, TYPE, header)
    paths[new.name] = memory.path
    return memory


def clean_name(name: str) -> str:
    """Return a name in the form used to store it and look it up.

    Raises:
        UsageError: the name is empty.
    """
    return normalize("NFC", create.clean_title(name))


def _header(rate: float, used: int, skill: str) -> dict[str, Any]:
    return {"success_rate": rate, "usage_count": used, **({"skill_id": skill} if skill else {})}


def record_outcome(store: MemoryStore, engine: RecallEngine, name: str, success: bool) -> Procedure:
    """Record an outcome of a procedure; return it with its new rate and count.

    Raises:
        NotFound: there is no procedure with that name.
        Conflict: another program is editing the file.
    """
    title = clean_name(name)

    def count(memory: Memory) -> WriteResult:
        before = procedure_of(memory)
        numbers = {
            "success_rate": averaged(before.success_rate, success),
            "usage_count": before.usage_count + 1,
        }
        return store.change(memory, {**numbers, **edit.modified_now(memory)}, None)

    with held(store, engine) as paths:
        if title not in paths:
            quoted_paths = [repr(path) for path in paths]
            hint = suggestion(
                repr(title),
                quoted_paths,
                "run `memvault list --type procedure` to list the procedures",
            )
            raise NotFound(f"There is no procedure {title!r}", hint)
        return procedure_of(edit.retry_on_conflict(store, store.read(paths[title]), count).memory)


def recall_procedures(
    engine: RecallEngine, situation: str, min_rate: float
) -> tuple[list[Procedure], list[str]]:
    """Search for procedures that fit a situation and mostly succeed, best success rate first.

    Procedures with a rate below ``min_rate``, and procedures that are superseded, expired or not
    yet valid, are left out. Also returns the notes from the search, and one about procedures with a
    lower rate if no others fit.
    """
    results, notes = search.search(
        engine,
        search.unquoted(situation),
        TYPE,
        _MAX_RESULTS,
        lambda record: number(record.metadata.get("success_rate"), RATE) >= min_rate,
        only_current=True,
        strict=False,
    )
    relevant = [entry for entry in results if entry.in_title or entry.is_relevant]
    procedures = [procedure_of(entry.memory) for entry in relevant]
    if not procedures and min_rate > 0 and (lower := recall_procedures(engine, situation, 0)[0]):
        notes.append(
            f"procedures with a success rate below {min_rate:g} omitted: {len(lower)}; "
            "`memvault procedure recall` with `--min-success-rate 0` shows them"
        )
    return sorted(procedures, key=lambda entry: (-entry.success_rate, -entry.usage_count)), notes


def with_skill(store: MemoryStore, engine: RecallEngine) -> list[Procedure]:
    """Return the procedures in the skill tree, ordered by skill id."""
    records = search.records_of(
        engine, TYPE, lambda entry: bool(found_id(entry.metadata.get("skill_id")))
    )
    procedures = map(procedure_of, search.readable(store, records))
    return sorted(procedures, key=lambda entry: (key(entry.skill_id), entry.name))


@contextmanager
def held(store: MemoryStore, engine: RecallEngine) -> Iterator[dict[str, str]]:
    """Hold the procedure lock, and yield the path of the oldest file for each name.

    Everything that was stored before the lock was acquired is included.
    """
    filters = Filters(memory_type=TYPE)
    lock = FileLock(private_folder(store.root) / _LOCK_FILE)
    with map_os_errors(lock.path):
        is_free = lock.acquire(0.0)
    lock.release()
    if not is_free:
        engine.list_records(filters)  # Index most changes before acquiring the lock.
    with engine.fresh_under(lock):
        records = engine.list_records(filters)
        records.sort(key=lambda entry: (entry.created, entry.path), reverse=True)
        yield {normalize("NFC", entry.title): entry.path for entry in records}
