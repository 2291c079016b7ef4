"""Transformer vectors are computed in the background, once per text, without blocking calls."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import (
    Run,
    explained,
    followers,
    index_of,
    lie_still,
    sampled_tests,
    soak_only,
    succeeded,
    titles,
    until,
    write,
)
from memvault import Vault, open_vault
from memvault.files.lock import FileLock
from memvault.index.embedding import transformer, wordpiece
from memvault.index.embedding.arrays import normalize
from memvault.index.embedding.embedder import BUILTIN
from memvault.index.embedding.token_vectors import TOKENS_PER_VECTOR, TextVectors, pool
from memvault.index.embedding.tokenizer import open_tokenizer
from memvault.index.embedding.transformer import BuiltinTransformer
from memvault.index.local import background_embedding, transformer_vectors, transformer_writer
from memvault.index.local.index_files import INDEX
from memvault.index.local.local_index import LocalIndex
from memvault.index.local.transformer_model import TransformerModel
from memvault.index.protocol import COMPLETE
from memvault.index.vectors.nearest import ScoredPassages, nearest
from memvault.index.vectors.vector_file import UnitRows, VectorCard, VectorFile
from memvault.index.vectors.vector_store import VectorStore
from memvault.settings.vault_settings import EmbedderSettings, Settings
from memvault.store.memory_store import MemoryStore
from memvault.workspace import Workspace

pytestmark = sampled_tests(2)

NAME = "all-MiniLM-L6-v2-int8"
WORDS = "river stone lamp green market engine paper window salt copper bread cloud".split()


def _text(number: int) -> str:
    return " ".join(WORDS[(number * step) % len(WORDS)] + str(number) for step in range(60))


def _filled(folder: Path, count: int) -> None:
    for number in range(count):
        write(folder, f"n/{number}.md", f"# Note {number}\n\n{_text(number)}\n")


def _deep(folder: Path) -> dict[str, Any]:
    with open_vault(folder) as vault:
        found: dict[str, Any] = vault.call("vault_status")["deep"]
    return found


@pytest.fixture
def embedded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The passages that the built-in transformer embeds in this process."""
    seen: list[str] = []
    embed = BuiltinTransformer.embed_tokens

    def counted(model: BuiltinTransformer, texts: Sequence[str]) -> list[TextVectors]:
        seen.extend(texts)
        return embed(model, texts)

    monkeypatch.setattr(BuiltinTransformer, "embed_tokens", counted)
    return seen


def test_deep_runtimes_compute_the_same_vectors(tmp_path: Path) -> None:
    """The model returns the same vectors alone, batched and in fastembed; numpy's nearly match."""
    texts = ["", "Where is the key?", "日本語の文", "café " * 700, *map(_text, range(9))]
    model = BuiltinTransformer()
    vectors = [model.embed([text])[0] for text in texts]
    passages = model.embed(texts)
    assert np.allclose(passages, vectors, atol=1e-5)
    assert np.allclose(model.embed(texts[::-1])[::-1], passages, atol=1e-5)
    folder = shutil.copytree(wordpiece.DATA, tmp_path / "model")
    shutil.copy(transformer.DATA / "model.onnx", folder)
    other = transformer.load_embedder(str(folder), tmp_path)
    assert other.dimension == model.dimension
    others = np.stack([other.embed([text])[0] for text in texts])
    assert np.allclose(np.delete(others, 3, 0), np.delete(vectors, 3, 0), atol=1e-5)
    queries = np.stack([model.embed_query(text) for text in texts])
    assert not queries[[0, 2]].any()
    assert (np.delete(queries * others, [0, 2], 0).sum(axis=1) > 0.99).all()


