"""Changed files read directly, to be searched beside an index that cannot be written now."""

from __future__ import annotations

import time
from collections.abc import Mapping

from memvault.errors import MemvaultError, NotFound
from memvault.index.analysis import analyser, detect_languages
from memvault.index.diff import FolderDiff
from memvault.index.documents import keyword_documents, passage_texts
from memvault.index.manifest import IndexedFile, ManifestRow, columns_of
from memvault.index.protocol import MemoryRecord
from memvault.index.sentences import encode_blocks, split_memory
from memvault.index.snapshot import Overlay
from memvault.model import FileState, Memory
from memvault.vault.store import MemoryStore

Read = tuple[Memory, FileState, int]
"""A memory, its file's state, and when that was looked at, in nanoseconds."""


def read_file(store: MemoryStore, state: FileState) -> Read | None:
    """Read a file; one that cannot be read is known by its name, one that is gone is None.

    One whose header no index can keep is known by its name and its text.
    """
    checked = time.time_ns()
    try:
        data, fresh = store.read_bytes(state.path)
    except NotFound:
        return None
    except MemvaultError as error:
        said = error.message.removesuffix(f": {state.path}")  # which is told beside it
        memory = store.parse(b"", state)._replace(etag="", problem=said)
        return memory, state, checked
    memory = store.parse(data, fresh)
    problem = header_problem(memory, fresh)
    if problem:
        bare = store.parse(b"", fresh)
        memory = bare._replace(etag=memory.etag, body=memory.body, problem=problem)
    return memory, fresh, checked


def header_problem(memory: Memory, state: FileState) -> str:
    """Say why an index cannot keep what a memory's header says; empty where it can."""
    try:
        columns_of(ManifestRow(MemoryRecord.from_memory(0, state.size, memory, ""), state, 0, {}))
    except (ValueError, TypeError, RecursionError) as error:
        return f"the front matter cannot be indexed: {error}"
    return ""


def read_overlay(
    store: MemoryStore,
    known_files: Mapping[str, IndexedFile],
    languages: Mapping[str, int],
    diff: FolderDiff,
    unread: FolderDiff | None = None,
) -> Overlay:
    """Read the files that differ from the index; those of ``unread`` are not seen at all.

    ``languages`` says how many memories are indexed as each.
    """
    alive = {known.uid for known in known_files.values()} - set(diff.removed)
    missing = 0
    if unread is not None:
        alive -= {known.uid for known, _ in unread.changed}
        missing = len(unread.added) + len(unread.changed)
    found: list[tuple[int, Memory, FileState]] = []
    todo = [*((None, state) for state in diff.added), *diff.changed, *diff.doubtful]
    for number, (known, state) in enumerate(todo, start=1):
        read = read_file(store, state)
        if known is not None:
            if read is not None and read[0].etag == known.etag and read[1] == known.state:
                continue
            alive.discard(known.uid)
        if read is not None:
            found.append((-number, *read[:2]))
    spoken = detect_languages(
        store.settings.language, [memory for _, memory, _ in found], languages
    )
    overlay = Overlay({}, [], {}, frozenset(alive), missing, {}, {})
    for (key, memory, fresh), language in zip(found, spoken, strict=True):
        add_memory(overlay, key, memory, fresh.size, language)
    return overlay


def add_memory(overlay: Overlay, key: int, memory: Memory, size: int, language: str) -> None:
    """Put a memory that no index has into an overlay; ``size`` is its file's, in bytes."""
    overlay.records[key] = MemoryRecord.from_memory(key, size, memory, language)
    overlay.documents.extend(keyword_documents(key, memory, analyser(language)))
    overlay.passages[key] = passage_texts(memory)
    overlay.cuts[key] = split_memory(memory)
    overlay.blocks[key] = encode_blocks(overlay.cuts[key], analyser(language))
