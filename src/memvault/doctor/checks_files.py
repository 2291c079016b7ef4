"""Checks of single files: encoding, headers, ids, types, times, copies, names and secrets."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import timedelta
from pathlib import PurePosixPath
from unicodedata import normalize

from memvault import clock
from memvault.doctor.findings import Finding, Fix
from memvault.doctor.inspection import InspectedFile, InspectedMemory, VaultInspection
from memvault.errors import UsageError
from memvault.files import walk
from memvault.model import FileState, Memory
from memvault.vault import document, paths
from memvault.vault.document import MODIFIED, replace_surrogates
from memvault.vault.file_names import normalize_title
from memvault.vault.paths import derived_id, id_from_name, normal_type, slug

_BROKEN = ("broken front matter: ", "the front matter cannot be indexed: ")
"""Prefixes of the problem of a record whose header could not be parsed."""
_AHEAD = timedelta(days=1)
_SHOWN = 5


def unreadable_files(look: VaultInspection) -> Iterator[Finding]:
    """Find unreadable, binary and wrongly encoded files, and broken headers."""
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
    """Find git conflict markers, in memories and in other files such as those of agents."""
    paths = [note.path for note in look.notes if note.conflict_markers]
    for path in paths + [other.path for other in look.others if other.conflict_markers]:
        yield Finding(
            "git-markers", path, "The marks of a conflict in git are in it: choose what is to stay"
        )


def check_duplicate_keys(look: VaultInspection) -> Iterator[Finding]:
    """Find headers that contain a key more than once."""
    entries: tuple[InspectedMemory | InspectedFile, ...] = (*look.notes, *look.others)
    for entry in entries:
        if entry.duplicate_keys:
            keys = ", ".join(repr(key) for key in entry.duplicate_keys[:_SHOWN])
            said = f"Its header has {keys} more than once, and the last one counts: keep one"
            yield Finding("key-twice", entry.path, said)


def unusable_ids(look: VaultInspection) -> Iterator[Finding]:
    """Find ids that are not valid memIds; an empty id counts as missing."""
    for note in look.notes:
        own = note.record.metadata.get("id")
        if own in (None, "") or own == note.record.mem_id:
            continue
        said = f"Its id {own!r} cannot be a memId, so {note.record.mem_id} is used, of its path"
        yield Finding("id-unusable", note.path, said)


def shared_ids(look: VaultInspection) -> Iterator[Finding]:
    """Find memories that share a memId, except for copies that a sync program kept."""
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
    """Return a sort key for memories with one id, equal on every machine: the first keeps it.

    A memory whose id is derived from its path comes first, because it can have no other id. A copy
    is no older than its original, has a file name unlike its title, or has the longer name.
    """
    own = note.record.metadata.get("id") == note.record.mem_id
    other_name = slug(PurePosixPath(note.path).stem) != slug(note.record.title)
    return own, note.record.created if own else "", other_name, len(note.path), note.path


def _fresh_id(path: str, taken: set[str]) -> str:
    """Return an unused id derived from the path, so that two machines choose the same one."""
    fresh, number = derived_id(path), 1
    while fresh in taken:
        number += 1
        fresh = id_from_name(f"{path} {number}")
    return fresh


def types(look: VaultInspection) -> Iterator[Finding]:
    """Find types that are neither built in nor declared in the settings."""
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
        return normal_type(name)
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


# Names that sync programs give to the copy they keep if both sides changed a file:
# Syncthing, docs.syncthing.net/users/syncing: NAME.sync-conflict-DATE-TIME-MODIFIEDBY.EXT
# Dropbox, help.dropbox.com/organize/conflicted-copy: NAME (SOMEONE's conflicted copy DATE).EXT
# ownCloud, doc.owncloud.com/desktop/next/conflicts.html, and Nextcloud:
#   NAME (conflicted copy DATE TIME).EXT, formerly NAME_conflict-DATE-TIME.EXT
# Obsidian Sync, obsidian.md/help/sync/troubleshoot: NAME (Conflicted copy DEVICE DATETIME).EXT
# git, if a folder has the name of the file: NAME~HEAD, NAME~BRANCH, NAME~COMMIT (SUBJECT)
# iCloud, github.com/logseq/logseq issue 6972: NAME 2.EXT, which people use as well
_CONFLICT = re.compile(
    r"(?:\.sync-conflict-\d{8}-\d{6}(?:-[a-z0-9]{7})?"
    r"| \([^()]{0,80}\bconflicted copy\b[^()]{0,80}\)(?: \(\d{1,3}\))?"
    r"| \((?:[^()]{0,80} )?conflict(?: [-\d]{4,20}[^()]{0,80})?\)"
    r"|_conflict-\d{8}-\d{6}"
    r"|~HEAD|~[0-9a-f]{7,40}(?: \([^\n]{0,200}\))?)\Z",
    re.IGNORECASE,
)
_BESIDE_FOLDER = re.compile(r"\.md~.", re.IGNORECASE)
_NUMBERED = re.compile(r"(.+) (?:[2-9]|\((?:[1-9])\))")
_LIKE = 0.8
"""Minimum share of lines that two files with names like iCloud's must have in common."""
_SAYS_MUCH = 100
"""Minimum number of common characters: shorter texts, as in new notes, match by chance."""
_MADE = re.compile(r"(.+)-[a-z0-9]{6}")
_NUMBER = re.compile(r"-\d{1,6}$")
_LONGEST_ID_SLUG = 40


