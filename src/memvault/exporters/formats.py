"""The export formats, by name and by file extension."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from memvault.errors import UsageError, suggestion
from memvault.exporters.files import ExportedFiles
from memvault.named_tuple import NamedTuple


class ExportFormat(NamedTuple):
    """A format: its name, its file extensions (none for a folder), and its function."""

    name: str
    endings: tuple[str, ...]
    module: str
    function: str

    def write(self, files: ExportedFiles, target: Path, replaces: bool) -> int:
        """Export the files and return how many; ``replaces`` allows replacing the target.

        Raises:
            Refused: the target exists and must not be replaced.
            StorageError: the target cannot be written.
        """
        module = import_module(f"memvault.exporters.{self.module}")
        written: int = getattr(module, self.function)(files, target, replaces)
        return written


FORMATS = (
    ExportFormat("jsonl", (".jsonl", ".ndjson"), "writers", "write_jsonl"),
    ExportFormat("markdown", (".md", ".markdown"), "writers", "write_markdown"),
    ExportFormat("zip", (".zip",), "writers", "write_zip"),
    ExportFormat("site", (), "static_site", "write_site"),
    ExportFormat("folder", (), "writers", "write_folder"),
)
NAMES = tuple(entry.name for entry in FORMATS)


def chosen(target: str, name: str) -> ExportFormat:
    """Return the format with a name, or the format of a target's extension.

    Raises:
        UsageError: if there is no such format.
    """
    for entry in FORMATS:
        if entry.name == name if name else target.lower().endswith(entry.endings):
            return entry
    if not name and (target.endswith("/") or Path(target).is_dir() or not Path(target).suffix):
        return FORMATS[-1]
    problem = f"Unknown export format: {name!r}" if name else f"Cannot tell the format of {target}"
    hint = f"pass `--to` with one of {', '.join(NAMES)}"
    raise UsageError(problem, suggestion(name.lower(), NAMES, hint))
