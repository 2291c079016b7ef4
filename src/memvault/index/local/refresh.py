"""Bring the index up to date with the vault's folder while holding the index's lock.

A commit writes the keyword index first, then the manifest with the states of its files, then the
vectors, whose card names theirs. Large changes are committed in batches, so that other processes
can search what is committed while the rest is still being indexed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from memvault.errors import MemvaultError, NotFound
from memvault.index.local.backend import Progress
from memvault.index.local.index_files import IndexFiles, OpenIndex
from memvault.index.local.manifest import IndexCommit, IndexedFile, ManifestRow, columns_of
from memvault.index.local.snapshot import Overlay
from memvault.index.protocol import IndexCorrupted, LinkEntry, MemoryRecord, StoredLink
from memvault.index.text.analysis import analyser, detect_languages
from memvault.index.text.bm25f import KeywordDocument, field_lengths
from memvault.index.text.indexed_text import (
    EncodedBlock,
    TextBlock,
    encode_blocks,
    keyword_documents,
    passage_texts,
    split_memory,
)
from memvault.model import FileState, Memory
from memvault.store.memory_store import MemoryStore
from memvault.vault.file_names import header_links, link_keys
from memvault.vault.markdown import links, path_beside

if TYPE_CHECKING:
    from memvault.index.embedding.static import StaticEmbedder
    from memvault.index.local.static_vectors import StaticVectors

_TIMESTAMP_GRANULARITY = 1_000_000_000
"""Nanoseconds within which two edits may leave a file with the same times."""
_MAX_BATCH_FILES = 2_000
_MAX_BATCH_BYTES = 8_000_000
_MAX_READ_FILES = 500
_MAX_READ_BYTES = 4_000_000


class FolderDiff(NamedTuple):
    """The files to index, the uids to remove, and the files that may have changed unnoticed.

    ``changed`` pairs the indexed file with its current state. ``doubtful`` files were edited so
    shortly before they were last checked that a second edit could have left the same times, so
    their bytes must be compared.
    """

    added: list[FileState]
    changed: list[tuple[IndexedFile, FileState]]
    removed: list[int]
    doubtful: list[tuple[IndexedFile, FileState]]

    @property
    def size(self) -> int:
        """The number of memories known to differ without reading any file."""
        return len(self.added) + len(self.changed) + len(self.removed)


class PendingChanges(NamedTuple):
    """The differences between the folder and a commit, split by whether they can be read directly.

    ``whole`` is the complete difference, ``small`` the part that can be read without a long wait,
    and ``large`` the rest.
    """

    commit: IndexCommit
    known: dict[str, IndexedFile]
    whole: FolderDiff
    small: FolderDiff
    large: FolderDiff

    @property
    def is_unchanged(self) -> bool:
        """Whether nothing differs and nothing is doubtful."""
        return not self.small.size and not self.small.doubtful and not self.large.size


def diff_folder(
    known: Mapping[str, IndexedFile], files: Iterable[FileState], unreadable: Iterable[str]
) -> FolderDiff:
    """Compare the indexed files with those that a scan found.

    Memories below a folder that could not be listed are left unchanged, so that a temporary loss of
    permission does not empty the index.
    """
    diff = FolderDiff([], [], [], [])
    seen = set()
    for state in files:
        entry = known.get(state.path)
        seen.add(state.path)
        if entry is None:
            diff.added.append(state)
        elif entry.state != state:
            diff.changed.append((entry, state))
        elif _changed_at(state) + _TIMESTAMP_GRANULARITY >= entry.checked:
            diff.doubtful.append((entry, state))
    hidden = tuple(f"{folder}/" for folder in unreadable)
    for path, entry in known.items():
        if path not in seen and not (hidden and path.startswith(hidden)):
            diff.removed.append(entry.uid)
    return diff


def split_readable(diff: FolderDiff) -> tuple[FolderDiff, FolderDiff]:
    """Split a diff into a part that can be read directly without a long wait, and the rest.

    Doubtful and removed files are in the first part. Of the other files it contains the most
    recently changed ones, at most 500 files and 4 MB.
    """
    files = sorted(
        (*diff.added, *(state for _, state in diff.changed)), key=_changed_at, reverse=True
    )
    parts = batches(files, _MAX_READ_FILES, _MAX_READ_BYTES)
    readable = {state.path for part in parts[:1] for state in part}
    first = diff._replace(
        added=[state for state in diff.added if state.path in readable],
        changed=[entry for entry in diff.changed if entry[1].path in readable],
    )
    rest = FolderDiff(
        [state for state in diff.added if state.path not in readable],
        [entry for entry in diff.changed if entry[1].path not in readable],
        [],
        [],
    )
    return first, rest


def batches(
    files: Sequence[FileState],
    most_files: int = _MAX_BATCH_FILES,
    most_bytes: int = _MAX_BATCH_BYTES,
) -> list[list[FileState]]:
    """Split files, in order, into batches whose texts fit into memory together.

    A batch has at most 2,000 files and 8 MB, or is a single larger file.
    """
    parts: list[list[FileState]] = []
    size = 0
    for state in files:
        size += state.size
        if not parts or len(parts[-1]) == most_files or size > most_bytes:
            parts.append([])
            size = state.size
        parts[-1].append(state)
    return parts


def _changed_at(state: FileState) -> int:
    """Return when the file last changed, in nanoseconds: mtime on Windows, else ctime.

    On Windows ctime is the time of creation.
    """
    return state.mtime if sys.platform == "win32" else state.ctime


Read = tuple[Memory, FileState, int]
"""A memory, its file's state, and the time at which that was checked, in nanoseconds."""


