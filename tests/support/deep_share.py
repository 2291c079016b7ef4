"""Put a vault's transformer vectors into a state that the background process passes through."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from memvault.files.lock import FileLock
from memvault.index.local import background_embedding, transformer_writer
from memvault.index.local.local_index import LocalIndex
from memvault.index.protocol import COMPLETE
from memvault.workspace import Workspace

_FEW = 10
"""Minimum number of memories; with fewer, one batch of passages is too large a share."""


@contextmanager
def stopped_at(root: Path, share: float) -> Iterator[None]:
    """Compute transformer vectors for a share of the memories, most recently changed first."""
    if not (root / "memvault.toml").exists():
        yield
        return
    workspace = Workspace(root)
    index = workspace.index
    assert isinstance(index, LocalIndex)
    view = index.refresh(True, COMPLETE)
    count = sum(1 for _ in view.records())
    wanted = count * (1 - share)
    assert index.transformer.folder is not None
    with FileLock(
        index.transformer.folder / background_embedding.BACKGROUND_LOCK
    ):  # no other process starts
        if index.schedule.pending() > wanted and index.transformer.mode != "off":
            if count < _FEW:
                transformer_writer._BATCH = 1
            index.schedule.embed_missing(lambda: index.schedule.pending() > wanted)
        workspace.close()
        yield
