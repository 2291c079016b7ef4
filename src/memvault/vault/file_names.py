"""Titles, aliases and names of memories, and the dates in file names."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, date, datetime, time, timedelta
from pathlib import PurePosixPath
from typing import Any, Literal, NamedTuple

from memvault import clock
from memvault.lazy_pattern import lazy_pattern
from memvault.model import Memory
from memvault.sanitize import replace_surrogates
from memvault.vault import header_dates

_MOST_MARKS = 30
"""Maximum number of combining marks normalized together, as in Unicode's stream-safe format."""
_MARKS = lazy_pattern(f"(?:[^\\w\\s\0-\u02ff]|[\uff9e\uff9f]){{{_MOST_MARKS + 1},}}+")
"""A run of possible combining marks; the two named letters become marks in NFKC and NFKD."""


def normalize(form: Literal["NFC", "NFKC", "NFKD"], text: str) -> str:
    """Return a text in a Unicode normal form; longer runs of marks are normalized in pieces.

    Python sorts a run of combining marks in quadratic time: half a million marks on one letter
    would take minutes.
    """
    if text.isascii():
        return text
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
    """Return a path as compared by file systems that ignore case and Unicode normal forms."""
    if path.isascii():
        return path.lower()
    kept = "".join(char for char in path if unicodedata.category(char) != "Cf")
    return normalize_title(kept)


def names_folded(path: str) -> list[str]:
    """Return the parts of a path as Linux, macOS or Windows may read them: folded, without ends.

    Windows ignores dots and blanks at the end of a name, and a stream after a colon.
    """
    return [name.partition(":")[0].rstrip(" .") for name in folded(path).split("/")]


def tag_key(tag: str) -> str:
    """Return the form in which tags are compared, ignoring case and composition of characters."""
    return tag.lower() if tag.isascii() else normalize_title(tag)


def of_new(title: str, stem: str, given: Any) -> dict[str, list[Any]]:
    """Return the aliases of a new memory's header: the given ones, and the title if needed."""
    others = given if isinstance(given, list) else [given] if given else []
    if _needs_alias(title, stem):
        others = [title, *(name for name in others if name != title)]
    return {"aliases": others} if others else {}


def retitled(memory: Memory, title: str, keep_old: bool = False) -> dict[str, list[Any]]:
    """Return the changes to a memory's header that follow from a new title.

    An alias equal to the old title is replaced by the new title; other aliases are kept. With
    ``keep_old``, the old title becomes the last alias, unless it holds a secret.
    """
    given = memory.metadata.get("aliases")
    old: list[Any] = given if isinstance(given, list) else [given] if given else []
    replaced = (memory.title, title)
    new = [
        name
        for name in old
        if not (isinstance(name, str) and any(_is_same_title(name, other) for other in replaced))
    ]
    if _needs_alias(title, PurePosixPath(memory.path).stem):
        new = [title, *new]
    if keep_old and _needs_alias(memory.title, title):
        new = [*new, memory.title]
    return {"aliases": new} if new != old else {}


def _needs_alias(title: str, stem: str) -> bool:
    """Return whether a title needs an alias: it differs from the file name and holds no secret."""
    from memvault.secrets.detector import masked

    return not _is_same_title(title, stem) and masked(title) == title


def _is_same_title(name: str, other: str) -> bool:
    return normalize_title(" ".join(name.split())) == normalize_title(other)


SUPERSEDES = "supersedes"
SUPERSEDED_BY = "superseded_by"
LINK_KEYS = (SUPERSEDES, SUPERSEDED_BY, "conflict_with")
"""The header keys that name other memories."""
_MAX_NAMES = 100
"""Maximum number of names read from one header key."""


def referenced_names(metadata: Mapping[str, Any], key: str) -> list[str]:
    """Return the names at a header key, links without their brackets."""
    value = metadata.get(key)
    names = (link_target(entry) for entry in _strings_in(value))
    return list(dict.fromkeys(name for name in names if name))


