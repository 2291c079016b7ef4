"""A vault in git: initialized once, committed call by call, with clear refusals."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from conftest import Run, called, refused, succeeded, write
from git_clones import cloned, git, hook
from memvault import Vault, open_vault
from memvault.git.commit import commit, message

pytestmark = pytest.mark.usefixtures("nobody")


@pytest.fixture
def repository(folder: Path, vault: Vault) -> Path:
    """A vault in a repository with a first commit and automatic commits."""
    assert vault.call("git_init")["success"]
    write(folder, "memvault.toml", "version = 1\n\n[git]\nautocommit = true\n")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "First")
    return folder


def last(folder: Path) -> str:
    """Return the last commit's message and the files in it."""
    return git(folder, "log", "-1", "--format=%B", "--name-only").strip()


def test_git_init_is_idempotent(folder: Path, vault: Vault) -> None:
    """Init makes the vault a repository that ignores .memvault; a second init changes nothing."""
    found = vault.call("git_init")
    assert found == {
        "success": True, "made": True, "branch": "main",
        "changed": [".gitignore", ".gitattributes"], "driver": True,
    }  # fmt: skip
    assert vault.call("git_init")["changed"] == []
    vault.call("memory_remember", title="A", content="B", memoryType="fact")
    write(folder, ".a.md.12-abcdefgh.tmp", "half")
    listed = git(folder, "status", "--porcelain", "--untracked-files=all").split()
    assert listed[1::2] == [".gitattributes", ".gitignore", "fact/a.md", "memvault.toml"]
    assert git(folder, "check-attr", "merge", "text", "--", "fact/a.md").split()[2::3] == [
        "memvault",
        "unset",
    ]


def test_git_init_adds_only_missing_lines(folder: Path, vault: Vault) -> None:
    """Existing .gitignore and .gitattributes files keep every line."""
    git(folder, "init", "--quiet")
    write(folder, ".gitignore", "# mine\n.memvault/\n*.bak")
    write(folder, ".gitattributes", "*.png binary\r\n")
    assert vault.call("git_init")["made"] is False
    assert (folder / ".gitignore").read_text("utf-8") == "# mine\n.memvault/\n*.bak\n.*.tmp\n"
    attributes = (folder / ".gitattributes").read_bytes()
    assert attributes == b"*.png binary\r\n*.md -text merge=memvault\n"


def test_git_status_lists_next_steps(tmp_path: Path, vault: Vault, run: Run) -> None:
    """Status reports a missing repository, a missing merge driver and an unfinished merge."""
    assert vault.call("git_status")["todo"] == ["`git_init`"]
    assert "to do: `memvault git init`" in run("git", "status").out
    for one, two in cloned(tmp_path):
        two.sync()
        one.remember("Wombats", "They dig.")
        assert one.call("git_status")["changed"] == 1
        one.sync()
        two.git("fetch", "--quiet")
        found = two.call("git_status")
        assert (found["ahead"], found["behind"], found["driver"]) == (0, 1, True)
    git(tmp_path, "clone", "--quiet", "shared.git", "three")
    with open_vault(tmp_path / "three") as third:
        found = third.call("git_status")
        assert (found["driver"], found["todo"]) == (False, ["`git_init`"])
        assert third.call("git_sync", confirm=True)["success"]
        assert third.call("git_status")["driver"]


@pytest.mark.promise("R44")
def test_autocommit_includes_only_files_changed_by_call(repository: Path) -> None:
    """A call's commit leaves out the user's staged and unstaged changes and keeps their state."""
    for name in ("mine", "staged", "both"):
        write(repository, f"{name}.md", "1\n")
    git(repository, "add", "--all")
    git(repository, "commit", "--quiet", "--message", "Files")
    for name in ("mine", "staged", "both", "new"):
        write(repository, f"{name}.md", "2\n")
    git(repository, "add", "staged.md")
    (repository / "both.md").unlink()
    text = message("memory_compound", ["Wombats"], "bob")
    assert commit(repository, ["new.md", "both.md", ".memvault/lock", "gone.md"], text) == ""
    assert last(repository) == "memory_compound: Wombats\n\nAgent: bob\n\n\nboth.md\nnew.md"
    left = git(repository, "status", "--porcelain").splitlines()
    assert left == [" M mine.md", "M  staged.md"]
    assert commit(repository, ["new.md"], text) == ""
    assert "memvault <memvault@localhost>" in git(repository, "log", "-1", "--format=%an <%ae>")


