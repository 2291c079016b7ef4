"""Links between imported notes: found by their names in the source, written as the vault's."""

from __future__ import annotations

import posixpath
import re
from typing import Any

from memvault.lazy_pattern import lazy_pattern
from memvault.vault import markdown, markdown_inline
from memvault.vault.markdown_inline import Link

SCHEME = "import:"
"""The beginning of a link's target that is an id of the source."""
_ID_LINK = lazy_pattern(r"!?\[\[import:([^\[\]\n|\\]+)(?:\\?\|([^\[\]\n]*))?\]\]")


class LinkTargets:
    """The names in a source of its notes and attachments, with their paths in the vault."""

    def __init__(self) -> None:
        self._by_ref: dict[str, str] = {}
        self._by_path: dict[str, str] = {}
        self._by_name: dict[str, set[str]] = {}
        self._with_stem: dict[str, set[str]] = {}

    def add_taken(self, path: str) -> None:
        """Add the path of a memory that the vault has."""
        bare = _bare(path)
        self._with_stem.setdefault(posixpath.basename(bare), set()).add(bare)

    def add(self, path: str, refs: tuple[str, ...], target: str) -> None:
        """Add an item by its path and ids in the source."""
        for ref in refs:
            self._by_ref.setdefault(ref, target)
        bare = _bare(path)
        self._by_path.setdefault(bare, target)
        self._by_name.setdefault(posixpath.basename(bare), set()).add(bare)
        self.add_taken(target)

    def of_ref(self, ref: str) -> str | None:
        """Return the path in the vault of the item with an id."""
        return self._by_ref.get(ref)

    def of_link(self, link: Link, path: str) -> str | None:
        """Return the path in the vault of the item that a link in a note at a path names."""
        bare = _bare(link.target)
        beside = _bare(markdown_inline.path_beside(link.target, path))
        for name in (beside, bare) if not link.is_wikilink else (bare, beside):
            if name in self._by_path:
                return self._by_path[name]
        if link.is_wikilink:
            ends = self._by_name.get(posixpath.basename(bare), set())
            fitting = sorted(name for name in ends if f"/{name}".endswith(f"/{bare}"))
            if fitting:
                return self._by_path[fitting[0]]
        return None

    def wikilink(self, target: str) -> str:
        """Return the text of a wikilink to a path of the vault: its name if that is unique."""
        shown = target[:-3] if target.lower().endswith(".md") else target
        return posixpath.basename(shown) if self.is_unique(target) else shown

    def is_unique(self, target: str) -> bool:
        """Return whether no other item or memory has the name of a path of the vault."""
        return len(self._with_stem.get(posixpath.basename(_bare(target)), ())) < 2


def _bare(path: str) -> str:
    """Return a path as a key: ignoring case, without ``.md``."""
    key = path.casefold().removeprefix("./")
    return key.removesuffix(".md")


def rewritten(text: str, path: str, target: str, names: LinkTargets) -> str:
    """Return a note's text with links that lead to the imported items.

    ``path`` is the note's path in the source, ``target`` its path in the vault. A link that still
    leads there is left as it is; a link to an id that the source lacks becomes its shown text.
    """
    edits: list[tuple[Link, str]] = []
    for link in markdown.links(text):
        if link.target.startswith(SCHEME):
            continue
        target_path = names.of_link(link, path)
        if target_path is not None and not _leads_to(link, target, target_path, names):
            edits.append((link, _written(link, text, target, target_path, names)))
    text = markdown_inline.replaced(text, edits)
    if f"[[{SCHEME}" not in text:
        return text
    return markdown.replace_outside_code(_ID_LINK, lambda match: _by_id(match, names), text)


def resolved(value: Any, names: LinkTargets) -> Any:
    """Return a value of a header whose links to ids lead to the imported items."""
    if isinstance(value, list):
        return [resolved(entry, names) for entry in value]
    if not isinstance(value, str) or f"[[{SCHEME}" not in value:
        return value
    return _ID_LINK.sub(lambda match: _by_id(match, names), value)


def _leads_to(link: Link, note: str, target_path: str, names: LinkTargets) -> bool:
    """Return whether a link in a note of the vault leads to a path as it is written."""
    if link.is_wikilink:
        if not names.is_unique(target_path):
            return _bare(target_path) == _bare(link.target)
        return f"/{_bare(target_path)}".endswith(f"/{_bare(link.target)}")
    return _bare(markdown_inline.path_beside(link.target, note)) == _bare(target_path)


def _written(link: Link, text: str, note: str, target_path: str, names: LinkTargets) -> str:
    if link.is_wikilink:
        return names.wikilink(target_path)
    path = markdown_inline.relative_path(target_path, posixpath.dirname(note))
    return markdown_inline.written_target(link, path, text)


def _by_id(match: re.Match[str], names: LinkTargets) -> str:
    whole, ref, shown = match[0], match[1].strip(), match[2]
    target_path, heading = names.of_ref(ref), ""
    if target_path is None:
        ref, sign, heading = ref.partition("#")
        target_path, heading = names.of_ref(ref), sign + heading
    if target_path is None:
        return shown or ref
    written = names.wikilink(target_path) + heading
    separator = "\\|" if "\\|" in whole else "|"
    label = f"{separator}{shown}" if shown and shown != written else ""
    return f"{'!' if whole.startswith('!') else ''}[[{written}{label}]]"
