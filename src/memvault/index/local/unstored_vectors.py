"""Compute the transformer vectors of a few changed passages during a search.

The background process stores the vectors of a changed memory after a few seconds. Until then, each
search computes those of the most relevant passages, so that a memory that was just written ranks as
it will later.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from memvault.index.embedding.arrays import Codes, Hashes, Integers, Matrix
from memvault.index.embedding.token_vectors import TokenEmbedder
from memvault.index.protocol import VectorQuery
from memvault.index.vectors.nearest import ScoredPassages, is_in
from memvault.index.vectors.vector_file import hashes_of
from memvault.named_tuple import NamedTuple

Texts = Callable[[int], list[str]]
"""A function that returns the passage texts of a memory; empty if it cannot be read."""
_MAX_CHARACTERS = 1_500
"""The maximum total length of the texts scored by one search; embedding takes about 100 ms."""
_MAX_TRIED = 12
"""The maximum number of passages to embed or to look up in ``known``."""
_MAX_KEPT = 256


class UnstoredVectors(NamedTuple):
    """A passage's length in characters, its vector, shape (dimension,), and its token codes.

    A model without token vectors has no codes.
    """

    length: int
    vector: Matrix
    codes: Codes | None


def score_unstored(
    known: dict[int, UnstoredVectors],
    embedder: TokenEmbedder,
    query: VectorQuery,
    passages: ScoredPassages,
    cosines: Matrix,
    texts: Texts,
) -> Matrix:
    """Return the cosines, replacing nan for relevant passages without a stored vector.

    Relevant passages are those of memories that the search must include, and the nearest by static
    cosine. ``known`` maps text hashes to vectors computed by earlier searches; new ones are added.

    Raises:
        EmbedderError: the model cannot be used.
    """
    query_vector = embedder.embed_query_tokens(query.text).vector
    scored = cosines.copy()
    room, firsts = _MAX_CHARACTERS, passages.firsts
    read = cache(texts)  # a memory may have several of the passages
    for position in _nearest_missing(cosines, query, passages)[:_MAX_TRIED].tolist():
        text_hash = int(passages.hashes[position])
        computed = known.get(text_hash)
        if computed is None:
            uid = int(passages.uids[position])
            number = position - int(firsts[np.searchsorted(firsts, position, "right") - 1])
            text = "".join(read(uid)[number : number + 1])
            if len(text) > room or hashes_of([text])[0] != text_hash:
                continue  # too long, or the file has changed
            if len(known) >= _MAX_KEPT:
                known.clear()
            (vectors,) = embedder.embed_few_tokens([text])
            codec = embedder.codec
            codes = codec.encode(vectors) if codec is not None else None
            known[text_hash] = computed = UnstoredVectors(len(text), vectors.vector, codes)
        if computed.length <= room:  # also if computed before, so that searches do not differ
            room -= computed.length
            scored[position] = computed.vector @ query_vector
    return scored


def _nearest_missing(cosines: Matrix, query: VectorQuery, passages: ScoredPassages) -> Integers:
    """Return the positions of relevant passages without a vector, nearest first."""
    positions = np.arange(len(cosines))
    if query.allowed_uids is not None:
        positions = np.flatnonzero(is_in(passages.uids, query.allowed_uids))
    static = passages.cosines[positions]
    if len(positions) > query.limit:
        is_near = static >= np.partition(static, -query.limit)[-query.limit]
        is_near |= is_in(passages.uids[positions], query.include_uids)
        positions = positions[is_near]
    positions = positions[np.isnan(cosines[positions])]
    order: Integers = positions[np.argsort(-passages.cosines[positions], kind="stable")]
    return order


def with_unstored_codes(
    known: dict[int, UnstoredVectors], hashes: Hashes, codes: Codes, lengths: Integers
) -> tuple[Codes, Integers]:
    """Insert the computed token codes of texts that have none stored.

    ``codes`` concatenates the stored codes of all texts, and ``lengths`` has the number per text.
    Returns both, updated.
    """
    added = {
        number: computed.codes
        for number, text_hash in enumerate(hashes.tolist())
        if not lengths[number]
        and (computed := known.get(text_hash)) is not None
        and computed.codes is not None
    }
    if not added:
        return codes, lengths
    parts = np.split(codes, np.cumsum(lengths)[:-1])
    parts = [added.get(number, part) for number, part in enumerate(parts)]
    return np.concatenate(parts), np.array([len(part) for part in parts])
