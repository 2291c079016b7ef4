"""Which vault is meant, and whether it may be used unasked."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from memvault import visible
from memvault.errors import UsageError, VaultNotFound, VaultUnreadable
from memvault.user_folders import SETTINGS_FILE, home_expanded, is_owned


def find_vault(given: str | None) -> Path:
    """Return the vault's root: the given one, ``MEMVAULT_VAULT``, or the nearest parent.

    A parent's ``memvault.toml`` that is another user's counts only where this
    user trusts that vault: it says what is read and run here.

    Raises:
        VaultNotFound: there is none.
        VaultUnreadable: it may not be looked into, or is another user's.
    """
    try:
        named = given or os.environ.get("MEMVAULT_VAULT")
        return _named(named) if named else _nearest(_working_folder())
    except PermissionError as error:
        raise VaultUnreadable(
            f"{error.filename} cannot be read: {error.strerror}", "check its permissions"
        ) from error


def _named(text: str) -> Path:
    root = home_expanded(text)
    if root.is_file():
        raise VaultNotFound(f"{text} is a file", "a vault is a folder; name the one it is in")
    if not root.is_dir():
        raise VaultNotFound(
            f"There is no folder {text}", f"memvault init {visible.shell(text)} makes a vault there"
        )
    if not (root / SETTINGS_FILE).is_file():
        raise VaultNotFound(
            f"{text} is not a vault: it has no {SETTINGS_FILE}",
            f"memvault init {visible.shell(text)} makes it one without touching its files",
        )
    return root.resolve()


def _nearest(here: Path) -> Path:
    for folder in (here, *here.parents):
        try:
            status = os.lstat(folder / SETTINGS_FILE)
        except (FileNotFoundError, NotADirectoryError):
            continue
        if stat.S_ISDIR(status.st_mode):
            continue
        if not is_owned(status) and not _is_trusted(folder):
            raise VaultUnreadable(
                f"The vault {folder} belongs to another user",
                f"memvault vaults trust {visible.shell(str(folder))} if you trust its owner; "
                "--vault or MEMVAULT_VAULT names it for once",
            )
        return folder
    raise VaultNotFound(
        f"No {SETTINGS_FILE} in {here} or above it",
        "memvault init makes this folder a vault; --vault DIR or MEMVAULT_VAULT names another",
    )


def _is_trusted(folder: Path) -> bool:
    from memvault import user_settings

    return str(folder) in user_settings.load().trusted


def _working_folder() -> Path:
    try:
        return Path.cwd().resolve()
    except OSError as error:
        raise UsageError("The current folder no longer exists", "cd to one that does") from error
