"""The process in the background that makes deep vectors: ``python -P -m memvault.index.follower``.

It gives way to everything else, says nothing, and ends after ten minutes, when
nothing is left to do, when the vault's settings change, when vault or index
goes away, and when somebody does the same in the foreground.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from pathlib import Path

from memvault.config import load_settings
from memvault.errors import MemvaultError
from memvault.index import following
from memvault.index.file_states import state_of
from memvault.index.opening import index_of
from memvault.index.place import DEEP, place_of
from memvault.user_folders import SETTINGS_FILE
from memvault.vault.lock import FileLock
from memvault.vault.store import Store

_LIFE = 600.0
_BEYOND = 60
"""Seconds after its life in which a batch may come to its end; then the system kills it."""
_MEMORY = 4 << 30
"""Bytes of memory of its own at most."""


def main(root: Path) -> None:
    """Embed what a vault lacks."""
    began = time.monotonic()
    _give_way()
    index_place = place_of(root)
    if index_place.folder is None:
        return
    settings = state_of(root / SETTINGS_FILE)
    index = index_of(Store(root, load_settings(root)), index_place, lambda *_: None)
    folder, model = index_place.folder / DEEP, index.deep.choice.name
    lock = FileLock(folder / following.FOLLOWING)
    if not lock.acquire(1.0):
        return

    def go_on() -> bool:
        return (
            time.monotonic() - began < _LIFE
            and lock.is_there
            and index.is_there
            and state_of(root / SETTINGS_FILE) == settings
            and not following.is_at_work(folder, following.FOREGROUND)
        )

    try:
        index.embed_deep(go_on)
    except (Exception, MemoryError) as error:
        said = error.message if isinstance(error, MemvaultError) else type(error).__name__
        if lock.is_there:
            following.failed(folder, model, said)


def _give_way() -> None:
    """Let go of what was inherited, go behind all others, and have an end in any case."""
    if os.name != "posix":
        return
    os.closerange(3, min(os.sysconf("SC_OPEN_MAX"), 65_536))
    os.nice(19)
    signal.alarm(int(_LIFE) + _BEYOND)
    import resource

    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, _MEMORY))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
