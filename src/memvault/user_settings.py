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
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from memvault import visible
from memvault.errors import StorageError, UsageError
from memvault.plain_files import SETTING, read
from memvault.user_folders import config_folder, home_expanded, is_own_alone, vault_above

__all__ = ["FILE", "UserSettings", "file", "load"]

FILE = "settings.toml"


class UserSettings(NamedTuple):
    """``trusted`` are real paths of vaults; a model that is not named is empty."""

    trusted: tuple[str, ...] = ()
    embedder: str = ""
    reranker: str = ""


def load(environ: Mapping[str, str] = os.environ) -> UserSettings:
    """Read the user's own settings; none are no error.

    Raises:
        UsageError: they make no sense, or may be somebody else's.
    """
    import tomllib

    path = _place(environ)
    if path is None or not path.is_file():
        return UserSettings()
    _check_place(path)
    try:
        table = tomllib.loads(read(path, SETTING).decode("utf-8-sig"))
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read: {error.strerror}", "check its permissions"
        ) from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is not valid TOML: {error}", "correct the line") from error
    trusted = _section(table, "vaults", path).get("trusted", [])
    if not isinstance(trusted, list) or not all(isinstance(entry, str) for entry in trusted):
        raise UsageError(f"{path}: vaults.trusted must be a list of folders", "correct the line")
    folders = [home_expanded(entry) for entry in trusted]
    if not all(folder.is_absolute() for folder in folders):
        raise UsageError(
            f"{path}: vaults.trusted must hold absolute paths", "begin them with / or ~"
        )
    return UserSettings(
        tuple(os.path.realpath(folder) for folder in folders),
        _model(table, "embedder", path),
        _model(table, "rerank", path),
    )


def file(environ: Mapping[str, str] = os.environ) -> Path:
    """Return where the settings lie, or would.

    Raises:
        StorageError: the user has no folder for them.
        UsageError: that folder lies in a vault.
    """
    path = _place(environ)
    if path is None:
        raise StorageError(
            "There is no folder for your settings", "set MEMVAULT_CONFIG to a folder of yours"
        )
    _check_place(path)
    return path


def _place(environ: Mapping[str, str]) -> Path | None:
    """Return where the settings lie, a link to them followed: it is the user's own."""
    folder = config_folder(environ)
    return None if folder is None else Path(os.path.realpath(folder / FILE))


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


def _section(table: Mapping[str, Any], name: str, path: Path) -> Mapping[str, Any]:
    value = table.get(name, {})
    if not isinstance(value, dict):
        raise UsageError(f"{path}: {name} must be a [{name}] table", "correct the line")
    return value


def _model(table: Mapping[str, Any], section: str, path: Path) -> str:
    value = _section(table, section, path).get("model", "")
    if not isinstance(value, str):
        raise UsageError(f"{path}: {section}.model must be a name or a folder", "correct the line")
    return value
