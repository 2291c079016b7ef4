"""The local index keeps what the protocol of an index promises, alone and with other vaults."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from conftest import write
from index_contract import IndexContract, local
from memvault.index.federated import FederatedIndex
from memvault.index.protocol import Index, SearchIndex


class TestLocalIndex(IndexContract):
    """The contract, asked of the local engine."""

    @contextmanager
    def opened(self, root: Path) -> Iterator[Index]:
        """Open the local index of a vault."""
        with local(root) as index:
            yield index


class TestFederatedIndex(IndexContract):
    """The contract, asked of a vault together with an empty one."""

    @contextmanager
    def opened(self, root: Path) -> Iterator[SearchIndex]:
        """Open the local indexes of a vault and of an empty one."""
        empty = root.parent / "empty"
        write(empty, "memvault.toml", "version = 1\n")
        with local(empty) as other, local(root) as index:
            yield FederatedIndex({"empty": lambda: other, "own": lambda: index})
