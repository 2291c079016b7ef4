"""What was replaced, has ended or has not begun is marked and comes after what is so."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from conftest import Run, explained, succeeded, titles, write
from memvault import Vault, clock, open_vault


def day(offset: int) -> str:
    """Return a day so many days from today."""
    return (clock.now().date() + timedelta(days=offset)).isoformat()


def memory(root: Path, path: str, body: str, header: str = "", created: str = "2026-01-01") -> None:
    """Write a memory with lines of its own in the header."""
    write(root, path, f"---\ncreated: {created}\n{header}---\n\n{body}\n")


def found(vault: Vault, query: str, **more: Any) -> list[dict[str, Any]]:
    """Recall and return the memories."""
    result: dict[str, Any] = vault.call("memory_recall", query=query, **more)
    assert result["success"], result
    memories: list[dict[str, Any]] = result["memories"]
    return memories


def two(root: Path, name: str) -> None:
    """Write a memory, and a newer one that supersedes it under a name."""
    memory(root, "notes/old-database.md", "# Old database\n\nOur database is MySQL.", "id: old-1\n")
    header = f"id: new-1\nsupersedes: {name}\n"
    memory(root, "new.md", "# Storage\n\nRows go to PostgreSQL.", header, "2026-02-01")


@pytest.mark.parametrize(
    "name",
    [
        "old-1",
        "notes/old-database.md",
        "notes/old-database",
        "Old database",
        "OLD DATABASE",
        '"[[old-database]]"',
        '"[[notes/old-database|the old one]]"',
        "[[old-database#Why]]",
        "[something-else, old-1]",
        "\n  - other\n  - '[[Old database]]'",
    ],
)
@pytest.mark.parametrize("mode", ["hybrid", "keyword", "vector"])
def test_a_replaced_memory_comes_after_what_replaces_it(
    folder: Path, vault: Vault, name: str, mode: str
) -> None:
    """By whatever name: asked in the old one's words, the new one is first and the old marked."""
    two(folder, name)
    first, second, *_ = found(vault, "our MySQL database", type=mode)
    assert (first["memId"], "supersededBy" in first) == ("new-1", False)
    assert (second["memId"], second["supersededBy"]) == ("old-1", "new-1")


def test_every_answer_marks_what_was_replaced(folder: Path, vault: Vault) -> None:
    """Search, load by words, list, show, and the previews of forget and compound say it."""
    two(folder, "old-1")

    def marks(name: str, key: str, own: str = "memId", **arguments: Any) -> dict[str, str]:
        result = vault.call(name, **arguments)
        entries = result.get(key) or result["error"][key]
        return {entry[own]: entry.get("supersededBy", "") for entry in entries}

    wanted = {"old-1": "new-1", "new-1": ""}
    assert marks("memory_search", "results", query="MySQL database") == wanted
    least = {"query": "MySQL database", "threshold": 0}
    assert marks("memory_load", "memories", "id", **least) == wanted
    assert marks("memory_list", "memories") == wanted
    assert marks("memory_recall", "memories", isAll=True) == wanted
    assert marks("memory_forget", "candidates", query="MySQL database", threshold=0) == wanted
    compound = {"query": "the weather on a far planet", "modifications": "x"}
    assert marks("memory_compound", "candidates", **compound) == wanted
    assert vault.call("memory_show", memId="old-1")["supersededBy"] == "new-1"


def test_context_and_similar_leave_out_what_is_not_current(folder: Path, vault: Vault) -> None:
    """An agent is told what is so; the memory that replaces the fitting one is told instead."""
    two(folder, "old-1")
    block = vault.call("context", task="our MySQL database")["context"]
    assert "PostgreSQL" in block
    assert "MySQL is" not in block
    assert "Our database is MySQL" not in block
    text = {"title": "Old database", "content": "Our database is MySQL.", "memoryType": "context"}
    similar = [entry["memId"] for entry in vault.call("memory_remember", **text)["similar"]]
    assert "old-1" not in similar


