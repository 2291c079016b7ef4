"""Arbitrary bytes are read as a memory, without an error or a loss."""

from __future__ import annotations

import json

from memvault import clock
from memvault.model import FileState
from memvault.vault import decoding, document, memory_file, naming
from memvault.vault.front_matter import split_front_matter
from targets.shapes import HEADER_TOKENS

TOKENS = (
    *HEADER_TOKENS,
    "---\n---\n",
    "memory_type: fact\n",
    "date: ",
    "modified: 2026-01-31T10:00:00Z\n",
    "\u0085",
    "# Heading\n",
    "```\n",
)


def check(data: bytes) -> None:
    """Read a file."""
    text = decoding.decode(data)
    if text.encoding != "binary":
        assert text.encode(text.text) == data
    parts = split_front_matter(text.text)
    assert "".join(parts) == text.text
    state = FileState("fact/a.md", len(data), 0, 0, 0)
    memory = memory_file.read_memory(data, state, frozenset(["fact"]))
    json.dumps(memory.metadata, ensure_ascii=False, allow_nan=False).encode()
    assert naming.is_mem_id(memory.mem_id)
    assert memory.title
    assert memory.title == " ".join(memory.title.split())
    assert memory.memory_type == memory.memory_type.strip() != ""
    assert all(tag == tag.strip() != "" for tag in memory.tags)
    for moment in (memory.created, memory.modified):
        read = clock.parse(moment)
        assert read is not None
        assert clock.iso(read) == moment
    parsed = document.Document.parse(data)
    if parsed.problem or parsed.in_conflict:
        assert memory.problem
    else:
        assert (parsed.header or {}) == memory.metadata
