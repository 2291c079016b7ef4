"""Import TextBundles: Bear's backup, and bundles of Ulysses, iA Writer and others.

A bundle is a folder ``Title.textbundle`` with ``text.md``, ``info.json`` and ``assets``, or a zip
of it, ``Title.textpack`` (version 2, textbundle.org). Bear adds ``net.shinyfrog.bear`` to
``info.json``; its backup, ``.bear2bk``, is a zip of bundles and ``tags.json`` (Bear 2).
"""

from __future__ import annotations

import posixpath
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterator
from typing import Any

from memvault.importers import (
    convert,
    folder,
    html_markdown,
    json_source,
    links,
    plain_text,
    records,
)
from memvault.importers.archives import open_packed
from memvault.importers.formats import Confidence
from memvault.importers.items import (
    Attachment,
    GivenBytes,
    ImportedNote,
    Item,
    ItemWarning,
    SkippedItem,
)
from memvault.importers.source import Source
from memvault.lazy_pattern import lazy_pattern
from memvault.named_tuple import NamedTuple
from memvault.vault import decoding, document, markdown_inline
from memvault.vault.markdown import replace_outside_code

_BUNDLE, _PACK, _BACKUP = ".textbundle", ".textpack", ".bear2bk"
_TEXTS = tuple(f"text.{ending}" for ending in ("md", "markdown", "txt", "text", "html"))
_INFO = "info.json"
_SIGN = b'"version"'
_BEAR = "net.shinyfrog.bear"
_OF_BEAR = frozenset(("tags.json", "backup.json"))
_TITLE = lazy_pattern(r"\A\s*#[ \t]+([^\n]+)")
_HEAD = 2048
_TAG = lazy_pattern(r"(?<!\S)#([^\s#](?:[^#\n]*[^\s#])?)#(?![\w#])")
_HIGHLIGHT = lazy_pattern(r"(?<![:\w])::([^\s:][^:\n]*)::(?![:\w])")
_UNDERLINE = lazy_pattern(r"(?<![~\\\w])~([^\s~/](?:[^~\n]*[^\s~])?)~(?![~\w/])")
_WIKILINK = lazy_pattern(r"(?<!!)\[\[([^\[\]\n|\\]+)(?:\|([^\[\]\n]*))?\]\]")
_OLD_FILE = lazy_pattern(r"\[(?:image:|file:|assets/)([^\[\]\n]+)\](?![\[(:])")
_FLAGS = ("pinned", "archived")
_USED = frozenset(
    ("version", "type", "transient", "creatorIdentifier", "creatorURL", "sourceURL", _BEAR)
)
_USED_OF_BEAR = frozenset(
    "uniqueIdentifier creationDate modificationDate title trashed tags encrypted trashedDate "
    "archivedDate pinnedDate lockedDate lastEditingDevice version pinnedInTagTitles locked".split()
).union(_FLAGS)


class _Bundle(NamedTuple):
    """A bundle: its name without the extension, and its files.

    ``names`` maps composed (NFC) names to actual names: macOS decomposes accents in file names, but
    not in links.
    """

    name: str
    files: Source
    folder: str
    names: dict[str, str]
    is_packed: bool = False

    def read(self, name: str) -> bytes:
        """Return a file's bytes; raises ``OSError``."""
        return self.files.read(posixpath.join(self.folder, name))

    def actual_name(self, path: str) -> str:
        """Return the actual name of a file; empty if it is missing."""
        return self.names.get(_composed(path), "")

    @property
    def text_name(self) -> str:
        """The name of the text file, or an empty string."""
        lowered = {name.lower(): name for name in self.names.values()}
        return next((lowered[name] for name in _TEXTS if name in lowered), "")

    def asset_path(self, name: str) -> str:
        """Return the target path of a file."""
        folder, title = posixpath.split(self.name)
        return posixpath.join(folder, "assets", title, name.removeprefix("assets/"))


def _composed(name: str) -> str:
    return unicodedata.normalize("NFC", name)


