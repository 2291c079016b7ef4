"""A daily note's name says its day, and a date in a question finds it."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest

from conftest import titles, write
from memvault import Vault
from memvault.vault.file_names import dates_in_path, note_days

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


@pytest.mark.parametrize("path", NOTES)
def test_the_name_of_a_note_says_its_days(path: str) -> None:
    """Daily, weekly and monthly notes are known by the names that people give them."""
    first, _, last = NOTES[path].partition(" ")
    days = note_days(path)
    assert days == (date.fromisoformat(first), date.fromisoformat(last or first))


@pytest.mark.parametrize(
    "path",
    [
        "2026-13-05.md",
        "2026-11-31.md",
        "2026-W54.md",
        "11-05.md",
        "05.md",
        "notes/05.md",
        "a/11/05.md",
        "v1.2.md",
        "2026.md",
        "report-2026-11-05.md",
        "2026-11-051.md",
        "२०२६-११-०५.md",
    ],
)
def test_other_names_say_no_days(path: str) -> None:
    """What is no date, or only part of one, is a name like any other."""
    assert dates_in_path(path) is None


def test_a_name_that_begins_with_a_day_says_it() -> None:
    """A post or meeting note is of the day that its name begins with, and keeps its words."""
    assert dates_in_path("posts/2026-11-05-launch.md") == (date(2026, 11, 5),) * 2
    assert note_days("posts/2026-11-05-launch.md") is None


def journal(root: Path) -> None:
    """Write three weeks of daily notes, and things written down on one of the days."""
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
def test_a_date_finds_the_note_of_that_day(folder: Path, vault: Vault, query: str) -> None:
    """Asked for a day, the note that is called by it comes first."""
    journal(folder)
    result: dict[str, Any] = vault.call("memory_recall", query=query)
    assert titles(result)[0] == "2026-11-05"


def test_a_week_and_a_month_find_theirs(folder: Path, vault: Vault) -> None:
    """A weekly note answers for its week, and a monthly one for its month."""
    journal(folder)
    write(folder, "2026-W45.md", "A week of rain.\n")
    write(folder, "2026-11.md", "A month of fog.\n")
    assert titles(vault.call("memory_recall", query="2026-W45"))[0] == "2026-W45"
    assert titles(vault.call("memory_recall", query="what happened in 2026-11"))[0] == "2026-11"


def test_the_date_in_the_header_is_the_memorys(folder: Path, vault: Vault) -> None:
    """A date: line counts beside created, so that what is told later is found by its day."""
    for number in range(6):
        header = f"created: 2026-11-20\ndate: 2026-10-0{number + 1}\n"
        write(folder, f"{number}.md", f"---\n{header}---\n\n# Visit {number}\n\nA museum.\n")
    assert titles(vault.call("memory_recall", query="visit on 2026-10-03"))[0] == "Visit 2"


def test_a_date_never_takes_away_its_words(folder: Path, vault: Vault) -> None:
    """A memory of another day that speaks of the date is found by it."""
    write(folder, "a.md", "---\ncreated: 2020-01-01\n---\n\n# Audit\n\nIt is due 2026-11-05.\n")
    for number in range(40):
        write(
            folder, f"b{number}.md", f"---\ncreated: 2021-01-01\n---\n\n# Tree {number}\n\nOak.\n"
        )
    assert titles(vault.call("memory_recall", query="2026-11-05"))[0] == "Audit"


def test_a_type_is_no_text(folder: Path, vault: Vault) -> None:
    """Who asks for designs gets no memories for their type alone; a filter by type still works."""
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


def test_a_daily_notes_name_and_the_header_are_no_text(folder: Path, vault: Vault) -> None:
    """A year is not found in the names of notes, nor a day in when a memory ends."""
    journal(folder)
    write(folder, "rent.md", "---\nvalid_to: 2099-12-31\n---\n\n# Rent\n\nThe rent is 900.\n")
    found = vault.call("memory_recall", query="released 2026", type="keyword")
    assert [title for title in titles(found) if title.startswith("2026")] == []
    assert titles(vault.call("memory_recall", query="2099", type="keyword")) == []
    assert titles(vault.call("memory_recall", query="valid to", type="keyword")) == []
