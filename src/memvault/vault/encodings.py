"""Detect the encoding of a file that is neither UTF-8 nor begins with a byte order mark.

chardet compares bytes with models of languages. Notes are often too short for that, so the
candidates are narrowed first: accented letters within ASCII words indicate a Latin encoding; whole
words of non-ASCII bytes indicate another one.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator

from memvault.lazy_pattern import lazy_pattern

_LATIN: tuple[str, ...] = ("cp1252", "cp1250", "cp1254", "cp1257")
_OTHERS = (
    *("gb18030", "cp932", "cp949", "big5hkscs", "euc_jis_2004"),
    *("cp1251", "koi8-r", "koi8-u", "cp866", "cp1253", "cp1255", "cp1256", "cp874"),
)
_SUPERSETS = {"gb2312": "gb18030", "gbk": "gb18030", "shift_jis": "cp932", "euc_kr": "cp949"}
"""Encodings and their supersets, which programs write under the subset's name."""
_ACCENTED = lazy_pattern(
    "(?<![\x80-\xff])[\xc0-\xff](?![\x80-\xff])|(?<=[A-Za-z])[\xc0-\xff]{2}(?=[A-Za-z])"
)
_LETTER = lazy_pattern("[\xc0-\xff]")
_PUNCTUATION = lazy_pattern("[\x80\x82\x84\x85\x91-\x97\x99\x9b\xa0-\xbf]")
_HIGH = lazy_pattern("[\x80-\xff]")
_UTF8 = lazy_pattern("[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")
_KANA = {
    "euc_jp": lazy_pattern("[\xa4\xa5][\xa1-\xf6]"),
    "cp932": lazy_pattern("\x82[\x9f-\xf1]|\x83[\x40-\x96]"),
}
"""The letters that most Japanese text contains, in each encoding."""
_TURKISH = lazy_pattern("[\xd0\xdd\xde\xf0\xfd\xfe]")
"""Matches bytes that are Turkish letters in cp1254 but Icelandic letters in cp1252.

This pattern and the next one apply to bytes decoded as Latin-1.
"""
_WESTERN = lazy_pattern("(?:a\xef[vs]|co\xefn|o\xefd|o\xfb|\xe3[eo]|\xf5e)", re.IGNORECASE)
"""Matches bytes that occur only in words of Western European languages, such as naïve or goût.

The models of chardet prefer cp1250 or cp1257 for many such words if a note has only a few.
"""
_UTF8_WESTERN = lazy_pattern("[\xc2\xc3][\x80-\xbf]|\xe2[\x80-\x82][\x80-\xbf]")
"""Matches UTF-8 that is unlikely in other encodings: Western letters and punctuation."""
_NO_TEXT = lazy_pattern("[\x80-\x9f\ue000-\uf8ff\ufffd]")
_SHIFTED = (b"\x1b$B", b"\x1b$@", b"\x1b$(")
_SAMPLE = 65_536
_LATIN_SHARE = 0.6
_UTF8_SHARE, _UTF8_WESTERN_SHARE = 0.8, 0.6
_KANA_SHARE = 0.3
_CLEARLY = 1.4
"""The factor by which a Latin encoding must score better than the most common one."""


def detect(data: bytes) -> str:
    """Return the name of the most probable encoding of bytes that are not UTF-8."""
    lines = (line for line in data.splitlines() if not line.isascii())
    sample = b"\n".join(dict.fromkeys(lines))[:_SAMPLE]  # Repeated words would mislead the models.
    text = sample.decode("latin-1")
    high, letters = len(_HIGH.findall(text)), len(_LETTER.findall(text))
    accented = sum(map(len, _ACCENTED.findall(text)))
    if _is_damaged_utf8(text, high):
        return "utf-8"
    is_latin = high == letters + len(_PUNCTUATION.findall(text))
    if is_latin and accented >= _LATIN_SHARE * letters:
        return _latin(data, sample, text)
    for name, kana in _KANA.items():
        if 2 * len(kana.findall(text)) >= _KANA_SHARE * high and _is_text(data, name):
            return name
    for name, _ in _ranked(sample, (*_OTHERS, *_LATIN)):
        if _is_text(data, name):
            return name if name in _OTHERS else _latin(data, sample, text)
    return _latin(data, sample, text)


def _is_damaged_utf8(text: str, high: int) -> bool:
    """Return whether most high bytes are UTF-8, and the rest damaged or truncated characters."""
    shares = ((_UTF8, _UTF8_SHARE), (_UTF8_WESTERN, _UTF8_WESTERN_SHARE))
    return any(
        sum(map(len, pattern.findall(text))) >= max(1, share * high) for pattern, share in shares
    )


def is_shifted(data: bytes) -> bool:
    """Return whether ASCII bytes are Japanese text in ISO-2022-JP, as in e-mail."""
    return any(sign in data for sign in _SHIFTED) and _is_text(data, "iso2022_jp_2")


def full_name(name: str) -> str:
    """Return the superset that programs usually mean by an encoding's name, or the name itself.

    For example, files labeled ``shift_jis`` are usually ``cp932``.
    """
    plain = codecs.lookup(name).name
    return _SUPERSETS.get(plain, plain)


def _latin(data: bytes, sample: bytes, text: str) -> str:
    """Return a Latin encoding: the most common one unless another fits clearly better."""
    first = "cp1252"
    if len({sample.decode(name, "replace") for name in _LATIN}) == 1 and _is_text(data, first):
        return first  # True of most German words, and many French and Spanish ones.
    if _WESTERN.search(text) and _is_text(data, first):
        return first
    ranked = dict(_ranked(sample, _LATIN))
    if _TURKISH.search(text) and ranked.get("cp1254", 0.0) * _CLEARLY > ranked.get(first, 0.0):
        first = "cp1254"
    for name, confidence in ranked.items():
        is_better = name == first or confidence > _CLEARLY * ranked.get(first, 0.0)
        if is_better and _is_text(data, name):
            return name
    return first if _is_text(data, first) else "latin-1"


def _ranked(sample: bytes, names: tuple[str, ...]) -> Iterator[tuple[str, float]]:
    """Yield the given encodings with their probability, most probable first."""
    import chardet

    candidates = chardet.detect_all(
        sample,
        ignore_threshold=True,
        compat_names=False,
        prefer_superset=True,
        include_encodings=names,
    )
    for entry in candidates:
        if entry["encoding"] is not None:
            yield entry["encoding"], entry["confidence"]


def _is_text(data: bytes, name: str) -> bool:
    """Return whether bytes decode without private-use characters."""
    try:
        return not _NO_TEXT.search(data.decode(name))
    except (UnicodeDecodeError, LookupError):
        return False
