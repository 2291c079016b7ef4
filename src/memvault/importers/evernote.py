"""Import of Evernote's exports, ``.enex`` files.

An ENEX file has a ``note`` for each note with a title, tags, times, the text as ENML in CDATA, and
``resource`` elements with files in base64; ENML names these by the MD5 of their bytes in
``en-media`` (http://xml.evernote.com/pub/evernote-export4.dtd; Evernote 10). Notes are read one at
a time. Entities are not expanded: a file that declares any is not read.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import posixpath
import re
from collections.abc import Iterator
from typing import BinaryIO
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from memvault.importers import html_markdown, records, values
from memvault.importers.items import (
    Attachment,
    GivenBytes,
    ImportedNote,
    Item,
    Unreadable,
    note_path,
)
from memvault.importers.kinds import NO, REST, SURE
from memvault.importers.source import MAX_FILE, Source
from memvault.lazy_pattern import lazy_pattern

_PIECE = 1 << 16
_MAX_CHARACTERS = 6 * MAX_FILE
"""Maximum number of characters of a note with its files; Evernote's own limit is 200 MB."""
_MAX_ELEMENTS = 100_000
_MAX_DEPTH = 100
_MAX_TAG = 1 << 24
_TOO_LARGE = "it has more text, files or elements than an Evernote note can have"
_MEDIA = lazy_pattern(r"<en-media\b([^<>]*+)>(?:</en-media>)?")
_TODO = lazy_pattern(r"<en-todo\b([^<>]*+)>(?:</en-todo>)?")
_HASH = lazy_pattern(r"hash=\"([0-9a-f]{32})\"")
_MARK = lazy_pattern(r"^([ \t]*)(?:[-*] )?(?:\\)?\[([ x])(?:\\)?\] ", re.MULTILINE)
_SIGN = "\ue000"
"""What surrounds a file's hash while its note is converted; no text has this private character."""
_EMBED = lazy_pattern("\ue000([0-9a-f]{32})\ue000")
_PROLOGUE = lazy_pattern(r"<\?xml[^<>]*+>|<!DOCTYPE[^<>]*+>")
_SUFFIXES = {
    "image/png": ".png",
    "image/jpeg": ".jpg",
    "image/gif": ".gif",
    "application/pdf": ".pdf",
}


def recognise(source: Source) -> int:
    """Return ``SURE`` if a file is an export of Evernote."""
    return SURE if any(b"<en-export" in source.head(name) for name in source.named(".enex")) else NO


def read(source: Source) -> Iterator[Item]:
    """Yield the notes of each file, with their attachments before them."""
    files: dict[str, str] = {}
    names = source.named(".enex")
    for name in names:
        notebook = posixpath.basename(name)[: -len(".enex")]
        folders = (notebook,) if len(names) > 1 else ()
        try:
            with source.open(name) as file:
                for number, element in enumerate(_notes(source, file), 1):
                    place = f"{name}, note {number}"
                    if element is None:
                        yield Unreadable(place, _TOO_LARGE)
                    else:
                        yield from records.items_of(place, _note, element, place, folders, files)
        except (expat.ExpatError, OSError, ValueError, LookupError) as error:  # an unknown encoding
            yield Unreadable(name, f"{REST}: {error}")


class _NoteBuilder:
    """Builds the elements of one note at a time; all others of the file are left out."""

    def __init__(self) -> None:
        self.found: list[Element | None] = []
        self._tree: TreeBuilder | None = None
        self._level = 0
        """How many elements are open, from the note on; 0 outside of notes."""
        self._elements = self._characters = 0

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """Begin an element."""
        if not self._level and tag != "note":
            return
        if not self._level:
            self._tree, self._elements, self._characters = TreeBuilder(), 0, 0
        self._level += 1
        self._elements += 1 + len(attributes)
        self._limit()
        if self._tree is not None:
            self._tree.start(tag, attributes)

    def end(self, tag: str) -> None:
        """End an element."""
        if not self._level:
            return
        self._level -= 1
        if self._tree is not None:
            self._tree.end(tag)
        if not self._level:
            self.found.append(None if self._tree is None else self._tree.close())
            self._tree = None

    def data(self, text: str) -> None:
        """Add text."""
        if self._tree is not None:
            self._characters += len(text)
            self._limit()
        if self._tree is not None:
            self._tree.data(text)

    def _limit(self) -> None:
        """Drop a note that exceeds the limits."""
        if (
            self._characters > _MAX_CHARACTERS
            or self._elements > _MAX_ELEMENTS
            or self._level > _MAX_DEPTH
        ):
            self._tree = None