def test_deep_long_passage_is_embedded_completely() -> None:
    """A passage longer than the model's input is embedded in windows, to its last word."""
    model = BuiltinTransformer()
    text = "The garden needs water. " * 100
    (long,) = model.embed_tokens([f"{text} The spare key is under the blue pot."])
    (short,) = model.embed_tokens([text])
    ids = open_tokenizer()[0].encode(text, add_special_tokens=False).ids
    assert len(ids) > 256
    assert [own for own in short.ids.tolist() if own > 102] == ids
    query = model.embed_query_tokens("spare key")
    reach = [(query.tokens @ own.tokens.T).max(axis=1).mean() for own in (long, short)]
    assert reach[0] > reach[1] + 0.2


def test_deep_token_codes_preserve_cosines() -> None:
    """A 48-byte code nearly preserves its token vector's cosines; stop words have no code."""
    model = BuiltinTransformer()
    (passage,) = model.embed_tokens(["The boiler was serviced in March, and it is fine."])
    codes = model.codec.encode(passage)
    kept = ~np.isin(passage.ids, model.codec.ignored)
    assert codes.shape == (ceil(kept.sum() / TOKENS_PER_VECTOR), 48)
    assert kept.sum() < 9
    query = model.embed_query_tokens("When was the heating maintained?").tokens
    exact = query @ pool(passage.tokens[kept]).T
    coded = model.codec.cosines(query, codes)
    assert np.corrcoef(exact.ravel(), coded.ravel())[0, 1] > 0.9
    assert np.abs(exact - coded).mean() < 0.1


def test_deep_pooling_merges_most_similar_tokens() -> None:
    """Repetitions of a word share one vector; a unique token has its own."""
    tokens = np.eye(9, dtype=np.float32)[[0, 1, 0, 2, 3, 4, 5, 0, 6]]
    pooled = pool(tokens, 9 / 7)
    assert np.allclose(np.sort(pooled @ np.arange(9)), range(7))
    assert np.allclose(pool(tokens, 1.0), tokens)
    assert pool(tokens[:1], 2.0).tolist() == tokens[:1].tolist()
    assert pool(tokens[:0], 2.0).shape == (0, 9)


@given(st.integers(0, 30), st.integers(1, 400), st.integers(0, 2**32))
def test_deep_stored_vectors_preserve_cosines(count: int, dimension: int, seed: int) -> None:
    """Vectors stored as 8-bit integers are unit vectors whose cosines differ by less than 0.01."""
    chance = np.random.default_rng(seed)
    rows = normalize(chance.normal(size=(count, dimension)).astype(np.float32))
    query = normalize(chance.normal(size=dimension).astype(np.float32))
    stored = UnitRows.encode(rows)
    decoded = stored.decode(slice(None))
    assert np.allclose(np.linalg.norm(decoded, axis=1), 1.0, atol=1e-5)
    assert np.allclose(stored.cosines(query), decoded @ query, atol=1e-5)
    assert np.allclose(stored.cosines(query), rows @ query, atol=0.01)
    assert np.array_equal(UnitRows.encode(decoded).decode(slice(None)), decoded)
    assert not UnitRows.encode(np.zeros((1, dimension), np.float32)).decode([0]).any()


def test_deep_vectors_in_old_format_are_rebuilt(run: Run, folder: Path, deep_now: None) -> None:
    """After an upgrade with a new storage format, the next recall rebuilds the vectors."""
    write(folder, "a.md", "# A\n\nThe kitten sleeps.\n")
    assert run("recall", "cat").code == 0
    (card,) = index_of(folder).glob("deep/*/card.json")
    entries = json.loads(card.read_text("utf-8"))
    former = {key: value for key, value in entries.items() if key != "format"}
    for written in (former, entries | {"format": 0}):
        card.write_text(json.dumps(written), "utf-8")
        (card.parent / "rows-0.i8").write_bytes(b"")
        assert "The kitten sleeps" in succeeded(run("recall", "cat")).out
        assert json.loads(card.read_text("utf-8"))["rows"] == 1
        assert (card.parent / "rows-0.i8").stat().st_size == 388


