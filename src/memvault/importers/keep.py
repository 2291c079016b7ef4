"""Import Google Keep from Google Takeout: ``Keep/*.json`` and attached files.

A note is a JSON object with ``title``, ``textContent`` or ``listContent``, ``labels``,
``attachments``, ``annotations`` with links, ``sharees``, and times in microseconds (Takeout of
November 2026). ``textContentHtml`` is the formatted text. The folder's name is localized, such as
``Google Notizen``; it also has each note as HTML, and ``Labels.txt``.
"""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Collection, Iterator
from typing import Any
from urllib.parse import quote

from memvault.importers import convert, folder, html_markdown, json_source, plain_text, records
from memvault.importers.content_counts import ContentCounts
from memvault.importers.items import ImportedNote, Item, SkippedItem, note_path
from memvault.importers.source import Source
from memvault.lazy_pattern import lazy_pattern

_SIGN = b'"userEditedTimestampUsec"'
_NOTE_KEYS = frozenset("userEditedTimestampUsec textContent textContentHtml listContent".split())
"""Every note has at least one of these keys."""
_USED = frozenset(
    "title labels attachments annotations sharees color createdTimestampUsec isPinned isArchived "
    "isTrashed".split()
).union(_NOTE_KEYS)
_FORMATTED = lazy_pattern(
    r"<(?:h[1-6]|b|i|u|s|strong|em|a)\b|font-weight:\s*(?:bold|[6-9]00)|font-style:\s*italic"
    r"|text-decoration:[^;\"]{0,99}(?:underline|line-through)"
)
"""Matches formatting in HTML."""
_NOT_IN_WIKILINKS = lazy_pattern(r"[\[\]#^|\\]")
_LIST_MARK = lazy_pattern(r"\A\s*(?:[-*+#>]{1,6} )?(?:\[[ xX]\] )?")
_MAX_SNIFFED = 20
_LIST_OF_TAKEOUT = "archive_browser.html"
_MAX_TITLE = 60
_JPEG = (".jpg", ".jpeg", ".JPG")


def claims(source: Source) -> Collection[str]:
    """Return all files in folders with a note, and Takeout's list."""
    looked: dict[str, int] = {}
    folders: set[str] = set()
    for name in source.with_endings(".json"):
        above = posixpath.dirname(name)
        looked[above] = looked.get(above, 0) + 1
        is_unknown = above not in folders and looked[above] <= _MAX_SNIFFED
        if is_unknown and _SIGN in source.head(name, 1 << 16):
            folders.add(above)
    return [
        name
        for name in source.names
        if posixpath.dirname(name) in folders
        or (folders and posixpath.basename(name) == _LIST_OF_TAKEOUT)
    ]


def read(source: Source) -> Iterator[Item]:
    """Yield the notes, except those in the trash, and their files."""
    files: set[str] = set()
    keys: Counter[str] = Counter()
    for name in claims(source):
        if not name.lower().endswith(".json"):
            continue
        try:
            note = json_source.read_object(source, name)
            if _NOTE_KEYS.isdisjoint(note):
                raise ValueError("not a Keep note")
        except (OSError, ValueError) as error:
            yield SkippedItem(name, records.reason_for(error))
            continue
        if note.get("isTrashed"):
            source.counts.omitted("note in the trash")
            continue
        attached = list(_attached(source, name, note))
        paths = [path for path in attached if isinstance(path, str)]
        base = posixpath.basename(name)
        # Each part of a Takeout may contain the same folder.
        key = convert.unique_key_or(keys, base, name)
        yield from records.convert_record(name, _note, key, note, paths, source.counts)
        yield from (item for item in attached if isinstance(item, SkippedItem))
        files.update(paths)
    for path in sorted(files):
        source.counts.converted("file")
        yield folder.attachment(source, path)


