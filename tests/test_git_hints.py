"""What keeps git from its work is said in one sentence, with a way out; what is wrong is told."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import Run, refused, succeeded, write
from git_clones import Clone, cloned, git, settle, without_identity
from made_secrets import MADE
from memvault import Vault, open_vault

MARKED = "One.\n\n<<<<<<< ours\nTwo.\n=======\nThree.\n>>>>>>> theirs\n"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home in which git knows nobody."""
    without_identity(monkeypatch, tmp_path / "home")
    return tmp_path / "home"


@pytest.fixture
def both(home: Path, tmp_path: Path) -> Iterator[tuple[Clone, ...]]:
    """Two clones of one vault."""
    yield from cloned(tmp_path)


@pytest.fixture
def repository(home: Path, folder: Path, vault: Vault) -> Path:
    """A vault that is a repository with a first commit, and commits by itself."""
    assert vault.call("git_init")["success"]
    write(folder, "memvault.toml", "version = 1\n\n[git]\nautocommit = true\n")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "First")
    return folder


def failure(clone: Clone) -> dict[str, Any]:
    """Return why a sync failed."""
    return dict(clone.vault.call("git_sync", confirm=True)["error"])


def hook(clone: Clone, name: str, script: str) -> Path:
    """Put a hook into a clone."""
    file = clone.root / ".git" / "hooks" / name
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    return file


def test_a_call_that_fails_half_way_is_committed_as_far_as_it_went(repository: Path) -> None:
    """What a call wrote before it failed is in a commit of its own too."""
    (repository / ".memvault/agents/main/plans.json").mkdir(parents=True)
    plan = {"name": "Report", "instruction": "Do it", "scheduledAt": "2999-01-01"}
    with open_vault(repository) as vault:
        assert vault.call("set_plans", plans=[plan])["error"]["code"] == "storage"
    assert git(repository, "status", "--porcelain") == ""
    assert "agents/main/plans/report.md" in git(repository, "log", "-1", "--name-only")


def test_a_call_that_writes_many_files_is_one_commit(repository: Path) -> None:
    """However many paths a call has written, they are in one commit."""
    many = [{"key": f"{'k' * 60}-{n}", "value": "v"} for n in range(3_000)]
    with open_vault(repository) as vault:
        assert "warnings" not in vault.call("set_memories", memories=many)
    assert git(repository, "status", "--porcelain") == ""
    assert len(git(repository, "log", "--format=%s").splitlines()) == 2


def test_a_refused_commit_leaves_what_was_staged(both: tuple[Clone, ...]) -> None:
    """Where a hook refuses the commit of a sync, staged is what was staged before."""
    one, _ = both
    write(one.root, "staged.md", "1\n")
    one.git("add", "staged.md")
    write(one.root, "other.md", "1\n")
    file = hook(one, "pre-commit", "echo 'no secrets please' >&2; exit 1")
    assert "no secrets please" in failure(one)["message"]
    assert one.git("status", "--porcelain").splitlines() == ["A  staged.md", "?? other.md"]
    file.unlink()
    assert one.sync()["committed"] == 2


def test_a_hook_that_refuses_a_push_is_quoted(both: tuple[Clone, ...]) -> None:
    """What a hook before a push says is in the message."""
    one, _ = both
    one.remember("Wombats", "They dig.")
    for where in ("", " >&2"):
        hook(one, "pre-push", f"echo 'not on a Sunday'{where}; exit 1")
        failed = failure(one)
        assert "not on a Sunday" in failed["message"]
        assert "a hook" in failed["hint"]


def test_a_branch_that_others_call_otherwise(both: tuple[Clone, ...]) -> None:
    """A branch that the others do not have is named, with the one that they have."""
    one, _ = both
    one.git("switch", "--quiet", "--create", "mine")
    assert "git switch main" in failure(one)["hint"]
    one.git("branch", "--quiet", "--delete", "main")
    assert "git branch --move main" in failure(one)["hint"]


def test_a_merge_that_waits_for_a_person(both: tuple[Clone, ...]) -> None:
    """A merge with files in conflict says that they come first."""
    one, two = both
    for clone in both:
        write(clone.root, "note.md", f"{clone.root.name}\n")
    one.sync()
    two.git("add", "--all")
    two.git("commit", "--quiet", "--message", "Two")
    git(two.root, "pull", "--quiet", "--no-rebase", good=False)
    failed = failure(two)
    assert "merge is under way" in failed["message"]
    assert "note.md" in failed["hint"]
    assert "git merge --continue" in failed["hint"]
    assert "note.md" in two.call("git_status")["todo"][0]


def test_a_lock_that_was_left_is_named(both: tuple[Clone, ...]) -> None:
    """A lock of a git that was killed is named with what takes it away."""
    one, _ = both
    one.remember("Wombats", "They dig.")
    (one.root / ".git/index.lock").touch()
    failed = failure(one)
    assert "index.lock" in failed["message"]
    assert "delete" in failed["hint"]
    (one.root / ".git/index.lock").unlink()
    assert one.sync()["pushed"] == 1


def test_a_git_folder_that_leads_nowhere(home: Path, folder: Path, run: Run) -> None:
    """A .git that is no repository is not taken for none."""
    write(folder, ".git", "gitdir: /nowhere/at/all\n")
    for command in ("init", "sync", "status"):
        assert ".git is no git repository" in refused(run("git", command), 1)


