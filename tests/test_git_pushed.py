"""Whoever can push to a clone's remote, and means harm, changes nothing but the vault's files."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import write
from git_clones import Clone, cloned, without_identity

UNFINISHED = ".git/refs/worktree/memvault-sync"
"""The ref of the commit that a killed sync was checking out."""


@pytest.fixture
def both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Clone, ...]]:
    """Two clones of one vault with a memory in it, and a folder beside them."""
    without_identity(monkeypatch, tmp_path / "home")
    (tmp_path / "outside").mkdir()
    for found in cloned(tmp_path):
        write(found[0].root, "note.md", "---\nid: note-abc123\n---\n\nWe use SQLite.\n")
        found[0].sync()
        found[1].sync()
        yield found


def tree(folder: Path, entries: list[tuple[str, str, str]]) -> str:
    """Make a tree that git itself would not make; return its name."""
    entries = sorted(entries, key=lambda entry: (entry[1] + "/" * (entry[0] == "040000")).encode())
    data = b"".join(
        f"{mode.lstrip('0')} {name}\0".encode("utf-8", "surrogateescape") + bytes.fromhex(oid)
        for mode, name, oid in entries
    )
    return stored(folder, data, "-t", "tree", "--literally")


def blob(folder: Path, text: str) -> str:
    """Make a file in git; return its name."""
    return stored(folder, text.encode())


def stored(folder: Path, data: bytes, *words: str) -> str:
    """Put an object into git; return its name."""
    command = ["git", "-C", str(folder), "hash-object", "-w", "--stdin", *words]
    done = subprocess.run(command, input=data, capture_output=True, check=True)
    return done.stdout.decode().strip()


def pushed(clone: Clone, entries: list[tuple[str, str, str]]) -> None:
    """Push the clone's files and more to what both share, as somebody without memvault would."""
    kept = [
        (line.split()[0], line.partition("\t")[2], line.split()[2])
        for line in clone.git("ls-tree", "HEAD").splitlines()
    ]
    made = tree(clone.root, [*kept, *entries])
    commit = clone.git("commit-tree", "-p", "HEAD", "-m", "x", made).strip()
    clone.git("push", "--quiet", "origin", f"{commit}:refs/heads/main")


@pytest.mark.parametrize(
    ("link", "folder"),
    [
        ("notes", "notes"),
        ("notes", "Notes"),
        ("caf\u00e9", "cafe\u0301"),
        ("NOTES", "notes"),
        ("no\u200dtes", "notes"),
    ],
)
def test_no_push_writes_outside_of_a_clone(
    both: tuple[Clone, ...], tmp_path: Path, link: str, folder: str
) -> None:
    """A tree with a link and a folder of one name, in any spelling, is refused before it writes."""
    one, two = both
    memory = blob(one.root, "---\nid: evil-abc123\n---\n\nEvil.\n")
    inside = tree(one.root, [("100644", "evil.md", memory)])
    target = blob(one.root, str(tmp_path / "outside"))
    pushed(one, [("120000", link, target), ("040000", folder, inside)])
    failed = two.vault.call("git_sync")
    assert "error" in failed, failed
    assert list((tmp_path / "outside").iterdir()) == []
    assert not os.path.lexists(two.root / link)


@pytest.mark.parametrize(
    "name",
    [".memvault", ".MEMVAULT", ".memvault ", ".memvault.", ".mem\u200cvault", "MEMVAU~1",
     ".memvault::$INDEX_ALLOCATION", ".GIT ", "git~1", ".g\u200cit"],
)  # fmt: skip
def test_nobody_pushes_into_a_private_folder(both: tuple[Clone, ...], name: str) -> None:
    """What is of one machine is changed by no remote, however its folder is spelled."""
    one, two = both
    state = blob(one.root, "{}\n")
    inside = tree(one.root, [("100644", "state.json", state)])
    pushed(one, [("040000", name, inside)])
    before = sorted(path.name for path in (two.root / ".memvault").iterdir())
    failed = two.vault.call("git_sync")
    assert not failed["success"], failed
    assert failed["error"]["hint"]
    assert not (two.root / name / "state.json").exists()
    assert sorted(path.name for path in (two.root / ".memvault").iterdir()) == before


def test_a_private_file_that_others_stop_sharing_stays_here(both: tuple[Clone, ...]) -> None:
    """Where .memvault was committed by mistake, taking it out of git deletes nothing anywhere."""
    one, two = both
    kept = write(two.root, ".memvault/mine.json", "{}\n")
    one.git("add", "--force", str(write(one.root, ".memvault/mine.json", "{}\n")))
    one.git("commit", "--quiet", "--message", "By mistake")
    one.git("push", "--quiet", "origin", "main")
    assert ".memvault/mine.json" in two.vault.call("git_sync")["error"]["message"]
    two.git("fetch", "--quiet")
    two.git("reset", "--quiet", "--mixed", "origin/main")
    one.git("rm", "--quiet", "--cached", "-r", ".memvault")
    one.git("commit", "--quiet", "--message", "Out again")
    one.git("push", "--quiet", "origin", "main")
    assert two.sync()["pulled"] == 1
    assert kept.read_text() == "{}\n"


def test_no_push_writes_through_a_link_that_is_here(
    both: tuple[Clone, ...], tmp_path: Path
) -> None:
    """A folder that others push under the name of a link of one's own does not lead through it."""
    one, two = both
    outside = tmp_path / "outside"
    write(two.root, ".git/info/exclude", "private\n")
    (two.root / "private").symlink_to(outside)
    for name in ("private/evil.md", "private/evil.bin"):
        write(one.root, name, "Evil.\n")
    one.sync()
    two.vault.call("git_sync")
    assert list(outside.iterdir()) == []


def test_a_ref_of_a_sync_deletes_nothing_private(both: tuple[Clone, ...], tmp_path: Path) -> None:
    """Taking back a sync deletes no file behind a link or of one machine, whatever its commit."""
    one, two = both
    kept = (
        write(tmp_path, "outside/evil.md", "Evil.\n"),
        write(two.root, ".memvault/evil.md", "Evil.\n"),
    )
    inside = tree(one.root, [("100644", "evil.md", blob(one.root, "Evil.\n"))])
    pushed(one, [("040000", "private", inside), ("040000", ".memvault", inside)])
    two.git("fetch", "--quiet")
    write(two.root, UNFINISHED, two.git("rev-parse", "origin/main"))
    write(two.root, ".git/info/exclude", "private\n")
    (two.root / "private").symlink_to(kept[0].parent)
    two.vault.call("git_sync")
    assert [file.read_text() for file in kept] == ["Evil.\n", "Evil.\n"]
    assert not (two.root / UNFINISHED).exists()
