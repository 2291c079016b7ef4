"""Find file problems without reading memories: oversized state files, unlistable folders."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from memvault.call import Call
from memvault.files import temporary_files, walk
from memvault.files.plain_files import MAX_STATE_BYTES

if TYPE_CHECKING:
    from memvault.results import FileProblem


def too_large(root: Path) -> list[FileProblem]:
    """Return the program's own state files that are too large to be read."""
    excluded = (root / ".memvault" / "history", root / ".memvault" / "trash")
    problem = f"larger than {MAX_STATE_BYTES >> 20} MB, so it is not read and will be replaced"
    return [
        {"filePath": path.relative_to(root).as_posix(), "problem": problem}
        for path, size in file_sizes(root / ".memvault")
        if path.suffix == ".json"
        and size > MAX_STATE_BYTES
        and not any(map(path.is_relative_to, excluded))
    ]


def unlisted(call: Call, folders: Iterable[str]) -> list[FileProblem]:
    """Return the folders that cannot be listed, so memories in them are not found."""
    return [
        {"filePath": walk.shown_path(folder), "problem": walk.listing_problem(call.root, folder)}
        for folder in sorted(folders)
    ]


def remove_temporary_files(call: Call) -> None:
    """Delete temporary files left by killed processes in the vault and its index folder."""
    for folder in (call.root, call.index.folder):
        if folder is not None:
            temporary_files.sweep_below(folder)


def file_sizes(folder: Path) -> Iterator[tuple[Path, int]]:
    """Yield the path and size in bytes of each file below a folder."""
    for parent, _, names in walk.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                path = Path(parent, name)
                yield path, path.lstat().st_size
