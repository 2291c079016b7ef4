"""Reject names of services and senders that could be mistaken for the user or an agent."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from memvault.agents.address import PRIMARY, USER, agent_names
from memvault.errors import UsageError
from memvault.vault.names import normalize

SPACE_MESSAGE = "space_message"
PLAN = "plan"
SERVICE = "service"
TALK = "talk"
UNNAMED = "unnamed"
"""The name shown for a service with a reserved name."""
_RESERVED = (USER, "agent", "main", PRIMARY)
_SENDERS = {TALK: "from", SPACE_MESSAGE: "senderName", PLAN: "planName"}
"""The key of the sender's name in an event's data, by kind."""


def check_service_name(root: Path, name: str) -> str:
    """Return a service's name without surrounding whitespace.

    Raises:
        UsageError: the name is empty, has invisible characters, or could be mistaken for the user
            or an agent in the vault.
    """
    service = name.strip()
    if not service:
        raise UsageError("The hook's name is empty", "pass a name to `memvault inbox push NAME`")
    if not service.isprintable():
        raise UsageError("The hook's name has invisible characters", "use letters and digits")
    if is_reserved(service, reserved_names(root)):
        raise UsageError(
            f"{service!r} is not a valid service name: it resembles a person's or an agent's name",
            "give it a descriptive name, such as ci or deployed",
        )
    return service


def reserved_names(root: Path) -> frozenset[str]:
    """Return the names of the user and the vault's agents, in the form used for comparison."""
    return frozenset((*_RESERVED, *map(_comparable, agent_names(root))))


def is_reserved(name: str, names: frozenset[str]) -> bool:
    """Return whether a name could be mistaken for one of ``names`` or one of their brains."""
    return _comparable(name.partition("/")[0]) in names


def _comparable(name: str) -> str:
    """Return a name in the form used for comparison: ignoring case and invisible characters."""
    seen = "".join(char for char in normalize("NFKC", name) if char.isprintable())
    return seen.casefold().strip()


def sender_label(kind: str, data: Mapping[str, Any]) -> str:
    """Return the sender of an event in one line, marking services."""
    if kind not in _SENDERS:
        return " ".join(f"{SERVICE} {data.get('name', UNNAMED)}".split())
    return " ".join(str(data.get(_SENDERS[kind]) or kind).split())