def test_deep_query_does_not_load_model_libraries(run: Run, folder: Path, deep_now: None) -> None:
    """With existing deep vectors, recall loads neither ONNX Runtime nor a tokenizer library."""
    write(folder, "a.md", "# A\n\nThe kitten sleeps.\n")
    assert run("recall", "cat").code == 0
    heavy = {"fastembed", "onnxruntime", "huggingface_hub", "tokenizers"}
    code = "import sys; from memvault.__main__ import main; main(['recall', 'cat', '--json']); "
    code += f"print('loaded:', *({heavy} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True
    )
    *answer, last = done.stdout.splitlines()
    assert json.loads("\n".join(answer))["count"] == 1
    assert last == "loaded:"


def test_deep_status_shows_embedding_process(folder: Path, run: Run, auto: None) -> None:
    """While vectors are computed in the background, status shows the process and their number."""
    _filled(folder, 1_000)
    succeeded(run("recall", "green"))
    until(lambda: "process" in _deep(folder))
    process = _deep(folder)["process"]
    shown = succeeded(run("status")).out
    assert process in followers(folder)
    assert re.search(rf"\d+ pending, by process {process} since \d{{4}}-", shown), shown


def test_deep_vectors_are_computed_in_background(folder: Path, run: Run, auto: None) -> None:
    """A recall answers immediately, and later all memories have deep vectors."""
    _filled(folder, 40)
    write(folder, "cat.md", "# Pets\n\nThe kitten sleeps on the sofa.\n")
    assert "warnings" not in succeeded(run("recall", "green", "--json")).json
    until(lambda: _deep(folder)["waiting"] == 0)
    until(lambda: not _deep(folder)["working"])
    found = _deep(folder)
    assert (found["name"], found["vectors"]) == (NAME, 41)
    assert "problem" not in found
    with open_vault(folder) as vault:
        (first, *_) = explained(vault, "a young cat napping", type="vector")
    assert first["title"] == "Pets"
    assert first["why"]["deep"] > first["why"]["cosine"]
    assert not followers(folder)


def test_deep_embedding_runs_one_process_per_vault(folder: Path, auto: None) -> None:
    """Only one process computes missing vectors, even if many recalls detect them."""
    _filled(folder, 40)
    with open_vault(folder) as vault:
        assert vault.call("memory_list")["success"]
    deep = index_of(folder) / "deep"
    command = [sys.executable, "-m", "memvault", "recall", "green", "--quiet"]

    def recall_four_times_at_once() -> None:
        several = [subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE) for _ in range(4)]
        for entry in several:
            entry.communicate()
            assert entry.returncode == 0

    with FileLock(deep / "following.lock"):  # the lock of a running embedding process
        recall_four_times_at_once()
        assert not followers(folder)
        late = [
            sys.executable,
            "-P",
            "-m",
            "memvault.index.embedding_worker",
            str(folder),
            str(deep),
        ]
        subprocess.run(late, check=True)
        assert _deep(folder)["vectors"] == 0
    recall_four_times_at_once()
    until(lambda: len(followers(folder)) <= 1)
    until(lambda: _deep(folder)["waiting"] == 0)


@soak_only
def test_deep_killed_process_loses_at_most_one_batch(folder: Path, run: Run, auto: None) -> None:
    """Vectors computed before a kill are kept; answers work, and the next process continues."""
    _filled(folder, 150)
    succeeded(run("recall", "green"))
    until(lambda: _deep(folder)["vectors"] > 20)
    (number,) = followers(folder)
    os.kill(number, signal.SIGKILL)
    until(lambda: not _deep(folder)["working"])
    assert 20 < _deep(folder)["vectors"] < 150
    assert "warnings" not in succeeded(run("recall", "green", "--json")).json
    until(lambda: _deep(folder)["waiting"] == 0)
    assert _deep(folder)["vectors"] == 150


