"""Rename and move memories, and rewrite the links that use their old name.

A wikilink keeps its form: a link by title gets the new title, a link by path the new path. The rest
of the link, such as its heading and alias, stays. If the new name contains characters that would
end the link, the memId replaces it. Markdown links are relative to the folder of their file, so a
memory that moves also gets new targets for its own links, including links to images and other
files. A link by memId does not change.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Callable, Iterator
from pathlib import PurePosixPath
from typing import Any

from memvault.errors import Conflict, NotFound, Refused, UsageError
from memvault.index.protocol import MemoryRecord
from memvault.memories.create import clean_title
from memvault.memories.edit import modified_now
from memvault.memories.link_graph import LinkGraph, ResolvedLink, keys_of
from memvault.model import RESERVED_FOLDERS, Memory
from memvault.named_tuple import NamedTuple
from memvault.store.change_set import missing_as_not_found
from memvault.store.memory_store import MemoryStore, require_memory
from memvault.vault import document, naming, paths
from memvault.vault.aliases import aliases_after_rename
from memvault.vault.header_links import LINK_KEYS, is_wikilink, referenced_names
from memvault.vault.markdown import first_heading, headings
from memvault.vault.markdown_inline import (
    Link,
    moved_targets,
    relative_path,
    replaced,
    written_target,
)
from memvault.vault.names import NOT_IN_LINKS, link_path, name_key, path_suffixes


class LinkRewrite(NamedTuple):
    """A memory with links to update: how many, and the memory's new header values and body."""

    memory: Memory
    links: int
    changes: dict[str, Any]
    body: str | None


class RenamePlan(NamedTuple):
    """A new title or path for a memory, and the resulting changes to other memories."""

    memory: Memory
    title: str
    path: str
    others: list[LinkRewrite]

    @property
    def changes_nothing(self) -> bool:
        """Whether the memory already has this title and path."""
        return (self.title, self.path) == (self.memory.title, self.memory.path)


def plan_rename(
    store: MemoryStore, graph: Callable[[], LinkGraph], memory: Memory, title: str, destination: str
) -> RenamePlan:
    """Plan the changes for renaming a memory without writing anything.

    ``title`` and ``destination`` are empty to keep the current ones; a destination is a folder, or
    a path that ends with ``.md``.

    Raises:
        UsageError: the new title or destination is invalid, such as a hidden folder.
        NotFound: the memory's file was moved or deleted concurrently.
        Refused: the destination is outside the vault, excluded, below a file or a link, or contains
            a secret, or the memory is a document.
        Conflict: another file has that path.
    """
    require_memory(memory.path)
    new_title = clean_title(title) if title.strip() else ""
    path = _new_path(store, memory, new_title or memory.title, destination)
    title = new_title or _title_at(store, memory, path)
    if path != memory.path and _is_occupied(store, path, memory.path):
        raise Conflict(f"{path} already exists", "choose another name or folder")
    if path != memory.path:
        store.check_path(path)
    plan = RenamePlan(memory, title, path, [])
    if plan.changes_nothing:
        return plan
    links = graph()
    return plan._replace(others=list(_link_rewrites(store, links, plan)))


class Retyping(NamedTuple):
    """The path a memory moves to when its type changes, and the new bytes of other memories."""

    path: str
    edited: list[tuple[Memory, bytes]]

    def rewrite_links(self, store: MemoryStore, moved: Memory) -> None:
        """Write the edited memories, unless the memory was moved to an unexpected path.

        Raises:
            Conflict: a file was changed concurrently.
        """
        for other, data in self.edited if moved.path == self.path else ():
            store.rewrite_links(other, data)


def plan_retyping(store: MemoryStore, graph: LinkGraph, memory: Memory, path: str) -> Retyping:
    """Plan the changes to other memories for a new type that moves a memory to a path.

    Raises:
        Conflict: a file was changed concurrently.
        Refused: a file cannot be changed.
    """
    plan = RenamePlan(memory, memory.title, path, [])
    plan = plan._replace(others=list(_link_rewrites(store, graph, plan)))
    return Retyping(path, _edited(store, plan))


def _is_occupied(store: MemoryStore, path: str, source: str) -> bool:
    """Return whether another file is at a path; the source may differ from it only in case.

    Raises:
        NotFound: there is no file at ``source``.
    """
    if not os.path.lexists(store.root / path):
        return False
    with missing_as_not_found(source):
        present = os.lstat(store.root / source)
    try:
        return not os.path.samestat(os.lstat(store.root / path), present)
    except FileNotFoundError:
        return False


