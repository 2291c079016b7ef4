"""Normalize titles, names and tags for comparison."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import Literal

from memvault.lazy_pattern import lazy_pattern
from memvault.model import is_document
from memvault.sanitize import replace_surrogates

NOT_IN_LINKS = frozenset("[]|#^\n")
"""The characters that the target of a wikilink cannot contain."""
_MOST_MARKS = 30
"""Maximum number of combining marks normalized together, as in Unicode's stream-safe format."""
_MARKS = lazy_pattern(f"(?:[^\\w\\s\0-\u02ff]|[\uff9e\uff9f]){{{_MOST_MARKS + 1},}}+")
"""Matches a run of possible combining marks; ﾞ and ﾟ become marks in NFKC and NFKD."""


def normalize(form: Literal["NFC", "NFKC", "NFKD"], text: str) -> str:
    """Return text in a Unicode normal form, normalizing long runs of marks in pieces.

    Python sorts a run of combining marks in quadratic time: half a million marks on one letter
    would take minutes.
    """
    if len(text) <= _MOST_MARKS or text.isascii():
        return unicodedata.normalize(form, text)
    pieces, start = [], 0
    for run in _MARKS.finditer(text):
        for cut in range(run.start() + _MOST_MARKS, run.end(), _MOST_MARKS):
            pieces.append(text[start:cut])
            start = cut
    pieces.append(text[start:])
    return "".join(unicodedata.normalize(form, piece) for piece in pieces)


def normalize_title(name: str) -> str:
    """Return a title as a search key that ignores case and composition of characters."""
    return normalize("NFC", normalize("NFC", name).casefold())


def folded(path: str) -> str:
    """Return a path as compared by file systems that ignore case and Unicode normalization."""
    if path.isascii():
        return path.lower()
    visible = "".join(char for char in path if unicodedata.category(char) != "Cf")
    return normalize_title(visible)


def names_folded(path: str) -> list[str]:
    """Return the parts of a path as any of Linux, macOS and Windows may interpret them.

    They are folded, without the parts that Windows ignores: trailing dots and spaces, and a stream
    name after a colon.
    """
    return [name.partition(":")[0].rstrip(" .") for name in folded(path).split("/")]


def tag_key(tag: str) -> str:
    """Return the key for comparing tags, which ignores case and Unicode composition."""
    return tag.lower() if tag.isascii() else normalize_title(tag)


_SEPARATORS = lazy_pattern(r"[-_.]+")
_UUID = lazy_pattern(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE | re.ASCII)
_TIMESTAMP = lazy_pattern(
    r"(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])(?:[01]\d|2[0-3])[0-5]\d(?:[0-5]\d)?",
    re.ASCII,
)
_HEXADECIMAL = lazy_pattern(r"[0-9a-f]+", re.IGNORECASE | re.ASCII)
_LONG_RUN = lazy_pattern(r"[a-z]{3}|\d{3}", re.IGNORECASE | re.ASCII)
_LETTER_BESIDE_DIGIT = lazy_pattern(r"(?<=[a-z])(?=\d)|(?<=\d)(?=[a-z])", re.IGNORECASE | re.ASCII)
_WORD = lazy_pattern(r"[a-z]{6}", re.IGNORECASE | re.ASCII)
_MIN_RANDOM, _MIN_ALTERNATIONS, _MIN_HASH_ALTERNATIONS = 8, 3, 2


def is_identifier(name: str) -> bool:
    """Return whether a name has no words: a timestamp, a hash, a UUID or random characters.

    A timestamp has a day and a time. Random characters alternate between letters and digits, in
    mixed case as in "V1StGXR8Z5jdHi6" or in short runs as in "x7k2p9q4". The day of a daily note, a
    number and a product such as "rtx4090ti16gb" are not identifiers.
    """
    parts = [part for part in _SEPARATORS.split(name) if part]
    made = [part for part in parts if _TIMESTAMP.fullmatch(part) or _is_random(part)]
    rest = "".join(part for part in parts if part not in made)
    return _UUID.fullmatch(name) is not None or (bool(made) and not rest.strip("0123456789"))


def _is_random(part: str) -> bool:
    if len(part) < _MIN_RANDOM or not part.isalnum() or _WORD.search(part):
        return False
    alternations = len(_LETTER_BESIDE_DIGIT.findall(part))
    if _HEXADECIMAL.fullmatch(part):
        return alternations >= _MIN_HASH_ALTERNATIONS
    is_mixed = part not in (part.lower(), part.upper(), part.capitalize())
    return alternations >= _MIN_ALTERNATIONS and (is_mixed or not _LONG_RUN.search(part))


def name_key(name: str) -> str:
    """Return a name as the index stores it: ignoring case, without ``.md``."""
    key = name.lower()
    if not name.isascii():
        key = replace_surrogates(normalize_title(name))  # SQLite cannot store surrogates
    return key.removesuffix(".md") if len(key) > len(".md") else key


def exact_key(name: str) -> str:
    """Normalize a name like ``name_key``, but preserve its case."""
    key = name if name.isascii() else replace_surrogates(normalize("NFC", name))
    return key[: -len(".md")] if key[-3:].lower() == ".md" and len(key) > len(".md") else key


def link_path(path: str) -> str:
    """Return a file's path as wikilinks write it: a memory's without ``.md``."""
    return path if is_document(path) else path[: -len(".md")]


def name_keys(path: str, mem_id: str, title: str, aliases: Iterable[str]) -> list[str]:
    """Return every name that a header may use for a memory, as the index stores them."""
    file = path.rpartition("/")[2]
    return list(dict.fromkeys(map(name_key, (mem_id, path, title, file, *aliases))))


def link_keys(path: str, mem_id: str, title: str, aliases: Iterable[str]) -> list[str]:
    """Return every name that a link may use for a memory, including each suffix of its path."""
    names = name_keys(path, mem_id, title, aliases)
    return list(dict.fromkeys([*names, *map(name_key, path_suffixes(path))]))


def link_distance(path: str, source: str) -> tuple[bool, int, str]:
    """Return a sort key for paths with the same name, as targets of a link in the file ``source``.

    As in Obsidian, paths in that file's folder or below it come first, then shorter paths.
    """
    return (not path.startswith(source[: source.rfind("/") + 1]), len(path), path)


def path_suffixes(path: str) -> Iterable[str]:
    """Yield a path without its first folder, without its first two, and so on.

    Obsidian accepts these as link targets.
    """
    parts = path.split("/")
    return ("/".join(parts[start:]) for start in range(1, len(parts)))
