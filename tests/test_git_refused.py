"""A sync that cannot proceed reports one sentence; the merge driver merges by key."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import Run, child, refused, sampled_tests, write
from git_clones import NOTE, Clone, cloned, git, hook, without_identity
from made_secrets import MADE, made
from memvault import open_vault
from memvault.vault.front_matter import split_front_matter
from memvault.vault.header_yaml import parse_header
from memvault.vault.markdown import has_conflict_markers

pytestmark = sampled_tests(4)


def failure(clone: Clone) -> dict[str, Any]:
    """Return why a sync failed."""
    return dict(clone.vault.call("git_sync", confirm=True)["error"])


def notes(result: dict[str, object]) -> str:
    """Return a call's notes as one string."""
    return "\n".join(map(str, result.get("warnings", [])))  # type: ignore[call-overload]


@pytest.mark.parametrize("has_commit", [True, False])
def test_sync_reports_nested_repository(clones: tuple[Clone, ...], has_commit: bool) -> None:
    """Everything else is synced; sync, status and doctor report the nested repository."""
    one, two = clones
    inner = one.root / "proj" / "sub"
    write(inner, "idea.md", "An idea.\n")
    git(inner, "init", "--quiet")
    if has_commit:
        git(inner, "add", "--all")
        git(inner, "commit", "--quiet", "--message", "first")
    one.remember("Beside it", "It travels.")
    done = one.sync()
    assert done["committed"] == 1
    assert done["notSynced"] == ["proj/sub"]
    assert "proj/sub is a separate git repository" in notes(done)
    two.sync()
    assert [path for path in two.texts() if "beside-it" in path]
    assert not one.git("ls-files", "--stage", "proj")
    again = one.sync()
    assert (again["committed"], again["notSynced"]) == (0, ["proj/sub"])
    assert one.call("git_status")["notSynced"] == ["proj/sub"]
    found = one.call("vault_doctor", only=["repository-inside"])["findings"]
    assert [entry["filePath"] for entry in found] == ["proj/sub"]


def test_sync_accepts_submodule(clones: tuple[Clone, ...], tmp_path: Path) -> None:
    """A repository listed in .gitmodules is synced as git does, and is not a finding."""
    one, _ = clones
    other = tmp_path / "other"
    write(other, "idea.md", "An idea.\n")
    git(other, "init", "--quiet")
    git(other, "add", "--all")
    git(other, "commit", "--quiet", "--message", "first")
    allow = ("-c", "protocol.file.allow=always")
    one.git(*allow, "submodule", "--quiet", "add", str(other), "sub")
    assert "notSynced" not in one.sync()
    assert one.git("ls-files", "--stage", "sub").startswith("160000 ")
    assert one.call("vault_doctor", only=["repository-inside"])["findings"] == []
    modules = one.root / ".gitmodules"
    modules.write_bytes(modules.read_bytes().replace(b"\n", b"\r\n"))
    assert one.call("vault_doctor", only=["repository-inside"])["findings"] == []


def test_sync_reports_secret_in_any_file(clones: tuple[Clone, ...]) -> None:
    """A token in any file or file name is reported with its line and never shown."""
    one, _ = clones
    token, _ = made("npm token")
    write(one.root, "deploy.env", f"A=1\nTOKEN={token}\n")
    write(one.root, "goals.yaml", "<<<<<<< ours\na\n=======\nb\n>>>>>>> theirs\n")
    (one.root / "picture.png").write_bytes(b"\x89PNG\0" + token.encode())
    said = notes(one.sync())
    assert "deploy.env now contains a secret" in said
    assert "line 2" in said
    assert "goals.yaml is committed with git conflict markers" in said
    assert "picture.png" not in said
    assert token not in said


def test_sync_reports_pasted_secret(clones: tuple[Clone, ...]) -> None:
    """Sync reports a manually added secret; if settings refuse secrets, nothing is committed."""
    one, _ = clones
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
    assert "note.md now contains a secret" in warned[0]
    assert secret not in str(warned)


def test_sync_reports_pushed_conflict_markers(clones: tuple[Clone, ...]) -> None:
    """A sync that commits conflict markers reports the file that contains them."""
    one, _ = clones
    write(one.root, "note.md", "One.\n\n<<<<<<< ours\nTwo.\n=======\nThree.\n>>>>>>> theirs\n")
    warned = " ".join(one.sync()["warnings"])
    assert "note.md" in warned
    assert "conflict" in warned
    assert "warnings" not in one.sync()


