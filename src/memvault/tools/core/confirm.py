"""Two steps to what takes something away: a preview with a token, then the deed.

A token is good for exactly what the preview showed. Where something has come,
gone or changed since, it fits no longer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Annotated

from memvault.errors import Conflict
from memvault.schema import Arg

Confirm = Annotated[bool | str | None, Arg("true, or the token that the preview returned")]


def token_of(chosen: Iterable[str]) -> str:
    """Return the token for exactly these things, each by a text that changes when it does."""
    shown = "\n".join(sorted(chosen)).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(shown, digest_size=6).hexdigest()


def is_confirmed(confirm: bool | str | None, token: str, what: str) -> bool:
    """Say whether to go ahead; where nothing was confirmed yet, a preview is to be shown.

    Raises:
        Conflict: what is confirmed is not what ``token`` is for, which ``what`` names.
    """
    given = "" if confirm is None else str(confirm).strip().lower()
    if given in ("", "false", "no"):
        return False
    if given not in ("true", "yes", token):
        raise Conflict(
            f"The confirmation does not match {what}",
            "look at the preview again and confirm with its token",
        )
    return True
