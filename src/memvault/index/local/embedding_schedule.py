"""Find memories without transformer vectors, and embed the most useful ones first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Set

from memvault.files import atomic
from memvault.index.local import background_embedding
from memvault.index.local.backend import Progress
from memvault.index.local.index_files import IndexFiles
from memvault.index.local.manifest import IndexedFile
from memvault.index.local.passage_table import Passages
from memvault.index.local.transformer_model import TransformerModel
from memvault.index.local.transformer_writer import TransformerWriter
from memvault.named_tuple import NamedTuple

_LEADING_PASSAGES = 40
"""The number of passages at the start of each memory that are embedded first. Their token vectors
also take precedence when space is limited.
"""
_BEGINNING, _REST = slice(_LEADING_PASSAGES), slice(_LEADING_PASSAGES, None)


class _Part(NamedTuple):
    """The beginning or the rest of a memory, sorted in embedding order.

    ``age`` is the negative mtime of its file in nanoseconds.
    """

    is_rest: bool
    age: int
    path: str
    uid: int


_TriedPart = tuple[int, int, bool]
"""The index's identity (changed by a rebuild, like all uids), a uid, and ``is_rest``."""


class EmbeddingSchedule(NamedTuple):
    """The missing transformer vectors of an index.

    ``texts`` returns the passage texts of the memory at a path.
    """

    files: IndexFiles
    model: TransformerModel
    texts: Callable[[str], list[str]]
    progress: Progress

    def embed_in_foreground(self) -> int:
        """Stop the background process and compute the missing vectors.

        Returns the number of memories that lacked vectors. The index lock is not held.

        Raises:
            EmbedderError: if the model cannot be used.
            StorageError: if the vectors cannot be written.
        """
        with (
            atomic.map_os_errors(self.files.folder),
            background_embedding.foreground(self.model.folder),
        ):
            return self.embed_missing(lambda: True)

    def embed_missing(self, should_continue: Callable[[], bool]) -> int:
        """Compute the missing vectors; return how many memories lacked any.

        The most recently changed memories come first. The rest of a long memory comes after the
        beginnings of all memories. ``should_continue`` is called before each write and stops
        the work by returning False.

        Raises:
            EmbedderError: if the model cannot be used.
            OSError: if the vectors cannot be written.
        """
        writer = TransformerWriter(self.model)
        tried: set[_TriedPart] = set()
        while self.files.open() is not None:
            if not (parts := self._pending_parts(tried)):
                self._compact(writer)
                if not self.pending():
                    writer.finish()
                break
            earlier, count = len(tried), len(parts)

            def report(done: int, earlier: int = earlier, count: int = count) -> bool:
                self.progress("embedding", done, max(count, len(tried) - earlier))
                return should_continue()

            writer.embed(self._texts_to_embed(tried), report)
            if not should_continue():
                break
            report(len(tried) - earlier)
        return len({(identity, uid) for identity, uid, _ in tried})

    def pending(self) -> int:
        """Return how many memories lack transformer vectors."""
        return len({part.uid for part in self._pending_parts(frozenset())})

    def passage_counts(self) -> tuple[int, int]:
        """Return the number of passages, and how many of them lack transformer vectors."""
        opened = self.files.opened
        if opened is None:
            return 0, 0
        _, hashes = opened.manifest.passages.all()
        return len(hashes), int(TransformerWriter(self.model).is_missing(hashes).sum())

    def _texts_to_embed(self, tried: set[_TriedPart]) -> Iterator[list[str]]:
        """Yield the passage texts of each part to embed, and add the part to ``tried``.

        The order is recomputed if the index changes.
        """
        state: object = None
        parts: Iterator[_Part] = iter(())
        while (opened := self.files.open()) is not None:
            if opened.commit.number != state:
                state, parts = opened.commit.number, iter(self._pending_parts(tried))
            part = next(parts, None)
            if part is None:
                break
            tried.add((opened.commit.number[0], part.uid, part.is_rest))
            yield self.texts(part.path)[_REST if part.is_rest else _BEGINNING]

    def _pending_parts(self, tried: Set[_TriedPart]) -> list[_Part]:
        """Return the parts without transformer vectors, in embedding order.

        Parts in ``tried`` are skipped.
        """
        opened = self.files.opened
        if opened is None or self.model.mode == "off":
            return []
        identity, _ = opened.commit.number
        missing = self._missing_parts(opened.manifest.passages.all())
        if not any(missing):
            return []
        parts = [
            _Part(is_rest, -entry.state.mtime, path, entry.uid)
            for path, entry in opened.manifest.known().items()
            for is_rest, uids in zip((False, True), missing, strict=True)
            if entry.uid in uids and (identity, entry.uid, is_rest) not in tried
        ]
        return sorted(parts)

    def _missing_parts(self, passages: Passages) -> tuple[set[int], set[int]]:
        """Return the memories that lack vectors for leading passages, and for later ones."""
        uids, hashes = passages
        is_missing = TransformerWriter(self.model).is_missing(hashes)
        is_rest = passages.numbers >= _LEADING_PASSAGES
        return set(uids[is_missing & ~is_rest].tolist()), set(uids[is_missing & is_rest].tolist())

    def _compact(self, writer: TransformerWriter) -> None:
        """Drop unused transformer vectors.

        If there are too many tokens to store, the first passages of each memory take precedence,
        starting with the most recently changed memories.
        """
        opened = self.files.opened
        if opened is None:
            return
        passages: defaultdict[int, list[int]] = defaultdict(list)
        columns = opened.manifest.passages.all()
        for uid, text_hash in zip(*(column.tolist() for column in columns), strict=True):
            passages[uid].append(text_hash)
        entries = sorted(opened.manifest.known().values(), key=_last_changed_first)
        beginnings, rest = (
            [text_hash for entry in entries for text_hash in passages[entry.uid][part]]
            for part in (_BEGINNING, _REST)
        )
        writer.compact([*beginnings, *rest])


def _last_changed_first(entry: IndexedFile) -> tuple[int, str]:
    return -entry.state.mtime, entry.state.path
