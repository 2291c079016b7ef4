"""The anchors of headings, and of blocks with an id such as ``^quote`` as in Obsidian."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from memvault.lazy_pattern import lazy_pattern
from memvault.vault.markdown import (
    find_block_id,
    headings,
    lines_with_code,
    mask_comments,
    without_block_id,
)

if TYPE_CHECKING:
    from markdown_it.rules_core import StateCore
    from markdown_it.token import Token

_NOT_IN_SLUG = lazy_pattern(r"[^\w\s-]")


def anchor_of(reference: str) -> str:
    """Return the anchor of a heading, or of a block such as ``^quote``, that a link refers to.

    It differs from the ids of the pages' own elements.
    """
    name = reference.rpartition("#")[2].strip()
    if name.startswith("^"):
        return f"b-{name[1:].lower()}"
    return heading_anchor(without_block_id(name))


def heading_anchor(text: str) -> str:
    """Return the anchor of a heading with a given text."""
    return f"h-{'-'.join(_NOT_IN_SLUG.sub('', text).lower().split())}"


def section_of(body: str, reference: str) -> str:
    """Return the first section whose heading a link refers to, or an empty string."""
    marks, anchor = _shown_headings(body, mask_comments(body)), anchor_of(reference)
    for number, (start, _, level, text) in enumerate(marks):
        if heading_anchor(text) == anchor:
            ends = (mark[0] for mark in marks[number + 1 :] if mark[2] <= level)
            return body[start : next(ends, len(body))]
    return ""


def _shown_headings(body: str, visible: str) -> list[tuple[int, int, int, str]]:
    """Return the headings outside comments; ``visible`` is the text with comments masked.

    A part of a text that begins or ends in a comment would show the comment.
    """
    return [mark for mark in headings(body) if visible[mark[0] : mark[1]].lstrip()[:1] == "#"]


def around_block(body: str, reference: str) -> str:
    """Return the parts of a text that may contain the block that a link refers to.

    A part begins and ends at a heading, or at a paragraph outside lists, quotes and comments.
    """
    anchor, visible = anchor_of(reference), mask_comments(body)
    boundaries = {start for start, *_ in _shown_headings(body, visible)}
    parts: list[str] = []
    begin, is_found, is_after_blank = 0, False, True
    for match, is_code in lines_with_code(body):
        start, line = match.start(), visible[match.start() : match.end()].rstrip()
        if not is_code and (start in boundaries or (is_after_blank and line[:1].isalpha())):
            if is_found:
                parts.append(body[begin:start])
            begin, is_found = start, False
        is_after_blank = not line
        if not is_found and not is_code:
            block_id = find_block_id(line.rstrip("# \t"))
            is_found = block_id is not None and anchor_of(f"^{block_id[1]}") == anchor
    # A blank line keeps the paragraphs of two parts apart.
    return "\n".join([*parts, body[begin:] if is_found else ""])


def set_block_ids(state: StateCore) -> None:
    """Turn block ids into anchors.

    An id at the end of a heading or a paragraph belongs to it, or to the list item that begins with
    it. An id in a separate paragraph or table row belongs to the block above. If the environment
    contains the anchor of a ``block``, only that block and the footnotes remain.
    """
    if "^" not in state.src and "block" not in state.env:
        return
    tokens = state.tokens
    opened: list[int] = []
    starts: dict[int, int] = {}
    removed: set[int] = set()
    anchors: dict[str, int] = {}
    for number, token in enumerate(tokens):
        if token.nesting > 0:
            opened.append(number)
        elif token.nesting < 0:
            starts[number] = opened.pop()
        elif match := find_block_id(token.content):
            block, own = _block_with_id(tokens, number, opened, starts, match.start())
            if block >= 0:
                token.content = token.content[: match.start()]
                removed.update(own)
                anchors.setdefault(anchor_of(match[0].strip()), block)
    for anchor, block in anchors.items():
        tokens[block].attrSet("id", f"{state.env.get('docId', '')}{anchor}")
    kept: Iterable[int] = range(len(tokens))
    if "block" in state.env:
        ends = {start: end for end, start in starts.items()}
        kept = _block_positions(tokens, ends, anchors.get(state.env["block"], -1))
    state.tokens = [tokens[number] for number in kept if number not in removed]


def _block_with_id(
    tokens: Sequence[Token],
    number: int,
    opened: Sequence[int],
    starts: Mapping[int, int],
    length: int,
) -> tuple[int, Iterable[int]]:
    """Return the position of the block with the id at the end of a text, or -1.

    Also return the positions of the tokens that contain only the id. ``length`` is the length of
    the text before the id, and ``starts`` are the opening tokens by closing token.
    """
    if tokens[number].type != "inline":
        return -1, ()
    parent, above = tokens[number - 1].type, tokens[number - 2]
    if parent == "heading_open" and length:
        return number - 1, ()
    if parent == "paragraph_open" and length:
        return number - 2 if above.type == "list_item_open" else number - 1, ()
    if parent == "paragraph_open" and number > 1 and above.nesting <= 0:
        own = range(number - 1, number + 2)
        return -1 if above.type == "heading_close" else starts.get(number - 2, number - 2), own
    if parent == "td_open" and above.type == "tr_open" and not length:
        end = next(at for at in range(number, len(tokens)) if tokens[at].type == "tr_close")
        is_empty = not any(cell.content for cell in tokens[number + 1 : end])
        if is_empty and tokens[end + 1].type == "tbody_close":
            return opened[-4], range(number - 2, end + 1)
    return -1, ()


def _block_positions(tokens: Sequence[Token], ends: Mapping[int, int], block: int) -> Iterator[int]:
    """Yield the positions of the tokens of a block, if there is one, and of the footnotes.

    A list item is wrapped in its own list. ``ends`` are the closing tokens by opening token.
    """
    if block < 0:
        return
    inside = range(block, ends.get(block, block) + 1)
    if tokens[block].type == "list_item_open":
        outer = max(start for start, end in ends.items() if start < block < end)
        if number := tokens[block].info:
            tokens[outer].attrSet("start", number)
        yield from (outer, *inside, ends[outer])
    else:
        yield from inside
    for start, end in ends.items():
        if tokens[start].type == "footnote_reference_open":
            yield from range(start, end + 1)
