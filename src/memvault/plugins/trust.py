"""Which tools of which vaults may run on this machine, because their user said so.

What the user decided holds for exactly the bytes that were looked at (``grants``).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path

from memvault import grants
from memvault.errors import Refused, StorageError
from memvault.plugins.fingerprint import DigestCache, ToolFingerprint, fingerprint_of
from memvault.plugins.tool_file import ToolFile
from memvault.schema import normal_name

_KIND = "tool"


def require(root: Path, kept: ToolFile, known: DigestCache | None = None) -> str:
    """Make sure that a tool may run here as it is now; return the program to run.

    Raises:
        Refused: its user never said so of exactly this.
    """
    name = kept.definition.name
    hint = f"look at {kept.path}, then memvault tools trust {name}"
    given = grants.get(root, _KIND, normal_name(name)).get("digest")
    if not given:  # nothing that a vault names is read before
        raise Refused(f"The tool {name} is not trusted here", hint)
    covered = fingerprint_of(root, kept, known)
    if given != covered.digest:
        changed = f"{kept.path} or a file that trust covers"
        raise Refused(f"The tool {name} has changed since it was trusted: {changed}", hint)
    return covered.program


def trusted(root: Path, tools: Iterable[ToolFile]) -> list[ToolFile]:
    """Return those of some tools that may run here as they are now; each file is read once."""
    known: DigestCache = {}
    found = []
    for kept in tools:
        with contextlib.suppress(Refused, StorageError):
            require(root, kept, known)
            found.append(kept)
    return found


def grant(root: Path, kept: ToolFile, covered: ToolFingerprint) -> None:
    """Let a tool run on this machine as long as what was covered stays the same.

    Raises:
        Refused: the state folder lies in a vault.
        StorageError: it cannot be written.
    """
    allowed = {
        "digest": covered.digest,
        "command": list(kept.definition.command),
        "files": covered.files,
    }
    grants.add(root, _KIND, normal_name(kept.definition.name), allowed)


def revoke(root: Path, name: str) -> bool:
    """Let a tool no longer run on this machine; say whether it could."""
    return grants.revoke(root, _KIND, normal_name(name))
