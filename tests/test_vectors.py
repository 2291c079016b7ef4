"""Vectors: the nearest are exactly the nearest, whatever happened to their files."""

from __future__ import annotations

from collections.abc import Set
from pathlib import Path
from typing import cast

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memvault.index.local.nearest import NearestMemory, nearest
from memvault.index.local.static_vector_file import (
    LocalVectorStore,
    compact,
    deleted_share,
    passages,
)
from memvault.index.local.vectors import VectorCard

Matrix = npt.NDArray[np.float32]


def _rows(chance: np.random.Generator, count: int) -> Matrix:
    rows = chance.normal(size=(count, 5)).astype(np.float32)
    return cast("Matrix", rows / np.linalg.norm(rows, axis=1, keepdims=True))


def _hashes(uids: list[int], counts: list[int]) -> npt.NDArray[np.uint64]:
    numbers = [uid * 10 + k for uid, count in zip(uids, counts, strict=True) for k in range(count)]
    return np.array(numbers, np.uint64)


def _search(
    vectors: LocalVectorStore,
    query: Matrix,
    among: Set[int],
    limit: int,
    also: Set[int] = frozenset(),
) -> list[NearestMemory]:
    scored = vectors.search(query, limit, also, among).of(among | also)
    return nearest(scored, None, among, limit, also)


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
    vectors: LocalVectorStore | None = LocalVectorStore.create(
        tmp_path / "v", VectorCard("name", "1", 5, 7)
    )
    assert vectors is not None
    held: dict[int, Matrix] = {}
    uid = 0
    for counts in counted:
        uids = []
        for count in counts:
            uid += int(chance.integers(1, 3))
            uids.append(uid)
            held[uid] = _rows(chance, count)
        vectors.append(
            uids, counts, _hashes(uids, counts), np.concatenate([held[entry] for entry in uids])
        )
        if data.draw(st.booleans()):
            for path in (tmp_path / "v").glob("*-*.*"):
                with path.open("ab") as file:
                    file.write(b"\x7f" * data.draw(st.integers(0, 99)))
        if data.draw(st.booleans()):
            alive = held.keys() - gone
            compact(vectors.file, alive)
            held = {entry: held[entry] for entry in sorted(alive)}
            assert deleted_share(vectors.file, set(alive)) == 0
        if data.draw(st.booleans()):
            assert LocalVectorStore.open(tmp_path / "v", 8) is None
            vectors = LocalVectorStore.open(tmp_path / "v", 7)
            assert vectors is not None
        assert passages(vectors.file)[1].tolist() == [
            uid * 10 + k for uid in sorted(held) for k in range(len(held[uid]))
        ]
        assert vectors.file.card.last_uid == uid
        assert vectors.file.card.rows == sum(map(len, held.values()))
    query = _rows(chance, 1)[0]
    allowed = held.keys() - gone
    nearest = sorted((float((held[entry] @ query).max()) for entry in allowed), reverse=True)
    hits = _search(vectors, query, allowed, limit)
    assert [hit.cosine for hit in hits] == pytest.approx(nearest[:limit], abs=1e-5)
    every = _search(vectors, query, set(), limit, allowed)
    assert {hit.uid for hit in every} == allowed
    for hit in (*hits, *every):
        assert hit.uid in allowed
        assert hit.cosine == pytest.approx(float((held[hit.uid] @ query).max()), abs=1e-5)
        assert hit.cosine == pytest.approx(float(held[hit.uid][hit.passage] @ query), abs=1e-5)


def test_vectors_that_another_process_compacted_are_still_found(tmp_path: Path) -> None:
    """Who opened vectors before they were compacted searches the new files, and loses nothing."""
    chance = np.random.default_rng(1)
    rows = _rows(chance, 4)
    vectors = LocalVectorStore.create(tmp_path / "v", VectorCard("name", "1", 5, 7))
    vectors.append([1, 2, 3, 4], [1, 1, 1, 1], _hashes([1, 2, 3, 4], [1] * 4), rows)
    other = LocalVectorStore.open(tmp_path / "v", 7)
    assert other is not None
    (tmp_path / "v" / "rows-1.f32").write_bytes(b"left by a process that was killed")
    compact(vectors.file, {2, 3})
    assert [hit.uid for hit in _search(other, rows[2], {1, 2, 3, 4}, 1)] == [3]
    assert other.file.card.last_uid == vectors.file.card.last_uid == 4
    assert sorted(path.name for path in (tmp_path / "v").iterdir()) == [
        "card.json",
        "hashes-1.u64",
        "rows-1.f32",
        "uids-1.i64",
    ]
