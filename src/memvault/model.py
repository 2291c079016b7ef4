"""Immutable values shared by all layers."""

from __future__ import annotations

from typing import Any, Literal, Self

from memvault.named_tuple import NamedTuple

MAX_RESULTS = 1_000
"""Maximum number of results of one search, because each one is read."""
FALLBACK_TYPE = "context"
DOCUMENT = "document"
"""The type of documents: files that are read like memories, but never changed."""
_DOCUMENT_ENDINGS = frozenset(".pdf .docx .pptx .xlsx .csv .html .htm .epub".split())
RESERVED_FOLDERS = frozenset({"agents", "spaces", "tools", "templates"})
"""The folders of a vault whose files are not memories."""
EPISODE, FACT, PROCEDURE = "episode", "fact", "procedure"
"""The types of memories whose recalls are counted."""
CATEGORY = "general"
"""The default category of a fact."""
SOURCE = "experience"
"""The default source of a fact."""
IMPORTANCE = 0.5
"""The default importance of an episode or fact."""
LEAST_IMPORTANCE = 0.3
"""The minimum importance of an episode for unprompted recall."""
RATE = 0.5
"""The success rate of a procedure that was never used."""
_EXAMPLE = "example"
_MOST_ALIASES = 100
"""Maximum number of aliases read from one header key."""


def is_document(path: str) -> bool:
    """Return whether a file is a document rather than a memory, by its extension."""
    return path[path.rfind(".") :].lower() in _DOCUMENT_ENDINGS


def is_example(metadata: dict[str, Any]) -> bool:
    """Return whether a header marks its memory as an example, which searches never return."""
    return str(metadata.get("status") or "").strip().casefold() == _EXAMPLE


def aliases_of(metadata: dict[str, Any]) -> tuple[str, ...]:
    """Return the aliases in a header, following Obsidian's rules.

    A string instead of a list is an alias, and is also parsed as a comma-separated list of aliases.
    """
    values: list[Any] = []
    for key in ("aliases", "alias"):
        value = metadata.get(key)
        if isinstance(value, str):
            value = [value, *value.split(",")]
        values += value[:_MOST_ALIASES] if isinstance(value, list) else ()
    names = (" ".join(name.split()) for name in values if isinstance(name, str))
    return tuple(dict.fromkeys(name for name in names if name))


class MemoryType(NamedTuple):
    """A type of memories, built in or defined in ``memvault.toml``."""

    name: str
    description: str


class FileState(NamedTuple):
    """The state of a file in the file system, available without opening it.

    ``path`` is relative to the vault with forward slashes; times are in nanoseconds.
    """

    path: str
    size: int
    mtime: int
    ctime: int
    inode: int

    @classmethod
    def of(cls, path: str, data: bytes) -> Self:
        """Return a file state with the size of the given bytes and no times or inode."""
        return cls(path, len(data), 0, 0, 0)


class CommitTimes(NamedTuple):
    """The times of a file's first and last commit in git, as ISO 8601; empty if unknown.

    ``modified`` is also empty for a file that differs from its last commit.
    """

    created: str = ""
    modified: str = ""


class FileCommits(NamedTuple):
    """When a file was first and last committed, as ISO 8601, and the id of its bytes in git.

    A time is empty if it is unknown, because a shallow clone lacks the commit or its author's clock
    was ahead.
    """

    created: str
    modified: str
    blob: str


DateSource = Literal["header", "name", "git", "file"]
"""The source of a memory's time: its header, its file name, git's commits, or the file's times."""


class Memory(NamedTuple):
    """A memory: the parsed content of one markdown file.

    ``metadata`` is the whole header as JSON values, and ``body`` is the text below it. ``etag`` is
    a hash of the file's bytes. ``problem`` describes what is wrong with the file, if anything.
    ``newline`` is the file's line ending, and ``body_line`` is the number of the line on which the
    body begins. ``created_from`` and ``modified_from`` are the sources of its times.
    ``type_folders`` contains the folders of its path that are named after one of the vault's memory
    types.
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
    body_line: int = 1
    created_from: DateSource = "file"
    modified_from: DateSource = "file"
    type_folders: frozenset[str] = frozenset()

    def line_at(self, position: int) -> int:
        """Return the line number in the file for a position in the body."""
        return self.body_line + self.body.count(self.newline[-1:], 0, position)

    @property
    def aliases(self) -> tuple[str, ...]:
        """The other names of the memory."""
        return aliases_of(self.metadata)


class Passage(NamedTuple):
    """A passage of a memory's body, ``body[start:end]``, and the headings above it."""

    start: int
    end: int
    heading: str
