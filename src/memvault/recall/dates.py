"""Parse dates in a question, such as "last week" or "on 7 July 2023", into spans of days.

Supports English words, ISO dates and ISO weeks; days are in the user's time zone. Other languages
are left to ``foreign_dates``, which uses a library that is slow to load.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from functools import cache
from typing import Any

from memvault import clock
from memvault.index.protocol import MemoryRecord
from memvault.index.text.analyzer import Analyzer
from memvault.lazy_pattern import lazy_pattern
from memvault.model import Memory
from memvault.named_tuple import NamedTuple
from memvault.recall.answer import ScoredMemory
from memvault.settings.vault_settings import RankingSettings
from memvault.vault import header_dates
from memvault.vault.date_ranges import DateRange, declared_dates, note_days, parse_period

_LINK = r"(?:\s+(?:of|in|de|du|des|del|di|von|vom|the|van))*[\s'’-]*$"
_PARTS = (
    (r"first\s+week|first\s+(?:few\s+)?days|erste[nr]?\s+woche|erste[nr]?\s+tage[n]?", 1, 7),
    (r"last\s+week|last\s+(?:few\s+)?days|letzte[nr]?\s+woche|letzte[nr]?\s+tage[n]?", -7, 0),
    (r"first\s+half|erste[nr]?\s+hälfte|premi[èe]re\s+moiti[ée]|primera\s+mitad", 1, 15),
    (r"second\s+half|zweite[nr]?\s+hälfte|deuxi[èe]me\s+moiti[ée]|segunda\s+mitad", 16, 0),
    (
        r"early|beginning|start|anfang|principios|comienzos|inicios|d[ée]but|inizio|in[íi]cio|begin",
        1,
        10,
    ),
    (r"mid|middle|mitte|mediados|mi|milieu|met[àa]|meados|midden", 10, 20),
    (r"late|end|ende|finales|fines|fin|fine|fim|eind", 21, 0),
)
"""Phrases before a month, with the first and last day that they mean, counted from 1. A negative
first day counts back from the end of the month; a last day of 0 is the month's last day.
"""
_LAST_WORD = lazy_pattern(r"\w+\W*$")
_SPAN_HINT = lazy_pattern("|".join(words for words, _, _ in _PARTS), re.IGNORECASE)


def select_part(text: str, phrase: str, span: DateRange) -> DateRange:
    """Return the part of a month or year that the preceding phrase selects.

    A span that is neither a month nor a year is returned unchanged.
    """
    before = text[: text.find(phrase)] if phrase in text else ""
    inside = _LAST_WORD.sub("", phrase)  # the phrase may already include that word
    if not _SPAN_HINT.search(before + inside):
        return span
    for part, first, last in _PARTS:
        if _pattern(part).search(before) or _pattern(part).search(inside):
            if span == DateRange.containing(span.first, "month"):
                return _part_of_month(span, first, last)
            if span == DateRange.containing(span.first, "year"):
                return _part_of_year(span, first, last)
    return span


@cache
def _pattern(alternatives: str) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{alternatives})(?:s|en)?{_LINK}", re.IGNORECASE)


def _part_of_month(month: DateRange, first: int, last: int) -> DateRange:
    if first < 0:
        return DateRange(month.last + timedelta(days=first + 1), month.last)
    return DateRange(
        month.first.replace(day=first), month.first.replace(day=last) if last else month.last
    )


def _part_of_year(year: DateRange, first: int, last: int) -> DateRange:
    """Return part of a year: the first or last two weeks, or a range of months."""
    if last == 7:
        return DateRange(year.first, year.first + timedelta(days=13))
    if first < 0:
        return DateRange(year.last - timedelta(days=13), year.last)
    start = year.first.replace(month={1: 1, 10: 5, 16: 7, 21: 10}[first])
    end = year.first.replace(month={7: 1, 10: 3, 15: 6, 20: 8, 0: 12}[last])
    return DateRange(start, DateRange.containing(end, "month").last)


def memory_days(entry: MemoryRecord | Memory) -> list[DateRange]:
    """Return the days of a memory: declared days, creation, and last change."""
    return [
        *declared_dates(entry.path, entry.metadata),
        *(_single_day(text) for text in (entry.created, entry.modified)),
    ]


_DAY_LENGTH = len("2026-11-05")


def effective_date(entry: MemoryRecord | Memory) -> str:
    """Return the date used to decide which memory is newer, as text for ``is_newer``.

    It is the date in the memory's name or header, or else the last change according to the header
    or git, or the creation time in the header. It is empty if only the file system has a time,
    because copying, checking out or touching a file changes it.
    """
    days = declared_dates(entry.path, entry.metadata)
    if days:
        return max(span.last for span in days).isoformat()
    if entry.modified_from == "git" or header_dates.time_in(entry.metadata, "modified"):
        return entry.modified
    return entry.created if header_dates.time_in(entry.metadata, "created") else ""


def is_newer(date: str, other: str) -> bool:
    """Return whether an effective date is after another; a date without time is a whole day."""
    if not date or not other:
        return False
    if len(date) > _DAY_LENGTH < len(other):
        return date > other
    return clock.local(date) > clock.local(other)


def date_proximity(entry: MemoryRecord | Memory, span: DateRange) -> float:
    """Return the proximity of a memory's days to a span, in 0..1."""
    return max(span_proximity(span, days) for days in memory_days(entry))


