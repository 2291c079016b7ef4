"""Moves of a memory's file, completed after a kill."""

from __future__ import annotations

from typing import NamedTuple

MOVE_INTENT = ".memvault/moving.json"
"""The file that records the move of a memory until it is complete."""


class MoveIntent(NamedTuple):
    """A move of one file as recorded in ``MOVE_INTENT``: its old and new path and etag."""

    source: str
    before: str
    target: str
    after: str
