"""The vaults of other users that this one uses without naming them."""

from __future__ import annotations

import os

from memvault import user_settings
from memvault.errors import NotFound, UsageError
from memvault.locate import find_vault
from memvault.upkeep.own_settings import locked_settings, save
from memvault.user_folders import expand_home


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
