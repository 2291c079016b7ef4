"""Write exported files as JSON lines, a zip, a folder, or one markdown file.

Each function writes through ``files.target`` and returns the number of files; ``replaces`` allows
replacing the target. ``importers.memvault`` reads all of these formats except the markdown file.
"""

from __future__ import annotations

import base64
import json
import time
import zipfile
from pathlib import Path
from typing import Any

from memvault import clock
from memvault.exporters.files import ExportedFile, ExportedFiles
from memvault.files.target import target_file, target_files
from memvault.importers.memvault import FORMAT
from memvault.model import Memory
from memvault.vault.document import plain_text
from memvault.vault.markdown import first_heading, headings

_FIRST, _LAST = (1980, 1, 1, 0, 0, 0), (2107, 12, 31, 23, 59, 58)
"""The earliest and the latest time in a zip."""


def write_folder(files: ExportedFiles, target: Path, replaces: bool) -> int:
    """Write all files to a folder; other files in the folder remain."""
    written = 0
    with target_files(target, replaces) as folder:
        for file, data in files.contents():
            folder.write(file.path, data)
            written += 1
    return written


def write_zip(files: ExportedFiles, target: Path, replaces: bool) -> int:
    """Write all files to a zip; skip names that are not UTF-8."""
    written = 0
    with (
        target_file(target, replaces) as stream,
        zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive,
    ):
        for file, data in files.contents():
            try:
                file.path.encode()
            except UnicodeEncodeError:
                files.problems.append(f"{file.path} is skipped: its name is not UTF-8")
                continue
            changed = time.gmtime(file.file.lstat().st_mtime)[:6]
            about = zipfile.ZipInfo(file.path, min(max(changed, _FIRST), _LAST))
            about.compress_type = zipfile.ZIP_DEFLATED
            about.external_attr = 0o100600 << 16  # permissions of the unpacked file
            archive.writestr(about, data)
            written += 1
    return written


def write_jsonl(files: ExportedFiles, target: Path, replaces: bool) -> int:
    """Write a header line, then one line per file.

    A line has the ``path`` of a file, its ``encoding`` (``utf-8`` or ``base64``) and ``content``; a
    memory also has ``memId``, ``title``, ``memoryType``, ``tags``, ``created`` and ``modified``.
    """
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


def write_markdown(files: ExportedFiles, target: Path, replaces: bool) -> int:
    """Write the memories to one file in order of their paths, with a section for each."""
    written = 0
    with target_file(target, replaces) as stream:
        for file, data in files.contents():
            memory = files.memory(file, data)
            if memory is not None:
                stream.write((b"\n" if written else b"") + _section(memory))
                written += 1
    return written


def _section(memory: Memory) -> bytes:
    """Return a memory with its title as the top heading and its own headings one level lower."""
    parts = [memory.memory_type, *(f"#{tag}" for tag in memory.tags), clock.local(memory.modified)]
    about = f"*{memory.path} · {' · '.join(parts)}*"
    body = plain_text(memory.body)
    pieces, done = [], 0
    has_title = first_heading(body) == memory.title
    for start, end, level, title in headings(body):
        pieces.append(body[done:start])
        done = start
        if has_title and level == 1 and title == memory.title:
            done, has_title = end, False
        elif level < 6:
            pieces.append("#")
            done = start + len(body[start:end]) - len(body[start:end].lstrip(" "))
    text = "".join([*pieces, body[done:]]).strip("\n")
    return f"# {memory.title}\n\n{about}\n\n{text}\n".encode("utf-8", "replace")
