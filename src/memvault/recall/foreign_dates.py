"""Parse dates in languages other than English, and phrases that consist only of a date.

This uses dateparser, which takes 0.13 s to load. dateparser is therefore called only if a word
suggests a date, and only with the words around that word; in a whole sentence, dateparser reads
"we" as Wednesday. Future dates are ignored, because questions about memories do not refer to them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import date, datetime, time, timedelta
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any

from memvault.index.text.analyzer import fold
from memvault.lazy_pattern import lazy_pattern
from memvault.vault.date_ranges import DateRange


def _words(**tables: str) -> dict[str, frozenset[str]]:
    """Return the words of each language as a set."""
    return {language: frozenset(words.split()) for language, words in tables.items()}


_DAYS = _words(
    de="heute gestern vorgestern",
    fr="aujourd'hui hier avant-hier",
    es="hoy ayer anteayer",
    it="oggi ieri",
    pt="hoje ontem anteontem",
    nl="vandaag gisteren eergisteren",
)
_MONTHS = _words(
    de="januar februar marz april mai juni juli august september oktober november dezember",
    fr="janvier fevrier mars avril mai juin juillet aout septembre octobre novembre decembre",
    es="enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
    it="gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre "
    "dicembre",
    pt="janeiro fevereiro marco abril maio junho julho agosto setembro outubro novembro dezembro",
    nl="januari februari maart april mei juni juli augustus september oktober november december",
)
"""Month names, which count only next to a number or after one of ``_MONTH_PREPOSITIONS``."""
_MONTH_PREPOSITIONS = _words(
    de="im seit anfang ende mitte",
    fr="en depuis au debut fin mi",
    es="en desde",
    it="a in da di",
    pt="em desde",
    nl="in sinds",
)
_MODIFIERS = _words(
    de="letzte letzten letzter letztes vorige vorigen voriges diese diesen dieser dieses vor",
    fr="dernier derniere derniers dernieres passe passee cette ce y",
    es="pasado pasada este esta hace",
    it="scorso scorsa questo questa fa",
    pt="passado passada este esta ha atras",
    nl="vorige afgelopen deze dit geleden",
)
_UNITS = _words(
    de="tag tagen woche wochen monat monaten jahr jahren wochenende",
    fr="jour jours semaine semaines mois an ans annee annees",
    es="dia dias semana semanas mes meses ano anos",
    it="giorno giorni settimana settimane mese mesi anno anni",
    pt="dia dias semana semanas mes meses ano anos",
    nl="dag dagen week weken maand maanden jaar",
)
"""Words that form a date together with a nearby word of ``_MODIFIERS``."""
_SINCE = frozenset("seit depuis desde sinds dal".split())
_GERMANIC = frozenset("ist sind war wir was der die das ich und wie wo gibt is het een ik".split())
"""Words that indicate that "hier" is the German "here" and not the French "yesterday"."""
_UNSPACED = lazy_pattern(
    r"昨天|前天|今天|上周|上星期|上个月|上個月|本周|这周|這週|本月|昨日|一昨日|今日|先週|今週|先月|今月|去年|今年"
    r"|(?:(?:19|20)\d\d年)?\d{1,2}月(?:\d{1,2}日)?|(?:19|20)\d\d年"
)
_RANGE = lazy_pattern(r"\b(?:zwischen|entre|tra|fra|tussen)\b", re.IGNORECASE)
"""Words that introduce a start and an end, which dateparser cannot return as one span."""
_WORD = lazy_pattern(r"aujourd['’]hui|avant-hier|[^\W_]+", re.IGNORECASE)
_SEPARATOR = lazy_pattern(r"[ .,]{1,2}|['’]")
_MAX_DISTANCE = 4
"""The maximum number of words that may belong to a date, before and after its date word."""
_SHORT_YEAR = lazy_pattern(r"\b\d\d\b", re.ASCII)
_LETTERS = lazy_pattern(r"[a-z]{3}|[^\W\d_a-z]", re.IGNORECASE)
"""The parts of a date in words; dates in numbers alone are parsed only in ISO format."""
_MAX_PHRASE_LENGTH = 60
_LANGUAGES = tuple(
    "en de fr es it pt nl sv da nb fi pl cs ru uk hu ro tr el zh ja ko ar hi vi id".split()
)


def parse_phrase(text: str, now: datetime) -> DateRange | datetime | None:
    """Return the time or the days that a string refers to, in any supported language.

    The string must be only a date, such as ``vorgestern``, or a time, such as ``2 hours ago`` or
    ``yesterday at 14:00``. A time is in the user's time zone unless the string specifies another.
    """
    if _LETTERS.search(text) is None or len(text) > _MAX_PHRASE_LENGTH:
        return None
    local = now.astimezone()
    data = _date_data(text, _LANGUAGES, local.replace(tzinfo=None))
    if data is not None and data.period == "time":
        moment: datetime = data.date_obj
        with suppress(OverflowError, ValueError):  # in UTC, it is not in the years 1 to 9999
            return moment.astimezone()
    return _days_of(data) if data is not None else None


def find_foreign_date(text: str, today: date) -> tuple[DateRange, str] | None:
    """Return the days that a question mentions in another language, and the matching words."""
    for phrase, languages, since in _phrases(text):
        days = _parse_date(phrase, languages, today)
        if days is not None:
            last = max(days.first, today) if since else days.last
            return (DateRange(days.first, last), phrase) if days.first <= today else None
    return None


def _phrases(text: str) -> Iterator[tuple[str, tuple[str, ...], bool]]:
    """Yield possible dates: the phrase, its languages, and whether it extends until today."""
    if _RANGE.search(text):
        return
    if not text.isascii():
        yield from ((match[0], ("zh", "ja"), False) for match in _UNSPACED.finditer(text))
    words = list(_WORD.finditer(text))
    folded = [fold(word[0]).replace("’", "'") for word in words]
    dated = [(index, word) for index, word in enumerate(folded) if word in _languages_by_word()]
    for index, word in dated:
        for language in _languages_by_word()[word]:
            for first, last in _windows(index, len(words), word in _DAYS[language]):
                whole = _is_whole(text, words[first : last + 1])
                if whole and _may_be_date(folded, first, last, index, language):
                    before = folded[max(0, first - 1) : first + 1]
                    phrase = text[words[first].start() : words[last].end()]
                    yield phrase, (language,), not _SINCE.isdisjoint(before)


def _windows(index: int, count: int, alone: bool) -> Iterator[tuple[int, int]]:
    """Yield ranges of word positions around a position, longest first."""
    around = 0 if alone else _MAX_DISTANCE
    first, last = max(0, index - around), min(count - 1, index + around)
    spans = [(a, b) for a in range(first, index + 1) for b in range(index, last + 1)]
    yield from sorted(spans, key=lambda span: span[0] - span[1])


def _is_whole(text: str, words: list[re.Match[str]]) -> bool:
    """Return whether words are separated only by spaces, periods, commas and apostrophes."""
    return all(
        _SEPARATOR.fullmatch(text[before.end() : after.start()])
        for before, after in pairwise(words)
    )


def _may_be_date(words: list[str], first: int, last: int, index: int, language: str) -> bool:
    """Return whether the words around a date word may be a date."""
    word, inside = words[index], words[first : last + 1]
    last_word = words[last]  # a trailing "and" belongs to the next clause
    if not (
        last_word in _languages_by_word()
        or last_word in _MODIFIERS[language]
        or last_word.isdigit()
    ):
        return False
    if word in _DAYS[language]:
        return word != "hier" or not _GERMANIC.intersection(words)
    if word in _MONTHS[language]:
        before = words[max(0, first - 1) : last + 1]
        return any(
            near_word.isdigit() or near_word in _MONTH_PREPOSITIONS[language]
            for near_word in before
        )
    return not _MODIFIERS[language].isdisjoint(inside)


@cache
def _languages_by_word() -> dict[str, list[str]]:
    """Return the languages of each date word."""
    languages: dict[str, list[str]] = {}
    for table in (_DAYS, _MONTHS, _UNITS):
        for language, words in table.items():
            for word in words:
                languages.setdefault(word, []).append(language)
    return languages


def _parse_date(phrase: str, languages: tuple[str, ...], today: date) -> DateRange | None:
    """Return the day, week, month or year that dateparser reads from a phrase."""
    data = _date_data(phrase, languages, datetime.combine(today, time(12)))
    return _days_of(data) if data is not None else None


def _days_of(data: Any) -> DateRange:
    """Return the day, week, month or year of dateparser's data."""
    period: Any = data.period
    return DateRange.containing(
        data.date_obj.date(), period if period in ("week", "month", "year") else "day"
    )


