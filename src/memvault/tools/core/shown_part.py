"""Find the memory and the part of it that a name such as ``plan#Setup`` refers to."""

from __future__ import annotations

import contextlib
from typing import Any

from memvault.call import Call
from memvault.errors import NotFound
from memvault.lazy_pattern import lazy_pattern
from memvault.model import Memory, is_document
from memvault.vault.header_links import is_wikilink

_SUFFIX = lazy_pattern(r"\.\w+(?=#|\Z)")
"""Matches a suffix at the end of a name or before the place in it; a file name may contain #."""

_MAX_SIGNS = 6
"""Maximum number of # signs in a name at which a heading may begin, in addition to the first."""


def resolve_with_anchor(call: Call, name: str, may_be_unmerged: bool) -> tuple[Memory, bool, str]:
    """Return the memory with a name, whether it is unmerged, and the name's part after ``#``."""
    link = name.strip()
    is_link = is_wikilink(link)
    link = link[2:-2].partition("|")[0] if is_link else name
    anchor = link.partition("#")[2] if is_link else ""
    for suffix in _SUFFIX.finditer(link):
        if is_document(suffix[0]):
            name, anchor = link[: suffix.end()], link[suffix.end() + 1 :]
            break
    try:
        return *_memory_named(call, name, may_be_unmerged), anchor
    except NotFound:
        file, _, anchor = name.partition("#")
        if is_link or not file.strip() or not anchor:
            raise
    title = name
    for _ in range(_MAX_SIGNS):  # A title may contain #, and so may a heading.
        title = title.rpartition("#")[0]
        if len(title) <= len(file):
            break
        with contextlib.suppress(NotFound):
            return *_memory_named(call, title, may_be_unmerged), name[len(title) + 1 :]
    return *_memory_named(call, file, may_be_unmerged), anchor


def _memory_named(call: Call, name: str, may_be_unmerged: bool) -> tuple[Memory, bool]:
    """Return the memory with a name, and whether only another git worktree has it."""
    try:
        memory = call.resolve(name)
        call.find_unmerged(memory.mem_id)
    except NotFound:
        unmerged = call.find_unmerged(name) if may_be_unmerged else None
        if unmerged is None:
            raise
        return unmerged.memory, True
    return memory, False


def heading_for_anchor(call: Call, memory: Memory, anchor: str, is_link: bool) -> str | None:
    """Return the heading that the part of a name after ``#`` refers to; None if it is a block.

    If a link's heading does not exist, the result is None, and a note says so.
    """
    from memvault.vault.sections import find_section

    if is_document(memory.path):
        from memvault.recall import document_place

        return document_place.heading_of(anchor, memory.body)
    if anchor.startswith("^"):
        return None
    path = anchor.replace("#", "/")
    for heading in dict.fromkeys((anchor, path)):  # A heading may contain #.
        with contextlib.suppress(NotFound):
            find_section(memory.body, heading)
            return heading
    if not is_link:
        return path
    call.notes.append(f"there is no section {path!r}; the whole memory is shown")
    return None


def cut_part(call: Call, memory: Memory, section: str | None, around: str) -> dict[str, Any]:
    """Return a part of a memory's content, and its position."""
    from memvault.model import Passage
    from memvault.recall import passages_around
    from memvault.vault.sections import find_section

    body = memory.body
    if section is not None:
        section_range = find_section(body, section)
        parts = [Passage(section_range.start, section_range.end, section_range.path)]
    else:
        parts = passages_around.passages_with(body, around, call.engine.languages())
    content = "\n…\n".join(body[part.start : part.end].strip("\r\n") for part in parts)
    return {
        "content": content,
        "parts": [
            {"heading": part.heading, "offset": part.start, "length": part.end - part.start}
            for part in parts
        ],
        "totalLength": len(content),
        "wholeLength": len(body),
    }
