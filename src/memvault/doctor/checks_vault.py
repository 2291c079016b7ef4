"""Checks of references, links, the vault's folder, git, the index, models and history."""

from __future__ import annotations

import contextlib
import os
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath

from memvault.arguments.parameters import normal_name
from memvault.call import Call
from memvault.command_table import GROUPS, TOOLS
from memvault.doctor.file_problems import remove_temporary_files
from memvault.doctor.findings import Finding, Fix, check, set_header
from memvault.doctor.inspection import InspectedMemory, VaultInspection
from memvault.errors import MemvaultError
from memvault.files import atomic, plain_files
from memvault.files.user_folders import SETTINGS_FILE
from memvault.git.tree_merge import LINK
from memvault.index.protocol import LinkEntry, StoredLink
from memvault.recall.filters import Filters
from memvault.repository import program
from memvault.repository.approved import approved_repository
from memvault.repository.location import find, has_stale_lock
from memvault.sanitize import replace_surrogates
from memvault.store.change_set import MOVE_INTENT
from memvault.vault import document, paths, program_files
from memvault.vault.file_names import (
    SUPERSEDED_BY,
    SUPERSEDES,
    ends,
    name_key,
    name_keys,
    referenced_names,
)
from memvault.vault.init import TEMPLATE
from memvault.vault.markdown import links
from memvault.vault.markdown_inline import Link, path_beside
from memvault.vault.paths import private_folder

_MAX_LINKS_SHOWN = 5
_MAX_ENTRIES_SHOWN = 20
_GIT_SECONDS = 5.0
_SECOND_COPY = re.compile(r"(.+)_[2-9]")


def _references(vault: VaultInspection, *keys: str) -> Iterator[tuple[InspectedMemory, str, str]]:
    """Yield each memory, key and name in a header that names another memory."""
    for memory in vault.memories:
        for key in keys:
            for name in referenced_names(memory.record.metadata, key):
                yield memory, key, name


def _other_memory(vault: VaultInspection, memory: InspectedMemory, name: str) -> str:
    """Return the path of another memory that a header names; empty if there is none."""
    key = name_key(name)
    for record in vault.links.named(name):
        names = name_keys(record.path, record.mem_id, record.title, record.aliases)
        if record.path != memory.path and key in names:
            return record.path
    return ""


@check(
    "supersedes-broken", "warning", "`supersedes` or `superseded_by` with a name that no memory has"
)
def broken_references(vault: VaultInspection) -> Iterator[Finding]:
    for memory, key, name in _references(vault, SUPERSEDES, SUPERSEDED_BY):
        if not _other_memory(vault, memory, name):
            yield Finding(memory.path, f"Its {key} names {name!r}, which is no other memory")


@check("supersedes-circle", "warning", "Memories that replace each other in a circle")
def circles(vault: VaultInspection) -> Iterator[Finding]:
    """Find memories that replace each other in a cycle; report each cycle for one file."""
    replaced: dict[str, list[str]] = {}
    for memory, key, name in _references(vault, SUPERSEDES, SUPERSEDED_BY):
        if other := _other_memory(vault, memory, name):
            newer, older = (memory.path, other) if key == SUPERSEDES else (other, memory.path)
            replaced.setdefault(newer, []).append(older)
    for circle in _find_cycles(replaced):
        first = circle.index(min(circle))
        path, *others = circle[first:] + circle[:first]
        shown = ", ".join(map(replace_surrogates, others[:_MAX_LINKS_SHOWN]))
        more = len(others) - _MAX_LINKS_SHOWN
        shown += f" and {more} more" if more > 0 else ""
        message = f"It and {shown} replace each other in a circle: take one supersedes out"
        yield Finding(path, message)


def _find_cycles(graph: Mapping[str, list[str]]) -> Iterator[list[str]]:
    """Yield cycles of a graph in linear time; of cycles that share a node, some may be omitted.

    ``graphlib`` finds one cycle at a time: 24 s for 5,000 pairs of memories.
    """
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


