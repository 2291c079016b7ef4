"""Soft matches between a query and text segments, using subwords of the static embedding table.

Subwords are computed together with the static vectors.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from memvault.errors import MemvaultError
from memvault.index.embedding.arrays import Integers, Matrix, Numbers, distinct
from memvault.index.embedding.static import StaticEmbedder, Subwords
from memvault.index.local.manifest import Manifest
from memvault.index.protocol import IndexCorrupted
from memvault.index.text.sentence_blocks import (
    EncodedBlock,
    TextBlock,
    decode_subwords,
    leading_part,
    split_memory,
)
from memvault.index.text.sentence_features import SoftMatch
from memvault.store.memory_store import MemoryStore

if TYPE_CHECKING:
    import numpy.typing as npt

_MAX_SUBWORDS = 64
"""The maximum number of query subwords to compare, heaviest first, because a whole page as a query
has hundreds.
"""
_MAX_ENCODED = 256
"""The maximum number of blocks whose subwords are compared at once, because a long memory has
thousands.
"""
_ID_BITS = 16
_MEMORY_BATCH = 500
_RECOUNT_CHANGE = 0.2
"""The relative change in the number of memories after which frequencies are recounted."""


def complete(
    manifest: Manifest,
    store: MemoryStore,
    table: StaticEmbedder,
    at_hand: Mapping[int, Sequence[TextBlock]],
) -> None:
    """Compute all missing subwords; ``at_hand`` contains memories already split into blocks."""
    pending = manifest.blocks.missing_subwords()
    paths = iter(manifest.paths(pending))
    while batch := list(islice(paths, _MEMORY_BATCH)):
        texts_by_block = {}
        for uid, path in batch:
            blocks = at_hand.get(uid) or _split(store, path)
            texts = [block.texts for block in blocks][: pending[uid]]
            texts += [[""]] * (pending[uid] - len(texts))  # the file has changed since
            for number, block_texts in enumerate(texts):
                texts_by_block[uid, number] = block_texts
        manifest.blocks.store_subwords(
            dict(zip(texts_by_block, _encode(table, list(texts_by_block.values())), strict=True))
        )
    frequency = manifest.blocks.document_frequency()
    memories = manifest.count()
    if frequency is None or abs(memories - frequency[1]) > _RECOUNT_CHANGE * memories:
        holding = np.zeros(table.vocabulary, np.int64)
        for tokens in manifest.blocks.subwords():
            few = [ids if len(ids) < table.vocabulary else np.unique(ids) for ids in tokens]
            holding += np.bincount(_distinct(few)[1], minlength=table.vocabulary)
        manifest.blocks.store_document_frequency(holding.astype(np.uint32).tobytes(), memories)


def with_subwords(
    table: StaticEmbedder,
    blocks: Mapping[int, Sequence[EncodedBlock]],
    text_blocks: Mapping[int, Sequence[TextBlock]],
) -> dict[int, list[EncodedBlock]]:
    """Return the blocks of memories, by uid, with subwords computed from the blocks' texts."""
    encoded = iter(_encode(table, [cut.texts for uid in blocks for cut in text_blocks[uid]]))
    return {
        uid: [block._replace(subwords=decode_subwords(*next(encoded))) for block in memory_blocks]
        for uid, memory_blocks in blocks.items()
    }


def add_subwords(
    table: StaticEmbedder, blocks: Sequence[EncodedBlock], text_blocks: Sequence[TextBlock]
) -> list[EncodedBlock]:
    """Return a memory's blocks with subwords, computing them for the blocks that lack them."""
    texts = {block.first: block.texts for block in text_blocks}
    encoded = _encode(table, [texts.get(block.first, [""]) for block in blocks])
    return [
        block._replace(subwords=decode_subwords(*tokens))
        for block, tokens in zip(blocks, encoded, strict=True)
    ]


def _encode(table: StaticEmbedder, blocks: Sequence[Sequence[str]]) -> list[tuple[bytes, bytes]]:
    """Return each block's subword counts per segment, and its subwords, as bytes.

    A subword that occurs several times in a segment is stored once, because soft matches use only
    the nearest one.
    """
    encoded: list[tuple[bytes, bytes]] = []
    for first in range(0, len(blocks), _MAX_ENCODED):
        encoded += _encode_part(table, blocks[first : first + _MAX_ENCODED])
    return encoded


def _encode_part(
    table: StaticEmbedder, blocks: Sequence[Sequence[str]]
) -> list[tuple[bytes, bytes]]:
    tokens = table.tokens([text for texts in blocks for text in texts])
    segments, ids = _distinct(tokens)
    counts = np.bincount(segments, minlength=len(tokens))
    encoded = []
    segment = start = 0
    for texts in blocks:
        segment_counts = counts[segment : segment + len(texts)]
        end = start + int(segment_counts.sum())
        encoded.append((segment_counts.astype(np.uint16).tobytes(), ids[start:end].tobytes()))
        segment, start = segment + len(texts), end
    return encoded


