"""Date words mean the days that a person means; filters compare times as people do."""

from __future__ import annotations

import re
import sys
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from conftest import explained, parts, titles, user_in, write
from memvault import Vault, clock
from memvault.errors import UsageError
from memvault.recall.dates import find_date, parse_moment, span_proximity
from memvault.recall.filter_expression import compile_expression
from memvault.recall.foreign_dates import find_foreign_date
from memvault.vault.date_ranges import DateRange, dates_in_path, note_days

FRIDAY = date(2024, 3, 15)
"""A day in a leap year."""
SUNDAY = date(2026, 11, 22)

ENGLISH = {
    "2023-05-07": "2023-05-07",
    "what broke on 2023-05-07?": "2023-05-07",
    "the log of 2023-05-07T10:15:00Z": "2023-05-07",
    "report-2023-05-07.md": "2023-05-07",
    "2023-05": "2023-05-01 2023-05-31",
    "7 July, 2023": "2023-07-07",
    "7 july 2023": "2023-07-07",
    "the 7th of July 2023": "2023-07-07",
    "July 7th 2023": "2023-07-07",
    "Jul. 7, 2023": "2023-07-07",
    "Sept. 5, 2023": "2023-09-05",
    "September 5 2023": "2023-09-05",
    "29 February 2024": "2024-02-29",
    "on 1 Jan": "2024-01-01",
    "on March 31": "2023-03-31",
    "on 4 May": "2023-05-04",
    "what we decided on 4 may": "2023-05-04",
    "on 15 March": "2024-03-15",
    "what happened by the river in May 2023": "2023-05-01 2023-05-31",
    "May, 2023": "2023-05-01 2023-05-31",
    "December 2023": "2023-12-01 2023-12-31",
    "in February 2023": "2023-02-01 2023-02-28",
    "what happened in May": "2023-05-01 2023-05-31",
    "what happened in may?": "2023-05-01 2023-05-31",
    "since January": "2024-01-01 2024-03-15",
    "during March": "2024-03-01 2024-03-31",
    "in 2023": "2023-01-01 2023-12-31",
    "the summer of 2022": "2022-01-01 2022-12-31",
    "between 1 and 20 July 2023": "2023-07-01 2023-07-20",
    "from 4 to 18 July": "2023-07-04 2023-07-18",
    "between the 3rd and the 5th of May 2023": "2023-05-03 2023-05-05",
    "the 4–18 July 2023 trip": "2023-07-04 2023-07-18",
    "July 4-18, 2023": "2023-07-04 2023-07-18",
    "from March 3 to 10": "2024-03-03 2024-03-10",
    "2023/05/07": "2023-05-07",
    "early 2023": "2023-01-01 2023-03-31",
    "in mid-2023": "2023-05-01 2023-08-31",
    "what broke in late 2022": "2022-10-01 2022-12-31",
    "Ende 2022": "2022-10-01 2022-12-31",
    "in mid-March": "2024-03-10 2024-03-20",
    "at the end of February": "2024-02-21 2024-02-29",
    "after 2022": "2023-01-01 2024-03-15",
    "after January": "2024-02-01 2024-03-15",
    "after 1 March": "2024-03-01 2024-03-15",
    "last February": "2024-02-01 2024-02-29",
    "last March": "2023-03-01 2023-03-31",
    "this March": "2024-03-01 2024-03-31",
    "in February of last year": "2023-02-01 2023-02-28",
    "february this year": "2024-02-01 2024-02-29",
    "on 3 May last year": "2023-05-03",
    "Q3 2023": "2023-07-01 2023-09-30",
    "2023-Q3": "2023-07-01 2023-09-30",
    "in Q4": "2023-10-01 2023-12-31",
    "the third quarter of 2023": "2023-07-01 2023-09-30",
    "last quarter": "2023-10-01 2023-12-31",
    "this quarter": "2024-01-01 2024-03-31",
    "last night": "2024-03-14",
    "in the last 24 hours": "2024-03-14 2024-03-15",
    "3 hours ago": "2024-03-15",
    "40 hours ago": "2024-03-13",
    "today": "2024-03-15",
    "Yesterday": "2024-03-14",
    "the day before yesterday": "2024-03-13",
    "3 days ago": "2024-03-12",
    "a week ago": "2024-03-05 2024-03-11",
    "two weeks ago": "2024-02-27 2024-03-04",
    "a couple of weeks ago": "2024-02-27 2024-03-04",
    "in the past 3 months": "2023-12-16 2024-03-15",
    "last 3 days": "2024-03-12 2024-03-15",
    "this week": "2024-03-11 2024-03-17",
    "LAST WEEK": "2024-03-04 2024-03-10",
    "this month": "2024-03-01 2024-03-31",
    "last month": "2024-02-01 2024-02-29",
    "last year": "2023-01-01 2023-12-31",
    "last Monday": "2024-03-11",
    "what did we agree last Friday about the roof": "2024-03-08",
}
"""Texts, and the days to which they refer on FRIDAY."""

