"""Import Apple Notes: the data copy from privacy.apple.com, or notes exported as markdown.

The copy has a folder ``Notes`` with a folder for each note: ``Title/Title.txt`` and its files; and
``Notes Details.csv`` with the times. In the text a task starts with a circle or check mark between
tabs, and U+FFFC marks a file (as of November 2026). macOS and iOS 26 export a note as a folder with
``Title.md`` and ``Attachments``, or only as ``Title.md``.
"""

from __future__ import annotations

import csv
import io
import posixpath
from collections.abc import Collection, Iterator
from typing import Any

from memvault.importers import convert, folder, plain_text, records
from memvault.importers.formats import Confidence
from memvault.importers.items import ImportedNote, Item, note_path
from memvault.importers.source import Source
from memvault.lazy_pattern import lazy_pattern

_DETAILS = "Notes Details.csv"
_TIME = lazy_pattern(r"(\d\d)-(\d\d)-(\d{4}) (\d\d:\d\d:\d\d)")
_ITEM = lazy_pattern(r"\t([\u25e6\u2713])\t|[-*] ")
_MARKS = {"\u25e6": "- [ ] ", "\u2713": "- [x] "}
_FILE = "\ufffc"
_NUMBER = lazy_pattern(r"-(\d{1,9})(?=\.[^.]*\Z|\Z)")
_DELETED = "Recently Deleted"
_FOLDERS = frozenset(("Notes", "iCloud Notes", _DELETED))


def recognize(source: Source) -> Confidence:
    """Return ``SURE`` if most text files are named after their folder, below a folder ``Notes``."""
    texts = _texts(source)
    if not texts:
        return Confidence.NO
    named = any(part in _FOLDERS for name in texts for part in name.split("/")[:-1])
    is_copy = named or "Notes" in source.path.name
    if len(texts) * 2 <= len(source.with_endings(".txt", ".md")):  # folder notes, as in Obsidian
        return Confidence.NO
    return Confidence.SURE if is_copy else Confidence.POSSIBLE


def _texts(source: Source) -> list[str]:
    """Return the text files that have the name of their folder."""
    texts = []
    for name in source.with_endings(".txt", ".md"):
        parts = name.split("/")
        if len(parts) > 1 and posixpath.splitext(parts[-1])[0].strip() == parts[-2].strip():
            texts.append(name)
    return texts


def claims(source: Source) -> list[str]:
    """Return the note files, loose markdown, deleted notes, and the table."""
    folders = {posixpath.dirname(name) for name in _texts(source)}
    return [name for name in source.names if folders and _is_claimed(name, folders)]


def _is_claimed(name: str, folders: Collection[str]) -> bool:
    parts = name.split("/")
    if _DELETED in parts[:-1] or parts[-1] == _DETAILS or name.lower().endswith(".md"):
        return True
    return any("/".join(parts[:length]) in folders for length in range(1, len(parts)))


def read(source: Source) -> Iterator[Item]:
    """Yield each note and its files; deleted notes are skipped."""
    folders = {posixpath.dirname(name) for name in _texts(source)}
    tables = [name for name in source.names if posixpath.basename(name) == _DETAILS]
    details: dict[str, dict[str, Any]] = {}
    for name in tables:
        yield from records.convert_record(name, _read_details, source, name, details)
    beside: dict[str, list[str]] = {}
    for name in source.names:
        beside.setdefault(posixpath.dirname(name), []).append(name)
    files = dict(_files(beside[above]) for above in folders)
    for name in claims(source):
        parts = name.split("/")
        is_text = name.lower().endswith((".txt", ".md"))
        if _DELETED in parts[:-1]:
            if is_text:
                source.counts.omitted("note in the trash")
        elif is_text and posixpath.dirname(name) in folders and _is_note(parts):
            yield from folder.convert_note(
                source, name, _note, source, name, files.get(name, []), details
            )
        elif any("/".join(parts[:length]) in folders for length in range(1, len(parts))):
            source.counts.converted("file")
            yield folder.attachment(source, name, _shown_path(parts))
        elif name.lower().endswith(".md"):
            yield from folder.convert_note(source, name, _note, source, name, [], details)