def is_note_of(entry: MemoryRecord | Memory, span: DateRange) -> bool:
    """Return whether a memory is the daily, weekly or monthly note of exactly this span."""
    return note_days(entry.path) == span


def note_first(
    scored: Sequence[ScoredMemory], records: Mapping[int, MemoryRecord], span: DateRange
) -> list[ScoredMemory]:
    """Move the note of the requested span to the top of the results."""
    best = max((entry.score for entry in scored), default=0.0)
    notes, others = [], []
    for entry in scored:
        record = records.get(entry.uid)
        if record is not None and is_note_of(record, span):
            parts = {**entry.parts, "note": best - entry.score}
            notes.append(ScoredMemory(entry.uid, best, parts))
        else:
            others.append(entry)
    return [*notes, *others]


def span_proximity(span: DateRange, other: DateRange) -> float:
    """Return the proximity of two spans: 1 if they overlap, 0.5 if they are adjacent.

    Every additional gap of the length of ``span`` (at least 3 days) halves the value.
    """
    gap = max((span.first - other.last).days, (other.first - span.last).days, 0)
    return float(0.5 ** (1 + (gap - 1) / _length(span))) if gap else 1.0


def days_near(span: DateRange, min_proximity: float) -> DateRange:
    """Widen a span to all days whose ``span_proximity`` to it is at least ``min_proximity``."""
    gap = 1 + _length(span) * (math.log2(1 / min_proximity) - 1)
    return span.widened(math.ceil(gap))


def _length(span: DateRange) -> int:
    return max(3, (span.last - span.first).days + 1)


def _single_day(text: str) -> DateRange:
    try:
        day = date.fromisoformat(clock.local(text))
    except ValueError:
        day = date.min
    return DateRange.containing(day, "day")


