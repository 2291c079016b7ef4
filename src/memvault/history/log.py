"""List the changes and revisions of memories, and compare revisions."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from difflib import unified_diff
from itertools import takewhile
from typing import TYPE_CHECKING

from memvault import clock
from memvault.call import Call
from memvault.errors import Ambiguous, NotFound
from memvault.model import Memory
from memvault.named_tuple import NamedTuple
from memvault.recall.resolve import normalize
from memvault.store.journal import FileChange, JournalEntry
from memvault.vault import decoding
from memvault.vault.names import exact_key, name_key

if TYPE_CHECKING:
    from memvault.results import ChangedFile, ChangeEntry, ComparedRevisions, LineChanges

_MAX_COMPARED_LINES = 5_000
"""Maximum number of lines to compare; a longer difference is shown as a replacement."""


class LoggedMemory(NamedTuple):
    """The memory that a name refers to; ``memory`` is None if it no longer exists.

    The other fields then come from its latest journal entry.
    """

    mem_id: str
    path: str
    title: str
    memory: Memory | None


def resolve_logged(call: Call, name: str) -> LoggedMemory:
    """Return the memory that a name refers to, even if it no longer exists.

    Raises:
        NotFound: the name is in neither the vault nor the journal.
        Ambiguous: the name matches several memories.
    """
    try:
        memory = call.engine.names.resolve(name)
    except Ambiguous:
        raise
    except NotFound:
        entry = find_logged(call, name)
        existing = find_existing(call, entry.mem_id) if entry is not None else None
        if entry is not None and existing is None:
            return LoggedMemory(entry.mem_id, entry.path, entry.title, None)
        memory = existing or call.resolve(name)
    return LoggedMemory(memory.mem_id, memory.path, memory.title, memory)


def find_logged(call: Call, name: str) -> FileChange | None:
    """Return the last change of the memory that had this name, or None if the journal has none.

    An exact match is preferred to one that differs in case.
    """
    last: dict[str, FileChange] = {}
    exact, key = exact_key(normalize(name)), name_key(normalize(name))
    similar = None
    for change in call.store.changes.journal.changes():
        for entry in change.files:
            last.setdefault(entry.mem_id, entry)
            names = (entry.mem_id, entry.path, entry.title)
            if exact in map(exact_key, names):
                return last[entry.mem_id]
            if similar is None and key in map(name_key, names):
                similar = last[entry.mem_id]
    return similar


def find_existing(call: Call, mem_id: str) -> Memory | None:
    """Return the memory with exactly this memId, or None."""
    with contextlib.suppress(Ambiguous):
        memory = call.engine.names.try_resolve(mem_id)
        if memory is not None and memory.mem_id == mem_id:
            return memory
    return None


def changes_of(call: Call, mem_id: str) -> Iterator[JournalEntry]:
    """Yield the changes of one memory, newest first, restricted to its own files.

    Revisions whose journal entries were deleted come last.
    """
    own_revisions: set[str] = set()
    for change in call.store.changes.journal.changes():
        own_files = tuple(entry for entry in change.files if entry.mem_id == mem_id)
        if own_files:
            own_revisions.update(entry.before for entry in own_files)
            yield change._replace(files=own_files)
    for revision in reversed(call.store.history.revisions(mem_id)):
        if revision not in own_revisions:
            moment = clock.parse(revision.rpartition("-")[0])
            entry = FileChange("changed", "", mem_id, "", revision, "")
            yield JournalEntry("", clock.iso(moment) if moment else "", "", "", (entry,))


def is_edited(call: Call, named: LoggedMemory) -> bool:
    """Return whether a memory was changed outside of tools, after its last journal entry."""
    for change in call.store.changes.journal.changes():
        for entry in reversed(change.files):
            if entry.mem_id == named.mem_id and entry.path == named.path:
                return named.memory is not None and entry.after not in ("", named.memory.etag)
    return False


def change_item(change: JournalEntry) -> ChangeEntry:
    """Return a change in the format of tool results."""
    item: ChangeEntry = {
        "changeId": change.change_id,
        "when": change.when,
        "tool": change.tool,
        "agent": change.agent,
        "files": [file_item(entry) for entry in change.files],
    }
    if change.reverts:
        item["undoes"] = change.reverts
    if change.reverted_by:
        item["undoneBy"] = change.reverted_by
    return item


def file_item(entry: FileChange) -> ChangedFile:
    """Return the change of one file in the format of tool results.

    ``revision`` is the revision with the content before the change.
    """
    item: ChangedFile = {
        "change": entry.kind,
        "filePath": entry.path,
        "memId": entry.mem_id,
        "title": entry.title,
    }
    if entry.before and entry.kind in ("changed", "removed"):
        item["revision"] = entry.before
    return item


def compare_revisions(
    call: Call, named: LoggedMemory, revision: str, other: str
) -> ComparedRevisions:
    """Compare two revisions of a memory, or a revision with the current file.

    ``revision`` defaults to the latest revision, and ``other`` defaults to the current file.

    Raises:
        NotFound: there is no such revision, or no current file to compare with.
    """
    history = call.store.history
    if not revision:
        revisions = history.revisions(named.mem_id)
        if not revisions:
            raise NotFound(
                f"There is no earlier revision of {named.mem_id}",
                "memvault saves a revision whenever it changes the text; "
                f"`memvault log {named.mem_id}` lists the changes",
            )
        revision = revisions[-1]
    first = history.read(named.mem_id, revision)
    if other:
        second = history.read(named.mem_id, other)
    elif named.memory is not None:
        second, _ = call.store.read_bytes(named.memory.path)
    else:
        hint = (
            f"pass two revisions from `memvault log {named.mem_id}`, or restore the last one with "
            f"`memvault restore {named.mem_id}`"
        )
        raise NotFound(f"{named.path} no longer exists", hint)
    return {
        "memId": named.mem_id,
        "filePath": named.path,
        "from": revision,
        "to": other or "now",
        **difference(
            first,
            second,
            revision,
            other or "now",
            call.settings.encoding,
            masking(call, named.memory),
        ),
    }


def masking(call: Call, memory: Memory | None) -> Callable[[str], str]:
    """Return a function that masks secrets in a revision, or ``str`` if the caller may see them.

    Mask whole versions, not their diff: a diff may split a secret and prefixes each line with a
    marker, so the detector would not recognize it.
    """
    if not call.caller.mask_secrets:
        return str
    return call.settings.detector.masking(memory.metadata if memory else {})


def difference(
    first: bytes,
    second: bytes,
    before: str,
    after: str,
    encoding: str,
    transform: Callable[[str], str] = str,
) -> LineChanges:
    """Return the numbers of lines added and removed between two versions, and a unified diff.

    ``before`` and ``after`` are the labels of the versions, and ``encoding`` is passed to
    ``document.decode``. The diff compares the versions after applying ``transform``, for example to
    mask secrets; the numbers count lines in the original versions.
    """
    old, new = (decoding.decode(data, encoding).text for data in (first, second))
    lines = shown = _diff_lines(old, new, before, after)
    masked = transform(old), transform(new)
    if masked != (old, new):
        shown = _diff_lines(*masked, before, after)
    return {
        "added": sum(line.startswith("+") for line in lines[2:]),
        "removed": sum(line.startswith("-") for line in lines[2:]),
        "diff": "\n".join(shown),
    }


def _diff_lines(first: str, second: str, before: str, after: str) -> list[str]:
    """Return a unified diff, skipping the common beginning and end of long versions."""
    old, new = first.splitlines(), second.splitlines()
    pairs = zip(old, new, strict=False)
    head = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    head = max(0, head - 3)
    if max(len(old), len(new)) - head <= _MAX_COMPARED_LINES:
        return list(unified_diff(old, new, before, after, lineterm=""))
    rest = zip(reversed(old[head:]), reversed(new[head:]), strict=False)
    tail = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], rest))
    removed, added = old[head : len(old) - tail], new[head : len(new) - tail]
    if max(len(removed), len(added)) <= _MAX_COMPARED_LINES:
        hunks = list(unified_diff(removed, added, before, after, lineterm=""))
        return [*hunks[:2], f"@@ from line {head + 1} @@", *hunks[2:]]
    counts = f"@@ -{head + 1},{len(removed)} +{head + 1},{len(added)} @@"
    minus, plus = (f"-{line}" for line in removed), (f"+{line}" for line in added)
    return [f"--- {before}", f"+++ {after}", counts, *minus, *plus]
