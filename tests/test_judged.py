"""The judged sets of ``bench/everyday`` and ``bench/short``: their format and their parts."""

from __future__ import annotations

from collections import Counter
from datetime import date
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[1] / "bench"
SETS = sorted(path for path in (BENCH / "everyday").iterdir() if path.is_dir())
SHORT = sorted(path for path in (BENCH / "short").iterdir() if path.is_dir())


@pytest.mark.parametrize("folder", [*SETS, *SHORT], ids=lambda folder: folder.name)
def test_judged_set_is_well_formed(folder: Path) -> None:
    """IDs are unique, judgments refer to existing items with grades 1 or 2, and dates are valid."""
    from judged import category_of, read_lines, read_set

    judged = read_set(folder)
    documents = [entry["_id"] for entry in judged.documents]
    queries = [entry["_id"] for entry in read_lines(folder / "queries.jsonl")]
    nothing = [entry["_id"] for entry in judged.unanswerable]
    assert len(set(documents)) == len(documents)
    assert len({*queries, *nothing}) == len(judged.queries) + len(nothing)
    assert judged.relevant.keys() | set(nothing) >= set(queries) >= judged.relevant.keys()
    assert judged.relevant.keys().isdisjoint(nothing)
    for grades in judged.relevant.values():
        assert grades.keys() <= set(documents)
        assert 2 in grades.values()
        assert set(grades.values()) <= {1, 2}
    assert all(date.fromisoformat(entry["metadata"]["date"]) for entry in judged.documents)
    assert all(entry["text"].strip() and category_of(entry) for entry in judged.queries)


@pytest.mark.parametrize("name", ["everyday-changes", "everyday-sessions"])
def test_judged_updates_are_answered_by_newest_memory(name: str) -> None:
    """Each question about a change has one answer, newer than the memories it contradicts."""
    from judged import kind_of, read_set

    judged = read_set(BENCH / "everyday" / name)
    dates = {entry["_id"]: entry["metadata"]["date"] for entry in judged.documents}
    for query in judged.queries:
        if kind_of(query) == "update":
            grades = judged.relevant[query["_id"]]
            (newest,) = (name for name, grade in grades.items() if grade == 2)
            assert len(grades) > 1
            assert all(dates[name] < dates[newest] for name in grades if name != newest)


def test_judged_session_questions_are_in_one_part() -> None:
    """In everyday-sessions, all questions about a session are in the same part."""
    from judged import part_of, read_set

    judged = read_set(BENCH / "everyday" / "everyday-sessions")
    parts: dict[str, set[str]] = {}
    for query in judged.queries:
        for document in judged.relevant[query["_id"]]:
            parts.setdefault(document, set()).add(part_of(query))
    assert all(len(own) == 1 for own in parts.values())
    assert Counter(map(part_of, judged.queries)) == {"fit": 35, "test": 35}


def test_judged_sets_have_all_kinds_of_unanswerable_questions() -> None:
    """Each set has the numbers in its README, and each part of it has all three kinds."""
    from judged import UNANSWERABLE, part_of, read_lines

    rows = read_lines(UNANSWERABLE)
    kinds: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        key = (row["metadata"]["set"].removeprefix("everyday-"), part_of(row))
        kinds.setdefault(key, []).append(row["metadata"]["kind"])
    assert all(set(own) == {"near-entity", "near-topic", "far"} for own in kinds.values())
    counts = {key: len(own) for key, own in kinds.items()}
    fit = {"changes": 5, "home": 9, "languages": 5, "ops": 9, "research": 9}
    fit |= {"real-hugo": 4, "real-til": 9}
    test = {"changes": 15, "home": 19, "languages": 5, "ops": 19, "research": 19}
    test |= {"projects": 10, "real-hugo": 4, "real-til": 9, "sessions": 10}
    assert {name: count for (name, part), count in counts.items() if part == "fit"} == fit
    assert {name: count for (name, part), count in counts.items() if part == "test"} == test


def test_judged_projects_have_separate_folders_and_questions(tmp_path: Path) -> None:
    """Each project in everyday-projects has its own folder and questions and is in one part."""
    from judged import by_group, group_of, make_vault, part_of, read_set, split_projects

    judged = read_set(BENCH / "everyday" / "everyday-projects")
    paths = make_vault(tmp_path / "vault", judged.documents)
    assert set(Counter(path.split("/")[0] for path in paths).values()) == {22}
    split = split_projects(judged)
    groups = {name: {entry["_id"] for entry in own} for name, own in by_group(split).items()}
    assert [len(own) for own in groups.values()] == [22] * 7
    assert Counter(map(group_of, split.queries)) == dict.fromkeys(groups, 10)
    for query in split.queries:
        assert judged.relevant[query["_id"]].keys() <= groups[group_of(query)]
    held_out = {group_of(query) for query in split.queries if part_of(query) == "test"}
    assert held_out == {"puckline", "verso"}
    assert len(read_set(BENCH / "everyday" / "everyday-projects", "test").queries) == 20


@pytest.mark.parametrize("folder", SETS, ids=lambda folder: folder.name)
def test_judged_set_splits_into_fit_and_test(folder: Path) -> None:
    """Every question is in exactly one of two parts; a question without a part is for fitting."""
    from judged import part_of, read_set

    whole, fit, test = (read_set(folder, part) for part in ("", "fit", "test"))
    for name in ("queries", "unanswerable"):
        asked, first, second = (
            {entry["_id"] for entry in getattr(judged, name)} for judged in (whole, fit, test)
        )
        assert first | second == asked
        assert first.isdisjoint(second)
    assert {part_of(entry) for entry in test.queries} <= {"test"}


def test_judged_set_elsewhere_has_its_unanswerable_questions(tmp_path: Path) -> None:
    """A folder with the same name elsewhere gets that set's unanswerable questions."""
    from judged import read_set

    folder = tmp_path / "real-til"
    folder.mkdir()
    (folder / "corpus.jsonl").write_text("", "utf-8")
    (folder / "queries.jsonl").write_text("", "utf-8")
    (folder / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n", "utf-8")
    assert len(read_set(folder, "test").unanswerable) == 9


def test_judged_text_may_contain_line_separator(tmp_path: Path) -> None:
    """Text that contains U+2028 is read as one line of JSON."""
    from judged import read_lines

    (tmp_path / "a.jsonl").write_text('{"text": "one\u2028two"}\n{"text": "three"}\n', "utf-8")
    assert [entry["text"] for entry in read_lines(tmp_path / "a.jsonl")] == [
        "one\u2028two",
        "three",
    ]
