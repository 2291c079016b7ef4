"""Git worktrees of one project share its memories, and removing a worktree loses none."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import SOAK, Run, contents, refused, succeeded, write
from git_clones import git
from memvault import open_vault
from memvault.call import Caller
from memvault.tools.core import invoke
from memvault.workspace import Workspace
from project_worktrees import by_hand, call, commit, new_project, recalled, remember, worktree

pytestmark = pytest.mark.usefixtures("nobody")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository with a tracked vault in the folder notes, and one memory."""
    return new_project(tmp_path)


def test_recall_finds_memory_in_other_worktree(project: Path, run: Run) -> None:
    """A memory written in a linked worktree is found in the main one, marked with its branch."""
    feat = worktree(project, "feat")
    mem_id = remember(feat, "Deploy host", "We deploy to the host kiwi.")
    found = recalled(project, "which host do we deploy to")["Deploy host"]
    assert (found["unmergedBranch"], found["worktree"]) == ("feat", "../../feat/notes")
    assert found["filePath"] == "fact/deploy-host.md"
    assert "unmergedBranch" not in recalled(project, "port")["Port"]
    assert "unmergedBranch" not in recalled(feat, "deploy host")["Deploy host"]
    out = run("recall", "deploy", "host", cwd=project / "notes").out
    assert "not merged, from feat  in ../../feat/notes" in out
    shown = call(project, "memory_show", memId=mem_id)
    assert (shown["content"].strip(), shown["unmergedBranch"]) == (
        "We deploy to the host kiwi.",
        "feat",
    )
    assert [item["title"] for item in call(project, "memory_list")["memories"]] == ["Port"]


def test_recall_in_linked_worktree_finds_memory_in_main(project: Path) -> None:
    """A memory written in the main worktree is found in a linked one and in its siblings."""
    feat, other = worktree(project, "feat"), worktree(project, "other")
    remember(project, "Coffee", "The coffee machine needs descaling.")
    remember(other, "Tea", "Tea is in the left drawer.")
    assert recalled(feat, "coffee machine")["Coffee"]["unmergedBranch"] == "main"
    assert recalled(feat, "where is tea")["Tea"]["unmergedBranch"] == "other"


def test_newer_version_in_other_worktree_is_found_once(project: Path) -> None:
    """If another worktree changed a memory, recall shows the version that matches, with a mark."""
    feat = worktree(project, "feat")
    call(feat, "memory_compound", memId="port", content="Since Monday it is 9090, behind Caddy.")
    newer = recalled(project, "Caddy")["Port"]
    assert (newer["unmergedBranch"], "Caddy" in newer["snippet"]) == ("feat", True)
    assert "unmergedBranch" not in recalled(feat, "which port")["Port"]
    commit(feat)
    git(project, "merge", "--quiet", "feat")
    assert "unmergedBranch" not in recalled(project, "Caddy")["Port"]


def test_forgotten_memory_is_not_found_in_other_worktree(project: Path) -> None:
    """A memory forgotten in a worktree stays forgotten there, although others still have it."""
    feat = worktree(project, "feat")
    call(feat, "memory_forget", query="port", confirm=True)
    assert "Port" not in recalled(feat, "which port does the server listen on")
    assert "Port" in recalled(project, "which port does the server listen on")
    own = remember(feat, "Draft", "A draft about zebras.")
    call(feat, "memory_forget", query=own, confirm=True)
    git(project, "worktree", "remove", "--force", "../feat")
    assert "Draft" not in recalled(project, "zebras")


