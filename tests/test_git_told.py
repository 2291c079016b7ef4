"""A sync tells what it left out, what it renamed, and what should not have been shared."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import write
from git_clones import Clone, cloned, git, settle, without_identity
from made_secrets import made

NOTE = "---\nid: {}\ntitle: {}\n---\n\n{}\n"


@pytest.fixture
def both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Clone, ...]]:
    """Two clones of one vault."""
    without_identity(monkeypatch, tmp_path / "home")
    for found in cloned(tmp_path):
        found[1].sync()
        yield found


def notes(result: dict[str, object]) -> str:
    """What a call was told besides, in one text."""
    return "\n".join(map(str, result.get("warnings", [])))  # type: ignore[call-overload]


@pytest.mark.parametrize("has_commit", [True, False])
def test_a_repository_in_the_vault_is_left_out_and_named(
    both: tuple[Clone, ...], has_commit: bool
) -> None:
    """The rest is synced as ever; sync, status and doctor say which folder is not."""
    one, two = both
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
    assert "proj/sub is a git repository of its own" in notes(done)
    two.sync()
    assert [path for path in two.texts() if "beside-it" in path]
    assert not one.git("ls-files", "--stage", "proj")
    again = one.sync()
    assert (again["committed"], again["notSynced"]) == (0, ["proj/sub"])
    assert one.call("git_status")["notSynced"] == ["proj/sub"]
    found = one.call("vault_doctor", only=["repository-inside"])["findings"]
    assert [entry["filePath"] for entry in found] == ["proj/sub"]


def test_a_submodule_is_its_owners_business(both: tuple[Clone, ...], tmp_path: Path) -> None:
    """A repository that .gitmodules names is synced as git does, and is no finding."""
    one, _ = both
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


def test_renames_of_a_sync_are_told(both: tuple[Clone, ...]) -> None:
    """Where both sides took one name, the result says what the later one's file is called now."""
    one, two = both
    write(one.root, "plan.md", NOTE.format("plan-aaaaaa", "Plan", "Ours."))
    write(two.root, "plan.md", NOTE.format("plan-bbbbbb", "Plan", "Theirs."))
    one.sync()
    done = two.sync()
    assert done["renamed"] == [{"from": "plan.md", "filePath": "plan-2.md"}]
    assert "Theirs." in (two.root / "plan-2.md").read_text("utf-8")
    assert "renamed" not in two.sync()


def test_what_was_not_deleted_is_named_where_it_lies(both: tuple[Clone, ...]) -> None:
    """A memory that others deleted, in a folder that is their file now, is told under its path."""
    one, two = both
    write(one.root, "proj/one.md", NOTE.format("one-aaaaaa", "One", "First."))
    settle(one, two)
    (one.root / "proj/one.md").unlink()
    (one.root / "proj").rmdir()
    write(one.root, "proj", "A file.\n")
    one.sync()
    write(two.root, "proj/one.md", NOTE.format("one-aaaaaa", "One", "Changed."))
    done = two.sync()
    assert done["notDeleted"] == ["proj_2/one.md"]
    assert (two.root / "proj_2/one.md").is_file()


def test_an_undo_says_where_a_sync_has_put_the_file(both: tuple[Clone, ...]) -> None:
    """A remember whose file was renamed by a sync is not undone: the reason names the new path."""
    one, two = both
    write(one.root, "context/plan.md", NOTE.format("plan-aaaaaa", "Plan", "Ours."))
    one.sync()
    made = two.remember("Plan", "Theirs.")
    two.sync()
    change = two.call("memory_undo", list=True)["changes"][0]["changeId"]
    refused = two.vault.call("memory_undo", change=change)
    assert not refused["success"]
    assert "context/plan-2.md" in refused["error"]["message"], refused
    assert f"memvault show {made['memId']}" in refused["error"]["hint"]


def test_a_secret_in_any_file_is_told_before_it_is_pushed(both: tuple[Clone, ...]) -> None:
    """A token in a file that is no memory, or in a name, is named with its line and never shown."""
    one, _ = both
    token, _ = made("npm token")
    write(one.root, "deploy.env", f"A=1\nTOKEN={token}\n")
    write(one.root, "goals.yaml", "<<<<<<< ours\na\n=======\nb\n>>>>>>> theirs\n")
    (one.root / "picture.png").write_bytes(b"\x89PNG\0" + token.encode())
    said = notes(one.sync())
    assert "deploy.env holds a secret now" in said
    assert "line 2" in said
    assert "goals.yaml is shared with the marks of a conflict" in said
    assert "picture.png" not in said
    assert token not in said


def test_a_memory_that_came_back_is_not_restored_beside_itself(both: tuple[Clone, ...]) -> None:
    """Restoring what others kept is refused: two files of one memId would be one too many."""
    one, two = both
    made = one.remember("Kept", "First.")
    settle(one, two)
    two.call("memory_compound", query=made["memId"], modifications="Second.")
    one.call("memory_forget", query=made["memId"], confirm=True)
    settle(two, one)
    refused = one.vault.call("memory_restore", memId=made["memId"])
    assert not refused["success"]
    assert made["filePath"] in refused["error"]["message"]
    assert not one.call("vault_doctor", only=["id-shared"])["findings"]