def _title_at(store: MemoryStore, memory: Memory, path: str) -> str:
    """Return the title that a memory has at a path, which may depend on the file name."""
    data, state = store.read_bytes(memory.path)
    return store.parse(data, state._replace(path=path)).title


def _new_path(store: MemoryStore, memory: Memory, title: str, destination: str) -> str:
    masked = store.settings.detector.masked
    old = PurePosixPath(memory.path)
    stem = old.stem
    if title != memory.title:
        shown = masked(title)
        if stem == memory.title and shown == title:
            stem = naming.file_name(title)
        elif stem == memory.title or naming.slug(memory.title) == stem:
            stem = naming.slug(shown)
    if not destination.strip():
        return str(old.with_name(f"{stem}{old.suffix}"))
    is_file = destination.lower().endswith(".md") and not destination.endswith("/")
    new_path = destination if is_file else f"{destination.rstrip('/') or '.'}/{stem}{old.suffix}"
    if store.settings.secrets.on_write != "off" and masked(new_path) != new_path:
        raise Refused("The path contains a secret, and paths are not masked", "choose another path")
    broken = sorted(NOT_IN_LINKS.intersection(destination))
    if broken:
        raise UsageError(
            f"Links to a path with {' '.join(broken)} do not work", "remove these characters"
        )
    path = paths.resolve_inside(store.root, new_path)
    if not paths.is_memory_path(path):
        raise UsageError(
            f"{path} is not a valid path for a memory",
            f"avoid hidden folders and {', '.join(sorted(RESERVED_FOLDERS))}",
        )
    return path


def _link_rewrites(
    store: MemoryStore, graph: LinkGraph, renaming: RenamePlan
) -> Iterator[LinkRewrite]:
    """Yield the memories with links to change, which may include the renamed one."""
    before = renaming.memory
    renamed = before._replace(
        path=renaming.path,
        title=renaming.title,
        metadata={**before.metadata, **_aliases(renaming)},
    )
    after = _graph_after(graph, before.path, renamed)
    linking = graph.may_lead_to({*keys_of(before), *keys_of(renamed)})
    for path in dict.fromkeys([*linking, before.path]):
        try:
            memory = store.read(path)
        except NotFound:
            continue
        changed = [
            (link, written)
            for link in graph.outgoing(memory)
            for written in [_new_target(link, renaming, graph, after)]
            if written is not None
        ]
        files = list(_file_targets(store, memory, renaming)) if path == before.path else []
        if changed or files:
            yield _rewrite_links(memory, changed, files)


def _file_targets(
    store: MemoryStore, memory: Memory, renaming: RenamePlan
) -> Iterator[tuple[Link, str]]:
    """Yield the renamed memory's links to other kinds of files, with their new targets."""

    def exists(path: str) -> bool:
        return not paths.is_memory(path, store.settings.exclusions) and store.has_file(path)

    yield from moved_targets(memory.body, memory.path, renaming.path, exists)


def _graph_after(graph: LinkGraph, old_path: str, renamed: Memory) -> LinkGraph:
    """Return the link graph as it will be after the rename, to see what names resolve to."""
    changed = {
        key: entry._replace(path=renamed.path, names=keys_of(renamed))
        for key, entry in graph.entries.items()
        if entry.path == old_path
    }

    def record(key: int) -> MemoryRecord:
        entry = graph.record(key)
        if key in changed:
            entry = entry._replace(
                path=renamed.path, title=renamed.title, metadata=renamed.metadata
            )
        return entry

    return LinkGraph({**graph.entries, **changed}, record)


def _aliases(renaming: RenamePlan) -> dict[str, Any]:
    """Return the aliases of the renamed memory, including its old title; empty if it has none."""
    memory = renaming.memory
    if renaming.title == memory.title:
        return {}
    aliases = {key: memory.metadata[key] for key in ("aliases",) if key in memory.metadata}
    return aliases | aliases_after_rename(
        memory._replace(path=renaming.path), renaming.title, keep_old=True
    )


