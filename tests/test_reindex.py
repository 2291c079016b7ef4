"""Reindex makes the index anew beside the old one: whatever happens, there is one."""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import Run, index_of, refused, titles, write
from killing import Killing
from memvault import Vault, open_vault
from memvault.index.local.manifest import Manifest
from memvault.index.protocol import MemoryRecord
from memvault.workspace import Workspace

_REINDEXING = """
from memvault import open_vault

def work(root):
    with open_vault(root) as vault:
        assert vault.call("vault_reindex")["success"]
"""


def _filled(folder: Path, count: int) -> None:
    for number in range(count):
        write(folder, f"n/{number}.md", f"# Note {number}\n\ncommon word{number}\n")
    with open_vault(folder) as vault:
        _is_whole(vault, count)


def _is_whole(vault: Vault, count: int) -> None:
    found = vault.call("memory_recall", query="common", type="keyword", limit=500)
    assert len(titles(found)) == count
    near = vault.call("memory_recall", query="common word", type="vector", limit=500)
    assert len(titles(near)) == count
    assert "warnings" not in near


def test_an_index_that_another_replaces_meanwhile_is_read_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where an index is taken away while it is read, the call reads the one in its place."""
    _filled(folder, 3)
    index = index_of(folder) / "index"
    with open_vault(folder) as vault:
        _is_whole(vault, 3)
        real = Manifest.records

        def replaced(self: Manifest) -> Iterator[MemoryRecord]:
            monkeypatch.setattr(Manifest, "records", real)
            index.rename(index.with_name("moved"))
            journal = index / "manifest.db-journal"  # of another process's index
            journal.mkdir(parents=True)
            try:
                yield from real(self)
            finally:
                journal.rmdir()

        monkeypatch.setattr(Manifest, "records", replaced)
        assert len(titles(vault.call("memory_list"))) == 3


def test_a_killed_reindex_leaves_the_index_that_was(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed in front of any change, a reindex has thrown nothing away: the next look finds all."""
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "false")  # the work is done in forks
    _filled(folder, 5)
    index = index_of(folder)
    places = []

    with Killing(folder, _REINDEXING, index) as reindexing:
        for kind in ("open", "os.rename", "os.rmdir", "sql COMMIT"):
            for place in reindexing.everywhere(kind, 12):
                places.append(place)
                kept = {path.stat().st_ino for path in index.glob("index*/manifest.db")}
                with open_vault(folder) as vault:
                    _is_whole(vault, 5)
                assert (index / "index" / "manifest.db").stat().st_ino in kept, place
    assert sum(place.startswith("os.rename") for place in places) >= 2
    assert len(places) >= 12
    with open_vault(folder) as vault:
        assert vault.call("vault_reindex")["indexed"] == 5
    assert {path.name for path in index.iterdir()} <= {"vault", "lock", "index", "deep"}


def test_others_answer_from_the_old_index_while_it_is_made_anew(folder: Path) -> None:
    """A recall during a reindex waits for nobody and makes nothing: it reads the old index."""
    _filled(folder, 120)
    seen = []

    def others(what: str, done: int, total: int) -> None:
        with open_vault(folder) as vault:
            assert vault.call("vault_status")["index"]["state"] == "current"
            _is_whole(vault, 120)
            seen.append(what)

    making = Workspace(folder, others)
    making.index.rebuild()
    making.close()
    assert "indexing" in seen
    with open_vault(folder) as vault:
        _is_whole(vault, 120)


@pytest.mark.skipif(sys.platform == "win32", reason="no limits there")
def test_where_deep_vectors_find_no_room_the_rest_works(
    folder: Path, run: Run, deep_now: None
) -> None:
    """Deep vectors that the disk refuses cost reindex a sentence, and a recall a note."""
    for number in range(20):
        parts = (f"## Part {part}\n\ncommon word{part}\n" for part in range(20))
        write(folder, f"n/{number}.md", "\n".join([f"# Note {number}\n", *parts]))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, before[1]))
        refused(run("reindex"), 1)
        found = run("recall", "common", "--json").json
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert found["count"], found
    assert "the built-in table answers alone" in found["warnings"][0]


@pytest.mark.skipif(sys.platform == "win32", reason="no limits there")
def test_where_the_disk_is_full_the_index_stays(folder: Path, run: Run) -> None:
    """A reindex that the disk refuses is one sentence, and the vault goes on as it was."""
    _filled(folder, 60)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    index = index_of(folder)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
        refused(run("reindex"), 1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert {path.name for path in index.iterdir()} <= {"vault", "lock", "index", "deep"}
    with open_vault(folder) as vault:
        assert vault.call("vault_status")["index"]["state"] == "current"
        _is_whole(vault, 60)
