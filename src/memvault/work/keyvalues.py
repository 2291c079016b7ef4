"""What an agent notes under keys, one file ``agents/<agent>/memories/<slug>.md`` each."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

from memvault.errors import UsageError
from memvault.vault import codec
from memvault.vault.store import Store
from memvault.work.agents import Address
from memvault.work.entries import Entries

__all__ = ["all_values", "delete", "normal", "one_line", "put"]

_LONGEST_KEY = 1_000


def all_values(store: Store, address: Address) -> tuple[dict[str, str], list[str]]:
    """Return every value by its key, in the order of keys, and what to say of broken files."""
    found = _entries(store, address).read()
    return {key: entry.text for key, entry in found.entries.items()}, found.notes


def put(store: Store, address: Address, values: Iterable[tuple[str, str]]) -> int:
    """Note values under keys, over those that are there; return how many keys there were.

    The caller holds the agent's lock.

    Raises:
        UsageError: a key is none; nothing is written then.
    """
    wanted = {one_line(key, "A key"): value for key, value in values}
    entries = _entries(store, address)
    known = entries.read().entries
    for key, value in wanted.items():
        entries.put(key, known.get(key), {"key": key}, value)
    return len(wanted)


def delete(store: Store, address: Address, keys: Iterable[str]) -> list[str]:
    """Take keys away; return those that were not there. The caller holds the agent's lock."""
    entries = _entries(store, address)
    found = entries.read()
    return [key for key in dict.fromkeys(keys) if not entries.remove(normal(key), found)]


def normal(text: str) -> str:
    """Return a key, an id or a name in the spelling under which it is looked for."""
    return unicodedata.normalize("NFC", codec.plain_text(text)).strip()


def one_line(text: str, what: str) -> str:
    """Return a key, an id or a name as it is kept: one line without blanks around it.

    Raises:
        UsageError: it cannot be one.
    """
    plain = normal(text)
    if not plain or "\n" in plain or len(plain) > _LONGEST_KEY:
        shown = plain if len(plain) <= 40 else f"{plain[:37]}..."
        raise UsageError(
            f"{what} cannot be {shown!r}",
            f"use one line of at most {_LONGEST_KEY:,} characters that is not blank",
        )
    return plain


def _entries(store: Store, address: Address) -> Entries:
    return Entries(store, address.folder(store.root) / "memories", "key")
