"""A vault in git: set up once, committed call by call, and what is refused in one sentence."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import Run, refused, succeeded, write
from git_clones import Clone, cloned, git, without_identity
from memvault import Vault, open_vault
from memvault.call import Call, Caller
from memvault.errors import Refused
from memvault.git.commit import commit, message
from memvault.git.sync import sync
from memvault.vault.front_matter import parse_header, split_front_matter
from memvault.vault.markdown import has_conflict_markers
from memvault.workspace import Workspace

NOTE = """---
id: note-abc123
tags: [a]
modified: 2026-01-01T00:00:00.000Z
---

We use SQLite.
"""


@pytest.fixture(autouse=True)
def _nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_identity(monkeypatch, tmp_path / "home")


@pytest.fixture
def clones(tmp_path: Path) -> Iterator[tuple[Clone, ...]]:
    """Two clones of one vault with a memory in it."""
    for found in cloned(tmp_path):
        write(found[0].root, "note.md", NOTE)
        found[0].sync()
        found[1].sync()
        yield found


@pytest.fixture
def repository(folder: Path, vault: Vault) -> Path:
    """A vault that is a repository with a first commit."""
    assert vault.call("git_init")["success"]
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "First")
    return folder


def last(folder: Path) -> str:
    """Return the last commit's message and the files in it."""
    return git(folder, "log", "-1", "--format=%B", "--name-only").strip()


def test_init_sets_a_vault_up_once(folder: Path, vault: Vault) -> None:
    """The vault becomes a repository that passes over .memvault, and again changes nothing."""
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


def test_init_adds_only_the_lines_that_are_missing(folder: Path, vault: Vault) -> None:
    """Files of one's own keep every line that they have."""
    git(folder, "init", "--quiet")
    write(folder, ".gitignore", "# mine\n.memvault/\n*.bak")
    write(folder, ".gitattributes", "*.png binary\r\n")
    assert vault.call("git_init")["made"] is False
    assert (folder / ".gitignore").read_text("utf-8") == "# mine\n.memvault/\n*.bak\n.*.tmp\n"
    attributes = (folder / ".gitattributes").read_bytes()
    assert attributes == b"*.png binary\r\n*.md -text merge=memvault\n"


def test_status_says_what_is_to_be_done(
    clones: tuple[Clone, ...], tmp_path: Path, folder: Path, vault: Vault
) -> None:
    """No repository, a clone that does not know the merge driver, and one that waits are told."""
    assert vault.call("git_status")["todo"] == ["memvault git init"]
    one, two = clones
    one.remember("Wombats", "They dig.")
    assert one.call("git_status")["changed"] == 1
    one.sync()
    two.git("fetch", "--quiet")
    found = two.call("git_status")
    assert (found["ahead"], found["behind"], found["driver"]) == (0, 1, True)
    git(tmp_path, "clone", "--quiet", "shared.git", "three")
    with open_vault(tmp_path / "three") as third:
        found = third.call("git_status")
        assert (found["driver"], found["todo"]) == (False, ["memvault git init"])
        assert third.call("git_sync", confirm=True)["success"]
        assert third.call("git_status")["driver"]


def test_a_pull_by_hand_merges_headers(clones: tuple[Clone, ...]) -> None:
    """With the driver, git pull itself merges front matter and what both added to the end."""
    one, two = clones
    one.call("memory_compound", query="note-abc123", modifications="Since May.")
    one.sync()
    write(two.root, "note.md", NOTE.replace("[a]", "[a, b]").replace("-01T", "-02T"))
    two.git("commit", "--quiet", "--all", "--message", "Tag")
    two.git("pull", "--quiet", "--rebase")
    text = (two.root / "note.md").read_text("utf-8")
    assert "tags: [a, b]" in text
    assert text.endswith("We use SQLite.\n\nSince May.\n")
    assert not has_conflict_markers(text)


@pytest.mark.parametrize("how", ["--rebase", "--no-rebase"])
def test_a_conflict_by_hand_never_stands_in_a_header(clones: tuple[Clone, ...], how: str) -> None:
    """Where git pull stops, the memory is still itself and its header is merged."""
    one, two = clones
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
    assert "under way" in failed["message"]


