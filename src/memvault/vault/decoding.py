"""Decode a file's bytes to text, and encode it again without loss."""

from __future__ import annotations

import codecs
import contextlib
import re
from itertools import chain

from memvault.errors import Refused
from memvault.lazy_pattern import lazy_pattern
from memvault.named_tuple import NamedTuple

AUTO = "auto"
"""The value of the setting ``encoding`` that means to detect the encoding of non-UTF-8 files."""
_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_REPLACEMENT = "\ufffd"
_DAMAGED = lazy_pattern("[\udc80-\udcff]+|\ufffd")
"""Matches bytes that are not UTF-8, decoded with surrogates, and replacement characters."""
_MAX_CONTROLS = 8
"""Maximum number of control characters in a text file, such as a NUL left by a crash."""


class DecodedText(NamedTuple):
    """A file's text, with its encoding and byte order mark so that it can be written back."""

    text: str
    encoding: str
    bom: bytes
    problem: str = ""
    damaged: tuple[bytes, ...] = ()
    """The original bytes of each replacement character in damaged UTF-8."""

    def encode(self, text: str) -> bytes:
        """Encode a string in this file's encoding.

        Raises:
            Refused: the encoding has no such character.
        """
        parts = text.split(_REPLACEMENT) if self.damaged else []
        # With any other count, replacement characters cannot be matched to their original bytes.
        if len(parts) == len(self.damaged) + 1:
            others = (part.encode("utf-8", "replace") for part in parts[1:])
            pairs = zip(self.damaged, others, strict=True)
            return b"".join([parts[0].encode("utf-8", "replace"), *chain.from_iterable(pairs)])
        if self.encoding.startswith("utf"):  # A lone surrogate can only be replaced.
            return self.bom + text.encode(self.encoding, "replace")
        try:
            return self.bom + text.encode(self.encoding)
        except UnicodeEncodeError as error:
            raise Refused(
                f"The file's encoding, {self.encoding}, has no {text[error.start]!r}",
                f"convert the file to UTF-8 first: iconv -f {self.encoding} -t UTF-8",
            ) from error


def decode(data: bytes, encoding: str = AUTO) -> DecodedText:
    """Decode bytes by their byte order mark, else as UTF-8, else in the given encoding.

    If the encoding is ``auto`` or does not fit the bytes, the most probable one is used.
    """
    for bom, name in _BOMS:
        if data.startswith(bom):
            try:
                return DecodedText(data[len(bom) :].decode(name), name, bom)
            except UnicodeDecodeError:
                break
    if _is_binary(data):
        return DecodedText("", "binary", b"", "the file is binary, not text")
    try:
        text = data.decode("utf-8")
        if b"\x1b$" not in data:
            return DecodedText(text, "utf-8", b"")
    except UnicodeDecodeError:
        text = ""
    from memvault.vault import encodings

    if text and not encodings.is_shifted(data):
        return DecodedText(text, "utf-8", b"")
    if encoding != AUTO:
        name = encodings.full_name(encoding)
        with contextlib.suppress(UnicodeDecodeError):
            return DecodedText(data.decode(name), name, b"")
    name = "iso2022_jp_2" if text else encodings.detect(data)
    if name == "utf-8":
        return _damaged_utf8(data)
    return DecodedText(data.decode(name), name, b"", f"not UTF-8, read as {name}")


def _damaged_utf8(data: bytes) -> DecodedText:
    """Decode mostly valid UTF-8, with a replacement character for each damaged part."""
    damaged: list[bytes] = []

    def replaced(match: re.Match[str]) -> str:
        damaged.append(match[0].encode("utf-8", "surrogateescape"))
        return _REPLACEMENT

    text = _DAMAGED.sub(replaced, data.decode("utf-8", "surrogateescape"))
    count = len(damaged)
    problem = f"not UTF-8 in {count:,} {'place' if count == 1 else 'places'}, read as utf-8"
    return DecodedText(text, "utf-8", b"", problem, tuple(damaged))


def _is_binary(data: bytes) -> bool:
    """Return whether bytes are binary; text may contain a few control characters."""
    head = data[:65536]
    if b"\0" not in head:
        return False
    controls = sum(byte < 9 or 13 < byte < 27 for byte in head)
    mostly = controls * 2 > len(head)
    return mostly or (controls > _MAX_CONTROLS and controls * 100 > len(head))
