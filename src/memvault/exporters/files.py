"""The files in a vault that are exported."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Collection, Iterator
from pathlib import Path

from memvault.files import plain_files
from memvault.files.user_folders import SETTINGS_FILE
from memvault.files.walk import walk
from memvault.model import FileState, Memory
from memvault.named_tuple import NamedTuple
from memvault.store.memory_store import MemoryStore
from memvault.vault import markdown, markdown_inline, paths
from memvault.vault.scan import file_state


class ExportedFile(NamedTuple):
    """A file to export: its path in the vault, and its absolute path."""

    path: str
    file: Path
    is_memory: bool


class ExportedFiles:
    """The visible files in a vault, in a stable order.

    ``chosen`` limits them to the memories at these paths, the files that they link to, and the
    settings. ``problems`` lists the skipped files with reasons.
    """

    def __init__(self, store: MemoryStore, chosen: Collection[str] | None = None) -> None:
        self._store = store
        self.problems: list[str] = []
        self.files = self._list()
        if chosen is not None:
            all_files, linked = self.files, self._linked(set(chosen))
            self.files = [
                file for file in all_files if file.path in linked or file.path == SETTINGS_FILE
            ]

    @property
    def root(self) -> Path:
        """The vault's folder."""
        return self._store.root

    def contents(self) -> Iterator[tuple[ExportedFile, bytes]]:
        """Yield each file with its bytes; an unreadable file becomes a problem."""
        for file in self.files:
            try:
                yield file, plain_files.read(file.file)
            except OSError as error:
                problem = f"{file.path} cannot be read: {error.strerror}"
                if problem not in self.problems:
                    self.problems.append(problem)

    def memory(self, file: ExportedFile, data: bytes) -> Memory | None:
        """Return the memory in a file; None if the file is not a memory."""
        if not file.is_memory:
            return None
        state = file_state(self._store.root, file.path) or FileState.of(file.path, data)
        return self._store.parse(data, state)

    def _list(self) -> list[ExportedFile]:
        root, files = self._store.root, []
        for folder, folders, names in walk(root, self._skip):
            below = os.path.relpath(folder, root).replace(os.sep, "/")
            prefix = "" if below == "." else f"{below}/"
            folders[:] = [name for name in folders if not name.startswith(".")]
            for name in names:
                if name.startswith("."):
                    continue
                file = Path(folder, name)
                if file.is_symlink() or not file.is_file():
                    self.problems.append(f"{prefix}{name} is a link or not a regular file")
                else:
                    path = f"{prefix}{name}"
                    is_memory = paths.is_memory(path, self._store.settings.exclusions)
                    files.append(ExportedFile(path, file, is_memory))
        return sorted(files)

    def _skip(self, error: OSError) -> None:
        self.problems.append(f"{error.filename} cannot be listed: {error.strerror}")

    def _linked(self, chosen: set[str]) -> set[str]:
        """Return the chosen paths, and the paths of the attachments that they link to."""
        others = {file.path for file in self.files if not file.is_memory}
        by_name: dict[str, list[str]] = {}
        for path in others:
            by_name.setdefault(posixpath.basename(path), []).append(path)
        paths_to_export = set(chosen)
        self.files = [file for file in self.files if file.path in chosen]
        for file, data in self.contents():
            for target in _targets(self.memory(file, data), file.path):
                names = by_name.get(posixpath.basename(target), [])
                paths_to_export |= {path for path in names if f"/{path}".endswith(f"/{target}")}
        return paths_to_export


def _targets(memory: Memory | None, path: str) -> Iterator[str]:
    for link in markdown.links(memory.body) if memory is not None else ():
        yield link.target.removeprefix("./")
        yield markdown_inline.path_beside(link.target, path)
