"""The fuzz targets, one module each.

``check(data)`` asserts what must hold for arbitrary bytes; every other exception is a finding as
well. ``TOKENS`` are keywords of the input format, for fuzzers to start with.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

CORPUS = Path(__file__).resolve().parents[1] / "corpus"
MODULES = (
    "headers",
    "edits",
    "filters",
    "queries",
    "schedules",
    "dates",
    "worded_dates",
    "arguments",
    "door",
    "inbox_files",
    "plans",
    "tool_files",
    "requests",
    "gateway",
    "messages",
    "pages",
)
"""The modules of this package with one target, the quick and the slow."""
KINDS = (
    *("memvault", "folder", "mnemonics", "basic-memory", "mcp-memory", "mem0", "agent-zero"),
    *("claude-memory", "claude", "chatgpt", "claude-code", "codex", "opencode", "gemini", "notion"),
    *("evernote", "keep", "apple-notes", "bookmarks", "logseq", "dendron", "roam", "zotero"),
    *("joplin", "simplenote", "standard-notes", "textbundle", "word"),
)
"""The source kinds; each is a target of the module ``imports``."""
IMPORT = "import-"
NAMES = (*MODULES, *(f"{IMPORT}{kind}" for kind in KINDS))
"""All targets."""


class Target(NamedTuple):
    """A fuzz target."""

    name: str
    check: Callable[[bytes], None]
    tokens: tuple[str, ...]

    @property
    def corpus(self) -> Path:
        """Return the folder of its stored inputs."""
        return CORPUS / self.name


def target(name: str) -> Target:
    """Return a target by its name."""
    if name.startswith(IMPORT):
        module = import_module("targets.imports")
        check = partial(module.check_kind, name.removeprefix(IMPORT))
        return Target(name, check, tuple(module.TOKENS))
    module = import_module(f"targets.{name}")
    return Target(name, module.check, tuple(module.TOKENS))
