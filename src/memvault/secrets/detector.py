"""Find secrets in a text, and mask them."""

from __future__ import annotations

import contextlib
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from importlib.util import find_spec
from typing import Any, NamedTuple

from memvault.errors import MemvaultError
from memvault.files.user_folders import user_folder
from memvault.lazy_pattern import lazy_pattern
from memvault.secrets.patterns import FORMS, SHORTEST_WORD, SecretPattern, is_placeholder, pattern

_LONG_WORD = lazy_pattern(r"\w{16,}")


def is_installed() -> bool:
    """Return whether the optional kingfisher package is installed."""
    return find_spec("kingfisher_sdk") is not None


def spans(text: str) -> list[tuple[int, int, str]]:
    """Return the position and kind of each secret that kingfisher finds."""
    if not any(_has_digit(match[0]) for match in _LONG_WORD.finditer(text)):
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
    return [one for one in secrets if one[0] < one[1] and MASK not in text[one[0] : one[1]]]


def _to_character_offsets(data: bytes, places: list[tuple[int, int, str]]) -> list[tuple[int, int]]:
    """Convert positions in bytes to positions in the decoded text."""
    offsets = sorted({at for start, end, _ in places for at in (start, end)})
    at: dict[int, int] = {}
    characters = last = 0
    for offset in offsets:
        characters += len(data[last:offset].decode("utf-8", "ignore"))
        at[offset], last = characters, offset
    return [(at[start], at[end]) for start, end, _ in places]


def _has_digit(word: str) -> bool:
    return any(char.isdigit() for char in word)


@lru_cache(None)
def _scanner() -> Any:
    """Return the scanner, with rules compiled once and then loaded from the user's cache."""
    import kingfisher_sdk

    folder = None
    with contextlib.suppress(MemvaultError):  # an invalid folder is reported elsewhere
        folder = user_folder("cache")
    cache_folder = folder / "kingfisher" if folder else None
    rules = kingfisher_sdk.Rules(cache=cache_folder is not None, cache_dir=cache_folder)
    return kingfisher_sdk.DetectionScanner(rules, base64=False)


def _rule_kind(rule_id: str) -> str:
    """Return a rule's name as a phrase: ``betterleaks.github-pat`` is a github pat."""
    return re.split(r"[./]", rule_id)[-1].replace("-", " ")


KEY = "secrets"
"""The header key whose value ``allowed`` declares that a memory may contain secrets."""
ALLOWED = "allowed"
_ALLOW_MARK = lazy_pattern("gitleaks:allow|pragma: allowlist secret")
"""Marks that allow the secrets on their line, also known to scanners of repositories."""
_MIN_REPEATED_LENGTH = 8
"""Minimum length of a secret that is masked at its other positions in the text as well."""
_MAX_WORD_LENGTH = 16
"""A secret of lower-case letters alone is no word of a sentence from this length on."""
_MAX_REPEATED = 100
"""Maximum number of secrets searched for at other positions; each search scans the whole text."""
_PIECE_LENGTH = 8
"""Length in characters of the pieces by which parts of a secret are recognized."""
MASK = "[masked: "
"""The beginning of a mask."""
_MASKS = lazy_pattern(r"(\[masked: [^\]\n]{1,40}\])")
_LINE_END = lazy_pattern("\n")


class Secret(NamedTuple):
    """A secret: its kind, its start and end in the text, and its line, counted from 1."""

    kind: str
    start: int
    end: int
    line: int


def allows(header: Mapping[str, Any]) -> bool:
    """Return whether a header allows the secrets in its file."""
    return str(header.get(KEY) or "").strip().casefold() == ALLOWED


Source = Callable[[str], Iterable[tuple[int, int, str]]]
"""A function from a text to the start, end and kind of each secret in it."""


