"""What is fuzzed, one module for each thing.

``check(data)`` says what holds for any bytes, with plain assertions; every
other exception is a finding as well. ``TOKENS`` are words that such a thing
knows, for fuzzers to begin with.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

CORPUS = Path(__file__).resolve().parents[1] / "corpus"
NAMES = (
    "headers",
    "edits",
    "filters",
    "queries",
    "schedules",
    "dates",
    "worded_dates",
    "arguments",
    "door",
    "letters",
    "plans",
    "tool_files",
    "gateway",
    "messages",
    "pages",
)
"""The modules of this package, the quick and the slow."""


class Target(NamedTuple):
    """One thing that is fuzzed."""

    name: str
    check: Callable[[bytes], None]
    tokens: tuple[str, ...]

    @property
    def corpus(self) -> Path:
        """The folder of the inputs that are kept of it."""
        return CORPUS / self.name


def target(name: str) -> Target:
    """Return a target by its name."""
    module = import_module(f"targets.{name}")
    return Target(name, module.check, tuple(module.TOKENS))
