"""Find secrets with the rules of kingfisher, an optional package."""

from __future__ import annotations

import contextlib
import re
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

from memvault.errors import MemvaultError
from memvault.files.user_folders import user_folder
from memvault.lazy_pattern import lazy_pattern
from memvault.secrets.patterns import MASK

_LONG_WORD = lazy_pattern(r"\w{16,}")


def is_installed() -> bool:
    """Return whether the optional kingfisher package is installed."""
    return find_spec("kingfisher_sdk") is not None


def find_spans(text: str) -> list[tuple[int, int, str]]:
    """Return the position and kind of each secret that kingfisher finds."""
    if not any(char.isdigit() for match in _LONG_WORD.finditer(text) for char in match[0]):
        return []
    data = text.encode("utf-8", "replace")
    findings = [
        (
            finding.location["start_offset"],
            finding.location["end_offset"],
            _rule_kind(finding.rule_id),
        )
        for finding in _scanner().scan(data)
        if finding.visible
    ]
    placed = zip(_to_character_offsets(data, findings), findings, strict=True)
    secrets = [(start, end, kind) for (start, end), (_, _, kind) in placed]
    return [span for span in secrets if span[0] < span[1] and MASK not in text[span[0] : span[1]]]


def _to_character_offsets(data: bytes, spans: list[tuple[int, int, str]]) -> list[tuple[int, int]]:
    """Convert positions in bytes to positions in the decoded text."""
    offsets = sorted({at for start, end, _ in spans for at in (start, end)})
    at: dict[int, int] = {}
    characters = last = 0
    for offset in offsets:
        characters += len(data[last:offset].decode("utf-8", "ignore"))
        at[offset], last = characters, offset
    return [(at[start], at[end]) for start, end, _ in spans]


@lru_cache(None)
def _scanner() -> Any:
    """Return the scanner, with rules compiled once and then loaded from the user's cache."""
    import kingfisher_sdk

    folder = None
    with contextlib.suppress(MemvaultError):  # An invalid folder is reported elsewhere.
        folder = user_folder("cache")
    cache_folder = folder / "kingfisher" if folder else None
    rules = kingfisher_sdk.Rules(cache=cache_folder is not None, cache_dir=cache_folder)
    return kingfisher_sdk.DetectionScanner(rules, base64=False)


def _rule_kind(rule_id: str) -> str:
    """Return a rule's name as words: ``betterleaks.github-pat`` becomes github pat."""
    return re.split(r"[./]", rule_id)[-1].replace("-", " ")
