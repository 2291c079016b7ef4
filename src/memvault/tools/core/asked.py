"""Which vaults a recall asks: the one at hand, or several together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from memvault.call import Call
from memvault.errors import MemvaultError
from memvault.tools.core.shapes import count_retrievals

if TYPE_CHECKING:
    from memvault.index.protocol import MemoryRecord
    from memvault.model import Memory
    from memvault.recall.engine import RecallEngine
    from memvault.recall.values import RecallResult


class VaultSelection:
    """The vaults that a call asks, and recall over them; ``vaults`` is empty for the call's own."""

    def __init__(self, call: Call, vaults: Mapping[str, Path]) -> None:
        self._call = call
        self._vaults = vaults
        self.engine: RecallEngine = call.federated_engine(vaults) if vaults else call.engine

    @classmethod
    def of(cls, call: Call, names: Sequence[str]) -> VaultSelection:
        """Make it of a tool's argument.

        Raises:
            VaultNotFound: no vault within reach has one of the names.
        """
        return cls(call, call.vaults(names))

    def read(self, record: MemoryRecord) -> tuple[Memory | None, str, str]:
        """Return a listed memory as its file is now, its vault, and when that was sent.

        The memory is None where it has gone.
        """
        vault, sent = self.engine.origin(record)
        found = self._call.workspace.open_other(self._vaults[vault]) if vault else self._call
        try:
            return found.store.read(record.path), vault, sent
        except MemvaultError:  # gone since the look at the folder
            return None, vault, sent

    def count(self, found: Iterable[RecallResult]) -> None:
        """Count that these were handed out, each in its own vault."""
        by_vault: dict[str, list[Memory]] = {}
        for entry in found:
            by_vault.setdefault(entry.vault, []).append(entry.memory)
        for vault, memories in by_vault.items():
            count_retrievals(self._call, memories, self._vaults.get(vault))