def test_memory_survives_removal_of_its_worktree(project: Path) -> None:
    """After a forced removal, a memory is still found, and restore or undo work as usual."""
    feat = worktree(project, "feat")
    mem_id = remember(feat, "Deploy host", "We deploy to the host kiwi.")
    call(feat, "memory_compound", memId="port", content="It is 9090 now.")
    git(project, "worktree", "remove", "--force", "../feat")
    assert recalled(project, "deploy host")["Deploy host"]["unmergedBranch"] == "feat"
    items = call(project, "vault_review", kind="unmerged")["items"]
    assert [(item["title"], item["memId"]) for item in items] == [
        ("Deploy host", mem_id),
        ("Port", call(project, "memory_show", memId="port")["memId"]),
    ]
    assert call(project, "memory_restore", memId=mem_id)["filePath"] == "fact/deploy-host.md"
    assert "9090" not in call(project, "memory_show", memId="port")["content"]
    call(project, "memory_restore", memId="port")
    assert "9090" in call(project, "memory_show", memId="port")["content"]
    assert call(project, "vault_review", kind="unmerged")["items"] == []
    assert not list((project / ".git/memvault").iterdir())
    call(project, "memory_undo")
    assert "9090" not in call(project, "memory_show", memId="port")["content"]


def test_recalled_handwritten_note_survives_worktree_removal(project: Path) -> None:
    """A handwritten note in a worktree survives its removal once any worktree has recalled."""
    feat = worktree(project, "feat")
    by_hand(feat, "notes/fact/hedgehog.md", "# Hedgehog\n\nHedgehogs sleep in winter.\n")
    assert recalled(project, "hedgehogs in winter")["Hedgehog"]["unmergedBranch"] == "feat"
    git(project, "worktree", "remove", "--force", "../feat")
    assert recalled(project, "hedgehogs in winter")["Hedgehog"]["unmergedBranch"] == "feat"


def test_copies_are_deleted_when_merged(project: Path) -> None:
    """When a branch is merged, its memories are ordinary ones, and the copies are gone."""
    feat = worktree(project, "feat")
    remember(feat, "Deploy host", "We deploy to the host kiwi.")
    assert list((project / ".git/memvault").rglob("deploy-host.md"))
    commit(feat)
    git(project, "merge", "--quiet", "feat")
    assert "unmergedBranch" not in recalled(project, "deploy host")["Deploy host"]
    assert not list((project / ".git/memvault").rglob("*.md"))
    git(project, "worktree", "remove", "--force", "../feat")
    assert "unmergedBranch" not in recalled(project, "deploy host")["Deploy host"]


def test_read_only_caller_does_not_write_copies(project: Path) -> None:
    """A caller with the scope read finds unmerged memories and does not change files."""
    feat = worktree(project, "feat")
    by_hand(feat, "notes/fact/hedgehog.md", "# Hedgehog\n\nHedgehogs sleep in winter.\n")
    before = contents(project / ".git")
    workspace = Workspace(project / "notes")
    result = invoke.call_result(
        workspace, "memory_recall", {"query": "hedgehogs"}, Caller(scope="read")
    )
    workspace.close()
    assert result["memories"][0]["unmergedBranch"] == "feat"
    assert contents(project / ".git") == before


def test_write_to_unmerged_memory_hints_at_restore(project: Path, run: Run) -> None:
    """A tool that changes a memory of another worktree says how to get it here."""
    feat = worktree(project, "feat")
    mem_id = remember(feat, "Deploy host", "We deploy to the host kiwi.")
    for words in (["tag", "add", mem_id], ["compound", mem_id], ["compound", "Deploy host"]):
        ran = run(*words, "x", cwd=project / "notes")
        assert refused(ran, 1) == "error: Deploy host is only on feat, which is not merged"
        assert f"`memvault restore {mem_id}`" in ran.err


def test_name_of_unmerged_memory_never_selects_a_similar_memory(project: Path, run: Run) -> None:
    """Changing a memory that is only in another worktree never changes a similar memory here."""
    feat = worktree(project, "feat")
    title = "The port that the server listens on"
    mem_id = remember(feat, title, "The server listens on port 8080.")
    before = contents(project / "notes/fact")
    for words in (
        ["forget", title],
        ["forget", f'"{title}"', "--confirm", "true"],
        ["forget", mem_id, "--confirm", "true"],
        ["compound", title, "It is 9090 now."],
        ["compound", mem_id, "It is 9090 now."],
    ):
        ran = run(*words, cwd=project / "notes")
        assert refused(ran, 1) == f"error: {title} is only on feat, which is not merged"
    assert contents(project / "notes/fact") == before
    assert [item["title"] for item in call(project, "memory_list")["memories"]] == ["Port"]


