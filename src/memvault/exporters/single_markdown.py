"""Export all memories as one markdown file, with a section for each."""

from __future__ import annotations

from pathlib import Path

from memvault import clock
from memvault.exporters.files import ExportedFiles
from memvault.files.target import target_file
from memvault.model import Memory
from memvault.vault.document import plain_text
from memvault.vault.markdown import first_heading, headings


def write(files: ExportedFiles, target: Path, replaces: bool) -> int:
    """Write the memories in order of their paths, as ``ExportFormat.write``."""
    written = 0
    with target_file(target, replaces) as stream:
        for file, data in files.contents():
            memory = files.memory(file, data)
            if memory is not None:
                stream.write((b"\n" if written else b"") + _section(memory))
                written += 1
    return written


def _section(memory: Memory) -> bytes:
    """Return a memory below its title, with its headings one level lower."""
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
