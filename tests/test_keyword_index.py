"""The files of the keyword index: lookups, and the effect of changed files."""

from __future__ import annotations

import json
import math
import os
import shutil
import sqlite3
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import examples, index_of, titles, write
from memvault import open_vault
from memvault.files.plain_files import stamp_of
from memvault.index.keyword import bm25f, bm25f_numpy, keyword_index
from memvault.index.keyword.bm25f import EXACT_FIELD, FIELDS, KeywordDocument, field_lengths
from memvault.index.keyword.keyword_index import KeywordIndex, find_terms, rank_documents
from memvault.index.local.index_files import INDEX
from memvault.index.protocol import IndexCorrupted, KeywordQuery

WORDS = [*"abcdefgh", "ab", "abc", "b\0", "é", "\ud800", "日本", "x" * 300, ""]
COUNTS = st.integers(1, 3) | st.sampled_from([10, 15, 255, 256, 70_000])
TERMS = st.dictionaries(st.sampled_from(WORDS), COUNTS, max_size=6).map(Counter)
TEXTS = st.fixed_dictionaries(dict.fromkeys((*FIELDS, EXACT_FIELD), TERMS))
MEMORIES = st.lists(TEXTS, min_size=1, max_size=3)
"""Each text is a block of a memory."""
STEPS = st.lists(
    st.tuples(st.sets(st.integers(0, 60), max_size=8), st.lists(MEMORIES, max_size=5)),
    min_size=1,
    max_size=16,
)
"""Commits: the memories that each removes, and those that it adds."""
GROUPS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=3, unique=True).map(tuple)
QUERIES = st.builds(
    KeywordQuery,
    st.lists(GROUPS, max_size=4),
    st.lists(st.sampled_from(WORDS), max_size=2),
    st.none() | st.sets(st.integers(0, 60)),
    st.sampled_from([1, 3, 1_000]),
    st.booleans(),
)
Documents = dict[tuple[int, int], KeywordDocument]
LENGTHS = [round((1.033**number - 1) * 27) for number in range(256)]
"""The lengths that an index distinguishes."""


def stored_length(length: int) -> int:
    """Return the length that an index stores for a field."""
    return next((known for known in LENGTHS if known >= length), LENGTHS[-1])


def plain_scores(
    documents: Documents, query: KeywordQuery
) -> tuple[dict[tuple[int, int], dict[str, float]], dict[str, float]]:
    """Return the score of each query term in each document by the formula, and each term's idf."""
    totals = field_lengths(documents.values())
    slopes = {"title": 0.5, "headings": 0.5, "body": 0.75, "tags": 0.3, "identifier": 0.5}
    scores: dict[tuple[int, int], dict[str, float]] = defaultdict(dict)
    rarities: dict[str, float] = {}
    words = [(group, FIELDS) for group in query.term_groups]
    for group, fields in [*words, *(((whole,), {EXACT_FIELD: 1.0}) for whole in query.exact_terms)]:
        weights = {}
        for place, document in documents.items():
            weight = 0.0
            for name, boost in fields.items():
                count = max(document.fields[name][stem] for stem in group)
                length = stored_length(document.fields[name].total())
                mean = totals[name] / len(documents) or 1.0
                norm = 1.0 - slopes[name] + slopes[name] * length / mean
                weight += boost * count / norm
            if weight:
                weights[place] = weight
        rarity = math.log(1.0 + (len(documents) - len(weights) + 0.5) / (len(weights) + 0.5))
        rarities.setdefault(group[0], rarity)
        for place, weight in weights.items():
            gain = rarity * weight * 2.2 / (weight + 1.2)
            scores[place][group[0]] = scores[place].get(group[0], 0.0) + gain
    return scores, rarities


