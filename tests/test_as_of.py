"""Recall as of a day: what was there, and what was so, then."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from conftest import Run, recalled, refused, succeeded, write
from memvault import Vault, clock
from tool_calls import typed


def memory(root: Path, path: str, body: str, header: str = "", created: str = "2026-01-01") -> None:
    """Write a memory with lines of its own in the header."""
    write(root, path, f"---\ncreated: {created}\nmodified: {created}\n{header}---\n\n{body}\n")


def as_of(vault: Vault, query: str, day: str, **more: Any) -> list[dict[str, Any]]:
    """Recall as of a day."""
    return recalled(vault, query, asOf=day, **more)


def aged(root: Path, days: int) -> None:
    """Make every revision that is kept look as if it had been made days ago."""
    for file in (root / ".memvault" / "history").glob("*/*.md"):
        stamp, _, etag = file.stem.partition("-")
        made = clock.parse(stamp)
        assert made is not None
        name = clock.iso(made - timedelta(days=days)).replace("-", "").replace(":", "")
        file.rename(file.with_name(f"{name}-{etag}.md"))


def today(offset: int = 0) -> str:
    """Return a day so many days from today."""
    return (clock.now().date() + timedelta(days=offset)).isoformat()


def test_later_memories_are_not_there_and_what_they_replace_is_current(
    folder: Path, vault: Vault
) -> None:
    """Before the new decision was made, the old one was so."""
    memory(folder, "old.md", "# Old database\n\nOur database is MySQL.", "id: old-1\n")
    header = "id: new-1\nsupersedes: old-1\n"
    memory(folder, "new.md", "# Database\n\nOur database is PostgreSQL.", header, "2026-05-01")
    before = as_of(vault, "our database", "2026-04-30")
    assert [(entry["memId"], entry.get("supersededBy")) for entry in before] == [("old-1", None)]
    on_the_day = as_of(vault, "our database", "2026-05-01")
    assert [entry["memId"] for entry in on_the_day] == ["new-1", "old-1"]
    assert as_of(vault, "our database", "2025-12-31") == []


@pytest.mark.parametrize("mode", ["hybrid", "keyword", "vector", "tag"])
def test_every_mode_answers_as_of_then(folder: Path, vault: Vault, mode: str) -> None:
    """What was made later is in no answer, however it is searched."""
    memory(folder, "a.md", "# Crane\n\nThe crane is yellow.", "tags: [crane]\n")
    memory(folder, "b.md", "# Crane 2\n\nThe crane is blue.", "tags: [crane]\n", "2026-06-01")
    found = as_of(vault, "crane", "2026-03-01", type=mode)
    assert [entry["title"] for entry in found] == ["Crane"]


def test_validity_is_judged_at_that_day(folder: Path, vault: Vault) -> None:
    """What has ended since was so then, and what had not begun was not yet."""
    memory(folder, "a.md", "# Price\n\nA berth costs 20.", "valid_to: 2026-03-31\n")
    memory(folder, "b.md", "# New price\n\nA berth costs 25.", "valid_from: 2026-04-01\n")
    first, second = as_of(vault, "what does a berth cost", "2026-03-31")
    assert ("expired" in first, first["title"]) == (False, "Price")
    assert second["notYet"] == "2026-04-01"
    first, second = as_of(vault, "what does a berth cost", "2026-04-01")
    assert (first["title"], second["expired"]) == ("New price", "2026-03-31")


def test_a_text_that_was_another_then_is_the_old_one(folder: Path, vault: Vault) -> None:
    """A kept revision is what fits and what is shown, and the answer says so."""
    memory(folder, "db.md", "# Database\n\nWe use MySQL, with replicas.", "id: db-1\n")
    text = "We use Cassandra now."
    assert vault.call("memory_compound", query="db-1", modifications=text, mode="replace")[
        "success"
    ]
    aged(folder, 10)
    (entry,) = as_of(vault, "mysql replicas", today(-11), full=True)
    assert "MySQL" in entry["content"]
    assert "Cassandra" not in entry["content"]
    assert entry["asOf"][:10] == today(-11)
    assert (entry["memId"], entry["created"][:10]) == ("db-1", "2026-01-01")
    assert as_of(vault, "Cassandra", today(-11), type="keyword") == []
    (entry,) = as_of(vault, "what do we use: Cassandra", today(-9), full=True)
    assert "asOf" not in entry
    assert "Cassandra" in entry["content"]


def test_of_several_revisions_the_one_of_that_day_answers(folder: Path, vault: Vault) -> None:
    """Each day has the text that stood then."""
    memory(folder, "lamp.md", "# Lamp\n\nThe lamp is red.", "id: lamp-1\n")
    for colour in ("green", "blue"):
        aged(folder, 10)
        arguments = {
            "query": "lamp-1",
            "modifications": f"The lamp is {colour}.",
            "mode": "replace",
        }
        assert vault.call("memory_compound", **arguments)["success"]
    for day, colour in ((-20, "red"), (-5, "green"), (0, "blue")):
        (entry,) = as_of(vault, "lamp", today(day))
        assert colour in entry["snippet"]


def test_a_phrase_must_be_in_the_text_of_then(folder: Path, vault: Vault) -> None:
    """Quoted words are looked for in what is shown."""
    memory(folder, "a.md", "# A\n\nThe north gate is open.", "id: gate-1\n")
    arguments = {"query": "gate-1", "modifications": "The south gate is open.", "mode": "replace"}
    assert vault.call("memory_compound", **arguments)["success"]
    aged(folder, 10)
    assert as_of(vault, '"south gate"', today(-11)) == []
    assert len(as_of(vault, '"north gate"', today(-11))) == 1


def test_a_daily_note_was_there_on_its_day(folder: Path, vault: Vault) -> None:
    """A fresh clone gives all files a new time; the day in a name still counts."""
    write(folder, "2020-02-03.md", "We launched the boat.\n")
    assert len(as_of(vault, "boat", "2020-02-03")) == 1
    assert as_of(vault, "boat", "2020-02-02") == []


def test_an_answer_as_of_then_does_not_spoil_the_next(folder: Path, vault: Vault) -> None:
    """In one process, what is asked of today is of today."""
    memory(folder, "a.md", "# Crane\n\nThe crane is yellow.")
    memory(folder, "b.md", "# Crane 2\n\nThe crane is blue.", "", "2026-06-01")
    assert len(as_of(vault, "crane", "2026-03-01")) == 1
    assert len(vault.call("memory_recall", query="crane")["memories"]) == 2


def test_people_see_that_it_is_the_old_text(folder: Path, run: Run, vault: Vault) -> None:
    """The command line takes words for the day, and says what is no longer so."""
    memory(folder, "db.md", "# Database\n\nWe use MySQL.", "id: db-1\n")
    arguments = {"query": "db-1", "modifications": "We use Postgres.", "mode": "replace"}
    assert vault.call("memory_compound", **arguments)["success"]
    out = succeeded(run("recall", "which database", "--as-of", "yesterday")).out
    assert f"as it was on {today(-1)}" in out
    assert "MySQL" in out


NO_TIMES = ["soon", "yesterdayish", "12", "1x", "a", "we", "32 May", "2026-13-01", "05/11/2026"]


def test_what_is_no_time_is_refused_in_one_sentence(folder: Path) -> None:
    """Words that mean no date are wrong usage, with a hint of what can be written."""
    for text in (*NO_TIMES, "9" * 500, "-"):
        for option in ("--since", "--until", "--as-of"):
            ran = typed("--vault", str(folder), "recall", "boat", f"{option}={text}")
            assert "must be a date" in refused(ran, 2)


def test_as_of_and_all_are_refused_together(run: Run) -> None:
    """What cannot be combined is said."""
    assert "asOf and isAll" in refused(run("recall", "--all", "--as-of", "yesterday"), 2)


def test_filters_take_words(folder: Path, run: Run) -> None:
    """A list of what changed since yesterday leaves out what is older."""
    memory(folder, "old.md", "# Old\n\nx", "", "2020-01-01")
    memory(folder, "new.md", "# New\n\nx", "", today())
    found = run("list", "--since", "yesterday", "--json").json["memories"]
    assert [entry["title"] for entry in found] == ["New"]
    found = run("recall", "--all", "--until", "letzte Woche", "--json").json["memories"]
    assert [entry["title"] for entry in found] == ["Old"]
