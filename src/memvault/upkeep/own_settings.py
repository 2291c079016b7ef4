"""Writing the user's own settings: one of them changed, all else kept."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from memvault import user_settings
from memvault.errors import StorageError, UsageError
from memvault.settings_file import set_value
from memvault.user_settings import UserSettings
from memvault.vault import atomic
from memvault.vault.lock import FileLock


@contextlib.contextmanager
def locked_settings() -> Iterator[UserSettings]:
    """Give the settings as they are, which nobody else changes until the block ends.

    Raises:
        TimedOut: somebody else does, for long.
        StorageError: nothing can be written there.
        UsageError: they make no sense.
    """
    path = user_settings.file()
    with atomic.map_os_errors(path.parent):
        path.parent.mkdir(0o700, parents=True, exist_ok=True)
    with FileLock(path.with_name("settings.lock")):
        yield user_settings.load()


def save(section: str, key: str, value: Any) -> None:
    """Write one setting into the user's own file, while ``changing`` it.

    Raises:
        StorageError: it cannot be written.
        UsageError: it is there and makes no sense.
    """
    path = user_settings.file()
    data = set_value(path, section, key, value, UsageError)
    try:
        atomic.write(path, data, private=True)
    except StorageError as error:
        hint = "MEMVAULT_CONFIG names another folder for your settings"
        raise StorageError(error.message, hint) from error
