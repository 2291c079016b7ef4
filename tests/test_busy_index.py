"""While an index is being built, is busy or was deleted, answers come from readable data."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Set
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import (
    Ran,
    Run,
    followers,
    index_of,
    sampled,
    soak_only,
    succeeded,
    titles,
    until,
    write,
)
from memvault import open_vault
from memvault.files.lock import FileLock
from memvault.index.local import background_embedding
from memvault.index.local.index_files import INDEX
from memvault.index.local.passage_table import Passages
from memvault.index.local.static_vectors import StoredPassages
from memvault.index.protocol import COMPLETE, VectorsCorrupted, WaitPolicy
from memvault.index.vectors.nearest import NearestMemory, nearest
from memvault.index.vectors.vector_file import UnitRows, VectorCard
from memvault.index.vectors.vector_store import VectorStore
from memvault.workspace import Workspace

HOLDER = """
import sys
from pathlib import Path
from memvault.files.lock import FileLock

with FileLock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""

INDEXED, MORE, READ = 20, 600, 500
"""The numbers of indexed memories, memories written since, and those that are read directly."""
PATIENT = 20.0
"""Seconds within which a call that does not wait answers on any machine; waiting took 60."""


@contextmanager
def _held(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Make another process hold the index lock until its standard input is closed."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(index_of(folder) / "lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin
    assert process.stdout
    assert process.stdout.readline() == "held\n"
    try:
        yield process
    finally:
        process.communicate()


@contextmanager
def _let_go(process: subprocess.Popen[str], seconds: float) -> Iterator[None]:
    """Make the lock's holder release it after ``seconds``."""
    assert process.stdin
    timer = threading.Timer(seconds, process.stdin.close)
    timer.start()
    try:
        yield
    finally:
        timer.join()
        process.stdin = None


def _soon(run: Run, *arguments: str) -> Ran:
    began = time.monotonic()
    ran = run(*arguments)
    assert time.monotonic() - began < PATIENT
    return ran


@pytest.fixture
def unindexed(folder: Path) -> Path:
    """A vault that was never indexed."""
    for number in range(INDEXED):
        write(folder, f"old/{number}.md", f"# Old {number}\n\nwombat old{number}\n")
    return folder


@pytest.fixture
def behind(unindexed: Path, run: Run) -> Path:
    """A vault with 20 indexed memories, to which 600 more were written since.

    The first of the 20 were changed before the others were written.
    """
    assert run("list").code == 0
    write(unindexed, "old/0.md", "# Old 0\n\nbilby\n")
    for number in range(MORE):
        if number in (1, MORE - READ):
            time.sleep(0.02)  # so that file times show which file is newer
        write(unindexed, f"new/{number}.md", f"# New {number}\n\nquokka new{number}\n")
    return unindexed


def test_access_by_path_works_without_index(unindexed: Path, run: Run) -> None:
    """A memory can be shown, compounded and forgotten by path without an index."""
    with _held(unindexed):
        shown = _soon(run, "show", "old/1.md", "--json")
        assert (shown.code, shown.json["title"], shown.err) == (0, "Old 1", "")
        (note,) = shown.json["warnings"]
        assert note.startswith("superseded and expired memories are not marked: Another process")
        added = _soon(run, "compound", "./old/2.md", "And it digs.", "--json")
        assert (added.code, added.json["filePath"], added.err) == (0, "old/2.md", "")
        assert "And it digs." in (unindexed / "old/2.md").read_text("utf-8")
        token = _soon(run, "forget", "old/3.md", "--json").json["confirmToken"]
        gone = _soon(run, "forget", "old/3.md", "--confirm", token, "--json")
        assert gone.json["files"] == ["old/3.md"]


@pytest.mark.promise("R31")
@pytest.mark.parametrize("state", ["unindexed", "behind"])
def test_remember_does_not_wait_for_index(
    state: str, request: pytest.FixtureRequest, run: Run
) -> None:
    """A new memory is written even if similar ones cannot be searched; a note reports it."""
    folder = request.getfixturevalue(state)
    with _held(folder):
        ran = _soon(run, "remember", "Late", "A wombat digs.", "--json")
    assert (ran.code, ran.json["similar"]) == (0, [])
    assert (folder / ran.json["filePath"]).is_file()
    (note,) = ran.json["warnings"]
    assert note.startswith("the search for similar memories failed: Another process is indexing")


@soak_only
def test_recall_answers_from_partial_index(behind: Path, run: Run) -> None:
    """Recall finds indexed memories and the latest new ones, and counts the ones it omitted."""
    note = f"{1 + MORE - READ} memories are not indexed yet; another process is indexing them"
    asked = f"old0 old5 new0 new{MORE - 1}"
    with _held(behind):
        words = _soon(run, "recall", asked, "--mode", "keyword", "--json").json
        assert set(titles(words)) == {"Old 5", f"New {MORE - 1}"}
        assert words["warnings"] == [note]
        assert f"note: {note}" in _soon(run, "recall", "old5").err
    whole = run("recall", "new0", "--mode", "keyword", "--json").json
    assert titles(whole) == ["New 0"]
    assert "warnings" not in whole


@soak_only
def test_lists_report_unindexed_memories(behind: Path, run: Run) -> None:
    """List, types and status also answer, and report how many memories they omit."""
    counted = INDEXED - 1 + READ
    note = f"{1 + MORE - READ} memories are not indexed yet; another process is indexing them"
    with _held(behind):
        listed = _soon(run, "list", "--json").json
        types = _soon(run, "types", "--json").json
        status = _soon(run, "status", "--json").json
    assert listed["total"] == counted
    assert sum(entry["count"] for entry in types["types"]) == counted
    assert (status["memories"], status["index"]["state"]) == (counted, "behind")
    assert [found["warnings"] for found in (listed, types, status)] == [[note]] * 3


def test_name_lookup_waits_for_indexing(behind: Path, run: Run) -> None:
    """A name that is ambiguous in the partial index is looked up when indexing is complete."""
    with _held(behind) as holder, _let_go(holder, 4.0):
        shown = run("show", "New 0", "--json")
    assert (shown.code, shown.json["filePath"]) == (0, "new/0.md")
    with _held(behind):  # by now, all memories are indexed
        assert _soon(run, "show", "New 0").code == 0


def test_write_that_needs_all_memories_fails_while_indexing(
    behind: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An operation that needs all memories fails with a hint while some are not indexed."""
    short = WaitPolicy(1.0, 1.0, allow_partial=False)
    for module in ("recall.name_lookup", "index.protocol"):  # imported in this order
        monkeypatch.setattr(f"memvault.{module}.COMPLETE", short)
    calls: list[tuple[str, dict[str, Any]]] = [
        ("memory_compound", {"query": "wombat old7 digs", "modifications": "more"}),
        ("memory_forget", {"query": "", "filter": "memoryType == 'context'"}),
        ("store_procedure", {"procedureName": "dig", "procedurePrompt": "Dig."}),
        ("update_success_rate", {"procedureName": "dig", "success": True}),
    ]
    before = sorted(path.name for path in behind.rglob("*.md"))
    with _held(behind), open_vault(behind) as vault:
        for name, arguments in calls:
            failed = vault.call(name, **arguments)
            assert failed["error"]["code"] == "timed_out", failed
            assert failed["error"]["hint"]
    assert sorted(path.name for path in behind.rglob("*.md")) == before


@sampled(2)
@pytest.mark.parametrize("state", ["unindexed", "behind"])
def test_waiting_call_polls_once_a_second(
    state: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While waiting for another process, a call checks the folder at most once a second."""
    folder = request.getfixturevalue(state)
    looks: list[float] = []
    scandir = os.scandir

    def counted(path: Any = ".") -> Any:
        if path == folder or path == str(folder):
            looks.append(time.monotonic())
        return scandir(path)

    with (
        closing(Workspace(folder)) as workspace,
        _held(folder) as holder,
        monkeypatch.context() as patched,
    ):
        index = workspace.index
        patched.setattr(os, "scandir", counted)
        with _let_go(holder, 4.0):
            used = time.process_time()
            view = index.refresh(True, COMPLETE)
            took = time.process_time() - used
        assert view.missing == 0
        assert len(list(view.records())) == INDEXED + (MORE if state == "behind" else 0)
    assert len(looks) <= 3 + (looks[-1] - looks[0]) / 0.9
    if state == "unindexed":
        assert took < 3.0


def test_first_call_indexes_everything(behind: Path, run: Run) -> None:
    """Without another indexing process, a call indexes and returns everything."""
    ran = run("list", "--json")
    assert json.loads(ran.out)["total"] == INDEXED + MORE
    assert ran.err == ""


def test_deleted_index_is_not_recreated_by_embedding(
    folder: Path, run: Run, auto: None, tmp_path: Path
) -> None:
    """If the user deletes the cache while vectors are computed, it is not recreated."""
    write(folder, "a.md", "# A\n\nA green river.\n")
    succeeded(run("recall", "green", "--mode", "keyword"))
    lock = index_of(folder) / "deep" / "lock"
    with FileLock(lock):
        succeeded(run("recall", "green"))
        until(lambda: any(_has_open(number, lock) for number in followers(folder)))
        shutil.rmtree(tmp_path / "cache")
    until(lambda: not followers(folder))
    assert not (tmp_path / "cache").exists()
    assert "warnings" not in succeeded(run("recall", "green", "--json")).json


def test_embedding_worker_does_not_create_index(folder: Path, run: Run, tmp_path: Path) -> None:
    """A process that starts after the index was deleted exits immediately without output."""
    write(folder, "a.md", "# A\n\nA green river.\n")
    succeeded(run("recall", "green"))
    deep = index_of(folder) / "deep"
    shutil.rmtree(tmp_path / "cache")
    command = [
        sys.executable,
        "-P",
        "-m",
        "memvault.index.embedding_worker",
        str(folder),
        str(deep),
    ]
    done = subprocess.run(command, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert not (tmp_path / "cache").exists()


def _has_open(number: int, file: Path) -> bool:
    """Return whether a process has a file open."""
    with suppress(OSError):
        return any(entry.resolve() == file for entry in Path(f"/proc/{number}/fd").iterdir())
    return False


def test_remote_copy_is_deleted_after_worker_exits(run: Run, tmp_path: Path) -> None:
    """The local copy of another machine's vault is not deleted while a worker extends it."""
    root = tmp_path / "state" / "memvault" / "sent" / "team"
    write(root, "memvault.toml", "version = 1\n")
    write(root, "a.md", "# A\n\nA green river.\n")
    succeeded(run("vaults", "add", "team", str(root)))
    succeeded(run("recall", "green", "--vault", str(root)))
    deep = index_of(root) / "deep"
    command = [sys.executable, "-m", "memvault", "vaults", "remove", "team"]
    with FileLock(deep / background_embedding.BACKGROUND_LOCK):
        removing = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        until(lambda: background_embedding.is_running(deep, background_embedding.FOREGROUND_LOCK))
        assert (deep.parent / INDEX).is_dir()
    assert removing.wait(60) == 0
    assert not deep.parent.exists()


Matrix = npt.NDArray[np.float32]


def _rows(chance: np.random.Generator, count: int) -> Matrix:
    """Return random unit vectors that are stored without rounding."""
    rows = chance.normal(size=(count, 5)).astype(np.float32)
    return UnitRows.encode(rows).decode(slice(None))


def _passages(counts: Mapping[int, int]) -> Passages:
    pairs = [(uid, uid * 10 + k) for uid, count in counts.items() for k in range(count)]
    uids, hashes = zip(*pairs, strict=True) if pairs else ((), ())
    return Passages(np.array(uids, np.int64), np.array(hashes, np.uint64))


def _search(
    store: VectorStore,
    passages: Passages,
    query: Matrix,
    among: Set[int],
    limit: int,
    also: Set[int] = frozenset(),
) -> list[NearestMemory]:
    scored = StoredPassages(passages, store).search(query, limit, also, among).of(among | also)
    return nearest(scored, None, among, limit, also).hits


batches = st.lists(st.lists(st.integers(1, 3), min_size=1, max_size=40), max_size=4)


@given(batches, st.integers(0, 2**32), st.sets(st.integers(0, 80)), st.integers(1, 90), st.data())
def test_nearest_vectors_equal_brute_force(
    tmp_path: Path,
    counted: list[list[int]],
    seed: int,
    gone: set[int],
    limit: int,
    data: st.DataObject,
) -> None:
    """The nearest memories are exact after any additions, truncations and compactions."""
    chance = np.random.default_rng(seed)
    folder = Path(mkdtemp(dir=tmp_path)) / "v"
    store: VectorStore | None = VectorStore.create(folder, VectorCard("name", "1", 5))
    assert store is not None
    held: dict[int, Matrix] = {}
    uid = 0
    for counts in counted:
        added = {}
        for count in counts:
            uid += int(chance.integers(1, 3))
            added[uid] = _rows(chance, count)
        hashes = _passages({entry: len(rows) for entry, rows in added.items()}).hashes
        order = chance.permutation(len(hashes))
        store.add(hashes[order], np.concatenate([*added.values()])[order])
        held |= added
        if data.draw(st.booleans()):
            for path in folder.glob("*-*.*"):
                with path.open("ab") as file:
                    file.write(b"\x7f" * data.draw(st.integers(0, 99)))
        if data.draw(st.booleans()):
            held = {entry: held[entry] for entry in held if entry not in gone}
            store.compact(_passages({entry: len(held[entry]) for entry in held}).hashes, -1)
        if data.draw(st.booleans()):
            store = VectorStore.open(folder)
            assert store is not None
        assert store.card.rows == sum(map(len, held.values()))
    passages = _passages({entry: len(rows) for entry, rows in held.items()})
    lacking = _passages({entry: len(rows) for entry, rows in held.items()} | {uid + 1: 1})
    query = _rows(chance, 1)[0]
    allowed = held.keys() - gone
    nearest = sorted((float((held[entry] @ query).max()) for entry in allowed), reverse=True)
    hits = _search(store, passages, query, allowed, limit)
    assert _search(store, lacking, query, allowed | {uid + 1}, limit) == hits
    assert [hit.cosine for hit in hits] == pytest.approx(nearest[:limit], abs=1e-5)
    every = _search(store, passages, query, set(), limit, allowed)
    assert {hit.uid for hit in every} == allowed
    for hit in (*hits, *every):
        assert hit.uid in allowed
        assert hit.cosine == pytest.approx(float((held[hit.uid] @ query).max()), abs=1e-5)
        assert hit.cosine == pytest.approx(float(held[hit.uid][hit.passage] @ query), abs=1e-5)


def test_vectors_survive_compaction_by_another_process(tmp_path: Path) -> None:
    """A process that opened vectors before compaction searches the new files without losing any."""
    chance = np.random.default_rng(1)
    rows = _rows(chance, 4)
    store = VectorStore.create(tmp_path / "v", VectorCard("name", "1", 5))
    passages = _passages(dict.fromkeys(range(1, 5), 1))
    store.add(passages.hashes, rows)
    other = VectorStore.open(tmp_path / "v")
    assert other is not None
    (tmp_path / "v" / "rows-1.i8").write_bytes(b"left by a process that was killed")
    store.compact(passages.hashes[1:3], -1)
    assert [hit.uid for hit in _search(other, passages, rows[2], {1, 2, 3, 4}, 1)] == [3]
    assert store.card.rows == 2
    assert sorted(path.name for path in (tmp_path / "v").iterdir()) == [
        "card.json",
        "hashes-1.u64",
        "rows-1.i8",
    ]


def test_added_vectors_keep_cached_row_numbers(tmp_path: Path) -> None:
    """Adding many vectors leaves the rows of the last search, which the next process uses."""
    found = VectorStore.create(tmp_path / "m", VectorCard("m", "1", 2))
    hashes = np.arange(1, 4_001, dtype=np.uint64)
    found.add(hashes[:2_000], np.ones((2_000, 2), np.float32))
    assert found.row_numbers(hashes[1_999::-1]).tolist() == [*range(1_999, -1, -1)]
    remembered = (tmp_path / "m/rows.i32").read_bytes()
    found.add(hashes[2_000:], np.ones((2_000, 2), np.float32))
    assert (tmp_path / "m/rows.i32").read_bytes() == remembered
    assert found.row_numbers(hashes).tolist() == [*range(4_000)]


def test_replaced_vectors_of_same_count_are_detected(tmp_path: Path) -> None:
    """If another process replaces the vectors by as many others, a search finds the new rows."""
    codes = np.zeros((1_201, 1, 4), np.uint8)
    rows = np.ones((1_201, 2), np.float32)
    hashes = np.arange(1, 1_202, dtype=np.uint64)
    wanted = np.array([3, 1_000], np.uint64)
    searcher = VectorStore.create(tmp_path / "m", VectorCard("m", "1", 2, token_width=4))
    searcher.add(hashes, rows, [*codes])
    # Stores opened at one path share their open files within a process.
    other = VectorStore.open(tmp_path / "m" / ".." / "m")
    assert other is not None
    assert searcher.row_numbers(wanted).tolist() == [2, 999]
    other.compact(hashes[701:], 1_000)
    other.add(np.arange(5_001, 5_702, dtype=np.uint64), rows[:701], [*codes[:701]])
    assert searcher.token_codes(wanted)[1].tolist() == [0, 1]
    assert searcher.row_numbers(wanted).tolist() == [-1, 298]


def test_truncated_token_codes_are_detected(tmp_path: Path) -> None:
    """Token codes that another program truncates after they were opened are never used."""
    store = VectorStore.create(tmp_path / "m", VectorCard("m", "1", 2, token_width=4))
    hashes, codes = np.array([7, 8], np.uint64), np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    store.add(hashes, np.ones((2, 2), np.float32), [*codes])
    found, lengths = store.token_codes(hashes[::-1])
    assert (found.tolist(), lengths.tolist()) == (codes[::-1].reshape(-1, 4).tolist(), [3, 3])
    os.truncate(tmp_path / "m/tokens-0.bin", 20)
    with pytest.raises(VectorsCorrupted):
        store.token_codes(hashes)
