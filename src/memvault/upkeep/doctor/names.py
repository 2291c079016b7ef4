"""Checks of names: copies that a sync kept, names that are one elsewhere, and titles."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import PurePosixPath
from unicodedata import normalize

from memvault.model import FileState, Memory
from memvault.upkeep.doctor.findings import Finding, Fix
from memvault.upkeep.doctor.look import InspectedMemory, VaultInspection
from memvault.vault import codec, layout
from memvault.vault.codec import replace_surrogates
from memvault.vault.normal_form import normalize_title

# How syncs name the copy that they keep where both sides changed a file:
# Syncthing, docs.syncthing.net/users/syncing: NAME.sync-conflict-DATE-TIME-MODIFIEDBY.EXT
# Dropbox, help.dropbox.com/organize/conflicted-copy: NAME (SOMEONE's conflicted copy DATE).EXT
# ownCloud, doc.owncloud.com/desktop/next/conflicts.html, and Nextcloud:
#   NAME (conflicted copy DATE TIME).EXT, earlier NAME_conflict-DATE-TIME.EXT
# Obsidian Sync, obsidian.md/help/sync/troubleshoot: NAME (Conflicted copy DEVICE DATETIME).EXT
# git, where a folder has the file's name: NAME~HEAD, NAME~BRANCH, NAME~COMMIT (SUBJECT)
# iCloud, github.com/logseq/logseq issue 6972: NAME 2.EXT, which people write too
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
"""The share of lines that two files with names like iCloud's have in common at least."""
_SAYS_MUCH = 100
"""Characters from which on a text is not as another one by chance, as new notes are."""
_MADE = re.compile(r"(.+)-[a-z0-9]{6}")
_NUMBER = re.compile(r"-\d{1,6}$")
_LONGEST_ID_SLUG = 40


def sync_copies(look: VaultInspection) -> Iterator[tuple[InspectedMemory, InspectedMemory | None]]:
    """Yield each copy that a sync kept, with its original where that is there."""
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
    """Say whether a file with a number behind its name is a copy of the one without."""
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
    """Find copies that a sync kept; one of a memory that says the same as it may go."""
    for copy, first in sync_copies(look):
        if first is None:
            said = "It is a copy that a sync kept of a conflict, and the original is gone"
            yield Finding("sync-conflict", copy.path, said)
        elif _same(look, copy, first):
            fix = Fix("trash", "move it to the trash", copy.path, copy.etag)
            said = f"It is a copy that a sync kept, and says the same as {replace_surrogates(first.path)}"
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
    """Return the name of which a file is a copy by its name; empty where it is none."""
    match = _CONFLICT.search(stem)
    return stem[: match.start()] if match else ""


def _same(look: VaultInspection, copy: InspectedMemory, first: InspectedMemory) -> bool:
    """Say whether two files say the same, whenever each was changed."""
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
    return codec.read_memory(data, FileState(note.path, len(data), 0, 0, 0), look.types)


def case_collisions(look: VaultInspection) -> Iterator[Finding]:
    """Find names that a file system which folds case or normalises Unicode takes for one."""
    alike: dict[str, list[str]] = defaultdict(list)
    for path in sorted((*look.tree.files, *look.tree.folders)):
        alike[normalize_title(path) if not path.isascii() else path.lower()].append(path)
    for first, *others in alike.values():
        for path in others:
            if PurePosixPath(path).name == PurePosixPath(first).name:
                continue  # their folders are told
            one, other = _told_apart(first, path)
            said = (
                f"Where case and the form of Unicode do not count, {other} and {one} are one name"
            )
            yield Finding("names-merge", path, f"{said}: rename one of them")


def _told_apart(one: str, other: str) -> tuple[str, str]:
    """Return two names so that a reader sees how they differ."""
    if normalize("NFC", one) != normalize("NFC", other):
        return replace_surrogates(one), replace_surrogates(other)
    first, second = (name.encode("ascii", "backslashreplace").decode() for name in (one, other))
    return first, second


def titles(look: VaultInspection) -> Iterator[Finding]:
    """Find memories whose title and file name were one and fell apart.

    Only of those that memvault named, as the id tells: people call their own
    files as they like. A copy has the id of another one.
    """
    count = Counter(note.record.mem_id for note in look.notes)
    for note in look.notes:
        own = note.record.metadata.get("id")
        made = _MADE.fullmatch(own) if isinstance(own, str) else None
        if made is None or count[note.record.mem_id] > 1 or own == layout.derived_id(note.path):
            continue
        stem = PurePosixPath(note.path).stem
        title = layout.slug(note.record.title)
        names = {layout.slug(stem), layout.slug(_NUMBER.sub("", stem))}
        was = {layout.slug(name, _LONGEST_ID_SLUG) for name in (title, *names)}
        if title not in names and made[1] in was:
            said = f"Its title is {note.record.title!r}: rename the file, or set the title"
            yield Finding("title-apart", note.path, said)
