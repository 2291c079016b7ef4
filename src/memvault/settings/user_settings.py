"""The user's own settings, which no vault can set.

They are in ``settings.toml`` in the user's configuration folder::

    [vaults]
    trusted = ["/srv/team/notes"]   # vaults of other users; memvault vaults trust adds one
    default = ["work", "home"]      # vaults searched by recall if a call names none

    [vaults.names]                  # memvault vaults add NAME DIR adds one
    work = "/home/me/work"
    home = "/home/me/notes"

    [embedder]
    model = "/home/me/models/bge"   # for vaults that name none

    [rerank]
    model = "/home/me/models/marco"

    [mcp]
    tools = "core,talk"             # tools of memvault mcp, for vaults that name none
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from memvault import sanitize
from memvault.errors import StorageError, UsageError
from memvault.files.user_folders import (
    enclosing_vault,
    expand_home,
    only_user_can_write,
    user_folder,
)
from memvault.settings.toml_file import MODEL, SettingsFile, are_texts

_FILE_NAME = "settings.toml"
_FOLDERS = "a list of folders", are_texts
_NAMES = "a list of vaults' names", are_texts
_NAMED_FOLDERS = (
    "a folder for each name",
    lambda value: isinstance(value, dict) and are_texts(list(value.values())),
)


class UserSettings(NamedTuple):
    """The user's settings.

    ``trusted`` are real paths of trusted vaults, ``vaults`` the folders of vaults by name,
    ``default`` the names of the vaults that recall searches if a call names none. A model that is
    not set is empty.
    """

    trusted: tuple[str, ...] = ()
    vaults: Mapping[str, str] = MappingProxyType({})
    default: tuple[str, ...] = ()
    embedder: str = ""
    reranker: str = ""
    mcp_tools: str = ""


def load() -> UserSettings:
    """Load the user's settings; the defaults if there is no file.

    Raises:
        UsageError: a setting is invalid, or another user could have written the file.
    """
    path = _settings_path()
    if path is None or not path.is_file():
        return UserSettings()
    _check_path(path)
    file = SettingsFile(path, UsageError)
    trusted = file.pop("vaults.trusted", [], *_FOLDERS)
    named = file.pop("vaults.names", {}, *_NAMED_FOLDERS)
    return UserSettings(
        tuple(_real_paths(path, "vaults.trusted", trusted)),
        dict(zip(named, _real_paths(path, "vaults.names", named.values()), strict=True)),
        tuple(file.pop("vaults.default", [], *_NAMES)),
        file.pop("embedder.model", "", *MODEL),
        file.pop("rerank.model", "", *MODEL),
        file.pop("mcp.tools", "", "a text", lambda value: isinstance(value, str)),
    )


def _real_paths(path: Path, name: str, folders: Iterable[str]) -> list[str]:
    """Return real paths of folders.

    Raises:
        UsageError: a path is not absolute.
    """
    paths = [expand_home(entry) for entry in folders]
    if not all(folder.is_absolute() for folder in paths):
        raise UsageError(f"{path}: {name} must hold absolute paths", "begin them with / or ~")
    return [os.path.realpath(folder) for folder in paths]


def file() -> Path:
    """Return the path of the settings file, whether it exists or not.

    Raises:
        StorageError: the user has no configuration folder.
        UsageError: that folder is inside a vault.
    """
    path = _settings_path()
    if path is None:
        raise StorageError(
            "There is no folder for your settings", "set MEMVAULT_CONFIG to a folder of yours"
        )
    _check_path(path)
    return path


def _settings_path() -> Path | None:
    """Return the real path of the settings file; following links is safe in the user's folder."""
    folder = user_folder("config")
    return None if folder is None else Path(os.path.realpath(folder / _FILE_NAME))


def _check_path(path: Path) -> None:
    above = enclosing_vault(path.parent)
    if above is not None:
        raise UsageError(
            f"Your settings {path} lie in the vault {above}, which may come from anyone",
            "set MEMVAULT_CONFIG to a folder outside of every vault",
        )
    if path.exists() and not only_user_can_write(path):
        raise UsageError(
            f"Others can write your settings {path}",
            f"chmod go-w {sanitize.quote_argument(str(path))}",
        )
