"""Outdated memories rank below current ones, and answers as of a day have that day's text."""

from __future__ import annotations

import sys
from contextlib import closing
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from conftest import Run, called, explained, recalled, succeeded, titles, user_in, write
from made_secrets import MADE
from memvault import Vault, clock, open_vault
from memvault.index.protocol import COMPLETE
from memvault.recall.dates import date_proximity, days_near
from memvault.vault.date_ranges import DateRange
from memvault.workspace import Workspace


def day(offset: int) -> str:
    """Return a day relative to today."""
    return (clock.today() + timedelta(days=offset)).isoformat()


def memory(root: Path, path: str, body: str, header: str = "", created: str = "2026-01-01") -> None:
    """Write a memory with additional header lines."""
    write(root, path, f"---\ncreated: {created}\n{header}---\n\n{body}\n")


def two(root: Path, name: str) -> None:
    """Write a memory, and a newer one that supersedes it by a name."""
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
def test_superseded_memory_ranks_second(folder: Path, vault: Vault, name: str, mode: str) -> None:
    """With any form of reference, the new memory ranks first and the old one is marked."""
    two(folder, name)
    first, second, *_ = recalled(vault, "our MySQL database", type=mode)
    assert (first["memId"], "supersededBy" in first) == ("new-1", False)
    assert (second["memId"], second["supersededBy"]) == ("old-1", "new-1")


def test_every_result_marks_superseded_memories(folder: Path, vault: Vault) -> None:
    """Search, load by words, list, show and the previews of forget and compound all mark them."""
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


def test_context_and_similar_omit_outdated_memories(folder: Path, vault: Vault) -> None:
    """An agent gets current facts: the replacement instead of a superseded memory."""
    two(folder, "old-1")
    block = vault.call("context", task="our MySQL database")["context"]
    assert "PostgreSQL" in block
    assert "MySQL is" not in block
    assert "Our database is MySQL" not in block
    text = {"title": "Old database", "content": "Our database is MySQL.", "memoryType": "context"}
    similar = [entry["memId"] for entry in vault.call("memory_remember", **text)["similar"]]
    assert "old-1" not in similar


def test_superseded_memory_can_be_changed_and_forgotten(folder: Path, vault: Vault) -> None:
    """It is demoted, not removed; once its replacement is forgotten, it is current again."""
    two(folder, "old-1")
    assert vault.call("memory_compound", query="old-1", modifications="More.")["success"]
    assert vault.call("memory_delete", ids="new-1")["success"]
    assert "supersededBy" not in recalled(vault, "our MySQL database")[0]
    assert vault.call("memory_delete", ids="old-1")["deleted"] == ["old-1"]


def test_forget_and_compound_ignore_replacements(folder: Path, vault: Vault) -> None:
    """A query for a superseded memory does not forget or change its replacement."""
    two(folder, "old-1")
    arguments = {"query": "our MySQL database", "threshold": 0.6}
    entries = vault.call("memory_forget", **arguments)["candidates"]
    assert [entry["memId"] for entry in entries] == ["old-1"]
    changed = vault.call("memory_compound", query="our MySQL database", modifications="More.")
    assert changed.get("memId", "old-1") == "old-1"


def test_superseded_chain_resolves_to_last(folder: Path, vault: Vault) -> None:
    """A memory superseded twice refers to the current memory and ranks below it."""
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
    entries = recalled(vault, "MySQL was chosen")
    assert entries[0]["memId"] == "store-2"
    marks = {entry["memId"]: entry.get("supersededBy") for entry in entries}
    assert marks == {"store-0": "store-2", "store-1": "store-2", "store-2": None}


def test_mutual_supersedes_keeps_the_newer(folder: Path, vault: Vault) -> None:
    """If memories supersede each other, the newer is current; self-references are ignored."""
    memory(folder, "a.md", "# One\n\nThe lantern is red.", "id: one-1\nsupersedes: two-1\n")
    header = "id: two-1\nsupersedes: one-1\n"
    memory(folder, "b.md", "# Two\n\nThe lantern is green.", header, "2026-03-01")
    memory(folder, "c.md", "# Three\n\nThe lantern is old.", "id: three-1\nsupersedes: three-1\n")
    marks = {entry["memId"]: entry.get("supersededBy") for entry in recalled(vault, "lantern")}
    assert marks == {"one-1": "two-1", "two-1": None, "three-1": None}


