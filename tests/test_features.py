"""A memory's features depend on the query and the memory alone, and none is lost or made up."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import explained, write
from memvault import Vault
from memvault.index.protocol import COMPLETE, View
from memvault.index.text.analysis import query_analyser
from memvault.recall import features
from memvault.recall.answer import RecallRequest
from memvault.recall.features import FeatureRow
from memvault.recall.query import parse
from memvault.recall.retrieve import retrieve
from memvault.workspace import Workspace

QUERY = "which harbour has a crane"
THINGS = "storm harbour engine garden lantern river crane roof".split()


@pytest.fixture(scope="module")
def view(tmp_path_factory: pytest.TempPathFactory) -> Iterator[View]:
    """A view of a vault of some seventy memories."""
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


def rows(view: View, keys: list[int]) -> list[FeatureRow]:
    """Compute the features of some memories for a query."""
    query = parse(QUERY, query_analyser(view.languages()))
    candidates = retrieve(view, query, RecallRequest(QUERY), None)
    return features.compute(view, query, candidates, keys)


def numbers(row: FeatureRow) -> list[float]:
    """The features of a memory, with its terms as one number each."""
    shares = [value for value in row[2:-1] if isinstance(value, float)]
    sentences = [value or 0.0 for value in row.sentences if not isinstance(value, frozenset)]
    return [*shares, *sentences, *sorted(row.sentences.term_ids)]


@given(st.data())
def test_features_are_the_same_in_any_company(view: View, data: st.DataObject) -> None:
    """Computed alone, with some others or with all, in any order: a memory's row is the same."""
    keys = [record.key for record in view.records()]
    complete = {row.key: row for row in rows(view, keys)}
    assert sorted(complete) == sorted(keys)
    some = data.draw(st.lists(st.sampled_from(keys), min_size=1, unique=True))
    computed = rows(view, some)
    assert [row.key for row in computed] == some
    for row in computed:
        assert numbers(row) == pytest.approx(numbers(complete[row.key]), abs=1e-6)
        assert row.record == complete[row.key].record


def test_a_missing_memory_has_no_row(view: View) -> None:
    """A key that the view does not have is left out, a repeated one counts once."""
    known = next(view.records()).key
    assert [row.key for row in rows(view, [10**9, known, known])] == [known]


def test_shares_are_of_the_best_and_of_the_most(view: View) -> None:
    """The best keyword score is 1 among the others, and less than all that there could be."""
    found = rows(view, [record.key for record in view.records()])
    assert max(row.keyword for row in found) == 1
    for row in found:
        assert 0 <= row.bm25 < 1
        assert (row.bm25 > 0) == (row.keyword > 0)
        assert row.sentences.proximity <= row.sentences.coverage <= 1


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