def _is_note(parts: list[str]) -> bool:
    """Return whether a text file has the name of its folder, possibly with a number such as -1."""
    title, stem = parts[-2].strip(), posixpath.splitext(parts[-1])[0].strip()
    return stem == title or (stem.startswith(f"{title}-") and stem[len(title) + 1 :].isdecimal())


def _files(names: list[str]) -> tuple[str, list[str]]:
    """Return the first note of a folder, and its other files, sorted by number."""
    notes = {name for name in names if name.lower().endswith(".txt") and _is_note(name.split("/"))}
    files = [posixpath.basename(name) for name in names if name not in notes]
    files.sort(key=lambda name: [int(name) for name in _NUMBER.findall(name)[:1]] or [0])
    return min(notes, key=len, default=""), files


def _read_details(source: Source, name: str, details: dict[str, dict[str, Any]]) -> None:
    """Read the copy's table, and add the header of each note to ``details`` by title.

    Notes with the same title get an empty header.
    """
    text = source.read(name).decode("utf-8-sig", "replace")
    for row in csv.DictReader(io.StringIO(text), skipinitialspace=True):
        title = convert.one_line(row.get("Title"))
        is_pinned = convert.one_line(row.get("Pinned")).lower() == "yes"
        header = {
            "created": _time(row.get("Created On")),
            "modified": _time(row.get("Modified On")),
            "tags": ["pinned"] if is_pinned else [],
        }
        details[title] = {} if title in details else header


def _time(text: str | None) -> str:
    """Convert a time such as ``11-03-2026 09:15:00`` to ISO 8601; "" if it is not a time."""
    match = _TIME.fullmatch(convert.one_line(text))
    return convert.parsed_time(f"{match[3]}-{match[1]}-{match[2]} {match[4]}") if match else ""


def _shown_path(parts: list[str]) -> str:
    """Return the path of a file without the folders that the data copy adds."""
    return "/".join(part for part in parts if part not in _FOLDERS)


def _note(
    item: ImportedNote,
    source: Source,
    name: str,
    files: list[str],
    details: dict[str, dict[str, Any]],
) -> ImportedNote:
    """Convert a note, with links to its files at their original positions, or at the end."""
    source.counts.converted("note")
    parts = name.split("/")
    if not name.lower().endswith(".txt"):
        title = posixpath.splitext(parts[-1])[0].strip() or "Note"
        return ImportedNote(name, _shown_path(parts), item.text, {**item.header, "title": title})
    title = parts[-2].strip() or "Note"
    folders = [part for part in parts[:-2] if part not in _FOLDERS]
    first = next(filter(str.strip, item.text.splitlines()), "")
    note_details = details.get(title) or details.get(convert.one_line(first)) or {}
    header = {
        **item.header,
        "title": title,
        **{key: value for key, value in note_details.items() if value},
    }
    embeds = [f"![[{title}/{file}]]" for file in files]
    text = _markdown(item.text, embeds)
    return ImportedNote(name, note_path(title, *folders), text, header)


def _markdown(text: str, embeds: list[str]) -> str:
    """Convert text to markdown, with embeds in place of the note's files or at the end."""
    lines: list[str] = []
    is_after_item = False
    for line in text.splitlines():
        item = _ITEM.match(line)
        rest = line[item.end() :] if item else line
        if is_after_item and item is None and line.strip():
            lines.append("")  # ends the list, because the line is not part of the item
        is_after_item = item is not None
        mark = "" if item is None else _MARKS.get(item[1] or "", "- ")
        shown, *others = plain_text.escaped(rest, is_line=bool(mark)).split(_FILE)
        for part in others:
            shown += (embeds.pop(0) if embeds else "") + part
        lines.append(mark + shown)
    return "\n\n".join(["\n".join(lines).strip("\n"), *embeds])
