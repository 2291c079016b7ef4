"""What a call does to files of the vault, as it is written down."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, NamedTuple, get_args

from memvault import clock
from memvault.errors import StorageError
from memvault.vault import layout

Kind = Literal["created", "changed", "removed", "forgotten", "restored"]
KINDS: frozenset[str] = frozenset(get_args(Kind))

_NOTHING = "nothing was changed"
"""What the hints of a disk's refusal say, which knows of one file only."""

FILE_MISSING_HINT = "memvault list shows what is there, memvault trash list what was forgotten"
"""The hint where a file is not there, or not any more."""


class FileChange(NamedTuple):
    """What a call did to one file.

    ``before`` names where the bytes from before are: a revision, of what was
    forgotten or restored a folder of the trash, nothing of what was created.
    ``after`` is the etag that the file had then, in the trash too, nothing where it was gone.
    """

    kind: Kind
    path: str
    mem_id: str
    title: str
    before: str
    after: str


class JournalEntry(NamedTuple):
    """What one call did; ``undoes`` is the change that it took back, ``undone_by`` one that did."""

    change_id: str
    when: str
    tool: str
    agent: str
    files: tuple[FileChange, ...]
    reverts: str = ""
    reverted_by: str = ""


class FileRef(NamedTuple):
    """What a file is about: the id that its revisions are kept under, and what people call it.

    A new file without an id gets the one that is made of its path.
    """

    mem_id: str
    title: str


class ChangeSet:
    """What one call changes: who does it, and what it has done so far.

    ``undoes`` is the change that it takes back. ``notes`` say what could not be
    written down. Unless it ``sees_all``, what is other agents' own is not there for it.
    """

    def __init__(
        self, tool: str = "", agent: str = "", undoes: str = "", sees_all: bool = True
    ) -> None:
        self.tool = tool
        self.agent = agent
        self.reverts = undoes
        self.sees_all = sees_all
        self.change_id = clock.random_id(8)
        self.files: list[FileChange] = []
        self.warnings: list[str] = []
        self.part: Path | None = None

    def can_see(self, path: str) -> bool:
        """Say whether a file of the vault is there for whoever does this."""
        return self.sees_all or not layout.belongs_to_other_agent(path, self.agent)

    def tell(self, error: StorageError) -> None:
        """Say in an error's hint what was done before it, unless its message does."""
        paths = list(dict.fromkeys(entry.path for entry in self.files))
        if not paths or "written before that" in error.message:
            return
        more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
        undo = "" if self.warnings else f"; memvault undo {self.change_id} takes that back"
        done = f"{paths[0]}{more} was changed before that{undo}"
        known = _NOTHING in error.hint
        error.hint = error.hint.replace(_NOTHING, done) if known else f"{error.hint}; {done}"