_GENERIC_STEMS = frozenset(
    "happen did do done go went wrong busi note on up about around work turn".split()
)
"""Stems of words that do not name a subject."""
_MONTHS = (
    "january february march april may june july august september october november december".split()
)
_MONTHS_SHORT = [name[:3] for name in _MONTHS]
_DAYS = "monday tuesday wednesday thursday friday saturday sunday".split()
_COUNTS = {
    word: number
    for number, word in enumerate(
        "one two three four five six seven eight nine ten eleven twelve".split(), 1
    )
} | {"a": 1, "an": 1, "couple": 2, "few": 3}
_MONTH = "(?P<month>sept|" + "|".join(f"{name[:3]}(?:{name[3:]})?" for name in _MONTHS) + r")\.?"
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th|\.)?"
_YEAR = r"(?P<year>(?:19|20)\d\d)"
_QUARTERS = {word: number for number, word in enumerate("first second third fourth".split(), 1)} | {
    "last": 4
}
_TO_DAY = r"(?:the\s+)?(?P<to>\d{1,2})(?:st|nd|rd|th|\.)?"
_NO_MONTH = rf"(?!\s+(?:of\s+)?{_MONTH.replace('month', 'next')})"
_COUNT = r"(?P<count>\d{1,4}|" + "|".join(_COUNTS) + ")"
_UNIT = "(?P<unit>hour|day|week|month|quarter|year)s?"
_ABSOLUTE = (
    rf"(?<![-/.:]){_DAY}\s*(?:[-–]|to|until|till|and)\s*{_TO_DAY}\s+(?:of\s+)?{_MONTH}(?:,?\s+{_YEAR})?",
    rf"{_MONTH}\s+{_DAY}\s*(?:[-–]|to|until|till)\s*{_TO_DAY}(?:,?\s+{_YEAR})?{_NO_MONTH}",
    rf"(?:{_DAY}\s+(?:of\s+)?)?{_MONTH}\s+(?:of\s+)?(?P<years>last|this)\s+year",
    rf"{_YEAR}/(?P<number>\d\d)/(?P<day>\d\d)",
    rf"{_YEAR}-W(?P<week>\d\d)",
    rf"{_YEAR}-(?P<number>\d\d)(?:-(?P<day>\d\d)(?:T\w*)?)?",
    rf"{_DAY}\s+(?:of\s+)?{_MONTH},?\s+{_YEAR}",
    rf"{_MONTH}\s+{_DAY},?\s+{_YEAR}",
    rf"{_MONTH},?\s+(?:of\s+)?{_YEAR}",
    rf"{_DAY}\s+(?:of\s+)?{_MONTH}",
    rf"{_MONTH}\s+{_DAY}",
    rf"(?:early|mid|late|(?:beginning|start|middle|end)\s+of)[\s-]+{_MONTH}",
    rf"(?:in|during|since|after|(?P<months>last|this))\s+{_MONTH}",
    rf"(?:in|during|since|after|year)\s+{_YEAR}",
    rf"(?:early|mid|late|anfang|mitte|ende|eind|d[ée]but|fin|mi)[\s-]+{_YEAR}",
    rf"(?:spring|summer|autumn|fall|winter|beginning|start|middle|end|(?:first|last)\s+(?:days|weeks?))\s+(?:of\s+)?{_YEAR}",
    rf"Q(?P<quarter>[1-4])\s+(?:of\s+)?{_YEAR}",
    rf"{_YEAR}[\s-]Q(?P<quarter>[1-4])",
    rf"(?P<ordinal>{'|'.join(_QUARTERS)})\s+quarter\s+(?:of\s+)?{_YEAR}",
    r"(?:in|during|since|last|this)\s+Q(?P<quarter>[1-4])",
    rf"(?P<day>\d{{1,2}})\.(?P<number>\d{{1,2}})\.{_YEAR}",
)
_RELATIVE = (
    r"(?:(?P<named>today|the\s+day\s+before\s+yesterday|yesterday|last\s+night|last\s+weekend)"
    rf"|(?P<which>this|last|past|previous)\s+(?:{_COUNT}\s+)?{_UNIT}"
    rf"|{_COUNT.replace('count', 'ago')}\s+(?:of\s+)?{_UNIT.replace('unit', 'ages')}\s+ago"
    rf"|(?:last|past|previous)\s+(?P<weekday>{'|'.join(_DAYS)}))"
)
_HINT = lazy_pattern(
    "|".join(["[0-9]|day|night|hour|week|month|quarter|year", *_MONTHS_SHORT]), re.IGNORECASE
)
"""A cheap pattern that matches every string with a date. Other strings need not be matched against
the full patterns, which take milliseconds to compile.
"""
_MONTH_HINT = lazy_pattern("|".join(_MONTHS_SHORT), re.IGNORECASE)
_VERBS = ("may", "march")
_MONTH_PREPOSITION = lazy_pattern(
    r"\b(?:in|during|since|on|by|until|before|after|from|early|late)\s+(?:the\s+)?"
    r"(?:\d{1,2}(?:st|nd|rd|th)?\s+(?:of\s+)?)?$",
    re.IGNORECASE | re.ASCII,
)
_FROM = lazy_pattern(r"\b(?:between|from)\b", re.IGNORECASE)
_TO = lazy_pattern(r"\b(?:and|to|until|till)\b", re.IGNORECASE)
_UNTIL = lazy_pattern(r"\b(?:until|till|before)(?:\s+the)?\s*$", re.IGNORECASE)
_SINCE = lazy_pattern(r"\b(?:since|after)(?:\s+the)?\s*$", re.IGNORECASE)
_AFTER = lazy_pattern(r"\bafter(?:\s+the)?\s*$", re.IGNORECASE)
_LAST_PREPOSITION = lazy_pattern(r"\b(?:between|during)(?:\s+the)?\s*$", re.IGNORECASE)
_YEAR_NUMBER = lazy_pattern(r"\b\d{4}\b", re.ASCII)
_END = lazy_pattern(r"\s*(?:[?!.,;:)]|$)")
_RANGES = 2
"""The number of patterns at the start of ``_ABSOLUTE`` that match a range of days in a month."""
_PREPOSITIONS = frozenset("in on the of".split())
_LENGTHS = {"hour": 1 / 24, "day": 1, "week": 7, "month": 30, "quarter": 91, "year": 365}


