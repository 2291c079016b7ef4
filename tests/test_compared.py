"""Memories are compared with a question in any order and number, and each is weighed alike."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import explained, write
from memvault import Vault
from memvault.index.protocol import COMPLETE, SentenceFeatures, View
from memvault.index.text.analysis import query_analyser
from memvault.recall.answer import RecallRequest, ScoredMemory
from memvault.recall.features import Compared
from memvault.recall.query import parse
from memvault.recall.retrieve import retrieve
from memvault.workspace import Workspace

QUERY = "which harbour has a crane"
THINGS = "storm harbour engine garden lantern river crane roof".split()


@pytest.fixture(scope="module")
def view(tmp_path_factory: pytest.TempPathFactory) -> Iterator[View]:
    """A look at a vault of some seventy memories."""
    root = tmp_path_factory.mktemp("compared") / "vault"
    write(root, "memvault.toml", "version = 1\n")
    for one in THINGS:
        for other in THINGS:
            body = f"The {one} is beside the {other}. " * (1 + len(one) % 3)
            write(root, f"{one}/{other}.md", f"# The {one}\n\n{body}\n")
    for number in range(8):
        write(root, f"{number}.md", f"# Note {number}\n\nBread for {number} people.\n")
    with closing(Workspace(root)) as workspace:
        yield workspace.index.refresh(True, COMPLETE)


def compared(view: View) -> Compared:
    """Compare what a question finds."""
    query = parse(QUERY, query_analyser(view.languages()))
    return Compared(view, query, retrieve(view, query, RecallRequest(QUERY), None), None)


def told(closeness: SentenceFeatures | None) -> list[float]:
    """The measures of a memory, with its terms as one number each."""
    assert closeness is not None
    measures = [value for value in closeness if not isinstance(value, frozenset)]
    return [*(value or 0.0 for value in measures), *sorted(closeness.term_ids)]


@given(st.data())
def test_the_order_of_comparing_changes_nothing(view: View, data: st.DataObject) -> None:
    """One by one, all at once, or some ahead of the others: each memory's measures are its own."""
    keys = [record.key for record in view.records()]
    whole = {entry.key: entry for entry in compared(view).candidates(keys)}
    assert sorted(whole) == sorted(keys)
    one = compared(view)
    order = data.draw(st.permutations(keys))
    one.order(
        [ScoredMemory(key, 0.5, {}) for key in order[: data.draw(st.integers(0, len(keys)))]], {}
    )
    for key in order:
        assert told(one.closeness(key)) == pytest.approx(told(whole[key].closeness), abs=1e-6)
    for entry in one.candidates(order):
        assert entry._replace(closeness=whole[entry.key].closeness) == whole[entry.key]


def test_what_is_gone_is_left_out(view: View) -> None:
    """A memory that the look did not find has no measures and no chance, and harms no other."""
    known = next(view.records()).key
    found = compared(view)
    assert [entry.key for entry in found.candidates([10**9, known, known])] == [known]
    assert found.closeness(10**9) is None
    assert found.chance(10**9) == 0
    assert found.chance(known) > 0
    assert found.newer(known) == found.newer(10**9) == ""


def test_shares_are_of_the_best_and_of_the_most(view: View) -> None:
    """The best keyword score is 1 among the others, and less than all that there could be."""
    found = compared(view).candidates(record.key for record in view.records())
    assert max(entry.keyword for entry in found) == 1
    for entry in found:
        assert 0 <= entry.bm25 < 1
        assert (entry.bm25 > 0) == (entry.keyword > 0)
        assert entry.closeness.proximity <= entry.closeness.coverage <= 1


def test_what_is_behind_the_best_is_less_likely(view: View) -> None:
    """The same memory has a smaller chance the further its score is behind the first."""
    keys = [record.key for record in view.records()][:2]
    chances = []
    for score in (1.0, 0.6, 0.1):
        found = compared(view)
        found.order([ScoredMemory(keys[0], 1.0, {}), ScoredMemory(keys[1], score, {})], {})
        chances.append(found.chance(keys[1]))
    assert chances == sorted(chances, reverse=True)
    assert chances[0] > chances[-1]


def test_a_rare_word_covers_more_than_a_common_one(folder: Path, vault: Vault) -> None:
    """Of two memories with a word each of the question, that with the rare one holds more of it."""
    for number in range(12):
        write(folder, f"{number}.md", f"# Note {number}\n\nA client wrote letter {number}.\n")
    write(folder, "limit.md", "# Limit\n\nToo much throttling.\n")
    found = {entry["title"]: entry for entry in explained(vault, "client throttling", limit=20)}
    assert found["Limit"]["why"]["coverage"] > 0.6 > found["Note 3"]["why"]["coverage"] > 0
    assert next(iter(found)) == "Limit"


def test_a_note_of_the_days_asked_for_is_no_weak_answer(folder: Path, vault: Vault) -> None:
    """Who asks only for a day is answered by its note, whatever the note says."""
    write(folder, "journal/2026-03-04.md", "Bread was baked.\n")
    write(folder, "journal/2026-03-05.md", "The roof was mended.\n")
    first, *rest = explained(vault, "2026-03-04")
    assert first["filePath"] == "journal/2026-03-04.md"
    assert first["strength"] != "weak"
    assert all(entry["why"]["chance"] <= first["why"]["chance"] for entry in rest)
