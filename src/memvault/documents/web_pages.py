"""Read the text of HTML pages and EPUB books."""

from __future__ import annotations

import posixpath
import re
from typing import Any
from urllib.parse import unquote

from memvault.documents.document_text import DocumentText, UnreadableDocument
from memvault.documents.office import open_package
from memvault.importers import html_markdown
from memvault.importers.office_xml import child, name, parsed, value
from memvault.importers.plain_text import escaped
from memvault.importers.source import Source
from memvault.vault.decoding import decode

_CHARSET = re.compile(rb"<(?:meta|\?xml)[^>]{0,200}?(?:charset|encoding)=[\"' ]*([\w-]{2,40})")
_HEADING = re.compile(r"^#{1,6} ", re.MULTILINE)


def read_html(data: bytes, encoding: str) -> DocumentText:
    """Return a page's text, without its navigation.

    Raises:
        UnreadableDocument: it is binary.
        ValueError: it is nested too deeply, or has too many tags.
    """
    text = DocumentText()
    page, title = _page(data, encoding)
    text.add(page)
    text.set_properties({"title": title})
    return text


def _page(data: bytes, encoding: str) -> tuple[str, str]:
    """Return the text of a page as markdown, and its title."""
    declared = _CHARSET.search(data[:2048])
    decoded = decode(data, declared[1].decode() if declared and encoding == "auto" else encoding)
    if decoded.encoding == "binary":
        raise UnreadableDocument("it is binary, not text")
    root = html_markdown.tree(decoded.text)
    if root is None:
        return "", ""
    title = root.findtext(".//title") or ""
    for element in root.xpath("//nav | //*[@role='navigation'] | //img"):
        _remove(element)
    return html_markdown.tree_markdown(root, len(decoded.text)), title


def _remove(element: Any) -> None:
    """Remove an element, but not the text after it."""
    parent, before = element.getparent(), element.getprevious()
    if parent is None:
        return
    if element.tail and before is not None:
        before.tail = (before.tail or "") + element.tail
    elif element.tail:
        parent.text = (parent.text or "") + element.tail
    parent.remove(element)


def read_book(data: bytes) -> DocumentText:
    """Return the text of an EPUB book, with a section for each chapter.

    Raises:
        UnreadableDocument: it is not an EPUB book, its zip is damaged, or it is copy-protected.
        ValueError: its XML or HTML is damaged or too large.
    """
    package = open_package(data, "an EPUB book")
    try:
        container = parsed(package.read("META-INF/container.xml"), allows_doctype=True)
    except OSError as error:
        raise UnreadableDocument("it is not an EPUB book") from error
    start = next((value(file, "full-path") for file in container.iter("{*}rootfile")), "")
    root = parsed(package.read(start), allows_doctype=True)
    text = DocumentText()
    metadata = child(root, "metadata")
    values = {name(entry): entry.text for entry in reversed(() if metadata is None else metadata)}
    text.set_properties({**values, "author": values.get("creator"), "created": values.get("date")})
    files = {value(item, "id"): value(item, "href") for item in root.iter("{*}item")}
    folder, encrypted = posixpath.dirname(start), _encrypted(package)
    for number, entry in enumerate(root.iter("{*}itemref"), 1):
        href = unquote(files.get(value(entry, "idref"), ""))
        part = posixpath.normpath(posixpath.join(folder, href))
        if part in encrypted:
            raise UnreadableDocument("it is copy-protected")
        if part in package.name_set:
            chapter, title = _page(package.read(part), "auto")
            has_heading = _HEADING.search(chapter) is not None
            shown = escaped(title, is_line=True) or f"Chapter {number}"
            text.add(chapter, "" if has_heading else shown)
        if text.is_full:
            break
    return text


def _encrypted(package: Source) -> frozenset[str]:
    """Return the names of the encrypted files; fonts often are, even if the text is not."""
    if "META-INF/encryption.xml" not in package.name_set:
        return frozenset()
    root = parsed(package.read("META-INF/encryption.xml"), allows_doctype=True)
    return frozenset(unquote(value(entry, "URI")) for entry in root.iter("{*}CipherReference"))
