"""Vaults that other machines have sent to an engine, each with a name and a folder here.

The folder lies in the user's state folder and holds settings alone: where the engine is, and
which of its vaults is meant. All else is as for any vault.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from memvault.engine import publish
from memvault.errors import Conflict, MemvaultError, NotFound, StorageError
from memvault.files import atomic
from memvault.files.user_folders import SETTINGS_FILE, user_folder
from memvault.index import factory
from memvault.index.folder import DEEP, find_folder
from memvault.index.local import embedding_lock
from memvault.index.milvus.publication import Publication
from memvault.settings import user_settings, vaults
from memvault.settings.vault_settings import EngineSettings, load_settings

_FOLDER = "sent"
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
    """Say whether a text names an engine: an address, or a file of milvus-lite's."""
    is_file = text.endswith(".db") and not (Path(text) / SETTINGS_FILE).exists()
    return "://" in text or is_file


def add(
    name: str, uri: str, collection: str, which: str, patience: float | None = None
) -> dict[str, Any]:
    """Name a vault that another machine has sent; say which one it is.

    ``which`` is the vault's id, or its folder's name there; it may be empty where the engine
    holds one vault only. ``patience`` are the seconds that the engine has for an answer,
    where not those that it had.

    Raises:
        UsageError: the name or the address cannot be one, or Milvus's client is missing.
        Conflict: another vault has the name, or several vaults may be meant.
        NotFound: the engine holds no such vault.
        EngineAway: it does not answer.
        EngineRefused: it does not let us in, or holds nothing of memvault's.
    """
    vaults.check(name)
    usual = EngineSettings()
    seconds = usual.patience if patience is None else patience
    shared = EngineSettings(
        "milvus", uri, collection or usual.collection, patience=seconds, sent="?"
    )
    publish.validate_engine(shared)
    factory.allow_token(uri, True)
    engine = factory.engine_of(shared)
    try:
        cards = engine.cards()
    finally:
        engine.close()
    vault = _chosen(cards, which)
    card = cards[vault]
    shared = shared._replace(vault=vault, sent=_host(card))
    root = _folder() / name
    settings = root / SETTINGS_FILE
    known = load_settings(root).shared if settings.exists() else shared
    named = user_settings.load().vaults.get(name, str(root))
    if named != str(root) or known[:4] != shared[:4]:
        raise Conflict(
            f"{name} is the name of another vault", f"memvault vaults remove {name} frees it"
        )
    if patience is None:
        shared = shared._replace(patience=known.patience)
    text = _TOML.format(
        **{key: json.dumps(value, ensure_ascii=False) for key, value in shared._asdict().items()}
    )
    atomic.write(settings, text.encode(), private=True)
    factory.grant(root, shared, "")
    vaults.add_vault(name, str(root))
    return {"name": name, "uri": uri, "vault": vault, **card.about(), "host": shared.sent}


def forget(root: Path) -> bool:
    """Delete what is kept here of a vault that another machine has sent; else say no.

    It stays as long as it has a name.
    """
    try:
        own = _folder()
    except MemvaultError:  # there is none, so nothing is kept
        return False
    if root.parent != own or str(root) in user_settings.load().vaults.values():
        return False
    try:
        factory.revoke(root, load_settings(root).shared)
        index = find_folder(root)
    except MemvaultError:  # its settings are gone
        index = None
    deep = index / DEEP if index is not None else None
    with (
        atomic.map_os_errors(root),
        embedding_lock.foreground(deep),
    ):  # whose process in the background ends
        for folder in filter(None, (index, root)):
            shutil.rmtree(folder, ignore_errors=True)
    return True


def _chosen(cards: Mapping[str, Publication], which: str) -> str:
    fitting = [vault for vault, card in cards.items() if not which or which in (vault, card.name)]
    if len(fitting) == 1:
        return fitting[0]
    told = ", ".join(f"{card.name} of {_host(card)} ({vault})" for vault, card in cards.items())
    if not cards:
        raise NotFound("The engine holds no vault", "memvault index push sends one there")
    if not fitting:
        raise NotFound(f"The engine holds no vault {which!r}", f"it holds {told}")
    raise Conflict("The engine holds several vaults", f"name one with --of: {told}")


def _host(card: Publication) -> str:
    """Return the name of the machine that sent a vault, in letters that any file can keep."""
    said = "".join(letter for letter in card.host if " " <= letter <= "~")
    return said.strip()[:100] or "another machine"


def _folder() -> Path:
    """Return where the folders lie.

    Raises:
        StorageError: the user has none.
    """
    state = user_folder("state")
    if state is None:
        raise StorageError("There is no folder to keep it in", "set MEMVAULT_STATE to one")
    return state.resolve() / _FOLDER