def sync_copies(look: VaultInspection) -> Iterator[tuple[InspectedMemory, InspectedMemory | None]]:
    """Yield each copy that a sync program kept, with its original if that exists."""
    notes = {note.path: note for note in look.notes}
    for note in look.notes:
        pure = PurePosixPath(note.path)
        original = _original(pure.stem)
        if original:
            yield note, notes.get(str(pure.with_name(f"{original}{pure.suffix}")))
            continue
        match = _NUMBERED.fullmatch(pure.stem)
        first = notes.get(str(pure.with_name(f"{match[1]}{pure.suffix}"))) if match else None
        if first is not None and _is_copy(look, note, first):
            yield note, first


def _is_copy(look: VaultInspection, note: InspectedMemory, first: InspectedMemory) -> bool:
    """Return whether a file with a number after its name is a copy of the one without."""
    own = note.record.metadata.get("id")
    if own is not None or first.record.metadata.get("id") is not None:
        return own == first.record.metadata.get("id")
    lines = [_lines(look, entry) for entry in (note, first)]
    alike = lines[0] & lines[1]
    most = max(map(len, lines))
    return sum(map(len, alike)) >= _SAYS_MUCH and len(alike) >= _LIKE * most


def _lines(look: VaultInspection, note: InspectedMemory) -> set[str]:
    memory = _memory(look, note)
    return set(memory.body.split("\n")) - {""} if memory is not None else set()


def conflict_copies(look: VaultInspection) -> Iterator[Finding]:
    """Find copies that a sync program kept.

    A copy of a memory that has the same content as its original may be moved to the trash.
    """
    for copy, first in sync_copies(look):
        if first is None:
            said = "It is a copy that a sync kept of a conflict, and the original is gone"
            yield Finding("sync-conflict", copy.path, said)
        elif _same(look, copy, first):
            fix = Fix("trash", "move it to the trash", copy.path, copy.etag)
            said = f"A sync kept this copy of {replace_surrogates(first.path)}, with the same text"
            yield Finding("sync-conflict", copy.path, said, fix)
        else:
            said = f"It is another version of {replace_surrogates(first.path)}, kept by a sync"
            yield Finding("sync-conflict", copy.path, f"{said}: put them together, then forget one")
    memories = {note.path for note in look.notes}
    for path in look.tree.files:
        if path in memories:
            continue
        if _BESIDE_FOLDER.search(path):
            said = "git gave it this name beside a folder of its own, so it is no memory: rename it"
            yield Finding("sync-conflict", path, said)
        elif _original(PurePosixPath(path).stem):
            yield Finding("sync-conflict", path, "It is a copy that a sync kept of a conflict")


