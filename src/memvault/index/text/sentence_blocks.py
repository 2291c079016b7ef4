"""Compute the data that an index stores about a memory: term counts, blocks, texts to embed."""

from __future__ import annotations

import zlib
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from functools import cache
from itertools import chain
from pathlib import PurePosixPath
from typing import Any

from memvault.index.keyword.bm25f import EXACT_FIELD, KeywordDocument
from memvault.index.protocol import DISTINCTIVE_BIT, SKIP_BIT
from memvault.index.text.analyzer import Analyzer, ChunkCache, Forms, Terms, tokenize
from memvault.index.text.passages import (
    LONGEST_TITLE,
    MAX_EMBEDDED_TOKENS,
    MAX_TOKENS,
    estimate_tokens,
    prefix_of_tokens,
    split_blocks,
    split_passages,
)
from memvault.index.text.sentences import split_sentences
from memvault.lazy_pattern import lazy_pattern
from memvault.model import Memory, Passage
from memvault.named_tuple import NamedTuple
from memvault.sanitize import replace_surrogates
from memvault.vault.date_ranges import note_days
from memvault.vault.markdown import headings, is_link_line, parse_heading
from memvault.vault.memory_file import header_tags
from memvault.vault.names import is_identifier, normalize_title

VERSION = 6
"""Incremented when the stretches, term ids or passage texts of a memory change."""

TERM_ID_MASK = 0xFFFFFFFC
"""The bits of a code that contain the term's id."""
_STRETCH_LENGTH = 150
_MAX_PIECE = 400
_MIN_LINKS = 2
"""Minimum number of links in a link list; the text of a single link may be the memory's subject."""
_MIN_LINK_LINES, _MIN_LINK_SHARE = 5, 0.8
"""Minimum number of links, and minimum share of the text, in a link list with other text."""
_SPEAKER = lazy_pattern(r"[A-Z][\w.'-]{0,20}(?: [\w.'-]{1,20}){0,2}: (?=\S)")
_DIGIT = lazy_pattern(r"\d")
_NEGATIONS = frozenset(
    "no not none never without cannot dont doesnt didnt isnt wasnt cant wont".split()
)


class TextBlock(NamedTuple):
    """A block of a body: adjacent passages, and their text split into stretches.

    ``first`` is the number of the block's first passage in the body. ``texts`` has the head first,
    then the stretches. ``links`` has the stretches of link lists, which are not compared with a
    query.
    """

    first: int
    passages: list[Passage]
    texts: list[str]
    links: Sequence[str] = ()


class EncodedBlock(NamedTuple):
    """A block as stored in the index.

    ``stretch_lengths`` has the number of ``term_ids`` of the head and of each stretch; the term ids
    of a link list follow. ``subwords`` has the same two arrays for subwords, without link lists,
    and is None until vectors are computed.
    """

    first: int
    passages: list[Passage]
    stretch_lengths: array[int]
    term_ids: array[int]
    subwords: tuple[array[int], array[int]] | None = None


def decode_subwords(counts: bytes, tokens: bytes) -> tuple[array[int], array[int]]:
    """Return stored subwords as arrays: how many the head and each stretch have, and their ids."""
    return array("H", counts), array("H", tokens)


