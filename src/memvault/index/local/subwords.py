"""Subwords of the static embedding table for every text segment, and their frequencies.

They are computed when the static vectors are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice

import numpy as np

from memvault.errors import MemvaultError
from memvault.index.embedding.static import StaticEmbedder
from memvault.index.local.manifest import Manifest
from memvault.index.sentence_features import SubwordFrequencies
from memvault.index.text.indexed_text import EncodedBlock, TextBlock, split_memory, tokens_of
from memvault.store.memory_store import MemoryStore

_MEMORY_BATCH = 500
_RECOUNT_CHANGE = 0.2
"""The relative change in the number of memories after which frequencies are counted again."""


def complete(
    manifest: Manifest,
    store: MemoryStore,
    table: StaticEmbedder,
    at_hand: Mapping[int, Sequence[TextBlock]],
) -> None:
    """Compute the subwords of every block without them; ``at_hand`` are memories already split."""
    pending = manifest.blocks.without_tokens()
    paths = iter(manifest.paths(pending))
    while batch := list(islice(paths, _MEMORY_BATCH)):
        texts_by_block = {}
        for uid, path in batch:
            blocks = at_hand.get(uid) or _split(store, path)
            texts = [block.texts for block in blocks][: pending[uid]]
            texts += [[""]] * (pending[uid] - len(texts))  # its file has changed since
            for number, block_texts in enumerate(texts):
                texts_by_block[uid, number] = block_texts
        manifest.blocks.store_subwords(
            dict(zip(texts_by_block, _encode(table, list(texts_by_block.values())), strict=True))
        )
    frequency = manifest.blocks.frequency()
    memories = manifest.count()
    if frequency is None or abs(memories - frequency[1]) > _RECOUNT_CHANGE * memories:
        holding = np.zeros(table.vocabulary, dtype=np.uint32)
        for tokens in manifest.blocks.tokens():
            holding[np.unique(np.frombuffer(tokens, np.uint16))] += 1
        manifest.blocks.count_tokens(holding.tobytes(), memories)


def frequency_in(manifest: Manifest, vocabulary: int) -> SubwordFrequencies | None:
    """Return the subword frequencies as last counted; None if they were never counted."""
    found = manifest.blocks.frequency()
    if found is None or len(found[0]) != vocabulary * 4:
        return None
    return SubwordFrequencies(np.frombuffer(found[0], np.uint32), found[1])


def add_subwords(
    table: StaticEmbedder, blocks: Sequence[EncodedBlock], cuts: Sequence[TextBlock]
) -> list[EncodedBlock]:
    """Return blocks of a memory with their subwords, for blocks that have none in the index."""
    texts = {cut.first: cut.texts for cut in cuts}
    encoded = _encode(table, [texts.get(block.first, [""]) for block in blocks])
    return [
        block._replace(subwords=tokens_of(*tokens))
        for block, tokens in zip(blocks, encoded, strict=True)
    ]


def _encode(table: StaticEmbedder, blocks: Sequence[Sequence[str]]) -> list[tuple[bytes, bytes]]:
    """Return for each block the subword counts of its segments and the subwords, as bytes."""
    all_tokens = iter(table.tokens([text for texts in blocks for text in texts]))
    found = []
    for texts in blocks:
        block_tokens = list(islice(all_tokens, len(texts)))
        counts = np.array([len(tokens) for tokens in block_tokens], dtype=np.uint16)
        found.append((counts.tobytes(), np.concatenate(block_tokens).tobytes()))
    return found


def _split(store: MemoryStore, path: str) -> list[TextBlock]:
    try:
        return split_memory(store.read(path))
    except MemvaultError:
        return []
