"""Tokenize for English models in pure Python: uncased WordPiece as in BERT.

Both this module and the ``tokenizers`` library return the same ids, but the library takes 40 ms to
load, and ten times as long for many texts, because it creates several objects for each token. Its
character tables follow an older Unicode version than Python's, so they are read from a file
(``training/write_wordpieces.py``).
"""

from __future__ import annotations

import re
import unicodedata
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path

from memvault.errors import EmbedderError
from memvault.index.embedding.embedder import reinstall_hint

DATA = Path(__file__).resolve().parents[2] / "data" / "embedder"
"""The folder of the static embedding table and its tokenizer."""
VOCABULARY, CHARACTERS = "vocabulary.tsv", "characters.tsv"
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
"""Tokens that are matched literally, before the text is normalized."""
_SPECIAL_PATTERN = f"({'|'.join(map(re.escape, SPECIAL))})"
_PUNCTUATION = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
_MAX_WORD = 100
"""The maximum number of characters in a word; longer words become the unknown token."""
_MAX_KNOWN = 10_000
"""The maximum number of characters whose replacements are cached."""
_MAX_CACHED = 80_000
"""The maximum number of words whose ids are cached."""
MAX_LOOKED_UP = 5_000
"""Above this many characters, loading the vocabulary is faster than looking up single words."""
_CONTINUED = "##"
_FOREIGN_LETTER = re.compile(r"(?![\u0000-\u03ff\u1d00-\u1fff])[^\W\d_]")
"""A letter of a script other than Latin or Greek."""


def words_of(text: str) -> list[str]:
    """Split a text at spaces, which no token spans; parts may be empty."""
    return text.replace("\n", " ").replace("\t", " ").replace("\r", " ").split(" ")


@cache
def open_wordpiece(folder: Path) -> WordPiece:
    """Return the static table's tokenizer in Python, loaded once; raises ``EmbedderError``."""
    return WordPiece(folder)


