"""Export of all memories as one markdown file, a section for each."""

from __future__ import annotations

from pathlib import Path

from memvault import clock
from memvault.exporters.files import ExportedFiles
from memvault.files import atomic
from memvault.model import Memory
from memvault.vault.document import plain_text
from memvault.vault.markdown import first_heading, headings


def write(files: ExportedFiles, target: Path, replaces: bool) -> int:
    """Write the memories by their paths, and return how many; as ``ExportFormat.write``."""
    written = 0
    with atomic.streamed(target, replaces) as stream:
        for file, data in files.contents():
            memory = files.memory(file, data)
            if memory is not None:
                stream.write((b"\n" if written else b"") + _section(memory))
                written += 1
    return written


def _section(memory: Memory) -> bytes:
    """Return a memory below its title, with its own headings one level lower."""
    parts = [memory.memory_type, *(f"#{tag}" for tag in memory.tags), clock.local(memory.modified)]
    about = f"*{memory.path} · {' · '.join(parts)}*"
    body = plain_text(memory.body)
    text = body
    for start, end, level, title in reversed(list(headings(body))):
        if level == 1 and title == first_heading(body) == memory.title:
            text = text[:start] + text[end:]
        elif level < 6:
            text = f"{text[:start]}#{text[start:].lstrip(' ')}"
    text = text.strip("\n")
    return f"# {memory.title}\n\n{about}\n\n{text}\n".encode("utf-8", "replace")
