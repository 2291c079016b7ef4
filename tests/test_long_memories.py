"""However long a memory is, what it says anywhere is found, weighed and shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from conftest import explained, index_of, write
from memvault import Vault, open_vault
from memvault.files.lock import FileLock
from memvault.index.protocol import COMPLETE, MatchLocation
from memvault.workspace import Workspace

SAID = "The lighthouse keeper at Aldern is called Ismene."
ASKED = "what is the lighthouse keeper at Aldern called"
LIKE = "person in charge of the beacon on the coast"
OTHERS = {
    "Keeper": "The keeper of the archive counts its sheets at Aldern.",
    "Light": "A light is called a lamp in this house.",
    "Goal": "Our goalkeeper is called Tom.",
}


def filler(characters: int, first: int = 0) -> str:
    """Paragraphs about nothing that is asked for, no two alike."""
    text = "Entry {0} tells of bread, of rain on day {0}, and of cooks who slept till noon.\n\n"
    found, number = [], first
    while characters > 0:
        found.append(text.format(number))
        characters -= len(found[-1])
        number += 1
    return "".join(found)


@pytest.fixture(autouse=True)
def others(folder: Path) -> None:
    """Write short memories that share words with the question."""
    for title, body in OTHERS.items():
        write(folder, f"{title.lower()}.md", f"# {title}\n\n{body}\n")


def first(vault: Vault, query: str) -> dict[str, Any]:
    """Recall; return what came first."""
    return explained(vault, query)[0]


PLACES = {
    "last paragraph": (1_000_000, 0),
    "middle": (500_000, 500_000),
    "first paragraph": (0, 1_000_000),
}


@pytest.mark.parametrize("place", PLACES)
def test_a_megabyte_is_searched_to_its_end(folder: Path, vault: Vault, place: str) -> None:
    """A sentence in a note of 1 MB is found by its words, wholly held, and shown."""
    before, after = PLACES[place]
    text = f"{filler(before)}{SAID}\n\n{filler(after, 90_000)}"
    write(folder, "long.md", f"# Diary\n\n{text}")
    found = first(vault, ASKED)
    assert (found["title"], found["strength"]) == ("Diary", "strong")
    assert found["why"]["coverage"] == 1
    assert "Ismene" in found["snippet"]


@pytest.mark.parametrize("block", [0, 3, 4, 9, 19])
@pytest.mark.parametrize("query", [ASKED, LIKE], ids=["words", "meaning"])
def test_any_block_of_many_may_answer(folder: Path, vault: Vault, block: int, query: str) -> None:
    """Of a memory of twenty blocks the one that answers counts, by its words or its meaning."""
    pieces = [filler(5_900, 1_000 * number) for number in range(20)]
    pieces[block] += f"## Coast\n\n{SAID}\n\n## Bread\n\n"
    write(folder, "long.md", f"# Diary\n\n{''.join(pieces)}")
    found = first(vault, query)
    assert found["title"] == "Diary"
    assert "Ismene" in found["snippet"]


def test_a_block_that_is_not_indexed_yet_counts_alike(folder: Path) -> None:
    """A long memory read from its file has the parts that it has from the index."""
    write(folder, "long.md", f"# Diary\n\n{filler(40_000)}{SAID}\n\n{filler(40_000, 9_000)}")
    with open_vault(folder) as vault:
        indexed = explained(vault, ASKED)
    text = (folder / "long.md").read_bytes()
    (folder / "long.md").unlink()
    with open_vault(folder) as vault:
        assert len(explained(vault, ASKED)) == len(OTHERS)
    with FileLock(index_of(folder) / "lock"), open_vault(folder) as vault:
        write(folder, "long.md", text)
        read = explained(vault, ASKED)
    assert [entry["title"] for entry in read] == [entry["title"] for entry in indexed]
    for one, other in zip(read, indexed, strict=True):
        assert one["why"]["coverage"] == other["why"]["coverage"]
        assert one["score"] == pytest.approx(other["score"], abs=0.05)
        assert one["snippet"] == other["snippet"]


def test_only_some_blocks_are_read(folder: Path) -> None:
    """What a comparison costs is bounded: the first blocks, the best, and the nearest."""
    write(folder, "long.md", f"# Diary\n\n{filler(1_000_000)}")
    view = Workspace(folder).index.refresh(True, COMPLETE)
    (key,) = (record.key for record in view.records() if record.title == "Diary")
    every = view.passages(key, MatchLocation(tuple(range(400)), None))
    some = view.passages(key, MatchLocation((7, 90), 700))
    assert len(every) > 800
    assert len(some) < len(every) / 10
    assert {number for number, _ in some} > {0, 700}
    assert [number for number, _ in every] == list(range(len(every)))
    spans = [(passage.start, passage.end) for _, passage in some]
    assert spans == sorted(spans)
