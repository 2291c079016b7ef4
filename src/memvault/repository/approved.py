"""Open a repository in which the user has allowed git to run."""

from __future__ import annotations

from pathlib import Path

from memvault.errors import Refused
from memvault.files.git_location import RepositoryLocation
from memvault.repository import approval
from memvault.repository.program import Repository, open_repository

_SHOWN = 5


class NotAllowed(Refused):
    """Git may not run in a repository, because parts of it are not approved.

    ``runs`` lists the names of the unapproved parts, and ``was_allowed`` is true if the repository
    was approved before something changed. The message contains only names, because the values of
    settings may be private.
    """

    def __init__(
        self, now: list[approval.ApprovalItem], before: list[approval.ApprovalItem] | None
    ) -> None:
        self.runs = approval.unapproved_names(now, before or [])
        self.was_allowed = before is not None
        self.covered = [f"{part.name}\n{part.digest}" for part in now]
        message = "This repository can make git run programs and is not approved on this machine"
        if self.was_allowed:
            message = f"The git configuration has changed since it was approved: {self.summary}"
        super().__init__(message, "ask the user to run `memvault git init` there")

    @property
    def summary(self) -> str:
        """The first of the names, formatted for a message."""
        names = list(dict.fromkeys(run.partition(" = ")[0] for run in self.runs))
        rest_count = len(names) - _SHOWN
        return ", ".join(names[:_SHOWN]) + (f" and {rest_count} more" if rest_count > 0 else "")


def approved_repository(root: Path, location: RepositoryLocation) -> Repository:
    """Return a vault's repository if it is approved in its current state.

    Raises:
        NotAllowed: the repository was never approved, or an approved part has changed since.
        Refused: git is not installed, or the repository cannot be read.
    """
    before = approval.approved_items(root, location)
    if before is None:
        raise NotAllowed([], None)
    now = approval.items_to_approve(location)
    if not approval.is_approved(now, before):
        raise NotAllowed(now, before)
    return open_repository(root, location)
