"""One memory to what the two indexes take: counted terms for a block, texts for embedding."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

from memvault.index import chunks
from memvault.index.analysis import Analyser
from memvault.index.keyword import KeywordDocument
from memvault.model import Memory
from memvault.vault.codec import printable
from memvault.vault.markdown import headings

__all__ = ["keyword_documents", "passage_texts"]

_NAMED_ELSEWHERE = frozenset(
    "id memory_type tags tag title created modified date updated importance confidence".split()
)
_LONGEST_VALUE = 500


def keyword_documents(uid: int, memory: Memory, analyser: Analyser) -> list[KeywordDocument]:
    """Count a memory's terms, one document a block; title, tags and type are in each."""
    title = analyser.terms("\n".join([memory.title, *_aliases(memory.metadata)]))
    tags = analyser.terms("\n".join(memory.tags))
    kind = analyser.terms(memory.memory_type)
    extra = analyser.terms("\n".join(_values(memory.metadata)))
    path = analyser.terms(printable(memory.path))
    name = analyser.terms(printable(PurePosixPath(memory.path).stem))
    marks = list(headings(memory.body))
    found: list[KeywordDocument] = []
    for start, end in chunks.blocks(chunks.passages(memory.body)):
        body = analyser.terms(memory.body[start:end])
        above = " \n".join(text for place, _, _, text in marks if start <= place < end)
        wholes = title.wholes + tags.wholes + path.wholes + body.wholes + extra.wholes
        stems = body.stems if found else body.stems + extra.stems + name.stems
        found.append(
            KeywordDocument(
                uid,
                {
                    "title": title.stems,
                    "headings": analyser.terms(above).stems if above else Counter(),
                    "body": stems,
                    "tags": tags.stems,
                    "type": kind.stems,
                    "identifier": wholes,
                },
            )
        )
    return found


def passage_texts(memory: Memory) -> list[str]:
    """Return each passage's text with the title and headings that it stands under."""
    texts = []
    for start, end, heading in chunks.passages(memory.body):
        context = memory.title if heading in ("", memory.title) else f"{memory.title}\n{heading}"
        texts.append(f"{context}\n{memory.body[start:end]}")
    return texts


def _aliases(metadata: dict[str, Any]) -> list[str]:
    value = metadata.get("aliases")
    entries = value if isinstance(value, list) else [value]
    return [entry for entry in entries if isinstance(entry, str)]


def _values(metadata: dict[str, Any]) -> Iterator[str]:
    """Yield the short texts a person put under keys of their own."""
    for key, value in metadata.items():
        if key not in _NAMED_ELSEWHERE:
            for entry in value if isinstance(value, list) else [value]:
                if isinstance(entry, str) and len(entry) <= _LONGEST_VALUE:
                    yield entry
