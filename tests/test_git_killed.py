"""A sync that dies at any point leaves nothing that the next one does not mend."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import write
from git_clones import Clone, cloned, without_identity

NOTE = "---\nid: note-abc123\ntags: [a]\n---\n\nWe use SQLite.\n"
DYING = """
import os, sys
from memvault import open_vault
from memvault.upkeep.git import checkout, program
from memvault.vault import atomic

left = int(sys.argv[2])

def wrapped(function):
    def dying(*arguments, **more):
        global left
        for step in (lambda: None, lambda: function(*arguments, **more)):
            found = step()
            left -= 1
            if left == 0:
                os._exit(9)
        return found
    return dying

program.Git.tried = wrapped(program.Git.tried)
checkout._write_one = wrapped(checkout._write_one)
for name in ("create", "put", "replace"):
    setattr(atomic, name, wrapped(getattr(atomic, name)))
open_vault(sys.argv[1]).call("git_sync")
print(left)
"""
"""Dies before or after one of the calls of git and of the writes."""
STRIDE = int(os.environ.get("MEMVAULT_GIT_STRIDE", "30"))
"""Every how many of the points are tried; ``make soak`` tries each third."""
POINTS = 140
"""Fewer than there are in a sync that merges everything below."""


@pytest.fixture
def clones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Clone, ...]]:
    """Two clones that changed the same files."""
    without_identity(monkeypatch, tmp_path / "home")
    for one, two in cloned(tmp_path):
        for name, text in (("note.md", NOTE), ("x.txt", "1\n\n2\n\n3\n"), ("pic.bin", b"\0a")):
            write(one.root, name, text)
        one.sync()
        two.sync()
        write(one.root, "note.md", NOTE.replace("SQLite", "PostgreSQL"))
        write(one.root, "x.txt", "1\n\n2\n\n4\n")
        write(one.root, "pic.bin", b"\0b")
        one.remember("Wombats", "They dig.")
        one.sync()
        write(two.root, "note.md", NOTE.replace("SQLite", "DuckDB"))
        write(two.root, "x.txt", "0\n\n2\n\n3\n")
        two.git("add", "--all")
        two.git("commit", "--quiet", "--message", "DuckDB")
        write(two.root, "pic.bin", b"\0c")
        two.remember("Crows", "They fly.")
        yield one, two


@pytest.mark.parametrize("point", range(STRIDE // 2, POINTS, STRIDE))
def test_a_killed_sync_is_gone_on_from(clones: tuple[Clone, ...], point: int) -> None:
    """Wherever a sync is killed, the next one ends with all files as if nothing had been."""
    one, two = clones
    command = [sys.executable, "-c", DYING, str(two.root), str(point)]
    done = subprocess.run(command, check=False, capture_output=True)
    assert done.returncode == 9, done
    (two if point % 2 else one).remember("Later", "Later.")
    one.sync()
    two.sync()
    one.sync()
    files = one.texts()
    assert files == two.texts()
    assert sorted(path for path in files if path[0] not in ".m") == [
        *("context/crows.md", "context/later.md", "context/wombats.md", "note-2.md", "note.md"),
        *("pic.bin", "pic_2.bin", "x.txt"),
    ]
    assert "PostgreSQL" in files["note.md"]
    assert "DuckDB" in files["note-2.md"]
    assert files["x.txt"] == "0\n\n2\n\n4\n"
    assert not list((two.root / ".git").glob("memvault-*"))


def test_the_points_are_there(clones: tuple[Clone, ...]) -> None:
    """A sync does as many things as it is killed at, so that the test above is not hollow."""
    command = [sys.executable, "-c", DYING, str(clones[1].root), "100000"]
    done = subprocess.run(command, check=True, capture_output=True)
    assert 100_000 - int(done.stdout) > POINTS
