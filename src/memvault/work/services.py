"""Names of services: hooks, jobs and files, none of which may speak as a person or an agent."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from memvault.errors import UsageError
from memvault.vault.normal_form import normal_form
from memvault.work.agents import PRIMARY, USER, known

__all__ = ["PLAN", "SERVICE", "SPACE_MESSAGE", "TALK", "UNNAMED", "checked", "is_taken", "speaker"]

SPACE_MESSAGE = "space_message"
PLAN = "plan"
SERVICE = "service"
TALK = "talk"
UNNAMED = "unnamed"
"""What a service is called that was found under a name it may not have."""
_TAKEN = (USER, "agent", "main", PRIMARY)
_SENDERS = {TALK: "from", SPACE_MESSAGE: "senderName", PLAN: "planName"}
"""Which value of an event says who or what it comes from."""


def checked(root: Path, name: str) -> str:
    """Return a service's name as it is compared.

    Raises:
        UsageError: it is empty, or would pass for the user or an agent of the vault.
    """
    wanted = name.strip()
    if not wanted:
        raise UsageError("The hook's name is empty", "memvault inbox push NAME")
    if is_taken(root, wanted):
        raise UsageError(
            f"{wanted!r} is no name for a service: it would pass for a person or an agent",
            "name it by what it is, such as ci or deployed",
        )
    return wanted


def is_taken(root: Path, name: str) -> bool:
    """Say whether a name would pass for the user, or for an agent of the vault or its brain."""
    plain = _plain(name.partition("/")[0])
    return plain in _TAKEN or plain in map(_plain, known(root))


def _plain(name: str) -> str:
    return normal_form("NFKC", name).casefold().strip()


def speaker(kind: str, data: Mapping[str, Any]) -> str:
    """Return in one line who an event comes from; of a service it says that it is one."""
    if kind not in _SENDERS:
        return " ".join(f"{SERVICE} {data.get('name', UNNAMED)}".split())
    return " ".join(str(data.get(_SENDERS[kind]) or kind).split())
