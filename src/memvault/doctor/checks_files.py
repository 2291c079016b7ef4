"""Check single files: encoding, headers, ids, types, times, copies, names and secrets."""

from __future__ import annotations

import posixpath
import re
from collections import defaultdict
from collections.abc import Iterator
from datetime import timedelta
from pathlib import PurePosixPath
from unicodedata import normalize

from memvault import clock
from memvault.doctor.file_problems import too_large
from memvault.doctor.findings import Finding, Fix, check, set_header
from memvault.doctor.inspection import InspectedMemory, VaultInspection
from memvault.errors import UsageError
from memvault.files import plain_files, walk
from memvault.model import FileState, Memory
from memvault.sanitize import replace_surrogates
from memvault.vault import header_dates
from memvault.vault.names import normalize_title
from memvault.vault.naming import derived_id, id_from_name, normal_type, slug

_MAX_CLOCK_SKEW = timedelta(days=1)
_MAX_SHOWN_KEYS = 5
_MAX_SHOWN_TIMES = 5
_LARGE_HINT = "raise `megabytes` under [documents] in memvault.toml, or add the file to `ignore`"
_DOCUMENT_HINT = "open it in another program, or add it to `ignore` in memvault.toml"


@check("file-unreadable", "error", "A file or folder that this user cannot read")
def unreadable_files(vault: VaultInspection) -> Iterator[Finding]:
    for path in vault.tree["unreadable"]:
        yield Finding(path, "The folder cannot be listed by this user")
    for path in vault.tree["too deep"]:
        yield Finding(walk.shown_path(path), f"The folder is {walk.TOO_DEEP}")
    for file in vault.files:
        if file.trouble not in ("", "large"):
            yield Finding(file.path, f"The file cannot be read: {file.trouble}")


@check("file-too-large", "error", "A memory larger than 64 MB, or a state file larger than 16 MB")
def large_files(vault: VaultInspection) -> Iterator[Finding]:
    for file in vault.files:
        if file.trouble == "large":
            yield Finding(file.path, "The file is larger than 64 MB, so it is not read")
    for entry in too_large(vault.call.root):
        yield Finding(entry["filePath"], f"The file is {entry['problem']}")


@check("memory-partly-indexed", "note", "A memory that is longer than the indexing limit")
def partly_indexed_memories(vault: VaultInspection) -> Iterator[Finding]:
    maximum = vault.call.settings.index.characters
    for memory in vault.memories:
        if 0 < maximum < memory.record.size and not memory.file.trouble:
            length = len(vault.call.reader.read(memory.path).body)
            if length > maximum:
                yield Finding(
                    memory.path,
                    f"Only the first {maximum:,} of {length:,} characters are indexed; split the "
                    "file, or raise characters under [index] in memvault.toml",
                )


@check("document-unreadable", "note", "A document that cannot be read completely")
def unreadable_documents(vault: VaultInspection) -> Iterator[Finding]:
    for record in vault.documents:
        if record.problem:
            hint = _LARGE_HINT if "larger than" in record.problem else _DOCUMENT_HINT
            yield Finding(record.path, f"{record.problem}; recall finds only its name: {hint}")
        elif part := record.metadata.get("partly_read"):
            yield Finding(record.path, f"Only {part} are read")


@check(
    "front-matter-broken",
    "error",
    "A header that cannot be parsed: not YAML, no closing line, or too long",
)
def broken_headers(vault: VaultInspection) -> Iterator[Finding]:
    for file in vault.files:
        if file.broken:
            yield Finding(file.path, f"The front matter cannot be parsed: {file.broken}")


@check(
    "front-matter-line",
    "warning",
    "A header line that is not valid YAML; the other lines are still read",
)
def unread_header_lines(vault: VaultInspection) -> Iterator[Finding]:
    for memory in vault.memories:
        if memory.file.unread:
            message = f"A line of its front matter is not YAML ({memory.file.unread})"
            yield Finding(memory.path, f"{message}: quote the value")


