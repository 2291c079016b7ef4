"""What an agent notes under keys, one file ``agents/<agent>/memories/<slug>.md`` each."""

from __future__ import annotations

from collections.abc import Iterable

from memvault.agents.address import Address
from memvault.agents.entries import Entries, Entry, Put, one_line
from memvault.vault.store import Store


def all_values(store: Store, address: Address) -> tuple[list[Entry], list[str]]:
    """Return entries called by their keys, in the order of those, and what to say of others."""
    found = _entries(store, address).read()
    return list(found.entries.values()), found.notes


def put(store: Store, address: Address, values: Iterable[tuple[str, str]]) -> int:
    """Note values under keys, over those that are there; return how many keys there were.

    The caller holds the agent's lock.

    Raises:
        UsageError: a key is invalid; nothing is written then.
    """
    wanted = {one_line(key, "A key"): value for key, value in values}
    entries = _entries(store, address)
    known = entries.read().entries
    entries.put(Put(key, known.get(key), {}, value) for key, value in wanted.items())
    return len(wanted)


def delete(store: Store, address: Address, keys: Iterable[str]) -> list[str]:
    """Take keys away; return those that were not there. The caller holds the agent's lock."""
    return _entries(store, address).delete(keys)


def _entries(store: Store, address: Address) -> Entries:
    return Entries(store, address, "memories", "key")