def _attached(source: Source, name: str, note: dict[str, Any]) -> Iterator[str | SkippedItem]:
    """Yield the paths of a note's files; Takeout may list a ``.jpg`` file as ``.jpeg``."""
    for entry in convert.objects_at(note, "attachments"):
        given_path = convert.text(entry.get("filePath"))
        path = posixpath.join(posixpath.dirname(name), given_path)
        stem, suffix = posixpath.splitext(path)
        endings = (suffix, *(_JPEG if suffix.lower() in _JPEG else ()), suffix.lower())
        mime = convert.text(entry.get("mimetype"))
        endings += (f".{mime.rpartition('/')[2]}", *(_JPEG if mime == "image/jpeg" else ()))
        path_in_source = next(
            (stem + ending for ending in endings if stem + ending in source.name_set), ""
        )
        if given_path.startswith("/") or ".." in given_path.split("/"):
            yield SkippedItem(f"{name}, {given_path}", "the path points outside the folder")
        elif path_in_source and given_path:
            yield path_in_source
        else:
            yield SkippedItem(f"{name}, {given_path or 'a file'}", "missing from the export")


def _note(key: str, note: dict[str, Any], files: list[str], counts: ContentCounts) -> ImportedNote:
    items = [
        (bool(entry.get("isChecked")), convert.one_line(entry.get("text")))
        for entry in convert.objects_at(note, "listContent")
    ]
    links = [
        (convert.one_line(entry.get("title") or entry["url"]), entry)
        for entry in convert.objects_at(note, "annotations")
        if str(entry.get("url", "")).startswith(("http:", "https:"))
    ]
    text = convert.text(note.get("textContent"))
    parts = [
        _text(text, convert.text(note.get("textContentHtml"))),
        "\n".join(convert.task(item, is_checked) for is_checked, item in items),
        "\n".join(_link(shown, entry) for shown, entry in links),
        "\n".join(
            f"![]({quote(path)})" if _NOT_IN_WIKILINKS.search(path) else f"![[{path}]]"
            for path in files
        ),
    ]
    lines = [*text.splitlines(), *(item for _, item in items), *(shown for shown, _ in links)]
    first = next((line for line in lines if line.strip(" -[]x")), "Note")
    named = convert.text(note.get("title")).strip() or _LIST_MARK.sub("", first)
    title = " ".join(named.split())[:_MAX_TITLE]
    tags = [
        convert.tag(convert.one_line(label.get("name")))
        for label in convert.objects_at(note, "labels")
    ]
    tags += [flag for flag in ("pinned", "archived") if note.get(f"is{flag.title()}")]
    color = convert.one_line(note.get("color")).lower()
    created = convert.time_of(note.get("createdTimestampUsec"), 1e-6)
    header = {
        "title": title,
        "tags": [tag for tag in tags if tag],
        "created": created,
        "modified": convert.time_of(note.get("userEditedTimestampUsec"), 1e-6) or created,
        "color": "" if color == "default" else color,
        "shared_with": [
            email
            for sharee in convert.objects_at(note, "sharees")
            if (email := convert.one_line(sharee.get("email"))) and not sharee.get("isOwner")
        ],
    }
    counts.converted("note")
    counts.unused_properties("note", note, _USED)
    whole = "\n\n".join(part for part in parts if part)
    return ImportedNote(key, note_path(title), whole, header)


def _text(text: str, html: str) -> str:
    """Return a note's text, with its formatting if there is any."""
    html = html.replace("<\\/", "</")  # some exports escape slashes
    if html and (not text.strip() or _FORMATTED.search(html)):
        return html_markdown.markdown(html)
    return plain_text.escaped(text)


def _link(shown: str, entry: dict[str, Any]) -> str:
    about = plain_text.escaped(convert.one_line(entry.get("description")), is_line=True)
    target = html_markdown.link_target(str(entry["url"]))
    label = plain_text.escaped(shown, is_line=True)
    link = f"<{target}>" if shown == entry["url"] else f"[{label}]({target})"
    return f"- {link}{f': {about}' if about else ''}"
