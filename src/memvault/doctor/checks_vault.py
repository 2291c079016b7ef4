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
from memvault.sanitize import replace_surrogates
from memvault.store import writer
from memvault.vault.file_names import (
    SUPERSEDED_BY,
    SUPERSEDES,
    name_key,
    name_keys,
    referenced_names,
)
from memvault.vault.markdown import Link

_MAX_LINKS_SHOWN = 5
_SECOND_COPY = re.compile(r"(.+)_[2-9]")


class _Names:
    """A lookup from the names used in headers to memories."""

    def __init__(self, inspection: VaultInspection) -> None:
        self._owners: dict[str, str] = {}  # any one of the memories with a name
        self._shared: set[str] = set()
        for note in inspection.notes:
            record = note.record
            for name in name_keys(record.path, record.mem_id, record.title, record.aliases):
                if self._owners.setdefault(name, note.path) != note.path:
                    self._shared.add(name)

    def another(self, note: InspectedMemory, name: str) -> str:
        """Return the path of another memory that has a name; empty if there is none."""
        key = name_key(name)
        owner = self._owners.get(key, "")
        return owner if owner != note.path or key in self._shared else ""


def superseding(inspection: VaultInspection) -> Iterator[Finding]:
    """Find headers whose ``supersedes`` or ``superseded_by`` names no other memory."""
    names = _Names(inspection)
    for note in inspection.notes:
        for key in (SUPERSEDES, SUPERSEDED_BY):
            for name in referenced_names(note.record.metadata, key):
                if not names.another(note, name):
                    message = f"Its {key} names {name!r}, which is no other memory"
                    yield Finding("supersedes-broken", note.path, message)


def circles(inspection: VaultInspection) -> Iterator[Finding]:
    """Find memories that replace each other in a cycle; report each cycle for one file."""
    names = _Names(inspection)
    replaced: dict[str, list[str]] = {}
    for note in inspection.notes:
        for key in (SUPERSEDES, SUPERSEDED_BY):
            for name in referenced_names(note.record.metadata, key):
                other = names.another(note, name)
                if other and other != note.path:
                    newer, older = (note.path, other) if key == SUPERSEDES else (other, note.path)
                    replaced.setdefault(newer, []).append(older)
    for circle in _find_cycles(replaced):
        first = circle.index(min(circle))
        rotated = circle[first:] + circle[:first]
        shown = ", ".join(map(replace_surrogates, rotated[1 : _MAX_LINKS_SHOWN + 1]))
        more = (
            f" and {len(rotated) - 1 - _MAX_LINKS_SHOWN} more"
            if len(rotated) - 1 > _MAX_LINKS_SHOWN
            else ""
        )
        message = f"It and {shown}{more} replace each other in a circle: take one supersedes out"
        yield Finding("supersedes-circle", rotated[0], message)


def _find_cycles(graph: Mapping[str, list[str]]) -> Iterator[list[str]]:
    """Yield cycles of a graph; of cycles that share a node, some may be omitted."""
    done: set[str] = set()
    reported: set[str] = set()
    for start in sorted(graph):
        open_nodes: dict[str, Iterator[str]] = {} if start in done else {start: iter(graph[start])}
        while open_nodes:
            node = next(reversed(open_nodes))
            for successor in open_nodes[node]:
                if successor in open_nodes and not {node, successor} & reported:
                    circle = list(open_nodes)[list(open_nodes).index(successor) :]
                    reported.update(circle)
                    yield circle
                elif successor not in open_nodes and successor not in done:
                    open_nodes[successor] = iter(graph.get(successor, ()))
                    break
            else:
                done.add(node)
                del open_nodes[node]