@check("file-binary", "error", "A binary memory file")
def binary_files(vault: VaultInspection) -> Iterator[Finding]:
    for memory in vault.memories:
        if memory.record.problem.startswith("the file is binary"):
            yield Finding(memory.path, "The file is binary, not text")


@check("not-utf8", "note", "A memory that is not UTF-8; its encoding is guessed")
def other_encodings(vault: VaultInspection) -> Iterator[Finding]:
    for memory in vault.memories:
        problem = memory.record.problem
        if problem.startswith("not UTF-8"):
            encoding = problem.rpartition(" ")[2]
            if encoding == "utf-8":
                yield Finding(memory.path, "The file has bytes that are not UTF-8, shown as \ufffd")
                continue
            message = f"The file is not UTF-8; its encoding was guessed as {encoding};"
            message += " set `encoding` in memvault.toml to choose it"
            yield Finding(memory.path, message)


@check("git-markers", "error", "Git conflict markers in a file")
def conflict_markers(vault: VaultInspection) -> Iterator[Finding]:
    """Find git conflict markers in memories and in other files, such as agents' files."""
    for file in vault.files:
        if file.conflict_markers:
            message = "The file contains git conflict markers: resolve the conflict and delete them"
            yield Finding(file.path, message)


@check("key-twice", "warning", "A header with a duplicate key; the last value is used")
def duplicate_keys(vault: VaultInspection) -> Iterator[Finding]:
    for file in vault.files:
        if file.duplicate_keys:
            keys = ", ".join(map(repr, file.duplicate_keys[:_MAX_SHOWN_KEYS]))
            message = (
                f"Its header has {keys} more than once, and the last one is used: delete the others"
            )
            yield Finding(file.path, message, key=file.duplicate_keys[0])


@check(
    "secret-in-text",
    "warning",
    "A secret, such as a token or a private key, that the header does not allow",
)
def secrets(vault: VaultInspection) -> Iterator[Finding]:
    """Find secrets, such as those written in an editor, without showing them."""
    for file in vault.files:
        if file.secrets:
            message = f"It contains a secret: {file.secrets}; remove it, and revoke it if"
            message += " others can read the vault, or add `secrets: allowed` to the header"
            yield Finding(file.path, message)


@check(
    "id-unusable",
    "note",
    "An invalid `id`; a memId derived from the path is used instead",
)
def unusable_ids(vault: VaultInspection) -> Iterator[Finding]:
    """Find invalid memIds; an empty id counts as missing."""
    for memory in vault.memories:
        given_id, mem_id = memory.record.metadata.get("id"), memory.record.mem_id
        if given_id not in (None, "", mem_id):
            message = f"Its id {given_id!r} is not valid; using {mem_id}, derived from its path"
            yield Finding(memory.path, message, key="id")


@check(
    "id-shared",
    "error",
    "Several memories with the same memory id",
    fix="gives all but the oldest a new id",
)
def shared_ids(vault: VaultInspection) -> Iterator[Finding]:
    """Find memories that share a memId, except copies left by a sync program."""
    by_id = vault.by_id
    shared = {mem_id: sharing for mem_id, sharing in by_id.items() if len(sharing) > 1}
    known_copies = {copy.path for copy, _ in _sync_copies(vault)} if shared else set()
    taken = set(by_id)
    for mem_id, sharing in shared.items():
        originals = [memory for memory in sharing if memory.path not in known_copies]
        first, *others = sorted(originals, key=_age_order)
        for memory in others:
            new_id = _unused_id(memory.path, taken)
            taken.add(new_id)
            fix = set_header(memory.file, f"set the memory id {new_id}", {"id": new_id})
            message = f"Same memory id as {replace_surrogates(first.path)}: {mem_id}"
            yield Finding(memory.path, message, fix, key="id")