class DateMention(NamedTuple):
    """A span of days mentioned in text, and the words that mention it."""

    span: DateRange
    words: str


def find_date(text: str, today: date) -> DateMention | None:
    """Return the days that a string mentions, or None.

    A string that mentions only the end of a span mentions no days.

    "Since" or "after" a day means from that day until today; "after" a month or a year means from
    the day after its end.
    """
    if not _HINT.search(text):
        return None
    between = next(
        (
            (line, start.end(), middle)
            for line in text.split("\n")
            if (start := _FROM.search(line)) and (middle := _TO.search(line, start.end()))
        ),
        None,
    )
    has_month = _MONTH_HINT.search(text) is not None
    for number, source in enumerate(_ABSOLUTE):
        if between is not None and number == _RANGES:
            return _span_between(*between, today)
        if _MONTH in source and not has_month:
            continue
        pattern = _compiled(source)
        for match in pattern.finditer(text):
            days = None if _is_verb(match) else _absolute_span(match.groupdict(), today)
            if days:
                return _apply_preposition(days, match, today)
        text = pattern.sub(" | ", text)  # so that "31st of June" is not read as June
    relative_match = _compiled(_RELATIVE).search(text)
    if relative_match is None:
        return None
    try:
        return _apply_preposition(
            _relative_span(relative_match.groupdict(), today), relative_match, today
        )
    except (OverflowError, ValueError):  # outside the range of ``date``
        return None


def _span_between(line: str, start: int, middle: re.Match[str], today: date) -> DateMention | None:
    """Return the days from the first date after ``start`` to the date after "and" or "to"."""
    if _TO.search(line, middle.end()):
        return None
    last = find_date(line[middle.end() :], today)
    if last is None:
        return None
    first_text = line[start : middle.start()]
    year = "" if _YEAR_NUMBER.search(first_text) else f" {last.span.first.year}"
    first = find_date(f"on {first_text.strip()}{year}", today)
    if first is None or first.span.first > last.span.last:
        return None
    phrase = line[start : line.index(last.words, middle.end()) + len(last.words)]
    return DateMention(DateRange(first.span.first, last.span.last), phrase.strip())