@contextmanager
def index_of_steps(steps: Any) -> Iterator[tuple[KeywordIndex, Documents]]:
    """Create an index in several commits; yield it with the expected documents."""
    documents: Documents = {}
    uid = 0
    with TemporaryDirectory() as folder:
        index = KeywordIndex.create(Path(folder, "keyword"))
        for removed, memories in steps:
            documents = {place: one for place, one in documents.items() if place[0] not in removed}
            added = []
            for texts in memories:
                added += [KeywordDocument(uid, text, block) for block, text in enumerate(texts)]
                uid += 1
            documents |= {(one.uid, one.block): one for one in added}
            index = index.apply(removed, added)
        try:
            yield index, documents
        finally:
            index.close()


@given(STEPS, st.lists(QUERIES, min_size=1, max_size=4))
@settings(max_examples=examples(60))
def test_keyword_index_scores_match_the_formula(
    steps: Any, queries: Sequence[KeywordQuery]
) -> None:
    """Commits, deletions and merges do not change scores, in plain Python or with NumPy."""
    with index_of_steps(steps) as (index, documents):
        for query in queries:
            segments = index.candidates(query)
            lengths = field_lengths(documents.values())
            found = find_terms(segments, bm25f.query_terms(query))
            expected, rarities = plain_scores(documents, query)
            answers = [
                scored(segments, found, lengths, True)
                for scored in (bm25f.scored, bm25f_numpy.scored)
            ]
            ranked = [[*answer.best(query.limit)] for answer in answers]
            assert ranked[0] == ranked[1]
            numbers = [number for number, _ in ranked[0]]
            assert answers[0].terms(numbers) == answers[1].terms(numbers)
            assert answers[0].rarity == answers[1].rarity
            if documents:
                assert answers[0].rarity == rarities
            answer = rank_documents(segments, query, lengths)
            assert answer.document_count == len(documents)
            check_hits(answer.hits, expected, query)


@given(STEPS)
@settings(max_examples=examples(30))
def test_small_commit_writes_the_same_segments_as_whoosh(steps: Any) -> None:
    """A commit of a few documents, written without Whoosh's writer, has the same content."""
    written = []
    for few in (-1, 1_000):
        with pytest.MonkeyPatch.context() as monkeypatch:
            monkeypatch.setattr(keyword_index, "_FEW_DOCUMENTS", few)
            with index_of_steps(steps) as (index, _):
                assert index._folder is not None
                written.append(
                    [
                        (entry[1:], (index._folder / entry.file).read_bytes())
                        for entry in index._entries()
                    ]
                )
    assert written[0] == written[1]


def check_hits(
    hits: Any, expected: Mapping[tuple[int, int], Mapping[str, float]], query: KeywordQuery
) -> None:
    """Compare hits with the scores of documents: each memory counts as its best block."""
    best: dict[int, float] = {}
    for (uid, _), terms in expected.items():
        if query.allowed_uids is None or uid in query.allowed_uids:
            best[uid] = max(best.get(uid, 0.0), sum(terms.values()))
    assert len(hits) == min(len(best), query.limit)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    chosen = sorted(best.values(), reverse=True)[: query.limit]
    assert [hit.score for hit in hits] == pytest.approx(chosen, rel=1e-12)
    for hit in hits:
        assert hit.score == pytest.approx(best[hit.uid], rel=1e-12)
        assert len(set(hit.blocks)) == len(hit.blocks) <= 3
        assert sum(expected[hit.uid, hit.blocks[0]].values()) == pytest.approx(hit.score, rel=1e-12)
        if query.explain:
            assert hit.terms == pytest.approx(expected[hit.uid, hit.blocks[0]], rel=1e-12)


@given(st.lists(st.integers(1, 60), min_size=30, max_size=90))
@settings(max_examples=examples(5))
def test_keyword_index_segments_stay_few_and_ordered(sizes: Sequence[int]) -> None:
    """There are few segments, rarely merged, for any number of committed memories."""
    uid = written = 0
    with TemporaryDirectory() as folder:
        index = KeywordIndex.create(Path(folder, "keyword"))
        for size in sizes:
            before = {*index.files()}
            body = Counter({"wombat": 1})
            added = [KeywordDocument(uid + one, {"body": body}) for one in range(size)]
            index = index.apply((), added)
            uid += size
            written += sum(
                segment.entry.documents
                for segment in index._opened()
                if segment.entry.file not in before
            )
            assert len(index.files()) <= 14
        uids = [uid for segment in index._opened() for uid in segment.documents.uids]
        index.close()
    assert uids == [*range(uid)]
    assert written <= 6 * uid