def _age_order(memory: InspectedMemory) -> tuple[bool, str, bool, int, str]:
    """Return a sort key for memories that share an id; the first keeps the id.

    The key is the same on every machine. A memory whose id is derived from its path comes first,
    because it can have no other id. The others are sorted by age, because copies are newer. Ties
    are broken in favor of files named like their title, then of shorter paths.
    """
    record, path = memory.record, memory.path
    is_given = record.metadata.get("id") == record.mem_id
    other_name = slug(_stem(path)) != slug(record.title)
    return is_given, record.created if is_given else "", other_name, len(path), path


def _unused_id(path: str, taken: set[str]) -> str:
    """Return an unused id derived from the path, so two machines choose the same one."""
    candidate, number = derived_id(path), 1
    while candidate in taken:
        number += 1
        candidate = id_from_name(f"{path} {number}")
    return candidate


@check(
    "type-unknown",
    "note",
    "A type that is neither built in nor in `memvault.toml`",
    fix="corrects its spelling if only case or hyphens differ",
)
def unknown_types(vault: VaultInspection) -> Iterator[Finding]:
    known_types = vault.call.store.known_types
    for memory in vault.memories:
        type_name = memory.record.memory_type
        if type_name in known_types:
            continue
        known_type = _normalized_type(type_name)
        if known_type in known_types:
            changes = {"memory_type": known_type}
            fix = set_header(memory.file, f"set the type {known_type}", changes)
            message = f"The type {type_name!r} should be spelled {known_type}"
            yield Finding(memory.path, message, fix, key="memory_type")
        else:
            message = f"The type {type_name!r} is unknown; add it to `[[types]]` in memvault.toml"
            yield Finding(memory.path, message, key="memory_type")


def _normalized_type(name: str) -> str:
    try:
        return normal_type(name)
    except UsageError:
        return ""


@check(
    "time-ahead",
    "warning",
    "A time more than a day in the future, in a header or a file's timestamp",
)
def future_times(vault: VaultInspection) -> Iterator[Finding]:
    latest = vault.now + _MAX_CLOCK_SKEW
    ahead = {
        memory.path: time
        for memory, times in vault.unusual_times
        for time in reversed(times)
        if time.moment is not None and time.moment > latest and time.key.casefold() != "date"
    }
    for memory in vault.memories:
        if time := ahead.get(memory.path):
            message = f"`{time.key}` is in the future: {time.value}"
            yield Finding(memory.path, message, key=time.key)
        elif memory.file.mtime > latest.timestamp() * 1e9:
            modified = clock.iso_from_ns(memory.file.mtime)
            yield Finding(memory.path, f"Its modification time is in the future: {modified}")


@check(
    "date-unread",
    "note",
    "A time in a header that cannot be parsed; the file's time is used instead",
)
def unread_dates(vault: VaultInspection) -> Iterator[Finding]:
    for memory, _ in vault.unusual_times:
        for time in header_dates.unread(memory.record.metadata):
            message = f"`{time.key}` in its header is not a date: {str(time.value)[:60]!r}"
            message = f"{message}; write it as 2026-01-31 or 2026-01-31T12:00"
            yield Finding(memory.path, message, key=time.key)


@check("date-form", "note", "Times in headers that are not ISO 8601, and how they are parsed")
def other_date_forms(vault: VaultInspection) -> Iterator[Finding]:
    """Report only a few times in other formats; a program may have put them in every note."""
    times = {
        memory.path: time
        for memory, every in vault.unusual_times
        for time in reversed(every)
        if time.moment is not None and clock.parse(str(time.value)) is None
    }
    for path in sorted(times)[:_MAX_SHOWN_TIMES]:
        time = times[path]
        message = f"`{time.key}` {str(time.value)[:60]!r} is parsed as {clock.iso(time.moment)}"
        yield Finding(path, message, key=time.key)
    if len(times) > _MAX_SHOWN_TIMES:
        rest = len(times) - _MAX_SHOWN_TIMES
        yield Finding("", f"{rest} more memories have times that are not ISO 8601")