def _apply_preposition(days: DateRange, match: re.Match[str], today: date) -> DateMention | None:
    """Apply the preposition before a date: "until" and "before" discard it, "since" extends it."""
    before = match.string[: match.start()]
    if _UNTIL.search(before):
        return None
    first_word = match[0].split()[0].lower()
    days = select_part(match.string, match[0], days)
    if first_word in ("since", "after") or _SINCE.search(before):
        is_after = first_word == "after" or _AFTER.search(before)
        first = days.last + timedelta(days=1) if is_after and days.last < today else days.first
        first = days.first if days.first == days.last else first
        days = DateRange(first, max(first, today))
    return DateMention(days, match[0])


@cache
def _compiled(source: str) -> re.Pattern[str]:
    return re.compile(rf"\b{source}\b", re.IGNORECASE | re.ASCII)


def _is_verb(match: re.Match[str]) -> bool:
    """Return whether a lowercase "may" or "march" without a year is a verb rather than a month.

    The word is a month after a preposition such as "in" or "on", and at the end of a sentence. The
    first word of a sentence is always capitalized, so its case is ignored.
    """
    parts = match.groupdict()
    month = parts.get("month") or ""
    first = not match.string[: match.start("month")].strip() if month else False
    if (month.lower() if first else month) not in _VERBS or parts.get("year"):
        return False
    return not (
        _MONTH_PREPOSITION.search(match.string[: match.start("month")])
        or _END.match(match.string, match.end())
    )


def _absolute_span(parts: dict[str, str | None], today: date) -> DateRange | None:
    numbers = {name: int(part) for name, part in parts.items() if part and part.isdigit()}
    if parts.get("ordinal"):
        numbers["quarter"] = _QUARTERS[str(parts["ordinal"]).lower()]
    name, day = parts.get("month"), numbers.get("day")
    month = numbers.get("number", _MONTHS_SHORT.index(name[:3].lower()) + 1 if name else None)
    try:
        first_month = 3 * numbers["quarter"] - 2 if "quarter" in numbers else month or 1
        year = numbers.get("year") or _last_year(first_month, numbers.get("to", day or 1), today)
        if parts.get("years"):
            year = today.year - (str(parts["years"]).lower() == "last")
        elif str(parts.get("months")).lower() == "last" and (year, month) == (
            today.year,
            today.month,
        ):
            year -= 1
        if "week" in numbers:
            monday = date.fromisocalendar(year, numbers["week"], 1)
            return DateRange.containing(monday, "week")
        if "quarter" in numbers:
            return _quarter(date(year, first_month, 1))
        if month is None:
            if year > today.year:  # a future number is more likely a quantity than a year
                return None
            return DateRange.containing(date(year, 1, 1), "year")
        if day is None:
            return DateRange.containing(date(year, month, 1), "month")
        first = date(year, month, day)
        last = first.replace(day=numbers.get("to", day))
        return DateRange(first, last) if first <= last else None
    except ValueError:  # such as the 31st of June
        return None


def _quarter(day: date) -> DateRange:
    """Return the quarter of a year that contains a day."""
    first = day.replace(month=day.month - (day.month - 1) % 3, day=1)
    return DateRange(
        first, DateRange.containing(first.replace(month=first.month + 2), "month").last
    )


def _last_year(month: int, day: int, today: date) -> int:
    """Return the most recent year in which a day of a month is not in the future.

    Raises:
        ValueError: if no such day exists in the last nine years.
    """
    for year in range(today.year, max(0, today.year - 9), -1):
        try:
            if date(year, month, day) <= today:
                return year
        except ValueError:  # not a leap year
            continue
    raise ValueError(f"no year has a day {day} of month {month}")


