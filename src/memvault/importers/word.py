"""Import Word documents, such as OneNote's exports.

OneNote in Microsoft 365 exports pages, sections and notebooks as .docx, .one, .onepkg, .mht and
PDF; only .docx is read.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from memvault.importers import convert, folder, records
from memvault.importers.archives import open_packed
from memvault.importers.docx import Docx
from memvault.importers.formats import Confidence
from memvault.importers.items import ImportedNote, Item, SkippedItem
from memvault.importers.source import Source

_DOCX = ".docx"
_TEXT = "word/document.xml"
_NOTES = (".md", ".markdown")
_ONENOTE = (".one", ".onepkg", ".onetoc2", ".mht", ".mhtml")
_HINT = "unsupported format: export the page or section from OneNote as a Word document"
_NO_YEAR = "1980"
"""The placeholder year that Word sets on every file in a document."""
_USED = frozenset(
    "title creator created modified keywords lastModifiedBy revision lastPrinted language "
    "version".split()
)
"""Properties of a document that are converted, or that matter only in Word."""
_TAG_SIGNS = str.maketrans(";", ",")


def recognize(source: Source) -> Confidence:
    """Return ``SURE`` for one document, and ``LIKELY`` if documents outnumber markdown files."""
    if _TEXT in source.name_set:
        return Confidence.SURE
    documents = len(_documents(source))
    others = len(source.with_endings(*_NOTES))
    if documents:
        return Confidence.LIKELY if documents > others else Confidence.NO
    return Confidence.POSSIBLE if source.with_endings(*_ONENOTE) and not others else Confidence.NO


def _documents(source: Source) -> list[str]:
    """Return the names of the documents, without Word's lock files."""
    return [
        name for name in source.with_endings(_DOCX) if not posixpath.basename(name).startswith("~$")
    ]


def read(source: Source) -> Iterator[Item]:
    """Yield the documents with their images, and all other files."""
    if _TEXT in source.name_set:
        label = source.label
        name = label[: -len(_DOCX)] if label.lower().endswith(_DOCX) else label
        document = Docx(source, convert.id_from_name(name))
        yield from records.convert_record(name, _note, source, f"{name}{_DOCX}", document, _TEXT)
        return
    documents = set(_documents(source))
    for name in source.names:
        if any(part.startswith((".", "~$")) for part in name.split("/")):
            continue
        if name in documents:
            yield from records.convert_record(name, _packed, source, name)
        elif name.lower().endswith(_ONENOTE):
            yield SkippedItem(name, _HINT)
        elif name.lower().endswith(_NOTES):
            yield folder.read_file(source, name)
        else:
            yield folder.attachment(source, name)


def _packed(source: Source, name: str) -> Iterator[Item]:
    files = open_packed(source, name, strips_top=False)
    document = Docx(files, convert.id_from_name(name[: -len(_DOCX)]))
    yield from _note(source, name, document, name)


def _note(source: Source, name: str, document: Docx, dated: str) -> Iterator[Item]:
    """Yield a document's images, then its note; ``dated`` is the file whose time it gets."""
    text = document.markdown(source.counts)
    properties = document.properties()
    keywords = properties.get("keywords", "").translate(_TAG_SIGNS).split(",")
    changed = convert.time_of(source.modified(dated))
    if changed.startswith(_NO_YEAR):
        changed = ""
    header = {
        "title": convert.one_line(properties.get("title"))
        or posixpath.basename(name)[: -len(_DOCX)],
        "tags": [tag for tag in map(convert.tag, keywords) if tag],
        "created": convert.parsed_time(properties.get("created")),
        "modified": convert.parsed_time(properties.get("modified")) or changed,
        "author": properties.get("creator", ""),
    }
    source.counts.unused_properties("document", properties, _USED)
    source.counts.converted("document")
    yield from document.problems
    yield from document.files.values()
    yield ImportedNote(name, f"{name[: -len(_DOCX)]}.md", convert.protect_first_line(text), header)