class SecretDetector:
    """A way to find and mask secrets: by the built-in formats, and by another source if given.

    For a span that both find, the built-in kind is used.
    """

    def __init__(self, more: Source | None = None) -> None:
        self._more = more

    def find(self, text: str) -> list[Secret]:
        """Return the secrets in a text in order, without overlaps.

        Secrets on a line with a mark that allows them are left out.
        """
        found = [*_find_spans(text), *(self._more(text) if self._more else ())]
        if not found:
            return []
        lines = [match.end() for match in _LINE_END.finditer(text)]
        allowed = _allowed_lines(text, lines)
        secrets: list[Secret] = []
        end = 0
        for start, stop, kind in sorted(found, key=lambda span: (span[0], -span[1])):
            line = bisect_right(lines, start)
            if start >= end and line not in allowed:
                secrets.append(Secret(kind, start, stop, line + 1))
                end = stop
        return secrets

    def values(self, text: str) -> dict[str, str]:
        """Return the secrets in a text, each with its kind."""
        return {text[one.start : one.end]: one.kind for one in self.find(text)}

    def around(self, text: str, start: int, end: int) -> tuple[int, int]:
        """Return the start and end of a part of a text, moved so that it cuts no secret.

        Masks then replace the secrets of the part, however short it was.
        """
        for one in self.find(text):
            if one.start < start < one.end:
                start = one.start
            if one.start < end < one.end:
                end = one.end
        return start, end

    def masked(self, text: str, fine: Iterable[str] = ()) -> str:
        """Return a text with a mask for each secret, except for the ``fine`` values."""
        allowed = frozenset(fine)
        while spans := [one for one in self.find(text) if text[one.start : one.end] not in allowed]:
            pieces, end = [], 0
            for kind, start, stop, _ in spans:
                pieces += [text[end:start], mask(kind)]
                end = stop
            text = "".join([*pieces, text[end:]])
        return text

    def masked_part(self, part: str, secrets: Mapping[str, str], fine: Iterable[str] = ()) -> str:
        """Return a part of a text, cut anywhere, with masks over pieces of secrets of the whole.

        ``secrets`` are those of the whole text, from ``values``. Fewer than eight characters of a
        secret may remain where it was cut.
        """
        part = self.masked(part, fine)
        if not secrets:
            return part
        pieces = {
            value[at : at + _PIECE_LENGTH]: kind
            for value, kind in secrets.items()
            for at in range(len(value) - _PIECE_LENGTH + 1)
        }
        return "".join(
            between if between.startswith(MASK) else _mask_pieces(between, pieces)
            for between in _MASKS.split(part)
        )


BUILTIN = SecretDetector()
"""The detector of the built-in formats alone."""
masked = BUILTIN.masked
"""Mask the secrets in a text that belongs to no vault."""


@lru_cache(None)
def detector_named(name: str) -> SecretDetector:
    """Return the detector that a vault's settings name: ``kingfisher`` if it is installed."""
    return SecretDetector(spans) if name == "kingfisher" and is_installed() else BUILTIN


def _mask_pieces(text: str, pieces: Mapping[str, str]) -> str:
    """Return a text with masks over everything that consists of the given pieces of secrets."""
    out: list[str] = []
    end = 0
    hidden = -1  # end of the last piece found
    for at in range(len(text) - _PIECE_LENGTH + 1):
        kind = pieces.get(text[at : at + _PIECE_LENGTH])
        if kind is not None:
            if at > hidden:
                out += [text[end:at], mask(kind)]
            hidden = end = at + _PIECE_LENGTH
    return "".join([*out, text[end:]])


def mask(kind: str) -> str:
    """Return the mask that replaces a secret."""
    return f"{MASK}{kind}]"


def _find_spans(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield the position and kind of each secret, and of further occurrences of long ones."""
    repeated: set[tuple[str, str]] = set()
    for form in _possible_formats(text):
        compiled = pattern(form)
        for match in compiled.finditer(text):
            group = 1 if compiled.groups else 0
            value = match[group]
            if is_placeholder(form, value):
                continue
            yield *match.span(group), form.kind
            if group and _is_distinctive(value) and len(repeated) < _MAX_REPEATED:
                repeated.add((value, form.kind))
    for value, kind in repeated:
        start = text.find(value)
        while start >= 0:
            yield start, start + len(value), kind
            start = text.find(value, start + len(value))


def _is_distinctive(value: str) -> bool:
    """Return whether a secret is long enough to be masked everywhere, and no common word."""
    is_word = value.isalpha() and value[1:].islower() and len(value) < _MAX_WORD_LENGTH
    return len(value) >= _MIN_REPEATED_LENGTH and not is_word


def _possible_formats(text: str) -> Iterator[SecretPattern]:
    """Yield the formats whose mark occurs in the text; most texts have few long words."""
    words = " ".join([word for word in text.split() if len(word) >= SHORTEST_WORD])
    for form in FORMS:
        searched = words if form.is_word else text
        for mark in form.marks:
            if mark in searched:
                if not form.is_word or pattern(form).search(words):
                    yield form
                break


def _allowed_lines(text: str, lines: list[int]) -> set[int]:
    """Return the lines with a mark that allows their secrets."""
    return {bisect_right(lines, match.start()) for match in _ALLOW_MARK.finditer(text)}