def test_a_vault_in_a_larger_repository_says_so(home: Path, folder: Path, run: Run) -> None:
    """Init and status say that sync is not for a repository that holds more than the vault."""
    git(folder.parent, "init", "--quiet")
    for command in ("init", "status"):
        assert "more than the vault" in succeeded(run("git", command)).err


def test_a_detached_head_is_told_by_status(repository: Path, run: Run) -> None:
    """Where no branch is checked out, status says what checks one out."""
    git(repository, "checkout", "--quiet", "--detach")
    assert "git switch" in succeeded(run("git", "status")).out


def test_without_a_home_sync_works(
    both: tuple[Clone, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a home folder, sync does its work or says what is missing."""
    one, _ = both
    one.remember("Wombats", "They dig.")
    monkeypatch.delenv("HOME")
    monkeypatch.setenv("XDG_CONFIG_HOME", "/nowhere")
    assert one.sync()["pushed"] == 1


def test_marks_that_are_pushed_are_told(both: tuple[Clone, ...]) -> None:
    """A sync that commits the marks of a conflict says in which file they are."""
    one, _ = both
    write(one.root, "note.md", MARKED)
    warned = " ".join(one.sync()["warnings"])
    assert "note.md" in warned
    assert "conflict" in warned
    assert "warnings" not in one.sync()


def test_an_agents_value_that_is_kept_twice_is_told_by_doctor(both: tuple[Clone, ...]) -> None:
    """Two values under one key, one from each side, are found by doctor on both sides."""
    one, two = both
    one.call("set_memories", memories=[{"key": "tone", "value": "friendly"}])
    two.call("set_memories", memories=[{"key": "tone", "value": "formal"}])
    one.sync()
    assert two.sync()["keptTwice"]
    settle(*both)
    for clone in both:
        found = clone.call("vault_doctor")["findings"]
        assert [(entry["code"], entry["filePath"]) for entry in found] == [
            ("kept-twice", "agents/main/memories/tone_2.md")
        ]


def test_a_git_folder_that_git_cannot_mend(home: Path, folder: Path, run: Run) -> None:
    """Init ends what a killed git began, and says so where it cannot."""
    (folder / ".git/HEAD").mkdir(parents=True)
    assert "no git repository" in refused(run("git", "init"), 1)
    (folder / ".git/HEAD").rmdir()
    assert "Set up" in succeeded(run("git", "init")).out


def test_the_driver_runs_from_a_shell_without_a_path(both: tuple[Clone, ...]) -> None:
    """The merge driver that init sets is a command that can be run."""
    one, _ = both
    command = one.git("config", "merge.memvault.driver").split(" git merge-file")[0]
    assert subprocess.run([*command.split(), "--version"], check=False).returncode == 0


def test_a_secret_that_was_pasted_is_told_before_it_is_shared(both: tuple[Clone, ...]) -> None:
    """Sync names a secret that came by hand; where the settings take none, nothing is committed."""
    one, _ = both
    before, make = MADE["GitHub token"]
    secret = before + make()
    write(one.root, "note.md", f"Use {secret} for it.\n")
    write(one.root, "memvault.toml", 'version = 1\n\n[secrets]\non_write = "refuse"\n')
    with open_vault(one.root) as vault:
        failed = vault.call("git_sync")["error"]
    assert "note.md contains a secret" in failed["message"]
    assert secret not in str(failed)
    assert "note.md" in one.git("status", "--porcelain", "--untracked-files=all")
    write(one.root, "memvault.toml", "version = 1\n")
    with open_vault(one.root) as vault:
        warned = vault.call("git_sync")["warnings"]
    assert "note.md holds a secret" in warned[0]
    assert secret not in str(warned)


def test_a_secret_that_is_not_kept_is_in_no_message(both: tuple[Clone, ...]) -> None:
    """The value that another one won over is told with a mask where it holds a secret."""
    one, two = both
    before, make = MADE["GitHub token"]
    secret = before + make()
    note = "---\nid: note-abc123\nstatus: {}\nmodified: 2026-01-0{}\n---\n\nOne.\n"
    write(one.root, "note.md", note.format("open", 1))
    settle(*both)
    write(one.root, "note.md", note.format("done", 3))
    write(two.root, "note.md", note.format(f"use {secret}", 2))
    one.sync()
    told = two.sync()
    assert "[masked: GitHub token]" in told["notKept"][0]
    assert secret not in str(told)
    assert secret not in two.git("log", "-1", "--format=%B")
    assert "[masked: GitHub token]" in two.git("log", "-1", "--format=%B")


def test_a_commit_that_takes_too_long_leaves_no_lock(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hook that does not end is ended with its git, and the next call is committed."""
    monkeypatch.setattr("memvault.git.commit._SECONDS", 0.5)
    slow = repository / ".git/hooks/pre-commit"
    slow.write_text("#!/bin/sh\nsleep 60\n")
    slow.chmod(0o755)
    with open_vault(repository) as vault:
        assert vault.call("git_init", confirm=True)["success"]
        made = vault.call("memory_remember", title="Wombats", content="Dig.", memoryType="fact")
        assert "took more than" in made["warnings"][0]
        assert list((repository / ".git").glob("*.lock")) == []
        slow.unlink()
        assert "warnings" not in vault.call("memory_compound", query="Wombats", modifications="x")
    assert git(repository, "status", "--porcelain") == ""
