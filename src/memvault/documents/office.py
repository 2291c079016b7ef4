"""Read the text of Word documents and PowerPoint presentations, Office Open XML."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from typing import Any

from memvault.documents.document_text import DocumentText, UnreadableDocument
from memvault.importers.archives import open_zip
from memvault.importers.docx import Docx
from memvault.importers.office_xml import child, name, parsed, value
from memvault.importers.plain_text import escaped, table
from memvault.importers.source import Source

_OLE = b"\xd0\xcf\x11\xe0"
"""The first bytes of an encrypted file, and of a file in the old binary format."""
_IMAGE = re.compile(r"!\[\[import:[^\]]*\]\]")
_TITLES = frozenset(("title", "ctrTitle"))


def open_package(data: bytes, kind: str) -> Source:
    """Open a document's zip file; ``kind`` describes the format in errors.

    Raises:
        UnreadableDocument: it is not a zip, or it is damaged.
    """
    if data.startswith(_OLE):
        raise UnreadableDocument("it is password-protected or in an old Office format")
    if not data.startswith(b"PK"):
        raise UnreadableDocument(f"it is not {kind}")
    try:
        package = open_zip("document", data)
        _ = package.names
    except (OSError, ValueError) as error:
        raise UnreadableDocument("it is damaged") from error
    return package


def set_core_properties(text: DocumentText, package: Source) -> None:
    """Set the properties in ``docProps/core.xml``, if it is readable."""
    try:
        root = parsed(package.read("docProps/core.xml"))
    except (OSError, ValueError):
        return
    values = {name(entry): str(entry.text or "") for entry in root}
    text.set_properties({**values, "author": values.get("creator")})


def related(package: Source, part: str, kind: str = "") -> dict[str, str]:
    """Return the parts that a part refers to, by relationship id; ``kind`` selects one type."""
    folder, file = posixpath.split(part)
    relations = f"{folder}/_rels/{file}.rels".lstrip("/")
    if relations not in package.name_set:
        return {}
    return {
        value(entry, "Id"): posixpath.normpath(
            posixpath.join("/", folder, value(entry, "Target"))
        ).lstrip("/")
        for entry in parsed(package.read(relations))
        if value(entry, "Type").endswith(kind)
    }


def main_part(package: Source, usual: str) -> str:
    """Return the name of the main part, or ``usual`` if the package does not specify it."""
    return next(iter(related(package, "", "/officeDocument").values()), usual)


def read_word(data: bytes) -> DocumentText:
    """Return the text of a Word document.

    Raises:
        UnreadableDocument: it is not a Word document, or its zip is damaged.
        ValueError: its XML is damaged or too large.
    """
    package = open_package(data, "a Word document")
    main = main_part(package, "word/document.xml")
    document, text = Docx(package, "document", main), DocumentText()
    text.add(_IMAGE.sub("", document.markdown(package.counts)))
    set_core_properties(text, package)
    return text


def read_slides(data: bytes) -> DocumentText:
    """Return a presentation's text, with a section for each slide.

    Raises:
        UnreadableDocument: it is not a presentation, or its zip is damaged.
        ValueError: its XML is damaged or too large.
    """
    package = open_package(data, "a PowerPoint presentation")
    start = main_part(package, "ppt/presentation.xml")
    slides, text = related(package, start), DocumentText()
    listed = child(parsed(package.read(start)), "sldIdLst")
    for number, entry in enumerate(() if listed is None else listed, 1):
        relation = next((entry.attrib[key] for key in entry.attrib if key.endswith("}id")), "")
        text.add(_slide(package, slides.get(relation, "")), f"Slide {number}")
        if text.is_full:
            break
    set_core_properties(text, package)
    return text


def _slide(package: Source, part: str) -> str:
    """Return a slide's title in bold, its other text, and its notes."""
    if part not in package.name_set:
        return ""
    titles, blocks = list[str](), list[str]()
    for shape in _shapes(parsed(package.read(part))):
        kind = value(child(shape, "nvSpPr", "nvPr", "ph"), "type")
        text = _table(shape) if name(shape) == "tbl" else _paragraphs(shape)
        if kind in _TITLES and text:
            titles.append(f"**{' '.join(text.split())}**")
        elif kind not in ("dt", "ftr", "sldNum"):
            blocks.append(text)
    for notes in related(package, part).values():
        if "notesSlide" in notes and notes in package.name_set:
            root = parsed(package.read(notes))
            blocks += (
                _paragraphs(shape)
                for shape in _shapes(root)
                if value(child(shape, "nvSpPr", "nvPr", "ph"), "type") == "body"
            )
    return "\n\n".join(filter(None, [*titles, *blocks]))


def _shapes(root: Any) -> Iterator[Any]:
    """Yield the shapes and tables of a slide in document order."""
    return (element for element in root.iter("{*}sp", "{*}tbl") if isinstance(element.tag, str))


def _paragraphs(shape: Any) -> str:
    lines = (
        "".join(
            "\n" if name(run) == "br" else str(run.text or "")
            for run in paragraph.iter("{*}t", "{*}br")
        )
        for paragraph in shape.iter("{*}p")
    )
    return "\n\n".join(escaped(line) for line in lines if line.strip())


def _table(element: Any) -> str:
    return table(
        [escaped(_plain(cell), is_line=True) for cell in row.iter("{*}tc")]
        for row in element.iter("{*}tr")
    )


def _plain(element: Any) -> str:
    return " ".join(str(part.text or "") for part in element.iter("{*}t"))
