"""Date words in a question mean the days that a person means, and other words mean none."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from conftest import explained, write
from memvault import Vault
from memvault.recall.dates import find_date, span_proximity
from memvault.vault.file_names import DateRange

TODAY = date(2024, 3, 15)
"""A Friday, in a leap year."""

MEANT = {
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


def meant_by(text: str, today: date) -> DateRange | None:
    """Return the days that a text names."""
    found = find_date(text, today)
    return found.span if found else None


def days(text: str) -> DateRange:
    """Read ``FIRST LAST`` or one day."""
    first, _, last = text.partition(" ")
    return DateRange(date.fromisoformat(first), date.fromisoformat(last or first))


@pytest.mark.parametrize("text", MEANT)
def test_date_words_mean_what_a_person_means(text: str) -> None:
    """Dates, months, years and counts of days are read, those without a year as the last ones."""
    assert meant_by(text, TODAY) == days(MEANT[text])


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


@pytest.mark.parametrize(("text", "today", "meant"), ELSEWHERE)
def test_the_last_such_days_are_meant_on_any_day(text: str, today: str, meant: str) -> None:
    """At the turn of months and years the days are those of the month or year before."""
    assert meant_by(text, date.fromisoformat(today)) == days(meant)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "why is the roof red",
        "we may go",
        "may we go",
        "this may be wrong",
        "the last may fail",
        "4 may be wrong",
        "option 2 may fail",
        "up to 5 may join",
        "it may 10 times out of 12",
        "you may 3 times retry",
        "March on",
        "we march 3 miles",
        "second",
        "the second of two",
        "sat in the sun, wed on a whim",
        "I saw a man in 2023rd",
        "port 2020",
        "RFC 2023",
        "1920x1080",
        "a limit of 2048 tokens",
        "an RSA key in 2048 bits",
        "mark 2020",
        "marching 12 miles",
        "decimal 5",
        "error 2020-13",
        "2023-99-99",
        "31 June 2023",
        "30 February 2023",
        "June 31",
        "0 May 2023",
        "in 0000",
        "the past",
        "at last",
        "how many days ago",
        "the day after tomorrow",
        "next Monday",
        "on Fridaynight",
        "todays",
        "９ days later",
    ],
)
def test_other_words_mean_no_days(text: str) -> None:
    """A verb, a number, a made-up date or half a phrase does not pass for a date."""
    assert meant_by(text, TODAY) is None


@pytest.mark.parametrize(
    "text", ["this week", "this month", "this year", "last week", "last month", "last year"]
)
@pytest.mark.parametrize("today", [date.min, date.max, date(9999, 12, 1), date(1, 1, 31)])
def test_the_ends_of_the_calendar_are_no_trouble(text: str, today: date) -> None:
    """On the first and last days that a computer knows there are days or none, and no error."""
    found = meant_by(text, today)
    assert found is None or found.first <= found.last


parts = st.sampled_from(
    "this last past previous on in of during since early ago a an one twelve couple few 0 1 3 29 "
    "31 9999 7th 31st day days week weeks month months year years today yesterday Monday friday "
    "january Feb. mar may MAY Sept december 1900 2024 2023-05 2023-02-29 2099-12-31 , . - ٣ ² １"
    "".split()
)
phrases = st.lists(parts | st.text(max_size=5), max_size=8).map(" ".join)
todays = st.dates() | st.dates(date(2020, 1, 1), date(2030, 1, 1))


@given(phrases, todays)
@example("9999 years ago", TODAY)
@example("last 9999 years", date.min)
@example("last 9999 weeks", date.max)
@example("in December", date.max)
@example("29 Feb", date.min)
@example("٣ days ago", TODAY)
@example("² days ago", TODAY)
def test_any_text_means_some_days_or_none(text: str, today: date) -> None:
    """No text on any day is trouble, and no span ends before it begins."""
    found = meant_by(text, today)
    assert found is None or (date.min <= found.first <= found.last <= date.max)


@given(st.text(), st.dates())
def test_any_text_at_all_is_read(text: str, today: date) -> None:
    """Text of any characters is read."""
    found = meant_by(text, today)
    assert found is None or found.first <= found.last


@given(st.dates(), st.dates(), st.dates())
@example(date.min, date.max, date.max)
@example(date.min, date.min, date.max)
def test_nearness_falls_with_the_distance(one: date, other: date, day: date) -> None:
    """Nearness is 1 inside the days, and outside falls the farther off a day is, never below 0."""
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


def test_a_page_of_words_that_nearly_are_dates_names_no_day() -> None:
    """However often it is repeated, what only begins like a date is none."""
    for text in ("last " * 800, "2023-" * 800, "may " * 1000, "9" * 4000, "a couple of " * 330):
        assert meant_by(text, TODAY) is None


def recalled(vault: Vault, query: str) -> list[tuple[str, float | None]]:
    """Recall and return each memory's path and its score's part for the date."""
    result: dict[str, Any] = vault.call("memory_recall", query=query, explain=True)
    assert result["success"], result
    return [(entry["filePath"], entry["why"]["parts"].get("date")) for entry in result["memories"]]


@pytest.mark.parametrize("paths", [("a.md", "b.md"), ("b.md", "a.md")])
@pytest.mark.parametrize("key", ["created", "modified"])
def test_what_is_of_the_days_asked_for_comes_first(
    folder: Path, vault: Vault, paths: tuple[str, str], key: str
) -> None:
    """Asked for a month, a memory made or changed in it comes first, unless date is set to 0."""
    for path, day in zip(paths, ("2023-05-14", "2022-01-14"), strict=True):
        front = f"created: 2021-01-01\nmodified: 2024-09-01\n{key}: {day}\n"
        front = front.replace(f"{key}: 2021-01-01\n", "").replace(f"{key}: 2024-09-01\n", "")
        body = "It happened by the river: the boats were tied up."
        write(folder, path, f"---\n{front}---\n\n# Boats\n\n{body}\n")
    write(folder, "memvault.toml", "version = 1\n[ranking]\nrecency = 0\ndiversity = false\n")
    (first, near), (_, far) = recalled(vault, "what happened by the river in May 2023")
    assert first == paths[0]
    assert near is not None
    assert far is not None
    assert near > 0.1 > far
    off = "recency = 0\ndate = 0\ndiversity = false"
    write(folder, "memvault.toml", f"version = 1\n[ranking]\n{off}\n")
    found = recalled(vault, "what happened by the river in May 2023")
    assert sorted(found) == [("a.md", None), ("b.md", None)]


@pytest.mark.parametrize("query", ["may the shed be painted", "painted shed", "4 may be painted"])
def test_without_date_words_dates_are_no_part(folder: Path, vault: Vault, query: str) -> None:
    """A question that names no days is not told of any."""
    write(folder, "a.md", "# Shed\n\nThe shed may be painted green.\n")
    assert recalled(vault, query) == [("a.md", None)]


def test_a_question_for_days_finds_what_was_written_then(folder: Path, vault: Vault) -> None:
    """Asked only for a time, recall answers with the memories of that time, whatever they say."""
    told = {"04-30": "Boats tied up", "05-01": "A new lantern", "05-31": "Rain", "06-01": "Nets"}
    for day, body in told.items():
        header = f"created: 2023-{day}\nmodified: 2023-{day}\ntitle: {body}\n"
        write(folder, f"2023-{day}.md", f"---\n{header}---\n\n{body}.\n")
    found = [path for path, _ in recalled(vault, "what happened in May 2023")]
    assert sorted(found[:2]) == ["2023-05-01.md", "2023-05-31.md"]
    assert [day for _, day in recalled(vault, "what happened in May 2021") if day] == []


def test_a_date_word_in_passing_leaves_the_answer_first(folder: Path, vault: Vault) -> None:
    """A question about something does not bring up all that was written on the day it names."""
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
def test_old_letters_do_not_stop_recall(folder: Path, vault: Vault, query: str) -> None:
    """A long s in a date is no date and no trouble; with an s of today it is one."""
    write(folder, "a.md", "# Letter\n\nA letter of 1923.\n")
    for asked, is_date in ((query, False), (query.replace("\u017f", "s"), True)):
        (found,) = explained(vault, asked)
        assert ("date" in found["why"]["parts"]) == is_date
