"""Import of Apple Notes: the copy from privacy.apple.com, or notes exported as markdown.

The copy has a folder ``Notes`` with a folder for each note, ``Title/Title.txt``, its files beside
it (as of November 2026). macOS and iOS 26 export a note as a folder with ``Title.md`` and
``Attachments``.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from memvault.importers import folder, records
from memvault.importers.items import ImportedNote, Item, Unreadable, note_path
from memvault.importers.kinds import NO, POSSIBLE, SURE
from memvault.importers.source import Source

_DELETED = "Recently Deleted"
_FOLDERS = frozenset(("Notes", "iCloud Notes", _DELETED))


def recognise(source: Source) -> int:
    """Return ``SURE`` if notes are folders with a text of their own name, in a folder Notes."""
    texts = _texts(source)
    if not texts:
        return NO
    named = any(part in _FOLDERS for name in texts for part in name.split("/")[:-1])
    is_copy = named or "Notes" in source.path.name
    if len(texts) * 2 <= len(source.named(".txt", ".md")):  # notes of folders, as Obsidian has
        return NO
    return SURE if is_copy else POSSIBLE


def _texts(source: Source) -> list[str]:
    """Return the names of the texts that are named as the folder that they are in."""
    found = []
    for name in source.named(".txt", ".md"):
        parts = name.split("/")
        if len(parts) > 1 and posixpath.splitext(parts[-1])[0].strip() == parts[-2].strip():
            found.append(name)
    return found


def claims(source: Source) -> list[str]:
    """Return the files in the folders of notes, and those of deleted notes."""
    folders = {posixpath.dirname(name) for name in _texts(source)}
    return [
        name
        for name in source.names
        if _DELETED in (parts := name.split("/"))[:-1]
        or any("/".join(parts[:length]) in folders for length in range(1, len(parts)))
    ]


def read(source: Source) -> Iterator[Item]:
    """Yield each note with its folders, and the files beside it; deleted notes are left out."""
    texts = {posixpath.dirname(name): name for name in _texts(source)}
    beside: dict[str, list[str]] = {}
    for name in source.names:
        beside.setdefault(posixpath.dirname(name), []).append(posixpath.basename(name))
    for name in claims(source):
        parts = name.split("/")
        if _DELETED in parts[:-1]:
            if texts.get(posixpath.dirname(name)) == name:
                source.tally.omitted("note in the trash")
        elif texts.get(posixpath.dirname(name)) == name:
            item = folder.read_file(source, name)
            files = beside[posixpath.dirname(name)]
            if isinstance(item, ImportedNote):
                yield from records.items_of(name, _note, item, name, files)
            else:
                yield item
        else:
            item = folder.attachment(source, name)
            yield item if isinstance(item, Unreadable) else item._replace(path=_kept(parts))


def _kept(parts: list[str]) -> str:
    """Return the path of a file without the folders that each copy has."""
    return "/".join(part for part in parts if part not in _FOLDERS)


def _note(item: ImportedNote, name: str, files: list[str]) -> ImportedNote:
    """Return a note; a text without links gets those to the files beside it."""
    parts = name.split("/")
    if not name.lower().endswith(".txt"):
        header = {**item.header, "title": parts[-2].strip() or "Note"}
        return ImportedNote(name, _kept(parts), item.text, header)
    folders = [part for part in parts[:-2] if part not in _FOLDERS]
    title = parts[-2].strip() or "Note"
    embeds = [f"![[{title}/{file}]]" for file in files if file != parts[-1]]
    text = "\n\n".join([item.text.rstrip(), *embeds])
    path = note_path(title, *folders)
    return ImportedNote(name, path, text, {**item.header, "title": title})
