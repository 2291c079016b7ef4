"""Import of another vault: its folder, a zip of it, or what ``memvault export`` wrote.

Every file is copied as it is, to the path that it had; hidden ones are left out.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from functools import partial
from typing import Any

from memvault.files.user_folders import SETTINGS_FILE
from memvault.importers import json_source
from memvault.importers.items import Item, Unreadable, VaultFile
from memvault.importers.kinds import NO, OWN
from memvault.importers.source import MAX_FILE, Source

FORMAT = 1
"""The format of an export as JSON lines."""
FIRST_LINE = b'{"memvault": "export"'
"""How the first line of one begins."""
_MAX_LINE = 6 * MAX_FILE + (1 << 16)
"""Maximum length of a line: JSON needs up to six bytes for one."""


def recognise(source: Source) -> int:
    """Return ``OWN`` for a vault, or for JSON lines that begin as an export does."""
    return OWN if SETTINGS_FILE in source.name_set or _export(source) else NO


def _export(source: Source) -> str:
    """Return the name of the only file if it is an export; empty if not."""
    if len(source.names) == 1 and (name := source.names[0]).endswith((".jsonl", ".ndjson")):
        return name if source.head(name).startswith(FIRST_LINE) else ""
    return ""


def read(source: Source) -> Iterator[Item]:
    """Yield each file of the vault."""
    name = _export(source)
    if name:
        yield from _read_lines(source, name)
        return
    for path in source.names:
        if not any(part.startswith(".") for part in path.split("/")):
            yield VaultFile(path, partial(source.read, path))


def _read_lines(source: Source, name: str) -> Iterator[Item]:
    for number, entry in json_source.lines(source, name, _MAX_LINE):
        if isinstance(entry, str):
            yield Unreadable(f"{name}, line {number}", entry)
        elif number == 1:
            if entry.get("format") != FORMAT:
                reason = "written by a newer version; what is understood is read"
                yield Unreadable(f"{name}, line 1", reason)
        elif isinstance(path := entry.get("path"), str):
            yield VaultFile(path, partial(_content, entry))
        else:
            yield Unreadable(f"{name}, line {number}", "it has no path")


def _content(entry: dict[str, Any]) -> bytes:
    """Return the bytes of a file; raises ``OSError`` if they are not as an export writes them."""
    content, encoding = entry.get("content"), entry.get("encoding")
    if isinstance(content, str):
        try:
            if encoding == "base64":
                return base64.b64decode(content, validate=True)
            if encoding == "utf-8":
                return content.encode()
        except ValueError as error:
            raise OSError(str(error)) from error
    raise OSError(f"its encoding {json.dumps(encoding)} is not known")
