"""Split bodies into passages that fit an embedder's input.

The token limit is an estimate from the text alone, so the keyword index can split bodies the same
way as the vectors without loading a tokenizer.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from math import ceil

from memvault.files.plain_files import digest_of
from memvault.index.text.sentences import sentence_ends
from memvault.lazy_pattern import lazy_pattern
from memvault.model import Passage
from memvault.vault.markdown import headings, lines_with_code

VERSION = 10
"""Incremented when memories are split into different passages."""

LONGEST_TITLE = 200
"""The maximum length of a title, a heading or a heading path that is added to each passage."""
MAX_TOKENS = 210
"""The maximum estimate of a passage's tokens. The built-in transformer reads 256: two of these mark
start and end, and the rest is for the lines above the passage and for estimation errors.
"""
MAX_EMBEDDED_TOKENS = 240
"""The maximum estimate of a passage's tokens, including the lines above it."""
_MAX_PASSAGE = 1_200
"""The maximum length of a passage in characters, in case it is mostly white space."""
_MAX_BLOCK = 6_000
_MERGE_AFTER = 1_000
"""The number of passages of a body above which short ones are merged even across headings."""
_TOKEN = lazy_pattern(r"[A-Za-z][a-z]{0,6}|[0-9]{1,2}|[\u00aa-\u1fff]{1,4}|\S")
"""A piece of text of about one token. WordPiece splits long words, and splits camel-case names and
long numbers into even shorter pieces. A punctuation mark, or a character of a script without
spaces, is one token.
"""
_ITEM = lazy_pattern(r"[ \t>]*(?:[-*+]|\d{1,9}[.)])[ \t]")


def text_hashes(texts: Iterable[str]) -> array[int]:
    """Return a 64-bit hash of each text, the key of its vectors."""
    digests = (digest_of(text.encode("utf-8", "surrogatepass"), 8) for text in texts)
    return array("Q", (int.from_bytes(digest, "little") for digest in digests))


def estimate_tokens(text: str) -> int:
    """Return the approximate number of tokens of a text, without loading a tokenizer.

    Estimates of texts separated by white space add up to the estimate of the whole.
    """
    return len(_TOKEN.findall(text))


def prefix_of_tokens(text: str, max_tokens: int) -> str:
    """Return the longest prefix of a text whose estimated token count is at most ``max_tokens``."""
    behind = next(islice(_TOKEN.finditer(text), max(max_tokens, 0), None), None)
    if behind is None:
        return text
    end = behind.start()
    while end and not text[end - 1].isspace():
        end -= 1
    return text[: end or behind.start()].rstrip(", \n")


@lru_cache(maxsize=1)  # a memory's terms, vectors and sentences are computed in succession
def split_passages(body: str) -> list[Passage]:
    """Split a body into passages of up to about 130 words, preferably at headings and blank lines.

    A code block or a table that fits is not cut. Longer text is cut into roughly equal pieces,
    between items, at ends of lines or sentences, or else between words.

    Every non-space character belongs to exactly one passage. An empty body has one empty passage,
    so that a memory with only a title is also indexed.
    """
    passages: list[Passage] = []
    filled = 0  # the estimated tokens in the last passage
    for paragraph, heading in _paragraphs(body):
        start, end, size = _span(paragraph)
        last = passages[-1] if passages else None
        joined = last and (last.heading == heading or len(passages) > _MERGE_AFTER)
        if last and joined and _fits(last.start, end, filled + size):
            passages[-1] = Passage(last.start, end, last.heading)
            filled += size
        elif _fits(start, end, size):
            passages.append(Passage(start, end, heading))
            filled = size
        else:
            for first, behind, tokens in _pieces(body, paragraph):
                passages.append(Passage(first, behind, heading))
                filled = tokens
    return passages or [Passage(0, 0, "")]


def split_blocks(passages: list[Passage]) -> list[tuple[int, int]]:
    """Group adjacent passages into blocks of up to about 1,000 words."""
    blocks: list[tuple[int, int]] = []
    for passage in passages:
        if blocks and passage.end - blocks[-1][0] <= _MAX_BLOCK:
            blocks[-1] = (blocks[-1][0], passage.end)
        else:
            blocks.append((passage.start, passage.end))
    return blocks


_Part = tuple[int, int, int]
"""The start and end of a part of a body, and the part's estimated number of tokens."""
_Line = tuple[int, int, int, bool]
"""The start, end and token estimate of a line without trailing white space, and whether it is code.
"""


def _span(lines: Sequence[_Line]) -> _Part:
    return lines[0][0], lines[-1][1], sum(line[2] for line in lines)


def _fits(start: int, end: int, size: int) -> bool:
    return size <= MAX_TOKENS and end - start <= _MAX_PASSAGE