def kept_twice(inspection: VaultInspection) -> Iterator[Finding]:
    """Find memories that git sync kept as two files.

    Also find the header entry that remains after such a conflict has been settled.
    """
    names = _Names(inspection)
    for note in inspection.notes:
        linked_names = referenced_names(note.record.metadata, LINK)
        existing = [path for path in (names.another(note, name) for name in linked_names) if path]
        if existing:
            message = (
                f"Both sides changed it, and git sync kept {replace_surrogates(existing[0])} too"
            )
            yield Finding("kept-twice", note.path, f"{message}: put them together, then forget one")
        elif linked_names:
            description = f"take {LINK} out of its header"
            fix = Fix("header", description, note.path, note.etag, ((LINK, None),))
            message = f"Its {LINK} names {linked_names[0]!r}, which is gone"
            yield Finding("link-settled", note.path, message, fix)


def kept_twice_by_agents(inspection: VaultInspection) -> Iterator[Finding]:
    """Find files of agents and spaces that git sync kept twice, recognised by their names."""
    files = set(inspection.tree.files)
    for path in files:
        pure = PurePosixPath(path)
        match = _SECOND_COPY.fullmatch(pure.stem)
        first = str(pure.with_name(f"{match[1]}{pure.suffix}")) if match else ""
        if first in files and pure.parts[0] in ("agents", "spaces"):
            message = f"Both sides changed {replace_surrogates(first)}, and git sync kept this too"
            yield Finding("kept-twice", path, f"{message}: put them together, then delete one")


def broken_links(inspection: VaultInspection) -> Iterator[Finding]:
    """Find links in texts whose target is missing.

    A link may refer to a memory by any of its names, including the aliases in its header, and to a
    file by its name or the end of its path, as Obsidian does. Markdown links may lead to anything,
    so only those to notes are checked.
    """
    if not any(note.links for note in inspection.notes):
        return
    known = {name_key(name) for path in inspection.tree.files for name in _path_suffixes(path)}
    for note in inspection.notes:
        record = note.record
        known.update(name_keys(record.path, record.mem_id, record.title, record.aliases))
    for note in inspection.notes:
        unresolved = [link for link in note.links if not _is_resolved(link, note.path, known)]
        broken = list(dict.fromkeys(map(_link_text, unresolved)))
        for shown in broken[:_MAX_LINKS_SHOWN]:
            yield Finding("link-broken", note.path, f"{shown} leads to no file")
        if len(broken) > _MAX_LINKS_SHOWN:
            more = len(broken) - _MAX_LINKS_SHOWN
            yield Finding("link-broken", note.path, f"{more} more of its links lead to no file")


def _link_text(link: Link) -> str:
    return f"[[{link.target}]]" if link.is_wikilink else f"[{link.shown}]({link.target})"


def _is_resolved(link: Link, path: str, known: set[str]) -> bool:
    bare = link.target.removeprefix("./").strip("/")
    relative = posixpath.normpath(posixpath.join(posixpath.dirname(path), link.target))
    if not link.is_wikilink and (relative.startswith("../") or bare[-3:].lower() != ".md"):
        return True  # leads out of the vault, or not to a note
    return any(name_key(text) in known for text in (bare, relative))


def _path_suffixes(path: str) -> Iterator[str]:
    """Yield a path and what remains after removing each of its leading folders."""
    parts = path.split("/")
    for start in range(len(parts)):
        yield "/".join(parts[start:])


_MAX_ENTRIES_SHOWN = 20


def nested_vaults(inspection: VaultInspection) -> Iterator[Finding]:
    """Find vaults inside this one, and a vault that contains it."""
    for path in inspection.tree.files:
        folder, name = posixpath.split(path)
        if folder and name == SETTINGS_FILE:
            message = f"{folder} is a vault inside this one: move it out, or name it under ignore"
            yield Finding("vault-inside", path, message)
    if inspection.machine.vault_above:
        message = f"This vault lies inside another one, {inspection.machine.vault_above}"
        yield Finding("vault-inside", "", f"{message}: move it out, or name it under ignore there")


