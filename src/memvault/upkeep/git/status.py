"""How a vault is in git."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from memvault.call import Call
from memvault.upkeep.git import approval, inner, setup
from memvault.upkeep.git.place import Place, find
from memvault.upkeep.git.program import (
    LARGER,
    QUIET_INSIDE,
    Git,
    Repository,
    resume_hint,
    without_credentials,
)
from memvault.upkeep.git.replay import LINK
from memvault.vault.codec import replace_surrogates
from memvault.vault.replaced import referenced_names

if TYPE_CHECKING:
    from memvault.index.protocol import MemoryRecord


class ConflictPair(NamedTuple):
    """Two files that one memory became when both sides changed its text."""

    path: str
    other: str


def pairs(memories: Iterable[MemoryRecord]) -> list[ConflictPair]:
    """Return the memories that are kept as two files, each pair once, the shorter path first."""
    known = sorted(memories, key=lambda memory: memory.path)
    paths: dict[str, str] = {}
    for memory in known:
        paths.setdefault(memory.mem_id, memory.path)
    found = {
        (memory.path, paths[link])
        for memory in known
        for link in referenced_names(memory.metadata, LINK)
        if link in paths and paths[link] != memory.path
    }
    return sorted(
        {ConflictPair(*sorted(pair, key=lambda path: (len(path), path))) for pair in found}
    )


def status(call: Call) -> dict[str, Any]:
    """Return which repository the vault is in, what waits there, and what is to be done.

    Before somebody at this machine allowed git there, only what can be read without it.
    """
    from memvault.recall.filters import Filters

    Git(call.root)  # there is one
    place = find(call.root)
    twice = pairs(call.engine.list_records(Filters()))
    shown = {
        "autocommit": call.settings.autocommit,
        "keptTwice": [{"filePath": pair.path, "copyPath": pair.other} for pair in twice],
    }
    if place is None:
        return {"repository": False, "todo": ["memvault git init"], **shown}
    if place.prefix_of(call.root):
        call.notes.append(LARGER)
    try:
        found = setup.as_allowed(call.root, place)
    except setup.NotAllowed as error:
        if error.was_allowed:
            call.notes.append(f"{error.message}: memvault git init")
        return {"repository": True, **_without_git(call, place), **shown}
    return {"repository": True, **_about(call, found), **shown}


def _without_git(call: Call, place: Place) -> Mapping[str, Any]:
    known = approval.remotes(place)
    remote = "origin" if "origin" in known else next(iter(known), "")
    about: dict[str, Any] = {
        "branch": replace_surrogates(place.branch),
        "remote": replace_surrogates(remote),
    }
    if remote and call.caller.may_see_paths:
        about["url"] = replace_surrogates(without_credentials(known[remote]))
    if place.under_way:
        about["underWay"] = place.under_way
    return {**about, "driver": False, "todo": ["memvault git init"]}


def _about(call: Call, found: Repository) -> Mapping[str, Any]:
    git = found.git
    branch = found.branch
    name = git.config(f"branch.{branch}.remote") if branch else ""
    remotes = git.line("remote").split()
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
    apart = [] if found.prefix else inner.repositories(found)
    if apart:
        about["notSynced"] = list(map(replace_surrogates, apart))
    about["driver"] = setup.is_registered(found)
    todo = [] if about["driver"] else ["memvault git init"]
    if found.under_way:
        about["underWay"] = found.under_way
        todo.insert(0, resume_hint(found))
    elif not branch:
        todo.append("git switch BRANCH")
    if not remote:
        todo.append("git remote add origin URL")
    return {**about, **({"todo": todo} if todo else {})}