def _paragraphs(body: str) -> Iterator[tuple[list[_Line], str]]:
    """Yield the lines of each paragraph without blank lines, and the headings above it.

    A heading and the paragraph after it form one paragraph. Blank lines in code do not end a
    paragraph.
    """
    above: list[tuple[int, str]] = []
    lines: list[_Line] = []
    heading = ""
    has_text = False  # ignoring headings
    find_tokens = _TOKEN.findall
    marked = {start: (level, title) for start, _, level, title in headings(body)}
    for line, is_code in lines_with_code(body):
        text = line[0].rstrip()
        if not text:
            if has_text and not is_code:
                yield lines, heading
                lines, has_text = [], False
            continue
        level, title = marked.get(line.start(), (0, ""))
        if level:
            if lines:
                yield lines, heading
                lines = []
            above = [*(entry for entry in above if entry[0] < level), (level, title)]
            heading = _path([title[:LONGEST_TITLE] for _, title in above])
        has_text = not level
        start = line.start()
        lines.append((start, start + len(text), len(find_tokens(text)), is_code))
    if lines:
        yield lines, heading


def _path(above: list[str]) -> str:
    """Join headings, outermost first, dropping outer ones until the path is short enough."""
    while len(path := " > ".join(above)) > LONGEST_TITLE and len(above) > 1:
        above = above[1:]
    return path


def _pieces(body: str, paragraph: Sequence[_Line]) -> Iterator[_Part]:
    """Split an overlong paragraph into passages of about equal size."""
    first, last, remaining = _span(paragraph)
    target, filled = _share(remaining), 0
    for start, end, tokens in _parts(body, paragraph):
        if filled and (filled >= target or not _fits(first, end, filled + tokens)):
            yield first, last, filled
            remaining -= filled
            target, filled = _share(remaining), 0
        first = first if filled else start
        last, filled = end, filled + tokens
    yield first, last, filled


def _share(size: int) -> float:
    """Return the passage size that splits a text into the smallest number of equal passages."""
    return size / ceil(size / MAX_TOKENS) if size else 0.0


def _parts(body: str, paragraph: Sequence[_Line]) -> Iterator[_Part]:
    """Yield the largest parts of an overlong paragraph that fit and should not be split.

    The parts are code blocks, tables, list items, the text between them, or pieces of any of these.
    """
    groups: list[tuple[str, list[_Line]]] = []
    for line in paragraph:
        start, end, _, is_code = line
        text = body[start:end]
        is_row = text.lstrip(" \t>").startswith("|")
        kind = "code" if is_code else "table" if is_row else "text"
        if not groups or groups[-1][0] != kind or (kind == "text" and _ITEM.match(text)):
            groups.append((kind, []))
        groups[-1][1].append(line)
    for kind, group in groups:
        start, end, size = _span(group)
        line_ends = [line[1] for line in group]
        if _fits(start, end, size):
            yield start, end, size
        elif kind == "text":
            ends = [start + end for end in sentence_ends(body[start:end])]
            whole = sorted(set(ends).intersection(line_ends))  # sentences do not span lines
            yield from _split(body, start, end, (whole, ends, line_ends))
        else:
            yield from _split(body, start, end, (line_ends,))


def _split(body: str, start: int, end: int, places: Sequence[Sequence[int]]) -> Iterator[_Part]:
    """Cut an overlong text at the first kind of boundary, and overlong pieces at the next kind."""
    if not places:
        yield from _words(body, start, end)
        return
    inside = places[0][bisect_right(places[0], start) : bisect_left(places[0], end)]
    if not inside:
        yield from _split(body, start, end, places[1:])
        return
    for cut in (*inside, end):
        text = body[start:cut].rstrip()
        first, last = start + len(text) - len(text.lstrip()), start + len(text)
        size = estimate_tokens(text)
        if not _fits(first, last, size):
            yield from _split(body, first, last, places[1:])
        elif size:
            yield first, last, size
        start = cut


def _words(body: str, start: int, end: int) -> Iterator[_Part]:
    """Yield parts that end at a space near the limit, or anywhere if there is none."""
    tokens = [token.span() for token in _TOKEN.finditer(body, start, end)]
    starts = [start for start, _ in tokens]
    ends = [end for _, end in tokens]
    count = len(tokens)
    first = 0
    while first < count:
        last = min(
            first + ceil(_share(count - first)), bisect_right(ends, starts[first] + _MAX_PASSAGE)
        )
        if last < count:
            space = body.rfind(" ", starts[(first + last) // 2], ends[last - 1] + 1)
            last = bisect_left(starts, space) if space > 0 else last
        yield starts[first], ends[last - 1], last - first
        first = last
