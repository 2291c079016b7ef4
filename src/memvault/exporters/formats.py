"""The formats of an export, by name and by the ending of a file's name."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from memvault.errors import UsageError
from memvault.exporters.files import ExportedFiles


class ExportFormat(NamedTuple):
    """A format: its name, the endings of its files, none for a folder, and its module here."""

    name: str
    endings: tuple[str, ...]
    module: str

    def write(self, files: ExportedFiles, target: Path, replaces: bool) -> int:
        """Write the files, and return how many; an existing target is kept unless ``replaces``.

        Raises:
            Refused: the target exists.
            StorageError: it cannot be written.
        """
        module = import_module(f"memvault.exporters.{self.module}")
        written: int = module.write(files, target, replaces)
        return written


FORMATS = (
    ExportFormat("jsonl", (".jsonl", ".ndjson"), "jsonl"),
    ExportFormat("markdown", (".md", ".markdown"), "single_markdown"),
    ExportFormat("zip", (".zip",), "archive"),
    ExportFormat("site", (), "static_site"),
    ExportFormat("folder", (), "folder"),
)
NAMES = tuple(entry.name for entry in FORMATS)


def chosen(target: str, name: str) -> ExportFormat:
    """Return the format with a name, or else that of a file's ending; a folder has none.

    Raises:
        UsageError: there is none.
    """
    for entry in FORMATS:
        if entry.name == name if name else target.lower().endswith(entry.endings):
            return entry
    if not name and (target.endswith("/") or Path(target).is_dir() or not Path(target).suffix):
        return FORMATS[-1]
    problem = f"Unknown export format: {name!r}" if name else f"Cannot tell the format of {target}"
    raise UsageError(problem, f"pass `--to` with one of {', '.join(NAMES)}")