ELSEWHERE = [
    ("last month", "2024-01-10", "2023-12-01 2023-12-31"),
    ("last month", "2023-03-31", "2023-02-01 2023-02-28"),
    ("last month", "2024-12-31", "2024-11-01 2024-11-30"),
    ("this month", "2024-12-31", "2024-12-01 2024-12-31"),
    ("last week", "2024-01-01", "2023-12-25 2023-12-31"),
    ("last week", "2024-01-07", "2023-12-25 2023-12-31"),
    ("yesterday", "2024-01-01", "2023-12-31"),
    ("yesterday", "2024-03-01", "2024-02-29"),
    ("last Monday", "2024-03-11", "2024-03-04"),
    ("in May", "2024-05-01", "2024-05-01 2024-05-31"),
    ("in May", "2024-04-30", "2023-05-01 2023-05-31"),
    ("in December", "2024-12-01", "2024-12-01 2024-12-31"),
    ("on 29 February", "2024-03-01", "2024-02-29"),
    ("on 29 February", "2025-03-01", "2024-02-29"),
    ("on 31 December", "2024-01-01", "2023-12-31"),
]
"""Texts, the day on which each is written, and the days to which it refers."""

FOREIGN = {
    "was haben wir im Mai beschlossen": "2026-05-01 2026-05-31",
    "Was war letzte Woche los?": "2026-11-09 2026-11-15",
    "was habe ich gestern gemacht": "2026-11-21",
    "was geschah vor drei Wochen": "2026-10-26 2026-11-01",
    "seit März 2026": "2026-03-01 2026-11-22",
    "diese Woche": "2026-11-16 2026-11-22",
    "der Vorfall Anfang Mai und was daraus folgte": "2026-05-01 2026-05-31",
    "qu’avons-nous décidé hier": "2026-11-21",
    "hier": "2026-11-21",
    "les notes de l'année dernière": "2025-01-01 2025-12-31",
    "il y a deux semaines": "2026-11-02 2026-11-08",
    "en mai 2025": "2025-05-01 2025-05-31",
    "¿qué decidimos la semana pasada sobre el techo?": "2026-11-09 2026-11-15",
    "qué pasó a principios de mayo de 2025": "2025-05-01 2025-05-31",
    "la settimana scorsa": "2026-11-09 2026-11-15",
    "o que fizemos ontem": "2026-11-21",
    "wat deden we vorige week": "2026-11-09 2026-11-15",
    "上周我们做了什么": "2026-11-09 2026-11-15",
    "2025年12月记下了哪些事": "2025-12-01 2025-12-31",
    "昨日の会議": "2026-11-21",
}
"""Texts in German, French, Spanish, Italian, Portuguese, Dutch, Chinese and Japanese on SUNDAY."""