def _new_target(
    link: ResolvedLink, renaming: RenamePlan, graph: LinkGraph, after: LinkGraph
) -> str | None:
    """Return the new target of a link, or None if it does not change.

    A link to another memory is rewritten if it would lead to the renamed memory, or if its own file
    moves to another folder.
    """
    if link.target is None:
        return None
    if link.link is None:
        return _new_name(link, renaming, graph, after)
    beside = graph.beside(link.link, link.source.path)
    if link.link.is_wikilink and beside is None:
        return _new_name(link, renaming, graph, after)
    return _new_path_target(link, link.link, beside is None, renaming, graph, after)


def _new_name(
    link: ResolvedLink, renaming: RenamePlan, graph: LinkGraph, after: LinkGraph
) -> str | None:
    """Return the new name in a wikilink or a header, or None if it does not change.

    A link must resolve to exactly its old target. If its name does not, the path or else the memId
    replaces the name. A name that was already ambiguous is not changed if it still resolves to the
    target first.
    """
    assert link.target is not None
    is_to_renamed = link.target.path == renaming.memory.path
    target = renaming.path if is_to_renamed else link.target.path
    name = _renamed_reference(link.name, renaming, after) if is_to_renamed else link.name
    is_from_renamed = link.source.path == renaming.memory.path
    source = renaming.path if is_from_renamed else link.source.path
    destination = after.by_name(name, source)
    was_ambiguous = name == link.name and graph.is_ambiguous(name)
    if (
        destination is None
        or destination.path != target
        or (after.is_ambiguous(name) and not was_ambiguous)
    ):
        suffix = name[-3:] if name.lower().endswith(".md") else ""
        # Without .md, the path may be ambiguous: a document can have it, or another file a path
        # that differs only in case.
        for name in (f"{link_path(target)}{suffix}", target):
            destination = after.by_name(name, source)
            if destination and destination.path == target and not after.is_ambiguous(name):
                break
        else:
            name = link.target.mem_id
    if name == link.name:
        return None
    return link.target.mem_id if NOT_IN_LINKS.intersection(name) else name


def _new_path_target(
    link: ResolvedLink,
    written: Link,
    is_by_name: bool,
    renaming: RenamePlan,
    graph: LinkGraph,
    after: LinkGraph,
) -> str | None:
    """Return the new target of a link by path, or None if it does not change.

    ``is_by_name`` is whether the target is a name or a path from the vault's root, not relative to
    the folder of the link's file.
    """
    assert link.target is not None
    old_path = renaming.memory.path
    is_to_renamed = link.target.path == old_path
    target = renaming.path if is_to_renamed else link.target.path
    source = renaming.path if link.source.path == old_path else link.source.path
    if is_by_name:
        relative = after.beside(written, source)
        destination = relative or after.by_name(written.target, source)
        was_ambiguous = graph.is_ambiguous(written.target)
        is_clear = relative or was_ambiguous or not after.is_ambiguous(written.target)
        is_old = (
            is_to_renamed and _renamed_reference(written.target, renaming, after) != written.target
        )
        if destination is not None and destination.path == target and is_clear and not is_old:
            return None
    if not written.target.lower().endswith(".md"):
        target = link_path(target)
    path = relative_path(target, posixpath.dirname(source))
    if path == posixpath.normpath(written.target):
        return None
    return written_target(written, path, link.source.body)


def _renamed_reference(name: str, renaming: RenamePlan, after: LinkGraph) -> str:
    """Return the new name in the form of the old one: path, end of a path, file name or title."""
    memory, key = renaming.memory, name_key(name.removeprefix("./").strip("/"))
    suffix = name[-3:] if name.lower().endswith(".md") else ""
    path = renaming.path[: -len(".md")]
    file = PurePosixPath(path).name
    if after.files[name_key(file)] > 1:
        file = path
    stem = PurePosixPath(memory.path).stem
    if key == name_key(memory.path) or (
        "/" in key and key in map(name_key, path_suffixes(memory.path))
    ):
        return f"{path}{suffix}"
    if key == name_key(stem):
        return f"{file}{suffix}" if name_key(file) != key else name
    if key == name_key(memory.title) and memory.title != renaming.title:
        return file if NOT_IN_LINKS.intersection(renaming.title) else renaming.title
    return name  # a memId, or an alias that stays


