"""Checks of references, links, the vault's folder, git, the index, models and history."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from memvault.doctor.findings import Finding, Fix
from memvault.doctor.inspection import InspectedMemory, VaultInspection
from memvault.files.user_folders import SETTINGS_FILE
from memvault.git import program
from memvault.git.tree_merge import LINK
from memvault.store import writer
from memvault.vault.document import replace_surrogates
from memvault.vault.file_names import (
    SUPERSEDED_BY,
    SUPERSEDES,
    name_key,
    name_keys,
    referenced_names,
)
from memvault.vault.markdown import Link

_MAX_LINKS_SHOWN = 5
_SECOND = re.compile(r"(.+)_[2-9]")


class _Names:
    """A lookup from the names used in headers to memories."""

    def __init__(self, look: VaultInspection) -> None:
        self._owners: dict[str, str] = {}  # any one of the memories with a name
        self._shared: set[str] = set()
        for note in look.notes:
            record = note.record
            for name in name_keys(record.path, record.mem_id, record.title, record.aliases):
                if self._owners.setdefault(name, note.path) != note.path:
                    self._shared.add(name)

    def another(self, note: InspectedMemory, name: str) -> str:
        """Return the path of another memory that has a name; empty if there is none."""
        key = name_key(name)
        found = self._owners.get(key, "")
        return found if found != note.path or key in self._shared else ""


def superseding(look: VaultInspection) -> Iterator[Finding]:
    """Find headers whose ``supersedes`` or ``superseded_by`` names no other memory."""
    names = _Names(look)
    for note in look.notes:
        for key in (SUPERSEDES, SUPERSEDED_BY):
            for name in referenced_names(note.record.metadata, key):
                if not names.another(note, name):
                    said = f"Its {key} names {name!r}, which is no other memory"
                    yield Finding("supersedes-broken", note.path, said)


def circles(look: VaultInspection) -> Iterator[Finding]:
    """Find memories that replace each other in a cycle; report each cycle for one file."""
    names = _Names(look)
    replaced: dict[str, list[str]] = {}
    for note in look.notes:
        for key in (SUPERSEDES, SUPERSEDED_BY):
            for name in referenced_names(note.record.metadata, key):
                other = names.another(note, name)
                if other and other != note.path:
                    newer, older = (note.path, other) if key == SUPERSEDES else (other, note.path)
                    replaced.setdefault(newer, []).append(older)
    for circle in _circles(replaced):
        first = circle.index(min(circle))
        turned = circle[first:] + circle[:first]
        shown = ", ".join(map(replace_surrogates, turned[1 : _MAX_LINKS_SHOWN + 1]))
        more = (
            f" and {len(turned) - 1 - _MAX_LINKS_SHOWN} more"
            if len(turned) - 1 > _MAX_LINKS_SHOWN
            else ""
        )
        said = f"It and {shown}{more} replace each other in a circle: take one supersedes out"
        yield Finding("supersedes-circle", turned[0], said)


def _circles(after: Mapping[str, list[str]]) -> Iterator[list[str]]:
    """Yield cycles of a graph; of cycles that share a node, some may be omitted."""
    done: set[str] = set()
    told: set[str] = set()
    for start in sorted(after):
        way: dict[str, Iterator[str]] = {} if start in done else {start: iter(after[start])}
        while way:
            here = next(reversed(way))
            for place in way[here]:
                if place in way and not {here, place} & told:
                    circle = list(way)[list(way).index(place) :]
                    told.update(circle)
                    yield circle
                elif place not in way and place not in done:
                    way[place] = iter(after.get(place, ()))
                    break
            else:
                done.add(here)
                del way[here]


def kept_twice(look: VaultInspection) -> Iterator[Finding]:
    """Find memories that git sync kept as two files.

    Also find the header entry that remains after such a conflict has been settled.
    """
    names = _Names(look)
    for note in look.notes:
        said = referenced_names(note.record.metadata, LINK)
        found = [path for path in (names.another(note, name) for name in said) if path]
        if found:
            why = f"Both sides changed it, and git sync kept {replace_surrogates(found[0])} too"
            yield Finding("kept-twice", note.path, f"{why}: put them together, then forget one")
        elif said:
            words = f"take {LINK} out of its header"
            fix = Fix("header", words, note.path, note.etag, ((LINK, None),))
            why = f"Its {LINK} names {said[0]!r}, which is gone"
            yield Finding("link-settled", note.path, why, fix)


def kept_twice_by_agents(look: VaultInspection) -> Iterator[Finding]:
    """Find files of agents and spaces that git sync kept twice, recognised by their names."""
    files = set(look.tree.files)
    for path in files:
        pure = PurePosixPath(path)
        match = _SECOND.fullmatch(pure.stem)
        first = str(pure.with_name(f"{match[1]}{pure.suffix}")) if match else ""
        if first in files and pure.parts[0] in ("agents", "spaces"):
            why = f"Both sides changed {replace_surrogates(first)}, and git sync kept this too"
            yield Finding("kept-twice", path, f"{why}: put them together, then delete one")


def broken_links(look: VaultInspection) -> Iterator[Finding]:
    """Find links in texts whose target is missing.

    A link may refer to a memory by any of its names, including the aliases in its header, and to a
    file by its name or the end of its path, as Obsidian does. Markdown links may lead to anything,
    so only those to notes are checked.
    """
    if not any(note.links for note in look.notes):
        return
    known = {name_key(name) for path in look.tree.files for name in _ends(path)}
    for note in look.notes:
        record = note.record
        known.update(name_keys(record.path, record.mem_id, record.title, record.aliases))
    for note in look.notes:
        leading = [link for link in note.links if not _leads(link, note.path, known)]
        broken = list(dict.fromkeys(map(_shown, leading)))
        for shown in broken[:_MAX_LINKS_SHOWN]:
            yield Finding("link-broken", note.path, f"{shown} leads to no file")
        if len(broken) > _MAX_LINKS_SHOWN:
            more = len(broken) - _MAX_LINKS_SHOWN
            yield Finding("link-broken", note.path, f"{more} more of its links lead to no file")


def _shown(link: Link) -> str:
    return f"[[{link.target}]]" if link.is_wikilink else f"[{link.shown}]({link.target})"


def _leads(link: Link, path: str, known: set[str]) -> bool:
    bare = link.target.removeprefix("./").strip("/")
    beside = posixpath.normpath(posixpath.join(posixpath.dirname(path), link.target))
    if not link.is_wikilink and (beside.startswith("../") or bare[-3:].lower() != ".md"):
        return True  # leads out of the vault, or not to a note
    return any(name_key(text) in known for text in (bare, beside))


def _ends(path: str) -> Iterator[str]:
    """Yield a path and what remains after removing each of its leading folders."""
    parts = path.split("/")
    for start in range(len(parts)):
        yield "/".join(parts[start:])


_SHOWN = 20


def nested_vaults(look: VaultInspection) -> Iterator[Finding]:
    """Find vaults inside this one, and a vault that contains it."""
    for path in look.tree.files:
        folder, name = posixpath.split(path)
        if folder and name == SETTINGS_FILE:
            said = f"{folder} is a vault inside this one: move it out, or name it under ignore"
            yield Finding("vault-inside", path, said)
    if look.machine.vault_above:
        said = f"This vault lies inside another one, {look.machine.vault_above}"
        yield Finding("vault-inside", "", f"{said}: move it out, or name it under ignore there")


def repositories(look: VaultInspection) -> Iterator[Finding]:
    """Find git repositories inside the one that contains the vault."""
    for path in look.machine.repositories:
        said = "It is a git repository of its own, so the vault's does not hold what is in it"
        yield Finding("repository-inside", path, f"{said}: {program.HINT}")


def special_files(look: VaultInspection) -> Iterator[Finding]:
    """Find symbolic links that lead out of the vault or nowhere, pipes and devices."""
    for path in look.tree.links_out:
        said = "The link leads out of the vault, so memvault does not follow it"
        yield Finding("link-outside", path, said)
    for path in look.tree.dangling:
        yield Finding("link-dangling", path, "The link leads nowhere: what it names is gone")
    for path in look.tree.special:
        said = "It is a pipe, a socket or a device, so memvault does not read it"
        yield Finding("file-special", path, said)


def private(look: VaultInspection) -> Iterator[Finding]:
    """Find problems of the folder ``.memvault``, and what killed processes left behind."""
    machine = look.machine
    for path in machine.temporary:
        fix = Fix("sweep", "delete it")
        yield Finding("temporary-left", path, "A killed process left it half-written", fix)
    for path in machine.held:
        said = "The process that held this lock is gone"
        yield Finding("lock-left", path, said, Fix("unlock", "delete it"))
    if machine.move_left:
        said = "A move was cut off, and finishing it did not work: is another memvault running?"
        yield Finding("move-left", writer.FILE, said)
    for path, problem in machine.state_too_large:
        yield Finding("file-too-large", path, f"The file is {problem}")
    if machine.unignored:
        fix = Fix("ignore", "write .memvault/.gitignore")
        yield Finding("private-not-ignored", ".memvault", "Nothing keeps it out of git", fix)
    if machine.in_git:
        said = "git keeps it, and it is of this machine: git rm -r --cached .memvault"
        yield Finding("private-in-git", machine.in_git, said)
    if machine.git_locked:
        said = "git's lock is older than an hour: delete the file if no git is running"
        yield Finding("git-locked", ".git/index.lock", said)


def history_problems(look: VaultInspection) -> Iterator[Finding]:
    """Find problems of the journal, the revisions and the trash."""
    machine = look.machine
    for name, count in machine.journal:
        said = f"{count} of its lines cannot be read, so undo knows nothing of what they say"
        yield Finding("journal-unreadable", f".memvault/journal/{name}", said)
    if machine.overdue:
        fix = Fix("prune", "delete them for good", for_good=True)
        said = f"{machine.overdue} revisions and trashed files are past the limits of [history]"
        yield Finding("history-over-limit", ".memvault", said, fix)
    for path, problem in machine.damaged:
        said = f"The revision {problem}, so restore and undo do not use it"
        yield Finding("revision-damaged", path, said)


def index(look: VaultInspection) -> Iterator[Finding]:
    """Find index entries that differ from their files, and problems of embedding models."""
    machine = look.machine
    fix = Fix("reindex", "make the index anew")
    for path in machine.stale[:_SHOWN]:
        yield Finding("index-wrong", path, "The index has another text of it than the file", fix)
    if len(machine.stale) > _SHOWN:
        more = len(machine.stale) - _SHOWN
        yield Finding("index-wrong", "", f"The index has {more} more files otherwise", fix)
    if machine.engine:
        yield Finding("index-wrong", "", f"The engine is not as it was left: {machine.engine}", fix)
    if machine.model_problem:
        yield Finding("model-missing", "", machine.model_problem)
    if machine.waiting:
        said = f"{machine.waiting} memories have no deep vectors yet"
        yield Finding(
            "vectors-missing",
            "",
            f"{said}; the next recall begins to make them, or memvault reindex",
        )
    if machine.old_vectors:
        fix = Fix("vectors", "delete them")
        said = f"Vectors of {machine.old_vectors} models are kept that are no longer in use"
        yield Finding("vectors-old", "", said, fix)
