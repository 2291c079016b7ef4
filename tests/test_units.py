"""Properties of the pure parts: passages, terms, fusion, plans, vectors, filters, schemas."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from memvault import schema
from memvault.errors import UsageError
from memvault.index import analysis, chunks
from memvault.index.diff import compare
from memvault.index.manifest import Known
from memvault.index.vectors import VectorCard, Vectors
from memvault.model import FileState
from memvault.recall.filters import compile_expression
from memvault.recall.fusion import fuse
from memvault.tools.core import registry
from memvault.tools.core.registry import Tool
from memvault.vault.scan import Scan

Matrix = npt.NDArray[np.float32]

short = ["# One", "## Two #", "###### ", "```", "~~~ python", "", "  ", "\t", "\r", "And more!"]
long = ["x" * 1_300, "a sentence ends. " * 100, "今天天气很好。" * 80, "字" * 900, "word " * 300]
lines = st.sampled_from(short) | st.sampled_from(long) | st.text(max_size=40)
bodies = st.lists(lines, max_size=12).map("\n".join)


@given(bodies)
@example("字" * 200_000)
@example("x" * 5_000 + "\n" * 50 + "# H")
def test_passages_leave_nothing_out(body: str) -> None:
    """Every character that is not white space lies in one passage; they are short and in order."""
    found = chunks.passages(body)
    assert found
    place = 0
    for passage in found:
        assert place <= passage.start <= passage.end <= len(body)
        assert not body[place : passage.start].strip()
        assert passage.end - passage.start <= 1_200
        place = passage.end
    assert not body[place:].strip()
    stretches = chunks.blocks(found)
    assert (stretches[0][0], stretches[-1][1]) == (found[0].start, found[-1].end)
    assert {start for start, _ in stretches} <= {passage.start for passage in found}
    assert all(one[1] <= other[0] for one, other in pairwise(stretches))


words = st.sampled_from(
    "getUserName snake_case v1.2.3 src/app.py C++ C# naïve 数据库 デ검색 don't the 🚀 ÄPFEL".split()
)
texts = st.lists(words | st.text(max_size=12), min_size=1, max_size=8).map(" ".join)


@given(texts, st.sampled_from(["english", "german", "russian", "turkish", "none"]))
@example("İstanbul", "english")
@example("ﬃ ǅ ß ẞ", "german")
def test_a_texts_own_words_find_it(text: str, language: str) -> None:
    """A query that is a text, or any word of it, has terms in common with the text."""
    analyser = analysis.Analyser(language)
    terms = analyser.terms(text)
    for query in (text, *text.split()):
        stems, wholes = analyser.query(query)
        assert len(set(stems)) == len(stems)
        own = analyser.terms(query)
        if own.stems or own.wholes:
            assert set(stems) & terms.stems.keys() or set(wholes) & terms.wholes.keys(), query


sides = st.dictionaries(st.integers(1, 30), st.floats(0, 1, allow_subnormal=False), max_size=12)
cosines = st.dictionaries(st.integers(1, 30), st.floats(-1, 1, allow_subnormal=False), max_size=12)


@given(sides, cosines, st.floats(0, 1, allow_subnormal=False))
def test_fusion_ranks_fairly(
    keyword: dict[int, float], cosine: dict[int, float], weight: float
) -> None:
    """Scores are in 0..1, and what is better on both sides never comes later."""
    fused = fuse(keyword, cosine, weight)
    assert {uid for uid, _ in fused} == keyword.keys() | cosine.keys()
    assert [score for _, score in fused] == sorted((score for _, score in fused), reverse=True)
    for uid, score in fused:
        assert 0 <= score <= 1 + 1e-9
        for other, other_score in fused:
            more_words = keyword.get(uid, 0.0) >= keyword.get(other, 0.0)
            nearer = cosine.get(uid, -2.0) >= cosine.get(other, -2.0)
            if more_words and nearer:
                assert score >= other_score - 1e-9


paths = st.sampled_from(["a.md", "b.md", "d/a.md", "d/e/a.md", "de/a.md"])
times = st.sampled_from([0, 5_000_000_000, 5_000_000_001, 9_000_000_000])
states = st.builds(FileState, paths, st.integers(0, 1), times, times, st.integers(1, 2))


@given(
    st.dictionaries(paths, st.tuples(states, times)),
    st.dictionaries(paths, states),
    st.sets(st.sampled_from(["d", "d/e", "de"])),
)
def test_a_plan_accounts_for_every_file(
    indexed: dict[str, tuple[FileState, int]], there: dict[str, FileState], lost: set[str]
) -> None:
    """Each file is new, changed, doubtful or as it was; nothing unreadable is taken out."""
    known = {
        path: Known(uid, state._replace(path=path), checked, "etag")
        for uid, (path, (state, checked)) in enumerate(indexed.items())
    }
    files = [state._replace(path=path) for path, state in there.items()]
    plan = compare(known, Scan(files, sorted(lost)))
    for state in files:
        entry = known.get(state.path)
        kinds = [
            state in plan.added,
            (entry, state) in plan.changed,
            (entry, state) in plan.doubtful,
        ]
        assert sum(kinds) <= 1
        assert kinds[0] == (entry is None)
        if entry is not None:
            assert kinds[1] == (entry.state != state)
            if not any(kinds):
                assert entry.checked - state.ctime > 1_000_000_000
    for path, entry in known.items():
        hidden = any(path.startswith(f"{folder}/") for folder in lost)
        assert (entry.uid in plan.removed) == (path not in there and not hidden)


def _rows(chance: np.random.Generator, count: int) -> Matrix:
    rows = chance.normal(size=(count, 5)).astype(np.float32)
    return cast("Matrix", rows / np.linalg.norm(rows, axis=1, keepdims=True))


batches = st.lists(st.lists(st.integers(1, 3), min_size=1, max_size=40), max_size=4)


@given(batches, st.integers(0, 2**32), st.sets(st.integers(0, 80)), st.integers(1, 90), st.data())
def test_vectors_are_found_as_by_brute_force(
    tmp_path: Path,
    counted: list[list[int]],
    seed: int,
    gone: set[int],
    limit: int,
    data: st.DataObject,
) -> None:
    """Nearest memories are exactly the nearest, whatever was appended, cut off or compacted."""
    chance = np.random.default_rng(seed)
    vectors: Vectors | None = Vectors.create(tmp_path / "v", VectorCard("name", "1", 5, 7))
    assert vectors is not None
    held: dict[int, Matrix] = {}
    uid = 0
    for counts in counted:
        uids = []
        for count in counts:
            uid += int(chance.integers(1, 3))
            uids.append(uid)
            held[uid] = _rows(chance, count)
        vectors.append(uids, counts, np.concatenate([held[entry] for entry in uids]))
        if data.draw(st.booleans()):
            for path in (tmp_path / "v").glob("*-*.*"):
                with path.open("ab") as file:
                    file.write(b"\x7f" * data.draw(st.integers(0, 99)))
        if data.draw(st.booleans()):
            alive = held.keys() - gone
            vectors.compact(alive.__contains__)
            held = {entry: held[entry] for entry in sorted(alive)}
            assert vectors.dead(set(alive)) == 0
        if data.draw(st.booleans()):
            assert Vectors.open(tmp_path / "v", 8) is None
            vectors = Vectors.open(tmp_path / "v", 7)
            assert vectors is not None
        assert vectors.card.last_uid == uid
        assert vectors.card.rows == sum(map(len, held.values()))
    query = _rows(chance, 1)[0]
    allowed = held.keys() - gone
    nearest = sorted((float((held[entry] @ query).max()) for entry in allowed), reverse=True)
    hits = vectors.search(query, allowed, limit)
    assert [hit.cosine for hit in hits] == pytest.approx(nearest[:limit], abs=1e-5)
    best = vectors.best(query, frozenset(allowed))
    assert best.keys() == set(allowed)
    for hit in (*hits, *best.values()):
        assert hit.uid in allowed
        assert hit.cosine == pytest.approx(float((held[hit.uid] @ query).max()), abs=1e-5)
        assert hit.cosine == pytest.approx(float(held[hit.uid][hit.passage] @ query), abs=1e-5)


JSON: dict[str, st.SearchStrategy[Any]] = {
    "string": st.text(max_size=20),
    "integer": st.integers(-(2**70), 2**70),
    "number": st.floats(allow_nan=False, allow_infinity=False) | st.integers(-9, 9),
    "boolean": st.booleans(),
    "array": st.lists(st.text(max_size=5), max_size=3),
    "object": st.dictionaries(st.text(max_size=5), st.integers(), max_size=2),
}
TOOLS = [pytest.param(tool, id=tool.name) for tool in registry.all_tools()]


def _kinds(entry: dict[str, Any]) -> list[str]:
    return [entry["type"]] if isinstance(entry["type"], str) else list(entry["type"])


def _fitting(entry: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values that a property of a schema allows."""
    if "enum" in entry:
        return st.sampled_from(entry["enum"])
    if entry.get("items", {}).get("type") == "object":
        return st.lists(_object(entry["items"]), max_size=2)
    least, most = entry.get("minimum"), entry.get("maximum")
    number = st.floats(least, most, allow_nan=False, allow_infinity=False)
    bounded = {"integer": st.integers(least, most), "number": number}
    return st.one_of(*(bounded.get(kind, JSON[kind]) for kind in _kinds(entry)))


