"""Import another vault: its folder, a zip of it, or its export as JSON lines.

Each visible file is copied unchanged to the same path.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator
from typing import Any

from memvault.files.user_folders import SETTINGS_FILE
from memvault.importers import json_source, records
from memvault.importers.formats import Confidence
from memvault.importers.items import GivenBytes, Item, SkippedItem, StoredBytes, VaultFile
from memvault.importers.source import MAX_FILE, Source

FORMAT = 1
"""The version of the export format."""
FIRST_LINE = b'{"memvault": "export"'
"""The start of an export."""
_MAX_LINE = 6 * MAX_FILE + (1 << 16)
"""Maximum length of a line; JSON may encode one byte as six."""


def recognize(source: Source) -> Confidence:
    """Return ``OWN`` for a vault or its export."""
    return Confidence.OWN if SETTINGS_FILE in source.name_set or _export(source) else Confidence.NO


def _export(source: Source) -> str:
    """Return the export's name; empty if the source is not one."""
    if len(source.names) == 1 and (name := source.names[0]).endswith((".jsonl", ".ndjson")):
        return name if source.head(name).startswith(FIRST_LINE) else ""
    return ""


def claims(source: Source) -> list[str]:
    """Return the export, or all visible files."""
    return [name] if (name := _export(source)) else source.visible


def read(source: Source) -> Iterator[Item]:
    """Yield each file in the vault."""
    name = _export(source)
    if name:
        yield from _read_lines(source, name)
        return
    for path in claims(source):
        yield VaultFile(path, StoredBytes(source.read, path))


def _read_lines(source: Source, name: str) -> Iterator[Item]:
    for number, line in enumerate(json_source.json_lines(source, name, _MAX_LINE)):
        if isinstance(line, SkippedItem):
            yield line
        elif number == 0:
            if line[1].get("format") != FORMAT:
                reason = "written by a newer version; only known entries are read"
                yield SkippedItem(line[0], reason)
        elif isinstance(path := line[1].get("path"), str):
            yield from records.convert_record(path, _file, path, line[1])
        else:
            yield SkippedItem(line[0], "has no path")


def _file(path: str, entry: dict[str, Any]) -> VaultFile:
    """Return a file; raises ``ValueError`` for an invalid entry."""
    content, encoding = entry.get("content"), entry.get("encoding")
    if isinstance(content, str) and encoding == "base64":
        try:
            return VaultFile(path, GivenBytes(base64.b64decode(content, validate=True)))
        except binascii.Error as error:
            raise ValueError(str(error)) from error
    if isinstance(content, str) and encoding == "utf-8":
        return VaultFile(path, GivenBytes(content.encode()))
    raise ValueError(f"unknown encoding {json.dumps(encoding)[:50]}")