@pytest.mark.promise("S11")
def test_deep_process_exits_when_vault_is_deleted(folder: Path, run: Run, auto: None) -> None:
    """If vault and index are deleted, the process exits and recreates neither."""
    _filled(folder, 150)
    index = index_of(folder)
    succeeded(run("recall", "green"))
    until(lambda: _deep(folder)["vectors"])
    shutil.rmtree(index)
    until(lambda: not followers(folder))
    assert not index.exists()


@soak_only
def test_deep_reindex_takes_over_from_background(folder: Path, run: Run, auto: None) -> None:
    """Reindex stops the background process, computes the rest and returns when all is done."""
    _filled(folder, 150)
    succeeded(run("recall", "green"))
    until(lambda: _deep(folder)["vectors"])
    succeeded(run("reindex"))
    found = _deep(folder)
    assert (found["waiting"], found["vectors"]) == (0, 150)
    until(lambda: not followers(folder))


def test_deep_failed_model_is_retried_hourly(folder: Path, run: Run, auto: None) -> None:
    """A model that is not on this machine is tried at most once an hour, with a note."""
    write(folder, "memvault.toml", '[embedder]\nmodel = "BAAI/bge-small-en-v1.5"\n')
    write(folder, "a.md", "# Alpha\n\nzebra\n")
    succeeded(run("recall", "zebra"))
    until(lambda: "problem" in _deep(folder) and not followers(folder))
    state = index_of(folder) / "deep" / "state.json"
    before = state.read_bytes()
    (note,) = succeeded(run("recall", "zebra", "--json")).json["warnings"]
    assert "not on this machine" in note
    assert not followers(folder)
    assert state.read_bytes() == before
    assert json.loads(before)["until"] < time.time() + 3_600