BOUNDS = {
    "yesterday": "2026-11-21",
    "last week": "2026-11-09 2026-11-15",
    "im Mai": "2026-05-01 2026-05-31",
    "letzte Woche": "2026-11-09 2026-11-15",
    "la semana pasada": "2026-11-09 2026-11-15",
    "hier": "2026-11-21",
    "2026-W45": "2026-11-02 2026-11-08",
    "2025": "2025-01-01 2025-12-31",
    "2026-11": "2026-11-01 2026-11-30",
    "2026-11-05": "2026-11-05",
    "in May 2025": "2025-05-01 2025-05-31",
    "3 days ago": "2026-11-19",
    "26 days ago": "2026-10-27",
    "13 years ago": "2013-01-01 2013-12-31",
    "26 mai": "2026-05-26",
    "26. Mai 2026": "2026-05-26",
    "先週": "2026-11-09 2026-11-15",
}
"""Values of ``since`` and ``until`` on SUNDAY."""

NOTES = {
    "2026-11-05.md": "2026-11-05",
    "journal/2026/11-05.md": "2026-11-05",
    "journal/2026/11/05.md": "2026-11-05",
    "2026/11/05.md": "2026-11-05",
    "daily/2026_11_05.md": "2026-11-05",
    "20261105.md": "2026-11-05",
    "2026-W45.md": "2026-11-02 2026-11-08",
    "2026-11.md": "2026-11-01 2026-11-30",
    "journal/2026/12.md": "2026-12-01 2026-12-31",
    "journal/2024-02.md": "2024-02-01 2024-02-29",
}
"""Names of daily, weekly and monthly notes."""

NO_ENGLISH = (
    " | why is the roof red | we may go | may we go | this may be wrong | the last may fail | "
    "4 may be wrong | option 2 may fail | up to 5 may join | it may 10 times out of 12 | "
    "you may 3 times retry | March on | we march 3 miles | second | the second of two | "
    "sat in the sun, wed on a whim | I saw a man in 2023rd | port 2020 | RFC 2023 | 1920x1080 | "
    "a limit of 2048 tokens | an RSA key in 2048 bits | mark 2020 | marching 12 miles | "
    "decimal 5 | error 2020-13 | 2023-99-99 | 31 June 2023 | 30 February 2023 | June 31 | "
    "0 May 2023 | in 0000 | the past | at last | how many days ago | the day after tomorrow | "
    "next Monday | Q3 of the form | every 3 hours | a quarter | last minute | 3 to 5 people | "
    "on Fridaynight | todays | ９ days later"
).split(" | ")
NO_FOREIGN = (
    " | what did we do with the may fly | wo ist die Datei hier | wat is hier kapot | "
    "non ho mai visto | die letzte Seite | 2 Wochen Urlaub | cuántas horas por semana | "
    "planète mars | un mois a la mer | was tun wir nächste Woche | im Mai 2031 | "
    "zwischen Mai und Juli | qu'ai-je noté entre fin août et mi-septembre 2025 | "
    "die Meldung vor dem Tag | set a limit | we do it | 昨"
).split(" | ")
NO_NAMES = (
    "2026-13-05.md | 2026-11-31.md | 2026-W54.md | 11-05.md | 05.md | notes/05.md | a/11/05.md | "
    "v1.2.md | 2026.md | report-2026-11-05.md | 2026-11-051.md | २०२६-११-०५.md"
).split(" | ")


def meant_by(text: str, today: date) -> DateRange | None:
    """Return the days that an English text mentions."""
    found = find_date(text, today)
    return found.span if found else None


def days(text: str) -> DateRange:
    """Parse ``FIRST LAST`` or one day."""
    first, _, last = text.partition(" ")
    return DateRange(date.fromisoformat(first), date.fromisoformat(last or first))


@pytest.mark.parametrize(
    ("text", "today", "meant"),
    [*((text, str(FRIDAY), meant) for text, meant in ENGLISH.items()), *ELSEWHERE],
)
def test_english_dates_are_parsed(text: str, today: str, meant: str) -> None:
    """Dates, months and day counts are parsed; without a year they mean the most recent ones."""
    assert meant_by(text, date.fromisoformat(today)) == days(meant)


