"""Compare prompts with generic ones, which only steer current work: "run the tests again".

No memory answers a generic prompt, so a memory stands out only if it is more similar to the current
prompt than the generic prompts are. ``training/embed_generic_prompts.py`` writes the vectors of the
generic prompts for each built-in embedder.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from memvault.errors import EmbedderError
from memvault.index.embedding.arrays import Matrix
from memvault.index.embedding.embedder import reinstall_hint
from memvault.index.embedding.static import open_table
from memvault.index.embedding.transformer import FOLDERS, load_embedder
from memvault.index.embedding.wordpiece import DATA as STATIC_FOLDER

STATIC = "static"
"""The name of the static embedder in this module; in settings it has no name."""
FILES = {
    name: folder / "generic_prompts.npy"
    for name, folder in ({STATIC: STATIC_FOLDER} | FOLDERS).items()
}
"""The vector file of each embedder; it contains 16-bit floats of shape (prompts, dimension)."""
_NEAREST = 3


def similarity(prompt: str, embedder: str) -> float:
    """Return the mean cosine of a prompt to its three most similar generic prompts.

    Raises:
        EmbedderError: if the embedder or the vectors cannot be read.
    """
    vector = embed(prompt, embedder)
    return float(np.sort(_vectors(embedder) @ vector)[-_NEAREST:].mean())


def embed(prompt: str, embedder: str) -> Matrix:
    """Return the vector of a prompt as a query, shape (dimension,); raises ``EmbedderError``."""
    if embedder == STATIC:
        return open_table().embed_query(prompt)
    return load_embedder(embedder, None).embed_query_tokens(prompt).vector


@cache
def _vectors(embedder: str) -> Matrix:
    try:
        vectors: Matrix = np.load(FILES[embedder]).astype(np.float32)
    except (OSError, ValueError) as error:
        message = f"The vectors of generic prompts cannot be read: {error}"
        raise EmbedderError(message, reinstall_hint(error)) from error
    return vectors