def header_links(metadata: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the key and name of each link in a header: of ``LINK_KEYS`` also names alone."""
    for key in dict.fromkeys([*LINK_KEYS, *metadata]):
        if key in LINK_KEYS:
            yield from ((key, name) for name in referenced_names(metadata, key))
            continue
        linked = [text for text in _strings_in(metadata[key]) if is_wikilink(text)]
        yield from ((key, name) for name in referenced_names({key: linked}, key))


def is_wikilink(text: str) -> bool:
    """Return whether a text is one wikilink and nothing else."""
    name = text.strip()
    return name.startswith("[[") and name.endswith("]]") and not set("[]") & set(name[2:-2])


def _strings_in(value: Any, depth: int = 0) -> list[str]:
    """Return the strings in a value; YAML reads an unquoted ``[[link]]`` as a list in a list."""
    if isinstance(value, str):
        return [f"[[{value}]]" if depth > 1 else value]
    if not isinstance(value, list):
        return []
    return [text for entry in value[:_MAX_NAMES] for text in _strings_in(entry, depth + 1)][
        :_MAX_NAMES
    ]


def link_target(text: str) -> str:
    """Return the target of a wikilink without heading and shown text; other text unchanged."""
    name = text.strip()
    if name.startswith("[[") and name.endswith("]]"):
        name = name[2:-2].partition("|")[0].partition("#")[0].strip()
    return name.removeprefix("./")


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
    """Return whether a name is a timestamp, a hash, a UUID or random characters, without a word.

    A timestamp has a day and a time. Random characters are recognized by letters and digits that
    alternate, and by mixed case, "V1StGXR8Z5jdHi6", or short runs, "x7k2p9q4". The day of a daily
    note, a number and a product such as "rtx4090ti16gb" are no identifiers.
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
        key = replace_surrogates(normalize_title(name))  # as SQLite can store it
    return key.removesuffix(".md") if len(key) > len(".md") else key


def name_keys(path: str, mem_id: str, title: str, aliases: Iterable[str]) -> list[str]:
    """Return every name that a header may use for a memory, as the index stores them."""
    file = path.rpartition("/")[2]
    return list(dict.fromkeys(map(name_key, (mem_id, path, title, file, *aliases))))


def link_keys(path: str, mem_id: str, title: str, aliases: Iterable[str]) -> list[str]:
    """Return every name that a link may use for a memory: also each end of its path."""
    names = name_keys(path, mem_id, title, aliases)
    return list(dict.fromkeys([*names, *map(name_key, ends(path))]))


def ends(path: str) -> Iterable[str]:
    """Yield what remains of a path after removing each of its leading folders, as Obsidian does."""
    parts = path.split("/")
    return ("/".join(parts[start:]) for start in range(1, len(parts)))


_DAY = lazy_pattern(r"(\d{4})([-_.]?)(\d\d)\2(\d\d)", re.ASCII)
_WEEK = lazy_pattern(r"(\d{4})-?[Ww](\d\d)(?:-?(\d))?", re.ASCII)
_MONTH = lazy_pattern(r"(\d{4})[-_.](\d\d)", re.ASCII)
_MONTH_DAY = lazy_pattern(r"(\d\d)[-_.](\d\d)", re.ASCII)
_TWO_DIGITS = lazy_pattern(r"\d\d", re.ASCII)
_YEAR = lazy_pattern(r"\d{4}", re.ASCII)
_LEADING_DATE = lazy_pattern(
    r"(?:(\d{4}([-_.])\d\d\2\d\d)|((?:19|20)\d{6})(?:(?:[01]\d|2[0-3])(?:[0-5]\d){1,2})?)(?!\d)",
    re.ASCII,
)
"""A day, and the time that may follow its digits, as in a Zettelkasten's 202603051230."""


class DateRange(NamedTuple):
    """The days from ``first`` to ``last``, both inclusive."""

    first: date
    last: date

    @classmethod
    def containing(cls, day: date, unit: Literal["day", "week", "month", "year"]) -> DateRange:
        """Return the day, calendar week, month or year that contains a day.

        Raises:
            OverflowError: the week begins before the year 1 or ends after 9999.
        """
        if unit == "day":
            return cls(day, day)
        if unit == "week":
            first = day - timedelta(days=day.weekday())
            return cls(first, first + timedelta(days=6))
        if unit == "year":
            return cls(date(day.year, 1, 1), date(day.year, 12, 31))
        from calendar import monthrange

        return cls(day.replace(day=1), day.replace(day=monthrange(day.year, day.month)[1]))

    def widened(self, days: int) -> DateRange:
        """Return the range with some more days at both ends, within the calendar."""
        before, after = (self.first - date.min).days, (date.max - self.last).days
        return DateRange(
            self.first - timedelta(days=min(days, before)),
            self.last + timedelta(days=min(days, after)),
        )

    def edge(self, end: bool) -> datetime:
        """Return the first moment of these days in the user's time zone, or the last, in UTC."""
        try:
            if end:
                return clock.day_start(self.last + timedelta(days=1)) - timedelta(microseconds=1)
            return clock.day_start(self.first)
        except (OverflowError, OSError, ValueError):  # at the ends of the calendar
            day = self.last if end else self.first
            return datetime.combine(day, time.max if end else time.min, UTC)


def declared_dates(path: str, metadata: Mapping[str, Any]) -> list[DateRange]:
    """Return the days in a memory's file name and in the ``date`` of its header."""
    value = metadata.get("date")
    days = parse_date_range(str(value).strip()[:10]) if isinstance(value, str | int) else None
    moment = header_dates.parse(value) if value and days is None else None
    if moment is not None:
        days = DateRange.containing(clock.today(moment), "day")
    return [span for span in (dates_in_path(path), days) if span is not None]


def dates_in_path(path: str) -> DateRange | None:
    """Return the days that a file name consists of or begins with, or None.

    A name may begin with ``2026-11-05``, ``20261105``, or ``202611051230`` with a time.
    """
    days = note_days(path)
    if days is None:
        match = _LEADING_DATE.match(path.rpartition("/")[2])
        days = parse_date_range(match[1] or match[3]) if match is not None else None
    return days


def note_days(path: str) -> DateRange | None:
    """Return the days of a daily, weekly or monthly note, whose name is only a date, or None.

    Such names are ``2026-11-05.md``, ``2026/11-05.md``, ``2026/11/05.md``, ``2026-W45.md``,
    ``2026-11.md`` and ``2026/11.md``.
    """
    if not path.rpartition("/")[2][:1].isdigit():  # a fast test for most names
        return None
    pure = PurePosixPath(path)
    folders = pure.parts[-3:-1]
    stem = pure.stem
    if _MONTH_DAY.fullmatch(stem) and folders and _YEAR.fullmatch(folders[-1]):
        return parse_date_range(f"{folders[-1]}-{stem[:2]}-{stem[3:]}")
    if _TWO_DIGITS.fullmatch(stem) and folders and _YEAR.fullmatch(folders[-1]):
        return parse_date_range(f"{folders[-1]}-{stem}")
    if _TWO_DIGITS.fullmatch(stem) and len(folders) > 1 and _TWO_DIGITS.fullmatch(folders[1]):
        return parse_date_range(f"{folders[0]}-{folders[1]}-{stem}")
    return parse_date_range(stem)


def parse_date_range(text: str) -> DateRange | None:
    """Parse a day, week or month such as 2026-11-05, 2026-W45 or 2026-11; None if it is neither.

    The day of a week such as 2026-W45-4 is a day too.
    """
    try:
        if match := _DAY.fullmatch(text):
            return DateRange.containing(date(int(match[1]), int(match[3]), int(match[4])), "day")
        if match := _WEEK.fullmatch(text):
            day = date.fromisocalendar(int(match[1]), int(match[2]), int(match[3] or 1))
            return DateRange.containing(day, "day" if match[3] else "week")
        if match := _MONTH.fullmatch(text):
            return DateRange.containing(date(int(match[1]), int(match[2]), 1), "month")
    except (ValueError, OverflowError):  # no such date
        return None
    return None


def parse_period(text: str) -> DateRange | None:
    """Parse a day, week, month or year such as 2026; None if it is none of them."""
    if _YEAR.fullmatch(text):
        year = int(text)
        return DateRange(date(year, 1, 1), date(year, 12, 31)) if year else None
    return parse_date_range(text)
