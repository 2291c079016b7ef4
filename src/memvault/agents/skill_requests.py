"""Skills that an agent asked for and that nobody has described yet.

One file ``agents/<agent>/skill-requests/<id>.md`` for each skill and action.
A person or an agent answers by storing a procedure with that skillId.
"""

from __future__ import annotations

from memvault.agents.address import Address
from memvault.agents.entries import AgentFileStore, AgentFileUpdate, normal
from memvault.vault import layout
from memvault.vault.store import MemoryStore


def ask(store: MemoryStore, address: Address, skill_id: str, action: str) -> tuple[str, str]:
    """Ask for a skill; return the request's id and its file's path in the vault.

    The id is the same on every machine, so that who asks again for the same
    action makes no second file. The caller holds the agent's lock. Errors as
    for ``Entries.put``.
    """
    action = normal(action)
    tail = layout.id_from_name(f"{skill_id.casefold()}\n{action}").rpartition("-")[2]
    request_id = f"{layout.slug(skill_id, 60)}-{tail}"
    entries = AgentFileStore(store, address, "skill-requests", "id")
    known = entries.read().entries.get(request_id)
    if known is not None:
        return request_id, known.path
    header = {"skill_id": skill_id, "status": "open"}
    text = f"{action}\n\nAnswer: memvault procedure store NAME PROMPT --skill-id {skill_id}"
    (path,) = entries.put([AgentFileUpdate(request_id, None, header, text)])
    return request_id, path
