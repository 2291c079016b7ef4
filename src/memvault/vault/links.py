"""Links from a memory's text to other notes: the one reader of them.

Read are ``[[note]]``, ``[[note#heading|shown]]``, ``[[note#^block]]``, embeds with a
``!`` in front, and markdown's ``[shown](note.md#heading)``, as Obsidian reads them:
not in code, not in its comments, and not what leads to another place than a file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from memvault.vault.markdown import mask_code

_LINK = re.compile(
    r"!?+(?:\[\[(?P<inside>[^\[\]\n]++)\]\]"
    r"|\[(?P<shown>(?:[^\[\]\n]++|\[[^\[\]\n]*+\])*+)\]"
    r"\((?:<(?P<bracketed>[^<>\n]++)>|(?P<bare>[^\s()<>]++(?:\([^\s()<>]*+\)[^\s()<>]*+)*+))"
    r"(?:[ \t]++(?:\"[^\"\n]*+\"|'[^'\n]*+'))?+\))"
)
_ELSEWHERE = re.compile(r"[A-Za-z][\w+.-]*+:|//|#")


class Link(NamedTuple):
    """A link as it stands in a text.

    ``target`` is what it names, as ``recall.resolve.linked`` takes it; ``heading`` is the
    heading, or the block with its ``^``; ``shown`` the text that readers see, where it
    has one of its own. ``span`` is where the whole link stands, and ``target_span`` where
    in it the target does, as it is written: markdown writes ``%20`` for a blank.
    """

    target: str
    heading: str
    shown: str
    is_embed: bool
    is_wikilink: bool
    span: tuple[int, int]
    target_span: tuple[int, int]


def links(text: str) -> Iterator[Link]:
    """Yield the links of a text to other files, in their order; none to a place within it."""
    if "[[" not in text and "](" not in text:
        return
    for match in _LINK.finditer(mask_code(text)):
        link = _wikilink(match) if match["inside"] is not None else _markdown(match, text)
        if link is not None:
            yield link


def _wikilink(match: re.Match[str]) -> Link | None:
    written, bar, shown = match["inside"].partition("|")
    written = written.removesuffix("\\") if bar else written  # as a table has to write it
    target, _, heading = written.partition("#")
    target, caret, block = target.partition("^")
    name = target.strip()
    if not name or target.startswith(" "):  # [[ -f x ]] is of a shell
        return None
    start = match.start("inside")
    return Link(
        name,
        heading.strip() or f"{caret}{block.strip()}",
        shown.strip(),
        match[0].startswith("!"),
        True,
        match.span(),
        (start, start + len(target.rstrip())),
    )


def _markdown(match: re.Match[str], text: str) -> Link | None:
    from urllib.parse import unquote

    place = "bare" if match["bare"] is not None else "bracketed"
    if _ELSEWHERE.match(match[place]):
        return None
    target, _, heading = match[place].partition("#")
    name = unquote(target).strip()
    if not name:
        return None
    start = match.start(place)
    return Link(
        name,
        unquote(heading),
        text[slice(*match.span("shown"))],
        match[0].startswith("!"),
        False,
        match.span(),
        (start, start + len(target)),
    )
