"""Tell whether a memory stands out for a query, which might fit any vault.

"Run the tests again" matches some memory of every project about tests. A memory stands out only if
it is more similar to the query than generic prompts are, by a margin measured for each embedder.
"""

from __future__ import annotations

from memvault.errors import EmbedderError
from memvault.index.embedding import generic_prompts
from memvault.index.embedding.embedder import BUILTIN, MULTILINGUAL
from memvault.recall.answer import FAIR, STRONG
from memvault.recall.features import FeatureRow

MARGINS = {
    BUILTIN: (0.06, -0.12),
    MULTILINGUAL: (-0.46, -0.46),
    generic_prompts.STATIC: (0.1, 0.1),
}
"""The minimum difference between a memory's cosine and that of generic prompts, by embedder.

The second value is for strong matches, such as the only memory with an identifier, whose vector
means little. See "Prompts" in docs/development/quality.md for the measured shares. The multilingual
model's queries are closer to each other than to any passage.
"""


def stands_out(row: FeatureRow, query: str, is_multilingual: bool, probability: float) -> bool:
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
    margin = MARGINS[embedder][probability >= STRONG]
    try:
        return cosine - generic_prompts.similarity(query, embedder) >= margin
    except EmbedderError:
        return probability >= FAIR
