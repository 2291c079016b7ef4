"""What ranking reads of a memory's text, made once when the memory is indexed.

Whole memories and passages of 200 words hold a question's words far apart. So
each block of a body is cut into stretches of a sentence or two as well. Of a
stretch the index keeps codes of its terms and, from the moment that vectors are
made, tokens of the built-in table. The head, which is names and the header's tags, stands
before the stretches of each block: it belongs to all of them.
"""

from __future__ import annotations

import re
import zlib
from array import array
from collections import defaultdict
from collections.abc import Iterator, Sequence, Set
from typing import NamedTuple

from memvault.index import chunks
from memvault.index.analysis import LONGEST_CACHED, MAX_CACHED, Analyser, tokenize
from memvault.index.documents import display_title, other_names
from memvault.index.protocol import DISTINCTIVE_BIT
from memvault.model import Memory, Passage
from memvault.vault.codec import header_tags

VERSION = 1
"""Raised whenever the same memory gives other stretches or codes."""

TERM_ID_MASK = 0xFFFFFFFC
"""The bits of a term's code that are its number."""
SKIP_BIT = 2
"""The bit that is set for what stands between neighbours without parting them.

Those are stop words, which a query has lost, the single characters that scripts
without spaces have between their pairs, and further stems of one word.
"""
_LENGTH = 150
_LONGEST = 400
_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？；])")
_SPEAKER = re.compile(r"[A-Z][\w.'-]{0,20}(?: [\w.'-]{1,20}){0,2}: (?=\S)")
_HAS_DIGIT = re.compile(r"\d").search
_known_codes: defaultdict[str, dict[str, array[int]]] = defaultdict(dict)
"""By language, the codes of each chunk, as far as they were needed."""
_NEGATIONS = frozenset(
    "no not none never without cannot dont doesnt didnt isnt wasnt cant wont".split()
)


class TextBlock(NamedTuple):
    """A block of a body: the number of its first passage, its passages, head and stretches."""

    first: int
    passages: list[Passage]
    texts: list[str]


class EncodedBlock(NamedTuple):
    """A block as the index keeps it.

    ``counts`` says how many of ``codes`` the head has, and each stretch;
    ``tokens`` are the same for tokens, None until vectors are made.
    """

    first: int
    passages: list[Passage]
    counts: array[int]
    codes: array[int]
    subwords: tuple[array[int], array[int]] | None = None


def tokens_of(counts: bytes, tokens: bytes) -> tuple[array[int], array[int]]:
    """Return tokens as a block has them: how many the head and each stretch have, and which."""
    return array("H", counts), array("H", tokens)


def split_memory(memory: Memory) -> list[TextBlock]:
    """Cut a memory into blocks, each with the head and whole sentences of about 150 characters."""
    tags = ", ".join(header_tags(memory.metadata))[:_LENGTH]
    names = ", ".join(filter(None, (display_title(memory), *other_names(memory))))[:_LENGTH]
    head = f"{names}\n{tags}"
    passages = chunks.split_passages(memory.body)
    found = []
    first = 0
    for start, end in chunks.split_blocks(passages):
        last = first
        while last < len(passages) and passages[last].end <= end:
            last += 1
        lines = memory.body[start:end].splitlines()
        found.append(TextBlock(first, passages[first:last], [head, *_stretches(lines)]))
        first = last
    return found


def encode_blocks(blocks: Sequence[TextBlock], analyser: Analyser) -> list[EncodedBlock]:
    """Return blocks as the index keeps them, without tokens."""
    known = _known_codes[analyser.language]
    found = []
    for block in blocks:
        codes: array[int] = array("I")
        counts: array[int] = array("H")
        for text in block.texts:
            before = len(codes)
            for chunk in tokenize(text):
                own = known.get(chunk)
                codes.extend(_learnt(known, chunk, analyser) if own is None else own)
            counts.append(len(codes) - before)
        found.append(EncodedBlock(block.first, block.passages, counts, codes))
    return found


def _learnt(known: dict[str, array[int]], chunk: str, analyser: Analyser) -> array[int]:
    """Return the codes of a chunk's words, and remember them."""
    stops = analyser.stop_stems
    words = analyser.parts(chunk).words
    own = array("I", (code for forms in words for code in _codes(forms, stops)))
    if len(chunk) <= LONGEST_CACHED:
        if len(known) > MAX_CACHED:
            known.clear()
        known[chunk] = own
    return own


def _codes(forms: tuple[str, ...], stops: Set[str]) -> Iterator[int]:
    """Yield the codes of a word: of its stem, and of those that it has besides."""
    for place, stem in enumerate(forms):
        passed = place or len(stem) == 1 or stem in stops
        yield number_of(stem) | DISTINCTIVE_BIT * _tells(stem) | (SKIP_BIT if passed else 0)


def number_of(stem: str) -> int:
    """Return a term's number: 30 bits of a checksum, with room for ``TELLS`` and ``PASSED``."""
    return zlib.crc32(stem.encode("utf-8", "replace")) & TERM_ID_MASK


def _tells(stem: str) -> bool:
    return stem in _NEGATIONS or _HAS_DIGIT(stem) is not None


def _stretches(lines: Sequence[str]) -> list[str]:
    """Cut lines into stretches.

    Where a line begins with who is speaking, a stretch that begins inside the
    line is told so.
    """
    found: list[str] = []
    last = ""
    for speaker, sentence in _sentences(lines):
        if last and len(last) + len(sentence) > _LENGTH:
            found.append(last)
            last = ""
        last = f"{last} {sentence}" if last else f"{speaker}{sentence}"
    return [*found, last]


def _sentences(lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield sentences, each after the first of a line with the line's speaker."""
    for line in lines:
        match = _SPEAKER.match(line)
        speaker = ""
        for sentence in _END.split(line):
            for piece in _pieces(sentence.strip()):
                yield speaker, piece
                speaker = match[0] if match else ""


def _pieces(text: str) -> Iterator[str]:
    start = 0
    while len(text) - start > _LONGEST:
        space = text.rfind(" ", start + 1, start + _LONGEST)
        end = space + 1 if space > 0 else start + _LONGEST
        yield text[start:end].strip()
        start = end
    if text[start:]:
        yield text[start:]