def test_a_replaced_memory_can_be_named_changed_and_forgotten(folder: Path, vault: Vault) -> None:
    """It is put behind, not away; what is forgotten replaces nothing any more."""
    two(folder, "old-1")
    assert vault.call("memory_compound", query="old-1", modifications="More.")["success"]
    assert vault.call("memory_delete", ids="new-1")["success"]
    assert "supersededBy" not in found(vault, "our MySQL database")[0]
    assert vault.call("memory_delete", ids="old-1")["deleted"] == ["old-1"]


def test_forget_and_compound_take_the_words_as_they_are(folder: Path, vault: Vault) -> None:
    """What replaces a memory is not forgotten or changed in its place."""
    two(folder, "old-1")
    arguments = {"query": "our MySQL database", "threshold": 0.6}
    entries = vault.call("memory_forget", **arguments)["candidates"]
    assert [entry["memId"] for entry in entries] == ["old-1"]
    changed = vault.call("memory_compound", query="our MySQL database", modifications="More.")
    assert changed.get("memId", "old-1") == "old-1"


def test_of_a_chain_the_last_answers(folder: Path, vault: Vault) -> None:
    """What was replaced twice names what is so today, and comes after it."""
    for number, body in enumerate(("MySQL was chosen", "then MariaDB came", "now it is Postgres")):
        before = f"supersedes: store-{number - 1}\n" if number else ""
        header = f"id: store-{number}\n{before}"
        memory(
            folder,
            f"{number}.md",
            f"# Choice {number}\n\n{body}.",
            header,
            f"2026-01-0{number + 1}",
        )
    entries = found(vault, "MySQL was chosen")
    assert entries[0]["memId"] == "store-2"
    marks = {entry["memId"]: entry.get("supersededBy") for entry in entries}
    assert marks == {"store-0": "store-2", "store-1": "store-2", "store-2": None}


def test_two_that_replace_each_other_leave_the_newer_one(folder: Path, vault: Vault) -> None:
    """A circle is no reason to lose both; a memory that replaces itself is current."""
    memory(folder, "a.md", "# One\n\nThe lantern is red.", "id: one-1\nsupersedes: two-1\n")
    header = "id: two-1\nsupersedes: one-1\n"
    memory(folder, "b.md", "# Two\n\nThe lantern is green.", header, "2026-03-01")
    memory(folder, "c.md", "# Three\n\nThe lantern is old.", "id: three-1\nsupersedes: three-1\n")
    marks = {entry["memId"]: entry.get("supersededBy") for entry in found(vault, "lantern")}
    assert marks == {"one-1": "two-1", "two-1": None, "three-1": None}


def test_a_title_that_several_have_means_the_older_ones(folder: Path, vault: Vault) -> None:
    """Three versions of one title that name it: only the last is current."""
    for number in (1, 2, 3):
        header = f"id: lamp-{number}\ntitle: Lamp\n" + "supersedes: Lamp\n" * (number > 1)
        memory(
            folder, f"{number}.md", f"The lamp is number {number}.", header, f"2026-01-0{number}"
        )
    marks = {entry["memId"]: entry.get("supersededBy") for entry in found(vault, "the lamp")}
    assert marks == {"lamp-1": "lamp-3", "lamp-2": "lamp-3", "lamp-3": None}


