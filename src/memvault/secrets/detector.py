"""Find secrets in text, and mask them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from memvault.errors import MemvaultError
from memvault.lazy_pattern import lazy_pattern
from memvault.named_tuple import NamedTuple
from memvault.secrets import plain_copy
from memvault.secrets.patterns import (
    FORMS,
    MASK,
    SHORTEST_WORD,
    SecretPattern,
    is_placeholder,
    pattern,
    unbounded,
)

KEY = "secrets"
"""The header key that permits secrets in a memory if its value is ``allowed``."""
ALLOWED = "allowed"
_ALLOW_MARK = lazy_pattern("gitleaks:allow|pragma: allowlist secret")
"""Comments that allow the secrets on their line; repository scanners honor them too."""
_MIN_REPEATED_LENGTH = 8
"""Minimum length of a secret for its other occurrences in the text to be masked too."""
_SHORTEST = len("://:abc@d")
"""Minimum length of text with a secret."""
_MAX_WORD_LENGTH = 16
"""Minimum length for a string of lowercase letters to be a secret rather than a word."""
_MAX_REPEATED = 100
"""Maximum number of secrets to search for other occurrences; each search scans the text."""
_PIECE_LENGTH = 8
"""Length in characters of the pieces used to recognize parts of a secret."""
_MASKS = lazy_pattern(r"(\[masked: [^\]\n]{1,40}\])")
_IN_URL = "password in a URL"
_NEEDED = {
    _IN_URL: ("@",),
    "AWS secret key": ("key", "Key", "KEY"),
    "credentials in a header": ("earer", "asic", "oken"),
    "private key": ("PRIVATE KEY", "Private-Lines"),
}
"""Words by kind; text must contain one of them in addition to the kind's marker."""
_AFTER_KEYWORD = frozenset({"credentials in a header", "AWS secret key"})
_LINE_END = lazy_pattern("\n")


class Secret(NamedTuple):
    """A secret: its kind, its start and end in the text, and its line, counted from 1.

    ``values`` contains the secret with and without markup, if both were found.
    """

    kind: str
    start: int
    end: int
    line: int
    values: tuple[str, ...]

    def is_in(self, allowed: Container[str]) -> bool:
        """Return whether ``allowed`` contains all values of the secret."""
        return all(value in allowed for value in self.values)


class _Span(NamedTuple):
    start: int
    end: int
    kind: str
    value: str


def allows(header: Mapping[str, Any]) -> bool:
    """Return whether a header allows the secrets in its file."""
    return str(header.get(KEY) or "").strip().casefold() == ALLOWED


Source = Callable[[str], Iterable[tuple[int, int, str]]]
"""A function that maps text to the start, end and kind of each secret in it."""


class SecretDetector:
    """Finds and masks secrets by the built-in formats and, if given, another detector.

    For a span that both find, the built-in kind is used.
    """

    def __init__(self, extra_source: Source | None = None) -> None:
        self._extra_source = extra_source

    def find(self, text: str) -> list[Secret]:
        """Return the secrets in text in order, without overlaps.

        Secrets on a line with a comment that allows them are left out.
        """
        # A non-ASCII character may normalize to several characters.
        if len(text) < _SHORTEST and text.isascii() and self._extra_source is None:
            return []
        spans = self._spans(text)
        if not spans:
            return []
        lines = [match.end() for match in _LINE_END.finditer(text)]
        allowed = {bisect_right(lines, match.start()) for match in _ALLOW_MARK.finditer(text)}
        secrets: list[Secret] = []
        for start, end, kind, value in sorted(spans, key=lambda span: (span.start, -span.end)):
            line = bisect_right(lines, start)
            if line in allowed:
                continue
            if secrets and start < secrets[-1].end:
                last = secrets[-1]
                values = dict.fromkeys([*last.values, value])
                secrets[-1] = last._replace(end=max(end, last.end), values=tuple(values))
            else:
                secrets.append(Secret(kind, start, end, line + 1, (value,)))
        return secrets

    def _spans(self, text: str) -> list[_Span]:
        """Return the secrets in text and in its copies without markup, which may overlap."""
        long_words = _long_words(text)
        forms = _possible_formats(text, long_words)
        spans = [_Span(*span, text[span[0] : span[1]]) for span in self._written(text, forms)]
        kinds = {form.kind for form in forms if not form.is_word}
        near_keyword = not kinds.isdisjoint(_AFTER_KEYWORD)
        # A short word can be part of a URL with a password, or the keyword before a secret.
        searched = text if near_keyword or (_IN_URL in kinds) else long_words
        is_key = "private key" in kinds
        for copy in plain_copy.plain_copies(text, searched, near_keyword, is_key):
            copied = _long_words(copy.text)
            forms = _possible_formats(copy.text, copied)
            spans += [
                _Span(*copy.original(start, end), kind, copy.text[start:end])
                for start, end, kind in self._written(copy.text, forms)
            ]
        return spans

    def _written(self, text: str, forms: Iterable[SecretPattern]) -> Iterator[tuple[int, int, str]]:
        """Yield the position and kind of each secret as it is written in text."""
        yield from _find_spans(text, forms)
        if self._extra_source:
            yield from self._extra_source(text)

    def values(self, text: str) -> dict[str, str]:
        """Return the kind of each secret in text, by its value as written and as rendered."""
        return {value: secret.kind for secret in self.find(text) for value in secret.values}

    def around(self, text: str, start: int, end: int) -> tuple[int, int]:
        """Return the start and end of a part of the text, extended so that it splits no secret.

        Masking the part then hides every secret in it.
        """
        for secret in self.find(text):
            if secret.start < start < secret.end:
                start = secret.start
            if secret.start < end < secret.end:
                end = secret.end
        return start, end

    def masked(self, text: str, fine: Iterable[str] = ()) -> str:
        """Return text in which each secret is masked, except the values in ``fine``."""
        allowed = frozenset(fine)
        while spans := [secret for secret in self.find(text) if not secret.is_in(allowed)]:
            text = _with_masks(text, [(secret.start, secret.end, secret.kind) for secret in spans])
        return text

    def masked_values(self, value: Any) -> Any:
        """Return a value in which the secrets in all strings are masked."""
        if isinstance(value, str):
            return self.masked(value)
        if isinstance(value, Mapping):
            entries = value.items()
            return {self.masked_values(key): self.masked_values(entry) for key, entry in entries}
        if isinstance(value, list | tuple):
            return [self.masked_values(entry) for entry in value]
        return value

    def mask_error(self, error: MemvaultError) -> None:
        """Mask the secrets in the message, hint and details of an error."""
        error.message, error.hint = self.masked(error.message), self.masked(error.hint)
        error.details = self.masked_values(error.details)
        error.args = (error.message,)

    def masking(self, header: Mapping[str, Any]) -> Callable[[str], str]:
        """Return a function that masks secrets in content of a memory with this header.

        It returns content unchanged if the header allows secrets.
        """
        return str if allows(header) else self.masked

    def masked_part(self, part: str, secrets: Mapping[str, str], fine: Iterable[str] = ()) -> str:
        """Return a part of text in which all pieces of the whole text's secrets are masked.

        ``secrets`` contains the secrets of the whole text, as returned by ``values``. Fewer than
        eight characters of a secret may remain at the edges of the part.
        """
        part = self.masked(part, fine)
        if not secrets:
            return part
        pieces = {
            value[at : at + _PIECE_LENGTH]: kind
            for value, kind in secrets.items()
            for at in range(len(value) - _PIECE_LENGTH + 1)
        }
        searched = _MASKS.sub(lambda match: "\0" * len(match[0]), part)
        spans = list(_piece_spans(searched, pieces))
        for copy in plain_copy.plain_copies(part, part):
            for start, end, kind in _piece_spans(copy.text, pieces):
                spans.append((*copy.original(start, end), kind))
        return _with_masks(part, spans)


