"""Request skills that have no description yet.

There is one file for each skill and action. A person or an agent answers a request by storing a
procedure with its skillId.
"""

from __future__ import annotations

from memvault.agents.address import Address
from memvault.agents.agent_files import AgentFileStore, AgentFileUpdate, normalize_name
from memvault.store.memory_store import MemoryStore
from memvault.vault import naming


def request_skill(
    store: MemoryStore, address: Address, skill_id: str, action: str
) -> tuple[str, str]:
    """Request a skill, and return the request's id and the path of its file.

    The id is the same on every machine, so repeating a request does not create a second file.
    """
    action = normalize_name(action)
    suffix = naming.id_from_name(f"{skill_id.casefold()}\n{action}").rpartition("-")[2]
    request_id = f"{naming.slug(skill_id, 60)}-{suffix}"
    header = {"skill_id": skill_id, "status": "open"}
    text = f"{action}\n\nAnswer: `memvault procedure store NAME PROMPT --skill-id {skill_id}`"
    entries = AgentFileStore(store, address, "skill-requests", "id")
    with entries.lock():
        existing = entries.read().entries.get(request_id)
        if existing is not None:
            return request_id, existing.path
        (path,) = entries.put([AgentFileUpdate(request_id, None, header, text)])
    return request_id, path
