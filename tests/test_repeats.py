"""What says the same as a better or newer memory moves down, and nothing else does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from conftest import explained, write
from memvault import Vault


def repeats(found: list[dict[str, Any]]) -> list[str]:
    """The paths that were moved down as repeats."""
    return [entry["filePath"] for entry in found if "repeats" in entry["why"]["parts"]]


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
    assert repeats(explained(vault, "which room and hook may guests enter")) == []


def test_the_correction_comes_before_what_it_corrects(folder: Path, vault: Vault) -> None:
    """Of two memories that differ in one number, the newer one is first."""
    for name, day, limit in (("a", "2025-02-01", 100), ("b", "2026-11-01", 250)):
        header = f"created: {day}\nmodified: {day}\ntitle: Rate limit of the public API\n"
        write(folder, f"{name}.md", f"---\n{header}---\n\nThe limit is {limit} per minute.\n")
    assert explained(vault, "how many requests per minute")[0]["filePath"] == "b.md"


def test_of_two_that_say_the_same_the_newer_one_stays(folder: Path, vault: Vault) -> None:
    """The copy that is moved down is the older one."""
    for name, day in (("a", "2025-02-01"), ("b", "2026-03-01")):
        header = f"created: {day}\nmodified: {day}\ntitle: Lunch\n"
        write(folder, f"{name}.md", f"---\n{header}---\n\nTuesday lunch is at the harbour.\n")
    found = explained(vault, "Tuesday lunch")
    assert [entry["filePath"] for entry in found] == ["b.md", "a.md"]
    assert repeats(found) == ["a.md"]


def test_a_shared_tag_makes_no_repeat(folder: Path, vault: Vault) -> None:
    """Memories found by one tag alone are compared by what they say, not by the tag."""
    for name, body in (("a", "It runs on port 4222."), ("b", "Consumers acknowledge late.")):
        write(folder, f"{name}.md", f"---\ntags: [messaging]\n---\n\n# Note {name}\n\n{body}\n")
    found = explained(vault, "messaging")
    assert len(found) == 2
    assert repeats(found) == []
