"""Choose the vaults that a call searches, and count retrievals in them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memvault.call import Call
from memvault.errors import MemvaultError
from memvault.model import EPISODE, FACT, PROCEDURE, Memory

if TYPE_CHECKING:
    from memvault.index.protocol import MemoryRecord
    from memvault.recall.answer import RecallResult
    from memvault.recall.recall_engine import RecallEngine
    from memvault.results import CitedCode


class VaultSelection:
    """The vaults that a call searches, and their engine; no ``vaults`` means the call's own."""

    def __init__(self, call: Call, vaults: Mapping[str, Path]) -> None:
        self._call = call
        self._vaults = vaults
        self.engine: RecallEngine = call.federated_engine(vaults) if vaults else call.engine

    @classmethod
    def of(cls, call: Call, names: Sequence[str]) -> VaultSelection:
        """Create the choice from a tool's argument.

        Raises:
            VaultNotFound: no reachable vault has one of the names.
        """
        return cls(call, call.vaults(names))

    def read(self, record: MemoryRecord) -> Memory | None:
        """Read the current file of a listed memory; return None if it is no longer readable."""
        root = self._vaults.get(record.vault)
        call = self._call.workspace.open_other(root) if root is not None else self._call
        try:
            return call.reader.read(record.path)
        except MemvaultError:  # The file was removed after the listing.
            return None

    def cited_code(self, headers: Sequence[tuple[str, Mapping[str, Any]]]) -> list[list[CitedCode]]:
        """Return the state of the code that memories cite, by their vaults and headers."""
        states = {}
        for vault in {vault for vault, _ in headers}:
            chosen = [header for name, header in headers if name == vault]
            states[vault] = iter(self._call.cited_code(chosen, self._vaults.get(vault)))
        return [next(states[vault]) for vault, _ in headers]

    def count(self, results: Iterable[RecallResult]) -> None:
        """Count the retrieval of these results, each in its own vault."""
        by_vault: dict[str, list[Memory]] = {}
        for entry in results:
            by_vault.setdefault(entry.vault, []).append(entry.memory)
        for vault, memories in by_vault.items():
            count_retrievals(self._call, memories, self._vaults.get(vault))


_COUNT_TIMEOUT = 1.0
"""Maximum number of seconds that counting may delay a result."""


def count_accesses(call: Call, mem_ids: list[str]) -> dict[str, int]:
    """Count a recall of these memories; return the counts of all memories.

    If the counts cannot be written, a note is added and the recall still succeeds.
    """
    from memvault.recall import recall_counts

    try:
        if call.caller.scope != "read":  # A read-only caller must not change files.
            recall_counts.count(call.root, mem_ids)
    except MemvaultError as error:
        call.notes.append(f"the access was not counted: {error.message}")
    return recall_counts.counts(call.root)


def count_retrievals(call: Call, memories: Iterable[Memory], root: Path | None = None) -> None:
    """Count the retrieval of memories whose types are tracked.

    ``root`` is the root of their vault if it is not the call's. The count is a side effect, so
    failures are ignored, and a read-only caller counts nothing.
    """
    if call.caller.scope == "read":
        return
    kinds = (EPISODE, FACT, PROCEDURE)
    mem_ids = [memory.mem_id for memory in memories if memory.memory_type in kinds]
    if not mem_ids:
        return
    from memvault.recall import recall_counts

    with contextlib.suppress(MemvaultError):
        recall_counts.count(root or call.root, mem_ids, seconds=_COUNT_TIMEOUT)
