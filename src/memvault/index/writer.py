"""Making the index agree with the folder: what is done under the index's lock.

Order of a commit: keyword index, manifest with the states of its files; then
vectors, whose card names theirs. It is done in batches, so that others find
what is committed while the rest is under way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from memvault.index.analysis import analyser, detect_languages
from memvault.index.bm25f import KeywordDocument, field_lengths
from memvault.index.diff import FolderDiff, PendingChanges, batches, diff_folder
from memvault.index.documents import keyword_documents, passage_texts
from memvault.index.errors import IndexCorrupted
from memvault.index.index_files import IndexFiles, OpenIndex
from memvault.index.manifest import ManifestRow
from memvault.index.overlay import read_file
from memvault.index.protocol import MemoryRecord
from memvault.index.quick_side import Progress, StaticVectors
from memvault.index.sentences import EncodedBlock, TextBlock, encode_blocks, split_memory
from memvault.model import FileState
from memvault.vault.store import MemoryStore

_WASTE = 0.5


class _BatchTexts(NamedTuple):
    """What was made of a batch of files, by uid: passages, and blocks of stretches."""

    passages: dict[int, list[str]]
    cuts: dict[int, list[TextBlock]]


class IndexWriter(NamedTuple):
    """Writes one vault's index; whoever calls it holds the index's lock."""

    store: MemoryStore
    files: IndexFiles
    quick: StaticVectors
    progress: Progress

    def update(self, embed: bool, look: PendingChanges | None = None) -> OpenIndex:
        """Make the index agree with the folder; one that turns out damaged is made anew.

        A ``look`` from before the lock still counts if nobody has committed since.
        With ``embed``, quick vectors too.
        """
        for attempt in range(3):
            try:
                opened = self.files.open(writing=True) or self.files.create_empty()
                if look is not None and look.commit.number == opened.commit.number:
                    return self._apply(opened, look.whole, embed)
                diff = diff_folder(opened.manifest.known(), self.store.scan())
                return self._apply(opened, diff, embed)
            except IndexCorrupted:
                if attempt == 2:
                    raise
                self.files.invalidate()
        raise AssertionError("the last attempt returns or raises")

    def _apply(self, opened: OpenIndex, diff: FolderDiff, embed: bool) -> OpenIndex:
        opened, diff = self._skip_unchanged(opened, diff)
        old = {state.path: known.uid for known, state in diff.changed}
        todo = [*diff.added, *(state for _, state in diff.changed)]
        removed = list(diff.removed)
        done = 0
        for batch in batches(todo) or ([[]] if removed else []):
            gone = [*removed, *(old[state.path] for state in batch if state.path in old)]
            opened, made = self._index(opened, batch, gone, done, len(todo))
            removed = []
            done += len(batch)
            if embed:
                self.quick.embed(opened.manifest, made.passages)
                self._encode_pending(opened, made.cuts)
        if embed:
            if not self.quick.is_finished(opened.manifest):
                self.quick.embed(opened.manifest)
            self._encode_pending(opened)
        if diff.size and opened.keyword.deleted_share() > _WASTE:
            opened.keyword.apply((), (), merge=True)
            opened = self.files.commit(opened.keyword)
        return opened

    def _skip_unchanged(self, opened: OpenIndex, diff: FolderDiff) -> tuple[OpenIndex, FolderDiff]:
        """Compare the bytes of files whose state differs or may; a touched one is not changed.

        Memories with the bytes they had keep their uid, terms and vectors.
        """
        changed, same = [], []
        for known, state in (*diff.changed, *diff.doubtful):
            read = read_file(self.store, state)
            if read is not None and read[0].etag == known.etag and known.etag:
                memory, fresh, checked = read
                language = opened.manifest.language_of(known.uid)
                record = MemoryRecord.from_memory(known.uid, fresh.size, memory, language)
                if opened.keyword.stores_records and record != opened.manifest.record(known.uid):
                    changed.append((known, state))
                    continue
                same.append(
                    ManifestRow(record, fresh, checked, opened.manifest.lengths_of(known.uid))
                )
            else:
                changed.append((known, state))
        if same:
            opened.manifest.apply((), same)
            opened = self.files.commit(opened.keyword)
        return opened, diff._replace(changed=changed, doubtful=[])

    def _index(
        self, opened: OpenIndex, batch: Sequence[FileState], gone: list[int], done: int, total: int
    ) -> tuple[OpenIndex, _BatchTexts]:
        """Put a batch of files into keyword index and manifest; return their texts by uid.

        It is committed before the embedding, which nobody waits for.
        """
        read = [found for state in batch if (found := read_file(self.store, state)) is not None]
        memories = [memory for memory, _, _ in read]
        known = opened.manifest.languages()
        languages = detect_languages(self.store.settings.language, memories, known)
        first = opened.manifest.next_uid()
        rows: list[ManifestRow] = []
        made = _BatchTexts({}, {})
        blocks: dict[int, list[EncodedBlock]] = {}

        def documents() -> Iterable[KeywordDocument]:
            for number, (memory, fresh, checked) in enumerate(read):
                if number % 50 == 0:
                    self.progress("indexing", done + number, total)
                uid, language = first + number, languages[number]
                counted = keyword_documents(uid, memory, analyser(language))
                record = MemoryRecord.from_memory(uid, fresh.size, memory, language)
                rows.append(ManifestRow(record, fresh, checked, field_lengths(counted)))
                made.passages[uid] = passage_texts(memory)
                made.cuts[uid] = split_memory(memory)
                blocks[uid] = encode_blocks(made.cuts[uid], analyser(language))
                yield from counted

        # All documents first: an error of ours must not pass for a damaged index.
        whole = list(documents())
        self.quick.remove(opened.manifest, gone)  # which may fail, where an engine has them
        opened.keyword.apply(gone, whole)  # from here to the commit nothing may fail but the disk
        with opened.manifest.transaction():  # a commit's words and rows belong together
            opened.manifest.apply(gone, rows, blocks)
            return self.files.commit(opened.keyword), made

    def _encode_pending(
        self, opened: OpenIndex, cuts: Mapping[int, Sequence[TextBlock]] = MappingProxyType({})
    ) -> None:
        """Make the tokens of all stretches that have none; errors as for embedding."""
        if not opened.manifest.blocks.without_tokens():
            return
        from memvault.index import token_store

        token_store.complete(opened.manifest, self.store, self.quick.table, cuts)
