"""Load the user's own settings from ``settings.toml`` in the user's configuration folder.

No vault can set them.
"""

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
    "a list of folders, absolute or starting with ~",
    _are_folders,
    lambda value: tuple(os.path.realpath(expand_home(entry)) for entry in value),
)
_NAMED_FOLDERS = ValueKind(
    "a folder for each name, absolute or starting with ~",
    lambda value: isinstance(value, dict) and _are_folders(list(value.values())),
    _real_paths,
)


class VaultLists(Section):
    """Vaults that you trust or have named, by real path."""

    trusted: Setting[tuple[str, ...]] = Setting(
        (), _FOLDERS, "see `memvault vaults trust`", ["/srv/notes"]
    )
    default: Setting[tuple[str, ...]] = Setting(
        (), _NAMES, "vaults that recall also searches", ["home"]
    )
    names: Setting[Mapping[str, str]] = Setting(
        MappingProxyType({}), _NAMED_FOLDERS, "see `memvault vaults add`", {"home": "/home/me/a"}
    )


class UserEmbedder(Section):
    """The transformer for vaults that do not set one."""

    model = Setting("", MODEL, "a folder or a fastembed model", "/home/me/models/bge")


class UserReranker(Section):
    """The cross-encoder for vaults that do not set one."""

    model = Setting("", MODEL, "a folder or a fastembed model", "/home/me/models/marco")


class UserTools(Section):
    """The tools of the MCP server for vaults that do not set them."""

    tools = Setting("", TOOLS, "profiles and tools", "core,talk")


class UserGit(Section):
    """Used only in vaults where you approved git."""

    dates = Setting(True, SWITCH, "false: do not date memories by commits")


class UserSettings(Section):
    """The user's settings; a model or tools that are not set are empty."""

    resident = Setting("auto", one_of("auto", "off"), "off: no resident process")
    start = Setting("help", one_of("help", "browse"), "command that runs by default")
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
    """Return the path of the settings file, which may not exist.

    Raises:
        StorageError: the user has no configuration folder.
        UsageError: the settings folder is inside a vault.
    """
    path = _settings_path()
    if path is None:
        raise StorageError(
            "Your home folder is unknown, so there is no folder for settings",
            "set MEMVAULT_CONFIG to a folder that you own",
        )
    _check_path(path)
    return path


def _settings_path() -> Path | None:
    """Return the real path of the settings file.

    Links are followed, which is safe in the user's own folder.
    """
    folder = user_folder("config")
    return None if folder is None else Path(os.path.realpath(folder / _FILE_NAME))


def _check_path(path: Path) -> None:
    above = enclosing_vault(path.parent)
    if above is not None:
        raise UsageError(
            f"Your settings file {path} is inside the vault {above}, which may be untrusted",
            "set MEMVAULT_CONFIG to a folder outside every vault",
        )
    if path.exists() and not only_user_can_write(path):
        raise UsageError(
            f"Other users can write to your settings file {path}",
            f"run `chmod go-w {sanitize.quote_argument(str(path))}`",
        )