@pytest.mark.parametrize("text", FOREIGN)
def test_foreign_dates_are_parsed(text: str) -> None:
    """A question in another language mentions days in words of that language."""
    found = find_foreign_date(text, SUNDAY)
    assert found is not None
    assert found[0] == days(FOREIGN[text])
    assert found[1] in text


@pytest.mark.parametrize("text", BOUNDS)
@pytest.mark.parametrize(
    "place", ["UTC", "Europe/Berlin", "America/New_York", "Pacific/Kiritimati"]
)
def test_since_and_until_accept_relative_dates(
    monkeypatch: pytest.MonkeyPatch, text: str, place: str
) -> None:
    """For days written in words, ``since`` is their first moment, and ``until`` their last."""
    zone = ZoneInfo(place)
    at = datetime.combine(SUNDAY, time(15), zone)
    monkeypatch.setattr(clock, "now", lambda: at.astimezone(UTC))
    with user_in(place):
        found = [parse_moment(text, end) for end in (False, True)]
    first, last = days(BOUNDS[text])
    assert found == [
        datetime.combine(first, time.min, zone),
        datetime.combine(last, time.max, zone),
    ]
    exact = "2026-11-05T10:00:00Z"
    assert parse_moment(exact, False) == parse_moment(exact, True) == datetime.fromisoformat(exact)


@pytest.mark.parametrize("place", ["UTC", "America/New_York", "Pacific/Kiritimati"])
@pytest.mark.parametrize(
    ("text", "days_ago", "of_day"),
    [
        ("2 hours ago", 0, time(13)),
        ("an hour ago", 0, time(14)),
        ("20 minutes ago", 0, time(14, 40)),
        ("vor 2 Stunden", 0, time(13)),
        ("il y a 20 minutes", 0, time(14, 40)),
        ("yesterday at 14:00", 1, time(14)),
        ("yesterday 9pm", 1, time(21)),
    ],
)
def test_times_in_words_are_exact(
    monkeypatch: pytest.MonkeyPatch, place: str, text: str, days_ago: int, of_day: time
) -> None:
    """A time in words is an exact time in the user's zone, not a whole day, as start and as end."""
    at = datetime.combine(SUNDAY, time(15), ZoneInfo(place))
    monkeypatch.setattr(clock, "now", lambda: at.astimezone(UTC))
    expected = datetime.combine(SUNDAY - timedelta(days=days_ago), of_day, ZoneInfo(place))
    with user_in(place):
        assert parse_moment(text, False) == parse_moment(text, True) == expected


@pytest.mark.parametrize("text", ["32 May", "32 May 5pm", "5 May 24", "5 May 24 at 14:00"])
def test_year_of_two_digits_is_not_parsed(text: str) -> None:
    """A number of two digits in a date is not a year, with and without a time of day."""
    assert parse_moment(text, False) is None


@pytest.mark.parametrize("place", ["UTC", "America/New_York", "Pacific/Kiritimati"])
def test_time_at_end_of_calendar_is_parsed(place: str) -> None:
    """A time in words in the last hours of the year 9999 raises no error in any time zone."""
    with user_in(place):
        moment = parse_moment("31 Dec 9999 11pm", True)
    assert moment is not None
    assert moment.year == 9999


@pytest.mark.parametrize("path", NOTES)
def test_daily_weekly_and_monthly_names_are_parsed(path: str) -> None:
    """Daily, weekly and monthly notes are recognized by their usual names."""
    assert note_days(path) == days(NOTES[path])


@pytest.mark.parametrize("text", NO_ENGLISH)
def test_non_date_words_are_not_parsed_as_dates(text: str) -> None:
    """A verb, a number, an invalid date or half a phrase is not a date."""
    assert meant_by(text, FRIDAY) is None


@pytest.mark.parametrize("text", NO_FOREIGN)
def test_foreign_date_lookalikes_are_ignored(text: str) -> None:
    """Words that are dates in other languages, future dates and double ends are not date ranges."""
    assert find_foreign_date(text, SUNDAY) is None


