"""Decide whether a memory stands out for a query that might fit any vault.

"Run the tests again" matches some memory in every vault with notes about tests. A memory stands out
only if it is more similar to the query than generic prompts are, by a margin measured for each
embedder.
"""

from __future__ import annotations

from memvault.errors import EmbedderError
from memvault.index.embedding import generic_prompts
from memvault.index.embedding.embedder import BUILTIN, MULTILINGUAL
from memvault.recall.answer import FAIR, STRONG
from memvault.recall.features import FeatureRow
from memvault.recall.query import Query

MARGINS = {
    BUILTIN: (0.06, -0.12),
    MULTILINGUAL: (-0.46, -0.6),
    generic_prompts.STATIC: (0.1, -0.1),
}
"""The minimum difference between a memory's cosine and that of generic prompts, by embedder.

The second value is for memories whose words match, because the vector of an identifier means
little. See "Prompts" in docs/development/quality.md for the measured shares. The multilingual
model's queries are closer to each other than to any passage.
"""
_MIN_WORDS, _MIN_COVERAGE = 4, 0.9
"""The minimum number of query words, and the minimum share of them that a memory must contain."""


def stands_out(row: FeatureRow, query: Query, is_multilingual: bool, probability: float) -> bool:
    """Return whether a memory is about something that the query names.

    ``is_multilingual`` is whether the bundled multilingual model embedded the memory. Vectors of
    other models have no token vectors, so the static ones are compared instead. Without vectors,
    the match must be fair.
    """
    embedder, cosine = generic_prompts.STATIC, row.static_cosine
    if row.tokens is not None and row.transformer_cosine is not None:
        embedder, cosine = MULTILINGUAL if is_multilingual else BUILTIN, row.transformer_cosine
    if cosine is None:
        return probability >= FAIR
    contains_words = len(query.words) >= _MIN_WORDS and row.sentences.coverage >= _MIN_COVERAGE
    has_words = (contains_words and probability >= FAIR) or (
        embedder == BUILTIN and probability >= STRONG
    )
    try:
        similarity = generic_prompts.similarity(query.text, embedder)
    except EmbedderError:
        return probability >= FAIR
    return cosine - similarity >= MARGINS[embedder][has_words]
