"""Checks of what files and their headers say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import PurePosixPath

from memvault import clock
from memvault.errors import UsageError
from memvault.upkeep.doctor.findings import Finding, Fix
from memvault.upkeep.doctor.look import InspectedFile, InspectedMemory, VaultInspection
from memvault.upkeep.doctor.names import sync_copies
from memvault.vault import layout, walk
from memvault.vault.codec import MODIFIED, replace_surrogates

_BROKEN = ("broken front matter: ", "the front matter cannot be indexed: ")
"""How a record's problem begins where its header is not read."""
_AHEAD = timedelta(days=1)
_SHOWN = 5


def unreadable_files(look: VaultInspection) -> Iterator[Finding]:
    """Find what cannot be read, and headers that are broken."""
    yield from _folders(look)
    for note in look.notes:
        problem = note.record.problem
        if note.trouble:
            yield _trouble(note.path, note.trouble)
        elif problem.startswith(_BROKEN) and not note.conflict_markers:
            yield _broken(note.path, problem.partition(": ")[2])
        elif problem.startswith("the file is binary"):
            yield Finding("file-binary", note.path, "The file is binary, not text")
        elif problem.startswith("not UTF-8"):
            encoding = problem.rpartition(" ")[2]
            said = f"The file is not UTF-8 and is read as {encoding}, which is a guess"
            yield Finding("not-utf8", note.path, said)
    for other in look.others:
        if other.trouble:
            yield _trouble(other.path, other.trouble)
        elif other.broken:
            yield _broken(other.path, other.broken)


def _folders(look: VaultInspection) -> Iterator[Finding]:
    for path in look.tree.unreadable:
        yield Finding("file-unreadable", path, "The folder cannot be listed by this user")
    for path in look.tree.too_deep:
        yield Finding("file-unreadable", walk.named(path), f"The folder is {walk.TOO_DEEP}")


def _broken(path: str, said: str) -> Finding:
    return Finding("front-matter-broken", path, f"The front matter is not read: {said}")


def _trouble(path: str, trouble: str) -> Finding:
    if trouble == "large":
        return Finding("file-too-large", path, "The file is larger than 64 MB, so it is not read")
    return Finding("file-unreadable", path, f"The file cannot be read: {trouble}")


def check_conflict_markers(look: VaultInspection) -> Iterator[Finding]:
    """Find the marks of a conflict in git, in memories and in agents' files."""
    paths = [note.path for note in look.notes if note.conflict_markers]
    for path in paths + [other.path for other in look.others if other.conflict_markers]:
        yield Finding(
            "git-markers", path, "The marks of a conflict in git are in it: choose what is to stay"
        )


def check_duplicate_keys(look: VaultInspection) -> Iterator[Finding]:
    """Find headers that have a key twice."""
    entries: tuple[InspectedMemory | InspectedFile, ...] = (*look.notes, *look.others)
    for entry in entries:
        if entry.duplicate_keys:
            keys = ", ".join(repr(key) for key in entry.duplicate_keys[:_SHOWN])
            said = f"Its header has {keys} more than once, and the last one counts: keep one"
            yield Finding("key-twice", entry.path, said)


def unusable_ids(look: VaultInspection) -> Iterator[Finding]:
    """Find ids that cannot be a memId; one that is left empty is none."""
    for note in look.notes:
        own = note.record.metadata.get("id")
        if own in (None, "") or own == note.record.mem_id:
            continue
        said = f"Its id {own!r} cannot be a memId, so {note.record.mem_id} is used, of its path"
        yield Finding("id-unusable", note.path, said)


def shared_ids(look: VaultInspection) -> Iterator[Finding]:
    """Find memories that share a memId, but for copies that a sync kept."""
    known_copies = {copy.path for copy, _ in sync_copies(look)}
    count = Counter(note.record.mem_id for note in look.notes)
    sharing: dict[str, list[InspectedMemory]] = {}
    for note in look.notes:
        if count[note.record.mem_id] > 1 and note.path not in known_copies:
            sharing.setdefault(note.record.mem_id, []).append(note)
    taken = set(count)
    for mem_id, notes in sharing.items():
        first, *others = sorted(notes, key=_age_order)
        for note in others:
            fresh = _fresh_id(note.path, taken)
            taken.add(fresh)
            words = f"give it the memId {fresh}"
            fix = Fix("header", words, note.path, note.etag, (("id", fresh),))
            said = f"It has the memId of {replace_surrogates(first.path)}: {mem_id}"
            yield Finding("id-shared", note.path, said, fix)


def _age_order(note: InspectedMemory) -> tuple[bool, str, bool, int, str]:
    """Order memories of one id, the same on every machine: the first keeps it.

    One whose id comes from its path can have no other. A copy is no older, is not
    called like its title, or has the longer name.
    """
    own = note.record.metadata.get("id") == note.record.mem_id
    other_name = layout.slug(PurePosixPath(note.path).stem) != layout.slug(note.record.title)
    return own, note.record.created if own else "", other_name, len(note.path), note.path


def _fresh_id(path: str, taken: set[str]) -> str:
    """Return a free id that is made of the path, so that two machines give the same one."""
    fresh, number = layout.derived_id(path), 1
    while fresh in taken:
        number += 1
        fresh = layout.id_from_name(f"{path} {number}")
    return fresh


def types(look: VaultInspection) -> Iterator[Finding]:
    """Find types that nobody has named."""
    for note in look.notes:
        given = note.record.memory_type
        if given in look.types:
            continue
        meant = _normal(given)
        if meant in look.types:
            changes = (("memory_type", meant),)
            fix = Fix("header", f"set the type {meant}", note.path, note.etag, changes)
            yield Finding("type-unknown", note.path, f"The type {given!r} is {meant}", fix)
        else:
            said = f"The type {given!r} is not known; [[types]] in memvault.toml may name it"
            yield Finding("type-unknown", note.path, said)


def _normal(name: str) -> str:
    try:
        return layout.normal_type(name)
    except UsageError:
        return ""


def future_times(look: VaultInspection) -> Iterator[Finding]:
    """Find times that are more than a day ahead of this machine's clock."""
    latest = look.now + _AHEAD
    for note in look.notes:
        ahead = [
            f"Its header says {key}: {said}, in the future"
            for key in (*MODIFIED, "created")
            for said in [note.record.metadata.get(key)]
            if isinstance(said, str | int)
            and (moment := clock.parse(str(said))) is not None
            and moment > latest
        ]
        if not ahead and note.mtime > latest.timestamp() * 1e9:
            ahead = [f"The file was saved in the future: {clock.iso_from_ns(note.mtime)}"]
        if ahead:
            yield Finding("time-ahead", note.path, ahead[0])
