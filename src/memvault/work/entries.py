"""A folder of small markdown files, one for each entry, that people may edit by hand.

A file's header holds what the program reads, its body the entry's text. Names
are made from the entry's key; which entry a file is says its header, so that
renaming it in an editor changes nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from memvault.errors import Conflict, MemvaultError
from memvault.vault import atomic, codec, layout
from memvault.vault.frontmatter import parse_header, split
from memvault.vault.store import Store

__all__ = ["Entries", "Entry"]


class Entry(NamedTuple):
    """One file: its header as plain values, its text, and the bytes it had."""

    path: str
    header: dict[str, Any]
    text: str
    etag: str


class Entries:
    """The entries below one folder of the vault; ``key`` is the header's key that names them."""

    def __init__(self, store: Store, folder: str, key: str) -> None:
        self._store = store
        self._folder = folder
        self._key = key

    def all(self) -> dict[str, Entry]:
        """Return every entry by its key, in the order of keys.

        A file that cannot be read, or whose header is broken, is left out; of
        two files with one key the first by name counts. A file without the key
        is named by its stem.
        """
        found: dict[str, Entry] = {}
        for path in self._files():
            entry = self._read(path)
            if entry is not None:
                found.setdefault(self._name(entry), entry)
        return dict(sorted(found.items()))

    def unreadable(self) -> list[str]:
        """Name the files that are no entries: broken, binary, unreadable."""
        return [path for path in self._files() if self._read(path) is None]

    def put(self, name: str, header: Mapping[str, Any], text: str) -> str:
        """Write an entry, over an older one of the same key; return its path.

        Of an older one all header lines that are not named here stay as they are.

        Raises:
            StorageError: the disk refused.
        """
        old = self.all().get(name)
        if old is None:
            return self._create(name, {self._key: name, **header}, text)
        self._change(old, lambda data: codec.edit(data, dict(header), f"\n{text.strip()}\n"))
        return old.path

    def change(self, entry: Entry, header: Mapping[str, Any]) -> None:
        """Change header lines of an entry; its text stays.

        Raises:
            Conflict: the file is not as it was when it was read.
        """
        self._change(entry, lambda data: codec.edit(data, dict(header), None))

    def remove(self, name: str) -> bool:
        """Take an entry away, its bytes kept as a revision; say whether it was there."""
        entry = self.all().get(name)
        if entry is None:
            return False
        path = self._store.root / entry.path
        try:
            self._store.history.keep(self._revisions(entry), atomic.read(path))
            path.unlink()
        except FileNotFoundError:
            return False
        return True

    def _change(self, entry: Entry, edited: Callable[[bytes], bytes]) -> None:
        path = self._store.root / entry.path
        data = atomic.read(path)
        if codec.etag(data) != entry.etag:
            raise Conflict(f"{entry.path} was changed meanwhile", "try again")
        fresh = edited(data)
        if fresh != data:
            self._store.history.keep(self._revisions(entry), data)
            atomic.replace(path, fresh)

    def _create(self, name: str, header: Mapping[str, Any], text: str) -> str:
        data = codec.encode_new(header, f"\n{text.strip()}\n")
        stem = layout.slug(name, 80)
        digest = hashlib.blake2b(name.encode(), digest_size=3).hexdigest()
        for candidate in (stem, f"{stem}-{digest}", f"{stem}-{codec.etag(data)}"):
            path = f"{self._folder}/{candidate}.md"
            try:
                atomic.create(self._store.root / path, data)
            except FileExistsError:
                continue
            return path
        raise Conflict(f"{self._folder} has no free name for {name!r}", "rename one of its files")

    def _files(self) -> list[str]:
        folder = self._store.root / self._folder
        if folder.is_symlink():  # never out of the vault
            return []
        try:
            names = sorted(path.name for path in folder.glob("*.md") if path.name[0] != ".")
        except OSError:
            return []
        return [f"{self._folder}/{name}" for name in names]

    def _read(self, path: str) -> Entry | None:
        try:
            data, _ = self._store.read_bytes(path)
            text = codec.decode(data)
            if text.encoding == "binary":
                return None
            parts = split(text.text)
            header = parse_header(parts.header) if parts.before else {}
        except (MemvaultError, ValueError, OSError):
            return None
        return Entry(path, header, parts.body.strip(), codec.etag(data))

    def _name(self, entry: Entry) -> str:
        given = entry.header.get(self._key)
        return str(given) if given not in (None, "") else Path(entry.path).stem

    def _revisions(self, entry: Entry) -> str:
        return layout.derived_id(entry.path)
