"""A change that moves its file: noted before it begins, so that a killed one can be finished.

A move writes the new file and then takes the old one away. A process killed in
between leaves both. The note says which two they were, and with which bytes:
only exactly those are believed to be one memory, never a copy that somebody made.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from memvault import plain_files
from memvault.errors import MemvaultError
from memvault.vault import atomic, codec, layout

FILE = ".memvault/moving.json"


class MoveIntent(NamedTuple):
    """One file's move: its path and etag before, and after."""

    source: str
    before: str
    target: str
    after: str


def write_intent(root: Path, move: MoveIntent) -> None:
    """Note what is about to be done; the caller holds the vault lock."""
    atomic.write(root / FILE, json.dumps(move._asdict()).encode())


def clear_intent(root: Path) -> None:
    """Take the note away; one that stays is believed no more than its etags are right."""
    with contextlib.suppress(OSError):
        (root / FILE).unlink(missing_ok=True)


def interrupted_move(root: Path) -> str | None:
    """Return the old file of a move that wrote the new one, where both are as noted."""
    try:
        move = MoveIntent(**json.loads(plain_files.read(root / FILE, 64 * 1024)))
        paths = (move.source, move.target)
        if not all(layout.is_memory_path(path) for path in paths) or move.source == move.target:
            return None
        for path, etag in ((move.source, move.before), (move.target, move.after)):
            if PurePosixPath(path).is_absolute():
                return None
            layout.require_plain_folders(root, PurePosixPath(path).parent.as_posix())
            if codec.etag(plain_files.read(root / path)) != etag:
                return None
    except (OSError, ValueError, TypeError, AttributeError, RecursionError, MemvaultError):
        return None
    return move.source
