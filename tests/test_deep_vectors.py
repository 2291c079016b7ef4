"""Deep vectors as files: each text once, whoever adds them, and the nearest by either side."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from memvault.index.local.nearest import ScoredPassages, nearest
from memvault.index.local.transformer_vectors import TransformerVectorFile
from memvault.index.local.vectors import VectorCard, VectorFile


def test_who_waits_neither_gains_nor_loses() -> None:
    """A memory without deep vectors gets the cosine that others of its quick cosine have."""
    chance = np.random.default_rng(3)
    quick = chance.uniform(-0.2, 0.9, 400).astype(np.float32)
    deep = (0.6 * quick + 0.1 + chance.normal(0, 0.05, 400)).astype(np.float32)
    seen = np.where(chance.random(400) < 0.6, deep, np.float32(np.nan))
    uids = np.arange(400) // 2
    passages = ScoredPassages(uids, np.zeros(400, np.uint64), quick)
    every = set(range(200))
    known = {hit.uid: hit.deep for hit in nearest(passages, deep, every, 400, set())}
    found = {hit.uid: hit.deep for hit in nearest(passages, seen, every, 400, set())}
    assert found.keys() == known.keys() == every
    differences = [float(found[uid] or 0) - float(known[uid] or 0) for uid in every]
    assert abs(float(np.mean(differences))) < 0.02
    assert max(map(abs, differences)) < 0.25
    alone = nearest(passages, None, every, 5, {7})
    assert all(hit.deep is None for hit in alone)
    assert {hit.uid for hit in alone} >= {7}


def test_the_nearest_by_either_side_are_found() -> None:
    """Hits are the nearest by quick and by deep vectors, and those that were asked for besides."""
    quick = np.array([0.9, 0.8, 0.1, 0.2, 0.0], np.float32)
    deep = np.array([0.1, 0.2, 0.9, 0.8, 0.0], np.float32)
    passages = ScoredPassages(np.arange(5), np.zeros(5, np.uint64), quick)
    found = nearest(passages, deep, {0, 1, 2, 3}, 1, {4})
    assert [hit.uid for hit in found] == [2, 0, 4]
    assert [hit.uid for hit in nearest(passages, deep, {0, 1, 3}, 1, set())] == [3, 0]


def test_two_processes_add_each_text_once(tmp_path: Path) -> None:
    """Whoever adds sees what others have added, and what they dropped."""
    card = VectorCard("m", "1", 2)
    rows = np.eye(2, dtype=np.float32)
    mine = TransformerVectorFile.create(tmp_path / "m", card)
    other = TransformerVectorFile.open(tmp_path / "m")
    assert other is not None
    mine.add(np.array([7, 9], np.uint64), rows)
    other.add(np.array([9, 7], np.uint64), rows[::-1])
    other.add(np.array([5, 5], np.uint64), rows)
    assert other.card.rows == 3
    found = TransformerVectorFile.open(tmp_path / "m")
    assert found is not None
    assert found.places(np.array([5, 6, 7, 9], np.uint64)).tolist() == [2, -1, 0, 1]
    cosines = found.score(rows[0], found.places(np.array([7, 6], np.uint64)))
    assert cosines[0] == 1.0
    assert np.isnan(cosines[1])


def test_whoever_begins_second_goes_on_with_what_is_there(tmp_path: Path) -> None:
    """A process that saw no vectors a moment ago does not throw away another's."""
    card = VectorCard("m", "1", 2)
    hashes = np.array([7, 9], np.uint64)
    TransformerVectorFile.create(tmp_path / "m", card).add(hashes, np.eye(2, dtype=np.float32))
    second = TransformerVectorFile.create(tmp_path / "m", card)
    assert second.places(hashes).tolist() == [0, 1]
    newer = TransformerVectorFile.create(tmp_path / "m", card._replace(version="2"))
    assert newer.card.rows == 0


def test_vectors_are_there_while_another_process_compacts(tmp_path: Path) -> None:
    """Whoever has read the card when its files are replaced opens the new ones."""
    folder = tmp_path / "m"
    writer = TransformerVectorFile.create(folder, VectorCard("m", "1", 2))
    hashes = np.array([7, 9], np.uint64)
    writer.add(hashes, np.eye(2, dtype=np.float32))

    class Late(VectorFile):
        """Looks at the files only after they were replaced."""

        @property
        def is_unchanged(self) -> bool:
            if writer.card.generation == 0:
                writer._file.replace(np.eye(2, dtype=np.float32)[:1], hashes[:1])
            return super().is_unchanged

    found = Late.open(folder, (("hashes", "u64"),))
    assert found is not None
    assert TransformerVectorFile(found).places(hashes).tolist() == [0, -1]


def test_what_no_memory_uses_is_dropped(tmp_path: Path) -> None:
    """Where more than half of many vectors belong to no memory, those go."""
    found = TransformerVectorFile.create(tmp_path / "m", VectorCard("m", "1", 2))
    hashes = np.arange(1_500, dtype=np.uint64)
    found.add(hashes, np.ones((1_500, 2), np.float32))
    found.compact(hashes[:800])
    assert found.card.rows == 1_500
    found.compact(hashes[:700])
    assert found.card.rows == 700
    assert found.places(hashes[[0, 699, 700]]).tolist() == [0, 699, -1]
