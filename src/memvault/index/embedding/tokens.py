"""Counting tokens with the built-in embedder's tokenizer, for budgets.

A language model's own tokenizer counts a little differently. What this one
does not know, such as a long run of base64, is one token to it and many to
others; it counts here by its bytes.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from memvault.errors import EmbedderError
from memvault.index.embedding.static import DATA

if TYPE_CHECKING:
    from tokenizers import Tokenizer

__all__ = ["beginning", "count"]

_UNKNOWN_BYTES = 2
"""Bytes of unknown text that count as one token."""


def count(text: str) -> int:
    """Return how many tokens a text has, rather too many than too few.

    Raises:
        EmbedderError: the tokenizer cannot be loaded.
    """
    tokenizer, unknown = _loaded()
    found = tokenizer.encode(text, add_special_tokens=False)
    total = len(found.ids)
    for token, (start, end) in zip(found.ids, found.offsets, strict=True):
        if token == unknown:
            total += max(0, len(text[start:end].encode("utf-8", "replace")) // _UNKNOWN_BYTES - 1)
    return total


def beginning(text: str, most: int) -> int:
    """Return how many characters of a text's beginning have at most so many tokens.

    Errors as for ``count``.
    """
    if count(text) <= most:
        return len(text)
    fits, too_long = 0, len(text)
    while too_long - fits > 1:
        middle = (fits + too_long) // 2
        if count(text[:middle]) <= most:
            fits = middle
        else:
            too_long = middle
    return fits


@cache
def _loaded() -> tuple[Tokenizer, int]:
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(DATA / "tokenizer.json"))
    except Exception as error:  # tokenizers raises plain Exception
        raise EmbedderError(
            f"The built-in tokenizer cannot be loaded: {error}",
            "pip install --force-reinstall memvault",
        ) from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    unknown = tokenizer.token_to_id("[UNK]")
    return tokenizer, -1 if unknown is None else int(unknown)