def read_file(store: MemoryStore, state: FileState) -> Read | None:
    """Read a file and return its memory; None if the file no longer exists.

    A file that cannot be read yields a memory with only the name from its path, and a problem. A
    file whose header no index can store yields a memory with the name and the text.
    """
    checked = time.time_ns()
    try:
        data, fresh = store.read_bytes(state.path)
    except NotFound:
        return None
    except MemvaultError as error:
        problem = error.message.removesuffix(f": {state.path}")  # which is shown next to it
        memory = store.parse(b"", state)._replace(etag="", problem=problem)
        return memory, state, checked
    memory = store.parse(data, fresh)
    problem = header_problem(memory, fresh)
    if problem:
        bare = store.parse(b"", fresh)
        memory = bare._replace(etag=memory.etag, body=memory.body, problem=problem)
    return memory, fresh, checked


def header_problem(memory: Memory, state: FileState) -> str:
    """Return why an index cannot store a memory's header; empty if it can."""
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
    """Read the files that differ from the index; the memories in ``unread`` are left out entirely.

    ``languages`` maps each language to the number of memories indexed in it.
    """
    alive = {known.uid for known in known_files.values()} - set(diff.removed)
    missing = 0
    if unread is not None:
        alive -= {known.uid for known, _ in unread.changed}
        missing = len(unread.added) + len(unread.changed)
    found: list[tuple[int, Memory, FileState]] = []
    differing = [*((None, state) for state in diff.added), *diff.changed, *diff.doubtful]
    for number, (known, state) in enumerate(differing, start=1):
        read = read_file(store, state)
        if known is not None:
            if read is not None and read[0].etag == known.etag and read[1] == known.state:
                continue
            alive.discard(known.uid)
        if read is not None:
            found.append((-number, *read[:2]))
    detected = detect_languages(
        store.settings.language, [memory for _, memory, _ in found], languages
    )
    overlay = Overlay({}, [], {}, frozenset(alive), missing, {}, {}, {})
    for (key, memory, fresh), language in zip(found, detected, strict=True):
        add_memory(overlay, key, memory, fresh.size, language)
    return overlay


def add_memory(overlay: Overlay, key: int, memory: Memory, size: int, language: str) -> None:
    """Add a memory that is in no index to an overlay; ``size`` is that of its file, in bytes."""
    overlay.records[key] = MemoryRecord.from_memory(key, size, memory, language)
    overlay.documents.extend(keyword_documents(key, memory, analyser(language)))
    overlay.passages[key] = passage_texts(memory)
    overlay.cuts[key] = split_memory(memory)
    overlay.blocks[key] = encode_blocks(overlay.cuts[key], analyser(language))
    overlay.links[key] = link_entry(memory)


def link_entry(memory: Memory) -> LinkEntry:
    """Return the names of a memory and its links."""
    names = link_keys(memory.path, memory.mem_id, memory.title, memory.aliases)
    found: list[StoredLink] = []
    line = position = 0
    for link in links(memory.body):
        line += memory.body.count("\n", position, link.span[0])
        position = link.span[0]
        beside = "" if link.is_wikilink else path_beside(link.target, memory.path)
        found.append(StoredLink(link.target, beside, line))
    found += [StoredLink(name, key=key) for key, name in header_links(memory.metadata)]
    return LinkEntry(memory.path, names, found)


class _BatchTexts(NamedTuple):
    """The texts computed from a batch of files, by uid: passages, and blocks of text segments."""

    passages: dict[int, list[str]]
    cuts: dict[int, list[TextBlock]]