@pytest.mark.parametrize("path", NO_NAMES)
def test_file_name_without_date_has_no_days(path: str) -> None:
    """A file name that is not a complete date is treated as an ordinary name."""
    assert dates_in_path(path) is None


@pytest.mark.parametrize(
    "text", ["this week", "this month", "this year", "last week", "last month", "last year"]
)
@pytest.mark.parametrize("today", [date.min, date.max, date(9999, 12, 1), date(1, 1, 31)])
def test_date_parser_handles_calendar_limits(text: str, today: date) -> None:
    """At the limits of the calendar there are days or none, but no error."""
    found = meant_by(text, today)
    assert found is None or found.first <= found.last


@given(st.dates(), st.dates(), st.dates())
@example(date.min, date.max, date.max)
@example(date.min, date.min, date.max)
def test_date_proximity_decreases_with_distance(one: date, other: date, day: date) -> None:
    """Proximity is 1 within the days, decreases with distance, and is never below 0."""
    found = DateRange(min(one, other), max(one, other))
    near = span_proximity(found, DateRange(day, day))
    assert 0 <= near <= 1
    assert (near == 1) == (found.first <= day <= found.last)
    if day > found.last and day < date.max:
        later = day + timedelta(days=1)
        assert span_proximity(found, DateRange(later, later)) <= near
    if date.min < day < found.first:
        before = day - timedelta(days=1)
        assert span_proximity(found, DateRange(before, before)) <= near


def test_almost_dates_are_not_parsed() -> None:
    """Text that only begins like a date is not a date, even if it is repeated."""
    for text in ("last " * 800, "2023-" * 800, "may " * 1000, "9" * 4000, "a couple of " * 330):
        assert meant_by(text, FRIDAY) is None


def date_parts(vault: Vault, query: str) -> list[tuple[str, float | None]]:
    """Recall; return each memory's path and the date part of its score."""
    return [(entry["filePath"], parts(entry).get("date")) for entry in explained(vault, query)]


@pytest.mark.parametrize("paths", [("a.md", "b.md"), ("b.md", "a.md")])
@pytest.mark.parametrize("key", ["created", "modified"])
def test_memories_from_requested_days_rank_first(
    folder: Path, vault: Vault, paths: tuple[str, str], key: str
) -> None:
    """For a month, a memory created or changed in it ranks first, unless date is set to 0."""
    for path, day in zip(paths, ("2023-05-14", "2022-01-14"), strict=True):
        front = f"created: 2021-01-01\nmodified: 2024-09-01\n{key}: {day}\n"
        front = front.replace(f"{key}: 2021-01-01\n", "").replace(f"{key}: 2024-09-01\n", "")
        body = "It happened by the river: the boats were tied up."
        write(folder, path, f"---\n{front}---\n\n# Boats\n\n{body}\n")
    write(folder, "memvault.toml", "version = 1\n[ranking]\nrecency = 0\ndiversity = false\n")
    (first, near), (_, far) = date_parts(vault, "what happened by the river in May 2023")
    assert first == paths[0]
    assert near is not None
    assert far is not None
    assert near > 0.1 > far
    off = "recency = 0\ndate = 0\ndiversity = false"
    write(folder, "memvault.toml", f"version = 1\n[ranking]\n{off}\n")
    found = date_parts(vault, "what happened by the river in May 2023")
    assert sorted(found) == [("a.md", None), ("b.md", None)]


@pytest.mark.parametrize("query", ["may the shed be painted", "painted shed", "4 may be painted"])
def test_query_without_dates_has_no_date_part(folder: Path, vault: Vault, query: str) -> None:
    """Dates have no part in the score for a question without dates."""
    write(folder, "a.md", "# Shed\n\nThe shed may be painted green.\n")
    assert date_parts(vault, query) == [("a.md", None)]


