"""Split bodies into passages, without omissions and without cutting words if possible."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from functools import lru_cache

from memvault.index.text.sentences import sentence_ends
from memvault.model import Passage
from memvault.vault.markdown import headings, lines

VERSION = 7
"""Increased whenever the same memory yields other passages."""

LONGEST_TITLE = 200
"""The maximum length of a title, a heading or a path of headings that is added to each passage."""
_MAX_PASSAGE = 1_200
_MAX_DENSE_PASSAGE = 400
_MAX_BLOCK = 6_000
_MERGE_AFTER = 1_000
"""The number of passages of one body after which short ones are merged across headings."""
_DENSE = re.compile("[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")


@lru_cache(maxsize=1)  # terms, vectors and sentences of a memory are computed in turn
def split_passages(body: str) -> list[Passage]:
    """Split a body into passages of up to about 200 words, preferably at headings and blank lines.

    Every character that is not white space belongs to exactly one passage. An empty body has one
    empty passage, so that a memory with only a title is indexed as well.
    """
    limit = _MAX_DENSE_PASSAGE if len(_DENSE.findall(body, 0, 2000)) > 400 else _MAX_PASSAGE
    passages: list[Passage] = []
    for start, end, heading in _paragraphs(body):
        last = passages[-1] if passages else None
        joined = last and (last.heading == heading or len(passages) > _MERGE_AFTER)
        if last and joined and end - last.start <= limit:
            passages[-1] = Passage(last.start, end, last.heading)
        elif end - start <= limit:
            passages.append(Passage(start, end, heading))
        else:
            passages += (Passage(*piece, heading) for piece in _pieces(body, start, end, limit))
    return passages or [Passage(0, 0, "")]


def split_blocks(found: list[Passage]) -> list[tuple[int, int]]:
    """Group adjacent passages into blocks of up to about 1,000 words."""
    blocks: list[tuple[int, int]] = []
    for passage in found:
        if blocks and passage.end - blocks[-1][0] <= _MAX_BLOCK:
            blocks[-1] = (blocks[-1][0], passage.end)
        else:
            blocks.append((passage.start, passage.end))
    return blocks


def _paragraphs(body: str) -> Iterator[tuple[int, int, str]]:
    """Yield paragraphs with the headings above them; a heading starts a new one."""
    above: list[tuple[int, str]] = []
    marks = {start: (level, text[:LONGEST_TITLE]) for start, _, level, text in headings(body)}
    start, end, heading = -1, -1, ""
    for line in lines(body):
        mark = marks.get(line.start())
        blank = not line[0].strip()
        if (blank or mark) and start >= 0:
            yield start, end, heading
            start = -1
        if mark:
            above = [*(entry for entry in above if entry[0] < mark[0]), mark]
            heading = _path([text for _, text in above])
        if not blank:
            start = line.start() if start < 0 else start
            end = line.start() + len(line[0].rstrip())
    if start >= 0:
        yield start, end, heading


def _path(above: list[str]) -> str:
    """Join headings, the outermost first, dropping outer ones until the path is short enough."""
    while len(path := " > ".join(above)) > LONGEST_TITLE and len(above) > 1:
        above = above[1:]
    return path


def _pieces(body: str, start: int, end: int, limit: int) -> Iterator[tuple[int, int]]:
    """Split an overlong paragraph where a sentence or line ends, at a space, or at the limit."""
    text, offset = body[start:end], start
    ends = {place + text[place : place + 1].isspace() for place in sentence_ends(text)}
    cuts = sorted(ends.union(match.end() for match in lines(text)))
    while end - start > limit:
        last = bisect_right(cuts, start + limit - offset) - 1
        cut = cuts[last] + offset if last >= 0 else 0
        if cut <= start + limit // 2:
            cut = body.rfind(" ", start + limit // 2, start + limit) + 1 or start + limit
        yield start, cut
        start = cut
    if end > start:
        yield start, end