def _distinct(tokens: Sequence[Subwords | array[int]]) -> tuple[Integers, Subwords]:
    """Return the sorted distinct subwords of each text, as pairs of text number and subword."""
    if not tokens:
        return np.zeros(0, np.int64), np.zeros(0, np.uint16)
    owners = np.repeat(np.arange(len(tokens)) << _ID_BITS, [len(ids) for ids in tokens])
    pairs = distinct(owners + np.concatenate(tokens))
    return pairs >> _ID_BITS, pairs.astype(np.uint16)  # the lower bits


def _split(store: MemoryStore, path: str) -> list[TextBlock]:
    try:
        return split_memory(leading_part(store.read(path), store.settings.index.characters))
    except MemvaultError:
        return []


def soft_matches(
    text: str,
    memories: Sequence[Sequence[EncodedBlock]],
    table: StaticEmbedder,
    manifest: Manifest | None,
) -> list[SoftMatch]:
    """Return the soft matches of each memory's best stretch and of its head, in 0..1.

    A soft match is the weighted mean, over the query's subwords, of the cosine to the nearest
    subword in the stretch or in the head. The weight of a query subword is the length of its row in
    the embedding table, times its rarity among the manifest's memories. This is late interaction
    (Khattab and Zaharia 2020) with static vectors. For memories without stored subwords, both
    values are None.
    """
    sizes: list[npt.NDArray[Any]] = [np.zeros(0, np.int64)]
    tokens: list[npt.NDArray[Any]] = [np.zeros(0, np.uint16)]
    owners: list[int] = []
    heads: list[bool] = []
    for number, blocks in enumerate(memories):
        for block in blocks:
            if block.subwords is not None:
                counts, ids = block.subwords
                sizes.append(np.frombuffer(counts, np.uint16))
                tokens.append(np.frombuffer(ids, np.uint16))
                owners += [number] * len(counts)
                heads += [True, *[False] * (len(counts) - 1)]
    subwords = np.concatenate(tokens)
    if subwords.max(initial=0) >= table.vocabulary:
        raise IndexCorrupted("a token that the table does not have")
    query_ids, weights = table.query_subwords(text)
    frequency = manifest.blocks.document_frequency() if manifest is not None else None
    weights = (weights * _rarity_of(query_ids, frequency)).astype(np.float32)
    heaviest = np.sort(np.argsort(-weights)[:_MAX_SUBWORDS])
    query_ids, weights = query_ids[heaviest], weights[heaviest]
    total = float(weights.sum())
    with_subwords = set(owners)
    if not total or not with_subwords:
        return [
            (0.0, 0.0) if number in with_subwords else (None, None)
            for number in range(len(memories))
        ]
    lengths = np.concatenate(sizes).astype(np.int64)
    starts = np.cumsum(lengths) - lengths
    best = np.maximum.reduceat(table.subword_similarities(query_ids, subwords), starts, axis=1)
    owner_ids = np.array(owners)
    in_head = max_per_memory(best * np.array(heads), owner_ids, len(memories))
    scores = weights @ np.maximum(best, in_head[:, owner_ids]) / total
    best_scores = max_per_memory(scores, owner_ids, len(memories)).tolist()
    title_scores = (weights @ in_head / total).tolist()
    return [
        (best_scores[number], title_scores[number]) if number in with_subwords else (None, None)
        for number in range(len(memories))
    ]


def _rarity_of(ids: Integers, frequency: tuple[bytes, int] | None) -> Numbers:
    """Return the rarity of each subword: ln(1 + (N - n + .5) / (n + .5)), or 1 if unknown.

    n is the number of memories that contain the subword, and N is the total number of memories.
    ``frequency`` contains n for each subword id, encoded as bytes, and N.
    """
    if frequency is None or ids.max(initial=0) * 4 >= len(frequency[0]):
        return np.ones(len(ids))
    total = frequency[1]
    containing = np.minimum(np.frombuffer(frequency[0], np.uint32)[ids], total)
    rarity: Numbers = np.log1p((total - containing + 0.5) / (containing + 0.5))
    return rarity


def max_per_memory(values: Matrix, owners: Integers, count: int) -> Matrix:
    """Return each memory's maximum over its texts, at least 0, along the last axis."""
    maxima = np.zeros((*values.shape[:-1], count), dtype=np.float32)
    np.maximum.at(maxima.T, owners, values.T)
    return maxima
