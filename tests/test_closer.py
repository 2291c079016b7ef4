"""The stretches in which recall looks closer at a memory: who is speaking stays known."""

from __future__ import annotations

import pytest

from memvault.recall.features import stretches
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
