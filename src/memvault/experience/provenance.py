"""Record the source episodes of facts and procedures in the header and a last line of links."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any

from memvault.lazy_pattern import lazy_pattern
from memvault.model import Memory
from memvault.named_tuple import NamedTuple

_NOT_IN_LINKS = lazy_pattern(r"[\[\]|#^]")


class Provenance(NamedTuple):
    """The origin of a memory: its episodes, their files, its proposal, and superseded memories."""

    episodes: tuple[str, ...]
    paths: tuple[str, ...]
    proposal: str
    supersedes: tuple[str, ...] = ()

    @property
    def header(self) -> dict[str, Any]:
        """The header entries that record the origin."""
        supersedes = {"supersedes": list(self.supersedes)} if self.supersedes else {}
        return {"episodes": list(self.episodes), "proposal": self.proposal, **supersedes}


def text_of(memory: Memory) -> str:
    """Return the text of a memory without the last line of links to its source episodes."""
    return _split_sources(memory)[0].strip("\r\n")


def with_text(memory: Memory, text: str) -> str:
    """Return a memory's body with a new text, keeping the line of links to its episodes."""
    body, sources = _split_sources(memory)
    from memvault.memories import edit

    updated = edit.replace_all(body or memory.newline, text, memory.newline)
    return f"{updated}{memory.newline}{sources}" if sources else updated


def linked(text: str, paths: Sequence[str]) -> str:
    """Return text followed by a line of links to its source files."""
    stems = [PurePosixPath(path).stem for path in paths]
    links = ", ".join(f"[[{stem}]]" for stem in stems if not _NOT_IN_LINKS.search(stem))
    return f"{text}\n\nFrom {links}" if links else text


def _split_sources(memory: Memory) -> tuple[str, str]:
    """Split a body before its last line if that line and the header refer to source episodes."""
    stripped = memory.body.rstrip()
    start = max(stripped.rfind("\n"), stripped.rfind("\r")) + 1
    last = stripped[start:]
    if last.startswith("From [[") and last.endswith("]]") and memory.metadata.get("episodes"):
        return memory.body[:start].rstrip(), memory.body[start:]
    return memory.body, ""
