"""The folder is compared with the saved scan, however the folder has changed."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import SOAK, examples, index_of, recalled, sampled, write
from memvault import open_vault
from memvault.index.local.index_files import INDEX
from memvault.settings.exclusions import Exclusions
from memvault.vault.scan import Scan, scan

MANY = 700
"""More files than are compared in one step."""


def titles_of(root: Path) -> set[str]:
    """Return the titles of all memories, as a new process sees them."""
    with open_vault(root) as vault:
        found = vault.call("memory_list", limit=10_000)["memories"]
        assert len(recalled(vault, "wombat", limit=100, type="keyword")) == 100
        return {entry["title"] for entry in found}


@pytest.fixture
def settled(folder: Path) -> set[str]:
    """The titles of an indexed vault with a saved scan."""
    for number in range(MANY):
        write(folder, f"{number % 3}/{number}.md", f"# Note {number}\n\nThe wombat digs.\n")
    titles_of(folder)
    time.sleep(1.1)  # files edited within the last second are read again
    titles_of(folder)
    found = titles_of(folder)
    assert (index_of(folder) / INDEX / "scan").stat().st_size > MANY * 32
    return found


def test_saved_scan_detects_all_later_changes(folder: Path, settled: set[str]) -> None:
    """Every added, edited, moved, deleted or restored file is detected, and no other."""
    expected = set(settled)

    def check() -> None:
        assert titles_of(folder) == expected
        assert titles_of(folder) == expected

    write(folder, "0/0.md", "# Edited\n\nThe wombat sleeps.\n")
    write(folder, "new/first.md", "# First\n\nThe wombat wakes.\n")
    (folder / "1/1.md").unlink()
    expected = expected - {"Note 0", "Note 1"} | {"Edited", "First"}
    check()
    (folder / "2/2.md").rename(folder / "2/moved.md")
    write(folder, "1/1.md", "# Note 1\n\nThe wombat digs.\n")
    expected |= {"Note 1"}
    check()
    write(folder, "0/0.md", "# Note 0\n\nThe wombat digs.\n")
    (folder / "new").rename(folder / "other")
    expected = expected - {"Edited"} | {"Note 0"}
    check()
    for number in range(3, MANY, 3):
        (folder / f"0/{number}.md").unlink()
        expected -= {f"Note {number}"}
    check()


def test_saved_scan_stays_usable_after_changes(folder: Path, settled: set[str]) -> None:
    """After changes are indexed, the saved scan is of the new commit, without these states."""

    def saved_paths() -> set[str]:
        index = index_of(folder) / INDEX
        _, commits, packed = (index / "scan").read_bytes().split(b" ", 2)
        with closing(sqlite3.connect(index / "manifest.db")) as database:
            row = database.execute("SELECT value FROM counters WHERE name = 'commits'").fetchone()
        assert int(commits) == row[0]
        return {state.path for state in Scan.unpack(packed).files if state.size >= 0}

    everything = saved_paths()
    assert len(everything) == len(settled) == MANY
    write(folder, "0/0.md", "# Edited\n\nThe wombat sleeps.\n")
    write(folder, "new/first.md", "# First\n\nThe wombat wakes.\n")
    (folder / "1/1.md").unlink()
    assert titles_of(folder) == settled - {"Note 0", "Note 1"} | {"Edited", "First"}
    assert saved_paths() == everything - {"0/0.md", "1/1.md"}
    time.sleep(1.1)
    titles_of(folder)
    titles_of(folder)
    assert saved_paths() == everything - {"1/1.md"} | {"new/first.md"}
    (index_of(folder) / INDEX / "scan").unlink()
    (folder / "new/first.md").unlink()
    write(folder, "0/0.md", "# Note 0\n\nThe wombat digs.\n")
    assert titles_of(folder) == settled - {"Note 1"}
    assert saved_paths() == everything - {"0/0.md", "1/1.md"}


def test_scan_is_saved_with_many_changes(folder: Path, settled: set[str]) -> None:
    """After many files are indexed, files edited in the same second are still read again."""
    states = {}
    for number in range(MANY):
        write(folder, f"{number % 3}/{number}.md", f"# Now {number}\n\nThe wombat digs.\n")
        write(folder, f"new/{number}.md", f"# New {number}\n\nThe wombat digs.\n")
        (folder / f"new/{number}.md").rename(folder / f"new/moved-{number}.md")
    time.sleep(1.1)
    last = [write(folder, f"last/{number}.md", f"# Last {number}\n") for number in range(9)]
    for file in last:
        states[file] = file.stat()
    expected = {f"{name} {number}" for name in ("Now", "New") for number in range(MANY)}
    assert titles_of(folder) == expected | {f"Last {number}" for number in range(9)}

    index = index_of(folder) / INDEX
    _, commits, packed = (index / "scan").read_bytes().split(b" ", 2)
    with closing(sqlite3.connect(index / "manifest.db")) as database:
        row = database.execute("SELECT value FROM counters WHERE name = 'commits'").fetchone()
        rows = database.execute("SELECT path, max(mtime, ctime), checked FROM memories").fetchall()
    saved = list(Scan.unpack(packed).files)
    assert int(commits) == row[0]
    assert len(saved) == len(rows) == 2 * MANY + 9
    unsettled = {path for path, changed, checked in rows if changed + 1_000_000_000 >= checked}
    assert {state.path for state in saved if state.size < 0} == unsettled

    for number, file in enumerate(last):
        with file.open("r+") as opened:  # same inode, size and mtime
            opened.write(f"# Edit {number}\n")
        os.utime(file, ns=(states[file].st_atime_ns, states[file].st_mtime_ns))
    (folder / "0/0.md").unlink()
    (folder / "1/1.md").rename(folder / "0/0.md")
    assert titles_of(folder) == (expected - {"Now 0"} | {f"Edit {number}" for number in range(9)})
    for number in range(0, MANY, 3):
        (folder / f"new/moved-{number}.md").unlink()
    for number in range(1, MANY, 3):
        (folder / f"new/moved-{number}.md").unlink()
    for number in range(2, MANY, 3):
        write(folder, f"new/moved-{number}.md", f"# Old {number}\n\nThe wombat digs.\n")
    kept = {f"Now {number}" for number in range(1, MANY)} | {
        f"Edit {number}" for number in range(9)
    }
    kept |= {f"Old {number}" for number in range(2, MANY, 3)}
    assert titles_of(folder) == kept
    assert titles_of(folder) == kept


def test_saved_scan_detects_moved_and_unignored_files(folder: Path, settled: set[str]) -> None:
    """Folders moved out or in, and files ignored for a while, are detected."""
    outside = folder.parent / "outside"
    first = {f"Note {number}" for number in range(0, MANY, 3)}
    for _ in range(2 if SOAK else 1):
        (folder / "0").rename(outside)
        assert titles_of(folder) == settled - first
        outside.rename(folder / "0")
        assert titles_of(folder) == settled
        write(folder, "memvault.toml", 'version = 1\nignore = ["0/"]\n')
        assert titles_of(folder) == settled - first
        write(folder, "memvault.toml", "version = 1\n")
        assert titles_of(folder) == settled
    write(outside, "old.md", "# Old\n")
    time.sleep(1.1)
    for _ in range(2):
        (outside).rename(folder / "3")
        assert titles_of(folder) == settled | {"Old"}
        (folder / "3").rename(outside)
        assert titles_of(folder) == settled


@sampled(4)
@pytest.mark.parametrize("damage", [b"", b"1 2 ", b"x", b"1 2 \xff" * 99])
def test_unreadable_saved_scan_is_ignored(folder: Path, settled: set[str], damage: bytes) -> None:
    """An unreadable scan is ignored, and a scan of another index is not compared."""
    file = index_of(folder) / INDEX / "scan"
    kept = file.read_bytes()
    write(folder, "0/0.md", "# Edited\n\nThe wombat sleeps.\n")
    file.write_bytes(damage or kept[: len(kept) // 2])
    assert titles_of(folder) == settled - {"Note 0"} | {"Edited"}


STATES = st.tuples(*[st.integers(0, 2)] * 4)
FOLDERS = st.dictionaries(st.integers(0, 1_500).map("{}.md".format), STATES, max_size=900)


@given(FOLDERS, FOLDERS, st.booleans(), st.sets(st.sampled_from(range(1_510)), max_size=9))
@settings(max_examples=examples(30))
def test_saved_scan_comparison_lists_changed_files(
    first: dict[str, tuple[int, ...]],
    second: dict[str, tuple[int, ...]],
    mostly: bool,
    forgotten: set[int],
) -> None:
    """Exactly the added, removed, changed or forgotten files differ; a scan is saved completely."""
    second = {**first, **dict([*second.items()][:9])} if mostly else second
    scans = []
    for files in (first, second):
        found = Scan()
        for path, state in files.items():
            found._paths.append(path)
            found._states.extend(state)
        assert list(Scan.unpack(found.packed()).files) == list(found.files)
        scans.append(found)
    one, other = scans
    expected = {path for path, _ in first.items() ^ second.items()}
    assert one.paths_that_differ(other) == other.paths_that_differ(one) == expected
    paths = {f"{number}.md" for number in forgotten}
    other.forget_states(paths)
    assert one.paths_that_differ(Scan.unpack(other.packed())) == expected | paths


def test_damaged_scan_with_a_repeated_path_is_usable() -> None:
    """A path that occurs twice in a damaged scan counts as changed, without an error."""
    scans = []
    for paths in (["a.md", "a.md", "b.md"], ["a.md", "b.md"]):
        scans.append(Scan())
        scans[-1]._paths = paths
        scans[-1]._states.extend(range(4 * len(paths)))
    damaged, current = scans
    damaged.forget_states({"a.md"})
    assert "a.md" in current.paths_that_differ(damaged)


@given(st.binary(max_size=200))
@settings(max_examples=examples(50))
def test_saved_scan_of_arbitrary_bytes_is_refused(data: bytes) -> None:
    """Arbitrary bytes are either refused or are a scan that packs to the same bytes."""
    try:
        found = Scan.unpack(data)
    except ValueError:
        return
    assert found.packed() == data


def test_saved_scan_of_empty_vault_round_trips(tmp_path: Path) -> None:
    """An empty vault's scan is saved like any other."""
    found = scan(tmp_path, Exclusions(tmp_path))
    assert list(Scan.unpack(found.packed()).files) == []
    assert found.paths_that_differ(Scan.unpack(found.packed())) == set()


def test_file_deleted_during_scan_is_left_out(tmp_path: Path) -> None:
    """A file that is deleted after its folder was listed does not hide the others."""
    for number in range(5):
        write(tmp_path, f"{number}.md", "# Note\n")
    with os.scandir(tmp_path) as listed:
        entries = list(listed)
        (tmp_path / "3.md").unlink()
        found = Scan()
        found.add("folder/", entries)
    assert {state.path for state in found.files} == {
        f"folder/{number}.md" for number in (0, 1, 2, 4)
    }
    assert {state.size for state in found.files} == {len("# Note\n")}
