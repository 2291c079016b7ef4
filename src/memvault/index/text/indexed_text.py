"""One memory to what the two indexes take: counted terms for a block, texts for embedding."""

from __future__ import annotations

import re
import zlib
from array import array
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence, Set
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from memvault.index.protocol import DISTINCTIVE_BIT
from memvault.index.text import passages
from memvault.index.text.analysis import LONGEST_CACHED, MAX_CACHED, Analyser, TermCounts, tokenize
from memvault.index.text.bm25f import KeywordDocument
from memvault.index.text.passages import LONGEST_TITLE, split_blocks, split_passages
from memvault.model import Memory, Passage
from memvault.vault.document import header_tags, replace_surrogates
from memvault.vault.file_names import normalize_title, note_days
from memvault.vault.markdown import headings

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
    passages = split_passages(memory.body)
    found = []
    first = 0
    for start, end in split_blocks(passages):
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


_NAMED_ELSEWHERE = frozenset(
    "id memory_type tags tag title aliases alias created modified date updated importance "
    "confidence valid_from valid_to".split()
)
_LONGEST_VALUE = 500
_LONGEST_REPEATED = 500
"""Characters of tags, of aliases, of the path and of other values that stand in every block."""


def keyword_documents(uid: int, memory: Memory, analyser: Analyser) -> list[KeywordDocument]:
    """Count a memory's terms, one document a block; title and its header's tags are in each.

    A type's name is no text, nor is the date that a daily note is called by.

    The first block has all that the header says, the others as much of it as
    does not multiply with the body.
    """
    marks = [(place, text[:LONGEST_TITLE]) for place, _, _, text in headings(memory.body)]
    places = [place for place, _ in marks]
    common = _common(memory, analyser, None)
    found: list[KeywordDocument] = []
    for start, end in passages.split_blocks(passages.split_passages(memory.body)):
        if len(found) == 1:
            common = _common(memory, analyser, _LONGEST_REPEATED)
        body = analyser.terms(memory.body[start:end])
        inside = marks[bisect_left(places, start) : bisect_left(places, end)]
        above = " \n".join(text for _, text in inside)
        fields = {
            **common,
            "headings": analyser.terms(above).stems,
            "body": body.stems + common["body"],
            "identifier": common["identifier"] + body.wholes,
        }
        found.append(KeywordDocument(uid, fields, len(found)))
    return found


def _common(memory: Memory, analyser: Analyser, most: int | None) -> dict[str, Counter[str]]:
    """Return what a memory's blocks have in common, of each part at most so many characters.

    The first one's body, which has all, gets the file's name and the header's other values.
    """

    def terms(text: str) -> TermCounts:
        return analyser.terms(_beginning(text, most))

    title = _beginning(display_title(memory), LONGEST_TITLE if most else None)
    aliases = _beginning("\n".join(other_names(memory)), most)
    named = analyser.terms(f"{title}\n{aliases}")
    tags = terms("\n".join(header_tags(memory.metadata)))
    pure = PurePosixPath(memory.path)
    path = terms(replace_surrogates(memory.path)).wholes
    if pure.parts[0] == memory.memory_type:
        path = path - terms(pure.parts[0]).wholes
    extra = terms("\n".join(_values(memory.metadata)))
    name = analyser.terms("" if note_days(memory.path) else replace_surrogates(pure.stem))
    return {
        "title": named.stems,
        "tags": tags.stems,
        "body": Counter() if most else extra.stems + name.stems,
        "identifier": named.wholes + tags.wholes + path + extra.wholes,
    }


def display_title(memory: Memory) -> str:
    """Return a memory's title; none where it is only the date that a daily note is called by."""
    is_name = note_days(memory.path) and memory.title == PurePosixPath(memory.path).stem
    return "" if is_name else memory.title


def other_names(memory: Memory) -> list[str]:
    """Return a memory's aliases but for its title, which many a memory has among them."""
    title = normalize_title(memory.title)
    return [name for name in memory.aliases if normalize_title(name) != title]


def _beginning(text: str, most: int | None) -> str:
    """Return the words at a text's beginning that have at most so many characters."""
    if most is None or len(text) <= most:
        return text
    cut = text[:most]
    blank = max(cut.rfind(" "), cut.rfind("\n"))
    return cut[:blank] if blank > 0 else cut


def passage_texts(memory: Memory) -> list[str]:
    """Return each passage's text with the names, the headings and the tags that it stands under."""
    texts = []
    title = display_title(memory)[:LONGEST_TITLE]
    aliases = _beginning(", ".join(other_names(memory)), _LONGEST_REPEATED)
    tags = _beginning(", ".join(header_tags(memory.metadata)), _LONGEST_REPEATED)
    for start, end, heading in passages.split_passages(memory.body):
        above = (title, aliases, "" if heading == title else heading, tags)
        context = "\n".join(text for text in above if text)
        texts.append(f"{context}\n{memory.body[start:end]}".lstrip("\n"))
    return texts


def _values(metadata: dict[str, Any]) -> Iterator[str]:
    """Yield the short texts a person put under keys of their own."""
    for key, value in metadata.items():
        if key not in _NAMED_ELSEWHERE:
            for entry in value if isinstance(value, list) else [value]:
                if isinstance(entry, str) and len(entry) <= _LONGEST_VALUE:
                    yield entry