@pytest.mark.promise("R44")
def test_sync_restores_index_after_rejected_commit(clones: tuple[Clone, ...]) -> None:
    """If a hook rejects the commit, its output is quoted and the staged files are as before."""
    one, _ = clones
    write(one.root, "staged.md", "1\n")
    one.git("add", "staged.md")
    write(one.root, "other.md", "1\n")
    file = hook(one.root, "pre-commit", "echo 'no secrets please' >&2; exit 1")
    failed = failure(one)
    assert "no secrets please" in failed["message"]
    assert "hook" in failed["hint"]
    assert one.git("status", "--porcelain").splitlines() == ["A  staged.md", "?? other.md"]
    file.unlink()
    assert one.sync()["committed"] == 2


def test_sync_quotes_rejecting_push_hook(clones: tuple[Clone, ...]) -> None:
    """The message includes the output of a hook that rejected the push."""
    one, _ = clones
    one.remember("Wombats", "They dig.")
    for where in ("", " >&2"):
        hook(one.root, "pre-push", f"echo 'not on a Sunday'{where}; exit 1")
        failed = failure(one)
        assert "not on a Sunday" in failed["message"]
        assert "a hook" in failed["hint"]


def test_sync_reports_branch_missing_on_remote(clones: tuple[Clone, ...]) -> None:
    """A branch missing on the remote is reported, with the branch that the remote has."""
    one, _ = clones
    one.git("switch", "--quiet", "--create", "mine")
    assert "git switch main" in failure(one)["hint"]
    one.git("branch", "--quiet", "--delete", "main")
    assert "git branch --move main" in failure(one)["hint"]


def test_sync_reports_unfinished_merge(clones: tuple[Clone, ...]) -> None:
    """A merge with conflicting files is reported as something to resolve first."""
    one, two = clones
    for clone in clones:
        write(clone.root, "note.md", f"{clone.root.name}\n")
    one.sync()
    two.git("add", "--all")
    two.git("commit", "--quiet", "--message", "Two")
    git(two.root, "pull", "--quiet", "--no-rebase", good=False)
    failed = failure(two)
    assert "merge is in progress" in failed["message"]
    assert "note.md" in failed["hint"]
    assert "git merge --continue" in failed["hint"]
    todo = "resolve note.md, `git add` them, then `git merge --continue`"
    assert two.call("git_status")["todo"][0] == todo
    assert f"to do: {todo}" in child(two.root, "git", "status").out


def test_sync_reports_stale_git_lock(clones: tuple[Clone, ...]) -> None:
    """A killed git's lock is reported, with the command that removes it."""
    one, _ = clones
    one.remember("Wombats", "They dig.")
    (one.root / ".git/index.lock").touch()
    failed = failure(one)
    assert "index.lock" in failed["message"]
    assert "delete" in failed["hint"]
    (one.root / ".git/index.lock").unlink()
    assert one.sync()["pushed"] == 1


