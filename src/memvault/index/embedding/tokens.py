"""Counting tokens with the built-in embedder's tokenizer, for budgets.

A language model's own tokenizer counts a little differently. What this one
does not know, such as a long run of base64, is one token to it and many to
others; it counts here by its bytes.
"""

from __future__ import annotations

from memvault.index.embedding.static import open_tokenizer

_UNKNOWN_BYTES = 2
"""Bytes of unknown text that count as one token."""


def count_tokens(text: str) -> int:
    """Return how many tokens a text has, rather too many; errors as for ``open_tokenizer``."""
    tokenizer, unknown = open_tokenizer()
    found = tokenizer.encode(text, add_special_tokens=False)
    total = len(found.ids)
    for token, (start, end) in zip(found.ids, found.offsets, strict=True):
        if token == unknown:
            total += max(0, len(text[start:end].encode("utf-8", "replace")) // _UNKNOWN_BYTES - 1)
    return total


def prefix_within(text: str, most: int) -> int:
    """Return how many characters of a text's beginning have at most so many tokens."""
    if count_tokens(text) <= most:
        return len(text)
    fits, too_long = 0, len(text)
    while too_long - fits > 1:
        middle = (fits + too_long) // 2
        if count_tokens(text[:middle]) <= most:
            fits = middle
        else:
            too_long = middle
    return fits
