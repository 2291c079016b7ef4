"""Copies of memories from git worktrees are neither lost nor in the way."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

import memvault
from children import become, in_child
from git_clones import git
from project_worktrees import by_hand, call, new_project, recalled, remember, worktree

pytestmark = pytest.mark.usefixtures("nobody")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository with a tracked vault in the folder notes, and one memory."""
    return new_project(tmp_path)


def test_copy_of_unreadable_worktree_survives(project: Path) -> None:
    """A recall while a worktree's folder cannot be read deletes none of its copies."""
    feat = worktree(project, "feat")
    remember(feat, "Deploy host", "We deploy to the host kiwi.")
    (feat / "notes/fact").rename(feat / "notes/away")
    (feat / "notes/fact").symlink_to("fact")  # Every path through this link is an error.
    recalled(project, "deploy host")
    git(project, "worktree", "remove", "--force", "../feat")
    assert "Deploy host" in recalled(project, "deploy host")


def test_forgetting_keeps_copies_of_notes_with_uppercase_extension(project: Path) -> None:
    """A copy of a note named ``.MD`` stays when the worktree's other memories are forgotten."""
    feat = worktree(project, "feat")
    by_hand(feat, "notes/fact/LOUD.MD", "# Loud\n\nLoud zebras.\n")
    mem_id = remember(feat, "Deploy host", "We deploy to the host kiwi.")
    assert "Loud" in recalled(project, "loud zebras")
    call(feat, "memory_forget", query=mem_id, confirm=True)
    git(project, "worktree", "remove", "--force", "../feat")
    assert "Loud" in recalled(project, "loud zebras")


def without_permissions(work: Callable[[Path], object], locked: str) -> Any:
    """Run some work in a project in which a user cannot read one folder, and return its value.

    In the project's linked worktree ``feat``, the memory Deploy host was written. ``locked`` is a
    pattern for the folder's path in the repository.
    """
    with TemporaryDirectory(dir="/tmp") as folder:
        project = new_project(Path(folder))
        remember(worktree(project, "feat"), "Deploy host", "We deploy to the host kiwi.")
        (path,) = project.glob(locked)
        (user, group) = (12_345, 12_345) if os.geteuid() == 0 else (os.geteuid(), os.getegid())
        for file in (Path(folder), *Path(folder).rglob("*")):
            os.chown(file, user, group)
        mode = path.stat().st_mode
        path.chmod(0)

        def run_there() -> object:
            if os.geteuid() == 0:
                become(user, group, 0o022, Path(folder))
            return work(project) if os.access(memvault.__file__, os.R_OK) else None

        try:
            result = in_child(run_there)
        finally:
            path.chmod(mode)
    if result is None:
        pytest.skip("other users cannot read the program")
    return result


@pytest.mark.skipif(sys.platform != "linux", reason="it becomes another user as on Linux")
@pytest.mark.parametrize("locked", [".git/memvault", ".git/memvault/*", ".git/memvault/*/notes"])
def test_unreadable_copies_are_ignored(locked: str) -> None:
    """If copies belong to another user, all reading works as if there were none."""

    def work(project: Path) -> list[bool]:
        found = []
        for _ in range(2):
            call(project, "memory_show", memId="port")
            call(project, "context", task="Which host do we deploy to?")
            call(project, "vault_review")
            call(project, "vault_doctor")
            found.append("Deploy host" in recalled(project, "deploy host"))
            shutil.rmtree(project.parent / "feat", ignore_errors=True)
        return found

    assert without_permissions(work, locked) == [True, False]


@pytest.mark.skipif(sys.platform != "linux", reason="it becomes another user as on Linux")
def test_unreadable_copy_keeps_its_markers() -> None:
    """Forgetting a worktree's last visible memory keeps the copies that cannot be read."""

    def work(project: Path) -> list[str]:
        feat = project.parent / "feat"
        tea = {"title": "Tea", "content": "Tea it is.", "memoryType": "decision"}
        mem_id = call(feat, "memory_remember", **tea)["memId"]
        call(feat, "memory_forget", query=mem_id, confirm=True)
        return sorted(path.name for path in (project / ".git/memvault").rglob("*.*"))

    markers = ["memvault.toml", "worktree.json"]
    assert without_permissions(work, ".git/memvault/*/notes/fact") == markers


def test_deleted_copies_folder_is_recreated(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy that is written while another process deletes the last one is complete."""
    feat = worktree(project, "feat")
    mem_id = remember(feat, "Tea", "Tea is in the left drawer.")
    removed: list[str] = []

    def rmdir(path: Path) -> None:
        removed.append(path.name)
        if path.name == "notes":  # Another process writes now, after the markers were deleted.
            monkeypatch.undo()
            remember(feat, "Deploy host", "We deploy to the host kiwi.")
        os.rmdir(path)  # noqa: PTH106

    monkeypatch.setattr(Path, "rmdir", rmdir)
    call(feat, "memory_forget", query=mem_id, confirm=True)
    assert "notes" in removed
    git(project, "worktree", "remove", "--force", "../feat")
    assert "Deploy host" in recalled(project, "deploy host")


def test_restore_in_linked_worktree_can_be_undone(project: Path) -> None:
    """A memory of a deleted worktree survives its restore, the undo, and the next removal."""
    feat, two = worktree(project, "feat"), worktree(project, "two")
    mem_id = remember(feat, "Deploy host", "We deploy to the host kiwi.")
    git(project, "worktree", "remove", "--force", "../feat")
    call(two, "memory_restore", memId=mem_id)
    assert call(project, "vault_review", kind="unmerged")["items"] == []
    call(two, "memory_undo")
    git(project, "worktree", "remove", "--force", "../two")
    assert recalled(project, "deploy host")["Deploy host"]["unmergedBranch"] == "feat"
    call(project, "memory_restore", memId=mem_id)
    call(project, "memory_undo")
    assert "Deploy host" not in recalled(project, "deploy host")
    call(project, "memory_restore", memId=mem_id)
    assert "unmergedBranch" not in recalled(project, "deploy host")["Deploy host"]


def test_copy_is_recreated_after_merge_is_undone(project: Path) -> None:
    """A memory written in a worktree's first minute is copied again when main loses it."""
    feat = worktree(project, "feat")
    mem_id = remember(feat, "Deploy host", "We deploy to the host kiwi.")
    call(project, "memory_restore", memId=mem_id)
    recalled(project, "deploy host")
    assert not list((project / ".git/memvault").rglob("*.md"))
    git(project, "stash", "--quiet", "--include-untracked")
    recalled(project, "deploy host")
    git(project, "worktree", "remove", "--force", "../feat")
    assert recalled(project, "deploy host")["Deploy host"]["unmergedBranch"] == "feat"
