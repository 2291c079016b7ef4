"""One memory to what the two indexes take: counted terms for a block, texts for embedding."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

from memvault.index import chunks
from memvault.index.analysis import Analyser, TermCounts
from memvault.index.bm25f import KeywordDocument
from memvault.index.chunks import LONGEST_TITLE
from memvault.model import Memory
from memvault.vault.codec import header_tags, replace_surrogates
from memvault.vault.daily import note_days
from memvault.vault.markdown import headings
from memvault.vault.normal_form import normalize_title

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
    for start, end in chunks.split_blocks(chunks.split_passages(memory.body)):
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
    for start, end, heading in chunks.split_passages(memory.body):
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
