"""Read files and compute everything that an index stores about their memories."""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from memvault.errors import MemvaultError, NotFound
from memvault.index.keyword.bm25f import KeywordDocument, field_lengths
from memvault.index.local.manifest import ManifestRow, columns_of
from memvault.index.protocol import LinkEntry, MemoryRecord
from memvault.index.text.analyzer import Analyzer, analyzer, detect_each, main_language
from memvault.index.text.passages import text_hashes
from memvault.index.text.sentence_blocks import (
    EncodedBlock,
    TextBlock,
    encode_blocks,
    keyword_documents,
    leading_part,
    passage_texts,
    split_memory,
)
from memvault.model import FileState, Memory
from memvault.named_tuple import NamedTuple
from memvault.store.memory_store import MemoryStore
from memvault.vault.document import etag

if TYPE_CHECKING:
    from memvault.index.embedding.arrays import Matrix
    from memvault.index.embedding.static import StaticEmbedder

Value = TypeVar("Value")

_REPORTED = 50
"""The number of files between two progress reports."""

Read = tuple[Memory, FileState, int]
"""A memory, its file's state, and the time in nanoseconds at which that state was read."""


def read_file(store: MemoryStore, state: FileState, expected_etag: str = "") -> Read | None:
    """Read a file and return its memory, or None if the file no longer exists.

    With ``expected_etag``, return None without parsing if the file has other content.
    For an unreadable file the memory contains only a name derived from its path, and a problem. If
    only the header cannot be indexed, it also contains the text.
    """
    checked = time.time_ns()
    try:
        data, fresh = store.read_bytes(state.path)
    except NotFound:
        return None
    except MemvaultError as error:
        problem = error.message.removesuffix(f": {state.path}")  # the path is shown next to it
        memory = store.parse(b"", state)._replace(etag="", problem=problem)
        return memory, state, checked
    if expected_etag and etag(data) != expected_etag:
        return None
    memory = store.parse(data, fresh)
    problem = header_problem(memory, fresh)
    if problem:
        bare = store.parse(b"", fresh)
        memory = bare._replace(etag=memory.etag, body=memory.body, problem=problem)
    return memory, fresh, checked


def header_problem(memory: Memory, state: FileState) -> str:
    """Return why a memory's header cannot be indexed, or an empty string if it can."""
    try:
        columns_of(ManifestRow(MemoryRecord.from_memory(0, state.size, memory, ""), state, 0, {}))
    except (ValueError, TypeError, RecursionError) as error:
        return f"the front matter cannot be indexed: {error}"
    return ""


def part_hash(memory: Memory, part: Memory) -> str:
    """Return the hash of a memory's header and indexed part; empty if all of it is indexed."""
    if part is memory:
        return ""
    folders = sorted(part.type_folders)
    fixed = part.path, part.mem_id, part.title, part.memory_type, part.tags, part.problem, folders
    return etag(repr((fixed, part.metadata, part.body)).encode("utf-8", "backslashreplace"))


class FileTask(NamedTuple):
    """Files to analyze, the uid of the first, and the number of indexed memories by language."""

    files: Sequence[FileState]
    first_uid: int
    languages: Mapping[str, int]


class Analysis(NamedTuple):
    """Index data for a batch of memories, in file order.

    ``hashes`` contains the hashes of the passages' texts. While ``vectors`` (of all passages, in
    order) is None, ``passages`` and ``text_blocks`` are the texts to embed, by uid. ``detected`` is
    each memory's language, empty if it cannot be detected; such a memory is analyzed in
    ``main_language``.
    """

    rows: Sequence[ManifestRow]
    documents: Sequence[KeywordDocument]
    blocks: Mapping[int, Sequence[EncodedBlock]]
    links: Mapping[int, LinkEntry]
    hashes: Mapping[int, array[int]]
    passages: Mapping[int, list[str]]
    text_blocks: Mapping[int, Sequence[TextBlock]]
    detected: Sequence[str]
    main_language: str
    vectors: Matrix | None = None


_EMPTY: Mapping[int, Any] = MappingProxyType({})
NO_ANALYSIS = Analysis((), (), _EMPTY, _EMPTY, _EMPTY, _EMPTY, _EMPTY, (), "")


