"""Imported notes in the vault: the keys in their headers, and whether they were edited since."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from memvault.errors import MemvaultError
from memvault.files import plain_files
from memvault.importers.formats import FOLDER
from memvault.model import FileState
from memvault.store.memory_store import MemoryStore
from memvault.vault.document import etag
from memvault.vault.names import name_key
from memvault.vault.paths import is_memory, is_memory_path

if TYPE_CHECKING:
    from memvault.index.protocol import MemoryRecord

KIND, ID, VERSION = "imported_from", "imported_id", "imported_version"
"""The header keys of an imported note: its kind, its id there, and its ``version``."""
_VERSION_LINE = f"\n{VERSION}: ".encode()
_MAX_HEADER = 256 * 1024


class Imported(NamedTuple):
    """An imported note in the vault.

    ``source_hash`` is that of the item it was made of; ``is_edited`` is whether the file differs
    from what the import wrote.
    """

    path: str
    source_hash: str
    is_edited: bool


class VaultState(NamedTuple):
    """What a plan depends on: the imported notes of a kind by their ids, and the files.

    ``paths`` are those of all memories. ``is_taken`` returns whether a path has a file, ``holds``
    whether it has exactly these bytes, ``type_of`` the memory type that a file with some bytes has
    at a path, ``is_memory`` whether a file there is a memory. ``imported_otherwise`` maps the ids
    of notes that another kind imported from the same files to their paths, ``ids`` the ids of all
    memories, folded, to theirs.
    """

    imported: dict[str, Imported]
    paths: Collection[str]
    is_taken: Callable[[str], bool]
    holds: Callable[[str, bytes], bool]
    type_of: Callable[[str, bytes], str]
    is_memory: Callable[[str], bool] = is_memory_path
    imported_otherwise: Mapping[str, str] = MappingProxyType({})
    ids: Mapping[str, str] = MappingProxyType({})


def vault_state(store: MemoryStore, records: Iterable[MemoryRecord], kind: str) -> VaultState:
    """Return the state of a vault with some memories for an import of a kind."""
    imported: dict[str, Imported] = {}
    otherwise: dict[str, str] = {}
    every: list[str] = []
    ids: dict[str, str] = {}
    for record in records:
        every.append(record.path)
        ids[name_key(record.mem_id)] = record.path
        key = record.metadata.get(ID)
        other = record.metadata.get(KIND)
        if not isinstance(key, str):
            continue
        if other != kind and FOLDER in (other, kind):  # both use the path of the file as the id
            otherwise[key] = record.path
        elif other == kind:
            with contextlib.suppress(MemvaultError):
                data, _ = store.read_bytes(record.path)
                imported.setdefault(key, _imported(record.path, data))

    def holds(path: str, data: bytes) -> bool:
        with contextlib.suppress(OSError):
            file = store.root / path
            return file.lstat().st_size == len(data) and plain_files.read(file) == data
        return False

    def is_taken(path: str) -> bool:
        return os.path.lexists(store.root / path)

    def type_of(path: str, data: bytes) -> str:
        return store.parse(data, FileState.of(path, data)).memory_type

    def is_found(path: str) -> bool:
        return is_memory(path, store.settings.exclusions)

    return VaultState(imported, every, is_taken, holds, type_of, is_found, otherwise, ids)


def _imported(path: str, data: bytes) -> Imported:
    rest, version = _split_version(data)
    source_hash, _, file_hash = version.partition("-")
    return Imported(path, source_hash, etag(rest) != file_hash)


def with_version(data: bytes, source_hash: str) -> bytes:
    """Return a file's bytes, which have a version, with that of the item and of the file itself."""
    rest, version = _split_version(data)
    end = data.index(_VERSION_LINE) + len(_VERSION_LINE)
    return data[:end] + f"{source_hash}-{etag(rest)}".encode() + data[end + len(version) :]


def _split_version(data: bytes) -> tuple[bytes, str]:
    """Return a file's bytes without the line of its version, and the version; empty if missing."""
    start = data.find(_VERSION_LINE, 0, _MAX_HEADER)
    if start < 0:
        return data, ""
    end = data.find(b"\n", start + 1)
    end = len(data) if end < 0 else end
    version = data[start + len(_VERSION_LINE) : end].strip().decode("ascii", "replace")
    return data[:start] + data[end:], version
