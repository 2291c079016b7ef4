"""Nobody waits for active memory while a vault is indexed for it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from conftest import Run, index_of, indexed, write
from memvault.files.lock import FileLock


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
        assert indexed(folder, "new/one.md")
        assert looking.poll() is None
    assert looking.wait(60) == 0