def test_date_only_query_finds_memories_from_that_time(folder: Path, vault: Vault) -> None:
    """A question with only a time finds the memories of that time, regardless of content."""
    told = {"04-30": "Boats tied up", "05-01": "A new lantern", "05-31": "Rain", "06-01": "Nets"}
    for day, body in told.items():
        header = f"created: 2023-{day}\nmodified: 2023-{day}\ntitle: {body}\n"
        write(folder, f"2023-{day}.md", f"---\n{header}---\n\n{body}.\n")
    found = [path for path, _ in date_parts(vault, "what happened in May 2023")]
    assert sorted(found[:2]) == ["2023-05-01.md", "2023-05-31.md"]
    assert [day for _, day in date_parts(vault, "what happened in May 2021") if day] == []


def test_incidental_date_word_does_not_dominate(folder: Path, vault: Vault) -> None:
    """A question about a subject does not return everything written on the mentioned day."""
    write(folder, "unicorn.md", "# Unicorn\n\nThe unicorn eats clover.\n")
    for number in range(25):
        write(folder, f"bread{number}.md", f"# Bread {number}\n\nKnead loaf {number} slowly.\n")
    found = explained(vault, "what does the unicorn eat today")
    assert found[0]["filePath"] == "unicorn.md"
    assert found[0]["score"] > 0.7
    assert sum(entry["filePath"].startswith("bread") for entry in found) < 5


@pytest.mark.parametrize(
    "query", ["letter of 5 \u017fept 1923", "ye\u017fterday", "la\u017ft week"]
)
def test_date_with_long_s_is_ignored(folder: Path, vault: Vault, query: str) -> None:
    """A date spelled with a long s is ignored without an error; with an ordinary s it is a date."""
    write(folder, "a.md", "# Letter\n\nA letter of 1923.\n")
    for asked, is_date in ((query, False), (query.replace("\u017f", "s"), True)):
        (found,) = explained(vault, asked)
        assert ("date" in found["why"]["parts"]) == is_date


def test_dateparser_is_loaded_only_for_date_hints(folder: Path, vault: Vault) -> None:
    """A query without date words, or with English ones only, does not load dateparser."""
    loaded = {name: module for name, module in sys.modules.items() if name.startswith("dateparser")}
    for name in loaded:
        del sys.modules[name]
    try:
        write(folder, "a.md", "# Boat\n\nThe boat is blue.\n")
        for query in ("which boat is blue", "wo liegt das Boot", "what happened last week"):
            assert vault.call("memory_recall", query=query, since="2020-01-01")["success"]
        assert "dateparser" not in sys.modules
    finally:
        sys.modules.update(loaded)


def test_german_month_is_parsed(folder: Path, vault: Vault) -> None:
    """For a month in another language, a memory created in it ranks first."""
    for month in ("03", "05", "09"):
        header = f"created: 2025-{month}-10\nmodified: 2025-{month}-10\n"
        body = f"# Sitzung {month}\n\nWir haben über das Dach gesprochen.\n"
        write(folder, f"{month}.md", f"---\n{header}---\n\n{body}")
    found: dict[str, Any] = vault.call("memory_recall", query="was war mit dem Dach im Mai 2025")
    assert titles(found)[0] == "Sitzung 05"


def test_file_name_date_prefix_dates_the_note() -> None:
    """A post or meeting note is dated by its name's prefix, which stays searchable."""
    assert dates_in_path("posts/2026-11-05-launch.md") == (date(2026, 11, 5),) * 2
    assert note_days("posts/2026-11-05-launch.md") is None


def journal(root: Path) -> None:
    """Write three weeks of daily notes, and notes written on one of the days."""
    for number in range(1, 22):
        body = f"Worked on part {number} of the harbour crane; it was a long day."
        write(root, f"2026-11-{number:02}.md", f"{body}\n")
    for number in range(5):
        header = "created: 2026-11-05T09:00:00Z\nmodified: 2026-11-05T09:00:00Z\n"
        text = f"# Work plan {number}\n\nOn 2026-11-05 we planned work on part {number}.\n"
        write(root, f"plan{number}.md", f"---\n{header}---\n\n{text}")


