"""What an agent notes under keys, one file ``agents/<agent>/memories/<slug>.md`` each."""

from __future__ import annotations

from collections.abc import Iterable

from memvault.agents.address import Address
from memvault.agents.entries import AgentFile, AgentFileStore, AgentFileUpdate, one_line
from memvault.vault.store import MemoryStore


def all_values(store: MemoryStore, address: Address) -> tuple[list[AgentFile], list[str]]:
    """Return entries called by their keys, in the order of those, and what to say of others."""
    found = _value_entries(store, address).read()
    return list(found.entries.values()), found.notes


def put_values(store: MemoryStore, address: Address, values: Iterable[tuple[str, str]]) -> int:
    """Note values under keys, over those that are there; return how many keys there were.

    The caller holds the agent's lock.

    Raises:
        UsageError: a key is invalid; nothing is written then.
    """
    wanted = {one_line(key, "A key"): value for key, value in values}
    entries = _value_entries(store, address)
    known = entries.read().entries
    entries.put(AgentFileUpdate(key, known.get(key), {}, value) for key, value in wanted.items())
    return len(wanted)


def delete_values(store: MemoryStore, address: Address, keys: Iterable[str]) -> list[str]:
    """Take keys away; return those that were not there. The caller holds the agent's lock."""
    return _value_entries(store, address).delete(keys)


def _value_entries(store: MemoryStore, address: Address) -> AgentFileStore:
    return AgentFileStore(store, address, "memories", "key")
