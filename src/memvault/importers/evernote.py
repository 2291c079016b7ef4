"""Import Evernote's exports, ``.enex`` files.

A ``note`` element has a title, tags, times, tasks, the text as ENML in CDATA, and ``resource``
elements with files in base64; ``en-media`` refers to them by the MD5 hash of their bytes
(http://xml.evernote.com/pub/evernote-export4.dtd; Evernote 10).

Each note is parsed separately, so a damaged note does not affect the others. Entities are not
expanded: a file that declares one is not read.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import io
import mimetypes
import posixpath
from collections import Counter
from collections.abc import Collection, Iterator
from typing import Any, BinaryIO

from memvault.importers import convert, enml, html_markdown, records
from memvault.importers.formats import REST
from memvault.importers.items import (
    Attachment,
    GivenBytes,
    ImportedNote,
    Item,
    ItemWarning,
    SkippedItem,
    note_path,
)
from memvault.importers.source import MAX_FILE, Source
from memvault.lazy_pattern import lazy_pattern

_PIECE = 1 << 16
_MAX_BYTES = 4 * MAX_FILE
"""Maximum length of a note, including base64-encoded attachments; Evernote's limit is 200 MB."""
_MAX_TAGS = 200_000
_TOO_LARGE = "exceeds Evernote's limits on text, files or elements"
_NOTE = lazy_pattern(r"<note(?=[\s>])|</note\s{0,9}>")
_LONGEST = 20
"""Maximum number of characters that a match of ``_NOTE`` needs, including its lookahead."""
_NOT_IN_XML = lazy_pattern("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_KEYS = {
    **{key: key for key in ("author", "latitude", "longitude", "altitude")},
    "source-url": "source",
    "place-name": "place",
}
"""The header key for each note attribute."""
_TIME_KEYS = {"reminder-time": "reminder", "reminder-done-time": "reminder_done"}
_OF_EVERNOTE = ("source", "source-application", "reminder-order", "subject-date", "content-class")
"""Ignored attributes: the program that created the note, and the sort order."""
_NOTE_PARTS = "title content created updated tag note-attributes resource task".split()


def claims(source: Source) -> Collection[str]:
    """Return the names of the exports."""
    return source.with_endings(".enex")


def read(source: Source) -> Iterator[Item]:
    """Yield the notes of each file, preceded by their attachments."""
    names = source.with_endings(".enex")
    reader = _EnexReader(source)
    for name in names:
        notebook = posixpath.basename(name)[: -len(".enex")]
        folders = (notebook,) if len(names) > 1 else ()
        try:
            with source.open(name) as file:
                for number, (element, problem) in enumerate(_notes(source, file), 1):
                    location = f"{name}, note {number}"
                    if element is not None:
                        arguments = (element, location, folders)
                        yield from records.convert_record(location, reader.note, *arguments)
                    if problem:
                        yield SkippedItem(location, problem)
        except (OSError, ValueError, LookupError) as error:
            yield SkippedItem(name, f"{REST}: {error}")


def _notes(source: Source, file: BinaryIO) -> Iterator[tuple[Any, str]]:
    """Yield the element of each note (None if nothing is readable) and the note's problem.

    A note without an end tag extends to the next note or to the end of the file.

    Raises:
        ValueError: if the file declares an entity.
    """
    rest = ""
    parts: list[bytes] | None = None
    """The text of the current note; it is None between notes."""
    for piece in _text(source, file):
        rest += piece
        while tag := _NOTE.search(rest):
            is_start = tag[0] == "<note"
            before, rest = rest[: tag.start()], rest[tag.end() :]
            if parts is None:
                _check(before)
            else:
                yield _parsed([*parts, _bytes(before if is_start else before + tag[0])])
            parts = [_bytes(tag[0])] if is_start else None
        done, rest = rest[:-_LONGEST], rest[-_LONGEST:]
        if parts is None:
            _check(done + rest)
        elif sum(map(len, parts)) <= _MAX_BYTES:
            parts.append(_bytes(done))
    if parts is not None:
        yield _parsed([*parts, _bytes(rest)])


def _parsed(parts: list[bytes]) -> tuple[Any, str]:
    """Parse a note; recover as much as possible of a damaged note."""
    data = b"".join(parts)
    if len(data) > _MAX_BYTES or data.count(b"<") > _MAX_TAGS:
        return None, _TOO_LARGE
    root, error = html_markdown.parse_xml(data)
    is_complete = data.rstrip().endswith(b">") and data.rfind(b"</note") > 0
    if not error and is_complete:
        return root, ""
    is_note = root is not None and root.find("content") is not None
    state = f"damaged, so parts may be missing: {error}"
    if not is_complete:
        state = "truncated, so parts may be missing"
    return root if is_note else None, state


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def _check(text: str) -> None:
    if "<!ENTITY" in text:
        raise ValueError("it declares entities, which are not supported")