@pytest.mark.parametrize(
    "query",
    [
        "2026-11-05",
        "what did I work on 2026-11-05",
        "what did I do on 5 November 2026?",
        "5.11.2026",
        "work on part 7 on 2026-11-05",
    ],
)
def test_date_query_finds_daily_note(folder: Path, vault: Vault, query: str) -> None:
    """For a day, the note named after it ranks first."""
    journal(folder)
    result: dict[str, Any] = vault.call("memory_recall", query=query)
    assert titles(result)[0] == "2026-11-05"


def test_week_and_month_queries_find_their_notes(folder: Path, vault: Vault) -> None:
    """A weekly note matches its week, and a monthly note its month."""
    journal(folder)
    write(folder, "2026-W45.md", "A week of rain.\n")
    write(folder, "2026-11.md", "A month of fog.\n")
    assert titles(vault.call("memory_recall", query="2026-W45"))[0] == "2026-W45"
    assert titles(vault.call("memory_recall", query="what happened in 2026-11"))[0] == "2026-11"


def test_date_in_header_is_searchable(folder: Path, vault: Vault) -> None:
    """A date: line counts in addition to created, so a later record is found by its day."""
    for number in range(6):
        header = f"created: 2026-11-20\ndate: 2026-10-0{number + 1}\n"
        write(folder, f"{number}.md", f"---\n{header}---\n\n# Visit {number}\n\nA museum.\n")
    assert titles(vault.call("memory_recall", query="visit on 2026-10-03"))[0] == "Visit 2"


def test_date_words_still_match_text(folder: Path, vault: Vault) -> None:
    """A memory of another day that mentions the date is found."""
    write(folder, "a.md", "---\ncreated: 2020-01-01\n---\n\n# Audit\n\nIt is due 2026-11-05.\n")
    for number in range(40):
        write(
            folder, f"b{number}.md", f"---\ncreated: 2021-01-01\n---\n\n# Tree {number}\n\nOak.\n"
        )
    assert titles(vault.call("memory_recall", query="2026-11-05"))[0] == "Audit"


def test_memory_type_is_not_searched_as_text(folder: Path, vault: Vault) -> None:
    """A type name in the query does not match memories by type alone; a filter by type does."""
    for number, body in enumerate(("Ids are UUIDv7.", "At most 100 requests a minute.", "JWT.")):
        header = "memory_type: design-decision\n"
        write(
            folder,
            f"design-decision/{number}.md",
            f"---\n{header}---\n\n# Rule {number}\n\n{body}\n",
        )
    write(folder, "people.md", "# People\n\nAda draws the UI designs.\n")
    for query in ("who draws the UI designs", "design-decision", "decision"):
        found = vault.call("memory_recall", query=query, type="keyword")
        assert [title for title in titles(found) if title.startswith("Rule")] == []
    filtered = vault.call("memory_recall", query="UUIDv7", memoryType="design-decision")
    assert titles(filtered)[0] == "Rule 0"


def test_dates_in_names_and_headers_are_not_searched(folder: Path, vault: Vault) -> None:
    """A year does not match note names, and a day does not match validity dates."""
    journal(folder)
    write(folder, "rent.md", "---\nvalid_to: 2099-12-31\n---\n\n# Rent\n\nThe rent is 900.\n")
    found = vault.call("memory_recall", query="released 2026", type="keyword")
    assert [title for title in titles(found) if title.startswith("2026")] == []
    assert titles(vault.call("memory_recall", query="2099", type="keyword")) == []
    assert titles(vault.call("memory_recall", query="valid to", type="keyword")) == []


MEMORY = {"created": "2026-11-22T10:30:00.000Z", "modified": "2026-12-01T00:00:00.000Z"}


