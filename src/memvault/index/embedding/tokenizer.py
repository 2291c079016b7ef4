"""The tokenizers of the built-in models, which also count the tokens shown to agents."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from memvault.errors import EmbedderError
from memvault.index.embedding.embedder import REINSTALL
from memvault.index.embedding.wordpiece import WordPiece

if TYPE_CHECKING:
    from tokenizers import Tokenizer

DATA = Path(__file__).resolve().parents[2] / "data" / "embedder"
"""The folder of the static embedding table and its tokenizer."""
_UNKNOWN_BYTES = 2
"""Bytes of unknown text that count as one token."""
_MAX_SHORT = 2_000
"""The maximum number of characters that are encoded in Python: 4 ms; the library takes 40 to load.
"""


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


def encode(texts: Sequence[str], folder: Path = DATA) -> list[list[int]]:
    """Return the ids of texts in the table's vocabulary, without those of beginning and end.

    Short texts are encoded without the library ``tokenizers``, to the same ids. Errors as for
    ``open_tokenizer``.
    """
    if sum(map(len, texts)) <= _MAX_SHORT:
        wordpiece = open_wordpiece(folder)
        return [wordpiece.encode(text) for text in texts]
    tokenizer, _ = open_tokenizer(folder)
    encoded = tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
    return [entry.ids for entry in encoded]


@cache
def open_wordpiece(folder: Path) -> WordPiece:
    """Return the table's tokenizer in Python, loaded once; errors as for ``open_tokenizer``."""
    return WordPiece(folder)


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
