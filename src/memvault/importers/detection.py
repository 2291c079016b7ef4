"""Recognize a source's format, and report ambiguous sources."""

from __future__ import annotations

from contextlib import closing, suppress
from pathlib import Path

from memvault.errors import MemvaultError, UsageError
from memvault.importers import claims
from memvault.importers.formats import (
    FOLDER,
    FORMATS,
    LIST_HINT,
    Confidence,
    ImportFormat,
    find_format,
)
from memvault.importers.source import Source
from memvault.named_tuple import NamedTuple

_MAX_PARTS = 50
"""Maximum number of subfolders, and of files, that are recognized separately."""
_MIN_FILES = 3
"""Minimum number of files in a subfolder that is recognized separately."""


class Detection(NamedTuple):
    """The format of a source, how many notes it claims, and how many notes the source has."""

    format: ImportFormat
    covered: int
    total: int

    @property
    def is_partial(self) -> bool:
        """Return whether the format claims less than half of the notes."""
        return self.covered * 2 < self.total


def title_in_sentence(entry: ImportFormat) -> str:
    """Return the title of a format for use within a sentence."""
    article, _, rest = entry.title.partition(" ")
    return f"{article.lower()} {rest}" if article in ("A", "The", "Another") else entry.title


def import_command(path: Path, entry: ImportFormat | None = None) -> str:
    """Return the command that imports a source, in backticks, with the format if given."""
    import shlex

    option = f" --from {entry.name}" if entry is not None else ""
    return f"`memvault import {shlex.quote(str(path))}{option}`"


def detect(source: Source) -> Detection:
    """Return the format of a source, and how much of it the format claims.

    Everything counts as claimed unless the source could also be a folder of markdown.

    Raises:
        UsageError: if no format fits, or several do.
    """
    best = detect_format(source)
    claimed = best.claims(source)
    if best.name == FOLDER:
        exports = _exports_in(source)
        if any(export.is_dir() for export in exports):
            raise _several_exports(source, exports)
    elif find_format(FOLDER).recognize(source):
        detection = Detection(best, *claims.coverage(source, claimed))
        if detection.is_partial and len(exports := _exports_in(source)) > 1:
            raise _several_exports(source, exports)
        return detection
    return Detection(best, len(claimed), len(claimed))


def detect_format(source: Source) -> ImportFormat:
    """Return a source's format.

    Raises:
        UsageError: if no format fits, or several do.
    """
    if not source.names and source.skipped:
        name, reason = source.skipped[0]
        raise UsageError(f"Nothing in {source.path} can be read: {name}: {reason}", LIST_HINT)
    confidences = {entry: entry.recognize(source) for entry in FORMATS}
    best = max(confidences.values())
    fitting = [entry for entry, confidence in confidences.items() if confidence == best]
    if best == Confidence.NO:
        raise UsageError(f"Cannot tell what {source.path} is an export of", LIST_HINT)
    if len(fitting) > 1:
        exports = _exports_in(source)
        if len(exports) > len(fitting) or any(export.is_dir() for export in exports):
            raise _several_exports(source, exports)
        names = " or ".join(entry.name for entry in fitting)
        commands = " and ".join(import_command(source.path, entry) for entry in fitting)
        raise UsageError(f"{source.path} may be {names}", f"run {commands}; each imports a part")
    return fitting[0]


def _exports_in(source: Source) -> list[Path]:
    """Return the subfolders and files in a folder, each of which is the export of one program.

    At least three files in such a subfolder, and most of its files, belong to the program.
    """
    from memvault.importers.archives import open_source

    if not source.path.is_dir():
        return []
    exports: list[Path] = []
    folders = {name.partition("/")[0] for name in source.visible if "/" in name}
    names = {name for name in source.visible if "/" not in name and not claims.is_text(name)}
    for name in sorted(folders)[:_MAX_PARTS] + sorted(names)[:_MAX_PARTS]:
        with suppress(MemvaultError), closing(open_source(str(source.path / name))) as part:
            sure = [entry for entry in FORMATS if entry.recognize(part) == Confidence.SURE]
            claimed = len(sure[0].claims(part)) if len(sure) == 1 else 0
            if claimed >= (_MIN_FILES if name in folders else 1) and claimed * 2 >= len(part.names):
                exports.append(source.path / name)
    return exports


def _several_exports(source: Source, exports: list[Path]) -> UsageError:
    """Return the error for a folder that contains exports from several programs."""
    commands = [import_command(export) for export in exports]
    listed = " and ".join(filter(None, (", ".join(commands[:-1]), commands[-1])))
    everything = import_command(source.path, find_format(FOLDER))
    return UsageError(
        f"{source.path} contains exports from other programs",
        f"{listed} {'import' if commands[1:] else 'imports'} them; "
        f"{everything} imports everything as a folder of markdown",
    )