def test_sync_works_without_home(
    clones: tuple[Clone, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sync works without a home folder."""
    one, _ = clones
    one.remember("Wombats", "They dig.")
    monkeypatch.delenv("HOME")
    monkeypatch.setenv("XDG_CONFIG_HOME", "/nowhere")
    assert one.sync()["pushed"] == 1


@pytest.mark.parametrize(
    ("prepare", "said"),
    [
        ("true", "not in a git repository"),
        ("git init -q", "git remote add origin URL"),
        ("git init -q; git config remote.origin.prune 1", "git config remote.origin.url URL"),
        ("git init -q; git remote add origin x; git checkout -q --detach", "No branch"),
        ("git init -q; git remote add origin ./nowhere", "git ls-remote failed"),
        ("git init -q ..", "more than the vault"),
        (
            "git init -q; git remote add a x; git remote add b y",
            "no upstream in any of the remotes a, b",
        ),
    ],
    ids=["none", "remote", "address", "detached", "unreachable", "above", "several"],
)
def test_sync_obstacles_are_reported(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run, prepare: str, said: str
) -> None:
    """Each problem is reported in one sentence with a hint, and nothing is changed."""
    without_identity(monkeypatch, tmp_path / "home")
    script = prepare.replace("git checkout", "git -c user.name=x -c user.email=x commit -q "
                             "--allow-empty -m x; git checkout")  # fmt: skip
    subprocess.run(["sh", "-c", script], cwd=folder, check=True)
    ran = run("git", "sync", "--confirm", "true")
    assert refused(ran, 1)
    assert said in ran.err


@pytest.fixture
def drivers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Clone, ...]]:
    """Two clones of one vault with a memory in it."""
    without_identity(monkeypatch, tmp_path / "home")
    for found in cloned(tmp_path):
        write(found[0].root, "note.md", NOTE)
        found[0].sync()
        found[1].sync()
        yield found


def change(clone: Clone, *changes: tuple[str, str]) -> None:
    """Replace words in the memory, and commit that with git."""
    text = NOTE
    for old, new in changes:
        text = text.replace(old, new)
    write(clone.root, "note.md", text)
    clone.git("commit", "--quiet", "--all", "--message", "By hand")


def test_merge_driver_merges_headers_in_git_pull(drivers: tuple[Clone, ...]) -> None:
    """With the driver, git pull itself merges front matter and text appended by both sides."""
    one, two = drivers
    one.call("memory_compound", query="note-abc123", modifications="Since May.")
    one.sync()
    change(two, ("[a]", "[a, b]"), ("-01T", "-02T"))
    two.git("pull", "--quiet", "--rebase")
    text = (two.root / "note.md").read_text("utf-8")
    assert "tags: [a, b]" in text
    assert text.endswith("It is in one file.\n\nSince May.\n")
    assert not has_conflict_markers(text)


@pytest.mark.promise("R42")
@pytest.mark.parametrize("how", ["--rebase", "--no-rebase"])
def test_sync_conflict_of_git_pull_never_affects_header(
    drivers: tuple[Clone, ...], how: str
) -> None:
    """If git pull stops with a conflict, the memory keeps its identity and a merged header."""
    one, two = drivers
    write(one.root, "note.md", NOTE.replace("SQLite", "PostgreSQL").replace("[a]", "[a, b]"))
    write(one.root, "new.md", NOTE.replace("note-abc123", "new-abc123"))
    one.sync()
    write(two.root, "note.md", NOTE.replace("SQLite", "DuckDB").replace("[a]", "[a, c]"))
    write(two.root, "new.md", NOTE.replace("note-abc123", "other-abc123").replace("We", "They"))
    two.git("add", "--all")
    two.git("commit", "--quiet", "--message", "DuckDB")
    git(two.root, "pull", "--quiet", how, good=False)
    text = (two.root / "note.md").read_text("utf-8")
    header = parse_header(split_front_matter(text).header)
    assert header["id"] == "note-abc123"
    assert set(header["tags"]) == {"a", "b", "c"}
    assert has_conflict_markers(text)
    new = (two.root / "new.md").read_text("utf-8")
    assert parse_header(split_front_matter(new).header)["id"] in ("new-abc123", "other-abc123")
    assert "new-abc123" in new
    assert "other-abc123" in new
    failed = two.vault.call("git_sync")["error"]
    assert failed["code"] == "refused"
    assert "in progress" in failed["message"]


@pytest.mark.promise("S29")
def test_merge_driver_ignores_modules_in_vault(drivers: tuple[Clone, ...]) -> None:
    """A Python module in the vault can't replace part of memvault when git merges."""
    one, two = drivers
    command = two.git("config", "merge.memvault.driver")
    assert "-P" in command or command.startswith("memvault ")
    write(two.root, "memvault.py", "raise SystemExit(9)\n")
    write(two.root, "yaml.py", "raise SystemExit(9)\n")
    one.call("memory_compound", query="note-abc123", modifications="Since May.")
    one.sync()
    change(two, ("[a]", "[a, b]"), ("-01T", "-02T"))
    two.git("pull", "--quiet", "--rebase")


def test_merge_driver_does_not_mix_two_memories(drivers: tuple[Clone, ...]) -> None:
    """If git pull brings a different memory under the same path, it stops with both versions."""
    one, two = drivers
    write(one.root, "note.md", NOTE.replace("note-abc123", "other-abc123"))
    one.sync()
    change(two, ("[a]", "[a, mine]"))
    git(two.root, "pull", "--quiet", "--no-rebase", good=False)
    text = (two.root / "note.md").read_text("utf-8")
    assert "note-abc123" in text
    assert "other-abc123" in text


def test_merge_driver_reports_discarded_value(drivers: tuple[Clone, ...]) -> None:
    """With git pull, the driver reports the value that was overridden."""
    one, two = drivers
    write(one.root, "note.md", NOTE.replace("tags: [a]", "status: done").replace("01T", "03T"))
    one.sync()
    change(two, ("tags: [a]", "status: late"), ("01T", "02T"))
    assert "status: late" in git(two.root, "pull", "--no-rebase", good=False)


def test_merge_driver_runs_from_a_shell(drivers: tuple[Clone, ...], run: Run, folder: Path) -> None:
    """The command that init configures runs without a path and merges three files."""
    command = drivers[0].git("config", "merge.memvault.driver").split(" git merge-file")[0]
    assert subprocess.run([*command.split(), "--version"], check=False).returncode == 0
    for name, text in (("b", "x\n"), ("o", "x\ny\n"), ("t", "x\n")):
        write(folder, name, text)
    assert run("git", "merge-file", "b", "t", "o", "7", "a.md").code == 0
    assert (folder / "t").read_text("utf-8") == "x\ny\n"
