"""The user's own settings, which no vault can set, in ``settings.toml`` in the user's folder."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from memvault import sanitize
from memvault.errors import StorageError, UsageError
from memvault.files.user_folders import (
    enclosing_vault,
    expand_home,
    only_user_can_write,
    user_folder,
)
from memvault.settings import table
from memvault.settings.table import (
    MODEL,
    SWITCH,
    TOOLS,
    Section,
    Setting,
    ValueKind,
    are_texts,
    one_of,
    texts,
)

_FILE_NAME = "settings.toml"


def _are_folders(value: Any) -> bool:
    return are_texts(value) and all(expand_home(entry).is_absolute() for entry in value)


def _real_paths(folders: Mapping[str, str]) -> dict[str, str]:
    return {name: os.path.realpath(expand_home(entry)) for name, entry in folders.items()}


_NAMES = texts("a list of names")
_FOLDERS = ValueKind(
    "a list of folders, as absolute paths or below ~",
    _are_folders,
    lambda value: tuple(os.path.realpath(expand_home(entry)) for entry in value),
)
_NAMED_FOLDERS = ValueKind(
    "a folder for each name, as absolute paths or below ~",
    lambda value: isinstance(value, dict) and _are_folders(list(value.values())),
    _real_paths,
)


class VaultLists(Section):
    """Vaults that you trust or named, by their real paths."""

    trusted: Setting[tuple[str, ...]] = Setting(
        (), _FOLDERS, "of other users; `memvault vaults trust` adds one", ["/srv/notes"]
    )
    default: Setting[tuple[str, ...]] = Setting(
        (), _NAMES, "asked by recall besides its own", ["home"]
    )
    names: Setting[Mapping[str, str]] = Setting(
        MappingProxyType({}),
        _NAMED_FOLDERS,
        "`memvault vaults add` adds one",
        {"home": "/home/me/a"},
    )


class UserEmbedder(Section):
    """For vaults that name no transformer."""

    model = Setting("", MODEL, "or a fastembed model", "/home/me/models/bge")


class UserReranker(Section):
    """For vaults that name no cross-encoder."""

    model = Setting("", MODEL, "or a fastembed model", "/home/me/models/marco")


class UserTools(Section):
    """For vaults that name no tools."""

    tools = Setting("", TOOLS, "profiles and tools", "core,talk")


class UserGit(Section):
    """Only in vaults where you approved git."""

    dates = Setting(True, SWITCH, "or false: no dates from commits")


class UserSettings(Section):
    """The user's settings; a model or tools that are not set are empty."""

    resident = Setting("auto", one_of("auto", "off"), "or off: no process stays")
    vaults = VaultLists()
    embedder = UserEmbedder()
    rerank = UserReranker()
    mcp = UserTools()
    git = UserGit()


def load() -> UserSettings:
    """Load the user's settings; the defaults if there is no file.

    Raises:
        UsageError: a setting is invalid, or another user could have written the file.
    """
    path = _settings_path()
    if path is None or not path.is_file():
        return UserSettings()
    _check_path(path)
    settings, *_ = table.load(path, UserSettings(), UsageError)
    return settings


def file() -> Path:
    """Return the path of the settings file, whether it exists or not.

    Raises:
        StorageError: the user has no configuration folder.
        UsageError: that folder is inside a vault.
    """
    path = _settings_path()
    if path is None:
        raise StorageError(
            "There is no folder for your settings", "set MEMVAULT_CONFIG to one of your folders"
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
            f"Your settings {path} are in the vault {above}, which may come from anyone",
            "set MEMVAULT_CONFIG to a folder outside of every vault",
        )
    if path.exists() and not only_user_can_write(path):
        raise UsageError(
            f"Others can write your settings {path}",
            f"chmod go-w {sanitize.quote_argument(str(path))}",
        )