def test_keyword_index_ties_keep_commit_order(tmp_path: Path) -> None:
    """Of equally good matches the oldest comes first, with both scoring methods."""
    index = KeywordIndex.create(tmp_path / "keyword")
    for uid in range(30):
        terms = Counter({"wombat": 1, "digs": 1})
        index = index.apply((), [KeywordDocument(uid, {"body": terms, EXACT_FIELD: Counter()})])
    segments = index.candidates(KeywordQuery([]))
    found = find_terms(segments, bm25f.query_terms(KeywordQuery([("digs",), ("wombat",)])))
    for scored in (bm25f.scored, bm25f_numpy.scored):
        for limit in (1, 5, 1_000):
            order = [
                number for number, _ in scored(segments, found, {"body": 60}, False).best(limit)
            ]
            assert order == [*range(30)]
    index.close()


def filled(folder: Path, batches: int = 3) -> KeywordIndex:
    """Create an index of several commits, with a deleted memory and a common word."""
    index = KeywordIndex.create(folder)
    for batch in range(batches):
        added = [
            KeywordDocument(uid, {"body": Counter({"common": 1, f"own{uid}": 2})})
            for uid in range(batch * 100, batch * 100 + 100)
        ]
        index = index.apply({batch * 100 - 1}, added)
    return index


def found_in(index: KeywordIndex, *terms: str) -> list[tuple[float, int]]:
    """Return all memories with any of the terms, best first."""
    query = KeywordQuery([(term,) for term in terms])
    answer = rank_documents(index.candidates(query), query, {"body": 900})
    return [(hit.score, hit.uid) for hit in answer.hits]


DAMAGES = st.one_of(
    st.just(None),
    st.floats(0, 1, exclude_max=True),
    st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(1, 255)), min_size=1),
    st.binary(max_size=400),
)
"""A file is missing, truncated, has some changed bytes, or is a different file."""


@given(st.sampled_from(["toc", "seg"]), DAMAGES)
@settings(max_examples=examples(150))
def test_keyword_index_damage_raises_index_corrupted(suffix: str, damage: Any) -> None:
    """A missing, truncated or changed file raises ``IndexCorrupted`` or does not affect answers."""
    terms = ("common", "own7", "own250", "none")
    with TemporaryDirectory() as folder:
        index = filled(Path(folder, "keyword"))
        expected = found_in(index, *terms)
        kept = index.files()
        index.close()
        name = next(name for name in sorted(kept) if name.endswith(suffix))
        path = Path(folder, "keyword", name)
        content = bytearray(path.read_bytes())
        if damage is None:
            path.unlink()
        elif isinstance(damage, float):
            path.write_bytes(content[: int(damage * len(content))])
        elif isinstance(damage, bytes):
            path.write_bytes(damage)
        else:
            for place, change in damage:
                content[int(place * len(content))] ^= change
            path.write_bytes(content)
        opened = KeywordIndex(Path(folder, "keyword"), kept)
        try:
            assert found_in(opened, *terms) == expected
        except IndexCorrupted:
            pass
        finally:
            opened.close()


@pytest.mark.parametrize("opened", [True, False])
def test_keyword_index_reader_is_not_affected_by_writer(tmp_path: Path, opened: bool) -> None:
    """A writer, even a killed one, does not affect a reader of the index."""
    index = filled(tmp_path / "keyword")
    expected = found_in(index, "common", "own7")
    reader = KeywordIndex(tmp_path / "keyword", index.files())
    if opened:
        assert found_in(reader, "own7") == found_in(index, "own7")
    lost = index.apply(range(300), ())  # merges the remaining segments; never committed
    assert found_in(reader, "common", "own7") == expected
    assert found_in(lost, "common") == []
    written = index.apply({7}, ())
    assert found_in(written, "own7") == []
    assert found_in(reader, "common", "own7") == expected
    for one in (lost, index, written, reader):
        one.close()


