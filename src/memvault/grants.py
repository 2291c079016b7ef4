"""Store the user's grants on this machine, one file per grant, outside any vault.

A vault is untrusted data, so nothing in it can grant anything. A grant applies to one vault (its
real path) and one subject in it, and is valid only while no other user could have written its file.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from memvault import clock
from memvault.errors import Refused, StorageError
from memvault.files import atomic
from memvault.files.plain_files import MAX_SETTING_BYTES, read_json
from memvault.files.user_folders import enclosing_vault, only_user_can_write, user_folder


def get(root: Path, kind: str, name: str) -> dict[str, Any]:
    """Return the data stored with a grant, or an empty dict if there is none.

    Raises:
        Refused: the state folder is inside a vault.
    """
    file = _file(root, kind, name)
    try:
        if not (only_user_can_write(file.parent) and only_user_can_write(file)):
            return {}
    except OSError:
        return {}
    allowed = read_json(file, MAX_SETTING_BYTES).get("allowed")
    return allowed if isinstance(allowed, dict) else {}


def add(root: Path, kind: str, name: str, allowed: Mapping[str, Any]) -> None:
    """Store a grant.

    Raises:
        Refused: the state folder is inside a vault.
        StorageError: the grant cannot be written.
    """
    file = _file(root, kind, name)
    record = {
        "vault": os.path.realpath(root),
        "kind": kind,
        "name": name,
        "allowed": dict(allowed),
        "since": clock.iso(),
    }
    with atomic.map_os_errors(file.parent):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.parent.chmod(0o700)  # Private before any file is written to it.
    atomic.write(file, json.dumps(record, indent=2).encode(), private=True)


def machine_secret() -> str:
    """Return a random secret for this user on this machine, created on first use.

    Raises:
        Refused: the state folder is inside a vault.
        StorageError: the secret cannot be written.
    """
    root, kind, name = Path("/"), "machine", "secret"
    secret = str(get(root, kind, name).get("secret", ""))
    if not secret:
        import secrets

        secret = secrets.token_hex(16)
        add(root, kind, name, {"secret": secret})
    return secret


def revoke(root: Path, kind: str, name: str) -> bool:
    """Revoke a grant, and return whether there was one."""
    had = bool(get(root, kind, name))
    file = _file(root, kind, name)
    with atomic.map_os_errors(file.parent):
        file.unlink(missing_ok=True)
    return had


def _file(root: Path, kind: str, name: str) -> Path:
    """Return a grant's file, which must not be inside a vault.

    Raises:
        Refused: the state folder is inside a vault.
        StorageError: the user has no state folder.
    """
    state = user_folder("state")
    if state is None:
        raise StorageError(
            "There is no folder to store permissions in", "set MEMVAULT_STATE to a folder"
        )
    folder = Path(os.path.realpath(state)) / "trust"
    above = enclosing_vault(folder)
    if above is not None:
        raise Refused(
            f"The state folder {folder.parent} is in the vault {above}, which is not trusted",
            "set MEMVAULT_STATE to a folder outside every vault",
        )
    what = json.dumps([os.path.realpath(root), kind, name])
    return folder / f"{hashlib.sha256(what.encode()).hexdigest()}.json"
