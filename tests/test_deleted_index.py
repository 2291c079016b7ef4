"""An index may be deleted at any time, also while a process in the background adds to it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from conftest import Run, followers, index_of, succeeded, until, write
from memvault.files.lock import FileLock
from memvault.index.local import embedding_lock


def test_a_deleted_index_stays_deleted(folder: Path, run: Run, auto: None, tmp_path: Path) -> None:
    """A user may delete the cache while vectors are made: nothing of it is there afterwards."""
    write(folder, "a.md", "# A\n\nA green river.\n")
    succeeded(run("recall", "green", "--mode", "keyword"))
    lock = index_of(folder) / "deep" / "lock"
    with FileLock(lock):
        succeeded(run("recall", "green"))
        until(lambda: any(_has_open(number, lock) for number in followers(folder)))
        shutil.rmtree(tmp_path / "cache")
    until(lambda: not followers(folder))
    assert not (tmp_path / "cache").exists()
    assert "warnings" not in succeeded(run("recall", "green", "--json")).json


def test_a_process_that_starts_too_late_makes_no_index(
    folder: Path, run: Run, tmp_path: Path
) -> None:
    """A process that starts after the index was deleted ends at once, without a word."""
    write(folder, "a.md", "# A\n\nA green river.\n")
    succeeded(run("recall", "green"))
    deep = index_of(folder) / "deep"
    shutil.rmtree(tmp_path / "cache")
    command = [
        sys.executable,
        "-P",
        "-m",
        "memvault.index.embedding_worker",
        str(folder),
        str(deep),
    ]
    done = subprocess.run(command, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert not (tmp_path / "cache").exists()


def _has_open(number: int, file: Path) -> bool:
    """Say whether a process has a file open."""
    with suppress(OSError):
        return any(entry.resolve() == file for entry in Path(f"/proc/{number}/fd").iterdir())
    return False


def test_the_program_ends_the_process_before_it_deletes(run: Run, tmp_path: Path) -> None:
    """What is kept here of a vault that another machine sent is not deleted while it grows."""
    root = tmp_path / "state" / "memvault" / "sent" / "team"
    write(root, "memvault.toml", "version = 1\n")
    write(root, "a.md", "# A\n\nA green river.\n")
    succeeded(run("vaults", "add", "team", str(root)))
    succeeded(run("recall", "green", "--vault", str(root)))
    deep = index_of(root) / "deep"
    command = [sys.executable, "-m", "memvault", "vaults", "remove", "team"]
    with FileLock(deep / embedding_lock.BACKGROUND_LOCK):
        removing = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        until(lambda: embedding_lock.is_running(deep, embedding_lock.FOREGROUND_LOCK))
        assert (deep.parent / "index").is_dir()
    assert removing.wait(60) == 0
    assert not deep.parent.exists()