def leading_part(memory: Memory, max_chars: int) -> Memory:
    """Return a memory with the leading lines of its body, up to ``max_chars`` characters.

    The rest of a longer memory is not indexed. 0 means no limit. A line is cut if it is longer than
    half of the limit.
    """
    if not 0 < max_chars < len(memory.body):
        return memory
    end = memory.body.rfind("\n", 0, max_chars) + 1
    return memory._replace(body=memory.body[: end if end > max_chars // 2 else max_chars])


def split_memory(memory: Memory) -> list[TextBlock]:
    """Split a memory into blocks, each with a head and stretches of about 150 characters.

    A stretch consists of whole sentences. Stretches of link lists are kept separate, because they
    contain the titles of other memories but do not answer questions about their subjects.
    """
    tags = ", ".join(subject_labels(memory))[:_STRETCH_LENGTH]
    names = ", ".join(filter(None, (display_title(memory), *other_names(memory))))[:_STRETCH_LENGTH]
    head = f"{names}\n{tags}"
    passages = split_passages(memory.body)
    blocks = []
    first = 0
    for start, end in split_blocks(passages):
        last = first
        while last < len(passages) and passages[last].end <= end:
            last += 1
        lines = memory.body[start:end].splitlines()
        stretches = _stretches(lines)
        compared, links = ([], stretches) if _is_link_list(lines) else (stretches, [])
        blocks.append(TextBlock(first, passages[first:last], [head, *compared], links))
        first = last
    return blocks


def encode_blocks(blocks: Sequence[TextBlock], analyzer: Analyzer) -> list[EncodedBlock]:
    """Encode blocks as they are stored in the index, without subwords."""
    codes_of = _known_codes(analyzer).__getitem__
    encoded = []
    for block in blocks:
        codes: array[int] = array("I")
        counts: array[int] = array("H")
        for number, text in enumerate([*block.texts, *block.links]):
            before = len(codes)
            codes.frombytes(b"".join(map(codes_of, tokenize(text))))
            if number < len(block.texts):
                counts.append(len(codes) - before)
        encoded.append(EncodedBlock(block.first, block.passages, counts, codes))
    return encoded


@cache
def _known_codes(analyzer: Analyzer) -> ChunkCache[str, bytes]:
    """Return the codes of all cached chunks, as the bytes of an array of codes."""
    stops = analyzer.stop_stems
    codes_of = ChunkCache[Forms, bytes](
        lambda forms: array("I", _codes(forms, stops)).tobytes()
    ).__getitem__
    return ChunkCache(lambda chunk: b"".join(map(codes_of, analyzer.parts(chunk).words)))


def _codes(forms: Forms, stops: Set[str]) -> Iterator[int]:
    """Yield the codes of a word's stems."""
    for number, stem in enumerate(forms):
        is_skipped = number or len(stem) == 1 or stem in stops
        yield (
            term_id(stem)
            | DISTINCTIVE_BIT * _is_distinctive(stem)
            | (SKIP_BIT if is_skipped else 0)
        )


def term_id(stem: str) -> int:
    """Return a term's id: 30 bits of a CRC, with the two lowest bits free for flags.

    The flags are ``DISTINCTIVE_BIT`` and ``SKIP_BIT``.
    """
    return zlib.crc32(stem.encode("utf-8", "replace")) & TERM_ID_MASK


def _is_distinctive(stem: str) -> bool:
    return stem in _NEGATIONS or _DIGIT.search(stem) is not None


def _is_link_list(lines: Sequence[str]) -> bool:
    """Return whether lines are a link list: two or more links without any other text.

    With five or more links, there may be a little text. Headings do not count as text.
    """
    text_lines = [line for line in lines if line.strip() and not parse_heading(line)[0]]
    size = sum(map(len, text_lines))
    bracketed = [line for line in text_lines if "[" in line]
    if sum(map(len, bracketed)) < _MIN_LINK_SHARE * size:  # parsing each line takes long
        return False
    linked = [len(line) for line in bracketed if is_link_line(line)]
    is_long = len(linked) >= _MIN_LINK_LINES
    share = _MIN_LINK_SHARE if is_long else 1
    return len(linked) >= _MIN_LINKS and sum(linked) >= share * size


def _stretches(lines: Sequence[str]) -> list[str]:
    """Combine the sentences of lines into stretches.

    If a line begins with a speaker's name, stretches that begin later in the line are prefixed with
    it.
    """
    stretches: list[str] = []
    current = ""
    for speaker, sentence in _sentences(lines):
        if current and len(current) + len(sentence) > _STRETCH_LENGTH:
            stretches.append(current)
            current = ""
        current = f"{current} {sentence}" if current else f"{speaker}{sentence}"
    return [*stretches, current]


def _sentences(lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield sentences with their line's speaker, which is empty for a line's first sentence."""
    for line in lines:
        speaker = None
        for sentence in split_sentences(line):
            for piece in _pieces(sentence) if len(sentence) > _MAX_PIECE else (sentence,):
                yield speaker or "", piece
                if speaker is None:
                    match = _SPEAKER.match(line)
                    speaker = match[0] if match else ""


def _pieces(text: str) -> Iterator[str]:
    start = 0
    while len(text) - start > _MAX_PIECE:
        space = text.rfind(" ", start + 1, start + _MAX_PIECE)
        end = space + 1 if space > 0 else start + _MAX_PIECE
        yield text[start:end].strip()
        start = end
    if text[start:]:
        yield text[start:]


_RESERVED_KEYS = frozenset(
    "id memory_type tags tag title aliases alias created modified date updated importance "
    "confidence valid_from valid_to".split()
)
_MAX_VALUE = 500
_MAX_REPEATED = 500
"""The maximum length of tags, aliases, path and other values repeated in every block."""
_MAX_CONTEXT = 60
"""The maximum token estimate of the lines above an embedded passage."""


def keyword_documents(uid: int, memory: Memory, analyzer: Analyzer) -> list[KeywordDocument]:
    """Return the term counts of a memory: one document per block, each with the title and tags.

    The memory type and the date in a daily note's name are not counted. The first document includes
    all header values; the other documents include only a limited part of each.
    """
    marks = [(position, text[:LONGEST_TITLE]) for position, _, _, text in headings(memory.body)]
    heading_starts = [position for position, _ in marks]
    common = _shared_terms(memory, analyzer, None)
    documents: list[KeywordDocument] = []
    for start, end in split_blocks(split_passages(memory.body)):
        if len(documents) == 1:
            common = _shared_terms(memory, analyzer, _MAX_REPEATED)
        stems, wholes = analyzer.list_terms(memory.body[start:end])
        inside = marks[bisect_left(heading_starts, start) : bisect_left(heading_starts, end)]
        above = " \n".join(text for _, text in inside)
        fields = {
            "title": Counter(common["title"]),
            "tags": Counter(common["tags"]),
            "body": Counter(chain(stems, common["body"])),
            EXACT_FIELD: Counter(chain(common[EXACT_FIELD], wholes)),
            "headings": Counter(analyzer.list_terms(above).stems),
        }
        documents.append(KeywordDocument(uid, fields, len(documents)))
    return documents


def _shared_terms(
    memory: Memory, analyzer: Analyzer, max_length: int | None
) -> dict[str, list[str]]:
    """Return the terms common to all blocks of a memory.

    Each part contributes at most ``max_length`` characters. The first block has no ``max_length``:
    its body also includes the file name and other header values.
    """

    def terms(text: str) -> Terms:
        return analyzer.list_terms(_prefix(text, max_length))

    title = _prefix(display_title(memory), LONGEST_TITLE if max_length else None)
    aliases = _prefix("\n".join(other_names(memory)), max_length)
    names = analyzer.list_terms(f"{title}\n{aliases}")
    tags = terms("\n".join(subject_labels(memory)))
    path = terms(replace_surrogates(memory.path)).wholes
    folder, _, _ = memory.path.partition("/")
    for whole in terms(folder).wholes if _names_type(folder, memory) else ():
        if whole in path:
            path.remove(whole)
    values = terms("\n".join(_values(memory.metadata)))
    body: list[str] = []
    if max_length is None:
        stem = PurePosixPath(memory.path).stem
        name = analyzer.list_terms("" if note_days(memory.path) else replace_surrogates(stem))
        body = values.stems + name.stems
    return {
        "title": names.stems,
        "tags": tags.stems,
        "body": body,
        EXACT_FIELD: names.wholes + tags.wholes + path + values.wholes,
    }


def display_title(memory: Memory) -> str:
    """Return a memory's title, or an empty string if it is only the date of a periodic note."""
    is_name = note_days(memory.path) and memory.title == PurePosixPath(memory.path).stem
    return "" if is_name else memory.title


def subject_labels(memory: Memory) -> list[str]:
    """Return a memory's tags and the names of its folders, which are often its subject.

    Folders that are named after one of the vault's memory types, the memory's own type or a number
    are omitted.
    """
    folders = [
        name
        for name in memory.path.split("/")[:-1]
        if not _names_type(name, memory) and not name.isdigit()
    ]
    return [*header_tags(memory.metadata), *map(replace_surrogates, folders)]


def _names_type(folder: str, memory: Memory) -> bool:
    return folder in memory.type_folders or folder == memory.memory_type


def other_names(memory: Memory) -> list[str]:
    """Return a memory's aliases, except an alias equal to its title."""
    title = normalize_title(memory.title)
    return [name for name in memory.aliases if normalize_title(name) != title]


def _prefix(text: str, max_length: int | None) -> str:
    """Return the leading words of a text, with at most ``max_length`` characters."""
    if max_length is None or len(text) <= max_length:
        return text
    cut = text[:max_length]
    space = max(cut.rfind(" "), cut.rfind("\n"))
    return cut[:space] if space > 0 else cut


def passage_texts(memory: Memory) -> list[str]:
    """Return each passage's text, preceded by title, aliases, headings and tags.

    The preceding lines have at most 60 tokens, and fewer if the passage is long; outer headings are
    dropped first. A title that is an identifier is omitted, because a vector cannot represent it.
    """
    texts = []
    title = display_title(memory)[:LONGEST_TITLE]
    title = "" if is_identifier(title) else title
    aliases = _prefix(", ".join(other_names(memory)), _MAX_REPEATED)
    tags = _prefix(", ".join(subject_labels(memory)), _MAX_REPEATED)
    common = estimate_tokens(f"{title}\n{aliases}\n{tags}")
    sizes = {"": common}
    for start, end, heading in split_passages(memory.body):
        text = memory.body[start:end]
        heading = "" if heading == title else heading
        if heading not in sizes:
            sizes[heading] = common + estimate_tokens(heading)
        above, size = (title, aliases, heading, tags), sizes[heading]
        if size > MAX_EMBEDDED_TOKENS - MAX_TOKENS:  # shorter lines fit above any passage
            available = min(_MAX_CONTEXT, MAX_EMBEDDED_TOKENS - estimate_tokens(text))
            above = _shortened(above, available) if size > available else above
        context = "\n".join(line for line in above if line)
        texts.append(f"{context}\n{text}".lstrip("\n"))
    return texts


def _shortened(above: tuple[str, str, str, str], available: int) -> tuple[str, str, str, str]:
    """Cut title, aliases, headings and tags to fit; title and headings have priority."""
    title, aliases, heading, tags = above
    title = prefix_of_tokens(title, available)
    available -= estimate_tokens(title)
    while estimate_tokens(heading) > available and " > " in heading:
        heading = heading.partition(" > ")[2]
    heading = prefix_of_tokens(heading, available)
    available -= estimate_tokens(heading)
    aliases = prefix_of_tokens(aliases, available)
    return title, aliases, heading, prefix_of_tokens(tags, available - estimate_tokens(aliases))


def _values(metadata: dict[str, Any]) -> Iterator[str]:
    """Yield the short texts in header keys that have no special meaning."""
    for key, value in metadata.items():
        if key not in _RESERVED_KEYS:
            for entry in value if isinstance(value, list) else [value]:
                if isinstance(entry, str) and len(entry) <= _MAX_VALUE:
                    yield entry
