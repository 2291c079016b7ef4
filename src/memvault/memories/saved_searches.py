"""Save searches in ``memvault.toml``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memvault.errors import NotFound, UsageError, VaultUnreadable
from memvault.files import plain_files
from memvault.files.user_folders import SETTINGS_FILE
from memvault.lazy_pattern import lazy_pattern
from memvault.settings.toml_file import set_values
from memvault.store.change_set import FileRef
from memvault.store.memory_store import MemoryStore

_NAME = lazy_pattern(r"[^\W_][\w-]{0,59}")


def save(store: MemoryStore, name: str, search: Mapping[str, Any] | None) -> None:
    """Save a search under a name, or delete it if None, keeping the rest of the settings file.

    Raises:
        NotFound: the settings file is missing.
        UsageError: the name is invalid.
        VaultUnreadable: the settings file is invalid.
    """
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is not a valid search name", "use up to 60 letters, digits, - and _"
        )
    import tomlkit

    value: Any = search
    if search is not None:
        value = tomlkit.inline_table()
        value.update({key: entry for key, entry in search.items() if entry not in ("", [])})
    path = store.root / SETTINGS_FILE
    try:
        before = plain_files.read(path, plain_files.MAX_SETTING_BYTES)
        after = set_values(path, "searches", {name: value}, VaultUnreadable)
        store.changes.replace(SETTINGS_FILE, before, after, FileRef(SETTINGS_FILE, SETTINGS_FILE))
    except (FileNotFoundError, NotFound) as error:
        raise NotFound(f"{SETTINGS_FILE} no longer exists", "`memvault init`") from error