def test_supersedes_shared_title_refers_to_older_memories(folder: Path, vault: Vault) -> None:
    """If three versions of one title supersede it, only the last is current."""
    for number in (1, 2, 3):
        header = f"id: lamp-{number}\ntitle: Lamp\n" + "supersedes: Lamp\n" * (number > 1)
        memory(
            folder, f"{number}.md", f"The lamp is number {number}.", header, f"2026-01-0{number}"
        )
    marks = {entry["memId"]: entry.get("supersededBy") for entry in recalled(vault, "the lamp")}
    assert marks == {"lamp-1": "lamp-3", "lamp-2": "lamp-3", "lamp-3": None}


def test_expired_and_future_memories_are_marked_and_demoted(folder: Path, vault: Vault) -> None:
    """A day includes all of its hours; an unreadable date has no effect."""
    for name, line in {
        "ended": f"valid_to: {day(-1)}",
        "today": f"valid_to: {day(0)}",
        "weekday": f"valid_to: {date.fromisoformat(day(0)):%G-W%V-%u}",
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
    entries = recalled(vault, "office wifi password")
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
    assert entries[0]["title"] in ("today", "weekday", "begun", "vague")
    assert len(entries) == 10


def test_expired_memory_ranks_after_current_ones(folder: Path, vault: Vault) -> None:
    """A matching current memory ranks before an expired one, which is marked and still found."""
    memory(folder, "ended.md", "# Parking\n\nPark in lot B.", f"valid_to: {day(-3)}\n")
    assert [entry["expired"] for entry in recalled(vault, "where do we park")] == [day(-3)]
    memory(folder, "other.md", "# Parking permits\n\nWith a permit, park in lot C.")
    memory(folder, "unlike.md", "# Choir\n\nThe choir sings on Thursdays.")
    first, second, _ = recalled(vault, "parking: park in lot B")
    assert (first["title"], second["title"]) == ("Parking permits", "Parking")
    assert first["score"] >= second["score"]
    (folder / "other.md").unlink()
    first, second = recalled(vault, "parking: park in lot B")
    assert (first["title"], first["expired"]) == ("Parking", day(-3))
    assert second["title"] == "Choir"


def test_future_replacement_does_not_supersede(folder: Path, vault: Vault) -> None:
    """Until a new rule takes effect, the old one is current."""
    memory(folder, "old.md", "# Rule\n\nShips sail on Mondays.", "id: rule-1\n")
    header = f"id: rule-2\nsupersedes: rule-1\nvalid_from: {day(1)}\n"
    memory(folder, "new.md", "# New rule\n\nShips sail on Fridays.", header)
    first, second = recalled(vault, "when do ships sail")
    assert (first["memId"], "supersededBy" in first) == ("rule-1", False)
    assert second["notYet"] == day(1)


def test_explain_parts_of_demoted_memories_add_up(folder: Path, vault: Vault) -> None:
    """With explain, a memory's demotion or inherited score is shown as a part."""
    two(folder, "old-1")
    entries = explained(vault, "our MySQL database")
    assert "replaces" in entries[0]["why"]["parts"]
    assert entries[1]["why"]["parts"]["supersededBy"] < 0
    for entry in entries:
        assert sum(entry["why"]["parts"].values()) == pytest.approx(entry["score"], abs=0.001)


def test_filtered_replacement_is_not_shown(folder: Path, vault: Vault) -> None:
    """A replacement that the filter excludes is not shown; the superseded memory stays marked."""
    two(folder, "old-1")
    entries = recalled(vault, "MySQL database", filter="id == 'old-1'")
    assert [(entry["memId"], entry["supersededBy"]) for entry in entries] == [("old-1", "new-1")]


def test_shell_marks_superseded_memories(folder: Path, run: Run) -> None:
    """Human-readable output marks the superseded memory."""
    two(folder, "old-1")
    memory(
        folder, "x.md", "# Old password\n\nThe database password is x.", f"valid_to: {day(-2)}\n"
    )
    out = succeeded(run("recall", "our MySQL database password")).out
    assert "superseded by new-1" in out
    assert f"expired {day(-2)}" in out


def test_supersedes_edit_takes_effect_immediately(folder: Path, vault: Vault) -> None:
    """Adding or removing a supersedes line affects the next answer."""
    two(folder, "nothing")
    assert titles(vault.call("memory_recall", query="MySQL database"))[0] == "Old database"
    two(folder, "old-1")
    assert titles(vault.call("memory_recall", query="MySQL database"))[0] == "Storage"
    two(folder, "nobody-at-all")
    assert titles(vault.call("memory_recall", query="MySQL database"))[0] == "Old database"


def test_superseded_by_counts_like_supersedes(folder: Path, vault: Vault) -> None:
    """The superseded_by written by consolidate counts like supersedes in the other memory."""
    memory(folder, "a.md", "# Kept\n\nThe kiln fires at 900 degrees.", "id: kept-1\n")
    memory(folder, "b.md", "# Gone\n\nThe kiln is at 900 degrees.", "superseded_by: kept-1\n")
    marks = {entry["title"]: entry.get("supersededBy") for entry in recalled(vault, "kiln degrees")}
    assert marks == {"Kept": None, "Gone": "kept-1"}


def test_superseded_facts_and_procedures_are_not_used(folder: Path, vault: Vault) -> None:
    """A superseded fact is marked and listed last; the context has only current ones."""
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
def test_any_supersedes_graph_finds_all_memories(
    tmp_path_factory: pytest.TempPathFactory, headers: list[tuple[list[int], str]], mode: str
) -> None:
    """In any supersession graph, each memory is found once, after its replacement."""
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
        entries = recalled(vault, "lamp", type=mode)
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


def dated(root: Path, path: str, body: str, header: str = "", created: str = "2026-01-01") -> None:
    """Write a memory with additional header lines."""
    write(root, path, f"---\ncreated: {created}\nmodified: {created}\n{header}---\n\n{body}\n")


def as_of(vault: Vault, query: str, day: str, **more: Any) -> list[dict[str, Any]]:
    """Recall as of a day."""
    return recalled(vault, query, asOf=day, **more)


def aged(root: Path, days: int) -> None:
    """Make all stored revisions look days old."""
    for file in (root / ".memvault" / "history").glob("*/*.md"):
        stamp, _, etag = file.stem.partition("-")
        made = clock.parse(stamp)
        assert made is not None
        name = clock.iso(made - timedelta(days=days)).replace("-", "").replace(":", "")
        file.rename(file.with_name(f"{name}-{etag}.md"))


def test_as_of_ignores_later_replacements(folder: Path, vault: Vault) -> None:
    """As of a day before the new decision, the old one is current."""
    dated(folder, "old.md", "# Old database\n\nOur database is MySQL.", "id: old-1\n")
    header = "id: new-1\nsupersedes: old-1\n"
    dated(folder, "new.md", "# Database\n\nOur database is PostgreSQL.", header, "2026-05-01")
    before = as_of(vault, "our database", "2026-04-30")
    assert [(entry["memId"], entry.get("supersededBy")) for entry in before] == [("old-1", None)]
    on_the_day = as_of(vault, "our database", "2026-05-01")
    assert [entry["memId"] for entry in on_the_day] == ["new-1", "old-1"]
    assert as_of(vault, "our database", "2025-12-31") == []


def test_as_of_hours_ago_omits_newer_memories(folder: Path, vault: Vault) -> None:
    """``2 hours ago`` is an exact time: a memory written after it is not found."""
    write(folder, "crane.md", "# Crane\n\nThe crane lifts ten tons.\n")
    assert as_of(vault, "crane", "now")
    assert as_of(vault, "crane", "2 hours ago") == []


def test_current_memory_is_found_after_expired_ones(folder: Path, vault: Vault) -> None:
    """Even if many expired memories are more similar, recall finds the current one.

    ``remember`` names it as well.
    """
    for number in range(40):
        header = "---\nvalid_to: 2020-01-01\n---\n"
        text = f"The wifi password of the office in room {number} is changed.\n"
        write(folder, f"fact/{number}.md", f"{header}# Office wifi {number}\n\n{text}")
    write(folder, "fact/door.md", "# Door\n\nThe wifi password of the office is on the door.\n")
    for number in range(200):
        write(folder, f"fact/bread-{number}.md", f"# Bread {number}\n\nBread of grain {number}.\n")
    text = "The wifi password of the office is changed."
    found = recalled(vault, text, type="vector", strict=True, limit=4)
    assert found[0]["filePath"] == "fact/door.md"
    written = vault.call("memory_remember", title="Wifi", content=text, memory_type="fact")
    assert [entry["filePath"] for entry in written["similar"]] == ["fact/door.md"]


@pytest.mark.parametrize("mode", ["hybrid", "keyword", "vector", "tag"])
def test_as_of_works_in_every_mode(folder: Path, vault: Vault, mode: str) -> None:
    """Memories created after the day are not found in any mode."""
    dated(folder, "a.md", "# Crane\n\nThe crane is yellow.", "tags: [crane]\n")
    dated(folder, "b.md", "# Crane 2\n\nThe crane is blue.", "tags: [crane]\n", "2026-06-01")
    found = as_of(vault, "crane", "2026-03-01", type=mode)
    assert [entry["title"] for entry in found] == ["Crane"]


def test_validity_is_evaluated_as_of_day(folder: Path, vault: Vault) -> None:
    """Validity periods are evaluated as of the requested day, not today."""
    dated(folder, "a.md", "# Price\n\nA berth costs 20.", "valid_to: 2026-03-31\n")
    dated(folder, "b.md", "# New price\n\nA berth costs 25.", "valid_from: 2026-04-01\n")
    first, second = as_of(vault, "what does a berth cost", "2026-03-31")
    assert ("expired" in first, first["title"]) == (False, "Price")
    assert second["notYet"] == "2026-04-01"
    first, second = as_of(vault, "what does a berth cost", "2026-04-01")
    assert (first["title"], second["expired"]) == ("New price", "2026-03-31")


def test_as_of_shows_the_revision(folder: Path, vault: Vault) -> None:
    """A stored revision is matched and shown, and the answer is marked as such."""
    dated(folder, "db.md", "# Database\n\nWe use MySQL, with replicas.", "id: db-1\n")
    text = "We use Cassandra now."
    assert vault.call("memory_compound", query="db-1", modifications=text, mode="replace")[
        "success"
    ]
    aged(folder, 10)
    (entry,) = as_of(vault, "mysql replicas", day(-11), full=True)
    assert "MySQL" in entry["content"]
    assert "Cassandra" not in entry["content"]
    assert clock.local(entry["asOf"]) == day(-11)
    assert (entry["memId"], entry["created"][:10]) == ("db-1", "2026-01-01")
    assert as_of(vault, "Cassandra", day(-11), type="keyword") == []
    (entry,) = as_of(vault, "what do we use: Cassandra", day(-9), full=True)
    assert "asOf" not in entry
    assert "Cassandra" in entry["content"]


def test_as_of_selects_revision_of_that_day(folder: Path, vault: Vault) -> None:
    """Each day has the text of that day."""
    dated(folder, "lamp.md", "# Lamp\n\nThe lamp is red.", "id: lamp-1\n")
    for colour in ("green", "blue"):
        aged(folder, 10)
        arguments = {
            "query": "lamp-1",
            "modifications": f"The lamp is {colour}.",
            "mode": "replace",
        }
        assert vault.call("memory_compound", **arguments)["success"]
    for offset, colour in ((-20, "red"), (-5, "green"), (0, "blue")):
        (entry,) = as_of(vault, "lamp", day(offset))
        assert colour in entry["snippet"]


def test_phrase_is_searched_in_revision_as_of(folder: Path, vault: Vault) -> None:
    """Quoted words are searched in the displayed revision."""
    dated(folder, "a.md", "# A\n\nThe north gate is open.", "id: gate-1\n")
    arguments = {"query": "gate-1", "modifications": "The south gate is open.", "mode": "replace"}
    assert vault.call("memory_compound", **arguments)["success"]
    aged(folder, 10)
    assert "north" in as_of(vault, '"south gate"', day(-11))[0]["snippet"]
    assert len(as_of(vault, '"north gate"', day(-11))) == 1


def test_daily_note_exists_as_of_its_day(folder: Path, vault: Vault) -> None:
    """In a fresh clone with new file times, the day in a name still counts."""
    write(folder, "2020-02-03.md", "We launched the boat.\n")
    assert len(as_of(vault, "boat", "2020-02-03")) == 1
    assert as_of(vault, "boat", "2020-02-02") == []


def test_as_of_does_not_affect_next_recall(folder: Path, vault: Vault) -> None:
    """In the same process, a question about today uses today's memories."""
    dated(folder, "a.md", "# Crane\n\nThe crane is yellow.")
    dated(folder, "b.md", "# Crane 2\n\nThe crane is blue.", "", "2026-06-01")
    assert len(as_of(vault, "crane", "2026-03-01")) == 1
    assert len(vault.call("memory_recall", query="crane")["memories"]) == 2


def test_shell_marks_earlier_text(folder: Path, run: Run, vault: Vault) -> None:
    """The command line accepts date words, and marks outdated memories."""
    dated(folder, "db.md", "# Database\n\nWe use MySQL.", "id: db-1\n")
    arguments = {"query": "db-1", "modifications": "We use Postgres.", "mode": "replace"}
    assert vault.call("memory_compound", **arguments)["success"]
    out = succeeded(run("recall", "which database", "--as-of", "yesterday")).out
    assert f"as it was on {day(-1)}" in out
    assert "MySQL" in out


def test_filters_accept_relative_dates(folder: Path, run: Run) -> None:
    """A list of changes since yesterday omits older memories."""
    dated(folder, "old.md", "# Old\n\nx", "", "2020-01-01")
    dated(folder, "new.md", "# New\n\nx", "", day(0))
    found = run("list", "--since", "yesterday", "--json").json["memories"]
    assert [entry["title"] for entry in found] == ["New"]
    found = run("recall", "--all", "--until", "letzte Woche", "--json").json["memories"]
    assert [entry["title"] for entry in found] == ["Old"]


QUERY = "when do we rotate the deploy keys"


@pytest.fixture
def kept(vault: Vault, folder: Path) -> Vault:
    """A vault in which an agent has entries of each kind about one thing, among others."""
    write(folder, "lunch.md", "# Lunch\n\nSoup, on Mondays.\n")
    values = [
        {"key": "rotation", "value": "Deploy keys: rotated by Ana."},
        {"key": "tea", "value": "x"},
    ]
    vault.call("set_memories", memories=values)
    vault.call("set_goals", goals=[{"id": "keys", "description": "Rotating each deploy key"}])
    plan = {"name": "Keys", "instruction": "Rotate deploy keys", "cron": "0 9 * * 1"}
    vault.call("set_plans", plans=[plan])
    with open_vault(folder, "ana") as ana:
        ana.call("set_memories", memories=[{"key": "mine", "value": "Deploy keys rotate at noon."}])
        ana.call("enter_space", spaceId="Secret")
        ana.call("send_message", text="I rotate the deploy keys at night.")
        ana.call("enter_space", spaceId="Team")
        vault.call("enter_space", spaceId="Team")
        ana.call("send_message", text="I rotate the deploy keys at dawn.")
    vault.call("push_service", name="ci", message="The deploy keys were rotated.")
    return vault


def others(vault: Vault, query: str = QUERY, **more: Any) -> list[dict[str, Any]]:
    """Return the entries listed next to the memories."""
    return list(called(vault, "memory_recall", query=query, **more)["others"])


def test_recall_includes_agent_state(kept: Vault) -> None:
    """Values, goals, plans, spaces and inbox, each once, in any form of the words."""
    found = others(kept, include=["state", "messages"])
    assert {(entry["kind"], entry["name"]) for entry in found} == {
        ("key-value", "rotation"),
        ("goal", "keys"),
        ("plan", "Keys"),
        ("space message", "Team, ana"),
        ("inbox event", "service ci"),
    }
    assert {entry["score"] for entry in found} == {1.0}
    assert {entry["kind"] for entry in others(kept, include=["State"])} == {
        "key-value",
        "goal",
        "plan",
    }


def test_state_results_refer_to_existing_files(kept: Vault, folder: Path) -> None:
    """An entry's text is the passage that fits, or with ``full`` the whole memory."""
    assert others(kept, include=["both"]) == others(kept, include="state,messages")
    for entry in others(kept, include=["state", "messages"], full=True):
        assert entry["content"] in (folder / entry["filePath"]).read_text("utf-8")
        assert entry["snippet"] in entry["content"]


def test_state_search_hides_other_agents(kept: Vault, folder: Path) -> None:
    """Other agents' private state and spaces without membership are not searched."""
    found = others(kept, include=["state", "messages"])
    told = " ".join(entry["snippet"] for entry in found)
    assert "noon" not in told
    assert "night" not in told
    with open_vault(folder, "ana") as ana:
        found = others(ana, include=["state", "messages"])
    assert {entry["name"] for entry in found} == {"mine", "Secret, ana", "Team, ana"}


def test_state_search_requires_half_the_query_words(kept: Vault) -> None:
    """Half of the words, and phrases literally, must match; more matches come first."""
    assert others(kept, "keys of the piano in the parlour", include=["state"]) == []
    assert others(kept, '"each deploy key"', include=["state"])[0]["name"] == "keys"
    first, *rest = others(kept, "Ana rotates deploy keys", include=["state"])
    assert first["name"] == "rotation"
    assert all(entry["score"] < first["score"] for entry in rest)
    assert len(others(kept, include=["state"], limit=2)) == 2


def test_chinese_state_is_found_by_character_pairs(vault: Vault) -> None:
    """Words in scripts without spaces are found as in memories."""
    vault.call(
        "set_memories", memories=[{"key": "数据库", "value": "我们使用数据库来存储客户订单。"}]
    )
    assert others(vault, "客户订单", include=["state"])


def test_state_search_changes_nothing(kept: Vault, folder: Path) -> None:
    """A search does not remove events or fire plans."""
    before = {path: path.read_bytes() for path in folder.rglob("*.md")}
    others(kept, include=["state", "messages"])
    assert {path: path.read_bytes() for path in folder.rglob("*.md")} == before


def test_note_suggests_state_search_if_no_memory_matches(kept: Vault, run: Run) -> None:
    """A note counts the agent's own matching entries and shows an option that lists them."""
    notes = kept.call("memory_recall", query=QUERY)["warnings"]
    assert (
        "no memory is a good match, but your own data has matches: 3 in your state and 2 in your "
        "messages; repeat the query with `include=state,messages` to include them" in notes
    )
    hinted = run("recall", *QUERY.split()).err.partition("repeat the query with `")[2]
    option = hinted.partition("`")[0].split()
    assert "Your own data:" in succeeded(run("recall", *QUERY.split(), *option)).out
    assert "your" not in " ".join(kept.call("memory_recall", query="zebra").get("warnings", []))
    assert "others" not in kept.call("memory_recall", query=QUERY)
    shown = run("recall", *QUERY.split(), "--include", "state,messages").out
    assert "Your own data:" in shown
    assert "> Deploy keys: rotated by Ana." in shown


def test_state_search_masks_secrets_over_mcp(vault: Vault, folder: Path) -> None:
    """An agent's own entries are masked like all results."""
    pytest.importorskip("mcp", reason="the MCP SDK is not installed: pip install 'memvault[mcp]'")
    from mcp_client import session, structured

    token = MADE["GitHub token"][1]()
    vault.call("set_memories", memories=[{"key": "deploy", "value": f"The token is {token}"}])

    async def talk(client: Any) -> None:
        found = await structured(client, "memory_recall", query="deploy token", include=["state"])
        (entry,) = found["others"]
        assert entry["snippet"] == "The token is [masked: GitHub token]"

    session(folder, talk)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no TZ")
@pytest.mark.parametrize("place", ["UTC", "Pacific/Kiritimati", "Pacific/Pago_Pago"])
def test_date_range_lists_every_memory_in_it(folder: Path, place: str) -> None:
    """The index returns each memory with a day in a span, by name, header or time, in any zone."""
    for number in range(60):
        day = date(2026, 3, 1) + timedelta(days=number)
        hours = f"{number % 24:02}:59"
        write(folder, f"{day}.md", "# A daily note\n\nBread.\n")
        write(folder, f"d{number}.md", f"---\ndate: {day}\n---\n# Dated {number}\n")
        times = f"created: {day}T{hours}:00Z\nmodified: {day}T{hours}:30+09:00"
        write(folder, f"t{number}.md", f"---\n{times}\n---\n# Timed {number}\n")
    write(folder, "2026-W12.md", "# A weekly note\n")
    with user_in(place), closing(Workspace(folder)) as workspace:
        view = workspace.index.refresh(False, COMPLETE)
        for span in (
            DateRange(date(2026, 3, 20), date(2026, 3, 20)),
            DateRange(date(2026, 3, 2), date(2026, 4, 1)),
            DateRange(date.min, date(2026, 3, 3)),
            DateRange(date(2026, 4, 20), date.max),
        ):
            near = days_near(span, 0.25)
            found = {record.path for record in view.dated(near)}
            expected = {r.path for r in view.records() if date_proximity(r, span) >= 0.25}
            assert expected
            assert found >= expected
            assert len(found) < 181 or span.last - span.first >= timedelta(days=30)