def test_deep_oversized_file_is_embedded_by_name(
    folder: Path, run: Run, auto: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An oversized file is embedded by its name in both indexes and is not retried."""
    _filled(folder, 2)
    with open(write(folder, "large.md", ""), "r+b") as file:
        file.truncate(66 << 20)
    lie_still(folder)
    succeeded(run("reindex"))
    assert (_deep(folder)["waiting"], _deep(folder)["vectors"]) == (0, 3)
    succeeded(run("recall", "green"))
    assert not followers(folder)
    shutil.rmtree(index_of(folder))
    succeeded(run("recall", "green", "--mode", "keyword"))  # static vectors are computed later
    monkeypatch.setenv("MEMVAULT_DEEP", "now")
    succeeded(run("recall", "green"))
    assert (_deep(folder)["waiting"], _deep(folder)["vectors"]) == (0, 3)


def test_deep_process_is_not_restarted_without_progress(
    folder: Path, run: Run, deep_now: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the missing vectors can't be computed now, the next recall does not start a process."""
    _filled(folder, 2)
    succeeded(run("recall", "green"))
    write(folder, "n/1.md", "# Another\n\nAnother text.\n")
    monkeypatch.setenv("MEMVAULT_DEEP", "auto")
    deep = index_of(folder) / "deep"
    with FileLock(deep / "following.lock"):  # no embedding process can run
        succeeded(run("recall", "green"))
    assert _deep(folder)["waiting"] == 1
    shutil.copy(folder / "n" / "0.md", folder / "n" / "1.md")  # missing from the index
    background_embedding.record_failure(deep, BUILTIN, "for a test")
    command = [
        sys.executable,
        "-P",
        "-m",
        "memvault.index.embedding_worker",
        str(folder),
        str(deep),
    ]
    subprocess.run(command, check=True)
    assert (deep / "state.json").exists()


def test_deep_foreground_embedding_does_not_lock_index(folder: Path, deep_now: None) -> None:
    """While a recall computes deep vectors itself, other processes can write the index."""
    _filled(folder, 3)
    free = []

    def others(what: str, done: int, total: int) -> None:
        if what == "embedding":
            lock = FileLock(index_of(folder) / "lock")
            free.append(lock.acquire(0.0))
            lock.release()

    recalling = Workspace(folder, others)
    recalling.index.refresh(True, COMPLETE)
    recalling.close()
    assert free
    assert all(free)


def test_deep_unchanged_text_is_not_embedded_again(
    vault: Vault, folder: Path, deep_now: None, embedded: list[str]
) -> None:
    """A new name, a header change, a copy or a rebuilt index embeds nothing; new text does."""
    _filled(folder, 3)
    assert vault.call("memory_recall", query="green")["success"]
    assert len(embedded) == 3
    (folder / "n" / "1.md").rename(folder / "n" / "moved.md")
    write(folder, "n/2.md", f"---\nimportance: 0.9\nid: other\n---\n# Note 2\n\n{_text(2)}\n")
    write(folder, "n/copy.md", f"# Note 2\n\n{_text(2)}\n")
    assert vault.call("memory_recall", query="green", type="vector", limit=9)["count"] == 4
    assert vault.call("vault_reindex")["indexed"] == 4
    shutil.rmtree(index_of(folder) / INDEX)
    assert vault.call("memory_recall", query="green", type="vector", limit=9)["count"] == 4
    assert len(embedded) == 3
    write(folder, "n/0.md", "# Note 0\n\nAnother text.\n")
    assert vault.call("memory_recall", query="green", type="vector", limit=9)["count"] == 4
    assert embedded[3:] == ["Note 0\nn\n# Note 0\n\nAnother text."]
    assert vault.call("vault_status")["deep"]["waiting"] == 0


def test_deep_vectors_of_former_model_are_deleted(folder: Path, run: Run, auto: None) -> None:
    """Once all memories have the new model's vectors, the process deletes the old model's."""
    _filled(folder, 3)
    succeeded(run("reindex"))
    former = index_of(folder) / "deep" / "former-12345678"
    VectorStore.create(former, VectorCard("former", "1", 2))
    write(folder, "new.md", "# New\n\nA new one\n")
    succeeded(run("recall", "green"))
    until(lambda: not former.exists())
    assert _deep(folder)["vectors"] == 4


def test_deep_vectors_of_old_model_version_are_not_used(
    vault: Vault, folder: Path, deep_now: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After an upgrade with another model, quick vectors answer until new ones are ready."""
    _filled(folder, 3)
    assert vault.call("memory_recall", query="green")["success"]
    card = next((index_of(folder) / "deep").rglob("card.json"))
    entries = json.loads(card.read_text("utf-8"))
    card.write_text(json.dumps({**entries, "version": "older"}), "utf-8")
    monkeypatch.setenv("MEMVAULT_DEEP", "auto")
    assert _deep(folder)["waiting"] == 3
    monkeypatch.setenv("MEMVAULT_DEEP", "now")
    (first, *_) = explained(vault, "green", type="vector")
    assert "deep" in first["why"]
    assert json.loads(card.read_text("utf-8"))["version"] == entries["version"]


def test_deep_file_in_place_of_vector_folder_does_not_affect_answers(
    vault: Vault, folder: Path, deep_now: None
) -> None:
    """A file in place of the deep vector folder or a model's folder does not change answers."""
    _filled(folder, 3)
    assert vault.call("memory_recall", query="green")["success"]
    place = index_of(folder) / "deep"
    for path in (place, next(entry for entry in place.iterdir() if entry.is_dir())):
        shutil.rmtree(path)
        path.parent.mkdir(exist_ok=True)
        path.write_text("not a folder\n", "utf-8")
        (first, *_) = explained(vault, "green", type="vector")
        assert "deep" in first["why"]


def test_deep_off_setting_disables_deep_vectors(folder: Path, run: Run) -> None:
    """With deep = "off", no process is started and existing deep vectors are not used."""
    _filled(folder, 3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MEMVAULT_DEEP", "now")
        succeeded(run("recall", "green"))
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("MEMVAULT_DEEP")
        write(folder, "memvault.toml", 'version = 1\n[embedder]\ndeep = "off"\n')
        write(folder, "new.md", "# New\n\nA new one\n")
        found = succeeded(run("recall", "green", "--explain", "--json")).json
        assert all("deep" not in entry["why"] for entry in found["memories"])
        status = succeeded(run("status", "--json")).json["deep"]
        assert status == {"name": NAME, "mode": "off"}
        succeeded(run("reindex"))
    assert _deep(folder) == {"name": NAME, "mode": "off"}
    card = next((index_of(folder) / "deep").rglob("card.json"))
    assert json.loads(card.read_text("utf-8"))["rows"] == 3


def test_deep_missing_model_file_is_noted(
    vault: Vault, folder: Path, deep_now: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the model file, answers use the static table and a note reports the problem."""
    bare = tmp_path / "bare"
    bare.mkdir()
    shutil.copy(transformer.DATA / "card.json", bare)
    monkeypatch.setitem(transformer.FOLDERS, BUILTIN, bare)
    _filled(folder, 3)
    found = vault.call("memory_recall", query="green1")
    assert titles(found)[0] == "Note 1"
    assert "built-in model is not in the package" in found["warnings"][0]
    assert "not in the package" in vault.call("vault_status")["deep"]["problem"]
    assert not vault.call("vault_reindex")["success"]


def test_deep_vectors_are_used_if_nearly_complete(
    folder: Path, deep_now: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Deep vectors are used if nearly all candidates have them; otherwise only quick ones are."""
    monkeypatch.setattr(transformer_vectors, "_MAX_CHANGED", 0)  # as after many changes
    _filled(folder, 4)
    assert _deep(folder)["waiting"] == 4
    with open_vault(folder) as vault:
        assert vault.call("memory_recall", query="green")["success"]
    monkeypatch.setenv("MEMVAULT_DEEP", "auto")
    with FileLock(index_of(folder) / "deep" / "following.lock"):  # no embedding process can run
        for number, deep in ((3, True), (4, False), (9, False)):
            _filled(folder, number + 1)
            with open_vault(folder) as vault:
                found = explained(vault, "green", type="vector", limit=20)
                status = vault.call("vault_status")["deep"]
            assert status["waiting"] == number - 3
            assert len(found) == number + 1
            assert all(("deep" in entry["why"]) is deep for entry in found)


@pytest.mark.promise("S11")
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root")
def test_deep_now_setting_of_other_user_runs_in_background(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If another user owns memvault.toml, its deep = "now" is treated as "auto"."""
    monkeypatch.delenv("MEMVAULT_DEEP")
    settings = Settings(embedder=EmbedderSettings(deep="now"))
    side = TransformerModel(MemoryStore(folder, settings), index_of(folder))
    modes = [side.mode]
    os.chown(folder / "memvault.toml", 65_534, 65_534)
    modes.append(side.mode)
    monkeypatch.setenv("MEMVAULT_DEEP", "now")
    modes.append(side.mode)
    assert modes == ["now", "auto", "now"]


def test_deep_invalid_setting_is_reported(
    folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An invalid value for deep in the environment is reported in one sentence."""
    write(folder, "a.md", "# A\n\nzebra\n")
    monkeypatch.setenv("MEMVAULT_DEEP", "later")
    ran = run("recall", "zebra")
    assert ran.code == 2
    assert "MEMVAULT_DEEP must be one of auto, off, now" in ran.err


def test_deep_missing_vector_is_estimated_from_quick_cosine() -> None:
    """A memory without deep vectors gets the typical deep cosine for its quick cosine."""
    chance = np.random.default_rng(3)
    quick = chance.uniform(-0.2, 0.9, 400).astype(np.float32)
    deep = (0.6 * quick + 0.1 + chance.normal(0, 0.05, 400)).astype(np.float32)
    seen = np.where(chance.random(400) < 0.6, deep, np.float32(np.nan))
    uids = np.arange(400) // 2
    passages = ScoredPassages(uids, np.zeros(400, np.uint64), quick)
    every = set(range(200))
    known = {hit.uid: hit.deep for hit in nearest(passages, deep, every, 400, set()).hits}
    found = {hit.uid: hit.deep for hit in nearest(passages, seen, every, 400, set()).hits}
    assert found.keys() == known.keys() == every
    differences = [float(found[uid] or 0) - float(known[uid] or 0) for uid in every]
    assert abs(float(np.mean(differences))) < 0.02
    assert max(map(abs, differences)) < 0.25
    alone = nearest(passages, None, every, 5, {7}).hits
    assert all(hit.deep is None for hit in alone)
    assert {hit.uid for hit in alone} >= {7}


def test_deep_hits_include_nearest_by_either_vector() -> None:
    """Hits are the nearest memories by quick and by deep vectors, plus any requested explicitly."""
    quick = np.array([0.9, 0.8, 0.1, 0.2, 0.0], np.float32)
    deep = np.array([0.1, 0.2, 0.9, 0.8, 0.0], np.float32)
    passages = ScoredPassages(np.arange(5), np.zeros(5, np.uint64), quick)
    found = nearest(passages, deep, {0, 1, 2, 3}, 1, {4}).hits
    assert [hit.uid for hit in found] == [2, 0, 4]
    assert [hit.uid for hit in nearest(passages, deep, {0, 1, 3}, 1, set()).hits] == [3, 0]


def test_deep_processes_share_added_vectors(tmp_path: Path) -> None:
    """A process that adds vectors detects vectors that other processes have added or removed."""
    card = VectorCard("m", "1", 2)
    rows = np.eye(2, dtype=np.float32)
    mine = VectorStore.create(tmp_path / "m", card)
    other = VectorStore.open(tmp_path / "m")
    assert other is not None
    mine.add(np.array([7, 9], np.uint64), rows)
    other.add(np.array([9, 7], np.uint64), rows[::-1])
    other.add(np.array([5, 5], np.uint64), rows)
    assert other.card.rows == 3
    found = VectorStore.open(tmp_path / "m")
    assert found is not None
    assert found.row_numbers(np.array([5, 6, 7, 9], np.uint64)).tolist() == [2, -1, 0, 1]
    cosines = found.score(rows[0], found.row_numbers(np.array([7, 6], np.uint64)))
    assert cosines[0] == 1.0
    assert np.isnan(cosines[1])


def test_deep_second_process_keeps_existing_vectors(tmp_path: Path) -> None:
    """A process that has just seen no vectors does not discard vectors added by another process."""
    card = VectorCard("m", "1", 2)
    hashes = np.array([7, 9], np.uint64)
    VectorStore.create(tmp_path / "m", card).add(hashes, np.eye(2, dtype=np.float32))
    second = VectorStore.create(tmp_path / "m", card)
    assert second.row_numbers(hashes).tolist() == [0, 1]
    newer = VectorStore.create(tmp_path / "m", card._replace(version="2"))
    assert newer.card.rows == 0


def test_deep_vectors_are_readable_during_compaction(tmp_path: Path) -> None:
    """If files are replaced after a process read their metadata, it opens the new files."""
    folder = tmp_path / "m"
    writer = VectorStore.create(folder, VectorCard("m", "1", 2))
    hashes = np.array([7, 9], np.uint64)
    writer.add(hashes, np.eye(2, dtype=np.float32))

    class Late(VectorFile):
        """A reader that looks at the files only after they were replaced."""

        @property
        def is_unchanged(self) -> bool:
            if writer.card.generation == 0:
                rows = UnitRows.encode(np.eye(2, dtype=np.float32)[:1])
                no_tokens = np.zeros((0, 0), np.uint8)
                writer._file.replace(rows, hashes[:1], np.zeros(1, np.uint64), no_tokens)
            return super().is_unchanged

    found = Late.open(folder)
    assert found is not None
    assert VectorStore(found).row_numbers(hashes).tolist() == [0, -1]


def test_deep_unused_vectors_are_removed(tmp_path: Path) -> None:
    """If more than half of many vectors belong to no memory, the unused ones are removed."""
    found = VectorStore.create(tmp_path / "m", VectorCard("m", "1", 2))
    hashes = np.arange(1_500, dtype=np.uint64)
    found.add(hashes, np.ones((1_500, 2), np.float32))
    found.compact(hashes[:800], 0)
    assert found.card.rows == 1_500
    found.compact(hashes[:700], 0)
    assert found.card.rows == 700
    assert found.row_numbers(hashes[[0, 699, 700]]).tolist() == [0, 699, -1]


def test_deep_embedding_starts_with_last_changed_memory(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A note that is edited while others lack transformer vectors is embedded next."""
    monkeypatch.setenv("MEMVAULT_DEEP", "auto")
    monkeypatch.setattr(transformer_writer, "_BATCH", 4)
    _filled(folder, 100)
    for number in range(100):
        os.utime(folder / "n" / f"{number}.md", (10**9 + number, 10**9 + number))
    workspace = Workspace(folder)
    index = workspace.index
    assert isinstance(index, LocalIndex)
    index.refresh(True, COMPLETE)
    edited = folder / "n" / "1.md"
    steps: list[set[str]] = []

    def lacking() -> set[str]:
        return {part.path for part in index.schedule._pending_parts(frozenset())}

    def go_on() -> bool:
        steps.append(lacking())
        if len(steps) == 2:
            edited.write_text("# Note 1\n\nAnother text.\n", "utf-8")
            index.refresh(True, COMPLETE)
        return len(steps) < 8

    assert index.transformer.folder is not None
    index.transformer.folder.mkdir()
    with FileLock(index.transformer.folder / background_embedding.BACKGROUND_LOCK):
        index.schedule.embed_missing(go_on)
    assert "n/1.md" in steps[1]
    assert "n/1.md" not in lacking()
    assert len(lacking()) > 50
    workspace.close()


def test_deep_status_estimates_remaining_time(folder: Path, run: Run, auto: None) -> None:
    """While vectors are computed, status counts passages and estimates the remaining time."""
    _filled(folder, 1_000)
    succeeded(run("recall", "green"))
    until(lambda: "secondsLeft" in _deep(folder))
    found = _deep(folder)
    assert 0 < found["waitingPassages"] < found["passages"] == 1_000
    assert found["secondsLeft"] > 0
    assert re.search(r"about \d+ (seconds?|minutes|hours) left", succeeded(run("status")).out)


def test_deep_first_hits_are_stable_while_embedding(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With half of the vectors, the first hit is the one without vectors or with all of them."""
    monkeypatch.setenv("MEMVAULT_DEEP", "auto")
    monkeypatch.setattr(transformer_writer, "_BATCH", 1)
    corpus = Path(__file__).parents[1] / "bench" / "everyday" / "everyday-ops"
    documents = list(map(json.loads, (corpus / "corpus.jsonl").read_text("utf-8").splitlines()))
    queries = list(map(json.loads, (corpus / "queries.jsonl").read_text("utf-8").splitlines()))
    for number, document in enumerate(documents[:20]):
        write(folder, f"n/{number}.md", f"# {document['title']}\n\n{document['text']}\n")
    index = Workspace(folder).index
    assert isinstance(index, LocalIndex)
    index.refresh(True, COMPLETE)
    assert index.transformer.folder is not None
    index.transformer.folder.mkdir()
    firsts = []
    with (
        FileLock(index.transformer.folder / background_embedding.BACKGROUND_LOCK),
        open_vault(folder) as vault,
    ):
        for most in (20, 10, -1):
            index.schedule.embed_missing(
                partial(lambda most: index.schedule.pending() > most, most)
            )
            found = [vault.call("memory_recall", query=entry["text"]) for entry in queries[:10]]
            firsts.append([titles(answer)[0] for answer in found])
    without, half, complete = firsts
    assert without != complete
    assert all(
        between in (before, after)
        for before, between, after in zip(without, half, complete, strict=True)
    )
