"""Names of services: hooks, jobs and files, none of which may speak as a person or an agent."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from memvault.agents.address import PRIMARY, USER, known
from memvault.errors import UsageError
from memvault.vault.normal_form import normalize

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
    """Return a service's name without blanks around it.

    Raises:
        UsageError: it is empty, or would pass for the user or an agent of the vault.
    """
    wanted = name.strip()
    if not wanted:
        raise UsageError("The hook's name is empty", "memvault inbox push NAME")
    if not wanted.isprintable():
        raise UsageError("The hook's name has invisible characters", "use letters and digits")
    if is_taken(wanted, reserved_names(root)):
        raise UsageError(
            f"{wanted!r} is not a service name: it would pass for a person or an agent",
            "name it by what it is, such as ci or deployed",
        )
    return wanted


def reserved_names(root: Path) -> frozenset[str]:
    """Return the names of the user and of the vault's agents, as they are compared."""
    return frozenset((*_TAKEN, *map(_plain, known(root))))


def is_taken(name: str, names: frozenset[str]) -> bool:
    """Say whether a name would pass for one of ``taken``, or for a brain of theirs."""
    return _plain(name.partition("/")[0]) in names


def _plain(name: str) -> str:
    """Return a name as it is compared: without case, and without what nobody sees."""
    seen = "".join(char for char in normalize("NFKC", name) if char.isprintable())
    return seen.casefold().strip()


def sender_label(kind: str, data: Mapping[str, Any]) -> str:
    """Return in one line who an event comes from; of a service it says that it is one."""
    if kind not in _SENDERS:
        return " ".join(f"{SERVICE} {data.get('name', UNNAMED)}".split())
    return " ".join(str(data.get(_SENDERS[kind]) or kind).split())
