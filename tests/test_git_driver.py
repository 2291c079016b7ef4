"""The merge driver that a pull by hand runs: headers merge by key, texts as in git."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import Run, write
from git_clones import NOTE, Clone, cloned, git, without_identity
from memvault.vault.front_matter import parse_header, split_front_matter
from memvault.vault.markdown import has_conflict_markers


@pytest.fixture
def clones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Clone, ...]]:
    """Two clones of one vault with a memory in it."""
    without_identity(monkeypatch, tmp_path / "home")
    for found in cloned(tmp_path):
        write(found[0].root, "note.md", NOTE)
        found[0].sync()
        found[1].sync()
        yield found


def change(clone: Clone, *changes: tuple[str, str]) -> None:
    """Replace words of the memory, and commit that by hand."""
    text = NOTE
    for old, new in changes:
        text = text.replace(old, new)
    write(clone.root, "note.md", text)
    clone.git("commit", "--quiet", "--all", "--message", "By hand")


def test_a_pull_by_hand_merges_headers(clones: tuple[Clone, ...]) -> None:
    """With the driver, git pull itself merges front matter and what both added to the end."""
    one, two = clones
    one.call("memory_compound", query="note-abc123", modifications="Since May.")
    one.sync()
    change(two, ("[a]", "[a, b]"), ("-01T", "-02T"))
    two.git("pull", "--quiet", "--rebase")
    text = (two.root / "note.md").read_text("utf-8")
    assert "tags: [a, b]" in text
    assert text.endswith("It is in one file.\n\nSince May.\n")
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
    change(two, ("[a]", "[a, b]"), ("-01T", "-02T"))
    two.git("pull", "--quiet", "--rebase")


def test_the_driver_does_not_mix_two_memories(clones: tuple[Clone, ...]) -> None:
    """A pull by hand that meets another memory under a path stops, with both texts whole."""
    one, two = clones
    write(one.root, "note.md", NOTE.replace("note-abc123", "other-abc123"))
    one.sync()
    change(two, ("[a]", "[a, mine]"))
    git(two.root, "pull", "--quiet", "--no-rebase", good=False)
    text = (two.root / "note.md").read_text("utf-8")
    assert "note-abc123" in text
    assert "other-abc123" in text


def test_the_driver_says_which_value_is_not_kept(clones: tuple[Clone, ...]) -> None:
    """A pull by hand names the value that another one won over."""
    one, two = clones
    write(one.root, "note.md", NOTE.replace("tags: [a]", "status: done").replace("01T", "03T"))
    one.sync()
    change(two, ("tags: [a]", "status: late"), ("01T", "02T"))
    assert "status: late" in git(two.root, "pull", "--no-rebase", good=False)


def test_the_driver_runs_from_a_shell(clones: tuple[Clone, ...], run: Run, folder: Path) -> None:
    """The command that init sets can be run without a path, and merges three files."""
    command = clones[0].git("config", "merge.memvault.driver").split(" git merge-file")[0]
    assert subprocess.run([*command.split(), "--version"], check=False).returncode == 0
    for name, text in (("b", "x\n"), ("o", "x\ny\n"), ("t", "x\n")):
        write(folder, name, text)
    assert run("git", "merge-file", "b", "t", "o", "7", "a.md").code == 0
    assert (folder / "t").read_text("utf-8") == "x\ny\n"
