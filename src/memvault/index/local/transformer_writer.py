"""Compute transformer vectors, and drop vectors that are no longer needed."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from memvault.index.embedding import calibrate
from memvault.index.embedding.arrays import Codes, Flags, Hashes
from memvault.index.folder import is_unused
from memvault.index.local import background_embedding
from memvault.index.local.transformer_model import TransformerModel
from memvault.index.vectors.vector_file import VectorCard, hashes_of
from memvault.index.vectors.vector_store import VectorStore, are_missing
from memvault.named_tuple import NamedTuple

if TYPE_CHECKING:
    from concurrent.futures import Future

    from memvault.index.embedding.token_vectors import TextVectors

_MAX_EXCESS = 1.1
"""The factor by which the number of tokens may exceed the limit before ``compact`` drops some."""
_BATCH = 32
"""Passages per batch. Larger batches are more efficient, but the process can stop only between
batches.
"""


class TransformerWriter(NamedTuple):
    """Extends a model's vectors and deletes the vectors of unused models."""

    model: TransformerModel

    def is_missing(self, hashes: Hashes) -> Flags:
        """Return, for each text, whether it lacks a vector."""
        return are_missing(self.model.opened(), hashes)

    def embed(self, memories: Iterable[list[str]], should_continue: Callable[[int], bool]) -> None:
        """Embed the passages that lack vectors, memory by memory, in the given order.

        ``memories`` yields each memory's passage texts. ``should_continue`` is called before each
        write with the number of memories done, and stops the work by returning False. A successful
        write clears an earlier failure.

        Raises:
            EmbedderError: if the model cannot be used.
            OSError: if the vectors cannot be written.
        """
        from concurrent.futures import ThreadPoolExecutor

        file = self._open_or_create()
        embedder = self.model.embedder()
        texts = _lacking_texts(memories, file)
        # While one batch is embedded, write the previous batch and read the next.
        with ThreadPoolExecutor(1) as ahead:
            last: tuple[list[tuple[int, str]], Future[list[TextVectors]]] | None = None
            began, count = time.monotonic(), 0
            while batch := list(islice(texts, _BATCH)):
                running = ahead.submit(embedder.embed_tokens, [text for _, text in batch])
                if last is not None:
                    if not self._add(file, *last, should_continue):
                        return
                    count += len(last[0])
                    background_embedding.record_rate(
                        file.folder.parent, count / (time.monotonic() - began)
                    )
                last = batch, running
            if last is not None:
                self._add(file, *last, should_continue)

    def _add(
        self,
        file: VectorStore,
        batch: Sequence[tuple[int, str]],
        running: Future[list[TextVectors]],
        should_continue: Callable[[int], bool],
    ) -> bool:
        """Add the vectors of a batch once they are computed; return whether to continue."""
        codec, vectors = self.model.embedder().codec, running.result()
        if not should_continue(batch[-1][0]):
            return False
        codes: list[Codes] = []
        if codec is not None and file.card.tokens < self._max_tokens(file) * _MAX_EXCESS:
            codes = [codec.encode(text_vectors) for text_vectors in vectors]
        rows = np.stack([text_vectors.vector for text_vectors in vectors])
        file.add(hashes_of([text for _, text in batch]), rows, codes)
        background_embedding.clear_failure(self.model.folder)
        return True

    def _open_or_create(self) -> VectorStore:
        """Open or create the vector store to extend, and make sure that it has a calibration."""
        embedder = self.model.embedder()
        file = self.model.opened()
        existing = embedder.calibration or (file.card.calibration if file else None)
        calibration = None if existing else calibrate.calibrate(embedder)
        if file is None:
            name = self.model.choice.name
            width = embedder.codec.width if embedder.codec is not None else 0
            card = VectorCard(name, embedder.version, embedder.dimension, token_width=width)
            file = VectorStore.create(self.model.vectors_folder(name), card)
        if calibration is not None:
            file.store_calibration(calibration)
        return file

    def compact(self, hashes: Sequence[int]) -> None:
        """Drop unused vectors and surplus tokens (``VectorStore.compact``).

        ``hashes`` contains the passage hashes of all memories, most important first.
        """
        vectors = self.model.opened()
        if vectors is not None:
            vectors.compact(np.array(hashes, np.uint64), self._max_tokens(vectors))

    def _max_tokens(self, vectors: VectorStore) -> int:
        """Return the maximum number of tokens to store, according to the settings."""
        megabytes = self.model.store.settings.embedder.token_megabytes
        return int(megabytes * 1_000_000) // max(vectors.card.token_width, 1)

    def finish(self) -> None:
        """Clear recorded failures and delete unused models, because no vectors are missing."""
        background_embedding.clear_failure(self.model.folder)
        self.delete_unused_models()

    def delete_unused_models(self) -> None:
        """Delete the vectors of models that are no longer used.

        Nothing is deleted while the configured model is not allowed, because the user may allow it
        later.
        """
        for entry in self.unused_models():
            import shutil

            shutil.rmtree(entry, ignore_errors=True)

    def unused_models(self) -> list[Path]:
        """Return the folders that ``delete_unused_models`` would delete.

        Vectors of the current model from other program versions are deleted after 30 days without
        use.
        """
        if self.model.folder is None or self.model.mode == "off" or self.model.choice.note:
            return []
        current = self.model.vectors_folder(self.model.choice.name)
        model = current.name.rpartition("-")[0]
        with contextlib.suppress(OSError):
            return [
                entry
                for entry in self.model.folder.iterdir()
                if entry.is_dir()
                and entry != current
                and (entry.name.rpartition("-")[0] != model or is_unused(entry))
            ]
        return []


def _lacking_texts(
    memories: Iterable[list[str]], vectors: VectorStore
) -> Iterator[tuple[int, str]]:
    """Yield each text without a vector once, with the number of preceding memories."""
    yielded: set[int] = set()
    for number, texts in enumerate(memories):
        hashes = hashes_of(texts)
        for text, text_hash, row in zip(
            texts, hashes.tolist(), vectors.row_numbers(hashes), strict=True
        ):
            if row < 0 and text_hash not in yielded:
                yielded.add(text_hash)
                yield number, text