def _object(whole: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Objects that a schema allows."""
    fitting = {key: _fitting(entry) for key, entry in whole["properties"].items()}
    must = {key: fitting.pop(key) for key in whole["required"]}
    return st.fixed_dictionaries(must, optional=fitting)


def _arguments(tool: Tool) -> st.SearchStrategy[dict[str, Any]]:
    return _object(schema.input_schema(tool.parameters))


def _named(expected: Iterable[schema.Parameter], given: dict[str, Any]) -> dict[str, Any]:
    """Arguments under the names that functions have for them."""
    return {
        parameter.name: [_named(parameter.items, entry) for entry in given[parameter.key]]
        if parameter.items
        else given[parameter.key]
        for parameter in expected
        if parameter.key in given
    }


@pytest.mark.parametrize("tool", TOOLS)
@given(data=st.data())
def test_a_tool_takes_what_its_schema_says(tool: Tool, data: st.DataObject) -> None:
    """Arguments that fit a tool's schema are taken as they are, however their keys are spelled."""
    given_values = data.draw(_arguments(tool))
    bound = tool.bind(given_values)
    assert bound == _named(tool.parameters, given_values)
    for spell in (str.upper, str.lower, "_".join, "-{}_".format, schema.kebab):
        respelled = {spell(key): value for key, value in given_values.items()}
        assert tool.bind(respelled) == bound


def _wrong(draw: Any, entry: dict[str, Any]) -> Iterator[object]:
    """Yield values that a property of a schema does not allow."""
    kinds = set(_kinds(entry))
    numeric = kinds & {"integer", "number"}
    for kind in JSON.keys() - kinds - ({"integer", "number"} if numeric else set()):
        yield draw(JSON[kind])
    if numeric:
        yield from (float("nan"), float("inf"), -float("inf"))
    if kinds == {"integer"}:
        yield 1.5
    if "array" in kinds:
        yield ["x", 1]
    if "enum" in entry:
        yield "nothing of the kind"
    if "minimum" in entry:
        yield entry["minimum"] - 1
    if "maximum" in entry:
        yield entry["maximum"] + 1


@pytest.mark.parametrize("tool", TOOLS)
@settings(max_examples=15)
@given(data=st.data())
def test_a_tool_refuses_what_its_schema_does_not_say(tool: Tool, data: st.DataObject) -> None:
    """A wrong type, a number out of range, an unknown, missing or doubled key is a usage error."""
    fitting = data.draw(_arguments(tool))
    whole = schema.input_schema(tool.parameters)
    wrong: list[dict[str, Any]] = [{**fitting, "noSuchKey": 1}]
    wrong += ({**fitting, f"{key}_": value} for key, value in fitting.items())
    wrong += ({k: v for k, v in fitting.items() if k != key} for key in whole["required"])
    wrong += ({**fitting, key: None} for key in whole["required"])
    for key, entry in whole["properties"].items():
        wrong += ({**fitting, key: value} for value in _wrong(data.draw, entry))
    for arguments in wrong:
        with pytest.raises(UsageError):
            tool.bind(arguments)


@pytest.mark.parametrize("digits", [400, 5_000])
@pytest.mark.parametrize("sign", [1, -1])
def test_an_absurd_number_is_a_usage_error(digits: int, sign: int) -> None:
    """However large a number is, a tool takes it or says in a sentence why not."""
    for key in ("threshold", "query", "limit")[: 2 if sign > 0 else 3]:
        with pytest.raises(UsageError):
            registry.find("memory_recall").bind({key: sign * 10**digits})


FORBIDDEN = """
    title.__class__   ().__class__.__bases__   __import__('os').system('true')   open('/etc/passwd')
    lower(title)   [x for x in tags]   (x for x in tags)   {x: 1 for x in tags}   {1: 2} == x
    lambda: 1   f'{title}' == 'x'   (x := 1)   tags[0] == 'x'   title[0:2]   title + 'x'   title % 1
    2 ** 9   -title   ~1   1 if title else 2   title is None   title.upper()   title.format(1)
    title.startswith(prefix='x')   title.startswith(*tags)   title.startswith   [*tags]   b'x' in t
    title.lower().__len__()   1j   ...   await x   x; y   x = 1   #   import os   x.lower(*())
""".strip()


@pytest.mark.parametrize("text", re.split(r"\s{3,}", FORBIDDEN))
def test_a_filter_runs_nothing(text: str) -> None:
    """Attributes, calls, comprehensions, subscripts and arithmetic are refused, never run."""
    for whole in (text, f"title == 'x' or {text}", f"not {text}"):
        with pytest.raises(UsageError):
            compile_expression(whole)


values = st.dictionaries(
    st.sampled_from("abc"),
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.lists(st.text()),
)


@given(st.text(st.characters(codec=None), max_size=60), values)
@example("'\ud800' == a\0", {})
@example("(" * 400, {})
@example("not " * 190 + "-" * 190 + "1", {})
@example("a == 9" + "9" * 1_900, {"a": 1})
def test_any_text_is_a_filter_or_a_usage_error(text: str, given_values: dict[str, Any]) -> None:
    """Nothing that a filter may hold ever raises anything but a usage error."""
    try:
        test = compile_expression(text)
    except UsageError:
        return
    assert test(given_values) in (True, False)


numbers = st.integers(-3, 3)
ATOMS = """
    a < b   a == 1   b != -2   a >= b   0 <= a < 2   a   b > 0 > a   a in [1, b]   s.lower() == 'x'
    'x' in t   'y' not in t   t == ['x']   s.startswith('x')
""".strip()
simple = st.recursive(
    st.sampled_from(re.split(r"\s{3,}", ATOMS)),
    lambda inner: (
        st.builds("({}) {} ({})".format, inner, st.sampled_from(["and", "or"]), inner)
        | st.builds("not ({})".format, inner)
    ),
    max_leaves=6,
)


@given(simple, numbers, numbers, st.lists(st.sampled_from("xyz")), st.sampled_from("xXy"))
def test_a_filter_means_what_it_means_in_python(
    text: str, a: int, b: int, t: list[str], s: str
) -> None:
    """Where all values are there, an expression is true exactly where Python says so."""
    names: dict[str, Any] = {"a": a, "b": b, "t": t, "s": s}
    assert compile_expression(text)(names) == bool(eval(text, {"__builtins__": {}}, names))


def test_vectors_that_another_process_compacted_are_still_found(tmp_path: Path) -> None:
    """Who opened vectors before they were compacted searches the new files, and loses nothing."""
    chance = np.random.default_rng(1)
    rows = _rows(chance, 4)
    vectors = Vectors.create(tmp_path / "v", VectorCard("name", "1", 5, 7))
    vectors.append([1, 2, 3, 4], [1, 1, 1, 1], rows)
    other = Vectors.open(tmp_path / "v", 7)
    assert other is not None
    (tmp_path / "v" / "rows-1.f32").write_bytes(b"left by a process that was killed")
    vectors.compact({2, 3}.__contains__)
    assert [hit.uid for hit in other.search(rows[2], {1, 2, 3, 4}, 1)] == [3]
    assert other.card.last_uid == vectors.card.last_uid == 4
    assert sorted(path.name for path in (tmp_path / "v").iterdir()) == [
        "card.json",
        "rows-1.f32",
        "uids-1.i64",
    ]
