"""Tokenize passages with ``tokenizers``, and count the tokens of text returned to agents."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from memvault.errors import EmbedderError
from memvault.index.embedding.embedder import reinstall_hint
from memvault.index.embedding.wordpiece import (
    DATA,
    MAX_LOOKED_UP,
    open_wordpiece,
    words_of,
)

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_UNKNOWN_BYTES = 2
"""Bytes per token when estimating unknown text."""
_MAX_COUNTED_WORDS, _MAX_COUNTED_LENGTH = 50_000, 40
"""The maximum number of words whose token counts are cached, and the maximum length of a cached
word.
"""
_COUNTS: dict[str, int] = {}
"""Cached token counts by word."""


def count_tokens(text: str) -> int:
    """Return the number of tokens of a text, rounded up; raises ``EmbedderError``."""
    words = words_of(text)
    counts_by_word = {word: _COUNTS.get(word, -1) for word in words}
    new = [word for word, count in counts_by_word.items() if count < 0]
    counts_by_word.update(zip(new, open_wordpiece(DATA).counts(new, _UNKNOWN_BYTES), strict=True))
    if len(_COUNTS) > _MAX_COUNTED_WORDS:
        _COUNTS.clear()
    _COUNTS.update((word, counts_by_word[word]) for word in new if len(word) <= _MAX_COUNTED_LENGTH)
    return sum(map(counts_by_word.__getitem__, words))


def prefix_within(text: str, max_tokens: int) -> int:
    """Return the length of a text's longest prefix with at most ``max_tokens``.

    The prefix ends at a token boundary, or inside the first token if that alone is too long.
    """
    # A short text is counted first, which often avoids loading the library.
    if len(text) <= MAX_LOOKED_UP and count_tokens(text) <= max_tokens:
        return len(text)
    total = 0
    for size, start, end in _sized_tokens(text):
        total += size
        if total > max_tokens:
            return start if total > size else _part_within(text[:end], max_tokens)
    return len(text)


def _part_within(text: str, max_tokens: int) -> int:
    """Return the length of an oversized token's longest prefix with at most ``max_tokens``."""
    fits, too_long = 0, len(text)
    while too_long - fits > 1:
        middle = (fits + too_long) // 2
        if count_tokens(text[:middle]) <= max_tokens:
            fits = middle
        else:
            too_long = middle
    return fits


def _sized_tokens(text: str) -> Iterator[tuple[int, int, int]]:
    """Yield each token's count (an unknown token may count as several), start and end."""
    tokenizer, unknown = open_tokenizer()
    encoding = tokenizer.encode(text, add_special_tokens=False)
    for token, (start, end) in zip(encoding.ids, encoding.offsets, strict=True):
        size = len(text[start:end].encode("utf-8", "replace")) if token == unknown else 0
        yield max(1, size // _UNKNOWN_BYTES), start, end


def open_tokenizer(folder: Path = DATA) -> tuple[Tokenizer, int]:
    """Return the tokenizer in a folder, and the id of its unknown token, or -1.

    The static table's tokenizer is loaded only once. Others use up to 140 MB, so callers must not
    keep them longer than their model.

    Raises:
        EmbedderError: if the tokenizer cannot be loaded.
    """
    return _static_tokenizer() if folder == DATA else _load_tokenizer(folder)


@cache
def _static_tokenizer() -> tuple[Tokenizer, int]:
    return _load_tokenizer(DATA)


def _load_tokenizer(folder: Path) -> tuple[Tokenizer, int]:
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    except Exception as error:  # tokenizers raises plain Exception
        raise EmbedderError(
            f"The built-in tokenizer cannot be loaded: {error}", reinstall_hint(error)
        ) from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    unknown = tokenizer.token_to_id("[UNK]")
    return tokenizer, -1 if unknown is None else int(unknown)
