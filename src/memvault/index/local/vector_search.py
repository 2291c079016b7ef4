"""Search by static vectors, and by transformer vectors where available."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from memvault.errors import EmbedderError
from memvault.index.embedding.static import StaticEmbedder
from memvault.index.local.manifest import Manifest
from memvault.index.protocol import VectorAnswer, VectorHit, VectorQuery
from memvault.index.vectors.nearest import ScoredPassages, nearest
from memvault.index.vectors.vector_file import hashes_of
from memvault.named_tuple import NamedTuple

if TYPE_CHECKING:
    from memvault.index.local.stores import Vectors
    from memvault.index.local.transformer_vectors import TransformerVectors

_NOTHING = ScoredPassages(np.zeros(0, np.int64), np.zeros(0, np.uint64), np.zeros(0, np.float32))


class VectorSearch(NamedTuple):
    """A search over the vectors of committed memories and of memories not committed yet.

    ``stored`` is None if no committed memory has vectors, and ``transformer`` is None if
    transformer vectors are not available. ``load_table`` returns the static embedding table, and
    raises ``EmbedderError`` if it cannot be loaded. ``waiting`` is the number of memories without
    vectors that the search does not embed itself. ``note`` explains why their transformer vectors
    could not be computed. ``texts`` returns the passage texts of the memory at a path.
    """

    stored: Vectors | None
    load_table: Callable[[], StaticEmbedder]
    transformer: TransformerVectors | None
    waiting: int
    note: str = ""
    texts: Callable[[str], list[str]] | None = None

    def nearest(
        self,
        query: VectorQuery,
        visible: Set[int] | None,
        overlay: Mapping[int, list[str]],
        manifest: Manifest | None,
    ) -> VectorAnswer:
        """See ``View.nearest``.

        ``visible`` contains all existing memories; None stands for all in the ``manifest``.
        ``overlay`` has the passages of memories that are not committed.
        """
        if self.stored is None and not overlay:
            return VectorAnswer(waiting=self.waiting, notes=self._notes(""))
        table = self.load_table()
        vector = table.embed_query(query.text)
        passages = _NOTHING
        if self.stored is not None:
            passages = self.stored.search(
                vector, query.limit, query.include_uids, query.allowed_uids
            )
            if visible is None and (self.waiting or _has_others(passages, manifest)):
                visible = manifest.uids() if manifest is not None else set()
            passages = passages.of(visible)
        changed = {
            uid: texts for uid, texts in overlay.items() if visible is None or uid in visible
        }
        if changed:
            texts = list(chain.from_iterable(changed.values()))
            counts = {uid: len(memory_texts) for uid, memory_texts in changed.items()}
            passages = passages.joined(counts, hashes_of(texts), table.embed(texts) @ vector)
        scores = None
        if self.transformer is not None and not query.only_static:

            def texts_of(uid: int) -> list[str]:
                return overlay[uid] if uid in overlay else self._committed_texts(uid, manifest)

            scores = self.transformer.score(query, passages, texts_of)
        calibration = (scores and scores.calibration) or table.calibration
        allowed = query.allowed_uids
        if visible is not None:
            allowed = visible if allowed is None else visible & allowed
        nearest_memories = nearest(
            passages, scores and scores.cosines, allowed, query.limit, query.include_uids
        )
        hits = [
            VectorHit(
                uid=hit.uid,
                passage=hit.passage,
                static_cosine=hit.cosine,
                similarity=calibration.similarity(hit.cosine if hit.deep is None else hit.deep),
                transformer_cosine=hit.deep,
                static_similarity=table.calibration.similarity(hit.cosine),
                next_passage=hit.next_passage,
                is_estimated=hit.is_estimated,
                is_multilingual=scores is not None and scores.is_multilingual,
            )
            for hit in nearest_memories.hits
        ]
        static_mean, static_spread = nearest_memories.static
        transformer_mean, transformer_spread = nearest_memories.deep
        return VectorAnswer(
            hits,
            waiting=self.waiting,
            has_vectors=True,
            transformer_weight=scores.share if scores else 0.0,
            memories=nearest_memories.memories,
            static_mean=static_mean,
            static_spread=static_spread,
            transformer_mean=transformer_mean,
            transformer_spread=transformer_spread,
            is_multilingual=scores is not None and scores.is_multilingual,
            notes=self._notes(scores.note if scores else ""),
        )

    def _committed_texts(self, uid: int, manifest: Manifest | None) -> list[str]:
        """Return a committed memory's passage texts."""
        if self.texts is None or manifest is None:
            return []
        return [text for _, path in manifest.paths([uid]) for text in self.texts(path)]

    def _notes(self, note: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(filter(None, (self.note, note))))

    def token_matches(
        self,
        text: str,
        passages: Mapping[int, Sequence[int]],
        overlay: Mapping[int, list[str]],
    ) -> dict[int, float]:
        """See ``View.token_matches``."""
        if self.transformer is None:
            return {}
        hashes: dict[int, list[int]] = {uid: [] for uid in passages}
        for position in range(max(map(len, passages.values()), default=0)):
            passage_numbers = {
                uid: numbers[position]
                for uid, numbers in passages.items()
                if len(numbers) > position
            }
            rows = self.stored.rows_of(passage_numbers) if self.stored is not None else {}
            for uid, (_, text_hash) in rows.items():
                hashes[uid].append(text_hash)
        for uid in passages.keys() & overlay.keys():
            texts = overlay[uid]
            hashes[uid] = hashes_of(
                [texts[number] for number in passages[uid] if number < len(texts)]
            ).tolist()
        arrays = {
            uid: np.array(text_hashes, np.uint64)
            for uid, text_hashes in hashes.items()
            if text_hashes
        }
        return self.transformer.token_matches(text, arrays)

    def similarity_matrix(
        self, passages: Mapping[int, int], overlay: Mapping[int, list[str]]
    ) -> list[list[float]]:
        """See ``View.similarity_matrix``.

        The matrix is also empty if the table cannot be loaded.
        """
        try:
            table = self.load_table()
        except EmbedderError:
            return []
        vectors = self.stored.rows_of(passages) if self.stored is not None else {}
        for uid in passages.keys() & overlay.keys():
            text = overlay[uid][passages[uid] :][:1]
            if text:
                vectors[uid] = table.embed(text)[0], hashes_of(text)[0]
        if len(vectors) < len(passages) or not vectors:
            return []
        rows, hashes = (np.array([vectors[uid][part] for uid in passages]) for part in (0, 1))
        found_by_model = self.transformer and self.transformer.similarity_matrix(hashes)
        return found_by_model or table.calibration.similarity_matrix(rows)


def _has_others(passages: ScoredPassages, manifest: Manifest | None) -> bool:
    """Return whether passages may include removed memories, whose rows are kept for some time.

    If every memory in the manifest has a passage, equal counts mean that no removed memories are
    included.
    """
    return manifest is None or len(passages.firsts) != manifest.count()
