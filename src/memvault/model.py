"""Frozen values that the layers hand to each other."""

from __future__ import annotations

from typing import Any, NamedTuple

FALLBACK_TYPE = "context"
EPISODE, FACT, PROCEDURE = "episode", "fact", "procedure"
"""The types of memory whose recalls are counted."""
CATEGORY = "general"
"""The category of a fact that names none."""
SOURCE = "experience"
"""The source of a fact that names none."""
IMPORTANCE = 0.5
"""The importance of an episode, or a fact, that names none."""
LEAST_IMPORTANCE = 0.3
"""What an episode must matter at least to be recalled unasked."""
RATE = 0.5
"""The success rate of a procedure that was never used."""
_EXAMPLE = "example"
_MOST_ALIASES = 100
"""Other names that one header is read for."""


def is_example(metadata: dict[str, Any]) -> bool:
    """Say whether a header calls its memory an example, which no search ever finds."""
    return str(metadata.get("status") or "").strip().casefold() == _EXAMPLE


def aliases_of(metadata: dict[str, Any]) -> tuple[str, ...]:
    """Return the other names that a header gives its memory, as Obsidian reads them.

    A text instead of a list is a name, and names with commas between them.
    """
    found: list[Any] = []
    for key in ("aliases", "alias"):
        value = metadata.get(key)
        if isinstance(value, str):
            value = [value, *value.split(",")]
        found += value[:_MOST_ALIASES] if isinstance(value, list) else ()
    names = (" ".join(name.split()) for name in found if isinstance(name, str))
    return tuple(dict.fromkeys(name for name in names if name))


class MemoryType(NamedTuple):
    """A kind of memory, built in or named in ``memvault.toml``."""

    name: str
    description: str


class FileState(NamedTuple):
    """What the file system says of a file without opening it.

    ``path`` is relative to the vault with forward slashes; times are in
    nanoseconds.
    """

    path: str
    size: int
    mtime: int
    ctime: int
    inode: int


class Memory(NamedTuple):
    """One markdown file, read.

    ``metadata`` is the whole header as plain JSON values, ``body`` the text
    below it, ``etag`` a hash of the file's bytes, ``problem`` what a person
    should know of a file that could not be read as it was meant, ``newline``
    how the file ends its lines.
    """

    path: str
    mem_id: str
    title: str
    memory_type: str
    tags: tuple[str, ...]
    created: str
    modified: str
    metadata: dict[str, Any]
    body: str
    etag: str
    problem: str = ""
    newline: str = "\n"

    @property
    def aliases(self) -> tuple[str, ...]:
        """Its other names."""
        return aliases_of(self.metadata)


class Passage(NamedTuple):
    """A stretch of a memory's body, ``body[start:end]``, and the headings above it."""

    start: int
    end: int
    heading: str
