"""The metrics of bench/quality.py match the answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:  # imports scipy, which takes a second; other tests do not need it
    from judged import JudgedSet

EVERYDAY = Path(__file__).resolve().parents[1] / "bench" / "everyday"
REPEATS = EVERYDAY.with_name("repeats")


def _judged() -> JudgedSet:
    from judged import JudgedSet

    queries = [
        {"_id": "a", "text": "", "metadata": {"category": "update"}},
        {"_id": "b", "text": "", "metadata": {"category": "paraphrase"}},
    ]
    none = [{"_id": "n", "text": "", "metadata": {"category": "none"}}]
    return JudgedSet("x", [], queries, {"a": {"new": 2, "old": 1}, "b": {"c": 2}}, none)


def test_metrics_reflect_order_and_strength() -> None:
    """Only answers count as right, the newer must lead, and strong labels are checked."""
    from judged import Hit
    from measures import values

    old_first = [Hit("old", "strong"), Hit("new", "fair")]
    found = values(_judged(), {"a": old_first, "b": [], "n": [Hit("c", "weak")]})
    assert found["hit@1"] == {"a": 0.0, "b": 0.0}
    assert found["R@5"] == {"a": 1.0, "b": 0.0}
    assert found["nDCG@10"]["a"] == pytest.approx(0.797, abs=0.001)
    assert found["empty"] == {"a": 0.0, "b": 1.0}
    assert (found["update"], found["none"]) == ({"a": 0.0}, {"n": 0.0})
    assert found["right"] == {"a": 1.0, "b": 0.0}
    turned = values(_judged(), {"a": old_first[::-1], "b": [], "n": [Hit("c", "strong")]})
    assert (turned["update"], turned["none"]) == ({"a": 1.0}, {"n": 1.0})
    plain = values(_judged(), {"a": [Hit("old")], "b": [], "n": [Hit("c")]})
    assert "right" not in plain


def test_metrics_compare_runs_query_by_query() -> None:
    """A gain on every query is certain, and a gain on half of the sets halves the mean."""
    from measures import differences

    before = {name: {"w": {"m": {str(n): 0.0 for n in range(20)}}} for name in "xy"}
    now = {**before, "x": {"w": {"m": {str(n): 1.0 for n in range(20)}}}}
    x, y, both = differences(before, now)
    assert (x.before, x.now, x.low, x.high) == (0.0, 1.0, 1.0, 1.0)
    assert (y.now, y.low, y.high) == (0.0, 0.0, 0.0)
    assert (both.name, both.now, both.low) == ("mean", 0.5, 0.5)


@pytest.mark.parametrize(("hybrid", "named"), [(0.8, ["x"]), (0.9, []), (1.0, [])])
def test_metrics_report_sets_where_hybrid_is_worse(hybrid: float, named: list[str]) -> None:
    """The check reports exactly the sets whose hybrid search is below its better signal."""
    from measures import shortfalls

    def told(value: float) -> dict[str, dict[str, float]]:
        return {"hit@1": {"a": value}, "R@5": {"a": 1.0}}

    found = {
        "x": {"keyword": told(0.9), "vector": told(0.1), "hybrid": told(hybrid)},
        "y": {"keyword": told(0.1), "vector": told(0.2), "hybrid": told(0.19)},
    }
    problems = list(shortfalls(found))
    assert [problem.split(":")[0] for problem in problems] == named
    assert all("0.800" in problem and "keyword 0.900" in problem for problem in problems)


def test_everyday_sets_match_their_readme() -> None:
    """Each set has the counts in its README and grades for all answerable questions."""
    from judged import read_set
    from measures import mean

    counts = {}
    for folder in sorted(path for path in EVERYDAY.iterdir() if path.is_dir()):
        judged = read_set(folder)
        ids = {document["_id"] for document in judged.documents}
        assert all(grades.keys() <= ids for grades in judged.relevant.values())
        assert judged.answering == 2
        sizes = (len(judged.documents), len(judged.queries), len(judged.unanswerable))
        counts[judged.name.removeprefix("everyday-")] = sizes
    assert counts == {
        "across": (80, 40, 0),
        "changes": (122, 70, 20),
        "home": (100, 90, 38),
        "languages": (80, 60, 10),
        "ops": (120, 110, 38),
        "projects": (154, 70, 10),
        "research": (90, 80, 38),
        "sessions": (56, 70, 10),
    }
    assert mean({}) is None


def test_repeat_sets_match_their_readme() -> None:
    """Every expected sentence is in its episode, and the counts are those in the README."""
    counts = {}
    for folder in sorted(path.parent for path in REPEATS.glob("*/expected.json")):
        lines = (folder / "episodes.jsonl").read_text("utf-8").splitlines()
        episodes = {entry["_id"]: entry for entry in map(json.loads, lines)}
        expected = json.loads((folder / "expected.json").read_text("utf-8"))
        rows = [row for kind in expected.values() for row in kind]
        sentences = [
            each for row in rows for key in row.keys() - {"steps", "_id"} for each in row[key]
        ]
        sentences += [
            each for row in expected["procedures"] for step in row["steps"] for each in step
        ]
        for sentence in sentences:
            episode = episodes[sentence["episode"]]
            assert (
                sentence["text"] in episode["reflection"] or sentence["text"] in episode["actions"]
            )
        counts[folder.name] = (len(episodes), *map(len, expected.values()))
    assert counts == {"three-places": (60, 6, 3, 4, 10), "ferry": (30, 3, 2, 2, 5)}
