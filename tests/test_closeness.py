"""Ranking looks at sentences: words that stand together, in order, in the head, and near ones."""

from __future__ import annotations

from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import explained, write
from memvault import Vault
from memvault.index.protocol import SentenceFeatures, SentenceQuery
from memvault.index.sentence_features import compute
from memvault.index.text.analysis import Analyser, analyser, query_analyser
from memvault.index.text.indexed_text import encode_blocks, split_memory
from memvault.model import Memory

ENGLISH = ("english",)


def compared(
    query: str, *bodies: str, title: str = "", rarity: float = 1.0
) -> list[SentenceFeatures]:
    """Compare memories with a query, without vectors."""
    words, _ = query_analyser(ENGLISH).query(query)
    english = analyser("english")
    blocks = [
        encode_blocks(
            split_memory(Memory("a.md", "a", title, "context", (), "", "", {}, body, "etag")),
            english,
        )
        for body in bodies
    ]
    return compute(SentenceQuery(query, words, [rarity] * len(words)), blocks)


def parts(entry: dict[str, Any]) -> dict[str, float]:
    """The parts of a memory's score."""
    found: dict[str, float] = entry["why"]["parts"]
    return found


nouns = ["ship", "harbour", "storm", "lantern", "rope"]
fillers = ["bread", "cook", "the", "of"]
sentences = st.lists(st.sampled_from(nouns + fillers), min_size=1, max_size=6)
texts = st.lists(sentences, max_size=8)
rarities = st.lists(st.floats(0.1, 9), min_size=len(nouns), max_size=len(nouns))


@given(
    st.lists(st.sampled_from(nouns), min_size=1, max_size=5, unique=True),
    texts,
    sentences,
    rarities,
)
def test_what_is_measured_is_what_the_sentences_hold(
    query: list[str], told: list[list[str]], title: list[str], weights: list[float]
) -> None:
    """Each share is that of the sets and pairs of words that a person would count by hand."""
    long = " and so it went on from one day to the next, as it always had in all of these years"
    body = "\n".join(f"{' '.join(sentence)}{long}{long}." for sentence in told)
    english = analyser("english")
    memory = Memory("a.md", "a", " ".join(title), "context", (), "", "", {}, body, "etag")
    words = [(stem_of(english, word),) for word in query]
    asked = SentenceQuery(" ".join(query), words, weights[: len(query)])
    (found,) = compute(asked, [encode_blocks(split_memory(memory), english)])
    rarity = dict(zip(query, weights, strict=False))

    def share(held: set[str]) -> float:
        return sum(rarity[word] for word in held & set(query)) / sum(rarity.values())

    assert found.coverage == pytest.approx(share({*title, *chain.from_iterable(told)}), abs=1e-5)
    assert found.title_coverage == pytest.approx(share(set(title)), abs=1e-5)
    together = max((share({*title, *sentence}) for sentence in told), default=share(set(title)))
    assert found.proximity == pytest.approx(together, abs=1e-5)
    assert (found.soft_match, found.title_soft_match) == (None, None)
    if len(query) == 1:
        assert found.adjacency is None
        return
    wanted = list(pairwise(query))
    own = [[word for word in text if word not in ("the", "of")] for text in [title, *told]]
    held = {pair for text in own for pair in pairwise(text)}
    rare = {pair: rarity[pair[0]] + rarity[pair[1]] for pair in wanted}
    got = sum(rare[pair] for pair in wanted if pair in held)
    assert found.adjacency == pytest.approx(got / sum(rare.values()), abs=1e-5)


def stem_of(analysing: Analyser, word: str) -> str:
    """Return the stem of a word."""
    return analysing.words(word)[0][0]


@given(st.lists(st.sampled_from([*nouns, *fillers, "don't", "café", "北京烤鸭", "v2"]), min_size=1))
def test_a_sentence_asked_for_as_it_is_holds_all(words: list[str]) -> None:
    """Whoever asks in a memory's very words finds all of them, together and in order."""
    text = " ".join(words)[:120]
    (found,) = compared(text, f"{text}\n{'Bread. ' * 90}")
    if query_analyser(ENGLISH).query(text)[0]:
        assert found.coverage == found.proximity == pytest.approx(1.0)
        if len(set(text.split())) == len(text.split()):  # one that comes twice goes by its first
            assert found.adjacency is None or found.adjacency == pytest.approx(1.0)


def test_memories_are_measured_each_for_itself() -> None:
    """What is found in one memory does not depend on those that are measured with it."""
    bodies = ["", "A ship in a storm.", "Bread.\n\n" * 900 + "The storm took the ship.", "漢字"]
    assert compared("ship storm", *bodies) == [compared("ship storm", body)[0] for body in bodies]
    assert compared("ship storm") == []


def test_exact_wording_counts_with_its_small_words(folder: Path, vault: Vault) -> None:
    """Words that stand around a stop word in question and text are neighbours."""
    write(folder, "a.md", "# Form\n\nThe date of birth comes last.\n")
    write(folder, "b.md", "# Date\n\nOf the two, a birth is the first.\n")
    found = {entry["title"]: parts(entry) for entry in explained(vault, "date of birth")}
    assert found["Form"]["adjacency"] > found["Date"]["adjacency"] == 0


def test_a_single_word_can_score_high(folder: Path, vault: Vault) -> None:
    """A memory that holds the one word asked for is not marked down for having no second."""
    write(folder, "a.md", "# Parsing\n\nThe zebra.\n")
    (found,) = explained(vault, "zebra")
    assert found["score"] >= 0.9
    assert "adjacency" not in parts(found)


def test_a_tag_is_something_that_a_memory_says(folder: Path, vault: Vault) -> None:
    """A memory with the tag asked for is looked at by its tag as well as by its text."""
    body = "# {}\n\nIt runs on port 4222.\n"
    write(folder, "a.md", "---\ntags: [messaging]\n---\n\n" + body.format("NATS"))
    write(folder, "b.md", body.format("Redis"))
    first, second = explained(vault, "messaging")
    assert (first["title"], second["title"]) == ("NATS", "Redis")
    assert first["why"]["coverage"] == 1
    assert second["why"]["coverage"] == 0


def test_a_word_that_means_the_same_is_near(folder: Path, vault: Vault) -> None:
    """Of memories that have no word of the question that with a like one is the nearer."""
    write(folder, "a.md", "# Evening\n\nThe physician calls at seven.\n")
    write(folder, "b.md", "# Morning\n\nThe plumber calls at nine.\n")
    first, second = explained(vault, "doctor")
    assert (first["title"], second["title"]) == ("Evening", "Morning")
    assert parts(first)["soft_match"] > parts(second)["soft_match"]
    assert first["why"]["coverage"] == second["why"]["coverage"] == 0


@pytest.mark.parametrize("title", ["type", "context", "importance"])
def test_what_a_header_is_made_of_is_no_text(folder: Path, vault: Vault, title: str) -> None:
    """Names of types and of header keys are words only where a memory says them."""
    write(
        folder, "context/a.md", "---\nimportance: 0.5\nmemory_type: context\n---\n\n# A\n\nRye.\n"
    )
    write(folder, "b.md", f"# B\n\nThe {title} is plain.\n")
    first, second = explained(vault, title)
    assert (first["title"], first["why"]["coverage"]) == ("B", 1)
    assert second["why"]["coverage"] == 0
