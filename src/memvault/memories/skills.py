"""Skills: the dotted tree that procedures with a ``skill_id`` make, such as combat.melee.swords.

The first part of an id is its category, the first two its subcategory. Ids are
compared without case.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from memvault.errors import UsageError
from memvault.vault.normal_form import normalize

_ID = re.compile(r"[^\W_][\w-]*(\.[^\W_][\w-]*){0,7}")
_LONGEST = 120


def key(skill_id: str) -> str:
    """Return an id in the spelling under which it is compared."""
    return normalize("NFC", skill_id).strip().casefold()


def checked_id(skill_id: str) -> str:
    """Return an id as it is kept.

    Raises:
        UsageError: it cannot be one.
    """
    plain = found_id(skill_id)
    if not plain:
        shown = skill_id if len(skill_id) <= 60 else f"{skill_id[:57]}..."
        raise UsageError(
            f"{shown!r} cannot be the id of a skill",
            "use letters, digits, - and _, with dots between the parts, as in combat.melee.swords",
        )
    return plain


def found_id(value: object) -> str:
    """Return the id that a header holds, or an empty text where it holds none."""
    plain = normalize("NFC", str(value if value is not None else "")).strip()
    return plain if len(plain) <= _LONGEST and _ID.fullmatch(plain) else ""


def below(skill_ids: Iterable[str], branch: str) -> list[str]:
    """Return the ids on a branch, itself included, in their order."""
    wanted = key(branch)
    return sorted(
        (entry for entry in skill_ids if f"{key(entry)}.".startswith(f"{wanted}.")), key=key
    )


def branches(skill_ids: Iterable[str], depth: int) -> dict[str, int]:
    """Return the branches of the tree at a depth, and how many skills each has."""
    parts = (entry.split(".")[:depth] for entry in sorted(skill_ids, key=key))
    named = (".".join(part) for part in parts if len(part) == depth)
    spelled: dict[str, str] = {}
    return dict(Counter(spelled.setdefault(key(branch), branch) for branch in named))
