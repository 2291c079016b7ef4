"""Collect the file changes of one call, which the journal then records."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from memvault import clock
from memvault.errors import Conflict, NotFound
from memvault.named_tuple import NamedTuple
from memvault.vault.document import etag
from memvault.vault.naming import derived_id
from memvault.vault.paths import belongs_to_other_agent

if TYPE_CHECKING:
    from memvault.store.journal import FileChange

FILE_MISSING_HINT = "`memvault list` lists the files, and `memvault trash list` the forgotten files"
"""Hint for an error about a missing file."""


@contextlib.contextmanager
def missing_as_not_found(path: str) -> Iterator[None]:
    """Convert ``FileNotFoundError`` to ``NotFound`` for a file in the vault."""
    try:
        yield
    except FileNotFoundError as error:
        raise NotFound(f"There is no file {path} in the vault", FILE_MISSING_HINT) from error


def changed_meanwhile(path: str, data: bytes, seen: str) -> Conflict:
    """Return the error for a file that no longer matches the etag ``seen``."""
    return Conflict(
        f"{path} has changed since it was read: its etag is {etag(data)}, not {seen}",
        "read the current version, then try again",
    )


class FileRef(NamedTuple):
    """The id that a file's revisions are stored under, and the title shown to people.

    If ``mem_id`` is empty, a new file gets the id derived from its path.
    """

    mem_id: str
    title: str

    @classmethod
    def at(cls, path: str, title: str) -> FileRef:
        """Return a reference to a file whose header has no id."""
        return cls(derived_id(path), title)


class ChangeSet:
    """The file changes of one call, with the tool and agent that made them.

    ``warnings`` report secrets, and changes that could not be journaled; in the latter case
    ``is_recorded`` is false. All changes go to the segment ``journal_segment``. If ``sees_all`` is
    false, files that belong to other agents are treated as missing.
    """

    def __init__(self, tool: str = "", agent: str = "", sees_all: bool = True) -> None:
        self.tool = tool
        self.agent = agent
        self.sees_all = sees_all
        self.change_id = clock.random_id(8)
        self.files: list[FileChange] = []
        self.warnings: list[str] = []
        self.is_recorded = True
        self.journal_segment: Path | None = None

    def can_see(self, path: str) -> bool:
        """Return whether this call may see a file in the vault."""
        return self.sees_all or not belongs_to_other_agent(path, self.agent)

    def summary(self, when: str = " before that") -> str:
        """Summarize which files were changed and how to undo that; empty if nothing changed."""
        paths = list(dict.fromkeys(entry.path for entry in self.files))
        if not paths:
            return ""
        others = f" and {len(paths) - 1} more were" if len(paths) > 1 else " was"
        undo = "" if not self.is_recorded else f"; `memvault undo {self.change_id}` reverts that"
        return f"{paths[0]}{others} changed{when}{undo}"
