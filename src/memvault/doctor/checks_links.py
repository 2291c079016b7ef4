"""Check references in headers and links in bodies."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Container, Iterator, Mapping
from functools import partial
from pathlib import PurePosixPath

from memvault.doctor.findings import Finding, check, set_header
from memvault.doctor.inspection import InspectedMemory, VaultInspection
from memvault.git.tree_merge import LINK
from memvault.index.protocol import LinkEntry, StoredLink
from memvault.recall.resolve import match_link
from memvault.repository.code_files import RepositoryFiles
from memvault.sanitize import replace_surrogates
from memvault.vault import document
from memvault.vault.header_links import SUPERSEDED_BY, SUPERSEDES, referenced_names
from memvault.vault.linked_files import LinkedFiles
from memvault.vault.markdown import links
from memvault.vault.markdown_inline import Link, path_beside
from memvault.vault.names import link_distance

_MAX_LINKS_SHOWN = 5
_SECOND_COPY = re.compile(r"(.+)_[2-9]")


def _references(vault: VaultInspection, *keys: str) -> Iterator[tuple[InspectedMemory, str, str]]:
    """Yield the memory, key and name of each reference in a header to another memory."""
    for memory in vault.memories:
        for key in keys:
            for name in referenced_names(memory.record.metadata, key):
                yield memory, key, name


def _other_memory(vault: VaultInspection, memory: InspectedMemory, name: str) -> str:
    """Return the path of the other memory that a name refers to, or an empty string."""
    named = [record for record in vault.links.named(name) if record.path != memory.path]
    paths = (record.path for record in match_link(name, named))
    return min(paths, key=lambda path: link_distance(path, memory.path), default="")


@check(
    "supersedes-broken",
    "warning",
    "`supersedes` or `superseded_by` that does not refer to another memory",
)
def broken_references(vault: VaultInspection) -> Iterator[Finding]:
    for memory, key, name in _references(vault, SUPERSEDES, SUPERSEDED_BY):
        if not _other_memory(vault, memory, name):
            message = f"`{key}` refers to {name!r}, which is not another memory"
            yield Finding(memory.path, message, key=key)


@check("supersedes-circle", "warning", "Memories that supersede each other")
def circles(vault: VaultInspection) -> Iterator[Finding]:
    """Find memories that supersede each other in a cycle; report each cycle for one file."""
    replaced: dict[str, list[str]] = {}
    for memory, key, name in _references(vault, SUPERSEDES, SUPERSEDED_BY):
        if other := _other_memory(vault, memory, name):
            newer, older = (memory.path, other) if key == SUPERSEDES else (other, memory.path)
            replaced.setdefault(newer, []).append(older)
    for circle in _find_cycles(replaced):
        first = circle.index(min(circle))
        path, *others = circle[first:] + circle[:first]
        shown = ", ".join(map(replace_surrogates, others[:_MAX_LINKS_SHOWN]))
        remaining = len(others) - _MAX_LINKS_SHOWN
        shown += f" and {remaining} more" if remaining > 0 else ""
        message = (
            f"This memory and {shown} supersede each other: remove `supersedes` from one of them"
        )
        yield Finding(path, message)


def _find_cycles(graph: Mapping[str, list[str]]) -> Iterator[list[str]]:
    """Yield cycles of a graph in linear time; some cycles that share a node may be left out.

    ``graphlib`` finds one cycle at a time, which takes 24 s for 5,000 pairs of memories.
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
    "A memory with two versions, because both sides of `memvault git sync` changed it",
)
def kept_twice(vault: VaultInspection) -> Iterator[Finding]:
    """Find files that git sync kept in two versions.

    A memory is recognized by a key in its header, and any other file by a suffix in its name.
    """
    for memory in vault.memories:
        names = referenced_names(memory.record.metadata, LINK)
        existing = next(filter(None, (_other_memory(vault, memory, name) for name in names)), "")
        if existing:
            message = f"Both sides changed it, so git sync also kept {replace_surrogates(existing)}"
            message = f"{message}: merge them, then forget one"
            yield Finding(memory.path, message, other=existing, key=LINK)
    files = set(vault.tree["file"])
    for path in files:
        if not path.startswith(("agents/", "spaces/")):
            continue
        pure = PurePosixPath(path)
        match = _SECOND_COPY.fullmatch(pure.stem)
        first = str(pure.with_name(f"{match[1]}{pure.suffix}")) if match else ""
        if first in files:
            message = (
                f"Both sides changed {replace_surrogates(first)}, so git sync also kept this file"
            )
            yield Finding(path, f"{message}: merge them, then delete one", other=first)


@check(
    "link-settled",
    "note",
    "`conflict_with` refers to a memory that no longer exists: the conflict was resolved",
    fix="removes the key from the header",
)
def settled_conflicts(vault: VaultInspection) -> Iterator[Finding]:
    for memory in vault.memories:
        names = referenced_names(memory.record.metadata, LINK)
        if names and not any(_other_memory(vault, memory, name) for name in names):
            fix = set_header(memory.file, f"remove {LINK} from its header", {LINK: None})
            message = f"`{LINK}` refers to {names[0]!r}, which no longer exists"
            yield Finding(memory.path, message, fix, key=LINK)


