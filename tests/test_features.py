"""What recall sees when it looks closer at a memory: its stretches, words, their order, tags."""

from __future__ import annotations

from pathlib import Path

import pytest
from memvault.recall.features import stretches

from conftest import explained, write
from memvault import Vault
from test_ranking import memory

REST = "She pulls and it stays shut. The smith is away until the end of the week. "
LINE = f"The harbour gate will not open since the storm of last night. {REST * 3}".strip()


def cut(body: str) -> list[str]:
    """The stretches of a body below a title, without the title."""
    return [stretch.removeprefix("Title\n") for stretch in stretches(memory("Title", body))]


def test_a_stretch_inside_a_line_says_who_is_speaking() -> None:
    """What a person says in several stretches is theirs in each, and nobody's words are lost."""
    found = cut(f"Ana: {LINE}\nBo de Vries: {LINE}\n{LINE}")
    said = " ".join(found)
    assert len(found) > 6
    assert found[0].startswith("Ana: The harbour")
    ana, bo, nobody = (
        [stretch for stretch in found if stretch.startswith(name)]
        for name in ("Ana: ", "Bo de Vries: ", ("She ", "The "))
    )
    assert len(ana) > 1 < len(bo)
    assert nobody
    assert found == ana + bo + nobody
    assert " ".join(said.replace("Ana: ", "").replace("Bo de Vries: ", "").split()) == " ".join(
        [LINE] * 3
    )


def test_a_sentence_in_pieces_says_who_is_speaking() -> None:
    """A single sentence too long for a stretch is one person's to its end."""
    found = cut("Ana: " + "and then it rained " * 60)
    assert len(found) > 2
    assert all(stretch.startswith("Ana: ") for stretch in found)
    assert sum(stretch.count("Ana: ") for stretch in found) == len(found)


@pytest.mark.parametrize(
    "start", ["ana: ", "Ana:", "https://ana.example/ ", "One of the four of them: ", "Ana - "]
)
def test_what_is_no_speaker_is_not_repeated(start: str) -> None:
    """Only a short name, a colon and a space at the beginning of a line are a speaker."""
    found = cut(start + LINE)
    assert len(found) > 1
    assert sum(stretch.count(start.strip()) for stretch in found) == 1


def test_exact_wording_counts_with_its_small_words(folder: Path, vault: Vault) -> None:
    """Words that stand around a stop word in question and text are neighbours."""
    write(folder, "a.md", "# Form\n\nThe date of birth comes last.\n")
    (found,) = explained(vault, "date of birth")
    assert found["why"]["parts"]["order"] > 0.1


def test_a_single_word_can_score_high(folder: Path, vault: Vault) -> None:
    """A memory that holds the one word asked for is not marked down for having no second."""
    write(folder, "a.md", "# Parsing\n\nThe zebra.\n")
    (found,) = explained(vault, "zebra")
    assert found["score"] >= 0.9


def test_a_tag_is_something_that_a_memory_says(folder: Path, vault: Vault) -> None:
    """A memory with the tag asked for is looked at by its tag as well as by its text."""
    write(folder, "a.md", "---\ntags: [messaging]\n---\n\n# NATS\n\nIt runs on port 4222.\n")
    (found,) = explained(vault, "messaging")
    assert found["why"]["parts"]["together"] > 0.2
