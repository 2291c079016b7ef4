"""What two sides did to one file comes together, whatever each of them did."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import write
from git_clones import Clone, cloned, git, settle, without_identity

NOTE = """---
id: note-abc123
tags: [a]
modified: 2026-01-01T00:00:00.000Z
---

We use SQLite.

It is small.

It is in one file.
"""


@pytest.fixture
def both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Clone, ...]]:
    """Two clones of one vault with a memory in it."""
    without_identity(monkeypatch, tmp_path / "home")
    for found in cloned(tmp_path):
        write(found[0].root, "note.md", NOTE)
        found[0].sync()
        found[1].sync()
        yield found


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("name", ["ideas", "ideas.md"])
def test_a_file_and_a_folder_of_one_name_are_both_kept(
    both: tuple[Clone, ...], first: int, name: str
) -> None:
    """One side has a file where the other has a folder: whoever syncs later has it beside."""
    write(both[0].root, f"{name}/x.md", "In the folder.\n")
    write(both[1].root, name, "The file.\n")
    both[first].sync()
    files = settle(both[1 - first], both[first])
    assert sorted(text for path, text in files.items() if "ideas" in path) == [
        "In the folder.\n",
        "The file.\n",
    ]
    for clone in both:
        write(clone.root, f"later/{clone.root.name}.md", "Later.\n")
    settle(*both)


def test_a_file_that_became_a_folder_travels(both: tuple[Clone, ...]) -> None:
    """A file that gives way to a folder of its name, and back, is so in the other clone too."""
    one, two = both
    write(one.root, "ideas", "The file.\n")
    settle(*both)
    (one.root / "ideas").unlink()
    write(one.root, "ideas/x.md", "In the folder.\n")
    assert "ideas/x.md" in settle(*both)
    (two.root / "ideas/x.md").unlink()
    (two.root / "ideas").rmdir()
    write(two.root, "ideas", "The file again.\n")
    assert settle(two, one)["ideas"] == "The file again.\n"


def test_what_git_passes_over_is_never_deleted_for_a_file(both: tuple[Clone, ...]) -> None:
    """A folder with files that git does not know gives way to no file, and says so."""
    one, two = both
    write(two.root, ".gitignore", ".memvault/\n.*.tmp\n*.private\n")
    settle(two, one)
    write(two.root, "ideas/my.private", "Mine.\n")
    write(one.root, "ideas", "The file.\n")
    one.sync()
    failed = two.vault.call("git_sync")["error"]
    assert failed["code"] == "refused"
    assert "ideas/my.private" in failed["message"]
    assert (two.root / "ideas/my.private").read_text("utf-8") == "Mine.\n"
    (two.root / "ideas/my.private").rename(two.root / "my.private")
    assert settle(two, one)["ideas"] == "The file.\n"


def test_an_edit_here_and_additions_on_both_sides_make_one_text(both: tuple[Clone, ...]) -> None:
    """What one changed above and both added below is all in one file."""
    one, two = both
    write(one.root, "note.md", NOTE.replace("SQLite", "PostgreSQL") + "\nSince May.\n")
    write(two.root, "note.md", NOTE + "\nSince June.\n\nAnd July.\n")
    one.sync()
    assert "keptTwice" not in two.sync()
    files = settle(*both)
    assert files["note.md"].endswith(
        "We use PostgreSQL.\n\nIt is small.\n\nIt is in one file.\n\n"
        "Since May.\n\nSince June.\n\nAnd July.\n"
    )
    assert "note-2.md" not in files


def test_an_edit_of_the_end_is_no_addition(both: tuple[Clone, ...]) -> None:
    """Where one side changed the last line and the other added behind it, both texts stay."""
    one, two = both
    write(one.root, "note.md", NOTE.replace("one file.", "two files."))
    write(two.root, "note.md", NOTE + "\nSince June.\n")
    one.sync()
    assert two.sync()["keptTwice"]
    files = settle(*both)
    assert "two files" in files["note.md"]
    assert "Since June." in files["note-2.md"]


def test_a_value_that_is_not_kept_is_in_a_commit(both: tuple[Clone, ...]) -> None:
    """The value that another one won over can be found in git, if it was the only change."""
    one, two = both
    write(one.root, "note.md", NOTE.replace("tags: [a]", "status: done").replace("01T", "03T"))
    write(two.root, "note.md", NOTE.replace("tags: [a]", "status: late").replace("01T", "02T"))
    one.sync()
    assert two.sync()["notKept"] == ["note.md: status: late"]
    settle(*both)
    for clone in both:
        assert "status: late" in clone.git("log", "--format=%B")


def test_a_memory_with_a_broken_header_is_kept_twice_too(both: tuple[Clone, ...]) -> None:
    """A header that cannot be edited is left as it is; the other version names it."""
    one, two = both
    broken = NOTE.replace("tags: [a]", "tags: [a").replace("SQLite", "DuckDB")
    write(one.root, "note.md", NOTE.replace("SQLite", "PostgreSQL"))
    write(two.root, "note.md", broken)
    one.sync()
    assert two.sync()["keptTwice"]
    files = settle(*both)
    assert files["note-2.md"] == broken
    assert "conflict_with" in files["note.md"]
    for clone in both:
        assert clone.call("git_status")["keptTwice"]
        assert "kept-twice" in [f["code"] for f in clone.call("vault_doctor")["findings"]]


def test_a_file_that_the_settings_ignore_gets_no_link(both: tuple[Clone, ...]) -> None:
    """Instructions such as AGENTS.md are no memories: both versions stay as they are."""
    one, two = both
    write(one.root, "memvault.toml", 'version = 1\nignore = ["AGENTS*.md"]\n')
    settle(*both)
    write(one.root, "AGENTS.md", "One.\n")
    write(two.root, "AGENTS.md", "Two.\n")
    one.sync()
    assert two.sync()["keptTwice"] == [{"filePath": "AGENTS.md", "copyPath": "AGENTS_2.md"}]
    files = settle(*both)
    assert (files["AGENTS.md"], files["AGENTS_2.md"]) == ("One.\n", "Two.\n")
    assert one.call("vault_doctor")["findings"] == []


def test_the_driver_does_not_mix_two_memories(both: tuple[Clone, ...]) -> None:
    """A pull by hand that meets another memory under a path stops, with both texts whole."""
    one, two = both
    write(one.root, "note.md", NOTE.replace("note-abc123", "other-abc123"))
    one.sync()
    write(two.root, "note.md", NOTE.replace("[a]", "[a, mine]"))
    two.git("commit", "--quiet", "--all", "--message", "Tag")
    git(two.root, "pull", "--quiet", "--no-rebase", good=False)
    text = (two.root / "note.md").read_text("utf-8")
    assert "note-abc123" in text
    assert "other-abc123" in text


def test_the_driver_says_which_value_is_not_kept(both: tuple[Clone, ...]) -> None:
    """A pull by hand names the value that another one won over."""
    one, two = both
    write(one.root, "note.md", NOTE.replace("tags: [a]", "status: done").replace("01T", "03T"))
    one.sync()
    write(two.root, "note.md", NOTE.replace("tags: [a]", "status: late").replace("01T", "02T"))
    two.git("commit", "--quiet", "--all", "--message", "Late")
    assert "status: late" in git(two.root, "pull", "--no-rebase", good=False)
