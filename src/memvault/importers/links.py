"""Rewrite links between imported notes to their paths in the vault."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from typing import Any

from memvault.lazy_pattern import lazy_pattern
from memvault.vault import markdown, markdown_inline
from memvault.vault.markdown_inline import Link
from memvault.vault.names import link_distance

SCHEME = "import:"
"""Prefix of link targets that are ids in the source."""
_ID_LINK = lazy_pattern(r"!?\[\[import:([^\[\]\n|\\]+)(?:\\?\|([^\[\]\n]*))?\]\]")


class LinkTargets:
    """Maps the names and ids of items in the source to their paths in the vault."""

    def __init__(self) -> None:
        self._by_ref: dict[str, str] = {}
        self._by_path: dict[str, str] = {}
        self._by_name: dict[str, set[str]] = {}
        self._with_stem: dict[str, set[str]] = {}

    def add_existing(self, path: str) -> None:
        """Add the path of a memory in the vault."""
        bare = _bare(path)
        self._with_stem.setdefault(posixpath.basename(bare), set()).add(bare)

    def add(self, path: str, refs: tuple[str, ...], target: str) -> None:
        """Add an item by its path and ids in the source."""
        for ref in refs:
            self._by_ref.setdefault(ref, target)
        bare = _bare(path)
        self._by_path.setdefault(bare, target)
        self._by_name.setdefault(posixpath.basename(bare), set()).add(bare)
        self.add_existing(target)

    def path_of_ref(self, ref: str) -> str | None:
        """Return the path in the vault of the item with an id."""
        return self._by_ref.get(ref)

    def path_of_link(self, link: Link, path: str) -> str | None:
        """Return the path in the vault of a link's target; ``path`` is the note with the link."""
        bare, source = _bare(link.target), _bare(path)
        beside = _bare(markdown_inline.path_beside(link.target, path))
        for name in (beside, bare) if not link.is_wikilink else (bare, beside):
            if name in self._by_path:
                return self._by_path[name]
        if link.is_wikilink:
            ends = self._by_name.get(posixpath.basename(bare), set())
            fitting = [name for name in ends if f"/{name}".endswith(f"/{bare}")]
            if fitting:  # As in Obsidian, prefer the file closest to the note.
                closest = min(fitting, key=lambda name: link_distance(name, source))
                return self._by_path[closest]
        return None

    def wikilink(self, target: str) -> str:
        """Return the wikilink target for a path in the vault: the file name if it is unique."""
        shown = target[:-3] if target.lower().endswith(".md") else target
        return posixpath.basename(shown) if self.is_unique(target) else shown

    def is_unique(self, target: str) -> bool:
        """Return whether the name of a path in the vault is unique."""
        return len(self._with_stem.get(posixpath.basename(_bare(target)), ())) < 2


def _bare(path: str) -> str:
    """Return a path in lower case and without ``.md``."""
    key = path.casefold().removeprefix("./")
    return key.removesuffix(".md")


def rewrite_links(text: str, path: str, target: str, targets: LinkTargets) -> str:
    """Return a note's text with links to the imported items.

    ``path`` is the note's path in the source, and ``target`` is its path in the vault. Links that
    still work are unchanged; a link to an unknown id becomes its label.
    """
    edits: list[tuple[Link, str]] = []
    for link in markdown.links(text):
        if link.target.startswith(SCHEME):
            continue
        target_path = targets.path_of_link(link, path)
        if target_path is not None and not _leads_to(link, target, target_path, targets):
            edits.append((link, _written(link, text, target, target_path, targets)))
    text = markdown_inline.replaced(text, edits)
    if f"[[{SCHEME}" not in text:
        return text
    return markdown.replace_outside_code(_ID_LINK, lambda match: _by_id(match, targets), text)


def with_targets(text: str, new_target: Callable[[str], str]) -> str:
    """Replace the targets of links in text, except wikilinks; "" leaves a target unchanged."""
    edits = [
        (link, markdown_inline.written_target(link, target, text))
        for link in markdown.links(text)
        if not link.is_wikilink and (target := new_target(link.target))
    ]
    return markdown_inline.replaced(text, edits)


def resolve_links(value: Any, targets: LinkTargets) -> Any:
    """Return a header value with links to ids replaced by links to the imported items."""
    if isinstance(value, list):
        return [resolve_links(entry, targets) for entry in value]
    if not isinstance(value, str) or f"[[{SCHEME}" not in value:
        return value
    return _ID_LINK.sub(lambda match: _by_id(match, targets), value)


def _leads_to(link: Link, note: str, target_path: str, targets: LinkTargets) -> bool:
    """Return whether a link in a note already resolves to the given path in the vault."""
    if link.is_wikilink:
        if not targets.is_unique(target_path):
            return _bare(target_path) == _bare(link.target)
        return f"/{_bare(target_path)}".endswith(f"/{_bare(link.target)}")
    return _bare(markdown_inline.path_beside(link.target, note)) == _bare(target_path)


def _written(link: Link, text: str, note: str, target_path: str, targets: LinkTargets) -> str:
    if link.is_wikilink:
        return targets.wikilink(target_path)
    path = markdown_inline.relative_path(target_path, posixpath.dirname(note))
    return markdown_inline.written_target(link, path, text)


def _by_id(match: re.Match[str], targets: LinkTargets) -> str:
    whole, ref, shown = match[0], match[1].strip(), match[2]
    target_path, heading = targets.path_of_ref(ref), ""
    if target_path is None:
        ref, sign, heading = ref.partition("#")
        target_path, heading = targets.path_of_ref(ref), sign + heading
    if target_path is None:
        return shown or ref
    written = targets.wikilink(target_path) + heading
    separator = "\\|" if "\\|" in whole else "|"
    label = f"{separator}{shown}" if shown and shown != written else ""
    return f"{'!' if whole.startswith('!') else ''}[[{written}{label}]]"