def test_what_has_ended_or_not_begun_is_marked_and_not_first(folder: Path, vault: Vault) -> None:
    """A day counts whole; what is unreadable as a date says nothing."""
    for name, line in {
        "ended": f"valid_to: {day(-1)}",
        "today": f"valid_to: {day(0)}",
        "later": f"valid_from: {day(1)}",
        "begun": f"valid_from: {day(0)}",
        "vague": "valid_to: soon",
        "week": "valid_to: 2020-W05",
        "year": "valid_to: 2020",
        "month": "valid_to: 2020-02",
        "hour": "valid_to: 2020-02-01T10:00:00+02:00",
    }.items():
        memory(
            folder, f"{name}.md", f"# {name}\n\nThe office wifi password is {name}.", f"{line}\n"
        )
    entries = found(vault, "office wifi password")
    marks = {
        entry["title"]: (entry.get("expired"), entry.get("notYet"))
        for entry in entries
        if "expired" in entry or "notYet" in entry
    }
    assert marks == {
        "ended": (day(-1), None),
        "later": (None, day(1)),
        "week": ("2020-W05", None),
        "year": ("2020", None),
        "month": ("2020-02", None),
        "hour": ("2020-02-01T10:00:00+02:00", None),
    }
    assert entries[0]["title"] in ("today", "begun", "vague")
    assert len(entries) == 9


def test_what_has_ended_is_first_only_where_nothing_that_is_so_fits(
    folder: Path, vault: Vault
) -> None:
    """However well it fits, what is so and fits stands before it; else it answers, marked."""
    memory(folder, "ended.md", "# Parking\n\nPark in lot B.", f"valid_to: {day(-3)}\n")
    assert [entry["expired"] for entry in found(vault, "where do we park")] == [day(-3)]
    memory(folder, "other.md", "# Parking permits\n\nWith a permit, park in lot C.")
    memory(folder, "unlike.md", "# Choir\n\nThe choir sings on Thursdays.")
    first, second, _ = found(vault, "parking: park in lot B")
    assert (first["title"], second["title"]) == ("Parking permits", "Parking")
    assert first["score"] >= second["score"]
    (folder / "other.md").unlink()
    first, second = found(vault, "parking: park in lot B")
    assert (first["title"], first["expired"]) == ("Parking", day(-3))
    assert second["title"] == "Choir"


def test_what_begins_tomorrow_replaces_nothing_today(folder: Path, vault: Vault) -> None:
    """Until a new rule begins the old one is current."""
    memory(folder, "old.md", "# Rule\n\nShips sail on Mondays.", "id: rule-1\n")
    header = f"id: rule-2\nsupersedes: rule-1\nvalid_from: {day(1)}\n"
    memory(folder, "new.md", "# New rule\n\nShips sail on Fridays.", header)
    first, second = found(vault, "when do ships sail")
    assert (first["memId"], "supersededBy" in first) == ("rule-1", False)
    assert second["notYet"] == day(1)


def test_the_scores_of_what_is_put_behind_add_up(folder: Path, vault: Vault) -> None:
    """With explain, what a memory loses or takes over is a part like others."""
    two(folder, "old-1")
    entries = explained(vault, "our MySQL database")
    assert "replaces" in entries[0]["why"]["parts"]
    assert entries[1]["why"]["parts"]["supersededBy"] < 0
    for entry in entries:
        assert sum(entry["why"]["parts"].values()) == pytest.approx(entry["score"], abs=0.001)


def test_a_filter_keeps_out_what_replaces(folder: Path, vault: Vault) -> None:
    """What a filter excludes does not answer in another's place; the mark stays."""
    two(folder, "old-1")
    entries = found(vault, "MySQL database", filter="id == 'old-1'")
    assert [(entry["memId"], entry["supersededBy"]) for entry in entries] == [("old-1", "new-1")]


def test_people_see_what_was_replaced(folder: Path, run: Run) -> None:
    """In the text for people it is said in a word."""
    two(folder, "old-1")
    memory(
        folder, "x.md", "# Old password\n\nThe database password is x.", f"valid_to: {day(-2)}\n"
    )
    out = succeeded(run("recall", "our MySQL database password")).out
    assert "replaced by new-1" in out
    assert f"ended {day(-2)}" in out