def test_untracked_vault_is_shared_by_all_worktrees(tmp_path: Path, run: Run) -> None:
    """An ignored vault in the main worktree is used in linked ones, by cwd and by --vault."""
    top = tmp_path / "project"
    git(tmp_path, "init", "--quiet", "--initial-branch=main", "project")
    write(top, "README.md", "# Project\n")
    commit(top)
    for folder in (top, top / "notes"):
        write(folder, "memvault.toml", "version = 1\n")
        write(folder, "fact/kiwi.md", f"# Kiwi\n\nKiwis of {folder.name} run at night.\n")
    feat = worktree(top, "feat")
    write(feat, "src/lib/a.py", "")
    for cwd in (feat, feat / "src/lib"):
        assert "Kiwis of project" in run("recall", "kiwis", cwd=cwd).out
        assert "Kiwis of notes" in run("--vault", "notes", "recall", "kiwis", cwd=cwd).out
    named = run("--vault", str(feat / "notes"), "recall", "kiwis", cwd=tmp_path)
    assert "Kiwis of notes" in named.out
    succeeded(run("remember", "Moa", "Moas are extinct.", "--type", "fact", cwd=feat))
    assert (top / "fact/moa.md").is_file()
    git(top, "worktree", "remove", "--force", "../feat")
    assert "Moas" in run("recall", "moas", cwd=top).out