def _original(stem: str) -> str:
    """Return the original's name from the name of a sync copy; empty if it is not a copy."""
    match = _CONFLICT.search(stem)
    return stem[: match.start()] if match else ""


def _same(look: VaultInspection, copy: InspectedMemory, first: InspectedMemory) -> bool:
    """Return whether two files have the same content, ignoring their times of modification."""
    if copy.etag == first.etag:
        return bool(copy.etag)
    one, other = _memory(look, copy), _memory(look, first)
    if one is None or other is None or one.problem or other.problem:
        return False
    return one.body == other.body and _lasting(one) == _lasting(other)


def _lasting(memory: Memory) -> dict[str, object]:
    return {key: value for key, value in memory.metadata.items() if key != "modified"}


def _memory(look: VaultInspection, note: InspectedMemory) -> Memory | None:
    try:
        data = look.read(note.path)
    except OSError:
        return None
    return document.read_memory(data, FileState(note.path, len(data), 0, 0, 0), look.types)


def case_collisions(look: VaultInspection) -> Iterator[Finding]:
    """Find names that are equal on a file system that folds case or normalises Unicode."""
    alike: dict[str, list[str]] = defaultdict(list)
    for path in sorted((*look.tree.files, *look.tree.folders)):
        alike[normalize_title(path) if not path.isascii() else path.lower()].append(path)
    for first, *others in alike.values():
        for path in others:
            if PurePosixPath(path).name == PurePosixPath(first).name:
                continue  # the folders that contain them are reported
            one, other = _told_apart(first, path)
            said = (
                f"Where case and the form of Unicode do not count, {other} and {one} are one name"
            )
            yield Finding("names-merge", path, f"{said}: rename one of them")


def _told_apart(one: str, other: str) -> tuple[str, str]:
    """Return two names in a form in which a reader can see how they differ."""
    if normalize("NFC", one) != normalize("NFC", other):
        return replace_surrogates(one), replace_surrogates(other)
    first, second = (name.encode("ascii", "backslashreplace").decode() for name in (one, other))
    return first, second


def titles(look: VaultInspection) -> Iterator[Finding]:
    """Find memories whose title and file name once matched and now differ.

    Only memories that memvault named are checked, which the form of the id shows: people name their
    own files as they like. Copies are skipped, because they have the id of another memory.
    """
    count = Counter(note.record.mem_id for note in look.notes)
    for note in look.notes:
        own = note.record.metadata.get("id")
        made = _MADE.fullmatch(own) if isinstance(own, str) else None
        if made is None or count[note.record.mem_id] > 1 or own == paths.derived_id(note.path):
            continue
        stem = PurePosixPath(note.path).stem
        title = paths.slug(note.record.title)
        names = {paths.slug(stem), paths.slug(_NUMBER.sub("", stem))}
        was = {paths.slug(name, _LONGEST_ID_SLUG) for name in (title, *names)}
        if title not in names and made[1] in was:
            said = f"Its title is {note.record.title!r}: rename the file, or set the title"
            yield Finding("title-apart", note.path, said)


def in_texts(look: VaultInspection) -> Iterator[Finding]:
    """Find files that contain a secret without declaring it allowed.

    Such secrets were written by hand, or before secrets were detected. The finding does not
    disclose the secret itself.
    """
    entries: tuple[InspectedMemory | InspectedFile, ...] = (*look.notes, *look.others)
    for entry in entries:
        if entry.secrets:
            said = f"It holds a secret: {entry.secrets}; take it out, and revoke it if"
            said += " others can read the vault; secrets: allowed in the header says it is fine"
            yield Finding("secret-in-text", entry.path, said)
