"""The local engine keeps what the protocol of an index promises."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from index_contract import IndexContract, local
from memvault.index.protocol import Index


class TestLocalIndex(IndexContract):
    """The contract, asked of the local engine."""

    @contextmanager
    def opened(self, root: Path) -> Iterator[Index]:
        """Open the local index of a vault."""
        with local(root) as index:
            yield index