@pytest.mark.promise("R44")
def test_autocommit_commits_each_write(repository: Path) -> None:
    """Each write is a commit with its tool and agent in the message; reads are not committed."""
    with open_vault(repository, agent="bob") as vault:
        made = vault.call("memory_remember", title="Wombats", content="Dig.", memoryType="fact")
        assert "warnings" not in made
        assert last(repository) == "memory_remember: Wombats\n\nAgent: bob\n\n\nfact/wombats.md"
        for tool, more in (
            ("memory_recall", {"query": "wombats"}),
            ("memory_compound", {"query": made["memId"], "modifications": "A", "memoryType": "t"}),
            ("memory_forget", {"query": made["memId"], "confirm": True}),
            ("memory_restore", {"memId": made["memId"]}),
            ("set_memories", {"memories": [{"key": "k", "value": "v"}]}),
        ):
            assert "warnings" not in vault.call(tool, **more)
        subjects = git(repository, "log", "--format=%s").splitlines()
        assert subjects == [
            "set_memories: k",
            "memory_restore: Wombats",
            "memory_forget: Wombats",
            "memory_compound: Wombats",
            "memory_remember: Wombats",
            "First",
        ]
        assert git(repository, "status", "--porcelain") == ""


def test_autocommit_includes_files_written_before_failure(repository: Path) -> None:
    """Files that a call wrote before it failed are committed on their own."""
    (repository / ".memvault/agents/main/plans.json").mkdir(parents=True)
    plan = {"name": "Report", "instruction": "Do it", "scheduledAt": "2999-01-01"}
    with open_vault(repository) as vault:
        assert vault.call("set_plans", plans=[plan])["error"]["code"] == "storage"
    assert git(repository, "status", "--porcelain") == ""
    assert "agents/main/plans/report.md" in git(repository, "log", "-1", "--name-only")


def test_autocommit_puts_all_files_of_a_call_in_one_commit(repository: Path) -> None:
    """All files that a call writes are in one commit."""
    many = [{"key": f"{'k' * 60}-{n}", "value": "v"} for n in range(3_000)]
    with open_vault(repository) as vault:
        assert "warnings" not in vault.call("set_memories", memories=many)
    assert git(repository, "status", "--porcelain") == ""
    assert len(git(repository, "log", "--format=%s").splitlines()) == 2


@pytest.mark.promise("S21")
def test_autocommit_needs_git_init_by_the_user(folder: Path, vault: Vault) -> None:
    """A downloaded vault's autocommit setting has no effect until the user runs git init."""
    git(folder, "init", "--quiet")
    hook(folder, "pre-commit", "touch ran")
    write(folder, "memvault.toml", "version = 1\n\n[git]\nautocommit = true\n")
    made = called(vault, "memory_remember", title="Wombats", content="Dig.", memoryType="fact")
    assert "git_init" in made["warnings"][0]
    assert not (folder / "ran").exists()
    assert vault.call("git_init", confirm=True)["success"]
    vault.call("memory_compound", query=made["memId"], modifications="More.")
    assert (folder / "ran").exists()


def test_autocommit_works_in_larger_repository(tmp_path: Path, folder: Path, run: Run) -> None:
    """In a repository larger than the vault, a commit contains only the vault's files."""
    git(tmp_path, "init", "--quiet")
    write(tmp_path, "code.py", "1\n")
    for command in ("init", "status"):
        assert "more than the vault" in succeeded(run("git", command)).err
    write(folder, "a.md", "1\n")
    assert commit(folder, ["a.md"], "m") == ""
    assert last(tmp_path) == "m\n\n\nvault/a.md"