def test_a_module_in_the_vault_is_not_the_driver(clones: tuple[Clone, ...]) -> None:
    """Nothing in a vault stands for a part of memvault when git merges."""
    one, two = clones
    command = two.git("config", "merge.memvault.driver")
    assert "-P" in command or command.startswith("memvault ")
    write(two.root, "memvault.py", "raise SystemExit(9)\n")
    write(two.root, "yaml.py", "raise SystemExit(9)\n")
    one.call("memory_compound", query="note-abc123", modifications="Since May.")
    one.sync()
    write(two.root, "note.md", NOTE.replace("[a]", "[a, b]").replace("-01T", "-02T"))
    two.git("commit", "--quiet", "--all", "--message", "Tag")
    two.git("pull", "--quiet", "--rebase")


def test_a_commit_is_of_exactly_the_files_of_a_call(repository: Path) -> None:
    """What a person staged, or left unstaged, is not in the commit of a call, and stays so."""
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


def test_each_call_that_writes_is_a_commit(repository: Path) -> None:
    """With git.autocommit the log tells which tool of which agent did what, and reads make none."""
    write(repository, "memvault.toml", "version = 1\n\n[git]\nautocommit = true\n")
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
        assert git(repository, "status", "--porcelain") == " M memvault.toml\n"


def test_autocommit_of_a_vault_from_anyone_runs_nothing(folder: Path, vault: Vault) -> None:
    """Settings that came with a vault make no commit before its user set git up there."""
    git(folder, "init", "--quiet")
    hook = folder / ".git" / "hooks" / "pre-commit"
    hook.write_text("#!/bin/sh\ntouch ran\n")
    hook.chmod(0o755)
    write(folder, "memvault.toml", "version = 1\n\n[git]\nautocommit = true\n")
    made = vault.call("memory_remember", title="Wombats", content="Dig.", memoryType="fact")
    assert made["success"]
    assert "memvault git init" in made["warnings"][0]
    assert not (folder / "ran").exists()
    assert vault.call("git_init", confirm=True)["success"]
    vault.call("memory_compound", query=made["memId"], modifications="More.")
    assert (folder / "ran").exists()


def test_a_vault_in_a_larger_repository_is_committed_too(
    tmp_path: Path, folder: Path, vault: Vault
) -> None:
    """Where the repository begins above the vault, a commit is of the vault's files alone."""
    git(tmp_path, "init", "--quiet")
    write(tmp_path, "code.py", "1\n")
    assert vault.call("git_init")["success"]
    write(folder, "a.md", "1\n")
    assert commit(folder, ["a.md"], "m") == ""
    assert last(tmp_path) == "m\n\n\nvault/a.md"


def test_a_message_names_tool_titles_and_agent() -> None:
    """One title stands in the first line, several below it, and no title breaks a line."""
    assert message("t", [], "main") == "t\n\nAgent: main\n"
    assert message("t", ["A\nb", "A\nb"], "main") == "t: A b\n\nAgent: main\n"
    assert message("t", ["A", "B"], "main") == "t: 2 files\n\n- A\n- B\nAgent: main\n"
    assert len(message("t", ["A" * 200], "main").splitlines()[0]) <= 72


def test_a_commit_that_fails_is_a_note(folder: Path, repository: Path, vault: Vault) -> None:
    """Without a repository, in a rebase, or where a hook says no, the call has still succeeded."""
    write(repository, "a.md", "1\n")
    (repository / ".git" / "index.lock").touch()
    assert "index.lock" in commit(repository, ["a.md"], "m")
    (repository / ".git" / "index.lock").unlink()
    hook = repository / ".git" / "hooks" / "pre-commit"
    hook.write_text("#!/bin/sh\necho 'no secrets please' >&2\nexit 1\n")
    hook.chmod(0o755)
    assert "hooks/pre-commit: memvault git init" in commit(repository, ["a.md"], "m")
    assert vault.call("git_init", confirm=True)["success"]
    assert "no secrets please" in commit(repository, ["a.md"], "m")
    hook.unlink()
    git(repository, "switch", "--quiet", "--detach")
    assert "No branch" in commit(repository, ["a.md"], "m")
    git(repository, "switch", "--quiet", "-")
    (repository / ".git" / "MERGE_HEAD").write_text(git(repository, "rev-parse", "HEAD"))
    assert "merge is under way" in commit(repository, ["a.md"], "m")
    (repository / ".git" / "MERGE_HEAD").unlink()
    assert commit(repository, ["a.md"], "m") == ""
    assert "memvault git init" in commit(folder.parent, ["a.md"], "m")