def _relative_span(parts: dict[str, str | None], today: date) -> DateRange:
    if parts["named"]:
        phrase = " ".join(parts["named"].lower().split())
        if phrase == "last weekend":
            sunday = today - timedelta(days=today.isoweekday() % 7 or 7)
            return DateRange(sunday - timedelta(days=1), sunday)
        back = {"today": 0, "yesterday": 1, "last night": 1}.get(phrase, 2)
        return DateRange.containing(today - timedelta(days=back), "day")
    if parts["weekday"]:
        back = (today.weekday() - _DAYS.index(parts["weekday"].lower())) % 7 or 7
        return DateRange.containing(today - timedelta(days=back), "day")
    if parts["ages"]:
        length = _LENGTHS[parts["ages"].lower()]
        slack = timedelta(days=length // 2)
        middle = today - timedelta(days=round(_number(parts["ago"]) * length))
        return DateRange(middle - slack, middle + slack)
    unit: Any = str(parts["unit"]).lower()  # a name in ``_LENGTHS``
    which = str(parts["which"]).lower()
    if parts["count"] or which == "past":
        length = math.ceil(_number(parts["count"]) * _LENGTHS[unit])
        return DateRange(today - timedelta(days=length), today)
    if unit == "hour":
        return DateRange.containing(today, "day")
    current = _quarter(today) if unit == "quarter" else DateRange.containing(today, unit)
    if which == "this":
        return current
    before = current.first - timedelta(days=1)
    previous = _quarter(before) if unit == "quarter" else DateRange.containing(before, unit)
    return DateRange(previous.first, today) if unit == "day" else previous


def _number(text: str | None) -> int:
    if not text:
        return 1
    return _COUNTS.get(text.lower()) or int(text)


class DateConstraint(NamedTuple):
    """The days that a query asks for.

    ``weight`` multiplies the usual ranking weight of dates. ``is_main_subject`` is true if the
    query contains little other than the date.
    """

    span: DateRange
    weight: float = 1.0
    is_main_subject: bool = False


def date_constraint(
    text: str, analyzer: Analyzer, ranking: RankingSettings, now: datetime
) -> DateConstraint | None:
    """Return the days that a query asks for, or None if the settings give dates no weight.

    A query with few other words is ranked mainly by date, but these words are still searched.
    """
    if not ranking.date:
        return None
    today = clock.today(now)
    mention = _mention(text, today)
    if mention is None:
        return None
    rest = text.replace(mention.words, " ")
    other_stems = set(analyzer.content_stems(rest)) - _GENERIC_STEMS
    date_word_count = len(analyzer.sequence(mention.words))
    share = date_word_count / (date_word_count + len(other_stems))
    is_main_subject = share >= 0.5
    # Divide by the default weight, so that with default settings a date's weight equals its share
    # of the query.
    weight = share / RankingSettings().date if is_main_subject else 1.0
    return DateConstraint(mention.span, weight, is_main_subject)


def without_date(text: str, now: datetime) -> str:
    """Return a query without the words of its date."""
    mention = _mention(text, clock.today(now))
    if mention is None:
        return text
    before, _, after = text.partition(mention.words)
    return f"{_LAST_PREPOSITION.sub('', before)} {after}"


def _mention(text: str, today: date) -> DateMention | None:
    return find_date(text, today) or _find_foreign(text, today)


def _find_foreign(text: str, today: date) -> DateMention | None:
    from memvault.recall import foreign_dates

    mention = foreign_dates.find_foreign_date(text, today)
    return DateMention(select_part(text, mention[1], mention[0]), mention[1]) if mention else None


def parse_moment(text: str, end: bool) -> datetime | None:
    """Parse a date, time, age or phrase as a time; return None if it cannot be parsed.

    A day or a longer period is parsed as its start, or with ``end`` as its end.
    """
    phrase = text.strip()
    parsed: DateRange | datetime | None = parse_period(phrase) or clock.parse_age(phrase)
    parsed = parsed or _parse_date_phrase(phrase, clock.today())
    if parsed is None:
        from memvault.recall import foreign_dates

        parsed = foreign_dates.parse_phrase(phrase, clock.now())
    return parsed.edge(end) if isinstance(parsed, DateRange) else parsed


def _parse_date_phrase(text: str, today: date) -> DateRange | None:
    """Return the days that a string refers to if it consists only of an English date in words."""
    # Phrases with "ago" are approximate.
    mention = None if text.lower().endswith("ago") else find_date(text, today)
    if (
        mention is not None
        and set(text.replace(mention.words, " ").lower().split()) <= _PREPOSITIONS
    ):
        return mention.span
    return None
