"""Import of a folder of markdown files, with the files that they embed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from memvault.importers import convert, records
from memvault.importers.formats import Confidence
from memvault.importers.items import (
    Attachment,
    ImportedNote,
    Item,
    ItemWarning,
    SkippedItem,
    StoredBytes,
)
from memvault.importers.source import MAX_FILE, Source
from memvault.vault import document

_NOTES = (".md", ".markdown")


def recognize(source: Source) -> Confidence:
    """Return ``POSSIBLE`` if there is a markdown file."""
    return Confidence.POSSIBLE if source.named(*_NOTES) else Confidence.NO


def claims(source: Source) -> list[str]:
    """Return all files except hidden ones and those in hidden folders, such as settings."""
    return source.visible


def read(source: Source) -> Iterator[Item]:
    """Yield each markdown file as a note, and each other file as an attachment."""
    yield from items(source, claims(source))


def items(source: Source, names: Iterable[str]) -> Iterator[Item]:
    """Yield the items of some files of a source, as ``read`` does for all."""
    for name in names:
        yield read_file(source, name) if name.lower().endswith(_NOTES) else attachment(source, name)


def attachment(source: Source, name: str) -> Attachment | SkippedItem:
    """Return a file of a source as an attachment, or why it cannot be one."""
    try:
        size = source.size(name)
    except (OSError, ValueError) as error:
        return SkippedItem(name, records.reason_for(error))
    if size > MAX_FILE:
        return SkippedItem(name, f"larger than {MAX_FILE >> 20} MB")
    return Attachment(name, StoredBytes(source.read, name))


def read_file(source: Source, name: str) -> Item:
    """Return a markdown file of a source as a note, or why it cannot be read."""
    try:
        decoded = document.decode(source.read(name))
        changed = convert.time_of(source.modified(name))
    except (OSError, ValueError) as error:
        return SkippedItem(name, records.reason_for(error))
    if decoded.encoding == "binary":
        return SkippedItem(name, decoded.problem)
    if decoded.problem:
        source.warnings.append(ItemWarning(name, guessed(decoded)))
    path = f"{name.rpartition('.')[0]}.md"
    return ImportedNote(name, path, decoded.text, {"modified": changed})


def guessed(decoded: document.DecodedText) -> str:
    """Return how a text that is not UTF-8 is read, for people."""
    if decoded.damaged:
        return f"{decoded.problem}: \ufffd replaces the damaged characters"
    return f"read as {decoded.encoding.replace('cp125', 'windows-125')} (guessed)"