class WordPiece:
    """A tokenizer that splits words into the longest pieces of a vocabulary.

    Source: Wu et al. 2016; Devlin et al. 2019 for the text normalization.

    Raises:
        EmbedderError: if the vocabulary cannot be read.
    """

    def __init__(self, folder: Path) -> None:
        try:
            count, _, lines = (folder / VOCABULARY).read_bytes().partition(b"\n")
            if lines.count(b"\n") != int(count):
                raise ValueError(f"{VOCABULARY} is incomplete")
            self._lines = lines
            self.unknown, self.first, self.last = map(self._id_of, ("[UNK]", "[CLS]", "[SEP]"))
        except (OSError, ValueError) as error:
            raise _unusable(error) from error
        self._replacements = _CharacterTable(folder)

    def known(self, query: str) -> Iterator[int]:
        """Yield the ids of the query tokens that English models know."""
        if not query.isascii():
            query = _FOREIGN_LETTER.sub(" ", query)
        return (token for token in self.tokens(query) if token != self.unknown)

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text's tokens; raises ``EmbedderError``."""
        return list(self.tokens(text))

    def tokens(self, text: str) -> Iterator[int]:
        """Yield the ids of a text's tokens, without start and end tokens.

        Raises:
            EmbedderError: if the character table cannot be read.
        """
        for word in self._words(text):
            yield from self._pieces(word)

    def encode_each(self, texts: Sequence[str]) -> list[bytes]:
        """Return the ids of each text's tokens, as the bytes of an array of 16-bit integers.

        Raises:
            EmbedderError: if the vocabulary or the character table cannot be read.
        """
        ids_of = self._ids_of(texts)
        return [b"".join(map(ids_of, self._words(text))) for text in texts]

    def counts(self, texts: Sequence[str], unknown_bytes: int) -> list[int]:
        """Return the number of tokens of each text.

        An unknown token counts as one per ``unknown_bytes`` of its text, with a minimum of one.

        Raises:
            EmbedderError: if the vocabulary or the character table cannot be read.
        """
        ids_of = self._ids_of(texts)
        unknown = _packed([self.unknown])
        counts = []
        for text in texts:
            ids_by_word = list(map(ids_of, self._words(text)))
            count = sum(map(len, ids_by_word)) // len(unknown)
            if unknown in ids_by_word:
                for ids, source in zip(ids_by_word, self._sources(text), strict=True):
                    if ids == unknown:
                        size = len(source.encode("utf-8", "replace"))
                        count += max(1, size // unknown_bytes) - 1
            counts.append(count)
        return counts

    def _ids_of(self, texts: Sequence[str]) -> Callable[[str], bytes]:
        """Return a function that maps a word in these texts to the ids of its pieces.

        Loading the vocabulary takes 20 ms, so a few words are looked up instead.
        """
        if sum(map(len, texts)) > MAX_LOOKED_UP:
            return self._word_ids.__getitem__
        return cache(lambda word: _packed(self._pieces(word)))

    def _sources(self, text: str) -> list[str]:
        """Return the source text of each word in ``_words``."""
        sources: list[str] = []
        for number, part in enumerate(re.split(_SPECIAL_PATTERN, text)):
            if number % 2:
                sources.append(part)
                continue
            spans: list[tuple[int, int]] = []
            is_inside = False
            for position, character in enumerate(part):
                for letter in self._replacements[ord(character)]:
                    if letter.isspace():
                        is_inside = False
                    elif is_inside:
                        spans[-1] = spans[-1][0], position + 1
                    else:
                        spans.append((position, position + 1))
                        is_inside = True
            sources += [part[start:end] for start, end in spans]
        return sources

    @cached_property
    def _word_ids(self) -> _WordIds:
        try:
            fields = self._lines.decode().split()
            vocabulary = dict(zip(fields[::2], map(int, fields[1::2]), strict=True))
        except ValueError as error:
            raise _unusable(error) from error
        return _WordIds(vocabulary, self.unknown)

    def _words(self, text: str) -> list[str]:
        """Return a text's normalized words, punctuation marks and special tokens."""
        if "[" not in text:
            return text.translate(self._replacements).split()
        words: list[str] = []
        for number, part in enumerate(re.split(_SPECIAL_PATTERN, text)):
            words += [part] if number % 2 else part.translate(self._replacements).split()
        return words

    def _pieces(self, word: str) -> list[int]:
        """Return the ids of a word's pieces, or the unknown token's id if a part is unknown."""
        if len(word) > _MAX_WORD:
            return [self.unknown]
        rest, lead, ids = word.encode("utf-8", "surrogatepass"), b"", []
        while rest:
            length, token = self._longest(lead + rest)
            length -= len(lead)
            if length <= 0:
                return [self.unknown]
            ids.append(token)
            rest, lead = rest[length:], _CONTINUED.encode()
        return ids

    def _longest(self, piece: bytes) -> tuple[int, int]:
        """Return the length and id of the longest token that a piece begins with, or zeros.

        Each such token is also a prefix of the last token sorted before the piece, so it is at most
        as long as the common prefix of both.
        """
        lines = self._lines
        while piece:
            line = self._place(piece)
            end = line + len(piece)
            if lines.startswith(piece + b"\t", line):
                return len(piece), int(lines[end + 1 : lines.index(b"\n", end)])
            before = lines[lines.rfind(b"\n", 0, max(line - 1, 0)) + 1 : line]
            length = _shared_length(before, piece)
            while length and piece[length] & 0xC0 == 0x80:  # within a character
                length -= 1
            piece = piece[:length]
        return 0, 0

    def _place(self, token: bytes) -> int:
        """Return the start of the first line that sorts at or after a token."""
        lines, key = self._lines, token + b"\t"
        low, high = 0, len(lines)
        while low < high:
            middle = (low + high) // 2
            start = lines.rfind(b"\n", low, middle) + 1 or low
            end = lines.index(b"\n", middle)
            if lines[start:end] < key:
                low = end + 1
            else:
                high = start
        return low

    def _id_of(self, token: str) -> int:
        """Return a token's id; raise ValueError if there is none."""
        length, token_id = self._longest(token.encode())
        if length != len(token):
            raise ValueError(f"{VOCABULARY} has no {token}")
        return token_id


def _packed(ids: Iterable[int]) -> bytes:
    """Return token ids as the bytes of an array of 16-bit integers."""
    return array("H", ids).tobytes()


def _start_length(piece: str) -> int:
    """Return the length of a piece's first three letters and the mark before them."""
    return 5 if piece.startswith(_CONTINUED) else 3


class _WordIds(dict[str, bytes]):
    """Maps each word to the ids of its pieces, as bytes; words are added on first use."""

    def __init__(self, vocabulary: Mapping[str, int], unknown: int) -> None:
        super().__init__()
        self._vocabulary = vocabulary
        self._unknown = unknown
        by_length = sorted(vocabulary, key=len)
        self._longest = {token[: _start_length(token)]: len(token) for token in by_length}
        """The length of the longest token with the same first letters."""

    def __missing__(self, word: str) -> bytes:
        ids = _packed(self._pieces(word))
        if len(word) <= _MAX_WORD:
            if len(self) >= _MAX_CACHED:
                self.clear()
            self[word] = ids
        return ids

    def _pieces(self, word: str) -> list[int]:
        """Return the ids of a word's longest pieces, or the unknown token's id."""
        if len(word) > _MAX_WORD:
            return [self._unknown]
        rest, lead, ids = word, "", []
        while rest != lead:
            start = _start_length(rest)
            longest = self._longest.get(rest[:start], start - 1)
            for end in range(min(len(rest), longest), len(lead), -1):
                token = self._vocabulary.get(rest[:end])
                if token is not None:
                    break
            else:
                return [self._unknown]
            ids.append(token)
            lead = _CONTINUED
            rest = lead + rest[end:]
        return ids


class _CharacterTable(dict[int, str]):
    """Maps each character to its replacement.

    A replacement is nothing, a space, the character between spaces, or its base letters.

    Characters beyond ASCII are added on first use.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__((code, chr(code).lower()) for code in range(128))
        self.update(dict.fromkeys([*range(32), 127], ""))
        self.update({ord(space): " " for space in "\t\n\r"})
        self.update({ord(mark): f" {mark} " for mark in _PUNCTUATION})
        self._folder = folder

    def __missing__(self, code: int) -> str:
        replacement = self._replacement(chr(code))
        if len(self) < _MAX_KNOWN:
            self[code] = replacement
        return replacement

    def _replacement(self, character: str) -> str:
        kind = self._kind(ord(character))
        if kind in ("removed", "space"):
            return " " if kind == "space" else ""
        letters = [
            letter.lower()
            for letter in unicodedata.normalize("NFD", character)
            if self._kind(ord(letter)) != "removed"
        ]
        parts = (
            f" {letter} " if self._kind(ord(letter[0])) == "punctuation" else letter
            for letter in letters
        )
        return f" {''.join(parts)} " if kind == "ideograph" else "".join(parts)

    def _kind(self, code: int) -> str:
        if code < 128:
            return "punctuation" if chr(code) in _PUNCTUATION else ""
        starts, ends, kinds = self._ranges
        position = bisect_right(starts, code) - 1
        return kinds[position] if position >= 0 and code <= ends[position] else ""

    @cached_property
    def _ranges(self) -> tuple[list[int], list[int], list[str]]:
        """Return the sorted first and last characters of ranges, and each range's category."""
        try:
            text = (self._folder / CHARACTERS).read_text("ascii")
            rows = [line.split("\t") for line in text.splitlines()]
            starts, ends, kinds = zip(
                *((int(first, 16), int(last, 16), kind) for first, last, kind in rows), strict=True
            )
        except (OSError, ValueError) as error:
            raise _unusable(error) from error
        return list(starts), list(ends), list(kinds)


def _unusable(error: Exception) -> EmbedderError:
    return EmbedderError(f"The built-in tokenizer cannot be loaded: {error}", reinstall_hint(error))


def _shared_length(first: Iterable[int], second: bytes) -> int:
    """Return the length of the common prefix; ``first`` is sorted before ``second``."""
    length = 0
    for byte, other in zip(first, second, strict=False):
        if byte != other:
            break
        length += 1
    return length