def test_autocommit_message_has_tool_titles_and_agent() -> None:
    """A single title is in the subject line, several are in the body, each on one line."""
    assert message("t", [], "main") == "t\n\nAgent: main\n"
    assert message("t", ["A\nb", "A\nb"], "main") == "t: A b\n\nAgent: main\n"
    assert message("t", ["A", "B"], "main") == "t: 2 files\n\n- A\n- B\nAgent: main\n"
    assert len(message("t", ["A" * 200], "main").splitlines()[0]) <= 72


def test_autocommit_failure_is_a_warning(folder: Path, repository: Path, vault: Vault) -> None:
    """A missing repository, a lock, a merge or a failing hook is a warning; the call succeeds."""
    write(repository, "a.md", "1\n")
    (repository / ".git" / "index.lock").touch()
    assert "index.lock" in commit(repository, ["a.md"], "m")
    (repository / ".git" / "index.lock").unlink()
    file = hook(repository, "pre-commit", "echo 'no secrets please' >&2; exit 1")
    assert "hooks/pre-commit: `memvault git init`" in commit(repository, ["a.md"], "m")
    assert vault.call("git_init", confirm=True)["success"]
    assert "no secrets please" in commit(repository, ["a.md"], "m")
    file.unlink()
    git(repository, "switch", "--quiet", "--detach")
    assert "No branch" in commit(repository, ["a.md"], "m")
    git(repository, "switch", "--quiet", "-")
    (repository / ".git" / "MERGE_HEAD").write_text(git(repository, "rev-parse", "HEAD"))
    assert "merge is in progress" in commit(repository, ["a.md"], "m")
    (repository / ".git" / "MERGE_HEAD").unlink()
    assert commit(repository, ["a.md"], "m") == ""
    assert "memvault git init" in commit(folder.parent, ["a.md"], "m")


def test_autocommit_timeout_leaves_no_lock(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hook that never ends is killed with its git, and the next call is committed."""
    monkeypatch.setattr("memvault.git.commit._SECONDS", 0.5)
    slow = hook(repository, "pre-commit", "sleep 60")
    with open_vault(repository) as vault:
        assert vault.call("git_init", confirm=True)["success"]
        made = vault.call("memory_remember", title="Wombats", content="Dig.", memoryType="fact")
        assert "took more than" in made["warnings"][0]
        assert list((repository / ".git").glob("*.lock")) == []
        slow.unlink()
        assert "warnings" not in vault.call("memory_compound", query="Wombats", modifications="x")
    assert git(repository, "status", "--porcelain") == ""


def test_autocommit_waits_for_index_lock(repository: Path) -> None:
    """A call waits for another git process to release its lock, then commits."""
    write(repository, "a.md", "1\n")
    file = repository / ".git" / "index.lock"
    file.touch()
    other = subprocess.Popen(["sh", "-c", f"sleep 0.3; rm '{file}'"])
    said = commit(repository, ["a.md"], "m")
    other.wait()
    assert said == ""


def test_git_commands_report_missing_git(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The git commands report that git is not installed."""
    monkeypatch.setenv("PATH", str(tmp_path))
    for command in ("init", "sync", "status"):
        assert "git is not installed" in refused(run("git", command), 1)


def test_git_reports_invalid_git_folder(folder: Path, run: Run) -> None:
    """A broken .git that git cannot repair is reported, and init completes an incomplete one."""
    write(folder, ".git", "gitdir: /nowhere/at/all\n")
    for command in ("init", "sync", "status"):
        assert ".git is not a git repository" in refused(run("git", command), 1)
    (folder / ".git").unlink()
    (folder / ".git/HEAD").mkdir(parents=True)
    assert "not a git repository" in refused(run("git", "init"), 1)
    (folder / ".git/HEAD").rmdir()
    assert "Set up" in succeeded(run("git", "init")).out
    assert "branch" in succeeded(run("git", "status", "--json")).out


def test_git_status_reports_detached_head(repository: Path, run: Run) -> None:
    """On a detached HEAD, status suggests the command that checks out a branch."""
    git(repository, "checkout", "--quiet", "--detach")
    assert "git switch" in succeeded(run("git", "status")).out
