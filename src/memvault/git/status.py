"""Report the state of a vault's repository, and the next commands to run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from memvault.call import Call
from memvault.files.git_location import RepositoryLocation
from memvault.repository import approval, submodules
from memvault.repository.approved import NotAllowed, approved_repository
from memvault.repository.location import find_repository
from memvault.repository.program import (
    LARGER,
    QUIET_INSIDE,
    Git,
    Repository,
    resume_hint,
    without_credentials,
)
from memvault.sanitize import replace_surrogates

if TYPE_CHECKING:
    from memvault.results import RepositoryStatus
from memvault.git.conflict_pairs import conflict_pairs
from memvault.git.setup import is_registered

_SET_UP = "`memvault git init`"
"""The step that sets up git."""


def repository_status(call: Call) -> RepositoryStatus:
    """Return the state of the vault's repository, pending changes, and the next steps.

    Without approval, it has only the fields that can be read without running git.
    """
    Git(call.root)  # raises if git is not installed
    location = find_repository(call.root)
    twice = call.engine.visit_records(conflict_pairs)
    shown = {
        "autocommit": call.settings.git.autocommit,
        "keptTwice": [{"filePath": pair.path, "copyPath": pair.other} for pair in twice],
    }
    if location is None:
        about: Mapping[str, Any] = {"repository": False, "todo": [_SET_UP]}
        return cast("RepositoryStatus", {**about, **shown})
    if location.prefix_of(call.root):
        call.notes.append(LARGER)
    try:
        about = _about(call, approved_repository(call.root, location))
    except NotAllowed as error:
        if error.was_allowed:
            call.notes.append(f"{error.message}: `memvault git init`")
        about = _without_git(call, location)
    return cast("RepositoryStatus", {"repository": True, **about, **shown})


def _without_git(call: Call, location: RepositoryLocation) -> Mapping[str, Any]:
    urls = approval.remote_urls(location)
    remote = "origin" if "origin" in urls else next(iter(urls), "")
    about: dict[str, Any] = {
        "branch": replace_surrogates(location.branch),
        "remote": replace_surrogates(remote),
    }
    if remote and call.caller.may_see_paths:
        about["url"] = replace_surrogates(without_credentials(urls[remote]))
    if location.operation_in_progress:
        about["underWay"] = location.operation_in_progress
    return {**about, "driver": False, "todo": [_SET_UP]}


def _about(call: Call, repository: Repository) -> Mapping[str, Any]:
    git = repository.git
    branch = repository.branch
    name = git.config(f"branch.{branch}.remote") if branch else ""
    remotes = git.line("remote").split("\n")
    remote = name or ("origin" if "origin" in remotes else next(iter(remotes), ""))
    about: dict[str, Any] = {"branch": branch, "remote": remote}
    if remote and call.caller.may_see_paths:
        about["url"] = without_credentials(git.config(f"remote.{remote}.url"))
    others = git.commit_id(f"refs/remotes/{remote}/{branch}") if remote else ""
    head = git.commit_id("HEAD")
    if others and head:
        counted = git.line("rev-list", "--left-right", "--count", f"{head}...{others}")
        about["ahead"], about["behind"] = map(int, counted.split())
    listed = git.run(
        "status", "--porcelain", "-z", "--no-renames", "--untracked-files=all", QUIET_INSIDE,
        "--", ".",
    )  # fmt: skip
    about["changed"] = sum(part[2:3] == b" " for part in listed.split(b"\0"))
    apart = [] if repository.prefix else submodules.repositories(repository)
    if apart:
        about["notSynced"] = list(map(replace_surrogates, apart))
    about["driver"] = is_registered(repository)
    todo = [] if about["driver"] else [_SET_UP]
    if repository.operation_in_progress:
        about["underWay"] = repository.operation_in_progress
        todo.insert(0, resume_hint(repository))
    elif not branch:
        todo.append("`git switch BRANCH`")
    if not remote:
        todo.append("`git remote add origin URL`")
    return {**about, **({"todo": todo} if todo else {})}
