"""Import a folder of markdown files and attachments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

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
from memvault.vault import decoding

_NOTES = (".md", ".markdown")


def recognize(source: Source) -> Confidence:
    """Return ``POSSIBLE`` if there is a markdown file."""
    return Confidence.POSSIBLE if source.with_endings(*_NOTES) else Confidence.NO


def read(source: Source) -> Iterator[Item]:
    """Yield each markdown file as a note, and each other file as an attachment."""
    for name in source.visible:
        yield read_file(source, name) if name.lower().endswith(_NOTES) else attachment(source, name)


def items(
    source: Source, names: Iterable[str], convert: Callable[..., Item | None], *arguments: Any
) -> Iterator[Item]:
    """Yield the results of ``convert`` for markdown files, and other files as attachments."""
    for name in names:
        if name.lower().endswith(_NOTES):
            yield from convert_note(source, name, convert, *arguments)
        else:
            yield attachment(source, name)


def attachment(
    source: Source, name: str, path: str = "", refs: tuple[str, ...] = ()
) -> Attachment | SkippedItem:
    """Return a file in a source as an attachment, by default at its own path."""
    try:
        size = source.size(name)
    except (OSError, ValueError) as error:
        return SkippedItem(name, records.reason_for(error))
    if size > MAX_FILE:
        return SkippedItem(name, f"larger than {MAX_FILE >> 20} MB")
    return Attachment(path or name, StoredBytes(source.read, name), refs)


def convert_note(
    source: Source, name: str, convert: Callable[..., Item | None], *arguments: Any
) -> list[Item]:
    """Return the result of ``convert`` for a markdown file, or why the file cannot be read."""
    item = read_file(source, name)
    if isinstance(item, ImportedNote):
        return records.convert_record(name, convert, item, *arguments)
    return [item]


def read_file(source: Source, name: str) -> Item:
    """Return a markdown file in a source as a note, or why it cannot be read."""
    try:
        decoded = decoding.decode(source.read(name))
        changed = convert.time_of(source.modified(name))
    except (OSError, ValueError) as error:
        return SkippedItem(name, records.reason_for(error))
    if decoded.encoding == "binary":
        return SkippedItem(name, decoded.problem)
    if decoded.problem:
        source.warnings.append(ItemWarning(name, guessed(decoded)))
    path = f"{name.rpartition('.')[0]}.md"
    return ImportedNote(name, path, decoded.text, {"modified": changed})


def guessed(decoded: decoding.DecodedText) -> str:
    """Return a warning for a file that is not UTF-8: it is damaged, or its encoding is guessed."""
    if decoded.damaged:
        return f"{decoded.problem}: \ufffd replaces the damaged characters"
    return f"read as {decoded.encoding.replace('cp125', 'windows-125')} (guessed)"
