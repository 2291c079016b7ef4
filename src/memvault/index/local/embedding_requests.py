"""The passages that searches would have compared by transformer vectors, had they been computed.

The background process (``background_embedding``) computes those first. A file in the folder of the
transformer vectors stores the hashes of their texts, with the times of the searches.
"""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

import numpy as np

from memvault.files import atomic
from memvault.files.plain_files import SETTING, FileStamp, read, state_of
from memvault.index.embedding.arrays import Hashes

_FILE = "requests.u64"
_MAX_REQUESTS = 2_000


def request(folder: Path, hashes: Hashes) -> None:
    """Add passages, which are then the first; ignore failures, as only the order depends on it.

    Of two processes that add some at the same time, one may have no effect.
    """
    known = requested(folder)
    for text_hash in hashes.tolist():
        known.pop(text_hash, None)
    now = time.time_ns()
    rows = [(text_hash, now) for text_hash in hashes.tolist()] + list(known.items())
    data = np.array(rows[:_MAX_REQUESTS], "<u8").tobytes()
    with atomic.best_effort():
        atomic.write(folder / _FILE, data, durable=False, makes_folder=False)


def requested(folder: Path) -> dict[int, int]:
    """Return the hash of each passage with the time of its last request in nanoseconds."""
    try:
        rows = np.frombuffer(read(folder / _FILE, SETTING), "<u8").reshape(-1, 2)
    except (OSError, ValueError):
        return {}
    return {int(text_hash): int(moment) for text_hash, moment in rows}


def stamp(folder: Path) -> FileStamp | None:
    """Return the state of the file, which changes with every request; None without any."""
    return state_of(folder / _FILE)


def clear(folder: Path) -> None:
    """Forget all requests."""
    with contextlib.suppress(OSError):
        (folder / _FILE).unlink(missing_ok=True)
