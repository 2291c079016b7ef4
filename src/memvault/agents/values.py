"""Read and write an agent's values."""

from __future__ import annotations

from collections.abc import Iterable

from memvault.agents.address import Address
from memvault.agents.agent_files import AgentFile, AgentFileStore, AgentFileUpdate, one_line
from memvault.store.memory_store import MemoryStore


def all_values(store: MemoryStore, address: Address) -> tuple[list[AgentFile], list[str]]:
    """Return the values, as entries named by their keys, and notes about skipped files."""
    current = values_of(store, address).read()
    return list(current.entries.values()), current.notes


def set_values(store: MemoryStore, address: Address, values: Iterable[tuple[str, str]]) -> int:
    """Store values under keys, replacing existing values, and return the number of keys.

    Raises:
        UsageError: a key is invalid; nothing is written.
    """
    by_key = {one_line(key, "A key"): value for key, value in values}
    entries = values_of(store, address)
    with entries.lock():
        old = entries.read().entries
        entries.put(AgentFileUpdate(key, old.get(key), {}, value) for key, value in by_key.items())
    return len(by_key)


def values_of(store: MemoryStore, address: Address) -> AgentFileStore:
    """Return the store of an agent's values."""
    return AgentFileStore(store, address, "memories", "key")