FILE_SUFFIXES = frozenset(
    ".md .png .jpg .jpeg .gif .webp .avif .svg .bmp .heic .tif .tiff .pdf .epub .txt .csv .mp3 "
    ".m4a .wav .ogg .flac .mp4 .mov .webm .mkv .zip .doc .docx .xls .xlsx .ppt .pptx .odt .ods "
    ".odp .canvas .excalidraw".split()
)
"""Suffixes of files that must exist if a link refers to them; embedded files must always exist."""


@check(
    "link-broken",
    "note",
    "A `[[link]]`, or a markdown link to a note, image, other file or code in the surrounding "
    "repository, whose target does not exist",
)
def broken_links(vault: VaultInspection) -> Iterator[Finding]:
    """Find links in bodies whose target is missing.

    A link can refer to a memory by any of its names, including the aliases in its header, and to a
    file by its name or the end of its path, as in Obsidian. Markdown links can lead anywhere, so
    only embeds and links to notes, attachments and files of the repository are checked.
    """
    encoding = vault.call.settings.encoding
    for entry, unresolved in _unresolved(vault):
        try:
            data = vault.read(entry.path)
        except OSError:
            continue
        remembered: list[str] | None = vault.remembered.get(
            "link-broken",
            (entry.path, document.etag(data), sorted(unresolved)),
            partial(_shown_broken, entry.path, data, encoding, unresolved),
        )
        broken = remembered or []
        for shown in broken[:_MAX_LINKS_SHOWN]:
            yield Finding(entry.path, f"{shown} does not resolve to a file")
        if len(broken) > _MAX_LINKS_SHOWN:
            remaining = len(broken) - _MAX_LINKS_SHOWN
            yield Finding(entry.path, f"{remaining} more of its links do not resolve to a file")


def _unresolved(vault: VaultInspection) -> Iterator[tuple[LinkEntry, set[tuple[str, str]]]]:
    """Yield the memories with unresolved links, and the ``target`` and ``beside`` of each link."""
    sees_repository = vault.call.caller.sees_repository
    repository_files = RepositoryFiles(vault.call.root) if sees_repository else None
    files = LinkedFiles(vault.call.root)
    for memory in vault.memories:
        entry = vault.links.entries.get(memory.record.uid)
        if entry is not None and (
            unresolved := {
                (link.target, link.beside)
                for link in entry.links
                if not _is_resolved(vault, link, entry, files, repository_files)
            }
        ):
            yield entry, unresolved


def broken_in(vault: VaultInspection, body: str) -> list[Link]:
    """Return the broken links in the body of the only memory of an inspection."""
    return [
        link
        for entry, unresolved in _unresolved(vault)
        for link in _broken(entry.path, body, unresolved)
    ]


def _broken(path: str, body: str, unresolved: Container[tuple[str, str]]) -> Iterator[Link]:
    """Yield the unresolved links in a memory that are reported."""
    for link in links(body):
        beside = link.path_beside(path)
        if (link.target, beside) in unresolved and (_is_checked(link) or _is_outside(beside)):
            yield link


def _shown_broken(
    path: str, data: bytes, encoding: str, unresolved: Container[tuple[str, str]]
) -> list[str]:
    """Return the distinct broken links in a memory, as shown."""
    broken = _broken(path, document.body_of(data, encoding), unresolved)
    return list(dict.fromkeys(map(shown_link, broken)))


def shown_link(link: Link) -> str:
    """Return a link as messages show it, without its heading and label."""
    if link.is_wikilink:
        return f"[[{link.target}]]"
    return f"{'!' if link.is_embed else ''}[{link.shown}]({link.target})"


def _is_checked(link: Link) -> bool:
    suffix = posixpath.splitext(link.target)[1].lower()
    return link.is_wikilink or (link.is_embed and bool(suffix)) or suffix in FILE_SUFFIXES


def _is_outside(path: str) -> bool:
    """Return whether a path leads out of the vault to a file other than a site's page."""
    suffix = posixpath.splitext(path)[1].lower()
    return path.startswith("../") and bool(suffix) and not suffix.startswith(".htm")


def _is_resolved(
    vault: VaultInspection,
    link: StoredLink,
    entry: LinkEntry,
    files: LinkedFiles,
    repository_files: RepositoryFiles | None,
) -> bool:
    bare = link.target.removeprefix("./").strip("/")
    if link.key:
        return True  # The link is in the header.
    if vault.links.has_name(bare) or bare in files:
        return True
    relative = link.beside or path_beside(link.target, entry.path)
    if link.beside.startswith("../"):
        if repository_files is None or not _is_outside(link.beside):
            return True
        return repository_files.may_exist(link.beside)
    return vault.links.has_name(relative) or relative in files