def test_a_lock_that_goes_is_waited_for(repository: Path) -> None:
    """Somebody else's git that ends soon does not keep a call from its commit."""
    write(repository, "a.md", "1\n")
    file = repository / ".git" / "index.lock"
    file.touch()
    other = subprocess.Popen(["sh", "-c", f"sleep 0.3; rm '{file}'"])
    said = commit(repository, ["a.md"], "m")
    other.wait()
    assert said == ""


@pytest.mark.parametrize(
    ("prepare", "said"),
    [
        ("true", "no git repository"),
        ("git init -q", "no remote"),
        ("git init -q; git remote add origin x; git checkout -q --detach", "No branch"),
        ("git init -q; git remote add origin ./nowhere", "git ls-remote failed"),
        ("git init -q ..", "more than the vault"),
        ("git init -q; git remote add a x; git remote add b y", "none of the remotes a, b"),
    ],
    ids=["none", "remote", "detached", "unreachable", "above", "several"],
)
def test_what_keeps_sync_from_its_work_is_said(
    folder: Path, run: Run, prepare: str, said: str
) -> None:
    """Each trouble is one sentence with a hint, and nothing is changed."""
    script = prepare.replace("git checkout", "git -c user.name=x -c user.email=x commit -q "
                             "--allow-empty -m x; git checkout")  # fmt: skip
    subprocess.run(["sh", "-c", script], cwd=folder, check=True)
    assert said in refused(run("git", "sync", "--confirm", "true"), 1)


def test_without_git_it_is_said(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where there is no git program, the commands say so."""
    monkeypatch.setenv("PATH", str(tmp_path))
    for command in ("init", "sync", "status"):
        assert "There is no git program" in refused(run("git", command), 1)


def test_a_hook_that_refuses_is_told(clones: tuple[Clone, ...]) -> None:
    """Where a hook keeps sync from committing, its words are in the error, and nothing is lost."""
    one, _ = clones
    hook = one.root / ".git" / "hooks" / "pre-commit"
    hook.write_text("#!/bin/sh\necho 'no secrets please' >&2\nexit 1\n")
    hook.chmod(0o755)
    made = one.remember("Wombats", "They dig.")
    failed = one.vault.call("git_sync", confirm=True)["error"]
    assert "no secrets please" in failed["message"]
    assert "hook" in failed["hint"]
    hook.unlink()
    assert one.sync()["pushed"] == 1
    assert one.call("memory_show", memId=made["memId"])


def test_a_vault_from_anyone_runs_nothing(folder: Path, vault: Vault) -> None:
    """In a repository that nobody here set up, git runs no hook, filter or monitor for a client."""
    git(folder, "init", "--quiet")
    ran = folder / "ran"
    evil = folder / "evil.sh"
    evil.write_text(f"#!/bin/sh\ntouch '{ran}'\ncat\n")
    evil.chmod(0o755)
    for hook in ("pre-commit", "post-index-change", "reference-transaction"):
        (folder / ".git" / "hooks" / hook).write_text(evil.read_text())
        (folder / ".git" / "hooks" / hook).chmod(0o755)
    git(folder, "config", "filter.x.clean", str(evil))
    git(folder, "config", "core.fsmonitor", str(evil))
    write(folder, ".gitattributes", "* filter=x\n")
    write(folder, "a.md", "zebra\n")
    ran.unlink(missing_ok=True)
    workspace = Workspace(folder)
    client = Call(workspace, Caller(may_run_programs=False, may_see_paths=False))
    with pytest.raises(Refused, match="nobody at this machine"):
        sync(client)
    assert vault.call("git_status")["success"]
    assert vault.call("vault_doctor", fix=True)["success"]
    workspace.close()
    assert not ran.exists()


def test_the_commands_are_there(run: Run, folder: Path) -> None:
    """Init, status and the driver work from a shell."""
    assert "Set up" in succeeded(run("git", "init")).out
    assert "branch" in succeeded(run("git", "status", "--json")).out
    for name, text in (("b", "x\n"), ("o", "x\ny\n"), ("t", "x\n")):
        write(folder, name, text)
    assert run("git", "merge-file", "b", "t", "o", "7", "a.md").code == 0
    assert (folder / "t").read_text("utf-8") == "x\ny\n"
