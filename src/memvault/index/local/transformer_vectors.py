"""Score passages by their transformer vectors.

The vectors are used in a search only if half of the memories have them, and nearly all of the
candidates do (``recall.retrieve``).
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from memvault.errors import EmbedderError, MemvaultError
from memvault.index.embedding.arrays import Hashes, Matrix, distinct
from memvault.index.embedding.embedder import MULTILINGUAL, Calibration, read_card
from memvault.index.embedding.transformer import DATA
from memvault.index.embedding.wordpiece import DATA as STATIC
from memvault.index.local.soft_match import max_per_memory
from memvault.index.local.transformer_model import TransformerModel
from memvault.index.protocol import VectorQuery
from memvault.index.vectors.nearest import ScoredPassages
from memvault.named_tuple import NamedTuple

if TYPE_CHECKING:
    from memvault.index.local.unstored_vectors import Texts

_MIN_COVERAGE = 0.5
"""The minimum share of memories with transformer vectors; with fewer, transformer vectors are not
used, because the estimated mean cosine of all memories is too uncertain.
"""
_MAX_CHANGED = 50
"""A search computes missing vectors only if at most this many memories lack them. If more do, as in
a new vault, the background process needs minutes anyway.
"""


class TransformerScores(NamedTuple):
    """Scores of passages by the transformer model.

    ``cosines`` are on the scale of the built-in model, with nan for passages without a vector. They
    are None if the transformer vectors are not used. ``waiting`` is the number of memories without
    vectors. ``share`` rates how well the model separates related texts from other texts, from 0 (no
    better than static vectors) to 1 (at least as well as the built-in model). ``is_multilingual``
    is whether the model is the bundled multilingual one. ``note`` tells the user why vectors are
    missing.
    """

    waiting: int = 0
    cosines: Matrix | None = None
    calibration: Calibration | None = None
    share: float = 0.0
    is_multilingual: bool = False
    note: str = ""


class TransformerVectors(NamedTuple):
    """The transformer vectors of a vault's passages."""

    model: TransformerModel

    def score(
        self, query: VectorQuery, passages: ScoredPassages, texts: Texts
    ) -> TransformerScores:
        """Score the passages of all memories against a query; if the model fails, add a note.

        ``texts`` returns a memory's passage texts, to embed a few that lack vectors.
        A model that does not support the query's language is less reliable than the keyword index,
        so its scores are not used.
        """
        if self.model.mode == "off" or not len(passages.uids):
            return TransformerScores()
        try:
            scores = self._score(query, passages, texts)
        except EmbedderError as error:
            scores = TransformerScores(len(passages.firsts), note=failure_note(error))
        if scores.waiting and self.model.mode == "auto":
            scores = scores._replace(note=self._start_worker() or scores.note)
        return scores

    def similarity_matrix(self, hashes: Hashes) -> list[list[float]] | None:
        """Return the pairwise similarities of texts in 0..1, or None if any lacks a vector."""
        vectors = self.model.opened() if self.model.mode != "off" else None
        rows = vectors.row_numbers(hashes) if vectors is not None else None
        if vectors is None or rows is None or (rows < 0).any():
            return None
        card = self.model.card
        calibration = card.calibration if card else vectors.card.calibration
        if calibration is None:
            return None
        return calibration.similarity_matrix(vectors.rows(rows))

    def token_matches(self, text: str, passages: Mapping[int, Hashes]) -> dict[int, float]:
        """See ``View.token_matches``; ``passages`` maps each memory to a text hash.

        Memories without stored tokens are omitted; if the model cannot be loaded, all memories are.
        """
        vectors = self.model.opened() if self.model.mode != "off" else None
        if vectors is None or not passages:
            return {}
        try:
            embedder = self.model.embedder()
        except EmbedderError:
            return {}
        if embedder.codec is None:
            return {}
        query = embedder.embed_query_tokens(text)
        keys = list(passages)
        hashes = np.concatenate([passages[key] for key in keys])
        codes, lengths = vectors.token_codes(hashes)
        if self.model.unstored:
            from memvault.index.local.unstored_vectors import with_unstored_codes

            codes, lengths = with_unstored_codes(self.model.unstored, hashes, codes, lengths)
        owners = np.repeat(np.arange(len(keys)), [len(passages[key]) for key in keys])
        has_tokens = lengths > 0
        if not has_tokens.any():
            return {}
        lengths, owned = lengths[has_tokens], owners[has_tokens]
        if not len(query.ids):  # the query has no known tokens, so nothing matches
            return {keys[number]: 0.0 for number in distinct(owned)}
        cosines = embedder.codec.cosines(query.tokens, codes)
        by_passage = np.maximum.reduceat(cosines, np.cumsum(lengths) - lengths, axis=1)
        best = max_per_memory(by_passage, owned, len(keys))
        means = best.mean(axis=0)
        return {keys[number]: float(means[number]) for number in distinct(owned)}

    def _start_worker(self) -> str:
        """Start a process that computes missing vectors, unless that failed recently.

        Returns a note about the failure.
        """
        from memvault.index.local import background_embedding

        folder, name = self.model.folder, self.model.choice.name
        background_embedding.start(self.model.store.root, folder, name)
        reason = background_embedding.failure(folder, name)
        return (
            failure_note(EmbedderError(reason, "`memvault reindex` tries again")) if reason else ""
        )

    def _score(
        self, query: VectorQuery, passages: ScoredPassages, texts: Texts
    ) -> TransformerScores:
        firsts = passages.firsts
        vectors, card = self.model.opened(), self.model.card
        if vectors is None:
            return TransformerScores(len(firsts))
        rows = vectors.row_numbers(passages.hashes)
        waiting = int(np.logical_or.reduceat(rows < 0, firsts).sum())
        is_supported = card is None or query.language in (*card.languages, "none")
        if waiting > len(firsts) * (1 - _MIN_COVERAGE) or not is_supported:
            return TransformerScores(waiting)
        embedder = self.model.embedder()
        if embedder.version != vectors.card.version:
            return TransformerScores(len(firsts))
        cosines = vectors.score(embedder.embed_query_tokens(query.text).vector, rows)
        if 0 < waiting <= _MAX_CHANGED and not query.only_stored:
            from memvault.index.local.unstored_vectors import score_unstored

            cosines = score_unstored(self.model.unstored, embedder, query, passages, cosines, texts)
        calibration = embedder.calibration or vectors.card.calibration
        if calibration is None:  # the anchors have changed since the card was written
            from memvault.index.embedding import calibrate

            calibration = calibrate.calibrate(embedder)
            with contextlib.suppress(OSError, MemvaultError):
                vectors.store_calibration(calibration, 0.0)  # do not wait for the lock
        # Ranking weights and calibration are fitted to the cosines of the built-in model.
        reference, static = read_card(DATA).calibration, read_card(STATIC).calibration
        share = 1.0  # the anchors are English, so they say nothing about a multilingual model
        if card is None:
            gain = reference.separation - static.separation
            share = min(max((calibration.separation - static.separation) / gain, 0.0), 1.0)
        slope = calibration.slope / reference.slope
        scaled = (cosines - calibration.midpoint) * slope + reference.midpoint
        is_multilingual = self.model.choice.name == MULTILINGUAL
        return TransformerScores(waiting, scaled, reference, share, is_multilingual)


def failure_note(error: MemvaultError) -> str:
    """Return the note for a search that failed to use transformer vectors."""
    return f"{error.message}: only the built-in table was used; {error.hint}"
