"""The user's own settings: what no vault may say of itself.

They lie in the user's configuration folder as ``settings.toml``::

    [vaults]
    trusted = ["/srv/team/notes"]   # vaults of other users; memvault vaults trust adds one

    [embedder]
    model = "/home/me/models/bge"   # for vaults that name none

    [rerank]
    model = "/home/me/models/marco"
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from memvault import visible
from memvault.errors import StorageError, UsageError
from memvault.settings_file import MODEL, SettingsFile, are_texts
from memvault.user_folders import home_expanded, is_own_alone, user_folder, vault_above

_NAME = "settings.toml"
_FOLDERS = "a list of folders", are_texts


class UserSettings(NamedTuple):
    """``trusted`` are real paths of vaults; a model that is not named is empty."""

    trusted: tuple[str, ...] = ()
    embedder: str = ""
    reranker: str = ""


def load() -> UserSettings:
    """Read the user's own settings; none are no error.

    Raises:
        UsageError: they make no sense, or may be somebody else's.
    """
    path = _place()
    if path is None or not path.is_file():
        return UserSettings()
    _check_place(path)
    file = SettingsFile(path, UsageError)
    trusted = [home_expanded(entry) for entry in file.take("vaults.trusted", [], *_FOLDERS)]
    if not all(folder.is_absolute() for folder in trusted):
        raise UsageError(
            f"{path}: vaults.trusted must hold absolute paths", "begin them with / or ~"
        )
    return UserSettings(
        tuple(os.path.realpath(folder) for folder in trusted),
        file.take("embedder.model", "", *MODEL),
        file.take("rerank.model", "", *MODEL),
    )


def file() -> Path:
    """Return where the settings lie, or would.

    Raises:
        StorageError: the user has no folder for them.
        UsageError: that folder lies in a vault.
    """
    path = _place()
    if path is None:
        raise StorageError(
            "There is no folder for your settings", "set MEMVAULT_CONFIG to a folder of yours"
        )
    _check_place(path)
    return path


def _place() -> Path | None:
    """Return where the settings lie, a link to them followed: it is the user's own."""
    folder = user_folder("config")
    return None if folder is None else Path(os.path.realpath(folder / _NAME))


def _check_place(path: Path) -> None:
    above = vault_above(path.parent)
    if above is not None:
        raise UsageError(
            f"Your settings {path} lie in the vault {above}, which may come from anyone",
            "set MEMVAULT_CONFIG to a folder outside of every vault",
        )
    if path.exists() and not is_own_alone(path):
        raise UsageError(
            f"Others can write your settings {path}", f"chmod go-w {visible.shell(str(path))}"
        )
