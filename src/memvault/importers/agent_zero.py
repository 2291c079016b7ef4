"""Import Agent Zero's memory: the documents in ``memory/NAME/index.pkl``, LangChain's FAISS store.

The file is a pickle, which could run code; ``pickles`` reads it without running it (Agent Zero 0.9,
python/helpers/memory.py; LangChain 0.3). Chunks of knowledge files are skipped.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterator
from typing import Any

from memvault.importers import convert, pickles, records
from memvault.importers.items import ImportedNote, Item, SkippedItem, note_path
from memvault.importers.source import Source

_BESIDE = ("embedding.json", "knowledge_import.json")
"""Other files in a memory's folder."""
_KEYS = frozenset(("id", "area", "timestamp"))
_OF_KNOWLEDGE = ("knowledge_source", "source_path", "source_file")


def _index(store: str) -> str:
    return f"{store[: -len('.pkl')]}.faiss"


def _stores(source: Source) -> list[str]:
    return [
        name
        for name in source.with_endings("index.pkl")
        if len(source.names) == 1 or _index(name) in source.name_set
    ]


def claims(source: Source) -> set[str]:
    """Return the names of the stores, and of their indexes and settings."""
    claimed: set[str] = set()
    for store in _stores(source):
        folder = store[: store.rfind("/") + 1]
        claimed.update((store, _index(store), *(f"{folder}{file}" for file in _BESIDE)))
    return claimed & source.name_set


def read(source: Source) -> Iterator[Item]:
    """Yield each document as a note, titled by its first words, in a folder per memory."""
    seen: Counter[str] = Counter()
    for name in _stores(source):
        folder = name.rpartition("/")[0].rpartition("/")[2]
        try:
            store = pickles.parse(source.read(name))
        except (OSError, pickles.UnreadablePickle) as error:
            yield SkippedItem(name, records.reason_for(error))
            continue
        of_knowledge = 0
        documents = pickles.mappings_with(store, "page_content")
        for number, document in enumerate(documents, 1):
            metadata = convert.object_at(document, "metadata")
            if any(metadata.get(key) for key in _OF_KNOWLEDGE):
                of_knowledge += 1
            else:
                location = f"{name}, document {number}"
                for item in records.convert_record(
                    location, _note, location, folder, document, metadata
                ):
                    if isinstance(item, ImportedNote):
                        source.counts.converted("memory")
                        source.counts.unused_properties("memory", metadata, _KEYS)
                        # agents may have copies of the same memory
                        key = convert.unique_key_or(seen, item.key, f"{folder}/{item.key}")
                        item = item._replace(key=key)
                    yield item
        if of_knowledge:
            source.counts.omitted("knowledge file chunk", of_knowledge)
            reason = "chunks of knowledge files: import the knowledge folder instead"
            yield SkippedItem(f"{name}, {of_knowledge} pieces", reason)


def _note(location: str, folder: str, document: dict[Any, Any], metadata: dict[Any, Any]) -> Item:
    text = convert.text(document.get("page_content"))
    title = convert.title_of(text)
    if not title:
        return SkippedItem(location, "has no text")
    when = convert.parsed_time(metadata.get("timestamp"))
    memory_id = _text(metadata.get("id")) or _text(document.get("id"))
    key = memory_id or f"{folder}/{title} {zlib.crc32(text.encode('utf-8', 'replace')):08x}"
    area = _text(metadata.get("area")) or "main"
    header = {"title": title, "area": area, "created": when, "modified": when}
    return ImportedNote(key, note_path(title, *filter(None, [folder])), text, header)


def _text(value: Any) -> str:
    """Return a string or number as text; "" for other values, which could be arbitrarily long."""
    return str(value) if isinstance(value, str | int | float) else ""
