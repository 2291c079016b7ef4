"""Skills that an agent asked for and that nobody has described yet.

One file ``agents/<agent>/skill-requests/<id>.md`` for each skill and action.
A person or an agent answers by storing a procedure with that skillId.
"""

from __future__ import annotations

from typing import NamedTuple

from memvault.agents.address import Address
from memvault.agents.entries import Entries, Put, normal
from memvault.vault import layout
from memvault.vault.store import Store

__all__ = ["Asked", "ask"]

_FOLDER = "skill-requests"


class Asked(NamedTuple):
    """A request: its id, and the path of its file in the vault."""

    request_id: str
    path: str


def ask(store: Store, address: Address, skill_id: str, action: str) -> Asked:
    """Ask for a skill; who asks again for the same action makes no second file.

    The caller holds the agent's lock.

    Raises:
        StorageError: the disk refused.
        Refused: the folder leads out of the vault.
    """
    action = normal(action)
    request_id = _request_id(skill_id, action)
    entries = Entries(store, address.folder(store.root) / _FOLDER, "id")
    known = entries.read().entries.get(request_id)
    if known is not None:
        return Asked(request_id, known.path)
    header = {"skill_id": skill_id, "status": "open"}
    text = f"{action}\n\nAnswer: memvault procedure store NAME PROMPT --skill-id {skill_id}"
    return Asked(request_id, *entries.put([Put(request_id, None, header, text)]))


def _request_id(skill_id: str, action: str) -> str:
    """Return the id of a request, the same on every machine; it begins with the skill's."""
    tail = layout.named_id(f"{skill_id.casefold()}\n{action}").rpartition("-")[2]
    return f"{layout.slug(skill_id, 60)}-{tail}"