@check(
    "kept-twice",
    "warning",
    "A memory that `memvault git sync` kept as two, since both sides changed it",
)
def kept_twice(vault: VaultInspection) -> Iterator[Finding]:
    """Find files that git sync kept twice: memories by their headers, others by their names."""
    for memory in vault.memories:
        names = referenced_names(memory.record.metadata, LINK)
        existing = next(filter(None, (_other_memory(vault, memory, name) for name in names)), "")
        if existing:
            message = f"Both sides changed it, and git sync kept {replace_surrogates(existing)} too"
            message = f"{message}: put them together, then forget one"
            yield Finding(memory.path, message, other=existing)
    files = set(vault.tree["file"])
    for path in files:
        pure = PurePosixPath(path)
        match = _SECOND_COPY.fullmatch(pure.stem)
        first = str(pure.with_name(f"{match[1]}{pure.suffix}")) if match else ""
        if first in files and pure.parts[0] in ("agents", "spaces"):
            message = f"Both sides changed {replace_surrogates(first)}, and git sync kept this too"
            yield Finding(path, f"{message}: put them together, then delete one", other=first)


@check(
    "link-settled",
    "note",
    "`conflict_with` a memory that is gone: the conflict was settled",
    fix="takes the line out of the header",
)
def settled_conflicts(vault: VaultInspection) -> Iterator[Finding]:
    for memory in vault.memories:
        names = referenced_names(memory.record.metadata, LINK)
        if names and not any(_other_memory(vault, memory, name) for name in names):
            fix = set_header(memory.file, f"take {LINK} out of its header", {LINK: None})
            yield Finding(memory.path, f"Its {LINK} names {names[0]!r}, which is gone", fix)


_FILE_SUFFIXES = frozenset(
    ".md .png .jpg .jpeg .gif .webp .avif .svg .bmp .heic .tif .tiff .pdf .epub .txt .csv .mp3 "
    ".m4a .wav .ogg .flac .mp4 .mov .webm .mkv .zip .doc .docx .xls .xlsx .ppt .pptx .odt .ods "
    ".odp .canvas .excalidraw".split()
)
"""The suffixes of files that a link, unless it embeds them, is expected to find in the vault."""


@check(
    "link-broken",
    "note",
    "A `[[link]]`, or a markdown link to a note, a picture or another file, that leads to no file",
)
def broken_links(vault: VaultInspection) -> Iterator[Finding]:
    """Find links in texts whose target is missing.

    A link may refer to a memory by any of its names, including the aliases in its header, and to a
    file by its name or the end of its path, as Obsidian does. Markdown links may lead to anything,
    so only those that embed, and those to notes and attachments, are checked.
    """
    files = {name_key(name) for path in vault.tree["file"] for name in (path, *ends(path))}
    for entry in vault.links.entries.values():
        unresolved = {
            (link.target, link.beside)
            for link in entry.links
            if not _is_resolved(vault, link, entry, files)
        }
        if not unresolved:
            continue
        broken = dict.fromkeys(
            _shown_link(link)
            for link in _links_in(vault.call, entry.path)
            if (link.target, link.path_beside(entry.path)) in unresolved and _is_checked(link)
        )
        for shown in list(broken)[:_MAX_LINKS_SHOWN]:
            yield Finding(entry.path, f"{shown} leads to no file")
        if len(broken) > _MAX_LINKS_SHOWN:
            more = len(broken) - _MAX_LINKS_SHOWN
            yield Finding(entry.path, f"{more} more of its links lead to no file")


def _shown_link(link: Link) -> str:
    if link.is_wikilink:
        return f"[[{link.target}]]"
    return f"{'!' if link.is_embed else ''}[{link.shown}]({link.target})"


def _is_checked(link: Link) -> bool:
    suffix = posixpath.splitext(link.target)[1].lower()
    return link.is_wikilink or (link.is_embed and bool(suffix)) or suffix in _FILE_SUFFIXES


def _is_resolved(
    vault: VaultInspection, link: StoredLink, entry: LinkEntry, files: set[str]
) -> bool:
    bare = link.target.removeprefix("./").strip("/")
    if link.key:
        return True  # is in the header
    if name_key(bare) in files or vault.links.has_name(bare):
        return True
    relative = link.beside or path_beside(link.target, entry.path)
    if link.beside.startswith("../"):
        return True  # leads out of the vault
    return name_key(relative) in files or vault.links.has_name(relative)


def _links_in(call: Call, path: str) -> list[Link]:
    """Return the links in the text of a memory as it is now."""
    try:
        data = plain_files.read(call.root / path)
    except OSError:
        return []
    return list(links(document.body_of(data, call.settings.encoding)))


