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

_FOLDERS = frozenset(("Notes", "iCloud Notes", "Recently Deleted"))


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


def read(source: Source) -> Iterator[Item]:
    """Yield each note with its folders, and the files beside it; deleted notes are left out."""
    texts = {posixpath.dirname(name): name for name in _texts(source)}
    beside: dict[str, list[str]] = {}
    for name in source.names:
        beside.setdefault(posixpath.dirname(name), []).append(posixpath.basename(name))
    for name in source.names:
        parts = name.split("/")
        if "Recently Deleted" in parts[:-1]:
            continue
        if texts.get(posixpath.dirname(name)) == name:
            item = folder.read_file(source, name)
            files = beside[posixpath.dirname(name)]
            if isinstance(item, ImportedNote):
                yield from records.items_of(name, _note, item, name, files)
            else:
                yield item
        elif any("/".join(parts[:length]) in texts for length in range(1, len(parts))):
            item = folder.attachment(source, name)
            yield item if isinstance(item, Unreadable) else item._replace(path=_kept(parts))
        elif name.lower().endswith((".txt", ".md")):
            yield Unreadable(name, "a text that is not in a folder of its name, as notes are")


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
