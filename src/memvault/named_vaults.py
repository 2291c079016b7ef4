"""Manage the named, default and trusted vaults in the user's settings."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from memvault.errors import (
    Conflict,
    NotFound,
    StorageError,
    UsageError,
    VaultUnreadable,
    suggestion,
)
from memvault.files import atomic
from memvault.files.lock import FileLock
from memvault.files.user_folders import SETTINGS_FILE, expand_home
from memvault.settings import user_settings
from memvault.settings.locate import ALL, THIS, find_vault
from memvault.settings.toml_file import read_bytes, write_values
from memvault.settings.user_settings import VaultLists
from memvault.settings.vault_settings import load_settings

NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")
"""Matches valid names of vaults and tokens."""
_MAX_STEM = 30
"""Maximum length of a vault's name taken from its folder's name."""


def check(name: str) -> None:
    """Check that a string is a valid vault name.

    Raises:
        UsageError: the name is not valid.
    """
    _require("name", name, "add NAME DIR")
    if not NAME.fullmatch(name) or name in (ALL, THIS):
        raise UsageError(
            f"{name!r} is not a valid vault name",
            "use up to 40 lowercase letters, digits, - and _; the names all and this are reserved",
        )


def add_vault(name: str, folder: str) -> str:
    """Name a vault, and return its folder; repeating the call is not an error.

    Raises:
        UsageError: the name is invalid.
        Conflict: another vault has the name.
        VaultNotFound: there is no vault in that folder.
    """
    check(name)
    _require("folder", folder, f"add {name} DIR")
    root = str(find_vault(folder))

    def named(vaults: VaultLists) -> VaultLists:
        if (named_root := vaults.names.get(name, root)) != root:
            raise Conflict(
                f"{name} is already the name of {named_root}",
                f"choose another name, or run `memvault vaults remove {name}` first",
            )
        return vaults.replace(names={**vaults.names, name: root})

    _update(named)
    return root


def remove_vault(name: str) -> str:
    """Remove a vault's name, but not the vault, and return its folder.

    Raises:
        NotFound: no vault has the name.
    """
    _require("name", name, "remove NAME")

    def unnamed(vaults: VaultLists) -> VaultLists:
        _check_known([name], vaults.names)
        names = {key: root for key, root in vaults.names.items() if key != name}
        return vaults.replace(names=names, default=_without(vaults.default, name))

    return _update(unnamed)[0].names[name]


def set_default(names: Sequence[str]) -> None:
    """Set the vaults that recall searches in addition to the current one; empty for no others.

    Raises:
        NotFound: no vault has one of the names.
    """

    def chosen(vaults: VaultLists) -> VaultLists:
        _check_known(names, [*vaults.names, ALL])
        return vaults.replace(default=tuple(dict.fromkeys(names)))

    _update(chosen)


def has_default() -> bool:
    """Return whether the user has a default vault."""
    return bool(user_settings.load().vaults.default)


def make_default(root: str) -> str:
    """Make a vault the first default vault, named after its folder, and return its name."""
    vaults = user_settings.load().vaults
    name = next((name for name, folder in vaults.names.items() if folder == root), None)
    if name is None:
        stem = re.sub(r"[^a-z0-9_-]+", "-", Path(root).name.lower()).strip("-_")[:_MAX_STEM]
        taken = {*vaults.names, ALL, THIS, ""}
        numbered = (f"{stem or 'vault'}-{number}" for number in itertools.count(2))
        candidates = itertools.chain((stem,), numbered)
        name = next(candidate for candidate in candidates if candidate not in taken)
        add_vault(name, root)
    set_default([name, *vaults.default])
    return name


def trust(folder: str) -> list[str]:
    """Add a vault to the trusted vaults, and return all of them.

    Raises:
        VaultNotFound: there is no vault in that folder.
        StorageError: the user's settings cannot be written.
    """
    _require("folder", folder, "trust DIR")
    root = str(find_vault(folder))

    def with_root(vaults: VaultLists) -> VaultLists:
        return vaults.replace(trusted=tuple(dict.fromkeys((*vaults.trusted, root))))

    return list(_update(with_root)[1].trusted)


def distrust(folder: str) -> list[str]:
    """Remove a vault, even a deleted one, from the trusted vaults, and return the rest.

    Raises:
        NotFound: the vault is not trusted.
        StorageError: the user's settings cannot be written.
    """
    _require("folder", folder, "untrust DIR")
    root = os.path.realpath(expand_home(folder))

    def without_root(vaults: VaultLists) -> VaultLists:
        if root not in vaults.trusted:
            trusted = ", ".join(vaults.trusted)
            raise NotFound(
                f"{root} is not a trusted vault",
                f"trusted vaults: {trusted}" if trusted else "no vaults are trusted",
            )
        return vaults.replace(trusted=_without(vaults.trusted, root))

    return list(_update(without_root)[1].trusted)


def vault_table() -> list[dict[str, Any]]:
    """Return every named vault with its name, folder, and problem if it is missing or invalid."""
    vaults = user_settings.load().vaults
    return [
        {
            "name": name,
            "folder": root,
            **({"default": True} if {name, ALL} & set(vaults.default) else {}),
            **_describe(Path(root)),
        }
        for name, root in vaults.names.items()
    ]


def _describe(root: Path) -> dict[str, Any]:
    """Return a named vault's problem, or the machine and address of files stored elsewhere."""
    if not (root / SETTINGS_FILE).is_file():
        return {"problem": "missing"}
    try:
        engine = load_settings(root).index
    except VaultUnreadable as error:
        return {"problem": error.message}
    return {"sentBy": engine.sent, "uri": engine.uri} if engine.sent else {}


def _update(change: Callable[[VaultLists], VaultLists]) -> tuple[VaultLists, VaultLists]:
    """Change the lists of vaults in the user's settings under their lock.

    Returns the lists before and after.

    Raises:
        TimedOut: another process holds the lock for too long.
        Conflict: an editor has just saved the file.
        StorageError: the folder or the file cannot be written.
        UsageError: a setting is invalid.
    """
    path = user_settings.file()
    with atomic.map_os_errors(path.parent):
        path.parent.mkdir(0o700, parents=True, exist_ok=True)
    with FileLock(path.with_name("settings.lock")):
        data = read_bytes(path, UsageError)
        before = user_settings.load().vaults
        after = change(before)
        changed = {
            key: dict(value) if isinstance(value, Mapping) else list(value)
            for key, value in after.values().items()
            if value != getattr(before, key)
        }
        if changed:
            try:
                write_values(path, "vaults", changed, UsageError, data)
            except StorageError as error:
                hint = "set MEMVAULT_CONFIG to use another folder for your settings"
                raise StorageError(error.message, hint) from error
    return before, after


def _without(entries: Sequence[str], removed: str) -> tuple[str, ...]:
    return tuple(entry for entry in entries if entry != removed)


def _require(what: str, value: str, usage: str) -> None:
    if not value.strip():
        raise UsageError(f"The vault's {what} is missing", f"memvault vaults {usage}")


def _check_known(names: Sequence[str], known_names: Sequence[str] | Mapping[str, str]) -> None:
    for name in names:
        if name not in known_names:
            hint = suggestion(name, known_names, "run `memvault vaults list` to see all names")
            hint = hint if known_names else f"name a vault with `memvault vaults add {name} DIR`"
            raise NotFound(f"There is no vault named {name!r}", hint)
