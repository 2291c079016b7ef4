"""URLs of pages, on the server and in the folder of a static site."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote

if TYPE_CHECKING:
    from memvault.secrets.detector import SecretDetector


_HIDDEN = "hidden-"


class HasHeader(Protocol):
    """A memory, or its record in the index."""

    @property
    def mem_id(self) -> str:
        """The memId."""

    @property
    def path(self) -> str:
        """The path in the vault."""

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The header."""


def public_id(memory: HasHeader, detector: SecretDetector) -> str:
    """Return a memory's name in URLs: its memId, or a digest if that is a secret."""
    if detector.masking(memory.metadata)(memory.mem_id) == memory.mem_id:
        return memory.mem_id
    return hidden_name(memory.path)


def hidden_name(path: str) -> str:
    """Return a memory's name in URLs that does not reveal its path."""
    return f"{_HIDDEN}{sha256(path.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}"


def is_hidden(name: str) -> bool:
    """Return whether a name in a URL may represent a memId that is a secret."""
    return name.startswith(_HIDDEN)


class Addresses(Protocol):
    """The URLs for a page's links; they are None for a memory or file without a page."""

    is_site: bool
    """Whether the pages are static files, so nothing is searched or rendered on demand."""
    writes: bool
    """Whether the pages can edit memories."""

    def page(self, name: str) -> str:
        """Return the URL of a page such as ``search``, ``map``, ``tags`` or ``all``."""

    def asset(self, name: str) -> str:
        """Return the URL of the style sheet or the script."""

    def memory(self, mem_id: str) -> str | None:
        """Return the URL of a memory by its public id."""

    def file(self, path: str) -> str | None:
        """Return the URL of an attachment."""

    def tag(self, name: str) -> str:
        """Return the URL of the memories with a tag."""

    def type(self, name: str) -> str:
        """Return the URL of the memories of a type."""


PICTURES = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
    ".avif": "image/avif",
}
"""The media types of images by file extension."""


class ServedAddresses:
    """The URLs of ``memvault web`` below a folder, which are the same on each page."""

    is_site = False

    def __init__(self, base: str = "", writes: bool = False) -> None:
        self._base = base
        self.writes = writes

    def page(self, name: str) -> str:
        """See ``Addresses.page``."""
        return f"{self._base}/" if name == "search" else f"{self._base}/{name}"

    def asset(self, name: str) -> str:
        """See ``Addresses.asset``."""
        return f"{self._base}/{name}"

    def memory(self, mem_id: str) -> str | None:
        """See ``Addresses.memory``."""
        return f"{self._base}/m/{quote(mem_id, safe='')}"

    def file(self, path: str) -> str | None:
        """See ``Addresses.file``."""
        return f"{self._base}/f/{quote(path)}"

    def tag(self, name: str) -> str:
        """See ``Addresses.tag``."""
        return f"{self._base}/?tag={quote(name, safe='')}"

    def type(self, name: str) -> str:
        """See ``Addresses.type``."""
        return f"{self._base}/?type={quote(name, safe='')}"


class SiteAddresses:
    """The URLs on the page ``at`` of a static site, relative to that page.

    ``memories`` maps public ids to the paths of memories' pages, and ``files`` maps vault paths to
    the paths of attachments; ``at`` and these paths are relative to the site's folder.
    """

    is_site = True
    writes = False

    def __init__(self, memories: Mapping[str, str], files: Mapping[str, str], at: str) -> None:
        self._memories = memories
        self._files = files
        self._folder = posixpath.dirname(at)
        self.linked: set[str] = set()
        """The attachments whose URL was requested."""

    def page(self, name: str) -> str:
        """See ``Addresses.page``."""
        return self._to("index.html" if name == "search" else f"{name}.html")

    def asset(self, name: str) -> str:
        """See ``Addresses.asset``."""
        return self._to(name)

    def memory(self, mem_id: str) -> str | None:
        """See ``Addresses.memory``."""
        page = self._memories.get(mem_id)
        return None if page is None else self._to(page)

    def file(self, path: str) -> str | None:
        """See ``Addresses.file``."""
        target = self._files.get(path)
        if target is None:
            return None
        self.linked.add(path)
        return self._to(target)

    def tag(self, name: str) -> str:
        """See ``Addresses.tag``."""
        return f"{self.page('tags')}#{quote(f'tag-{name}', safe='')}"

    def type(self, name: str) -> str:
        """See ``Addresses.type``."""
        return f"{self.page('all')}#{quote(f'type-{name}', safe='')}"

    def _to(self, path: str) -> str:
        return quote(posixpath.relpath(path, self._folder or "."), errors="surrogateescape")
