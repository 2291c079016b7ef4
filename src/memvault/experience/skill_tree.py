"""Check and list the ids of skills, which have dots between the levels of the skill tree."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from memvault.errors import UsageError
from memvault.sanitize import shorten
from memvault.vault.names import normalize

_SKILL_ID = re.compile(r"[^\W_][\w-]*(\.[^\W_][\w-]*){0,7}")
_MAX_ID_LENGTH = 120


def key(skill_id: str) -> str:
    """Return an id in the form used for comparison."""
    return normalize("NFC", skill_id).strip().casefold()


def checked_id(skill_id: str) -> str:
    """Return an id in the form used for storage.

    Raises:
        UsageError: the id is invalid.
    """
    plain = found_id(skill_id)
    if not plain:
        raise UsageError(
            f"{shorten(skill_id, 60)!r} is not a valid skill id",
            "use letters, digits, - and _, and dots between parts, such as combat.melee.swords",
        )
    return plain


def found_id(value: object) -> str:
    """Return the id in a header, or an empty string if it is missing or invalid."""
    plain = normalize("NFC", str(value if value is not None else "")).strip()
    return plain if len(plain) <= _MAX_ID_LENGTH and _SKILL_ID.fullmatch(plain) else ""


def below(skill_ids: Iterable[str], branch: str) -> list[str]:
    """Return the ids on a branch, including the branch itself, sorted."""
    prefix = key(branch)
    return sorted(
        (entry for entry in skill_ids if f"{key(entry)}.".startswith(f"{prefix}.")), key=key
    )


def branches(skill_ids: Iterable[str], depth: int) -> dict[str, int]:
    """Return the branches of the skill tree at a depth, each with its number of skills."""
    parts = (entry.split(".")[:depth] for entry in sorted(skill_ids, key=key))
    names = (".".join(part) for part in parts if len(part) == depth)
    spelled: dict[str, str] = {}
    return dict(Counter(spelled.setdefault(key(branch), branch) for branch in names))
