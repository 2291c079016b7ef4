"""The background process that computes transformer vectors: failures, turns, priority."""

from __future__ import annotations

import json
import time
from contextlib import closing
from pathlib import Path

import pytest

from conftest import Run, followers, index_of, is_alive, succeeded, until, write
from memvault import open_vault
from memvault.files.lock import FileLock
from memvault.index.embedding.embedder import BUILTIN
from memvault.index.local import background_embedding, transformer_writer
from memvault.index.local.local_index import LocalIndex
from memvault.index.protocol import COMPLETE
from memvault.workspace import Workspace
from test_deep import _deep, _filled, _text


def test_failure_warning_stops_after_recovery(folder: Path, auto: None) -> None:
    """A long-running process stops warning once vectors can be computed again."""
    _filled(folder, 2)
    deep = index_of(folder) / "deep"
    with open_vault(folder) as vault, FileLock(deep / "following.lock"):
        background_embedding.record_failure(deep, BUILTIN, "for a test")
        assert "for a test" in str(vault.call("memory_recall", query="green")["warnings"])
        background_embedding.clear_failure(deep)
        assert "warnings" not in vault.call("memory_recall", query="green")


def test_embedding_worker_is_not_restarted_forever(folder: Path, auto: None) -> None:
    """Repeated worker exits without a result count as a failure, which is reported."""
    _filled(folder, 2)
    with open_vault(folder) as vault:
        assert vault.call("memory_list")["success"]
        deep = index_of(folder) / "deep"
        deep.mkdir(exist_ok=True)
        state = {"model": BUILTIN, "until": 0.0, "why": "", "starts": 4}
        (deep / "state.json").write_text(json.dumps(state), "utf-8")
        found = vault.call("memory_recall", query="green")
        assert not followers(folder)
        assert "4 processes exited before" in str(found["warnings"])
        assert vault.call("vault_status")["deep"]["problem"]


def test_reindex_during_embedding_leaves_no_vector_missing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a reindex during embedding every memory has vectors, even though all ids changed."""
    monkeypatch.setenv("MEMVAULT_DEEP", "auto")
    monkeypatch.setattr(transformer_writer, "_BATCH", 8)
    _filled(folder, 20)
    rebuilt: list[bool] = []

    def rebuild() -> bool:
        if not rebuilt:
            rebuilt.append(True)
            for number in range(20):  # every text is new to the rebuilt index
                write(folder, f"n/{number}.md", f"# Other {number}\n\n{_text(number)}, changed\n")
            with closing(Workspace(folder)) as other:
                other.index.rebuild()
        return True

    with closing(Workspace(folder)) as workspace:
        index = workspace.index
        assert isinstance(index, LocalIndex)
        index.refresh(True, COMPLETE)
        (index_of(folder) / "deep").mkdir(exist_ok=True)
        index.schedule.embed_missing(rebuild)
        assert rebuilt
        assert index.schedule.pending() == 0


def test_embedding_workers_of_several_vaults_take_turns(folder: Path, run: Run, auto: None) -> None:
    """While a worker computes vectors for one vault, the user's other vaults' workers wait."""
    _filled(folder, 2)
    with FileLock(index_of(folder).parent / "embedding.lock"):
        succeeded(run("recall", "green"))
        until(lambda: followers(folder))
        (number,) = followers(folder)
        time.sleep(1.0)
        assert is_alive(number)
        assert _deep(folder)["vectors"] == 0
        group = Path(f"/proc/{number}/autogroup")
        if group.exists():
            assert int(group.read_text("ascii").split()[-1]) >= 10
    until(lambda: _deep(folder)["waiting"] == 0)
