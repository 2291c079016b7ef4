"""The values that format readers yield."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from memvault.named_tuple import NamedTuple
from memvault.vault import naming

_NOTHING: Mapping[str, Any] = MappingProxyType({})


class ImportedNote(NamedTuple):
    """A note to import.

    ``key`` is its id in the source, ``path`` is the desired path in the target folder, and ``text``
    is its markdown. ``header`` has the header keys to add if the text lacks them: ``title``,
    ``memory_type``, ``tags``, ``aliases``, ``created``, ``modified``, ``source`` (a URL), and
    others. ``refs`` contains the ids that links use. ``masked`` masks secrets before writing.
    """

    key: str
    path: str
    text: str
    header: Mapping[str, Any] = _NOTHING
    refs: tuple[str, ...] = ()
    masked: bool = False


class StoredBytes:
    """A function that reads a file in the source on demand; raises ``OSError``."""

    def __init__(self, read: Callable[[str], bytes], name: str) -> None:
        self._read = read
        self.name = name

    def __call__(self) -> bytes:
        """Read the file."""
        return self._read(self.name)


class GivenBytes:
    """Bytes that were stored inside another file in the source."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def __call__(self) -> bytes:
        """Return the bytes."""
        return self.data


class Attachment(NamedTuple):
    """A file to copy; ``read`` returns its bytes or raises ``OSError``."""

    path: str
    read: Callable[[], bytes]
    refs: tuple[str, ...] = ()


class VaultFile(NamedTuple):
    """A file from another vault, which is copied unchanged to the same path."""

    path: str
    read: Callable[[], bytes]


class SkippedItem(NamedTuple):
    """A part of the source that is not imported, with the reason."""

    what: str
    reason: str


UNCLAIMED = "this format does not read the file"
"""The reason in a ``SkippedItem`` for a file that the format does not read."""


class ItemWarning(NamedTuple):
    """An imported part of the source that was changed or guessed, with the reason."""

    what: str
    reason: str


class TypeCount(NamedTuple):
    """The number of parts of one type in a source that were converted or omitted."""

    type_name: str
    number: int
    is_converted: bool


Item = ImportedNote | Attachment | VaultFile | SkippedItem | ItemWarning | TypeCount


def note_path(title: str, *folders: str) -> str:
    """Return the path of a note with a title, in the given folders."""
    return "/".join(
        [*(naming.file_name(name) for name in folders), f"{naming.file_name(title)}.md"]
    )