def test_edits_of_the_header_count_at_once(folder: Path, vault: Vault) -> None:
    """A supersedes line that is taken out or put in is seen by the next answer."""
    two(folder, "nothing")
    assert titles(vault.call("memory_recall", query="MySQL database"))[0] == "Old database"
    two(folder, "old-1")
    assert titles(vault.call("memory_recall", query="MySQL database"))[0] == "Storage"
    two(folder, "nobody-at-all")
    assert titles(vault.call("memory_recall", query="MySQL database"))[0] == "Old database"


def test_what_was_merged_away_is_marked(folder: Path, vault: Vault) -> None:
    """The superseded_by that consolidate writes counts like supersedes in the other one."""
    memory(folder, "a.md", "# Kept\n\nThe kiln fires at 900 degrees.", "id: kept-1\n")
    memory(folder, "b.md", "# Gone\n\nThe kiln is at 900 degrees.", "superseded_by: kept-1\n")
    marks = {entry["title"]: entry.get("supersededBy") for entry in found(vault, "kiln degrees")}
    assert marks == {"Kept": None, "Gone": "kept-1"}


def test_facts_and_procedures_that_were_replaced_are_not_acted_on(
    folder: Path, vault: Vault
) -> None:
    """A replaced fact is marked behind the new one; what is told unasked has only what is so."""
    memory(folder, "a.md", "The gate code is 1111.", "id: code-1\nmemory_type: fact\n")
    header = "id: code-2\nmemory_type: fact\nsupersedes: code-1\n"
    memory(folder, "b.md", "The gate code is 2222.", header, "2026-02-01")
    facts = vault.call("recall_fact", query="gate code")["facts"]
    assert [(fact["factId"], fact.get("supersededBy")) for fact in facts] == [
        ("code-2", None),
        ("code-1", "code-2"),
    ]
    header = f"title: Open gate\nmemory_type: procedure\nvalid_to: {day(-1)}\nsuccess_rate: 0.9\n"
    memory(folder, "c.md", "Push the gate.", header)
    known = vault.call("recall_memory", observations=["the gate code"])["memoryContext"]
    assert known["facts"] == ["The gate code is 2222."]
    assert known["procedures"] == []


said = st.lists(
    st.tuples(
        st.lists(st.integers(0, 6), max_size=2), st.sampled_from(["", "valid_to", "valid_from"])
    ),
    min_size=1,
    max_size=6,
)


@given(said, st.sampled_from(["hybrid", "keyword", "tag"]))
@example([([], ""), ([], ""), ([3], "valid_to"), ([], "")], "keyword")
@example([([1], "valid_to"), ([], ""), ([], "")], "keyword")
def test_whatever_headers_say_of_each_other(
    tmp_path_factory: pytest.TempPathFactory, headers: list[tuple[list[int], str]], mode: str
) -> None:
    """However memories replace each other, all are found once, and none before what replaces it."""
    root = tmp_path_factory.mktemp("said")
    write(root, "memvault.toml", "version = 1\n")
    for number, (replaced, key) in enumerate(headers):
        header = f"id: lamp-{number}\ntags: [lamp]\n"
        if replaced:
            header += f"supersedes: [{', '.join(f'lamp-{other}' for other in replaced)}]\n"
        if key:
            header += f"{key}: {day(-1 if key == 'valid_to' else 1)}\n"
        memory(root, f"{number}.md", f"# Lamp {number}\n\nA lamp, " + "lit, " * number, header)
    with open_vault(root) as vault:
        entries = found(vault, "lamp", type=mode)
    places = {entry["memId"]: place for place, entry in enumerate(entries)}
    assert sorted(places) == [f"lamp-{number}" for number in range(len(headers))]
    current = [
        "supersededBy" not in e and "expired" not in e and "notYet" not in e for e in entries
    ]
    assert current[0] or not any(current)
    scores = [entry["score"] for entry in entries]
    assert scores == sorted(scores, reverse=True)
    for entry in entries:
        new = entry.get("supersededBy", entry["memId"])
        assert places[new] <= places[entry["memId"]] or "supersededBy" in entries[places[new]]
