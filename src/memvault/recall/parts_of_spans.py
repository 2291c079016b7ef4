"""Parts of a month or a year in words: "early May", "the last week of June", "mi-septembre"."""

from __future__ import annotations

import re
from calendar import monthrange
from datetime import date, timedelta
from functools import cache

from memvault.vault.daily import DateRange

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
"""Words before a month, with the first and the last day that they mean; counted from its end."""
_SPAN_HINT = re.compile("|".join(words for words, _, _ in _PARTS), re.IGNORECASE)


def narrow(text: str, words: str, span: DateRange) -> DateRange:
    """Return the part of a span that a text means by what it says before the span's words.

    A span that is neither a month nor a year stays as it is.
    """
    before = text[: text.find(words)] if words in text else ""
    inside = f"{words.rpartition(' ')[0]} "  # where a pattern has taken the word for its own
    if not _SPAN_HINT.search(before + inside):
        return span
    for part, first, last in _PARTS:
        if _pattern(part).search(before) or _pattern(part).search(inside):
            if _is_month(span):
                return _days(span, first, last)
            if _is_year(span):
                return _months(span, first, last)
    return span


@cache
def _pattern(words: str) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{words})(?:s|en)?{_LINK}", re.IGNORECASE)


def _is_month(span: DateRange) -> bool:
    end = monthrange(span.first.year, span.first.month)[1]
    return span == DateRange(span.first.replace(day=1), span.first.replace(day=end))


def _is_year(span: DateRange) -> bool:
    return span == DateRange(date(span.first.year, 1, 1), date(span.first.year, 12, 31))


def _days(month: DateRange, first: int, last: int) -> DateRange:
    if first < 0:
        return DateRange(month.last + timedelta(days=first + 1), month.last)
    return DateRange(
        month.first.replace(day=first), month.first.replace(day=last) if last else month.last
    )


def _months(year: DateRange, first: int, last: int) -> DateRange:
    """Return a part of a year: of its first days, some; else a third of its months."""
    if last == 7:
        return DateRange(year.first, year.first + timedelta(days=13))
    if first < 0:
        return DateRange(year.last - timedelta(days=13), year.last)
    start = year.first.replace(month={1: 1, 10: 5, 16: 7, 21: 10}[first])
    end = {7: 1, 10: 3, 15: 6, 20: 8, 0: 12}[last]
    return DateRange(start, date(year.first.year, end, monthrange(year.first.year, end)[1]))