def recognize(source: Source) -> Confidence:
    """Return ``SURE`` if the source is a bundle, or has more bundles than other markdown files."""
    bundles = _folders(source)
    notes = source.with_endings(".md", ".markdown")
    if "" in bundles:
        others = [name for name in notes if name not in _TEXTS and not name.startswith("assets/")]
        return Confidence.sure_if(not others and _SIGN in source.head(_INFO))
    loose_notes = max(0, len(notes) - len(bundles))
    return Confidence.sure_if(len(bundles) + len(source.with_endings(_PACK)) > loose_notes)


def _folders(source: Source) -> dict[str, list[str]]:
    """Return the files of each bundle by its folder; "" if the source is a bundle."""
    bundles: dict[str, list[str]] = {}
    for name in source.names:
        suffix_start = name.lower().find(f"{_BUNDLE}/")
        if suffix_start > 0:
            end = suffix_start + len(_BUNDLE)
            bundles.setdefault(name[:end], []).append(name[end + 1 :])
    if not bundles and _INFO in source.name_set and any(t in source.name_set for t in _TEXTS):
        return {"": source.names}
    return bundles


def claims(source: Source) -> Collection[str]:
    """Return the files in bundles, and Bear's list files."""
    folders = _folders(source)
    return [
        *(posixpath.join(folder, name) for folder, names in folders.items() for name in names),
        *source.with_endings(_PACK),
        *(name for name in source.names if posixpath.basename(name) in _OF_BEAR and folders),
    ]


def read(source: Source) -> Iterator[Item]:
    """Yield the notes with their files, except those in the trash."""
    titles: dict[str, str] = {}
    seen: Counter[str] = Counter()
    bundles = [
        _Bundle(
            _bare(folder or source.label), source, folder, {_composed(name): name for name in names}
        )
        for folder, names in _folders(source).items()
    ]
    # Sort "Note" before "Note 1".
    for bundle in sorted(bundles, key=lambda bundle: len(bundle.name)):
        title = _title(source.head(posixpath.join(bundle.folder, bundle.text_name), _HEAD))
        titles.setdefault((title or posixpath.basename(bundle.name)).casefold(), bundle.name)
    for bundle in bundles:
        yield from records.convert_record(bundle.name, _items, source, bundle, titles, seen)
    for name in source.with_endings(_PACK):
        yield from records.convert_record(name, _packed, source, name, titles, seen)


def _bare(name: str) -> str:
    """Return a bundle's name without its extension and the backup's folder."""
    name = name[: -len(_BUNDLE)] if name.lower().endswith(_BUNDLE) else name
    return name.rpartition(f"{_BACKUP}/")[2]


def _title(text: bytes) -> str:
    heading = _TITLE.match(text.decode("utf-8", "replace"))
    return convert.one_line(heading[1]) if heading else ""


def _packed(
    source: Source, name: str, titles: dict[str, str], seen: Counter[str]
) -> Iterator[Item]:
    """Yield the items of a zipped bundle, possibly in a folder of the zip."""
    files = open_packed(source, name, strips_top=True)
    infos = [file for file in files.names if posixpath.basename(file) == _INFO]
    inner = posixpath.dirname(min(infos, key=len, default=""))
    prefix = posixpath.join(inner, "")
    below = [file.removeprefix(prefix) for file in files.names if file.startswith(prefix)]
    names = {_composed(file): file for file in below}
    bundle = _Bundle(name[: -len(_PACK)], files, inner, names, is_packed=True)
    yield from _items(source, bundle, titles, seen)


