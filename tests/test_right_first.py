"""Who comes first where it matters: corrections, doubts, dates, tags, single words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from conftest import write
from memvault import Vault
from memvault.index.embedding import calibrate
from memvault.model import Memory
from memvault.vault.store import Store
from test_embedders import make_model


def recall(vault: Vault, query: str, **more: Any) -> list[dict[str, Any]]:
    """Recall with everything explained."""
    result = vault.call("memory_recall", query=query, explain=True, **more)
    assert result["success"], result
    found: list[dict[str, Any]] = result["memories"]
    return found


def repeats(found: list[dict[str, Any]]) -> list[str]:
    """The paths that were moved down as repeats."""
    return [entry["filePath"] for entry in found if "repeats" in entry["why"]["parts"]]


def test_compound_asks_which_of_two_twins_is_meant(folder: Path, vault: Vault) -> None:
    """Of two memories that say nearly the same, none is clearly meant, and nothing is written."""
    body = "Deployments of the billing service run on Tuesdays after the smoke tests.\n"
    write(folder, "a.md", f"# Deployments of billing\n\n{body}")
    write(folder, "b.md", f"# Deployments of billing service\n\n{body}")
    result = vault.call(
        "memory_compound", query="billing deployments Tuesdays smoke tests", modifications="More."
    )
    assert result["error"]["code"] == "ambiguous"
    assert "a.md" in str(result)
    assert "b.md" in str(result)


def test_a_question_for_days_forgets_nothing_by_a_year(folder: Path, vault: Vault) -> None:
    """Words such as "what happened in" do not make every memory that names the year fit."""
    write(folder, "a.md", "# Invoice\n\nPaid in 2023.\n")
    result = vault.call("memory_forget", query="what happened in May 2023")
    assert result.get("candidates", []) == []


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The key to room 1 hangs on hook 1.", "The key to room 2 hangs on hook 2."),
        ("Guests may enter the engine room.", "Guests may not enter the engine room."),
    ],
)
def test_a_number_or_a_not_is_no_repeat(folder: Path, vault: Vault, one: str, other: str) -> None:
    """Memories that differ in a number or a negation are both answers."""
    write(folder, "a.md", f"# Rule\n\n{one}\n")
    write(folder, "b.md", f"# Rule\n\n{other}\n")
    assert repeats(recall(vault, "which room and hook may guests enter")) == []


def test_the_correction_comes_before_what_it_corrects(folder: Path, vault: Vault) -> None:
    """Of two memories that differ in one number, the newer one is first."""
    for name, day, limit in (("a", "2025-02-01", 100), ("b", "2026-11-01", 250)):
        header = f"created: {day}\nmodified: {day}\ntitle: Rate limit of the public API\n"
        write(folder, f"{name}.md", f"---\n{header}---\n\nThe limit is {limit} per minute.\n")
    assert recall(vault, "how many requests per minute")[0]["filePath"] == "b.md"


def test_of_two_that_say_the_same_the_newer_one_stays(folder: Path, vault: Vault) -> None:
    """The copy that is moved down is the older one."""
    for name, day in (("a", "2025-02-01"), ("b", "2026-03-01")):
        header = f"created: {day}\nmodified: {day}\ntitle: Lunch\n"
        write(folder, f"{name}.md", f"---\n{header}---\n\nTuesday lunch is at the harbour.\n")
    found = recall(vault, "Tuesday lunch")
    assert [entry["filePath"] for entry in found] == ["b.md", "a.md"]
    assert repeats(found) == ["a.md"]


def test_a_date_word_in_passing_leaves_the_answer_first(folder: Path, vault: Vault) -> None:
    """A question about something does not bring up all that was written on the day it names."""
    write(folder, "unicorn.md", "# Unicorn\n\nThe unicorn eats clover.\n")
    for number in range(25):
        write(folder, f"bread{number}.md", f"# Bread {number}\n\nKnead loaf {number} slowly.\n")
    found = recall(vault, "what does the unicorn eat today")
    assert found[0]["filePath"] == "unicorn.md"
    assert found[0]["score"] > 0.7
    assert sum(entry["filePath"].startswith("bread") for entry in found) < 5


def test_the_first_ten_are_the_same_whatever_the_limit(folder: Path, vault: Vault) -> None:
    """A limit of many hundreds only adds to the end of an answer."""
    for number in range(260):
        things = ("storm", "river", "boat", "lantern", "roof")
        body = " ".join(things[(number * step) % 5] for step in range(1, 2 + number % 7))
        write(folder, f"{number}.md", f"# Note {number}\n\n{body} {number}\n")
    few = [entry["memId"] for entry in recall(vault, "storm river boat", limit=10)]
    many = [entry["memId"] for entry in recall(vault, "storm river boat", limit=250)]
    assert many[:10] == few


def test_exact_wording_counts_with_its_small_words(folder: Path, vault: Vault) -> None:
    """Words that stand around a stop word in question and text are neighbours."""
    write(folder, "a.md", "# Form\n\nThe date of birth comes last.\n")
    (found,) = recall(vault, "date of birth")
    assert found["why"]["parts"]["order"] > 0.1


def test_a_single_word_can_score_high(folder: Path, vault: Vault) -> None:
    """A memory that holds the one word asked for is not marked down for having no second."""
    write(folder, "a.md", "# Parsing\n\nThe zebra.\n")
    assert recall(vault, "zebra", threshold=0.9)


def test_a_tag_is_something_that_a_memory_says(folder: Path, vault: Vault) -> None:
    """A memory with the tag asked for is looked at by its tag as well as by its text."""
    write(folder, "a.md", "---\ntags: [messaging]\n---\n\n# NATS\n\nIt runs on port 4222.\n")
    (found,) = recall(vault, "messaging")
    assert found["why"]["parts"]["together"] > 0.2


@pytest.mark.parametrize(
    "query", ["letter of 5 \u017fept 1923", "ye\u017fterday", "la\u017ft week"]
)
def test_old_letters_do_not_stop_recall(folder: Path, vault: Vault, query: str) -> None:
    """A long s in a date is no date and no trouble."""
    write(folder, "a.md", "# Letter\n\nA letter of 1923.\n")
    recall(vault, query)


def test_a_shared_tag_makes_no_repeat(folder: Path, vault: Vault) -> None:
    """Memories found by one tag alone are compared by what they say, not by the tag."""
    for name, body in (("a", "It runs on port 4222."), ("b", "Consumers acknowledge late.")):
        write(folder, f"{name}.md", f"---\ntags: [messaging]\n---\n\n# Note {name}\n\n{body}\n")
    found = recall(vault, "messaging")
    assert len(found) == 2
    assert repeats(found) == []


def test_a_phrase_that_nobody_has_costs_one_look_at_each_file(
    folder: Path, vault: Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that does not hold the quoted words is not read again to say so again."""
    for number in range(40):
        write(folder, f"{number}.md", f"# Note {number}\n\nstorm over the river {number}\n")
    vault.call("memory_recall", query="storm")
    read: list[str] = []
    original = Store.read

    def counted(self: Store, path: str) -> Memory:
        read.append(path)
        return original(self, path)

    monkeypatch.setattr(Store, "read", counted)
    assert recall(vault, '"storm river"') == []
    assert len(read) == len(set(read)) > 0


def test_a_model_without_calibration_leaves_the_words(
    folder: Path, tmp_path: Path, vault: Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a model loads and the anchors cannot be read, recall answers from keywords."""
    model = make_model(tmp_path / "tiny-model")
    write(folder, "a.md", "# Zebra\n\nThe zebra.\n")
    write(folder, "memvault.toml", f'version = 1\n[embedder]\nmodel = "{model.as_posix()}"\n')
    monkeypatch.setattr(calibrate, "ANCHORS", folder / "none.jsonl")
    assert [entry["filePath"] for entry in recall(vault, "zebra")] == ["a.md"]
