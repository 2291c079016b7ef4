"""More forms of secrets, by kingfisher: an extra, for vaults that ask for it.

The only home of its SDK. Loading it and its 490 rules takes a quarter of a
second, so it is asked only about texts with a word that may be a secret.
"""

from __future__ import annotations

import contextlib
import re
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

from memvault.errors import MemvaultError
from memvault.secrets_found import detect
from memvault.user_folders import user_folder

_WORD = re.compile(r"\w{16,}")


def is_installed() -> bool:
    """Say whether the extra is there."""
    return find_spec("kingfisher_sdk") is not None


def spans(text: str) -> list[tuple[int, int, str]]:
    """Return where secrets stand, and their kinds."""
    if not any(_may_be(match[0]) for match in _WORD.finditer(text)):
        return []
    data = text.encode("utf-8", "replace")
    found = [
        (finding.location["start_offset"], finding.location["end_offset"], _kind(finding.rule_id))
        for finding in _scanner().scan(data)
        if finding.visible
    ]
    placed = zip(_in_characters(data, found), found, strict=True)
    named = [(start, end, kind) for (start, end), (_, _, kind) in placed]
    return [one for one in named if one[0] < one[1] and detect.MASK not in text[one[0] : one[1]]]


def _in_characters(data: bytes, places: list[tuple[int, int, str]]) -> list[tuple[int, int]]:
    """Return places in bytes as places in the text that these spell."""
    offsets = sorted({at for start, end, _ in places for at in (start, end)})
    at: dict[int, int] = {}
    characters = last = 0
    for offset in offsets:
        characters += len(data[last:offset].decode("utf-8", "ignore"))
        at[offset], last = characters, offset
    return [(at[start], at[end]) for start, end, _ in places]


def _may_be(word: str) -> bool:
    return any(char.isdigit() for char in word)


@lru_cache(None)
def _scanner() -> Any:
    """Return the scanner; its rules are compiled once, and then read from the user's cache."""
    import kingfisher_sdk

    folder = None
    with contextlib.suppress(MemvaultError):  # of a folder that makes no sense others tell
        folder = user_folder("cache")
    place = folder / "kingfisher" if folder else None
    rules = kingfisher_sdk.Rules(cache=place is not None, cache_dir=place)
    return kingfisher_sdk.DetectionScanner(rules, base64=False)


def _kind(rule_id: str) -> str:
    """Return a rule's name in words: ``betterleaks.github-pat`` is a github pat."""
    return re.split(r"[./]", rule_id)[-1].replace("-", " ")