def _items(
    source: Source, bundle: _Bundle, titles: dict[str, str], seen: Counter[str]
) -> Iterator[Item]:
    """Yield a bundle's files, then its note."""
    info = _info(bundle)
    bear = convert.object_at(info, _BEAR)
    if bear.get("trashed"):
        source.counts.omitted("note in the trash")
        return
    if bear.get("encrypted"):
        yield SkippedItem(bundle.name, "encrypted: unlock the note in Bear, and export again")
        return
    if not bundle.text_name:
        yield SkippedItem(bundle.name, "the bundle contains no readable text file")
        return
    for name in bundle.names.values():
        if name not in (_INFO, bundle.text_name):
            yield from records.convert_record(f"{bundle.name}/{name}", _asset, bundle, name)
    source.counts.unused_properties("bundle", info, _USED)
    source.counts.unused_properties("note", bear, _USED_OF_BEAR)
    decoded = decoding.decode(bundle.read(bundle.text_name))
    if decoded.encoding == "binary":
        yield SkippedItem(bundle.name, decoded.problem)
        return
    if decoded.problem:
        source.warnings.append(ItemWarning(bundle.name, folder.guessed(decoded)))
    source.counts.converted("note")
    is_bear = bool(bear) or info.get("creatorIdentifier") == _BEAR
    has_header = bool(document.Document.parse(decoded.text.encode("utf-8", "replace")).header)
    text = _markdown(decoded.text, bundle, str(info.get("type")), is_bear, titles)
    title = _title(text.encode("utf-8", "replace"))
    modified = ""
    if not bundle.is_packed:
        name = posixpath.join(bundle.folder, bundle.text_name)
        modified = convert.time_of(bundle.files.modified(name))
    header = {
        "title": title or convert.text(bear.get("title")) or posixpath.basename(bundle.name),
        "tags": [flag for flag in _FLAGS if bear.get(flag)],
        "created": convert.parsed_time(bear.get("creationDate")),
        "modified": convert.parsed_time(bear.get("modificationDate")) or modified,
        "source": convert.text(info.get("sourceURL")),
    }
    key = convert.text(bear.get("uniqueIdentifier")) or f"{source.label}/{bundle.name}"
    key = convert.unique_key(key, seen)
    text = text if has_header else convert.protect_first_line(text)
    yield ImportedNote(key, f"{bundle.name}.md", text, header, (convert.id_from_name(bundle.name),))


def _info(bundle: _Bundle) -> dict[str, Any]:
    """Return a bundle's metadata; empty if it has none."""
    if _INFO not in bundle.names:
        return {}
    info = json_source.parse(bundle.read(_INFO))
    return info if isinstance(info, dict) else {}


def _asset(bundle: _Bundle, name: str) -> Item:
    whole = posixpath.join(bundle.folder, name)
    if bundle.is_packed:
        return Attachment(bundle.asset_path(name), GivenBytes(bundle.files.read(whole)))
    return folder.attachment(bundle.files, whole, bundle.asset_path(name))


def _markdown(text: str, bundle: _Bundle, kind: str, is_bear: bool, titles: dict[str, str]) -> str:
    """Convert a bundle's text, with links to its files and other notes."""
    if bundle.text_name.lower().endswith("html"):
        text = html_markdown.markdown(text)
    elif "plain" in kind and not is_bear:
        text = plain_text.escaped(text)
    if is_bear:
        text = _convert_bear(text, bundle, titles)
    beside = posixpath.dirname(bundle.name) or "."

    def asset(target: str) -> str:
        name = bundle.actual_name(markdown_inline.path_beside(target, "text.md"))
        return posixpath.relpath(bundle.asset_path(name), beside) if name else ""

    return links.with_targets(text, asset)


def _convert_bear(text: str, bundle: _Bundle, titles: dict[str, str]) -> str:
    """Convert Bear's multi-word tags, marks and links to markdown."""

    def note(match: re.Match[str]) -> str:
        title, heading = match[1].strip(), ""
        if title.casefold() not in titles:
            title, _, heading = title.partition("/")
        name = titles.get(title.strip().casefold())
        if name is None:
            return match[0]
        shown = match[2] or (title if not heading else "")
        anchor = f"#{heading}" if heading else ""
        return convert.id_link(convert.id_from_name(name) + anchor, shown, match)

    def file(match: re.Match[str]) -> str:
        path = bundle.actual_name(f"assets/{posixpath.basename(match[1])}")
        return f"![](<{path}>)" if path else match[0]

    for pattern, written in (
        (_OLD_FILE, file),
        (_TAG, lambda match: f"#{convert.tag(match[1])}"),
        (_HIGHLIGHT, lambda match: f"=={match[1]}=="),
        (_UNDERLINE, lambda match: f"<u>{match[1]}</u>"),
        (_WIKILINK, note),
    ):
        text = replace_outside_code(pattern, written, text)
    return text