def _date_data(phrase: str, languages: tuple[str, ...], base: datetime) -> Any | None:
    """Return dateparser's data about a phrase, or None if the phrase is not a date.

    A year of two digits is not accepted, because "32 May" would be in the year 32.
    """
    data = _parsed(phrase, languages, base)
    if data is None:
        return None
    year = data.date_obj.year
    has_number = any(int(number) == year % 100 for number in _SHORT_YEAR.findall(phrase))
    if has_number and str(year) not in phrase:
        earlier = _parsed(phrase, languages, base - timedelta(days=366))
        if earlier is None or earlier.date_obj.year == year:
            return None  # the year depends only on the number, unlike that of "26 days ago"
    return data


def _parsed(phrase: str, languages: tuple[str, ...], base: datetime) -> Any | None:
    """Return dateparser's data about a phrase, or None if it finds no date."""
    try:
        data = _parser(languages, base).get_date_data(phrase)
    except (ValueError, OverflowError, TypeError, AttributeError):  # raised for unusual numbers
        return None
    return data if data.date_obj is not None else None


def parse_full_date(text: str) -> datetime | None:
    """Return the day or time in text, with no time zone, or None if ambiguous or partial."""
    moments = set()
    for order in ("DMY", "MDY"):
        try:
            moments.add(_full_date_parser(order).get_date_data(text).date_obj)
        except (ValueError, OverflowError, TypeError, AttributeError):  # raised for unusual numbers
            return None
    moment: datetime | None = moments.pop()
    return moment if moment is not None and not moments else None


@cache
def _full_date_parser(order: str) -> Any:
    from dateparser.date import DateDataParser

    settings = {"REQUIRE_PARTS": ["day", "month", "year"], "DATE_ORDER": order}
    return DateDataParser(languages=list(_LANGUAGES), settings=settings)


@lru_cache(maxsize=16)
def _parser(languages: tuple[str, ...], base: datetime) -> Any:
    """Return a parser for dates relative to a naive local time."""
    from dateparser.date import DateDataParser

    settings = {
        "RELATIVE_BASE": base,
        "PREFER_DATES_FROM": "past",
        "TIMEZONE": "UTC",
        "RETURN_TIME_AS_PERIOD": True,
    }
    return DateDataParser(languages=list(languages), settings=settings)
