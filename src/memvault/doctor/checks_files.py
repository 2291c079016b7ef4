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
from memvault.sanitize import replace_surrogates
from memvault.vault import document, paths
from memvault.vault.document import MODIFIED
from memvault.vault.file_names import normalize_title
from memvault.vault.paths import derived_id, id_from_name, normal_type, slug

_HEADER_PROBLEMS = ("broken front matter: ", "the front matter cannot be indexed: ")
"""Prefixes of the problem of a record whose header could not be parsed."""
_MAX_CLOCK_SKEW = timedelta(days=1)
_MAX_SHOWN_KEYS = 5


def unreadable_files(inspection: VaultInspection) -> Iterator[Finding]:
    """Find unreadable, binary and wrongly encoded files, and broken headers."""
    yield from _unreadable_folders(inspection)
    for note in inspection.notes:
        problem = note.record.problem
        if note.trouble:
            yield _unreadable_file(note.path, note.trouble)
        elif problem.startswith(_HEADER_PROBLEMS) and not note.conflict_markers:
            yield _broken_header(note.path, problem.partition(": ")[2])
        elif problem.startswith("the file is binary"):
            yield Finding("file-binary", note.path, "The file is binary, not text")
        elif problem.startswith("not UTF-8"):
            encoding = problem.rpartition(" ")[2]
            message = f"The file is not UTF-8 and is read as {encoding}, which is a guess"
            yield Finding("not-utf8", note.path, message)
    for other in inspection.others:
        if other.trouble:
            yield _unreadable_file(other.path, other.trouble)
        elif other.broken:
            yield _broken_header(other.path, other.broken)


def _unreadable_folders(inspection: VaultInspection) -> Iterator[Finding]:
    for path in inspection.tree.unreadable:
        yield Finding("file-unreadable", path, "The folder cannot be listed by this user")
    for path in inspection.tree.too_deep:
        yield Finding("file-unreadable", walk.named(path), f"The folder is {walk.TOO_DEEP}")


def _broken_header(path: str, reason: str) -> Finding:
    return Finding("front-matter-broken", path, f"The front matter is not read: {reason}")


def _unreadable_file(path: str, trouble: str) -> Finding:
    if trouble == "large":
        return Finding("file-too-large", path, "The file is larger than 64 MB, so it is not read")
    return Finding("file-unreadable", path, f"The file cannot be read: {trouble}")


def check_conflict_markers(inspection: VaultInspection) -> Iterator[Finding]:
    """Find git conflict markers, in memories and in other files such as those of agents."""
    paths = [note.path for note in inspection.notes if note.conflict_markers]
    for path in paths + [other.path for other in inspection.others if other.conflict_markers]:
        yield Finding(
            "git-markers", path, "The marks of a conflict in git are in it: choose what is to stay"
        )


def check_duplicate_keys(inspection: VaultInspection) -> Iterator[Finding]:
    """Find headers that contain a key more than once."""
    entries: tuple[InspectedMemory | InspectedFile, ...] = (*inspection.notes, *inspection.others)
    for entry in entries:
        if entry.duplicate_keys:
            keys = ", ".join(repr(key) for key in entry.duplicate_keys[:_MAX_SHOWN_KEYS])
            message = f"Its header has {keys} more than once, and the last one counts: keep one"
            yield Finding("key-twice", entry.path, message)


def unusable_ids(inspection: VaultInspection) -> Iterator[Finding]:
    """Find ids that are not valid memIds; an empty id counts as missing."""
    for note in inspection.notes:
        given_id = note.record.metadata.get("id")
        if given_id in (None, "") or given_id == note.record.mem_id:
            continue
        message = (
            f"Its id {given_id!r} cannot be a memId, so {note.record.mem_id} is used, of its path"
        )
        yield Finding("id-unusable", note.path, message)


def shared_ids(inspection: VaultInspection) -> Iterator[Finding]:
    """Find memories that share a memId, except for copies that a sync program kept."""
    known_copies = {copy.path for copy, _ in sync_copies(inspection)}
    count = Counter(note.record.mem_id for note in inspection.notes)
    sharing: dict[str, list[InspectedMemory]] = {}
    for note in inspection.notes:
        if count[note.record.mem_id] > 1 and note.path not in known_copies:
            sharing.setdefault(note.record.mem_id, []).append(note)
    taken = set(count)
    for mem_id, notes in sharing.items():
        first, *others = sorted(notes, key=_age_order)
        for note in others:
            new_id = _unused_id(note.path, taken)
            taken.add(new_id)
            description = f"give it the memId {new_id}"
            fix = Fix("header", description, note.path, note.etag, (("id", new_id),))
            message = f"It has the memId of {replace_surrogates(first.path)}: {mem_id}"
            yield Finding("id-shared", note.path, message, fix)