# Names that sync programs give to the copy they keep if both sides changed a file:
# Syncthing, docs.syncthing.net/users/syncing: NAME.sync-conflict-DATE-TIME-MODIFIEDBY.EXT
# Dropbox, help.dropbox.com/organize/conflicted-copy: NAME (SOMEONE's conflicted copy DATE).EXT
# ownCloud, doc.owncloud.com/desktop/next/conflicts.html, and Nextcloud:
#   NAME (conflicted copy DATE TIME).EXT, formerly NAME_conflict-DATE-TIME.EXT
# Obsidian Sync, obsidian.md/help/sync/troubleshoot: NAME (Conflicted copy DEVICE DATETIME).EXT
# git, if a folder has the file's name: NAME~HEAD, NAME~BRANCH, NAME~COMMIT (SUBJECT)
# iCloud, github.com/logseq/logseq issue 6972: NAME 2.EXT, which is also a common name
#   for ordinary files
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
"""Minimum share of common lines for a file named like iCloud's copies to count as a copy."""
_MIN_COMMON_CHARACTERS = 100
"""Minimum number of common characters, because short bodies, as in new notes, match by chance."""


@check(
    "sync-conflict",
    "warning",
    "A conflict copy made by Obsidian Sync, Dropbox, Syncthing, iCloud, ownCloud, Nextcloud or git",
    fix="moves it to the trash if its content equals the original's",
)
def sync_copies(vault: VaultInspection) -> Iterator[Finding]:
    for copy, first in _sync_copies(vault):
        if first is None:
            message = "It is a sync program's conflict copy of a file that no longer exists"
            yield Finding(copy.path, message)
            continue
        original = replace_surrogates(first.path)
        if _has_same_content(vault, copy, first):
            message = f"It is a sync program's conflict copy of {original}, with the same content"
            yield Finding(copy.path, message, _move_to_trash(copy))
        else:
            message = f"It is a sync program's conflict copy of {original}, with different content"
            yield Finding(copy.path, f"{message}: merge them, then forget one")
    for path in vault.tree["file"]:
        if path in vault.memory_paths:
            continue
        if _GIT_COPY_NAME.search(path):
            message = "Git renamed it because a folder has its name, so it is not a memory"
            yield Finding(path, f"{message}: rename it")
        elif _original_stem(_stem(path)):
            yield Finding(path, "It is a sync program's conflict copy")


def _sync_copies(
    vault: VaultInspection,
) -> Iterator[tuple[InspectedMemory, InspectedMemory | None]]:
    """Yield each copy left by a sync program, with its original if that exists."""
    memories = {memory.path: memory for memory in vault.memories}
    for memory in vault.memories:
        beginning, suffix = posixpath.splitext(memory.path)
        folder, slash, stem = beginning.rpartition("/")
        if original := _original_stem(stem):
            yield memory, memories.get(f"{folder}{slash}{original}{suffix}")
        elif match := _NUMBERED_NAME.fullmatch(stem):
            first = memories.get(f"{folder}{slash}{match[1]}{suffix}")
            if first is not None and _is_copy(vault, memory, first):
                yield memory, first


def _stem(path: str) -> str:
    return posixpath.splitext(posixpath.basename(path))[0]


def _original_stem(stem: str) -> str:
    """Return the original's name from the name of a sync copy; empty if it is not a copy."""
    match = _COPY_SUFFIX.search(stem)
    return stem[: match.start()] if match else ""


def _move_to_trash(memory: InspectedMemory) -> Fix:
    path, etag = memory.path, memory.file.etag
    return Fix("move it to the trash", lambda call: call.store.discard(path, etag), path)