@check("tools-unknown", "error", "A name under `[mcp] tools` that is no profile and no tool")
def unknown_offered_tools(vault: VaultInspection) -> Iterator[Finding]:
    known = {normal_name(name) for name in ("core", "all", *GROUPS)}
    known |= {name for entry in TOOLS for name in (entry.tool, entry.words.replace(" ", "_"))}
    for word in filter(None, map(str.strip, vault.call.settings.mcp.tools.split(","))):
        if normal_name(word) not in known:
            message = f"mcp.tools: there is no profile or tool {word!r}"
            yield Finding(SETTINGS_FILE, f"{message}: memvault mcp --list-profiles names them")


@check("vault-inside", "warning", "A vault inside another one: both have the inner one's notes")
def nested_vaults(vault: VaultInspection) -> Iterator[Finding]:
    """Find vaults inside this one, and a vault that contains it.

    A caller who may not see paths gets only the name of the folder that contains it.
    """
    for path in vault.tree["file"]:
        folder, name = posixpath.split(path)
        if folder and name == SETTINGS_FILE:
            message = f"{folder} is a vault inside this one: move it out, or name it under ignore"
            yield Finding(path, message)
    root, sees_paths = vault.call.root, vault.call.caller.may_see_paths
    outer = next((one for one in root.parents if os.path.lexists(one / SETTINGS_FILE)), None)
    if outer is not None:
        message = f"This vault lies inside another one, {outer if sees_paths else outer.name}"
        yield Finding("", f"{message}: move it out, or name it under ignore there")


@check(
    "repository-inside",
    "warning",
    "A git repository inside of the vault's own: `memvault git sync` leaves it out",
)
def nested_repositories(vault: VaultInspection) -> Iterator[Finding]:
    for path in program.nested_repositories(vault.call.root, vault.tree["folder"]):
        message = "It is a git repository of its own, so the vault's does not hold what is in it"
        yield Finding(path, f"{message}: {program.HINT}")


@check(
    "read-by-programs",
    "note",
    "A file that programs read by themselves as instructions or settings",
)
def files_of_programs(vault: VaultInspection) -> Iterator[Finding]:
    """Find such files and folders, except the page of instructions that memvault wrote."""
    found = [path for path in (*vault.tree["file"], *_hidden(vault)) if _is_of_program(vault, path)]
    for path in found[:_MAX_ENTRIES_SHOWN]:
        read_as = program_files.read_as(path)
        message = f"Programs that run in this folder read it as {read_as}"
        yield Finding(path, f"{message}: delete it unless you know who wrote it")
    if (more := len(found) - _MAX_ENTRIES_SHOWN) > 0:
        yield Finding("", f"Programs that run in this folder read {more} more files")


def _is_of_program(vault: VaultInspection, path: str) -> bool:
    if not program_files.read_as(path):
        return False
    own = TEMPLATE / path
    if not own.is_file():
        return True
    with contextlib.suppress(OSError):
        return plain_files.read(vault.call.root / path) != own.read_bytes()
    return True


def _hidden(vault: VaultInspection) -> Iterator[str]:
    """Yield the hidden files and folders of the vault's folders, and what is directly in these."""
    for folder in ("", *vault.tree["folder"]):
        for name in _entries(vault.call.root / folder):
            path = f"{folder}/{name}".removeprefix("/")
            if not name.startswith(".") or name in (".git", ".memvault"):
                continue
            yield path
            if not program_files.read_as(path):
                yield from (f"{path}/{inner}" for inner in _entries(vault.call.root / path))


def _entries(folder: Path) -> list[str]:
    """Return the sorted names in a folder; empty for a symbolic link or if it is not a folder."""
    with contextlib.suppress(OSError):
        if not folder.is_symlink():
            return sorted(os.listdir(folder))
    return []


@check("link-outside", "warning", "A link of the file system that leads out of the vault")
def links_outside(vault: VaultInspection) -> Iterator[Finding]:
    for path in vault.tree["link out"]:
        yield Finding(path, "The link leads out of the vault, so memvault does not follow it")


@check("link-dangling", "warning", "A link of the file system that leads nowhere")
def dangling_links(vault: VaultInspection) -> Iterator[Finding]:
    for path in vault.tree["dangling"]:
        yield Finding(path, "The link leads nowhere: what it names is gone")


@check("file-special", "warning", "A pipe, a socket or a device that is called like a memory")
def special_files(vault: VaultInspection) -> Iterator[Finding]:
    for path in vault.tree["special"]:
        yield Finding(path, "It is a pipe, a socket or a device, so memvault does not read it")


@check("temporary-left", "note", "A half-written file of a killed process", fix="deletes it")
def temporary_files(vault: VaultInspection) -> Iterator[Finding]:
    fix = Fix("delete it", remove_temporary_files)
    for path in _relative(vault, atomic.abandoned_below(vault.call.root)):
        yield Finding(path, "A killed process left it half-written", fix)