def test_worktrees_are_read_without_running_git(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other worktrees are read directly: git does not run, and GIT_DIR does not mislead."""
    feat = worktree(project, "feat")
    remember(feat, "Deploy host", "We deploy to the host kiwi.")
    monkeypatch.setenv("GIT_DIR", str(project / ".git/worktrees/feat"))
    monkeypatch.setenv("GIT_WORK_TREE", str(feat))
    monkeypatch.setenv("PATH", "")
    assert recalled(project, "deploy host")["Deploy host"]["unmergedBranch"] == "feat"
    assert recalled(feat, "port")["Port"]


def test_detached_worktree_is_named_by_its_commit(project: Path) -> None:
    """A worktree without a branch is marked with the start of its commit's id."""
    git(project, "worktree", "add", "--quiet", "--detach", "../feat")
    remember(project.parent / "feat", "Deploy host", "We deploy to the host kiwi.")
    branch = recalled(project, "deploy host")["Deploy host"]["unmergedBranch"]
    assert branch == f"commit {git(project, 'rev-parse', 'HEAD')[:7]}"


def test_worktrees_of_bare_repository_share_memories(project: Path) -> None:
    """Worktrees of a bare repository, which has no main worktree, find each other's memories."""
    git(project.parent, "clone", "--quiet", "--bare", "project", "bare.git")
    bare = project.parent / "bare.git"
    for name in ("one", "two"):
        git(bare, "worktree", "add", "--quiet", f"../{name}", "-b", name)
    one, two = project.parent / "one", project.parent / "two"
    remember(one, "Deploy host", "We deploy to the host kiwi.")
    assert recalled(two, "deploy host")["Deploy host"]["unmergedBranch"] == "one"
    git(bare, "worktree", "remove", "--force", "../one")
    assert recalled(two, "deploy host")["Deploy host"]["unmergedBranch"] == "one"


def test_worktrees_of_submodule_share_memories(project: Path, tmp_path: Path) -> None:
    """A vault in a submodule finds the memories of the submodule's own worktrees only."""
    outer = tmp_path / "outer"
    git(tmp_path, "init", "--quiet", "outer")
    allow = ("-c", "protocol.file.allow=always")
    git(outer, *allow, "submodule", "--quiet", "add", str(project), "sub")
    commit(outer)
    sub = outer / "sub"
    git(sub, "worktree", "add", "--quiet", str(tmp_path / "feat"))
    remember(tmp_path / "feat", "Deploy host", "We deploy to the host kiwi.")
    assert recalled(sub, "deploy host")["Deploy host"]["unmergedBranch"] == "feat"
    remember(sub, "Tea", "Tea is in the left drawer.")
    assert recalled(tmp_path / "feat", "tea")["Tea"]["unmergedBranch"] == "main"
    assert "Tea" not in recalled(project, "tea drawer")


def test_nested_repository_is_separate(project: Path) -> None:
    """A vault that is a repository inside another one ignores the outer one's worktrees."""
    inner = project / "notes/inner"
    write(inner, "notes/memvault.toml", "version = 1\n")
    git(inner.parent, "init", "--quiet", "inner")
    feat = worktree(project, "feat")
    remember(feat, "Deploy host", "We deploy to the host kiwi.")
    assert recalled(inner, "deploy host") == {}


def test_worktree_inside_the_vault_is_found_once(tmp_path: Path) -> None:
    """A worktree below a vault at the top of its repository does not repeat its memories."""
    top = tmp_path / "project"
    git(tmp_path, "init", "--quiet", "--initial-branch=main", "project")
    write(top, "memvault.toml", "version = 1\n")
    write(top, "fact/kiwi.md", "# Kiwi\n\nKiwis run at night.\n")
    commit(top)
    git(top, "worktree", "add", "--quiet", "trees/feat")
    write(top, "trees/feat/fact/moa.md", "# Moa\n\nMoas are extinct.\n")
    with open_vault(top) as vault:
        memories = vault.call("memory_recall", query="kiwis and moas")["memories"]
    assert sorted(memory["filePath"] for memory in memories) == ["fact/kiwi.md", "fact/moa.md"]


def test_only_existing_and_moved_worktrees_are_found(project: Path) -> None:
    """A moved worktree is found; a deleted folder, a pruned one and a moved repository are not."""
    feat = worktree(project, "feat")
    remember(feat, "Deploy host", "We deploy to the host kiwi.")
    git(project, "worktree", "move", "../feat", "../moved")
    moved = project.parent / "moved"
    assert recalled(project, "deploy host")["Deploy host"]["worktree"] == "../../moved/notes"
    away = project.parent / "elsewhere"
    moved.rename(away)  # As if its disk were not mounted.
    assert "../.git/memvault" in recalled(project, "deploy host")["Deploy host"]["worktree"]
    away.rename(moved)
    assert recalled(project, "deploy host")["Deploy host"]["worktree"] == "../../moved/notes"
    other = worktree(project, "other")
    shutil.rmtree(project / ".git/worktrees/other")
    assert recalled(other, "port")["Port"]["memId"]
    remember(other, "Tea", "Tea is in the left drawer.")
    assert "Tea" not in recalled(project, "tea drawer")
    project.rename(project.parent / "renamed")
    assert "Deploy host" in recalled(moved, "deploy host")
    assert "unmergedBranch" not in recalled(moved, "port")["Port"]


def test_worktree_with_relative_paths_is_found(project: Path) -> None:
    """Worktrees that refer to their repository by relative paths are found as well."""
    feat = worktree(project, "feat")
    remember(feat, "Deploy host", "We deploy to the host kiwi.")
    write(feat, ".git", "gitdir: ../project/.git/worktrees/feat\n")
    write(project, ".git/worktrees/feat/gitdir", "../../../../feat/.git\n")
    assert recalled(project, "deploy host")["Deploy host"]["unmergedBranch"] == "feat"
    assert recalled(feat, "deploy host")["Deploy host"]


def forged(project: Path, private: Path) -> Iterator[tuple[str, str]]:
    """Yield files of a repository that claim someone else's folder as a worktree."""
    yield ".git/worktrees/x/gitdir", f"{private}/.git\n"
    yield ".git/worktrees/x/gitdir", "x" * 2_000_000
    yield ".git/worktrees/x/gitdir", "\x00\n"
    yield ".git/commondir", f"{private}/.git\n"
    yield ".git/commondir", "x" * 4_080
    yield ".git/worktrees/x/commondir", "../..\n"


@pytest.mark.promise("S104")
def test_forged_repository_does_not_reveal_other_folders(project: Path, tmp_path: Path) -> None:
    """A repository cannot claim a folder as its worktree unless that folder refers back to it."""
    private = tmp_path / "private"
    git(tmp_path, "init", "--quiet", "private")
    write(private, "notes/memvault.toml", "version = 1\n")
    write(private, "notes/fact/diary.md", "# Diary\n\nThe diary mentions pelicans.\n")
    for path, text in forged(project, private):
        file = project / path
        write(project, path, text)
        assert "Diary" not in recalled(project, "pelicans in the diary"), path
        file.unlink()
    write(project, ".git/worktrees/x/gitdir", f"{private}/.git\n")
    assert not (private / ".git/memvault").exists()
    fake = tmp_path / "fake"
    write(fake, "notes/memvault.toml", "version = 1\n")
    write(fake, ".git", f"gitdir: {private}/.git\n")
    assert "Diary" not in recalled(fake, "pelicans in the diary")
    remember(fake, "Note", "A note.")
    assert not (private / ".git/memvault").exists()


@pytest.mark.promise("S104")
def test_forged_repository_does_not_reveal_copies(project: Path, tmp_path: Path) -> None:
    """A forged ``.git`` cannot find, move or delete copies of another repository."""
    feat = worktree(project, "feat")
    mem_id = remember(feat, "Secret plan", "The plan is about zebrafish.")
    git(project, "worktree", "remove", "--force", "../feat")
    evil = tmp_path / "evil"
    write(evil, "notes/memvault.toml", "version = 1\n")
    write(evil, ".git", f"gitdir: {project}/.git\n")
    assert recalled(evil, "zebrafish") == {}
    with open_vault(evil / "notes") as vault:
        assert not vault.call("memory_restore", memId=mem_id)["success"]
    assert "Secret plan" in recalled(project, "zebrafish")


@pytest.mark.promise("S104")
def test_branch_cannot_link_to_another_vault(project: Path, tmp_path: Path) -> None:
    """If a branch replaces the vault's folder by a link, its target is not read."""
    private = tmp_path / "private"
    write(private, "memvault.toml", "version = 1\n")
    write(private, "fact/diary.md", "# Diary\n\nThe diary mentions pelicans.\n")
    feat = worktree(project, "feat")
    shutil.rmtree(feat / "notes")
    (feat / "notes").symlink_to(private)
    assert "Diary" not in recalled(project, "pelicans in the diary")
    (feat / "notes").unlink()
    write(feat, "notes/fact/moa.md", "# Moa\n\nMoas are extinct.\n")
    (feat / "notes/memvault.toml").symlink_to(private / "memvault.toml")
    assert "Moa" not in recalled(project, "extinct moas")


@pytest.mark.promise("S104")
def test_deleting_a_copy_deletes_nothing_else(project: Path, tmp_path: Path) -> None:
    """Forgetting in a worktree never deletes a folder above the copies, or through a link."""
    write(project, "worktree.json", "{}")
    write(tmp_path, "worktree.json", "{}")
    feat = worktree(project, "feat")
    mem_id = remember(feat, "Draft", "A draft about zebras.")
    victim = tmp_path / "victim"
    diary = write(victim, "fact/diary.md", "# Diary\n")
    (copies,) = (project / ".git/memvault").iterdir()
    shutil.rmtree(copies / "notes")
    (copies / "notes").symlink_to(victim)
    recalled(project, "zebras")
    call(feat, "memory_forget", query=mem_id, confirm=True)
    shutil.rmtree(project / ".git/memvault")
    call(feat, "memory_forget", query="port", confirm=True)
    assert diary.is_file()
    assert (project / "worktree.json").is_file()
    assert (project / ".git/HEAD").is_file()


def test_diverged_versions_survive(project: Path) -> None:
    """A memory changed in two worktrees keeps both versions, even after a removal."""
    feat = worktree(project, "feat")
    call(feat, "memory_compound", memId="port", content="In feat it is behind Caddy.")
    call(project, "memory_compound", memId="port", content="In main it is in rack nine.")
    for _ in range(2):
        found = recalled(project, "Caddy")["Port"]
        assert (found["unmergedBranch"], "Caddy" in found["snippet"]) == ("feat", True)
        assert recalled(project, "rack nine")["Port"]["otherVersionOn"] == "feat"
        assert call(project, "memory_show", memId="port")["otherVersionOn"] == "feat"
        if feat.exists():
            git(project, "worktree", "remove", "--force", "../feat")
    assert call(project, "vault_review", kind="unmerged")["items"]
    call(project, "memory_restore", memId=recalled(project, "Caddy")["Port"]["memId"])
    assert "Caddy" in call(project, "memory_show", memId="port")["content"]


def test_copies_outlive_other_linked_worktrees(project: Path) -> None:
    """A copy is deleted only if the main worktree has the memory, not another linked one."""
    feat, other = worktree(project, "feat"), worktree(project, "other")
    mem_id = remember(feat, "Deploy host", "We deploy to the host kiwi.")
    call(other, "memory_restore", memId=mem_id)
    recalled(project, "deploy host")
    for name in ("feat", "other"):
        git(project, "worktree", "remove", "--force", f"../{name}")
    assert "Deploy host" in recalled(project, "deploy host")


def test_recall_never_deletes_unseen_copies(project: Path) -> None:
    """A file that main's settings ignore, or that cannot be listed, keeps its copy."""
    feat = worktree(project, "feat")
    remember(feat, "Kiwi", "Kiwis run at night.")
    write(project, "notes/memvault.toml", 'version = 1\nignore = ["fact/kiwi*"]\n')
    assert "Kiwi" not in recalled(project, "kiwis at night")
    assert list((project / ".git/memvault").rglob("kiwi.md"))
    write(project, "notes/memvault.toml", "version = 1\n")
    git(project, "worktree", "remove", "--force", "../feat")
    assert "Kiwi" in recalled(project, "kiwis at night")


def test_foreign_branch_is_not_copied_or_preferred(project: Path) -> None:
    """Memories that a checkout wrote are not copied, and a future date does not give precedence."""
    feat = worktree(project, "feat")
    text = (feat / "notes/fact/port.md").read_text("utf-8")
    changed = text.replace("modified: 20", "modified: 29").replace("8080", "6666")
    write(feat, "notes/fact/port.md", changed)
    write(feat, "notes/fact/trap.md", "# Trap\n\nA trap about zebras.\n")
    assert (
        "6666" not in recalled(project, "which port does the server listen on")["Port"]["snippet"]
    )
    assert recalled(project, "zebras trap")["Trap"]["unmergedBranch"] == "feat"
    git(project, "worktree", "remove", "--force", "../feat")
    assert "Trap" not in recalled(project, "zebras trap")


def test_worktrees_can_be_turned_off(project: Path) -> None:
    """With ``worktrees = false``, only a worktree's own memories are recalled, and none copied."""
    feat = worktree(project, "feat")
    remember(feat, "Deploy host", "We deploy to the host kiwi.")
    for top in (project, feat):
        write(top, "notes/memvault.toml", "version = 1\n\n[git]\nworktrees = false\n")
    assert "Deploy host" not in recalled(project, "deploy host")
    before = contents(project / ".git/memvault")
    remember(feat, "Tea", "Tea is in the left drawer.")
    assert contents(project / ".git/memvault") == before


def test_model_sees_unmerged_memory_without_paths(project: Path) -> None:
    """An MCP client recalls and shows unmerged memories, but gets no path outside the vault."""
    feat = worktree(project, "feat")
    mem_id = remember(feat, "Deploy host", "We deploy to the host kiwi.")
    model = Caller(may_see_paths=False, vaults=())
    workspace = Workspace(project / "notes")
    found = invoke.call_result(workspace, "memory_recall", {"query": "deploy host"}, model)
    shown = invoke.call_result(workspace, "memory_show", {"memId": mem_id}, model)
    workspace.close()
    assert found["memories"][0]["unmergedBranch"] == shown["unmergedBranch"] == "feat"
    assert "worktree" not in {**found["memories"][0], **shown}


def test_recall_of_several_vaults_includes_worktrees(project: Path, run: Run) -> None:
    """With named or default vaults, the current vault's unmerged memories are found as well."""
    feat = worktree(project, "feat")
    remember(feat, "Deploy host", "We deploy to the host kiwi.")
    other = write(project.parent, "other/memvault.toml", "version = 1\n").parent
    succeeded(run("vaults", "add", "other", str(other)))
    out = run("recall", "deploy", "host", "--vaults", "this,other", cwd=project / "notes").out
    assert "not merged, from feat" in out


def test_open_of_unmerged_result_is_refused(project: Path, run: Run) -> None:
    """--open does not open another memory at the same path instead of an unmerged one."""
    feat = worktree(project, "feat")
    remember(feat, "Deploy host", "We deploy to the host kiwi.")
    ran = run("recall", "deploy", "host", "--open", "1", cwd=project / "notes")
    assert ran.code != 0


def test_relative_vault_is_not_found_outside_git(tmp_path: Path, run: Run) -> None:
    """Outside a git worktree, a relative --vault is not looked up in the folders above."""
    write(tmp_path, "notes/memvault.toml", "version = 1\n")
    inner = tmp_path / "inner"
    inner.mkdir()
    ran = run("--vault", "notes", "recall", "x", cwd=inner)
    assert refused(ran, 3) == "error: There is no folder notes"


def test_vault_link_to_itself_is_reported(project: Path, run: Run) -> None:
    """A --vault that is a link to itself is reported as unreadable, with a hint."""
    (project / "loop").symlink_to("loop")
    ran = run("--vault", "loop", "recall", "x", cwd=project)
    assert refused(ran, 3).startswith(f"error: {project}/loop/memvault.toml cannot be read: ")
    assert "check the path" in ran.err


@pytest.mark.promise("S104")
def test_copies_are_not_written_through_links(project: Path, tmp_path: Path) -> None:
    """If the folder of copies is a link, nothing is written there, and a warning says so."""
    feat = worktree(project, "feat")
    target = tmp_path / "target"
    target.mkdir()
    (project / ".git/memvault").symlink_to(target)
    result = call(feat, "memory_remember", title="A", content="B", memoryType="fact")
    assert any("deleting the worktree would lose it" in line for line in result["warnings"])
    assert list(target.iterdir()) == []
    assert "A" in recalled(project, "A B")


def test_hook_reports_missing_vault_once(tmp_path: Path, run: Run) -> None:
    """A hook set up for a vault that is gone tells the user at the start of a session only."""
    empty = tmp_path / "empty"
    empty.mkdir()
    words = ("--vault", "notes", "--for", "claude-code")
    started = run("hook", "session-start", *words, stdin="{}", cwd=empty)
    message = json.loads(started.out)["systemMessage"]
    assert message.startswith("memvault cannot remember or recall anything here: There is no")
    assert run("hook", "prompt", *words, stdin='{"prompt": "which port"}', cwd=empty).out == ""
    assert run("hook", "session-start", "--for", "claude-code", stdin="{}", cwd=empty).out == ""


def test_hook_in_worktree_adds_unmerged_memory(project: Path, run: Run) -> None:
    """The prompt hook and context also use memories of other worktrees, and say so."""
    feat = worktree(project, "feat")
    remember(feat, "Deploy host", "We deploy to the host kiwi.")
    prompt = json.dumps({"prompt": "Which host do we deploy to?"})
    out = run("hook", "prompt", "--vault", "notes", stdin=prompt, cwd=project).out
    assert "not merged, from feat" in out
    shown = call(project, "context", task="Which host do we deploy to?")["context"]
    assert "not merged, from feat" in shown


CHECKED = 8 if SOAK else 20
"""The number of steps between two checks."""


class Steps:
    """Random changes in four worktrees, and what each of them must find afterwards."""

    def __init__(self, project: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.project = project
        self.tops = {"main": project}
        self.latest: dict[str, str] = {}
        """A word that only a memory's latest version contains, by the memory's title."""
        self.owners: dict[str, str] = {}
        self.count = 0

    def word(self) -> str:
        """Return a new word that occurs nowhere else."""
        self.count += 1
        return "".join(self.random.choice("bdfgklmnprstvz") + "aeiou"[n % 5] for n in range(6))

    def step(self) -> str:
        """Do one random step; return its name."""
        name = self.random.choice(sorted(self.tops))
        top = self.tops[name]
        own = [title for title, owner in self.owners.items() if owner == name]
        actions = ["write", "write", "change", "change", "forget", "merge", "rebase", "commit"]
        action = self.random.choice([*actions, "remove"])
        if len(self.tops) < 4:
            action = "add" if len(self.tops) == 1 else self.random.choice([action, "add"])
        if action == "add":
            branch = f"branch{self.count}{len(self.tops)}"
            self.count += 1
            commit(self.project)
            self.tops[branch] = worktree(self.project, branch)
        elif action == "write" or not own:
            action, title = "write", f"Note {self.count}"
            self.latest[title] = self.word()
            self.owners[title] = name
            remember(top, title, f"It contains {self.latest[title]}.")
        elif action == "change":
            title = self.random.choice(own)
            self.latest[title] = self.word()
            text = f"Now it contains {self.latest[title]}."
            call(top, "memory_compound", memId=title, content=text)
        elif action == "forget":
            title = self.random.choice(own)
            call(top, "memory_forget", query=title, memoryType="fact", confirm=True)
            del self.latest[title], self.owners[title]
        elif action == "commit" or name == "main":
            commit(top)
        elif action == "merge":
            commit(top)
            commit(self.project)
            git(self.project, "merge", "--quiet", "--no-edit", name)
        elif action == "rebase":
            commit(top)
            commit(self.project)
            git(top, "rebase", "--quiet", "main")
        else:
            git(self.project, "worktree", "remove", "--force", str(top))
            del self.tops[name]
            self.owners = {t: o if o != name else "" for t, o in self.owners.items()}
        return f"{action} in {name}"

    def check(self) -> None:
        """Check that every worktree finds the latest version of each memory exactly once."""
        for name, top in self.tops.items():
            for title, word in self.latest.items():
                found = [
                    memory
                    for memory in call(top, "memory_recall", query=word, limit=50)["memories"]
                    if word in memory["snippet"]
                ]
                titles = [memory["title"] for memory in found]
                assert titles == [title], f"{word} of {title} in {name}: {titles}"


@pytest.mark.sampled(20)
@pytest.mark.parametrize("seed", range(20))
def test_forty_steps_in_four_worktrees_lose_nothing(project: Path, seed: int) -> None:
    """Whatever is written, changed, merged, rebased or removed, each memory is found once."""
    steps, done = Steps(project, seed), []
    for number in range(40):
        done.append(steps.step())
        if number % CHECKED == CHECKED - 1:
            steps.check()
    assert {step.split()[0] for step in done} >= {"write", "change", "add", "remove"}, done
    assert os.listdir(project / "notes/fact")