def analyze(
    store: MemoryStore,
    task: FileTask,
    report: Callable[[int], None] = lambda _: None,
    language: str = "",
) -> Analysis:
    """Return the index data of files; deleted files are omitted.

    ``language`` is the main language, by default the most frequent one in the index and the task.
    ``report`` is called with the number of bytes processed.
    """
    setting, most = store.settings.language, store.settings.index.characters
    detected: list[str] = []
    analyzed: dict[int, _MemoryAnalysis] = {}
    waiting: dict[int, tuple[Read, Memory]] = {}
    size = 0
    for state in task.files:
        read = read_file(store, state)
        if read is None:
            continue
        if len(detected) % _REPORTED == 0:
            report(size)
        size += read[1].size
        uid, part = task.first_uid + len(detected), leading_part(read[0], most)
        detected += detect_each(setting, [part])
        if own := detected[-1] or language:  # now, while its markdown is parsed
            analyzed[uid] = _analyze_memory(uid, read, part, analyzer(own))
        else:
            waiting[uid] = read, part
    language = language or main_language(setting, detected, task.languages)
    for uid, (read, part) in waiting.items():
        analyzed[uid] = _analyze_memory(uid, read, part, analyzer(language))
    memories = dict(sorted(analyzed.items()))
    return Analysis(
        [memory.row for memory in memories.values()],
        [document for memory in memories.values() for document in memory.documents],
        {uid: memory.blocks for uid, memory in memories.items()},
        {uid: memory.links for uid, memory in memories.items()},
        {uid: text_hashes(memory.passages) for uid, memory in memories.items()},
        {uid: memory.passages for uid, memory in memories.items()},
        {uid: memory.text_blocks for uid, memory in memories.items()},
        detected,
        language,
    )


class _MemoryAnalysis(NamedTuple):
    """The index data of one memory, as in ``Analysis``."""

    row: ManifestRow
    documents: Sequence[KeywordDocument]
    blocks: Sequence[EncodedBlock]
    links: LinkEntry
    passages: list[str]
    text_blocks: Sequence[TextBlock]


def _analyze_memory(uid: int, read: Read, part: Memory, own: Analyzer) -> _MemoryAnalysis:
    """Return the index data of a memory, of whose text only ``part`` is indexed."""
    memory, fresh, checked = read
    links = LinkEntry.from_memory(memory)
    documents = keyword_documents(uid, part, own)
    record = MemoryRecord.from_memory(uid, fresh.size, memory, own.language)
    row = ManifestRow(record, fresh, checked, field_lengths(documents), part_hash(memory, part))
    text_blocks = split_memory(part)
    blocks = encode_blocks(text_blocks, own)
    return _MemoryAnalysis(row, documents, blocks, links, passage_texts(part), text_blocks)


def embed(analysis: Analysis, table: StaticEmbedder) -> Analysis:
    """Return an analysis with vectors and subwords in place of the texts to embed."""
    from memvault.index.local.soft_match import with_subwords

    vectors = table.embed([*chain.from_iterable(analysis.passages.values())])
    blocks = with_subwords(table, analysis.blocks, analysis.text_blocks)
    return analysis._replace(blocks=blocks, passages={}, text_blocks={}, vectors=vectors)


def joined(analyses: Sequence[Analysis]) -> Analysis:
    """Merge analyses; either all or none of them must be embedded."""
    if len(analyses) == 1:
        return analyses[0]
    vectors = [analysis.vectors for analysis in analyses if analysis.vectors is not None]
    return Analysis(
        [row for analysis in analyses for row in analysis.rows],
        [document for analysis in analyses for document in analysis.documents],
        _union(analysis.blocks for analysis in analyses),
        _union(analysis.links for analysis in analyses),
        _union(analysis.hashes for analysis in analyses),
        _union(analysis.passages for analysis in analyses),
        _union(analysis.text_blocks for analysis in analyses),
        [language for analysis in analyses for language in analysis.detected],
        analyses[0].main_language,
        _concatenated(vectors) if vectors else None,
    )


def _union(parts: Iterable[Mapping[int, Value]]) -> dict[int, Value]:
    return dict(chain.from_iterable(part.items() for part in parts))


def _concatenated(vectors: Sequence[Matrix]) -> Matrix:
    import numpy as np

    return np.concatenate(vectors)
