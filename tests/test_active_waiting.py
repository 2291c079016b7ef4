"""Nobody waits for active memory while a vault is indexed for it."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

from conftest import Run, index_of, write
from memvault.vault.lock import FileLock


def test_an_agent_does_not_wait_for_what_active_memory_has_indexed(folder: Path, run: Run) -> None:
    """A file that moved is looked for, and the vault indexed for that, before the lock is taken."""
    write(folder, "one.md", "---\nid: one-aaaaaa\ntitle: one\n---\n\nOne.\n")
    assert run("load", "one").code == 0
    write(folder, "new/one.md", (folder / "one.md").read_bytes())
    (folder / "one.md").unlink()
    shutil.rmtree(index_of(folder))
    with FileLock(folder / ".memvault" / "agents" / "main" / "lock"):
        command = [sys.executable, "-m", "memvault", "active"]
        looking = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL)
        until = time.monotonic() + 30
        while not (indexed := _is_indexed(folder, "new/one.md")) and time.monotonic() < until:
            time.sleep(0.05)
        assert indexed
        assert looking.poll() is None
    assert looking.wait(60) == 0


def _is_indexed(folder: Path, path: str) -> bool:
    manifest = f"file:{index_of(folder)}/index/manifest.db?mode=ro"
    with (
        contextlib.suppress(sqlite3.Error),
        closing(sqlite3.connect(manifest, uri=True)) as database,
    ):
        return bool(database.execute("SELECT 1 FROM memories WHERE path = ?", [path]).fetchall())
    return False
