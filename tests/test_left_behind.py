"""What killed processes leave half-written goes away, and nothing else does."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from conftest import index_of, write
from memvault import Vault
from memvault.files import atomic

_WRITER = """
import os, signal, sys
from pathlib import Path
from memvault.files import atomic
sys.addaudithook(lambda event, _: event == "os.link" and os.kill(os.getpid(), signal.SIGKILL))
atomic.create(Path(sys.argv[1]), b"half")
"""
_TWO_HOURS = 7_200
_TWO_DAYS = 48 * 3_600


def _aged(path: Path, seconds: float = _TWO_HOURS) -> Path:
    """Make a file older than it is."""
    then = time.time() - seconds
    os.utime(path, (then, then))
    return path


def _killed(folder: Path) -> Path:
    """Return the temporary file of a process that was killed while it wrote a file."""
    folder.mkdir(parents=True, exist_ok=True)
    before = set(folder.iterdir())
    command = [sys.executable, "-c", _WRITER, str(folder / "note.md")]
    assert subprocess.run(command, check=False, timeout=60).returncode == -signal.SIGKILL
    (left,) = set(folder.iterdir()) - before
    return left


def test_writing_takes_away_what_killed_writers_left(folder: Path) -> None:
    """Who writes into a folder sweeps it now and then; nothing of a living process goes."""
    old, fresh = _aged(_killed(folder)), _killed(folder)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as living:
        own = folder / f".note.md.{living.pid}-abcd1234.tmp"
        others = [own, folder / ".note.md.tmp", folder / ".syncthing.note.md.tmp"]
        for path in others:
            path.write_text("whole")
            _aged(path)
        for number in range(1_000):
            if not old.exists():
                break
            atomic.write(folder / "state", str(number).encode(), durable=False)
        assert not old.exists()
        assert fresh.exists(), "it may belong to a process of another machine"
        assert all(path.exists() for path in others)
        living.communicate(b"\n")
    atomic.remove_stale_temp_files(folder)
    assert not own.exists(), "its process has ended"


def test_status_and_reindex_sweep_everything(vault: Vault, folder: Path) -> None:
    """Both look for left files wherever memvault writes, and leave what is git's or a person's."""
    vault.call("memory_remember", title="T", content="c", memoryType="fact")
    wheres = [folder / name for name in ("fact", "my own/x", "agents/bob/inbox", ".memvault/talk")]
    for tool in ("vault_status", "vault_reindex"):
        left = [_aged(_killed(where)) for where in (*wheres, index_of(folder))]
        nameless = _aged(write(folder, "fact/.note.md.abcd1234.tmp", "half"), _TWO_DAYS)
        git = _aged(write(folder, ".git/.x.999999999-abcd1234.tmp", "git's own"))
        mine = _aged(write(folder, "fact/.mine.tmp", "mine"), _TWO_DAYS)
        assert vault.call(tool)["success"]
        assert not [path for path in (*left, nameless) if path.exists()]
        assert git.exists()
        assert mine.exists()


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_git_takes_no_temporary_file_of_a_vault_made_by_hand(folder: Path, vault: Vault) -> None:
    """In a repository with nothing but memvault.toml, what a killed process left is not added."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(folder), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    git("init")
    exclude = folder / ".git" / "info" / "exclude"
    exclude.parent.mkdir(exist_ok=True)
    exclude.write_text("mine\n", "utf-8")
    assert vault.call("memory_remember", title="A", content="x", memoryType="fact")["success"]
    _killed(folder / "fact")
    git("add", "-A")
    assert git("ls-files").split() == ["fact/a.md", "memvault.toml"]
    assert exclude.read_text("utf-8") == "mine\n.*.tmp\n"