def _is_copy(vault: VaultInspection, memory: InspectedMemory, first: InspectedMemory) -> bool:
    """Return whether a file with a number after its name is a copy of the file without one."""
    ids = [entry.record.metadata.get("id") for entry in (memory, first)]
    if ids != [None, None]:
        return bool(ids[0] == ids[1])
    lines = [_distinct_lines(vault, entry) for entry in (memory, first)]
    common = lines[0] & lines[1]
    return sum(map(len, common)) >= _MIN_COMMON_CHARACTERS and len(
        common
    ) >= _MIN_COMMON_LINES * max(map(len, lines))


def _distinct_lines(vault: VaultInspection, entry: InspectedMemory) -> set[str]:
    memory = _parse_memory(vault, entry)
    return set(memory.body.split("\n")) - {""} if memory is not None else set()


def _has_same_content(
    vault: VaultInspection, copy: InspectedMemory, first: InspectedMemory
) -> bool:
    """Return whether two files have the same content, ignoring their modification times."""
    if copy.file.etag == first.file.etag:
        return bool(copy.file.etag)
    copied, original = _parse_memory(vault, copy), _parse_memory(vault, first)
    if copied is None or original is None or copied.problem or original.problem:
        return False
    return copied.body == original.body and _stable_metadata(copied) == _stable_metadata(original)


def _stable_metadata(memory: Memory) -> dict[str, object]:
    return {key: value for key, value in memory.metadata.items() if key != "modified"}


def _parse_memory(vault: VaultInspection, memory: InspectedMemory) -> Memory | None:
    try:
        data = plain_files.read(vault.call.root / memory.path)
    except OSError:
        return None
    return vault.call.store.parse(data, FileState.of(memory.path, data))


@check("names-merge", "warning", "Names that differ only in case or Unicode normalization")
def case_collisions(vault: VaultInspection) -> Iterator[Finding]:
    """Find names that are equal on a file system that ignores case or normalizes Unicode."""
    same_names: dict[str, list[str]] = defaultdict(list)
    for path in sorted((*vault.tree["file"], *vault.tree["folder"])):
        same_names[path.lower() if path.isascii() else normalize_title(path)].append(path)
    for first, *others in same_names.values():
        for path in others:
            if PurePosixPath(path).name == PurePosixPath(first).name:
                continue  # The folders that contain them are reported.
            first_shown, other_shown = _distinguishable(first, path)
            message = (
                f"{other_shown} and {first_shown} differ only in case or Unicode normalization"
            )
            yield Finding(path, f"{message}: rename one of them")


def _distinguishable(one: str, other: str) -> tuple[str, str]:
    """Return two names in forms that show how they differ."""
    if normalize("NFC", one) != normalize("NFC", other):
        return replace_surrogates(one), replace_surrogates(other)
    first, second = (name.encode("ascii", "backslashreplace").decode() for name in (one, other))
    return first, second


_GENERATED_ID = re.compile(r"(.+)-[a-z0-9]{6}")
_NUMBER_SUFFIX = re.compile(r"-\d{1,6}$")
_MAX_ID_SLUG = 40


@check("title-apart", "note", "A title and file name that used to match but no longer do")
def changed_titles(vault: VaultInspection) -> Iterator[Finding]:
    """Find memories whose title and file name once matched and now differ.

    Only memories that memvault named, recognizable by the format of their id, are checked, because
    people may choose any name for their own files. Copies are skipped, because they have the id of
    another memory.
    """
    for given_id, (memory, *others) in vault.by_id.items():
        match = _GENERATED_ID.fullmatch(given_id)
        if match is None or others or memory.record.metadata.get("id") != given_id:
            continue
        stem = _stem(memory.path)
        title = slug(memory.record.title)
        if title == stem or given_id == derived_id(memory.path):
            continue
        names = set(map(slug, {stem, _NUMBER_SUFFIX.sub("", stem)}))
        if title not in names and match[1] in {
            slug(name, _MAX_ID_SLUG) for name in (title, *names)
        }:
            message = f"Its title is {memory.record.title!r}: rename the file, or set the title"
            yield Finding(memory.path, message)
