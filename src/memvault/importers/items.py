"""The values that readers of a kind yield."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from memvault.vault import naming

_NOTHING: Mapping[str, Any] = MappingProxyType({})


class ImportedNote(NamedTuple):
    """A note to import.

    ``key`` is its id in the source, ``path`` its wished path below the target folder, ``text`` its
    markdown, ``header`` the keys for its header if the text has none of that name: ``title``,
    ``memory_type``, ``tags``, ``aliases``, ``created``, ``modified``, ``source`` for its address,
    and others. ``refs`` are the ids by which links name it. With ``masked``, secrets in it are
    masked before it is written.
    """

    key: str
    path: str
    text: str
    header: Mapping[str, Any] = _NOTHING
    refs: tuple[str, ...] = ()
    masked: bool = False


class StoredBytes:
    """The bytes of a file of the source; raises ``OSError`` if they cannot be read."""

    def __init__(self, read: Callable[[str], bytes], name: str) -> None:
        self._read = read
        self.name = name

    def __call__(self) -> bytes:
        """Read the file."""
        return self._read(self.name)


class GivenBytes:
    """Bytes that were part of another file of the source."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def __call__(self) -> bytes:
        """Return the bytes."""
        return self.data


class Attachment(NamedTuple):
    """A file to copy next to the notes; ``read`` returns its bytes and raises ``OSError``."""

    path: str
    read: Callable[[], bytes]
    refs: tuple[str, ...] = ()


class VaultFile(NamedTuple):
    """A file of another vault, which is copied to the same path as it is; as ``Attachment``."""

    path: str
    read: Callable[[], bytes]


class SkippedItem(NamedTuple):
    """A part of the source that is not imported, and the reason."""

    what: str
    reason: str


UNCLAIMED = "this kind does not read such files"
"""The reason of an ``SkippedItem`` that is a whole file."""


class ItemWarning(NamedTuple):
    """A part of the source that is imported in another form, or by a guess, and how."""

    what: str
    reason: str


class TypeCount(NamedTuple):
    """How many parts of a type a source has, and whether they are converted."""

    type_name: str
    number: int
    is_converted: bool


Item = ImportedNote | Attachment | VaultFile | SkippedItem | ItemWarning | TypeCount


def note_path(title: str, *folders: str) -> str:
    """Return the path of a note with a title, in folders with the given names."""
    return "/".join(
        [*(naming.file_name(name) for name in folders), f"{naming.file_name(title)}.md"]
    )
