"""Of two memories about one thing the newer comes first, unless the question names the older."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from conftest import Run, index_of, succeeded, write
from memvault import Vault, open_vault
from memvault.files.lock import FileLock

REST = {
    "Bread": "Rye bread needs flour, water, salt and time.",
    "Crane": "The harbour crane was painted red in autumn.",
    "Choir": "The choir meets in the old school on Thursdays.",
}
OLD = "Our office is in Berlin, on the third floor of the old mill."
NEW = "Our office has moved to Madrid, on the ground floor of a bank."
QUESTION = "in which city is our office"


def memory(folder: Path, name: str, title: str, body: str, day: str) -> None:
    """Write a memory of some day."""
    header = f"id: {name}\ncreated: {day}\nmodified: {day}"
    write(folder, f"{name}.md", f"---\n{header}\n---\n\n# {title}\n\n{body}\n")


@pytest.fixture(autouse=True)
def rest(folder: Path) -> None:
    """Write memories about other things, the newest of all."""
    for title, body in REST.items():
        memory(folder, title.lower(), title, body, "2026-05-01")


def offices(folder: Path, old: str = "2026-01-01", new: str = "2026-03-01") -> None:
    """Write where the office is, and where it has moved."""
    memory(folder, "office-1", "Office", OLD, old)
    memory(folder, "office-2", "Office", NEW, new)


def recalled(vault: Vault, query: str, **more: Any) -> dict[str, str]:
    """Recall; give each memory's id, in order, with that of a newer one."""
    result = vault.call("memory_recall", query=query, **more)
    assert result["success"], result
    return {entry["memId"]: entry.get("newer", "") for entry in result["memories"]}


@pytest.mark.parametrize("days", [("2026-01-01", "2026-03-01"), ("2026-03-01", "2026-01-01")])
def test_the_newer_is_first_and_the_older_names_it(
    folder: Path, run: Run, days: tuple[str, str]
) -> None:
    """Whichever of them is newer; people and agents are told, and a third memory is not marked."""
    offices(folder, *days)
    newer, older = ("office-2", "office-1") if days[0] < days[1] else ("office-1", "office-2")
    found = succeeded(run("recall", QUESTION, "--json")).json["memories"]
    marks = {entry["memId"]: entry.get("newer") for entry in found}
    assert list(marks)[:2] == [newer, older]
    assert marks.pop(older) == newer
    assert set(marks.values()) == {None}
    shown = succeeded(run("recall", QUESTION)).out
    assert shown.count("newer: ") == 1
    assert f"newer: {newer}" in shown


def test_a_note_of_a_day_is_as_new_as_its_day(folder: Path, vault: Vault) -> None:
    """The day in a daily note's name counts, not when its file was written."""
    write(folder, "2024-01-05.md", f"---\nid: old\n---\n\n{OLD}\n")
    memory(folder, "office-2", "Office", NEW, "2024-02-01")
    assert list(recalled(vault, QUESTION).items())[:2] == [("office-2", ""), ("old", "office-2")]


MEANT = [
    ("db1", "db2", "{} has the address 10.0.1.17 and runs Postgres.", "address of db1"),
    ("note w0n0", "note w1n0", "The text of {}.", "w0n0"),
    ("2025 budget", "2026 budget", "The {} is 40,000 euros.", "budget 2025"),
    (
        "second floor",
        "third floor",
        "The printer on the {} takes A3.",
        "printer on the second floor",
    ),
    ("Anna", "Bruno", "The birthday of {} is in spring.", "birthday of Anna"),
]


@pytest.mark.parametrize(("one", "other", "text", "query"), MEANT, ids=[row[0] for row in MEANT])
def test_what_the_question_names_stays_first(
    folder: Path, vault: Vault, one: str, other: str, text: str, query: str
) -> None:
    """A newer memory of the same form, about another thing, does not pass the one that is meant."""
    memory(folder, "meant", one, text.format(one), "2026-01-01")
    memory(folder, "other", other, text.format(other), "2026-03-01")
    found = recalled(vault, query)
    assert next(iter(found)) == "meant"
    assert found["meant"] == ""


def test_what_is_about_another_thing_is_no_newer_one(folder: Path, vault: Vault) -> None:
    """Memories that share a word and no subject are not compared by age."""
    memory(folder, "office-1", "Office", OLD, "2026-01-01")
    memory(folder, "plants", "Plants", "The plants in the office need water.", "2026-03-01")
    found = recalled(vault, QUESTION)
    assert next(iter(found)) == "office-1"
    assert set(found.values()) == {""}


@pytest.mark.parametrize("mode", ["keyword", "vector", "tag"])
def test_one_signal_alone_knows_no_age(folder: Path, vault: Vault, mode: str) -> None:
    """Keywords, vectors and tags order by themselves."""
    offices(folder)
    assert set(recalled(vault, QUESTION, type=mode).values()) <= {""}


def test_a_question_for_days_is_ordered_by_them(folder: Path, vault: Vault) -> None:
    """Whoever asks for January does not get March first."""
    offices(folder)
    found = recalled(vault, "our office in January 2026")
    assert next(iter(found)) == "office-1"
    assert set(found.values()) == {""}


@pytest.mark.parametrize("indexed", [0, 1, 2], ids=["neither", "the older", "both"])
def test_what_is_not_indexed_yet_is_compared_too(folder: Path, indexed: int) -> None:
    """While the index cannot be written, a memory read from its file is newer or older as well."""
    offices(folder)
    kept = {path: path.read_bytes() for path in folder.glob("office-*.md")}
    for path in sorted(kept)[indexed:]:
        path.unlink()
    with open_vault(folder) as vault:
        assert recalled(vault, QUESTION)
    with FileLock(index_of(folder) / "lock"), open_vault(folder) as vault:
        for path in sorted(kept)[indexed:]:
            path.write_bytes(kept[path])
        found = list(recalled(vault, QUESTION).items())
    assert found[:2] == [("office-2", ""), ("office-1", "office-2")]
