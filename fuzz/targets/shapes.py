"""Convert bytes to the targets' inputs, in formats that keep the corpus readable."""

from __future__ import annotations

import atexit
import contextlib
import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from memvault.settings import vault_settings
from memvault.store.memory_store import MemoryStore

HEADER_TOKENS = tuple(
    "---\n|\n|\r\n|\r|: |- |? |, |[|]|{|}|'|\"|#| #|&a |*a|!|!!int |!!str |<<: |%|@|`|||>|-|+|"
    "~|null|true|"
    "no|0.5|-1|1e5|9223372036854775808|title: |tags: [a, b]\n|id: m1\n|created: 2026-01-31\n|"
    "a:\n  - x\n|b: |\n  text\n|...\n|\\x00|\\u2028|\ufeff|\0|ä|\u0301|😀|<<<<<<< |=======\n|"
    ">>>>>>> ".split("|")
)
"""Pieces of headers."""

SETTINGS = "version = 1\n[embedder]\ndeep = 'off'\n[history]\nrevisions = 1\n"
"""The vault's settings; a long history would take a fifth of each change's time."""


def text_of(data: bytes) -> str:
    """Decode bytes like command-line arguments: invalid UTF-8 becomes surrogates."""
    return data.decode("utf-8", "surrogateescape")


def first_line(data: bytes) -> tuple[str, bytes]:
    """Return the first line as text, and the bytes after it."""
    line, _, rest = data.partition(b"\n")
    return text_of(line), rest


def value_of(text: str) -> Any:
    """Return the value that a text encodes; its first letter is the JSON type."""
    kind, told = text[:1], text[1:]
    if kind == "n":
        return None
    if kind == "b":
        return bool(told)
    if kind in ("i", "f"):
        number = int if kind == "i" else float
        with contextlib.suppress(ValueError):
            return number(told[:25])
    if kind == "l":
        return [value_of(part) for part in told.split("|")] if told else []
    if kind == "d":
        pairs = (part.partition("~") for part in told.split("|") if part)
        return {key: value_of(value) for key, _, value in pairs}
    return told


@cache
def folder() -> Path:
    """Create a vault's folder that exists as long as the process."""
    made = Path(tempfile.mkdtemp(prefix="memvault-fuzz-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    (made / "memvault.toml").write_text(SETTINGS, "utf-8")
    return made


@cache
def store() -> MemoryStore:
    """Return that vault's store."""
    return MemoryStore(folder(), vault_settings.load_settings(folder()))


@cache
def file_in(path: str) -> Callable[[bytes], Path]:
    """Return a function that writes bytes to a file of that vault."""
    file = folder() / path
    file.parent.mkdir(parents=True, exist_ok=True)

    def written(data: bytes) -> Path:
        file.write_bytes(data)
        return file

    return written
