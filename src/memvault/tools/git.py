"""Tools for sharing a vault with git."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from memvault.call import Call
from memvault.errors import Refused
from memvault.tools.core.registry import ToolGroup
from memvault.tools.core.shared_args import Confirm, token_to_confirm

if TYPE_CHECKING:
    from memvault import results
    from memvault.repository.approved import NotAllowed

group = ToolGroup("git", "Sharing a vault with git", place=105)


@group.tool(
    "git init",
    takes_long=True,
    idempotent=True,
    own_scope="all",
    examples=("memvault git init", "memvault git init --json"),
    view="""
        Set up in git  branch {branch}  {made:a new repository|}
           {changed:each}""",
)
def git_init(call: Call, confirm: Confirm = None) -> results.InitializedRepository:
    """Set up git for the vault: create a repository if needed, and a merge driver.

    Missing lines are added to .gitignore and .gitattributes. Running it again changes nothing.
    Nothing is committed. Programs that an existing repository would make git run, or changes in
    them, are shown first and must be confirmed.
    """
    from memvault.git import setup

    repository, made = setup.init_repository(
        call, partial(_require_confirmation, call, confirm, "git init")
    )
    changed = setup.write_git_files(call, repository)
    return {"made": made, "branch": repository.branch, "changed": changed, "driver": True}


@group.tool(
    "git sync",
    takes_long=True,
    paged_keys=(),
    destructive=True,
    open_world=True,
    own_scope="all",
    examples=("memvault git sync", "memvault git sync --json"),
    view="""{committed:file|files} committed  {pulled:commit|commits} pulled  \
        {pushed:commit|commits} pushed
        *keptTwice Kept as two files, because both sides changed the text:
           {filePath}  {copyPath}

        *renamed Renamed, because the remote has another file with that name:
           {from}  {filePath}

           deleted on one side and changed on the other, so kept: {notDeleted}
           changed on both sides, so discarded: {notKept:each}""",
)
def git_sync(call: Call, confirm: Confirm = None) -> results.SyncedVault:
    """Sync the vault with git: commit all changes, merge the remote's, and push.

    Nothing is force-pushed. Headers are merged by key, lists as sets, bodies line by line as in
    git. A memory whose text both sides changed is kept as two files that refer to each other in
    conflict_with; a file that one side deleted and the other changed is kept. This uses the
    network. If the repository is new to this machine and makes git run programs, you must confirm
    them, as for `memvault git init`.
    """
    from memvault.git.sync import sync

    return sync(call, partial(_require_confirmation, call, confirm, "git sync"))


@group.tool(
    "git status",
    paged_keys=(),
    read_only=True,
    own_scope="all",
    examples=("memvault git status", "memvault git status --json"),
    messages=("todo",),
    view="""{branch}  {remote}  {url}
           {ahead:commit|commits} to push  {behind:commit|commits} to pull  \
            {changed:file|files} to commit
           in progress: {underWay}
        *keptTwice Kept as two files, because both sides changed the text:
           {filePath}  {copyPath}

        {repository:|The vault is not in a git repository}
           to do: {todo:each}""",
)
def git_status(call: Call) -> results.RepositoryStatus:
    """Show the vault's state in git: branch, remote, pending changes, memories kept as two files.

    Git itself is not run until a person on this machine has allowed it with `memvault git init` or
    `memvault git sync`.
    """
    from memvault.git.status import repository_status

    return repository_status(call)


def _require_confirmation(
    call: Call, confirm: bool | str | None, command: str, asked: NotAllowed
) -> None:
    """Check that the programs that git would run were confirmed.

    Raises:
        Conflict: If something else was confirmed.
        Refused: If nothing was confirmed.
    """
    from memvault import grants

    items = [*asked.covered, grants.machine_secret()]  # The secret makes the token unpredictable.
    if token := token_to_confirm(confirm, items, "the programs that git would run now"):
        risk = "This repository's settings can make git run programs or contact other machines"
        message = f"{risk}: {asked.summary}"
        raise Refused(
            asked.message if asked.was_allowed else message,
            f"review them, then run `memvault {command} --confirm {token}`",
            {**({"runs": asked.runs} if call.caller.may_see_paths else {}), "confirmToken": token},
        )