def repositories(inspection: VaultInspection) -> Iterator[Finding]:
    """Find git repositories inside the one that contains the vault."""
    for path in inspection.machine.repositories:
        message = "It is a git repository of its own, so the vault's does not hold what is in it"
        yield Finding("repository-inside", path, f"{message}: {program.HINT}")


def special_files(inspection: VaultInspection) -> Iterator[Finding]:
    """Find symbolic links that lead out of the vault or nowhere, pipes and devices."""
    for path in inspection.tree.links_out:
        message = "The link leads out of the vault, so memvault does not follow it"
        yield Finding("link-outside", path, message)
    for path in inspection.tree.dangling:
        yield Finding("link-dangling", path, "The link leads nowhere: what it names is gone")
    for path in inspection.tree.special:
        message = "It is a pipe, a socket or a device, so memvault does not read it"
        yield Finding("file-special", path, message)


def private(inspection: VaultInspection) -> Iterator[Finding]:
    """Find problems of the folder ``.memvault``, and what killed processes left behind."""
    machine = inspection.machine
    for path in machine.temporary:
        fix = Fix("sweep", "delete it")
        yield Finding("temporary-left", path, "A killed process left it half-written", fix)
    for path in machine.held:
        message = "The process that held this lock is gone"
        yield Finding("lock-left", path, message, Fix("unlock", "delete it"))
    if machine.move_left:
        message = "A move was cut off, and finishing it did not work: is another memvault running?"
        yield Finding("move-left", writer.FILE, message)
    for path, problem in machine.state_too_large:
        yield Finding("file-too-large", path, f"The file is {problem}")
    if machine.unignored:
        fix = Fix("ignore", "write .memvault/.gitignore")
        yield Finding("private-not-ignored", ".memvault", "Nothing keeps it out of git", fix)
    if machine.in_git:
        message = "git keeps it, and it is of this machine: git rm -r --cached .memvault"
        yield Finding("private-in-git", machine.in_git, message)
    if machine.git_locked:
        message = "git's lock is older than an hour: delete the file if no git is running"
        yield Finding("git-locked", ".git/index.lock", message)


def history_problems(inspection: VaultInspection) -> Iterator[Finding]:
    """Find problems of the journal, the revisions and the trash."""
    machine = inspection.machine
    for name, count in machine.journal:
        message = f"{count} of its lines cannot be read, so undo knows nothing of what they say"
        yield Finding("journal-unreadable", f".memvault/journal/{name}", message)
    if machine.overdue:
        fix = Fix("prune", "delete them for good", for_good=True)
        message = f"{machine.overdue} revisions and trashed files are past the limits of [history]"
        yield Finding("history-over-limit", ".memvault", message, fix)
    for path, problem in machine.damaged:
        message = f"The revision {problem}, so restore and undo do not use it"
        yield Finding("revision-damaged", path, message)


def index(inspection: VaultInspection) -> Iterator[Finding]:
    """Find index entries that differ from their files, and problems of embedding models."""
    machine = inspection.machine
    fix = Fix("reindex", "make the index anew")
    for path in machine.stale[:_MAX_ENTRIES_SHOWN]:
        yield Finding("index-wrong", path, "The index has another text of it than the file", fix)
    if len(machine.stale) > _MAX_ENTRIES_SHOWN:
        more = len(machine.stale) - _MAX_ENTRIES_SHOWN
        yield Finding("index-wrong", "", f"The index has {more} more files otherwise", fix)
    if machine.engine:
        yield Finding("index-wrong", "", f"The engine is not as it was left: {machine.engine}", fix)
    if machine.model_problem:
        yield Finding("model-missing", "", machine.model_problem)
    if machine.waiting:
        message = f"{machine.waiting} memories have no deep vectors yet"
        yield Finding(
            "vectors-missing",
            "",
            f"{message}; the next recall begins to make them, or memvault reindex",
        )
    if machine.old_vectors:
        fix = Fix("vectors", "delete them")
        message = f"Vectors of {machine.old_vectors} models are kept that are no longer in use"
        yield Finding("vectors-old", "", message, fix)