class IndexWriter(NamedTuple):
    """A writer of one vault's index; the caller must hold the index's lock."""

    store: MemoryStore
    files: IndexFiles
    progress: Progress

    def update(self, static: StaticVectors | None, look: PendingChanges | None = None) -> OpenIndex:
        """Bring the index up to date with the folder; a corrupted index is rebuilt.

        A scan passed as ``look``, taken before the lock was acquired, is used if no other process
        has committed since. With ``static`` vectors, these are computed too.
        """
        for attempt in range(3):
            try:
                opened = self.files.open(writing=True) or self.files.create_empty()
                if look is not None and look.commit.number == opened.commit.number:
                    return self._apply(opened, look.whole, static)
                found = self.store.scan()
                diff = diff_folder(opened.manifest.known(), found.files, found.unreadable)
                return self._apply(opened, diff, static)
            except IndexCorrupted:
                if attempt == 2:
                    raise
                self.files.invalidate()
        raise AssertionError("the last attempt returns or raises")

    def _apply(
        self, opened: OpenIndex, diff: FolderDiff, static: StaticVectors | None
    ) -> OpenIndex:
        opened, diff = self._skip_unchanged(opened, diff)
        uid_by_path = {state.path: known.uid for known, state in diff.changed}
        pending = [*diff.added, *(state for _, state in diff.changed)]
        removed = list(diff.removed)
        done = 0
        for batch in batches(pending) or ([[]] if removed else []):
            removed_uids = [
                *removed,
                *(uid_by_path[state.path] for state in batch if state.path in uid_by_path),
            ]
            opened, texts = self._index(opened, batch, removed_uids, done, len(pending))
            removed = []
            done += len(batch)
            if static is not None:
                static.embed(opened.manifest, texts.passages)
                self._encode_pending(opened, static.table, texts.cuts)
        if static is not None:
            if not static.is_finished(opened.manifest):
                static.embed(opened.manifest)
            self._encode_pending(opened, static.table)
        return opened

    def _skip_unchanged(self, opened: OpenIndex, diff: FolderDiff) -> tuple[OpenIndex, FolderDiff]:
        """Compare the bytes of changed and doubtful files; a merely touched file is not changed.

        Memories whose bytes are the same keep their uid, terms and vectors.
        """
        changed, unchanged = [], []
        for known, state in (*diff.changed, *diff.doubtful):
            read = read_file(self.store, state)
            if read is not None and read[0].etag == known.etag and known.etag:
                memory, fresh, checked = read
                language = opened.manifest.language_of(known.uid)
                record = MemoryRecord.from_memory(known.uid, fresh.size, memory, language)
                if opened.keyword.stores_records and record != opened.manifest.record(known.uid):
                    changed.append((known, state))
                    continue
                unchanged.append(
                    ManifestRow(record, fresh, checked, opened.manifest.lengths_of(known.uid))
                )
            else:
                changed.append((known, state))
        if unchanged:
            opened.manifest.apply((), unchanged)
            opened = self.files.commit(opened.keyword)
        return opened, diff._replace(changed=changed, doubtful=[])

    def _index(
        self,
        opened: OpenIndex,
        batch: Sequence[FileState],
        removed: list[int],
        done: int,
        total: int,
    ) -> tuple[OpenIndex, _BatchTexts]:
        """Index a batch of files in the keyword index and the manifest; return their texts by uid.

        The batch is committed before it is embedded, so that no reader waits for the embedding.
        """
        read = [found for state in batch if (found := read_file(self.store, state)) is not None]
        memories = [memory for memory, _, _ in read]
        known = opened.manifest.languages()
        languages = detect_languages(self.store.settings.language, memories, known)
        first = opened.manifest.next_uid()
        rows: list[ManifestRow] = []
        texts = _BatchTexts({}, {})
        blocks: dict[int, list[EncodedBlock]] = {}
        entries: dict[int, LinkEntry] = {}

        def documents() -> Iterable[KeywordDocument]:
            for number, (memory, fresh, checked) in enumerate(read):
                if number % 50 == 0:
                    self.progress("indexing", done + number, total)
                uid, language = first + number, languages[number]
                counted = keyword_documents(uid, memory, analyser(language))
                record = MemoryRecord.from_memory(uid, fresh.size, memory, language)
                rows.append(ManifestRow(record, fresh, checked, field_lengths(counted)))
                texts.passages[uid] = passage_texts(memory)
                texts.cuts[uid] = split_memory(memory)
                blocks[uid] = encode_blocks(texts.cuts[uid], analyser(language))
                entries[uid] = link_entry(memory)
                yield from counted

        # Build all documents first: a bug of ours must not be taken for a corrupted index.
        all_documents = list(documents())
        if removed:  # may fail if an engine holds them
            self.files.backend.delete_vectors(opened.manifest.identity(), removed)
        keyword = opened.keyword.apply(removed, all_documents)  # from now only the disk may fail
        with opened.manifest.transaction():  # a commit's terms and rows belong together
            opened.manifest.apply(removed, rows, blocks, entries)
            return self.files.commit(keyword), texts

    def _encode_pending(
        self,
        opened: OpenIndex,
        table: StaticEmbedder,
        cuts: Mapping[int, Sequence[TextBlock]] = MappingProxyType({}),
    ) -> None:
        """Compute the subwords of all blocks without them; raises the same errors as embedding."""
        if not opened.manifest.blocks.without_tokens():
            return
        from memvault.index.local import subwords

        subwords.complete(opened.manifest, self.store, table, cuts)
