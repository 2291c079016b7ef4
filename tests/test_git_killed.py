"""A sync that dies at any point leaves nothing that the next one does not mend."""

from __future__ import annotations

import itertools
import json
import os
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import write
from git_clones import Clone, cloned, without_identity
from killing import Killing

NOTE = "---\nid: note-abc123\ntags: [a]\n---\n\nWe use SQLite.\n"
SYNC = """
from memvault import open_vault

def work(root):
    with open_vault(root) as vault:
        done = vault.call("git_sync")
        assert done["success"], done
"""
STRIDE = int(os.environ.get("MEMVAULT_GIT_STRIDE", "40"))
"""Every how many of the points are tried; ``make soak`` tries each."""
POINTS = 60
"""Fewer than there are in a sync that merges everything below."""


@pytest.fixture
def clones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Clone, ...]]:
    """Two clones that changed the same files."""
    without_identity(monkeypatch, tmp_path / "home")
    for one, two in cloned(tmp_path):
        for name, text in (("note.md", NOTE), ("x.txt", "1\n\n2\n\n3\n"), ("pic.bin", b"\0a")):
            write(one.root, name, text)
        for name in ("memo.txt", "mail.txt"):
            write(one.root, name, "1\n\n2\n\n3\n")
        one.sync()
        two.sync()
        write(one.root, "note.md", NOTE.replace("SQLite", "PostgreSQL"))
        for name in ("x.txt", "memo.txt"):
            write(one.root, name, "1\n\n2\n\n4\n")
        write(one.root, "pic.bin", b"\0b")
        (one.root / "mail.txt").unlink()
        one.remember("Wombats", "They dig.")
        one.sync()
        write(two.root, "note.md", NOTE.replace("SQLite", "DuckDB"))
        write(two.root, "x.txt", "0\n\n2\n\n3\n")
        two.git("add", "--all")
        two.git("commit", "--quiet", "--message", "DuckDB")
        write(two.root, "pic.bin", b"\0c")
        two.remember("Crows", "They fly.")
        yield one, two


def test_a_killed_sync_is_gone_on_from(clones: tuple[Clone, ...], tmp_path: Path) -> None:
    """Killed in front of a file that it changes or a run of git, a sync is gone on from.

    The next one ends with all files as if nothing had been. The points are counted.
    """
    one, two = clones
    names = ("one", "two", "shared.git")
    for name in names:
        shutil.copytree(tmp_path / name, tmp_path / "before" / name, symlinks=True)
    kinds: Counter[str] = Counter()
    with Killing(two.root, SYNC) as syncing:
        for number in itertools.chain([POINTS], itertools.count(1 + STRIDE // 2, STRIDE)):
            place = syncing.at(number)
            if not place:
                break
            kinds[place.split()[0]] += 1
            _mended(one, two, (number, place))
            for name in names:
                shutil.rmtree(tmp_path / name)
                shutil.copytree(tmp_path / "before" / name, tmp_path / name, symlinks=True)
    print(json.dumps({"killed": kinds.total(), "in front of": kinds}))
    assert number > POINTS
    assert STRIDE > 1 or kinds.keys() >= {"git", "open", "os.link", "os.rename", "os.remove"}


@pytest.mark.parametrize("name", ["context/wombats.md", "note.md", "pic.bin", "x.txt"])
def test_a_checkout_that_was_cut_off_is_taken_back(clones: tuple[Clone, ...], name: str) -> None:
    """Where git dies while it replaces files, the next sync begins anew, with edits made since."""
    one, two = clones
    write(two.root, ".git/info/attributes", f"{name} filter=cut\n")
    two.git("config", "filter.cut.clean", "cat")
    two.git("config", "filter.cut.smudge", "kill -9 $PPID")
    failed = two.vault.call("git_sync", confirm=True)["error"]
    assert failed["message"].startswith("git merge failed"), failed
    assert not (two.root / name).exists() or name == "context/wombats.md"
    assert "index.lock" in two.vault.call("git_sync")["error"]["message"]
    (two.root / ".git/index.lock").unlink()
    two.git("config", "filter.cut.smudge", "cat")
    write(two.root, "mine.md", "Meanwhile.\n")
    write(two.root, "memo.txt", "Meanwhile.\n\n2\n\n3\n")
    write(two.root, "mail.txt", "Again.\n")
    assert two.vault.call("git_sync", confirm=True)["committed"] == 3
    _mended(one, two, (0, name))
    assert (one.root / "mine.md").is_file()
    assert (one.root / "mail.txt").read_text() == "Again.\n"
    assert (one.root / "memo.txt").read_text() == "Meanwhile.\n\n2\n\n4\n"


def _mended(one: Clone, two: Clone, point: tuple[int, str]) -> None:
    """Sync until both have everything, and look whether they do."""
    (two if point[0] % 2 else one).remember("Later", "Later.")
    one.sync()
    two.sync()
    one.sync()
    files = one.texts()
    assert files == two.texts(), point
    assert sorted(path for path in files if path[0] not in ".m") == [
        *("context/crows.md", "context/later.md", "context/wombats.md", "note-2.md", "note.md"),
        *("pic.bin", "pic_2.bin", "x.txt"),
    ], point
    assert "PostgreSQL" in files["note.md"], point
    assert "DuckDB" in files["note-2.md"], point
    assert files["x.txt"] == "0\n\n2\n\n4\n", point
    assert not list((two.root / ".git").glob("memvault-*")), point
