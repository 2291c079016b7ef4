"""Named, default and trusted vaults in the user's settings."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from memvault.errors import Conflict, NotFound, StorageError, UsageError, VaultUnreadable
from memvault.files import atomic
from memvault.files.lock import FileLock
from memvault.files.user_folders import SETTINGS_FILE, expand_home
from memvault.settings import user_settings
from memvault.settings.locate import ALL, THIS, find_vault
from memvault.settings.toml_file import set_value
from memvault.settings.user_settings import UserSettings
from memvault.settings.vault_settings import load_settings


@contextlib.contextmanager
def locked_settings() -> Iterator[UserSettings]:
    """Lock the user's settings until the block ends, and yield them.

    Raises:
        TimedOut: another process holds the lock for too long.
        StorageError: the folder cannot be written.
        UsageError: a setting is invalid.
    """
    path = user_settings.file()
    with atomic.map_os_errors(path.parent):
        path.parent.mkdir(0o700, parents=True, exist_ok=True)
    with FileLock(path.with_name("settings.lock")):
        yield user_settings.load()


def save(section: str, key: str, value: Any) -> None:
    """Write one setting to the user's file; the caller holds ``locked_settings``.

    Raises:
        StorageError: the file cannot be written.
        UsageError: the existing file is invalid.
    """
    path = user_settings.file()
    data = set_value(path, section, key, value, UsageError)
    try:
        atomic.write(path, data, private=True)
    except StorageError as error:
        hint = "MEMVAULT_CONFIG names another folder for your settings"
        raise StorageError(error.message, hint) from error


NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")
"""Valid names of vaults and tokens."""


def check(name: str) -> None:
    """Check that a text is a valid name of a vault.

    Raises:
        UsageError: it is not.
    """
    if not name:
        raise UsageError("The vault's name is missing", "memvault vaults add NAME DIR")
    if not NAME.fullmatch(name) or name in (ALL, THIS):
        raise UsageError(
            f"A vault cannot be named {name!r}",
            "take up to 40 small letters, digits, - and _, not all or this",
        )


def add_vault(name: str, folder: str) -> str:
    """Name a vault, and return its folder; giving the same folder the same name is no error.

    Raises:
        UsageError: the name is invalid.
        Conflict: another vault has the name.
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
        _save_names({**known, name: root})
    return root


def remove_vault(name: str) -> str:
    """Remove a vault's name, not the vault, and return its folder.

    Raises:
        NotFound: no vault has the name.
    """
    if not name:
        raise UsageError("The vault's name is missing", "memvault vaults remove NAME")
    with locked_settings() as settings:
        if name not in settings.vaults:
            raise _unknown_vault(name, settings.vaults)
        if name in settings.default:
            save("vaults", "default", [entry for entry in settings.default if entry != name])
        _save_names({key: root for key, root in settings.vaults.items() if key != name})
    return settings.vaults[name]


def set_default(names: Sequence[str]) -> None:
    """Set the vaults that recall searches in addition to the current one; none for only that.

    Raises:
        NotFound: no vault has one of the names.
    """
    with locked_settings() as settings:
        for name in names:
            if name != ALL and name not in settings.vaults:
                raise _unknown_vault(name, settings.vaults)
        save("vaults", "default", list(dict.fromkeys(names)))


def vault_table() -> list[dict[str, Any]]:
    """Return every named vault with its name, folder, and problem if it is missing or invalid."""
    settings = user_settings.load()
    return [
        {
            "name": name,
            "folder": root,
            **({"default": True} if {name, ALL} & set(settings.default) else {}),
            **_describe(Path(root)),
        }
        for name, root in settings.vaults.items()
    ]


def _describe(root: Path) -> dict[str, Any]:
    """Return a named vault's problem, or the machine and address of files stored elsewhere."""
    if not (root / SETTINGS_FILE).is_file():
        return {"problem": "missing"}
    try:
        shared = load_settings(root).shared
    except VaultUnreadable as error:
        return {"problem": error.message}
    return {"sentBy": shared.sent, "uri": shared.uri} if shared.sent else {}


def _save_names(names: Mapping[str, str]) -> None:
    save("vaults", "names", dict(names))


def _unknown_vault(name: str, known: Mapping[str, str]) -> NotFound:
    near = get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]}?" if near else "memvault vaults list names them"
    return NotFound(f"There is no vault named {name!r}", hint)


def trust(folder: str) -> list[str]:
    """Add a vault to the trusted ones, and return all of them.

    Raises:
        VaultNotFound: there is no vault in that folder.
        StorageError: the user's settings cannot be written.
    """
    root = str(find_vault(_require_folder(folder)))
    with locked_settings() as settings:
        return _save_trusted([*settings.trusted, root])


def distrust(folder: str) -> list[str]:
    """Remove a vault, even a deleted one, from the trusted ones, and return the others.

    Raises:
        NotFound: the vault is not trusted.
        StorageError: the user's settings cannot be written.
    """
    root = os.path.realpath(expand_home(_require_folder(folder)))
    with locked_settings() as settings:
        trusted = settings.trusted
        if root not in trusted:
            raise NotFound(f"{root} is not a trusted vault", f"{user_settings.file()} names those")
        return _save_trusted([entry for entry in trusted if entry != root])


def _require_folder(folder: str) -> str:
    if not folder.strip():
        raise UsageError("The vault's folder is missing", "memvault vaults trust DIR")
    return folder


def _save_trusted(trusted: list[str]) -> list[str]:
    trusted = list(dict.fromkeys(trusted))
    save("vaults", "trusted", trusted)
    return trusted
