"""Parse the XML in office documents and e-books.

Elements are identified by local name, because the variants of a format use different namespaces.
Entities are not expanded, and nothing is fetched.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

_MAX_ELEMENTS = 1_000_000


def name(element: Any) -> str:
    """Return an element's local name; empty for a comment."""
    tag = element.tag
    return tag.rpartition("}")[2] if isinstance(tag, str) else ""


def value(element: Any, attribute: str = "val") -> str:
    """Return an attribute by local name, or an empty string."""
    for key, text in () if element is None else element.attrib.items():
        if key.rpartition("}")[2] == attribute:
            return str(text)
    return ""


def child(element: Any, *names: str) -> Any:
    """Return the element at a path of names, or None."""
    path = "/".join(f"{{*}}{part}" for part in names)
    return None if element is None else element.find(path)


def parsed(data: bytes, allows_doctype: bool = False) -> Any:
    """Return the root element.

    Raises:
        ValueError: if the XML is damaged or too large, or has a DOCTYPE that is not allowed.
    """
    from lxml import etree

    if data.count(b"<") > _MAX_ELEMENTS:
        raise ValueError(f"more than {_MAX_ELEMENTS:,} elements")
    parser = etree.XMLParser(resolve_entities=False, no_network=True, remove_comments=True)
    try:
        root = etree.fromstring(data, parser)
    except etree.XMLSyntaxError as error:
        raise ValueError(f"damaged XML: {error.msg}") from error
    if root.getroottree().docinfo.doctype and not allows_doctype:
        raise ValueError("the XML has a DOCTYPE, which office programs never write")
    return root


def each(data: bytes, tag: str) -> Iterator[Any]:
    """Yield each element with a local name, and free it afterward; raises ``ValueError``."""
    from lxml import etree

    events = etree.iterparse(
        io.BytesIO(data), tag=f"{{*}}{tag}", resolve_entities=False, no_network=True
    )
    try:
        for _, element in events:
            yield element
            element.clear()
            while element.getprevious() is not None:
                del element.getparent()[0]
    except etree.XMLSyntaxError as error:
        raise ValueError(f"damaged XML: {error.msg}") from error