def _has_private_folder(vault: VaultInspection) -> bool:
    private = vault.call.root / ".memvault"
    return private.is_dir() and not private.is_symlink()


def _relative(vault: VaultInspection, files: Iterable[Path]) -> list[str]:
    return [file.relative_to(vault.call.root).as_posix() for file in files]


@check(
    "move-left",
    "warning",
    "A move to another type's folder that was cut off and cannot be finished now",
)
def interrupted_move(vault: VaultInspection) -> Iterator[Finding]:
    """Find a move that refreshing the index did not complete."""
    if os.path.lexists(vault.call.root / MOVE_INTENT):
        message = "A move was cut off, and finishing it did not work: is another memvault running?"
        yield Finding(MOVE_INTENT, message)


@check(
    "private-not-ignored",
    "warning",
    "`.memvault` without the file that keeps it out of git",
    fix="writes it",
)
def private_not_ignored(vault: VaultInspection) -> Iterator[Finding]:
    if _has_private_folder(vault) and not (vault.call.root / ".memvault/.gitignore").is_file():
        fix = Fix("write .memvault/.gitignore", lambda call: private_folder(call.root))
        yield Finding(".memvault", "Nothing keeps it out of git", fix)


@check(
    "private-in-git", "error", "Files of `.memvault` that git tracks, if git may run in the vault"
)
def private_in_git(vault: VaultInspection) -> Iterator[Finding]:
    """Find a file of ``.memvault`` that git tracks."""
    if path := _tracked_private_file(vault.call.root):
        message = "Tracked by git although it is machine-local: git rm -r --cached .memvault"
        yield Finding(path, message)


def _tracked_private_file(root: Path) -> str:
    """Return a file of ``.memvault`` that git tracks; empty if git may not run in the vault."""
    with contextlib.suppress(MemvaultError):
        place = find(root)
        if place is not None:
            repository = approved_repository(root, place)
            return next(iter(program.tracked(repository.git, ".memvault", _GIT_SECONDS)), "")
    return ""


@check("git-locked", "warning", "A lock of git's that is older than an hour")
def locked_repository(vault: VaultInspection) -> Iterator[Finding]:
    if has_stale_lock(vault.call.root):
        message = "git's lock is older than an hour: delete the file if no git is running"
        yield Finding(".git/index.lock", message)


@check("journal-unreadable", "note", "Lines of the journal that cannot be read")
def unreadable_journal(vault: VaultInspection) -> Iterator[Finding]:
    for name, count in vault.call.store.changes.journal.damaged_lines():
        message = f"{count} of its lines cannot be read, so undo knows nothing of what they say"
        yield Finding(f".memvault/journal/{name}", message)


@check(
    "history-over-limit",
    "note",
    "Revisions and trash past what `[history]` keeps",
    fix="deletes them for good, only if named",
)
def expired_history(vault: VaultInspection) -> Iterator[Finding]:
    if count := vault.call.store.history.overdue().files:
        fix = Fix(
            "delete them for good", lambda call: call.store.history.prune(), irreversible=True
        )
        message = f"{count} revisions and trashed files are past the limits of [history]"
        yield Finding(".memvault", message, fix)


@check("revision-damaged", "warning", "A revision that cannot be read, or is not as it was kept")
def damaged_revisions(vault: VaultInspection) -> Iterator[Finding]:
    for file, problem in vault.call.store.history.verify():
        (path,) = _relative(vault, [file])
        yield Finding(path, f"The revision {problem}, so restore and undo do not use it")


@check(
    "revision-linked",
    "warning",
    "A revision or trashed copy that a killed change left as one file with that in the vault",
    fix="separates them",
)
def linked_revisions(vault: VaultInspection) -> Iterator[Finding]:
    if linked := _linked_revisions(vault.call, vault.tree["file"]):
        with vault.call.store.lock():  # a change that was being made has ended
            linked = _linked_revisions(vault.call, vault.tree["file"])
    fix = Fix("separate them", lambda call: _separate_revisions(call, vault.tree["file"]))
    for path in _relative(vault, linked):
        message = "It is the same file as one in the vault, and would change with it"
        yield Finding(path, message, fix)


def _linked_revisions(call: Call, files: list[str]) -> list[Path]:
    return list(call.store.history.linked(call.root / path for path in files))


