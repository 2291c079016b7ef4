"""Derive file names, ids and types from titles and paths."""

from __future__ import annotations

import re
import unicodedata
from itertools import islice
from pathlib import PurePosixPath

from memvault import clock
from memvault.errors import UsageError
from memvault.files.plain_files import digest_of
from memvault.lazy_pattern import lazy_pattern
from memvault.model import RESERVED_FOLDERS
from memvault.vault.names import normalize

_WINDOWS = frozenset(
    ["con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(1, 10))]
)
_NOT_IN_NAMES = frozenset('\\/:*?"<>|#^[]')
"""Characters to avoid in file names, because some systems forbid them or they would break links."""
_LEADING_MARKS = lazy_pattern(r"^[^\w]+")
_MAX_SLUG_BYTES = 120
_MAX_ID_SLUG = 40
_MAX_ID = 120


def is_reserved(name: str) -> bool:
    """Return whether Windows reserves a file's name, regardless of its suffix."""
    return name.lower().partition(".")[0] in _WINDOWS


_NOT_ALPHANUMERIC = lazy_pattern(r"[^a-z0-9]")


def slug(title: str, limit: int = _MAX_SLUG_BYTES) -> str:
    """Return the file name stem for a title: letters and digits of any script, and hyphens.

    It is truncated between words to at most ``limit`` bytes of UTF-8, is never empty, and is never
    a name reserved by Windows.
    """
    folded = normalize("NFC", title).lower()
    cleaned = (
        _NOT_ALPHANUMERIC.sub("-", folded)
        if folded.isascii()
        else "".join(char if unicodedata.category(char)[0] in "LMN" else "-" for char in folded)
    )
    parts = cleaned.split("-")
    if not cleaned.isascii():
        parts = [_LEADING_MARKS.sub("", part) for part in parts]
    words = list(islice(filter(None, parts), limit))  # more cannot fit
    while len("-".join(words).encode()) > limit and len(words) > 1:
        words.pop()
    out = "-".join(words).encode()[:limit].decode("utf-8", "ignore")
    if not out:
        return "memory"
    return f"{out}-memory" if is_reserved(out) else out


def file_name(title: str) -> str:
    """Return a title as a file name stem if Obsidian and every system allow it, else its slug."""
    fits = len(title.encode("utf-8", "replace")) <= _MAX_SLUG_BYTES and title.isprintable()
    is_odd = title.startswith(".") or title != title.strip() or is_reserved(title)
    is_usable = fits and not is_odd and not _NOT_IN_NAMES.intersection(title)
    return title if is_usable and title else slug(title)


def new_id(title: str) -> str:
    """Return a new memId: a shortened slug of the title and six random characters."""
    return f"{slug(title, _MAX_ID_SLUG)}-{clock.random_id()}"


def derived_id(path: str) -> str:
    """Return the memId of a file whose header has none, derived from its path only."""
    return f"{slug(PurePosixPath(path).stem, _MAX_ID_SLUG)}-{_hash_suffix(path)}"


def id_from_name(name: str) -> str:
    """Return an id derived only from a name, so it is the same on every machine."""
    return f"{slug(name, _MAX_ID_SLUG)}-{_hash_suffix(name)}"


def _hash_suffix(text: str) -> str:
    number = int.from_bytes(digest_of(text.encode("utf-8", "surrogatepass"), 64)[:8])
    return "".join(clock.ID_ALPHABET[(number >> (5 * position)) & 31] for position in range(6))


def is_mem_id(text: str) -> bool:
    """Return whether a string is a valid memId: letters, digits and marks, with - _ . inside."""
    return 1 < len(text) <= _MAX_ID and all(
        unicodedata.category(char)[0] in "LMN" or (position and char in "-_.")
        for position, char in enumerate(text)
    )


def normal_type(name: str) -> str:
    """Return a type's name in kebab case.

    Raises:
        UsageError: a folder for memories cannot have this name.
    """
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name.strip())
    kebab = re.sub(r"[\s_-]+", "-", normalize("NFC", spaced)).strip("-").lower()
    if slug(kebab, 200) not in (kebab, f"{kebab}-memory") or len(kebab) > 60:
        raise UsageError(
            f"{name!r} is not a valid memory type",
            "use letters, digits and hyphens, for example `design-decision`",
        )
    if kebab in RESERVED_FOLDERS or is_reserved(kebab):
        raise UsageError(f"The folder {kebab!r} is not for memories", "choose another type")
    return kebab
