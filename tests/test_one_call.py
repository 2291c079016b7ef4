"""What a call sees stays true to the folder, whatever happens between its look and its end."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import Run, index_of, write
from memvault import Vault
from memvault.call import Call
from memvault.errors import NotFound
from memvault.files.lock import FileLock
from memvault.index.local.manifest import Manifest
from memvault.recall.answer import RecallRequest
from memvault.workspace import Workspace


@pytest.fixture
def call(folder: Path) -> Iterator[Call]:
    """A call that has looked at five memories, for their names only."""
    for number in range(5):
        header = f"---\nid: n{number}-11111{number}\n---\n\n"
        write(folder, f"n{number}.md", f"{header}# Note {number}\n\nThe wombat digs.\n")
    workspace = Workspace(folder)
    made = Call(workspace)
    assert made.engine.resolve("Note 1").path == "n1.md"
    yield made
    workspace.close()


def test_a_name_never_means_what_lies_there_by_now(call: Call, folder: Path) -> None:
    """A memory that was moved over another's file since the look is not taken for the other."""
    (folder / "n3.md").replace(folder / "n2.md")
    assert call.engine.resolve("n3-111113").path == "n2.md"


def test_a_memory_that_came_since_the_look_is_found_by_its_mem_id(call: Call, folder: Path) -> None:
    """A memory that another process is just moving is looked for once more, by its whole memId."""
    write(folder, "moved/late.md", "---\nid: late-9xyz12\n---\n\n# Late\n\nIt came late.\n")
    assert call.engine.resolve("late-9xyz12").path == "moved/late.md"
    with pytest.raises(NotFound):
        call.engine.resolve("nothing-9xyz12")


def test_a_title_comes_before_the_beginning_of_a_mem_id(run: Run, folder: Path) -> None:
    """Every command takes a name for the same memory: a title before a memId's start."""
    write(folder, "kv.md", "---\nid: kv-123456\n---\n\n# Redis\n\nA store.\n")
    write(folder, "rc.md", "---\nid: redis-cache-abcdef\n---\n\n# Cache of redis\n\nA cache.\n")
    assert run("show", "redis", "--json").json["memId"] == "kv-123456"
    assert run("compound", "redis", "More.", "--json").json["memId"] == "kv-123456"
    assert run("show", "redis-c", "--json").json["memId"] == "redis-cache-abcdef"


def test_a_search_after_a_name_finds_what_a_search_alone_finds(call: Call, folder: Path) -> None:
    """Looking up a name first, while another process indexes, hides nothing from the search."""
    request = RecallRequest("wombat", "vector")
    with FileLock(index_of(folder) / "lock"):
        after = call.engine.search(request)
        alone = Call(Workspace(folder)).engine.search(request)
    assert len(after.found) == len(alone.found) == 5


@pytest.mark.skipif(sys.platform == "win32", reason="no limits on a file's size")
def test_a_full_disk_throws_no_index_away(folder: Path, run: Run) -> None:
    """Where nothing can be written any more, recall goes on, and the index is what it was."""
    for number in range(5):
        write(folder, f"n{number}.md", f"# Note {number}\n\nThe wombat digs.\n")
    assert run("recall", "wombat", "--json").json["count"] == 5
    before = {path.name for path in index_of(folder).rglob("*") if path.is_file()}
    write(folder, "new.md", "# New\n\nThe wombat sleeps.\n")
    command = f"ulimit -f 1; exec {sys.executable} -m memvault forget 'wombat digs' --json"
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder, capture_output=True, text=True, check=False
    )
    assert '"n4.md"' in done.stdout, done
    assert {path.name for path in index_of(folder).rglob("*") if path.is_file()} >= before
    assert run("recall", "wombat", "--json").json["count"] == 6


def test_what_sqlite_cannot_open_just_now_is_no_damage(tmp_path: Path) -> None:
    """A full disk is told as such, not as a broken index, and the manifest stays whole."""
    made = Manifest(tmp_path / "manifest.db", new=True)
    made.close()
    code = (
        "import resource, sys\nfrom pathlib import Path\n"
        "from memvault.index.local.manifest import Manifest\n"
        "found = Manifest(Path(sys.argv[1]) / 'manifest.db')\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))\n"
        "try:\n    found.commit('x', {})\n"
        "except OSError as error:\n    print(type(error).__name__)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "OSError", done
    with sqlite3.connect(tmp_path / "manifest.db") as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_an_extractor_that_consolidates_itself_writes_nothing_twice(
    folder: Path, vault: Vault
) -> None:
    """What others wrote while an extractor ran is seen before its own proposals are written."""
    write(folder, "episode/a.md", "---\nid: a-123456\ncreated: 2026-01-01T00:00:00Z\n---\n\nx\n")
    line = '{"fact": "Wombats like carrots", "confidence": 0.8, "episodes": ["a-123456"]}'
    other = write(folder.parent, "inner.sh", f"#!/bin/sh\ncat > /dev/null\necho '{line}'\n")
    outer = write(
        folder.parent,
        "outer.sh",
        "#!/bin/sh\ncat > /dev/null\n"
        f"{sys.executable} -m memvault --vault {folder} consolidate --days 9999 --apply "
        f"--extractor {other} > /dev/null\necho '{line}'\n",
    )
    for script in (other, outer):
        script.chmod(0o755)
    done = vault.call("consolidate_memories", apply=True, days=9999, extractor=str(outer))
    assert done["success"], done
    assert len(list(folder.glob("fact/*.md"))) == 1, os.listdir(folder / "fact")
