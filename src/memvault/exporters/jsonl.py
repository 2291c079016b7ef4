"""Export JSON lines: a header line, then one line per file.

A line has the ``path`` of a file, its ``encoding`` (``utf-8`` or ``base64``) and ``content``; a
memory also has ``memId``, ``title``, ``memoryType``, ``tags``, ``created`` and ``modified``.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from memvault.exporters.files import ExportedFile, ExportedFiles
from memvault.files.target import target_file
from memvault.importers.memvault import FORMAT


def write(files: ExportedFiles, target: Path, replaces: bool) -> int:
    """Write all files to one file, as ``ExportFormat.write``."""
    written = 0
    with target_file(target, replaces) as stream:
        stream.write(_line({"memvault": "export", "format": FORMAT}))
        for file, data in files.contents():
            stream.write(_line(_entry(files, file, data)))
            written += 1
    return written


def _line(entry: dict[str, Any]) -> bytes:
    # Paths that are not UTF-8 contain surrogates, which JSON must escape.
    return json.dumps(entry).encode() + b"\n"


def _entry(files: ExportedFiles, file: ExportedFile, data: bytes) -> dict[str, Any]:
    entry: dict[str, Any] = {"path": file.path}
    memory = files.memory(file, data)
    if memory is not None:
        entry |= {
            "memId": memory.mem_id,
            "title": memory.title,
            "memoryType": memory.memory_type,
            "tags": list(memory.tags),
            "created": memory.created,
            "modified": memory.modified,
        }
    try:
        return {**entry, "encoding": "utf-8", "content": data.decode()}
    except UnicodeDecodeError:
        return {**entry, "encoding": "base64", "content": base64.b64encode(data).decode()}