@pytest.mark.parametrize(
    "text",
    (
        "created == '2026-11-22' | created <= '2026-11-22' | created >= '2026-11-22' | "
        "created == '2026-11' | '2026' == created | "
        "created < '2026-11-23' and created > '2026-11-21' | "
        "'2026-11-01' <= created < '2026-12' | created == '2026-11-22T11:30+01:00' | "
        "created < '2026-11-22 10:31Z' | modified != '2026-11-30' | modified > created | "
        "created.startswith('2026-11-22T')"
    ).split(" | "),
)
@pytest.mark.usefixtures("in_utc")
def test_date_comparison_covers_whole_period(text: str) -> None:
    """Dates, months, years and times in any zone compare as people mean them."""
    assert compile_expression(text)(MEMORY)


@pytest.mark.parametrize(
    "text", ["created < '2026-11-22'", "created > '2026-11-22'", "modified == '2026-11'"]
)
@pytest.mark.usefixtures("in_utc")
def test_day_filter_excludes_other_days(text: str) -> None:
    """A day is neither before nor after itself."""
    assert not compile_expression(text)(MEMORY)


@pytest.mark.parametrize("text", ["yesterday", "22.11.2026", "2026-13", "", "x" * 500])
def test_invalid_time_in_filter_is_refused(text: str) -> None:
    """A filter that can never match is refused in one sentence instead of returning nothing."""
    with pytest.raises(UsageError) as failed:
        compile_expression(f"created > {text!r}")
    assert len(failed.value.message) < 150
    assert "2026-01-31" in failed.value.hint


@pytest.mark.parametrize("expression", ["status != 'keep'", "importance < 0.5", "area == 'x'"])
def test_missing_value_fails_comparison(folder: Path, vault: Vault, expression: str) -> None:
    """A filter never matches a memory that lacks its key."""
    write(folder, "a.md", "# A\n\nzebra\n")
    assert titles(vault.call("memory_list", filter=expression)) == []
    assert titles(vault.call("memory_list", filter="status == None")) == ["A"]


FORBIDDEN = """
    title.__class__   ().__class__.__bases__   __import__('os').system('true')   open('/etc/passwd')
    lower(title)   [x for x in tags]   (x for x in tags)   {x: 1 for x in tags}   {1: 2} == x
    lambda: 1   f'{title}' == 'x'   (x := 1)   tags[0] == 'x'   title[0:2]   title + 'x'   title % 1
    2 ** 9   -title   ~1   1 if title else 2   title is None   title.upper()   title.format(1)
    title.startswith(prefix='x')   title.startswith(*tags)   title.startswith   [*tags]   b'x' in t
    title.lower().__len__()   1j   ...   await x   x; y   x = 1   #   import os   x.lower(*())
""".strip()


@pytest.mark.parametrize("text", re.split(r"\s{3,}", FORBIDDEN))
def test_filter_expression_executes_nothing(text: str) -> None:
    """Attributes, calls, comprehensions, subscripts and arithmetic are refused, never run."""
    for whole in (text, f"title == 'x' or {text}", f"not {text}"):
        with pytest.raises(UsageError):
            compile_expression(whole)


small_numbers = st.integers(-3, 3)


ATOMS = """
    a < b   a == 1   b != -2   a >= b   0 <= a < 2   a   b > 0 > a   a in [1, b]   s.lower() == 'x'
    'x' in t   'y' not in t   t == ['x']   s.startswith('x')
""".strip()


simple = st.recursive(
    st.sampled_from(re.split(r"\s{3,}", ATOMS)),
    lambda inner: (
        st.builds("({}) {} ({})".format, inner, st.sampled_from(["and", "or"]), inner)
        | st.builds("not ({})".format, inner)
    ),
    max_leaves=6,
)


@given(
    simple, small_numbers, small_numbers, st.lists(st.sampled_from("xyz")), st.sampled_from("xXy")
)
def test_filter_expression_agrees_with_python(
    text: str, a: int, b: int, t: list[str], s: str
) -> None:
    """If all values exist, an expression is true exactly if it is in Python."""
    names: dict[str, Any] = {"a": a, "b": b, "t": t, "s": s}
    assert compile_expression(text)(names) == bool(eval(text, {"__builtins__": {}}, names))