def test_keyword_index_deletes_unreferenced_files(tmp_path: Path) -> None:
    """The next commit deletes merged segments, old tables and a killed writer's files."""
    index = filled(tmp_path / "keyword")
    index.apply(range(300), ()).close()
    write(tmp_path / "keyword", "MAIN_abc.seg", "left")
    for uid in (1000, 1001):
        index = index.apply((), [KeywordDocument(uid, {"body": Counter("x")})])
    index.close()
    others = {*os.listdir(tmp_path / "keyword")} - {*index.files()}
    assert len(others) == 1  # the table of the previous commit


def test_keyword_index_change_writes_one_small_segment(tmp_path: Path) -> None:
    """A changed memory rewrites no other postings, and small segments do not accumulate."""
    index = filled(tmp_path / "keyword", batches=1)
    whole = max(state[0] for state in index.files().values())
    for uid in range(1000, 1040):
        before = {*index.files()}
        index = index.apply({uid - 1}, [KeywordDocument(uid, {"body": Counter({"x": 1})})])
        sizes = [state[0] for name, state in index.files().items() if name not in before]
        assert sum(sizes) < whole / 2
        assert len(index.files()) < 15
    index.close()


@pytest.mark.parametrize("suffix", ["toc", "seg"])
def test_keyword_index_missing_file_is_rebuilt(folder: Path, suffix: str) -> None:
    """If any one of the index files is missing, recall still gives the same answer."""
    write(folder, "a.md", "# A\n\nzebra\n")
    for _ in range(2):
        with open_vault(folder) as vault:
            assert titles(vault.call("memory_recall", query="zebra", type="keyword")) == ["A"]
        for file in (index_of(folder) / INDEX / "keyword").glob(f"*.{suffix}"):
            file.unlink()


def test_keyword_index_of_earlier_version_is_rebuilt(folder: Path) -> None:
    """An index written by an earlier version is rebuilt automatically."""
    from whoosh.fields import KEYWORD, Schema
    from whoosh.index import create_in

    write(folder, "a.md", "# A\n\nzebra\n")
    with open_vault(folder) as vault:
        vault.call("memory_recall", query="zebra", type="keyword")
    index = index_of(folder) / INDEX
    shutil.rmtree(index / "keyword")
    (index / "keyword").mkdir()
    with create_in(str(index / "keyword"), Schema(body=KEYWORD)).writer() as writer:
        writer.add_document(body="zebra")
    with closing(sqlite3.connect(index / "manifest.db")) as database, database:
        database.execute("DELETE FROM files")
        for file in (index / "keyword").iterdir():
            row = file.name, json.dumps(stamp_of(file))
            database.execute("INSERT INTO files VALUES (?, ?)", row)
    for fingerprint in (None, "9.0.0.0 english []"):
        if fingerprint:
            with closing(sqlite3.connect(index / "manifest.db")) as database, database:
                database.execute("UPDATE made_for SET fingerprint = ?", (fingerprint,))
        with open_vault(folder) as vault:
            found = vault.call("memory_recall", query="zebra", type="keyword")
        assert titles(found) == ["A"]


def test_keyword_index_scores_long_lists_with_numpy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NumPy is loaded only for many postings and does not change scores."""
    index = filled(tmp_path / "keyword")
    expected = found_in(index, "common", "own7")
    monkeypatch.delitem(sys.modules, "numpy")
    query = KeywordQuery([("common",)])
    found = find_terms(index.candidates(query), bm25f.query_terms(query))
    assert keyword_index._scorer(found) is bm25f.scored
    monkeypatch.setattr(keyword_index, "_MANY_POSTINGS", 10)
    assert keyword_index._scorer(found) is bm25f_numpy.scored
    assert found_in(index, "common", "own7") == expected
    index.close()