def _notes(source: Source, file: BinaryIO) -> Iterator[Element | None]:
    """Yield the notes of a file, None for one that is too large.

    Raises:
        ValueError: it declares an entity, or a tag is too long.
    """

    def refuse(*_: object) -> None:
        raise ValueError("it declares entities, which are not expanded")

    builder = _NoteBuilder()
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.data
    parser.EntityDeclHandler = refuse
    done = 0
    while data := file.read(_PIECE):
        source.tick()
        done += len(data)
        parser.Parse(data)
        yield from builder.found
        builder.found.clear()
        if done - max(0, parser.CurrentByteIndex) > _MAX_TAG:
            raise ValueError(f"a tag in it is longer than {_MAX_TAG >> 20} MB")
    parser.Parse(b"", True)
    yield from builder.found


def _note(
    element: Element, what: str, folders: tuple[str, ...], files: dict[str, str]
) -> Iterator[Item]:
    """Yield a note's files and the note; ``files`` has the digests of earlier ones by path."""
    title = " ".join((element.findtext("title") or "Untitled").split())
    created = element.findtext("created")
    key = f"{created or ''} {title}".strip()
    refs: dict[str, str] = {}
    for number, resource in enumerate(element.iter("resource"), 1):
        try:
            data = base64.b64decode(resource.findtext("data") or "")
        except (binascii.Error, ValueError):
            yield Unreadable(f"{what}, file {number}", "it is no base64")
            continue
        if len(data) > MAX_FILE:
            yield Unreadable(f"{what}, file {number}", f"larger than {MAX_FILE >> 20} MB")
            continue
        digest = hashlib.md5(data, usedforsecurity=False).hexdigest()
        suffix = _SUFFIXES.get(resource.findtext("mime") or "", ".bin")
        file_name = resource.findtext("resource-attributes/file-name") or f"{digest[:12]}{suffix}"
        refs[digest] = file_name
        base = posixpath.basename(file_name) or f"file{suffix}"
        path = "/".join([*folders, "files", base])
        if files.setdefault(path.casefold(), digest) != digest:  # many are named image.png
            path = "/".join([*folders, "files", f"{digest[:12]}-{base}"])
        yield Attachment(path, GivenBytes(data), (f"enex-{digest}",))
    try:
        text = _text(element.findtext("content") or "", refs)
    except ValueError as error:
        yield Unreadable(what, str(error))
        return
    header = {
        "title": title,
        "tags": [values.tag(tag.text) for tag in element.findall("tag") if tag.text],
        "created": values.parsed_time(created),
        "modified": values.parsed_time(element.findtext("updated") or created),
        "source": element.findtext("note-attributes/source-url") or "",
    }
    yield ImportedNote(key, note_path(title, *folders), text, header)


def _text(enml: str, refs: dict[str, str]) -> str:
    """Return ENML as markdown, with tasks and embedded files."""

    def media(match: re.Match[str]) -> str:
        found = _HASH.search(match[1])
        return f"{_SIGN}{found[1]}{_SIGN}" if found is not None and found[1] in refs else ""

    html = _TODO.sub(lambda match: "[x] " if 'checked="true"' in match[1] else "[ ] ", enml)
    html = _PROLOGUE.sub("", _MEDIA.sub(media, html.replace(_SIGN, "")))

    def embed(match: re.Match[str]) -> str:
        line = match.string[match.string.rfind("\n", 0, match.start()) + 1 : match.start()]
        bar = "\\|" if line.lstrip(" >").startswith("|") else "|"  # within a table
        return f"![[import:enex-{match[1]}{bar}{values.label(refs.get(match[1], ''))}]]"

    text = _EMBED.sub(embed, html_markdown.markdown(html))
    return _MARK.sub(r"\1- [\2] ", text)