def _age_order(note: InspectedMemory) -> tuple[bool, str, bool, int, str]:
    """Return a sort key for memories with one id, equal on every machine: the first keeps it.

    A memory whose id is derived from its path comes first, because it can have no other id. A copy
    is no older than its original, has a file name unlike its title, or has the longer name.
    """
    is_given = note.record.metadata.get("id") == note.record.mem_id
    other_name = slug(PurePosixPath(note.path).stem) != slug(note.record.title)
    return is_given, note.record.created if is_given else "", other_name, len(note.path), note.path


def _unused_id(path: str, taken: set[str]) -> str:
    """Return an unused id derived from the path, so that two machines choose the same one."""
    candidate, number = derived_id(path), 1
    while candidate in taken:
        number += 1
        candidate = id_from_name(f"{path} {number}")
    return candidate


def types(inspection: VaultInspection) -> Iterator[Finding]:
    """Find types that are neither built in nor declared in the settings."""
    for note in inspection.notes:
        type_name = note.record.memory_type
        if type_name in inspection.types:
            continue
        known_type = _normalized_type(type_name)
        if known_type in inspection.types:
            changes = (("memory_type", known_type),)
            fix = Fix("header", f"set the type {known_type}", note.path, note.etag, changes)
            yield Finding("type-unknown", note.path, f"The type {type_name!r} is {known_type}", fix)
        else:
            message = f"The type {type_name!r} is not known; [[types]] in memvault.toml may name it"
            yield Finding("type-unknown", note.path, message)


def _normalized_type(name: str) -> str:
    try:
        return normal_type(name)
    except UsageError:
        return ""