def _separate_revisions(call: Call, files: list[str]) -> None:
    with call.store.lock():
        for path in _linked_revisions(call, files):
            with atomic.map_os_errors(path), contextlib.suppress(FileNotFoundError):
                call.store.history.separate(path)


@check("index-wrong", "error", "An index that says other than the files", fix="makes it anew")
def wrong_index(vault: VaultInspection) -> Iterator[Finding]:
    """Find index entries that differ from their files, and an engine from what was sent to it."""
    fix = Fix("make the index anew", lambda call: call.index.rebuild())
    stale = _stale_memories(vault)
    for path in stale[:_MAX_ENTRIES_SHOWN]:
        yield Finding(path, "The index has another text of it than the file", fix)
    if len(stale) > _MAX_ENTRIES_SHOWN:
        more = len(stale) - _MAX_ENTRIES_SHOWN
        yield Finding("", f"The index has {more} more files otherwise", fix)
    if vault.call.settings.index.engine != "local":
        from memvault.publishing import publish

        if difference := publish.difference(vault.call.workspace):
            yield Finding("", f"The engine is not as it was left: {difference}", fix)


@check(
    "index-unwritable",
    "warning",
    "An index that cannot be written, such as on a full disk: recall works without it, more slowly",
)
def unwritable_index(vault: VaultInspection) -> Iterator[Finding]:
    if problem := vault.index.unwritable:
        message = f"{problem}: free some space, or set MEMVAULT_CACHE to another folder"
        yield Finding("", vault.call.hide_paths(message))


def _stale_memories(vault: VaultInspection) -> list[str]:
    """Return the memories whose index entry differs from their file, after a second check.

    Files that were changed around the second refresh are left out: their difference does not show
    that the index is wrong.
    """
    call, known = vault.call, vault.memory_paths
    present = {path for path in vault.tree["file"] if paths.is_memory_path(path)}
    hidden = tuple(f"{folder}/" for folder in (*vault.tree["unreadable"], *vault.tree["too deep"]))
    suspects = {
        memory.path
        for memory in vault.memories
        if memory.file.etag and memory.file.etag != memory.record.etag
    }
    suspects |= present - known
    suspects |= {path for path in known - present if not path.startswith(hidden)}
    if not suspects:
        return []
    before = {path: _etag(call, path) for path in suspects}
    call.engine.invalidate()  # they may have been saved since the first refresh
    indexed = {record.path: record.etag for record in call.engine.list_records(Filters())}
    return sorted(
        path
        for path, etag in before.items()
        if etag != indexed.get(path, "") and etag == _etag(call, path)
    )


def _etag(call: Call, path: str) -> str:
    with contextlib.suppress(MemvaultError):
        return document.etag(call.store.read_bytes(path)[0])
    return ""


@check("model-missing", "warning", "An embedding model that cannot be used on this machine")
def missing_model(vault: VaultInspection) -> Iterator[Finding]:
    if problem := _model_problem(vault):
        yield Finding("", vault.call.hide_paths(problem))


def _model_problem(vault: VaultInspection) -> str:
    """Return why an embedder cannot be used; empty if there is no problem."""
    transformer = vault.index.transformer
    return vault.index.static.problem or transformer.note or transformer.problem


def _vectors_waiting(vault: VaultInspection) -> int | None:
    """Return how many memories lack vectors of the transformer; None if it is not used.

    While a process makes them, none are waiting.
    """
    transformer = vault.index.transformer
    if not vault.memories or transformer.mode == "off" or _model_problem(vault):
        return None
    return 0 if transformer.is_running else transformer.waiting


@check("vectors-missing", "note", "Memories that wait for the deep embedder")
def missing_vectors(vault: VaultInspection) -> Iterator[Finding]:
    if waiting := _vectors_waiting(vault):
        counted = f"{waiting} {'memory has' if waiting == 1 else 'memories have'}"
        message = f"{counted} no deep vectors yet"
        yield Finding("", f"{message}; the next recall begins to make them, or memvault reindex")


@check(
    "vectors-old",
    "note",
    "Vectors of a model that is no longer in use",
    fix="deletes them; they can be made anew",
)
def old_vectors(vault: VaultInspection) -> Iterator[Finding]:
    """Find vectors of other models, once those of the model in use are complete."""
    unused = vault.index.unused_models if _vectors_waiting(vault) == 0 else 0
    if unused:
        fix = Fix("delete them", lambda call: call.index.delete_unused_models())
        yield Finding("", f"Vectors of {unused} models are kept that are no longer in use", fix)
