"""The library ``tokenizers``: for passages, and to count the tokens of what agents are shown."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from memvault.errors import EmbedderError
from memvault.index.embedding.embedder import REINSTALL
from memvault.index.embedding.wordpiece import DATA

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_UNKNOWN_BYTES = 2
"""Bytes of unknown text that count as one token."""


def count_tokens(text: str) -> int:
    """Return the number of tokens of a text, rounded up; errors as for ``open_tokenizer``."""
    tokenizer, unknown = open_tokenizer()
    encoding = tokenizer.encode(text, add_special_tokens=False)
    total = len(encoding.ids)
    for token, (start, end) in zip(encoding.ids, encoding.offsets, strict=True):
        if token == unknown:
            total += max(0, len(text[start:end].encode("utf-8", "replace")) // _UNKNOWN_BYTES - 1)
    return total


def prefix_within(text: str, most: int) -> int:
    """Return the length of the longest prefix of a text that has at most ``most`` tokens."""
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


def open_tokenizer(folder: Path = DATA) -> tuple[Tokenizer, int]:
    """Return the table's tokenizer, loaded once, and the id of its unknown token, or -1.

    Raises:
        EmbedderError: it cannot be loaded.
    """
    return _load_tokenizer(folder)


@cache  # a key without the default argument would be another one
def _load_tokenizer(folder: Path) -> tuple[Tokenizer, int]:
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    except Exception as error:  # tokenizers raises plain Exception
        raise EmbedderError(
            f"The built-in tokenizer cannot be loaded: {error}", REINSTALL
        ) from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    unknown = tokenizer.token_to_id("[UNK]")
    return tokenizer, -1 if unknown is None else int(unknown)
