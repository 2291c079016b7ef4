"""Which tools of which vaults may run on this machine, because their user said so.

A vault is data that may come from anyone, so nothing in it counts here. What
the user decided lies in the user's own state folder, one file for each vault
and tool, and holds for exactly the bytes that were looked at.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
from pathlib import Path

from memvault import clock, config
from memvault.errors import Refused, StorageError
from memvault.tools import registry
from memvault.tools.covering import Cover, cover
from memvault.tools.toolfiles import Kept
from memvault.vault import atomic

__all__ = ["grant", "is_trusted", "require", "revoke"]


def require(root: Path, kept: Kept) -> str:
    """Make sure that a tool may run here as it is now; return the program to run.

    Raises:
        Refused: its user never said so of exactly this.
    """
    name = kept.definition.name
    hint = f"look at {kept.path}, then memvault tools trust {name}"
    given = _granted(_folder(), root, name)
    if not given:  # nothing that a vault names is read before
        raise Refused(f"The tool {name} is not trusted here", hint)
    covered = cover(root, kept)
    if given != covered.digest:
        changed = f"{kept.path} or a file that trust covers"
        raise Refused(f"The tool {name} is not as it was when it was trusted: {changed}", hint)
    return covered.program


def is_trusted(root: Path, kept: Kept) -> bool:
    """Say whether a tool may run here as it is now."""
    with contextlib.suppress(Refused, StorageError):
        require(root, kept)
        return True
    return False


def grant(root: Path, kept: Kept, covered: Cover) -> None:
    """Let a tool run on this machine as long as what was covered stays the same.

    Raises:
        Refused: the state folder lies in a vault.
        StorageError: it cannot be written.
    """
    folder = _folder()
    record = {
        "vault": os.path.realpath(root),
        "tool": registry.normal(kept.definition.name),
        "digest": covered.digest,
        "command": list(kept.definition.command),
        "files": covered.files,
        "trusted": clock.iso(),
    }
    with atomic.explained(folder):
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)  # before anything lies in it
        file = folder / _key(root, kept.definition.name)
        atomic.put(file, json.dumps(record, indent=2).encode())
        file.chmod(0o600)


def revoke(root: Path, name: str) -> bool:
    """Let a tool no longer run on this machine; say whether it could."""
    folder = _folder()
    had = bool(_granted(folder, root, name))
    with atomic.explained(folder):
        (folder / _key(root, name)).unlink(missing_ok=True)
    return had


def _granted(folder: Path, root: Path, name: str) -> str:
    """Return the digest that was trusted, or nothing."""
    file = folder / _key(root, name)
    try:
        if not (_is_ones_own(folder) and _is_ones_own(file)):
            return ""
        record = json.loads(atomic.read(file))
        mine = (record["vault"], record["tool"]) == (os.path.realpath(root), registry.normal(name))
        return str(record["digest"]) if mine else ""
    except (OSError, ValueError, TypeError, KeyError):
        return ""


def _is_ones_own(path: Path) -> bool:
    """Say whether nobody else can have written a file or folder."""
    status = os.lstat(path)
    if os.name != "posix":
        return True
    return status.st_uid == os.geteuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _key(root: Path, name: str) -> str:
    whole = json.dumps([os.path.realpath(root), registry.normal(name)])
    return f"{hashlib.sha256(whole.encode()).hexdigest()}.json"


def _folder() -> Path:
    """Return the folder of trust, which no vault may bring along.

    Raises:
        Refused: the state folder lies in a vault.
    """
    folder = Path(os.path.realpath(config.state_folder())) / "trust"
    for parent in folder.parents:
        if (parent / config.SETTINGS_FILE).is_file():
            raise Refused(
                f"The state folder {folder.parent} lies in the vault {parent}, where trust is none",
                "set MEMVAULT_STATE to a folder outside of every vault",
            )
    return folder
