"""Whoever needs a part of a long memory gets that part, and where it is in the whole."""

from __future__ import annotations

import re
from typing import Any

import pytest

from conftest import Run
from memvault import Vault

BODY = """Begun in May.

# Setup

Ask Mira for the key.

## Linux

Install the driver with apt.

### Kernel modules

Load snd_usb first.

## Windows

Take the signed driver from the share.

# Calibration

Warm it up for an hour, then measure the white tile.

```
# not a heading
```

# Faults

A red light means that the lamp is old.

## Linux

Restart udev.
"""


@pytest.fixture
def manual(vault: Vault) -> str:
    """A memory with sections."""
    kept = vault.call("memory_remember", title="Spectrometer", content=BODY, memoryType="procedure")
    return str(kept["memId"])


def part(vault: Vault, name: str, **asked: Any) -> dict[str, Any]:
    """Show a part of a memory; check that it lies in the whole where the result says."""
    whole = vault.call("memory_show", memId=name)
    found = vault.call("memory_show", memId=name, **asked)
    assert found["etag"] == whole["etag"]
    assert found["totalLength"] == len(whole["content"])
    pieces = [
        whole["content"][entry["offset"] : entry["offset"] + entry["length"]].strip("\n")
        for entry in found["parts"]
    ]
    assert found["content"] == "\n…\n".join(pieces)
    return found


def test_a_section_comes_with_what_is_below_it(vault: Vault, manual: str) -> None:
    """A section reaches from its heading to the next of its level or above."""
    found = part(vault, manual, section="setup")
    assert found["content"].startswith("# Setup\n\nAsk Mira")
    assert found["content"].endswith("Take the signed driver from the share.")
    assert [entry["heading"] for entry in found["parts"]] == ["Setup"]


@pytest.mark.parametrize(
    ("asked", "heading", "said"),
    [
        ("Linux", "Setup/Linux", "Install the driver"),
        ("## linux", "Setup/Linux", "Install the driver"),
        ("Faults/Linux", "Faults/Linux", "Restart udev"),
        ("Setup/Kernel modules", "Setup/Linux/Kernel modules", "snd_usb"),
    ],
)
def test_a_path_tells_headings_of_one_name_apart(
    vault: Vault, manual: str, asked: str, heading: str, said: str
) -> None:
    """A path of headings means the one below the others; a name alone the first that has it."""
    found = part(vault, manual, section=asked)
    assert [entry["heading"] for entry in found["parts"]] == [heading]
    assert said in found["content"]


def test_an_unknown_section_is_told_with_those_that_there_are(vault: Vault, manual: str) -> None:
    """A heading that is not there is refused with the nearest one, and with all of them."""
    error = vault.call("memory_show", memId=manual, section="Calibartion")["error"]
    assert error["code"] == "not_found"
    assert error["hint"].startswith("did you mean Calibration? its sections are Setup, Setup/Linux")
    assert "not a heading" not in error["hint"]


def test_a_memory_without_headings_says_so(vault: Vault) -> None:
    """Whoever asks a memory without headings for a section is told that it has none."""
    vault.call("memory_remember", title="Flat", content="One line.", memoryType="fact")
    error = vault.call("memory_show", memId="Flat", section="Any")["error"]
    assert "no headings" in error["hint"]


def test_around_words_is_the_passage_that_has_them(vault: Vault, manual: str) -> None:
    """Around some words stands the passage with most of them, in any form of the words."""
    found = part(vault, manual, around="which tiles are measured")
    assert "white tile" in found["content"]
    assert "signed driver from the share" not in found["content"]
    assert found["parts"][0]["heading"] == "Calibration"


def test_words_that_stand_in_two_places_give_both(vault: Vault) -> None:
    """Where two passages hold the words equally well, both are given, parted by a sign."""
    filler = "\n\n".join(f"# Day {day}\n\n{'Nothing of note. ' * 30}" for day in range(4))
    body = f"# First\n\nThe okapi slept.\n\n{filler}\n\n# Last\n\nThe okapi woke.\n"
    vault.call("memory_remember", title="Diary", content=body, memoryType="context")
    found = part(vault, "Diary", around="okapi")
    assert found["content"].count("okapi") == 2
    assert "\n…\n" in found["content"]
    assert len(found["content"]) < len(body) / 2


def test_words_that_stand_nowhere_are_refused(vault: Vault, manual: str) -> None:
    """Where no passage has any of the words, nothing is shown in their place."""
    error = vault.call("memory_show", memId=manual, around="giraffe")["error"]
    assert error["code"] == "not_found"


@pytest.mark.parametrize(
    "asked", [{"section": " "}, {"around": " "}, {"section": "Setup", "around": "key"}]
)
def test_an_empty_part_or_two_at_once_is_wrong_usage(
    vault: Vault, manual: str, asked: dict[str, str]
) -> None:
    """An empty heading, no words, and a section with around are refused with a hint."""
    error = vault.call("memory_show", memId=manual, **asked)["error"]
    assert error["code"] == "usage"
    assert error["hint"]


def test_the_shell_says_where_the_part_is(vault: Vault, manual: str, run: Run) -> None:
    """At the shell a part begins with its headings and its place among the characters."""
    shown = run("show", manual, "--section", "Faults/Linux").out
    assert re.search(r"Faults/Linux  \d+ to \d+ of \d+ characters", shown)
    assert shown.endswith("Restart udev.\n")