def _rewrite_links(
    memory: Memory, changed: list[tuple[ResolvedLink, str]], files: list[tuple[Link, str]]
) -> LinkRewrite:
    """Return the changes to a memory's text and header that update its links."""
    in_text = [(entry.link, written) for entry, written in changed if entry.link is not None]
    body = replaced(memory.body, [*files, *in_text])
    changes: dict[str, Any] = {}
    for entry, written in changed:
        if entry.key:
            value = changes.get(entry.key, memory.metadata[entry.key])
            changes[entry.key] = _replace_name(
                value, entry.name, written, 2 if entry.key in LINK_KEYS else 0
            )
    links = len(changed) + len(files)
    return LinkRewrite(memory, links, changes, None if body == memory.body else body)


def _replace_name(value: Any, old: str, new: str, depth: int) -> Any:
    """Return a header value with one of its names replaced; brackets and the rest stay.

    At a ``depth`` below two lists, which YAML parses from ``[[name]]``, a name needs brackets.
    """
    if isinstance(value, list):
        return [_replace_name(entry, old, new, depth + 1) for entry in value]
    is_reference = isinstance(value, str) and referenced_names({"": value}, "") == [old]
    return (
        value.replace(old, new, 1) if is_reference and (depth > 1 or is_wikilink(value)) else value
    )


def rename(store: MemoryStore, renaming: RenamePlan) -> Memory:
    """Apply a rename plan, each file in one step; return the renamed memory.

    Raises:
        Conflict: a file was changed concurrently; `undo` reverts the changes made before.
        Refused: a header cannot be patched.
    """
    memory = renaming.memory
    edited = _edited(store, renaming)
    changes, body = _own_changes(renaming)
    # Read the link target first, because it may have changed since.
    if renaming.path != memory.path:
        done = store.rename(memory, renaming.path, changes, body).memory
    else:
        done = store.change(memory, changes, body).memory
    for other, data in edited:
        store.rewrite_links(other, data)
    return done


def edited_files(store: MemoryStore, renaming: RenamePlan) -> list[tuple[Memory, bytes]]:
    """Return the memories that a rename plan changes, each with its new bytes; write nothing.

    The renamed memory comes first, at its old path.

    Raises:
        Conflict: a file was changed concurrently.
        Refused: a header cannot be patched.
    """
    memory = renaming.memory
    changes, body = _own_changes(renaming)
    if renaming.path != memory.path and "id" not in memory.metadata:
        changes = {"id": memory.mem_id, **changes}  # An id derived from the path would change.
    data, _ = store.read_bytes(memory.path)
    own = document.edit(data, changes, body, store.settings.encoding)
    return [(memory, own), *_edited(store, renaming)]


def _own_changes(renaming: RenamePlan) -> tuple[dict[str, Any], str | None]:
    """Return the header values and the body to set in the renamed memory."""
    memory, body = renaming.memory, None
    changes: dict[str, Any] = {}
    for entry in renaming.others:
        if entry.memory.path == memory.path:
            changes, body = {**entry.changes}, entry.body
    if renaming.title != memory.title:
        changes = {**changes, **_aliases(renaming)}
        stem = PurePosixPath(renaming.path).stem
        heading = _retitle_heading(body or memory.body, memory.title, renaming.title)
        says = heading is None and (first_heading(memory.body) or stem != renaming.title)
        if "title" in memory.metadata or heading is not None or says:
            changes = {**changes, "title": renaming.title, **modified_now(memory)}
            body = body if heading is None else heading
    return changes, body


def _edited(store: MemoryStore, plan: RenamePlan) -> list[tuple[Memory, bytes]]:
    """Return the plan's other memories with their new bytes; raises Conflict or Refused."""
    edited, encoding = [], store.settings.encoding
    for entry in plan.others:
        if entry.memory.path != plan.memory.path:
            data, _ = store.read_bytes(entry.memory.path)
            if document.etag(data) != entry.memory.etag:
                raise Conflict.changed(entry.memory.path)
            store.require_writable(entry.memory.path)
            try:
                new = document.edit(data, entry.changes, entry.body, encoding)
            except Refused as error:
                raise Refused(f"{entry.memory.path}: {error}", error.hint) from error
            edited.append((entry.memory, new))
    return edited


def _retitle_heading(body: str, old: str, title: str) -> str | None:
    """Return a body with its old title heading renamed, or None if there is no such heading."""
    first = next((entry for entry in headings(body) if entry[2] == 1), None)
    if first is None or " ".join(first[3].split()) != old:
        return None
    start, end, _, name = first
    return f"{body[:start]}{body[start:end].replace(name, title, 1)}{body[end:]}"
