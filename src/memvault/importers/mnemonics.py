"""Import ``.mnemonics``, the memories of opencode-historian in a project.

They are markdown files in a folder per memory type, with memvault's header keys
(opencode-historian 1.0, docs/tools.md). Generated pages are skipped.
"""

from __future__ import annotations

from collections.abc import Iterator

from memvault.importers import folder
from memvault.importers.items import ImportedNote, Item
from memvault.importers.source import Source

_FOLDER = ".mnemonics"


def _paths(source: Source) -> dict[str, str]:
    """Return the names of files, keyed by their paths below ``.mnemonics``."""
    is_top = source.path.name == _FOLDER
    names_by_path = {}
    for name in source.with_endings(".md"):
        _, mark, below = f"/{name}".rpartition(f"/{_FOLDER}/")
        path = name if is_top and not mark else below if mark else ""
        if path and "/." not in f"/{path}":
            names_by_path[path] = name
    return names_by_path


def _memories(source: Source) -> dict[str, str]:
    """Return the files in folders of memory types; all other files are generated pages."""
    return {path: name for path, name in _paths(source).items() if "/" in path}


def claims(source: Source) -> list[str]:
    """Return the memories and the generated pages."""
    return list(_paths(source).values()) if _memories(source) else []


def read(source: Source) -> Iterator[Item]:
    """Yield each memory in the folder of its type."""
    for path, name in sorted(_memories(source).items()):
        item = folder.read_file(source, name)
        yield item._replace(key=path, path=path) if isinstance(item, ImportedNote) else item
