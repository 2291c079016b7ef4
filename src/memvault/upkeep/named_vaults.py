"""The names that the user gives to vaults, so that one recall can ask several."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from memvault import user_settings
from memvault.config import load_settings
from memvault.errors import Conflict, NotFound, UsageError, VaultUnreadable
from memvault.locate import ALL, THIS, find_vault
from memvault.upkeep.own_settings import locked_settings, save
from memvault.user_folders import SETTINGS_FILE

NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")
"""What vaults and tokens may be called."""


def check(name: str) -> None:
    """Make sure that a vault may be called so.

    Raises:
        UsageError: it may not.
    """
    if not name:
        raise UsageError("The vault's name is missing", "memvault vaults add NAME DIR")
    if not NAME.fullmatch(name) or name in (ALL, THIS):
        raise UsageError(
            f"A vault cannot be named {name!r}",
            "take up to 40 small letters, digits, - and _, not all or this",
        )


def add_vault(name: str, folder: str) -> str:
    """Name a vault; return its folder. The same name for the same folder is no error.

    Raises:
        UsageError: the name cannot be one.
        Conflict: another vault has it.
        VaultNotFound: there is no vault in that folder.
    """
    check(name)
    if not folder.strip():
        raise UsageError("The vault's folder is missing", f"memvault vaults add {name} DIR")
    root = str(find_vault(folder))
    with locked_settings() as settings:
        known = settings.vaults
        if known.get(name, root) != root:
            raise Conflict(
                f"{name} is the name of {known[name]}", f"memvault vaults remove {name} frees it"
            )
        _save({**known, name: root})
    return root


def remove_vault(name: str) -> str:
    """Take a vault's name away, nothing else; return its folder.

    Raises:
        NotFound: no vault has it.
    """
    if not name:
        raise UsageError("The vault's name is missing", "memvault vaults remove NAME")
    with locked_settings() as settings:
        if name not in settings.vaults:
            raise _unknown(name, settings.vaults)
        if name in settings.default:
            save("vaults", "default", [entry for entry in settings.default if entry != name])
        _save({key: root for key, root in settings.vaults.items() if key != name})
    return settings.vaults[name]


def set_default(names: Sequence[str]) -> None:
    """Let recall ask these vaults beside the one at hand; none for that one alone.

    Raises:
        NotFound: no vault has one of the names.
    """
    with locked_settings() as settings:
        for name in names:
            if name != ALL and name not in settings.vaults:
                raise _unknown(name, settings.vaults)
        save("vaults", "default", list(dict.fromkeys(names)))


def vault_table() -> list[dict[str, Any]]:
    """Return every named vault: its name, its folder, and whether it is there."""
    settings = user_settings.load()
    return [
        {
            "name": name,
            "folder": root,
            **({"default": True} if {name, ALL} & set(settings.default) else {}),
            **_about(Path(root)),
        }
        for name, root in settings.vaults.items()
    ]


def _about(root: Path) -> dict[str, Any]:
    """Say what there is to say of a named vault: that it is missing, or where its files are."""
    if not (root / SETTINGS_FILE).is_file():
        return {"problem": "missing"}
    try:
        shared = load_settings(root).shared
    except VaultUnreadable as error:
        return {"problem": error.message}
    return {"sentBy": shared.sent, "uri": shared.uri} if shared.sent else {}


def _save(names: Mapping[str, str]) -> None:
    save("vaults", "names", dict(names))


def _unknown(name: str, known: Mapping[str, str]) -> NotFound:
    near = get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]}?" if near else "memvault vaults list names them"
    return NotFound(f"There is no vault named {name!r}", hint)