BUILTIN = SecretDetector()
"""The detector that uses only the built-in formats."""
masked = BUILTIN.masked
"""Masks the secrets in text from outside a vault."""


@lru_cache(None)
def detector_named(name: str) -> SecretDetector:
    """Return the detector named in a vault's settings; ``kingfisher`` requires its package."""
    if name == "kingfisher":
        from memvault.secrets import kingfisher

        if kingfisher.is_installed():
            return SecretDetector(kingfisher.find_spans)
    return BUILTIN


def _piece_spans(text: str, pieces: Mapping[str, str]) -> Iterator[tuple[int, int, str]]:
    """Yield the position and kind of each span that consists of the given pieces of secrets."""
    start = end = -1
    found_kind = ""
    for at in range(len(text) - _PIECE_LENGTH + 1):
        kind = pieces.get(text[at : at + _PIECE_LENGTH])
        if kind is None:
            continue
        if at > end:
            if found_kind:
                yield start, end, found_kind
            start, found_kind = at, kind
        end = at + _PIECE_LENGTH
    if found_kind:
        yield start, end, found_kind


def _with_masks(text: str, spans: Iterable[tuple[int, int, str]]) -> str:
    """Return text with each span replaced by a mask; overlapping spans share one."""
    pieces, done = [], 0
    for start, end, kind in sorted(spans, key=lambda span: (span[0], -span[1])):
        if end <= done:
            continue
        if start >= done:
            pieces += [text[done:start], mask(kind)]
        done = end
    return "".join([*pieces, text[done:]])


def mask(kind: str) -> str:
    """Return the mask that replaces a secret."""
    return f"{MASK}{kind}]"


def _find_spans(text: str, forms: Iterable[SecretPattern]) -> Iterator[tuple[int, int, str]]:
    """Yield the position and kind of each secret, including repeats of long secrets."""
    repeated: set[tuple[str, str]] = set()
    for form in forms:
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
    """Return whether a secret is long enough to mask everywhere and is not a common word."""
    is_word = value.isalpha() and value[1:].islower() and len(value) < _MAX_WORD_LENGTH
    return len(value) >= _MIN_REPEATED_LENGTH and not is_word


def _long_words(text: str) -> str:
    """Return the words in text that are long enough to be secrets, usually few."""
    return " ".join([word for word in text.split() if len(word) >= SHORTEST_WORD])


_TEXT_MARKS = [(mark, form) for form in FORMS if not form.is_word for mark in form.marks]
_WORD_MARKS: dict[str, list[tuple[str, int]]] = {}
"""Markers of the single-word formats, grouped by their first non-alphanumeric character."""
for _number, _form in enumerate(FORMS):
    for _mark in _form.marks if _form.is_word else ():
        _sign = next((_char for _char in _mark if not _char.isalnum()), "")
        _WORD_MARKS.setdefault(_sign, []).append((_mark, _number))


def _possible_formats(text: str, long_words: str) -> list[SecretPattern]:
    """Return the formats whose marker occurs in text with these long words."""
    possible = [form for mark, form in _TEXT_MARKS if mark in text]
    if possible:
        possible = [
            form
            for form in dict.fromkeys(possible)
            if any(sign in text for sign in _NEEDED[form.kind])
        ]
    if not long_words:
        return possible
    numbers: list[int] = []
    for sign, marks in _WORD_MARKS.items():
        if sign in long_words:
            numbers += [number for mark, number in marks if mark in long_words]
    for number in dict.fromkeys(numbers):
        if unbounded(FORMS[number]).search(long_words):
            possible.append(FORMS[number])
    return possible
