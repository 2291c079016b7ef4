"""The vaults of other users that this one uses without naming them."""

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
    """Give the settings as they are, which nobody else changes until the block ends.

    Raises:
        TimedOut: somebody else does, for long.
        StorageError: nothing can be written there.
        UsageError: they make no sense.
    """
    path = user_settings.file()
    with atomic.map_os_errors(path.parent):
        path.parent.mkdir(0o700, parents=True, exist_ok=True)
    with FileLock(path.with_name("settings.lock")):
        yield user_settings.load()


def save(section: str, key: str, value: Any) -> None:
    """Write one setting into the user's own file, while ``changing`` it.

    Raises:
        StorageError: it cannot be written.
        UsageError: it is there and makes no sense.
    """
    path = user_settings.file()
    data = set_value(path, section, key, value, UsageError)
    try:
        atomic.write(path, data, private=True)
    except StorageError as error:
        hint = "MEMVAULT_CONFIG names another folder for your settings"
        raise StorageError(error.message, hint) from error


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


def trust(folder: str) -> list[str]:
    """Trust a vault; return all that are trusted.

    Raises:
        VaultNotFound: there is no vault in that folder.
        StorageError: the user's settings cannot be written.
    """
    root = str(find_vault(_named(folder)))
    with locked_settings() as settings:
        return _save_trusted([*settings.trusted, root])


def distrust(folder: str) -> list[str]:
    """Trust a vault no longer, also one that is gone; return those that are still trusted.

    Raises:
        NotFound: it is not trusted.
        StorageError: the user's settings cannot be written.
    """
    root = os.path.realpath(expand_home(_named(folder)))
    with locked_settings() as settings:
        trusted = settings.trusted
        if root not in trusted:
            raise NotFound(f"{root} is not a trusted vault", f"{user_settings.file()} names those")
        return _save_trusted([entry for entry in trusted if entry != root])


def _named(folder: str) -> str:
    if not folder.strip():
        raise UsageError("The vault's folder is missing", "memvault vaults trust DIR")
    return folder


def _save_trusted(trusted: list[str]) -> list[str]:
    trusted = list(dict.fromkeys(trusted))
    save("vaults", "trusted", trusted)
    return trusted