def future_times(inspection: VaultInspection) -> Iterator[Finding]:
    """Find times that are more than a day ahead of this machine's clock."""
    latest = inspection.now + _MAX_CLOCK_SKEW
    for note in inspection.notes:
        ahead = [
            f"Its header says {key}: {value}, in the future"
            for key in (*MODIFIED, "created")
            for value in [note.record.metadata.get(key)]
            if isinstance(value, str | int)
            and (moment := clock.parse(str(value))) is not None
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
_COPY_SUFFIX = re.compile(
    r"(?:\.sync-conflict-\d{8}-\d{6}(?:-[a-z0-9]{7})?"
    r"| \([^()]{0,80}\bconflicted copy\b[^()]{0,80}\)(?: \(\d{1,3}\))?"
    r"| \((?:[^()]{0,80} )?conflict(?: [-\d]{4,20}[^()]{0,80})?\)"
    r"|_conflict-\d{8}-\d{6}"
    r"|~HEAD|~[0-9a-f]{7,40}(?: \([^\n]{0,200}\))?)\Z",
    re.IGNORECASE,
)
_GIT_COPY_NAME = re.compile(r"\.md~.", re.IGNORECASE)
_NUMBERED_NAME = re.compile(r"(.+) (?:[2-9]|\((?:[1-9])\))")
_MIN_COMMON_LINES = 0.8
"""Minimum share of lines that two files with names like iCloud's must have in common."""
_MIN_COMMON_CHARACTERS = 100
"""Minimum number of common characters: shorter texts, as in new notes, match by chance."""
_GENERATED_ID = re.compile(r"(.+)-[a-z0-9]{6}")
_NUMBER_SUFFIX = re.compile(r"-\d{1,6}$")
_MAX_ID_SLUG = 40


def sync_copies(
    inspection: VaultInspection,
) -> Iterator[tuple[InspectedMemory, InspectedMemory | None]]:
    """Yield each copy that a sync program kept, with its original if that exists."""
    notes = {note.path: note for note in inspection.notes}
    for note in inspection.notes:
        pure = PurePosixPath(note.path)
        original = _original_stem(pure.stem)
        if original:
            yield note, notes.get(str(pure.with_name(f"{original}{pure.suffix}")))
            continue
        match = _NUMBERED_NAME.fullmatch(pure.stem)
        first = notes.get(str(pure.with_name(f"{match[1]}{pure.suffix}"))) if match else None
        if first is not None and _is_copy(inspection, note, first):
            yield note, first


def _is_copy(inspection: VaultInspection, note: InspectedMemory, first: InspectedMemory) -> bool:
    """Return whether a file with a number after its name is a copy of the one without."""
    given_id = note.record.metadata.get("id")
    if given_id is not None or first.record.metadata.get("id") is not None:
        return given_id == first.record.metadata.get("id")
    lines = [_distinct_lines(inspection, entry) for entry in (note, first)]
    common = lines[0] & lines[1]
    max_lines = max(map(len, lines))
    return (
        sum(map(len, common)) >= _MIN_COMMON_CHARACTERS
        and len(common) >= _MIN_COMMON_LINES * max_lines
    )


def _distinct_lines(inspection: VaultInspection, note: InspectedMemory) -> set[str]:
    memory = _parse_memory(inspection, note)
    return set(memory.body.split("\n")) - {""} if memory is not None else set()


def conflict_copies(inspection: VaultInspection) -> Iterator[Finding]:
    """Find copies that a sync program kept.

    A copy of a memory that has the same content as its original may be moved to the trash.
    """
    for copy, first in sync_copies(inspection):
        if first is None:
            message = "It is a copy that a sync kept of a conflict, and the original is gone"
            yield Finding("sync-conflict", copy.path, message)
        elif _has_same_content(inspection, copy, first):
            fix = Fix("trash", "move it to the trash", copy.path, copy.etag)
            message = (
                f"A sync kept this copy of {replace_surrogates(first.path)}, with the same text"
            )
            yield Finding("sync-conflict", copy.path, message, fix)
        else:
            message = f"It is another version of {replace_surrogates(first.path)}, kept by a sync"
            yield Finding(
                "sync-conflict", copy.path, f"{message}: put them together, then forget one"
            )
    memories = {note.path for note in inspection.notes}
    for path in inspection.tree.files:
        if path in memories:
            continue
        if _GIT_COPY_NAME.search(path):
            message = (
                "git gave it this name beside a folder of its own, so it is no memory: rename it"
            )
            yield Finding("sync-conflict", path, message)
        elif _original_stem(PurePosixPath(path).stem):
            yield Finding("sync-conflict", path, "It is a copy that a sync kept of a conflict")


def _original_stem(stem: str) -> str:
    """Return the original's name from the name of a sync copy; empty if it is not a copy."""
    match = _COPY_SUFFIX.search(stem)
    return stem[: match.start()] if match else ""


def _has_same_content(
    inspection: VaultInspection, copy: InspectedMemory, first: InspectedMemory
) -> bool:
    """Return whether two files have the same content, ignoring their times of modification."""
    if copy.etag == first.etag:
        return bool(copy.etag)
    one, other = _parse_memory(inspection, copy), _parse_memory(inspection, first)
    if one is None or other is None or one.problem or other.problem:
        return False
    return one.body == other.body and _stable_metadata(one) == _stable_metadata(other)


def _stable_metadata(memory: Memory) -> dict[str, object]:
    return {key: value for key, value in memory.metadata.items() if key != "modified"}


def _parse_memory(inspection: VaultInspection, note: InspectedMemory) -> Memory | None:
    try:
        data = inspection.read(note.path)
    except OSError:
        return None
    return document.read_memory(data, FileState(note.path, len(data), 0, 0, 0), inspection.types)


def case_collisions(inspection: VaultInspection) -> Iterator[Finding]:
    """Find names that are equal on a file system that folds case or normalises Unicode."""
    same_names: dict[str, list[str]] = defaultdict(list)
    for path in sorted((*inspection.tree.files, *inspection.tree.folders)):
        same_names[normalize_title(path) if not path.isascii() else path.lower()].append(path)
    for first, *others in same_names.values():
        for path in others:
            if PurePosixPath(path).name == PurePosixPath(first).name:
                continue  # the folders that contain them are reported
            one, other = _distinguishable(first, path)
            message = (
                f"Where case and the form of Unicode do not count, {other} and {one} are one name"
            )
            yield Finding("names-merge", path, f"{message}: rename one of them")


def _distinguishable(one: str, other: str) -> tuple[str, str]:
    """Return two names in a form in which a reader can see how they differ."""
    if normalize("NFC", one) != normalize("NFC", other):
        return replace_surrogates(one), replace_surrogates(other)
    first, second = (name.encode("ascii", "backslashreplace").decode() for name in (one, other))
    return first, second


def titles(inspection: VaultInspection) -> Iterator[Finding]:
    """Find memories whose title and file name once matched and now differ.

    Only memories that memvault named are checked, which the form of the id shows: people name their
    own files as they like. Copies are skipped, because they have the id of another memory.
    """
    count = Counter(note.record.mem_id for note in inspection.notes)
    for note in inspection.notes:
        given_id = note.record.metadata.get("id")
        match = _GENERATED_ID.fullmatch(given_id) if isinstance(given_id, str) else None
        if (
            match is None
            or count[note.record.mem_id] > 1
            or given_id == paths.derived_id(note.path)
        ):
            continue
        stem = PurePosixPath(note.path).stem
        title = paths.slug(note.record.title)
        names = {paths.slug(stem), paths.slug(_NUMBER_SUFFIX.sub("", stem))}
        former_slugs = {paths.slug(name, _MAX_ID_SLUG) for name in (title, *names)}
        if title not in names and match[1] in former_slugs:
            message = f"Its title is {note.record.title!r}: rename the file, or set the title"
            yield Finding("title-apart", note.path, message)


def in_texts(inspection: VaultInspection) -> Iterator[Finding]:
    """Find files that contain a secret without declaring it allowed.

    Such secrets were written by hand, or before secrets were detected. The finding does not
    disclose the secret itself.
    """
    entries: tuple[InspectedMemory | InspectedFile, ...] = (*inspection.notes, *inspection.others)
    for entry in entries:
        if entry.secrets:
            message = f"It holds a secret: {entry.secrets}; take it out, and revoke it if"
            message += " others can read the vault; secrets: allowed in the header says it is fine"
            yield Finding("secret-in-text", entry.path, message)
