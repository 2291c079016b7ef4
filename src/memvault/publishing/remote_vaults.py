"""Registration of vaults that other machines have published to an engine.

A remote vault has a name, and a folder in the user's state folder that contains only settings: the
engine's address and the vault's id. In all other respects it works like any vault.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from memvault import named_vaults
from memvault.errors import Conflict, MemvaultError, NotFound, StorageError
from memvault.files import atomic
from memvault.files.user_folders import SETTINGS_FILE, user_folder
from memvault.index import delete_index
from memvault.index.folder import find_folder
from memvault.index.milvus import access
from memvault.index.milvus.publication import Publication
from memvault.publishing import publish
from memvault.settings import user_settings
from memvault.settings.vault_settings import EngineSettings, load_settings

_FOLDER = "sent"
_IDENTITY = ("engine", "uri", "collection", "vault")
"""The settings that identify a vault."""
_TOML = """version = 1

[index]
engine = "milvus"
uri = {uri}
collection = {collection}
vault = {vault}
patience = {patience}
sent = {sent}
"""


def is_address(text: str) -> bool:
    """Return whether a string is an engine's address or a milvus-lite file."""
    is_file = text.endswith(".db") and not (Path(text) / SETTINGS_FILE).exists()
    return "://" in text or is_file


def add(
    name: str, uri: str, collection: str, which: str, patience: float | None = None
) -> dict[str, Any]:
    """Register a remote vault under a name; return its description.

    ``which`` is the vault's id, or the name of its folder on the publishing machine; it may be
    empty if the engine has only one vault. ``patience`` is the engine's response time limit in
    seconds; None keeps the current one.

    Raises:
        UsageError: if the name or the address is invalid, or pymilvus is not installed.
        Conflict: if another vault has the name, or several vaults match.
        NotFound: if the engine has no such vault.
        EngineUnavailable: if the engine does not respond.
        EngineRefused: if the engine denies access, or its collections belong to another program.
    """
    named_vaults.check(name)
    options = {"collection": collection or None, "patience": patience}
    options = {key: value for key, value in options.items() if value is not None}
    shared = EngineSettings(engine="milvus", uri=uri, sent="?", **options)
    publish.validate_engine(shared)
    access.allow_token(uri, True)
    engine = access.engine_of(shared)
    try:
        publications = engine.publications()
    finally:
        engine.close()
    vault = _choose(publications, which)
    publication = publications[vault]
    shared = shared.replace(vault=vault, sent=_host(publication))
    root = _folder() / name
    settings = root / SETTINGS_FILE
    current = load_settings(root).index if settings.exists() else shared
    named = user_settings.load().vaults.names.get(name, str(root))
    is_same = all(getattr(current, key) == getattr(shared, key) for key in _IDENTITY)
    if named != str(root) or not is_same:
        raise Conflict(
            f"{name} is already the name of another vault",
            f"free it with `memvault vaults remove {name}`",
        )
    if patience is None:
        shared = shared.replace(patience=current.patience)
    text = _TOML.format(
        **{key: json.dumps(value, ensure_ascii=False) for key, value in shared.values().items()}
    )
    atomic.write(settings, text.encode(), private=True)
    access.grant(root, shared, "")
    named_vaults.add_vault(name, str(root))
    return {"name": name, "uri": uri, "vault": vault, **publication.about(), "host": shared.sent}


def forget(root: Path) -> bool:
    """Delete the folder and index of a remote vault; return whether it existed.

    A vault that still has a name is kept.
    """
    try:
        parent = _folder()
    except MemvaultError:  # there is no state folder, so nothing is registered
        return False
    if root.parent != parent or str(root) in user_settings.load().vaults.names.values():
        return False
    try:
        access.revoke(root, load_settings(root).index)
        index = find_folder(root)
    except MemvaultError:  # its settings are missing
        index = None
    with atomic.map_os_errors(root):
        if index is not None:
            delete_index(index)
        shutil.rmtree(root, ignore_errors=True)
    return True


def _choose(publications: Mapping[str, Publication], which: str) -> str:
    matching = [
        vault
        for vault, publication in publications.items()
        if not which or which in (vault, publication.name)
    ]
    if len(matching) == 1:
        return matching[0]
    choices = ", ".join(
        f"{publication.name} on {_host(publication)} ({vault})"
        for vault, publication in publications.items()
    )
    if not publications:
        raise NotFound("The engine has no vaults", "publish one with `memvault index push`")
    if not matching:
        raise NotFound(f"The engine has no vault {which!r}", f"it has {choices}")
    raise Conflict("The engine has several vaults", f"choose one with `--of`: {choices}")


def _host(publication: Publication) -> str:
    """Return the name of the publishing machine, limited to 100 printable ASCII characters."""
    printable = "".join(letter for letter in publication.host if " " <= letter <= "~")
    return printable.strip()[:100] or "another machine"


def _folder() -> Path:
    """Return the folder that contains the folders of remote vaults.

    Raises:
        StorageError: if the user has no state folder.
    """
    state = user_folder("state")
    if state is None:
        raise StorageError("There is no state folder", "set MEMVAULT_STATE to a folder")
    return state.resolve() / _FOLDER