def _text(source: Source, file: BinaryIO) -> Iterator[str]:
    """Yield the text of a file in chunks, without characters that XML does not allow."""
    with io.TextIOWrapper(file, "utf-8-sig", "replace") as reader:
        while text := reader.read(_PIECE):
            source.tick()
            yield _NOT_IN_XML.sub("", text)


class _EnexReader:
    """Converts the notes of a source; keys and file names are unique among them."""

    def __init__(self, source: Source) -> None:
        self._counts, self._warnings = source.counts, source.warnings
        self._files: dict[str, str] = {}
        """The digests of previous files by path."""
        self._keys: Counter[str] = Counter()

    def note(self, element: Any, location: str, folders: tuple[str, ...]) -> Iterator[Item]:
        """Yield a note's files, then the note."""
        title = " ".join((element.findtext("title") or "Untitled").split())
        created = element.findtext("created")
        key = convert.unique_key(f"{created or ''} {title}".strip(), self._keys)
        refs: dict[str, str] = {}
        for number, resource in enumerate(element.iter("resource"), 1):
            yield from self._file(resource, f"{location}, file {number}", folders, refs)
        tasks = [enml.EvernoteTask.of(task, self._counts) for task in element.iter("task")]
        content = "".join(text for part in element.findall("content") for text in part.itertext())
        try:
            text = enml.NoteText(content, refs, tasks, self._counts)
        except ValueError as error:  # its files are imported anyway
            yield SkippedItem(location, str(error))
            return
        self._counts.converted("note")
        if text.is_damaged:
            reason = "damaged text was repaired; check the note"
            self._warnings.append(ItemWarning(location, reason))
        header = {
            "title": title,
            "tags": [convert.tag(tag.text) for tag in element.findall("tag") if tag.text],
            "created": convert.parsed_time(created),
            "modified": convert.parsed_time(element.findtext("updated") or created),
            **self._attributes(element),
        }
        path, refs_of_note = note_path(title, *folders), (enml.title_ref(title),)
        yield ImportedNote(key, path, text.markdown, header, refs_of_note)
        yield from (SkippedItem(location, problem) for problem in text.problems)

    def _attributes(self, element: Any) -> dict[str, str]:
        """Return the header of a note's attributes, and count the omitted attributes."""
        header: dict[str, str] = {}
        for part in element:
            if part.tag not in _NOTE_PARTS:
                self._counts.omitted(f'note property "{part.tag}"')
        for part in element.iterfind("note-attributes/*"):
            text = " ".join((part.text or "").split())
            if part.tag in _KEYS and text:
                header[_KEYS[part.tag]] = text
            elif part.tag in _TIME_KEYS and text:
                header[_TIME_KEYS[part.tag]] = convert.parsed_time(text)
            elif text and part.tag not in _OF_EVERNOTE:
                self._counts.omitted(f'note property "{part.tag}"')
        return header

    def _file(
        self, resource: Any, location: str, folders: tuple[str, ...], refs: dict[str, str]
    ) -> Iterator[Item]:
        """Yield a file of a note, and add its name to ``refs`` by digest."""
        mime = (resource.findtext("mime") or "").strip()
        try:
            encoded = "".join((resource.findtext("data") or "").split())
            data = base64.b64decode(encoded, validate=True)
        except (binascii.Error, ValueError):
            yield SkippedItem(location, "is not valid base64")
            return
        if not data or len(data) > MAX_FILE:
            yield SkippedItem(location, f"larger than {MAX_FILE >> 20} MB" if data else "is empty")
            return
        self._counts.converted("file")
        digest = hashlib.md5(data, usedforsecurity=False).hexdigest()
        suffix = ".jpg" if mime == "image/jpeg" else mimetypes.guess_extension(mime) or ".bin"
        given_name = (resource.findtext("resource-attributes/file-name") or "").replace("\\", "/")
        base = convert.one_line(posixpath.basename(given_name)) or f"{digest[:12]}{suffix}"
        refs.setdefault(digest, base)
        path = "/".join([*folders, "files", base])
        # Many files are named image.png.
        if self._files.setdefault(path.casefold(), digest) != digest:
            path = "/".join([*folders, "files", f"{digest[:12]}-{base}"])
        yield Attachment(path, GivenBytes(data), (f"enex-{digest}",))
