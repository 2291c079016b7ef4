"""The vault state that an import depends on, and the header keys of imported notes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from memvault.errors import MemvaultError
from memvault.files import plain_files
from memvault.importers.formats import FOLDER
from memvault.model import FileState
from memvault.named_tuple import NamedTuple
from memvault.store.memory_store import MemoryStore
from memvault.vault.document import etag
from memvault.vault.names import name_key
from memvault.vault.paths import is_memory

if TYPE_CHECKING:
    from memvault.index.protocol import MemoryRecord

KIND, ID, VERSION = "imported_from", "imported_id", "imported_version"
"""Header keys of an imported note: its format, its id in the source, and its version."""
_VERSION_LINE = f"\n{VERSION}: ".encode()
_MAX_HEADER = 256 * 1024


class Imported(NamedTuple):
    """An imported note in the vault.

    ``source_hash`` is the hash of the imported item; ``is_edited`` is true if the file has changed
    since the import.
    """

    path: str
    source_hash: str
    is_edited: bool


class VaultFiles:
    """Lookups of the vault's files for a plan."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def exists(self, path: str) -> bool:
        """Return whether there is a file, folder or link at a path."""
        return os.path.lexists(self._store.root / path)

    def has_content(self, path: str, data: bytes) -> bool:
        """Return whether a file has exactly these bytes."""
        with contextlib.suppress(OSError):
            file = self._store.root / path
            return file.lstat().st_size == len(data) and plain_files.read(file) == data
        return False

    def type_of(self, path: str, data: bytes) -> str:
        """Return the memory type of a file with these bytes at a path."""
        return self._store.parse(data, FileState.of(path, data)).memory_type

    def is_memory(self, path: str) -> bool:
        """Return whether a file at a path is a memory."""
        return is_memory(path, self._store.settings.exclusions)


class VaultState(NamedTuple):
    """The state of a vault that a plan depends on.

    ``imported`` maps ids in the source to the notes that the format imported. ``paths`` contains
    the paths of all memories, and ``ids`` maps their folded memory ids to these paths.
    ``imported_otherwise`` maps ids to the paths of notes that another format imported from the same
    files.
    """

    imported: Mapping[str, Imported]
    paths: Collection[str]
    files: VaultFiles
    imported_otherwise: Mapping[str, str] = MappingProxyType({})
    ids: Mapping[str, str] = MappingProxyType({})


def vault_state(
    store: MemoryStore, memories: Iterable[MemoryRecord], format_name: str
) -> VaultState:
    """Return the vault state for an import of a format, given the vault's memories."""
    imported: dict[str, Imported] = {}
    otherwise: dict[str, str] = {}
    paths: list[str] = []
    ids: dict[str, str] = {}
    for memory in memories:
        paths.append(memory.path)
        ids[name_key(memory.mem_id)] = memory.path
        key = memory.metadata.get(ID)
        origin = memory.metadata.get(KIND)
        if not isinstance(key, str):
            continue
        # Both formats use the file's path as the id.
        if origin != format_name and FOLDER in (origin, format_name):
            otherwise[key] = memory.path
        elif origin == format_name:
            with contextlib.suppress(MemvaultError):
                data, _ = store.read_bytes(memory.path)
                imported.setdefault(key, _imported(memory.path, data))
    return VaultState(imported, paths, VaultFiles(store), otherwise, ids)


def _imported(path: str, data: bytes) -> Imported:
    rest, version = _split_version(data)
    source_hash, _, file_hash = version.partition("-")
    return Imported(path, source_hash, etag(rest) != file_hash)


def with_version(data: bytes, source_hash: str) -> bytes:
    """Fill in a file's version line: the hashes of the imported item and of the file."""
    rest, version = _split_version(data)
    end = data.index(_VERSION_LINE) + len(_VERSION_LINE)
    return data[:end] + f"{source_hash}-{etag(rest)}".encode() + data[end + len(version) :]


def _split_version(data: bytes) -> tuple[bytes, str]:
    """Return a file's bytes without the version line, and the version, or "" if there is none."""
    start = data.find(_VERSION_LINE, 0, _MAX_HEADER)
    if start < 0:
        return data, ""
    end = data.find(b"\n", start + 1)
    end = len(data) if end < 0 else end
    version = data[start + len(_VERSION_LINE) : end].strip().decode("ascii", "replace")
    return data[:start] + data[end:], version
