"""Embedders return vectors and an increasing calibration; models load only if allowed."""

from __future__ import annotations

import json
import math
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import calibrate as training
from conftest import SHARED, Run, called, explained, index_of, sampled_tests, titles, until, write
from memvault import Vault, open_vault
from memvault.errors import EmbedderError
from memvault.files.lock import FileLock
from memvault.index.embedding import calibrate, tokenizer, wordpiece
from memvault.index.embedding.embedder import Calibration, Embedder, read_card
from memvault.index.embedding.static import StaticEmbedder
from memvault.index.embedding.transformer import DATA, load_embedder
from memvault.index.local.index_files import INDEX

pytestmark = sampled_tests(2)

TEACHER = SHARED / "models" / "all-MiniLM-L6-v2"
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "database", "postgres", "cat", "fish", "storage"]


def make_model(folder: Path, width: int = 8) -> Path:
    """Write a model of a few words: token vectors, like a transformer's output."""
    from onnx import TensorProto, helper, numpy_helper

    table = np.zeros((len(WORDS), width), dtype=np.float32)
    for number, word in enumerate(WORDS):
        about = 0 if word in ("database", "postgres", "storage") else 1
        table[number, about] = 1.0
        table[number, 2 + number % (width - 2)] = 0.3
    output = helper.make_tensor_value_info(
        "last_hidden_state", TensorProto.FLOAT, ["batch", "length", width]
    )
    return save_model(
        folder,
        WORDS,
        [helper.make_node("Gather", ["table", "input_ids"], ["last_hidden_state"])],
        output,
        [numpy_helper.from_array(table, "table")],
    )


def save_model(
    folder: Path, words: list[str], nodes: list[Any], output: Any, constants: list[Any]
) -> Path:
    """Write a graph over token ids, and the files of a tokenizer with these words."""
    import onnx
    from onnx import TensorProto, helper
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    folder.mkdir(parents=True)
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "length"])
        for name in ("input_ids", "attention_mask")
    ]
    graph = helper.make_graph(nodes, "tiny", inputs, [output], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 9
    onnx.save(model, str(folder / "model.onnx"))
    tokenizer = Tokenizer(
        models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="[UNK]")
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]"}
    (folder / "special_tokens_map.json").write_text(json.dumps(special), "utf-8")
    settings = {"model_max_length": 64, "pad_token": "[PAD]"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), "utf-8")
    (folder / "config.json").write_text(json.dumps({"pad_token_id": 0}), "utf-8")
    return folder


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A tiny model in a temporary folder."""
    return make_model(tmp_path / "tiny-model")


def test_embedder_builtin_works_offline() -> None:
    """Related texts are nearer than unrelated ones, without any download."""
    embedder = StaticEmbedder()
    near, other, far = embedder.embed(
        ["The database is PostgreSQL", "We store data in Postgres", "Bananas ripen in a bag"]
    )
    assert near @ other > near @ far
    assert near.shape == (embedder.dimension,)
    assert np.isclose(np.linalg.norm(near), 1.0, atol=1e-5)


def test_embedder_accepts_empty_text() -> None:
    """An empty string gets a vector without NaN values and never causes an error."""
    vectors = StaticEmbedder().embed(["", "   ", "word"])
    assert vectors.shape[0] == 3
    assert not np.isnan(vectors).any()


def test_embedder_vector_does_not_depend_on_batch() -> None:
    """A text's vector is the same alone and in a batch of any size."""
    embedder = StaticEmbedder()
    texts = [f"text number {number} about {'cats ' * (number % 9)}" for number in range(150)]
    together = embedder.embed(texts)
    assert np.allclose(together[70], embedder.embed([texts[70]])[0], atol=1e-6)
    assert np.allclose(together[149], embedder.embed_query(texts[149]), atol=1e-6)


TABLE = StaticEmbedder()


@given(st.lists(st.text(max_size=60), min_size=20, max_size=40))
@example(
    ["caf\u0065\u0301 a\u00a0b", "a\x1cb\x85c\u2028d", "\u4e16\u754c x\ty\r\nz", "I\u0307"] * 8
)
def test_embedder_tokens_do_not_depend_on_batch(texts: list[str]) -> None:
    """A text has the same tokens alone and in a batch, where each word is encoded once."""
    many = TABLE.tokens(texts)
    for text, tokens in zip(texts, many, strict=True):
        assert tokens.tolist() == TABLE.tokens([text])[0].tolist()


def test_embedder_similarity_rises_with_cosine() -> None:
    """The calibrated similarity keeps the order of the cosines and stays within 0 and 1."""
    calibration = Calibration(8.0, 0.5)
    values = [calibration.similarity(cosine / 10) for cosine in range(-10, 11)]
    assert values == sorted(values)
    assert 0 <= values[0] < values[-1] <= 1


def test_embedder_can_be_a_model_folder(
    vault: Vault, folder: Path, model: Path, deep_now: None
) -> None:
    """After model use FOLDER, semantic recall uses that model."""
    write(folder, "a.md", "# A\n\npostgres storage\n")
    write(folder, "b.md", "# B\n\ncat fish\n")
    used = called(vault, "model_use", name=str(model))
    assert used["dimension"] == 8
    assert used["embedded"] == 2
    assert titles(vault.call("memory_recall", query="database", type="vector", limit=1)) == ["A"]
    status = vault.call("vault_status")
    assert status["deep"]["vectors"] == 2
    assert status["deep"]["name"] == str(model)
    assert status["embedder"]["vectors"] == 2
    assert vault.call("model_verify")["dimension"] == 8


def test_embedder_choice_keeps_settings_comments(vault: Vault, folder: Path, model: Path) -> None:
    """Selecting a model changes one line of memvault.toml."""
    write(folder, "memvault.toml", "# mine\nversion = 1  # one\n")
    assert vault.call("model_use", name=str(model))["success"]
    text = (folder / "memvault.toml").read_text("utf-8")
    assert "# mine" in text
    assert "version = 1  # one" in text
    assert vault.call("model_use", name="builtin")["previous"] == str(model)


def test_embedder_in_use_embeds_new_memory(
    vault: Vault, folder: Path, model: Path, deep_now: None
) -> None:
    """Semantic recall immediately finds a file added after model use."""
    assert vault.call("model_use", name=str(model))["success"]
    write(folder, "fish.md", "# Pets\n\ncat fish cat\n")
    write(folder, "db.md", "# Data\n\npostgres database\n")
    assert titles(vault.call("memory_recall", query="cat", type="vector", limit=1)) == ["Pets"]


def test_embedder_detects_changed_model(
    vault: Vault, folder: Path, model: Path, deep_now: None
) -> None:
    """Vectors from another version of a model are never mixed with new ones."""
    write(folder, "a.md", "# A\n\npostgres\n")
    assert vault.call("model_use", name=str(model))["success"]
    tokens = model / "tokenizer.json"
    tokens.write_text(tokens.read_text("utf-8") + "\n", "utf-8")
    with open_vault(folder) as fresh:
        assert fresh.call("vault_reindex")["success"]
        assert titles(fresh.call("memory_recall", query="postgres", type="vector")) == ["A"]


def test_embedder_replaces_vectors_of_old_table(run: Run, folder: Path) -> None:
    """After an upgrade with a new built-in table, the next recall recomputes the vectors."""
    write(folder, "a.md", "# A\n\npostgres storage\n")
    assert run("recall", "postgres").code == 0
    card = next((index_of(folder) / INDEX / "vectors").rglob("card.json"))
    entries = json.loads(card.read_text("utf-8"))
    card.write_text(json.dumps({**entries, "version": "older"}), "utf-8")
    ran = run("recall", "database", "--mode", "vector", "--json")
    assert titles(ran.json) == ["A"]
    assert "warnings" not in ran.json
    assert json.loads(card.read_text("utf-8"))["version"] == entries["version"]


@pytest.mark.parametrize("name", ["no/such-model", "/no/such/folder", "./nowhere"])
def test_embedder_missing_model_changes_nothing(run: Run, folder: Path, name: str) -> None:
    """If model use fails, one sentence reports it and the vault keeps working as before."""
    before = (folder / "memvault.toml").read_bytes()
    ran = run("model", "use", name)
    assert ran.code == 1
    assert ran.err.startswith("error: ")
    assert "hint: " in ran.err
    assert "Traceback" not in ran.err
    assert (folder / "memvault.toml").read_bytes() == before


def test_embedder_falls_back_to_builtin_table(run: Run, folder: Path, deep_now: None) -> None:
    """If the selected model is missing, the built-in table answers with a note."""
    write(folder, "memvault.toml", '[embedder]\nmodel = "BAAI/bge-small-en-v1.5"\n')
    write(folder, "a.md", "# Alpha\n\nzebra\n")
    for mode in ("hybrid", "vector"):
        ran = run("recall", "zebra", "--mode", mode)
        assert ran.code == 0
        assert "Alpha" in ran.out
        assert "not on this machine" in ran.err
        assert "memvault model use BAAI/bge-small-en-v1.5" in ran.err


def test_embedder_change_resumes_after_kill(
    folder: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a kill while embedding, recall still answers and reindex completes the vectors."""
    for number in range(150):
        write(folder, f"n{number}.md", f"# Note {number}\n\ncat fish {number}\n")
    with open_vault(folder) as vault:
        assert vault.call("memory_recall", query="cat")["success"]
    monkeypatch.setenv("MEMVAULT_DEEP", "auto")
    child = subprocess.Popen(
        [sys.executable, "-m", "memvault", "model", "use", str(model)],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    until(lambda: str(model) in (folder / "memvault.toml").read_text("utf-8"))
    child.send_signal(signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
    with FileLock(index_of(folder) / "deep" / "following.lock"):  # no embedding process can run
        _is_finished_later(folder)


def _is_finished_later(folder: Path) -> None:
    with open_vault(folder) as vault:
        assert vault.call("vault_status")["deep"]["waiting"] > 0
        assert vault.call("memory_recall", query="cat fish 7", limit=3)["count"] == 3
        assert vault.call("vault_reindex")["success"]
        assert vault.call("vault_status")["deep"]["waiting"] == 0


@pytest.mark.skipif(not TEACHER.is_dir(), reason="the shared MiniLM model is not on this machine")
def test_embedder_can_be_a_real_transformer(vault: Vault, folder: Path, deep_now: None) -> None:
    """With all-MiniLM-L6-v2 from a folder, recall finds a memory that shares no query words."""
    write(folder, "db.md", "# Storage\n\nPostgreSQL keeps our records.\n")
    write(folder, "pet.md", "# Pets\n\nThe kitten sleeps on the sofa.\n")
    assert vault.call("model_use", name=str(TEACHER))["dimension"] == 384
    found = vault.call("memory_recall", query="a young cat napping", type="vector", limit=1)
    assert titles(found) == ["Pets"]
    assert vault.call("model_verify")["works"]


def test_embedder_tokenizer_is_loaded_once() -> None:
    """A recall with both embedders reads the tokenizer's file only once."""
    assert tokenizer.open_tokenizer() is tokenizer.open_tokenizer(wordpiece.DATA)


MINILM = SHARED / "models" / "all-MiniLM-L6-v2"
SAME = [
    ("The invoice service keeps its data in MongoDB", "MongoDB holds the invoice service's data"),
    ("How can I export my calendar to a file?", "What is the way to export a calendar as a file?"),
    ("The printer on the second floor is out of paper", "Second floor printer: no paper left"),
    (
        "Our standup meeting is at nine every morning",
        "Every morning at nine we have the standup meeting",
    ),
]
OTHER = [
    ("The invoice service keeps its data in MongoDB", "My aunt grows tomatoes on her balcony"),
    ("How can I export my calendar to a file?", "How can I share my calendar with a friend?"),
    ("The login button does nothing on Android", "We went hiking in the Alps"),
    ("Our standup meeting is at nine every morning", "The parser rejects nested comments"),
]


@pytest.fixture
def used(folder: Path, tmp_path: Path, run: Run, deep_now: None) -> Path:
    """The card of the vectors in a vault that a tiny model has embedded."""
    model = make_model(tmp_path / "tiny-model")
    write(folder, "a.md", "# A\n\npostgres storage\n")
    write(folder, "b.md", "# B\n\ncat fish\n")
    assert run("model", "use", str(model)).code == 0
    return next((index_of(folder) / "deep").rglob("card.json"))


@pytest.fixture
def fits(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The embedders that were calibrated since the test began."""
    found: list[str] = []
    fitted: Callable[[Embedder], Calibration] = calibrate.calibrate

    def counted(embedder: Embedder) -> Calibration:
        found.append(embedder.name)
        return fitted(embedder)

    monkeypatch.setattr(calibrate, "calibrate", counted)
    return found


def recalled(folder: Path) -> dict[str, Any]:
    """Recall by meaning in a newly opened vault; return the first hit's explanation."""
    with open_vault(folder) as vault:
        found = vault.call("memory_recall", query="database", type="vector", explain=True)
    assert titles(found)[0] == "A"
    assert "warnings" not in found
    why: dict[str, Any] = found["memories"][0]["why"]
    return why


def without_calibration(card: Path) -> dict[str, Any]:
    """Remove the calibration from a card, as in older versions; return the removed part."""
    entries: dict[str, Any] = json.loads(card.read_text("utf-8"))
    new = {"calibrated", "slope", "midpoint"}
    old = {key: value for key, value in entries.items() if key not in new}
    card.write_text(json.dumps(old), "utf-8")
    return entries


@given(
    st.floats(1.0, 200.0),
    st.floats(-5.0, 5.0),
    st.lists(st.floats(-1.01, 1.01), min_size=2, max_size=20),
)
def test_embedder_similarity_is_monotonic_for_any_constants(
    slope: float, midpoint: float, cosines: list[float]
) -> None:
    """For any constants, similarity never falls as the cosine rises, and stays in 0..1."""
    found = [Calibration(slope, midpoint).similarity(cosine) for cosine in sorted(cosines)]
    assert found == sorted(found)
    assert all(0.0 <= similarity <= 1.0 for similarity in found)


@given(st.lists(st.floats(-1.0, 1.0) | st.just(math.nan), min_size=4, max_size=40), st.data())
def test_embedder_calibration_is_always_increasing(
    cosines: list[float], data: st.DataObject
) -> None:
    """Similarity increases with the cosine even if a model separates the anchors badly."""
    both = list(calibrate.anchor_targets()[1:])
    more = len(cosines) - len(both)
    targets = both + data.draw(st.lists(st.sampled_from(both), min_size=more, max_size=more))
    found = calibrate.fit_logistic(np.array(cosines), np.array(targets))
    assert 1.0 <= found.slope <= 200.0
    assert math.isfinite(found.midpoint)


def test_embedder_nan_vector_matches_nothing(
    run: Run, folder: Path, tmp_path: Path, deep_now: None
) -> None:
    """If a model returns NaN for a text, only keywords find it, without a warning."""
    from onnx import TensorProto, helper, numpy_helper

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "cat", "dog"]
    table = np.random.default_rng(0).normal(size=(len(words), 8)).astype(np.float32)
    table[words.index("dog")] = np.nan
    shape = ["batch", "length", 8]
    output = helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, shape)
    gather = helper.make_node("Gather", ["table", "input_ids"], ["last_hidden_state"])
    initial = [numpy_helper.from_array(table, "table")]
    broken = save_model(tmp_path / "broken", words, [gather], output, initial)
    write(folder, "a.md", "# cat\n\ncat cat\n")
    write(folder, "b.md", "# dog\n\ndog dog\n")
    assert run("model", "use", str(broken)).err == ""
    for word in ("cat", "dog"):
        found = run("recall", word)
        assert (found.code, found.err) == (0, "")
        assert found.out.startswith(f"1. {word}")


def test_embedder_equal_cosines_never_reach_threshold() -> None:
    """If a model's cosines are all equal, no memory is similar enough to be forgotten."""
    targets = np.repeat(calibrate.anchor_targets()[1:], 48)
    # In the second case, unrelated pairs are closer.
    for cosines in (np.full(96, 0.9), np.linspace(0.2, 0.9, 96)):
        assert calibrate.fit_logistic(cosines, targets).similarity(1.0) < 0.6


def test_embedder_anchors_reproduce_builtin_calibration() -> None:
    """Calibrating the built-in table with the anchors reproduces its stored calibration."""
    builtin = StaticEmbedder()
    assert training.targets(builtin) == calibrate.anchor_targets()
    found = calibrate.calibrate(builtin)
    for cosine in (0.2, 0.5, 0.75, 0.9):
        expected = builtin.calibration.similarity(cosine)
        assert found.similarity(cosine) == pytest.approx(expected, abs=0.01)


def test_embedder_loads_trained_table(tmp_path: Path) -> None:
    """The metadata that a training script writes contains everything the program reads."""
    pairs, folder = tmp_path / "pairs", shutil.copytree(wordpiece.DATA, tmp_path / "table")
    rows = [{"a": a, "b": b, "label": (a, b) in SAME} for a, b in SAME + OTHER]
    write(pairs, "some.jsonl", "\n".join(map(json.dumps, rows)))
    (folder / "card.json").unlink()
    shipped, about = read_card(wordpiece.DATA), {"name": "x", "version": "9", "dimension": 256}
    training.write_card(folder / "card.json", about, lambda: StaticEmbedder(folder), pairs)
    trained = StaticEmbedder(folder)
    assert trained.version == "9"
    assert trained.calibration.slope != shipped.calibration.slope
    assert trained.calibration.separation == pytest.approx(shipped.calibration.separation, abs=1e-3)


def test_embedder_missing_anchors_are_reported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Missing anchors are reported in one sentence as an incomplete installation."""
    monkeypatch.setattr(calibrate, "ANCHORS", tmp_path / "nowhere")
    with pytest.raises(EmbedderError, match="Cannot read the calibration data"):
        calibrate.anchors()


@pytest.mark.skipif(not MINILM.is_dir(), reason="the shared MiniLM model is not on this machine")
def test_embedders_agree_on_paraphrases() -> None:
    """With the built-in table and MiniLM, only paraphrases score above 0.6."""
    for embedder in (StaticEmbedder(), load_embedder(str(MINILM), Path.cwd())):
        calibration = embedder.calibration or calibrate.calibrate(embedder)
        pairs = [calibrate.AnchorPair(a, b, True) for a, b in SAME + OTHER]
        found = [calibration.similarity(cosine) for cosine in calibrate.cosines(embedder, pairs)]
        assert min(found[: len(SAME)]) > 0.6, (embedder.name, found)
        assert max(found[len(SAME) :]) < 0.5, (embedder.name, found)


def test_embedder_is_calibrated_once(folder: Path, used: Path, fits: list[str]) -> None:
    """A model's calibration is stored with its vectors, and later recalls do not recompute it."""
    entries = json.loads(used.read_text("utf-8"))
    assert entries["slope"]
    why = recalled(folder)
    assert not fits
    # ``why`` maps a model's cosines to the scale of the built-in model.
    expected = read_card(DATA).calibration.similarity(why["deep"])
    assert why["similarity"] == pytest.approx(expected, abs=1e-3)
    assert json.loads(used.read_text("utf-8")) == entries


def test_embedder_calibration_is_kept_as_vault_grows(
    folder: Path, used: Path, fits: list[str]
) -> None:
    """Adding memories does not change the model's calibration."""
    before = json.loads(used.read_text("utf-8"))
    write(folder, "c.md", "# C\n\nfish fish\n")
    recalled(folder)
    after = json.loads(used.read_text("utf-8"))
    assert after["rows"] > before["rows"]
    assert (after["slope"], after["midpoint"]) == (before["slope"], before["midpoint"])
    assert not fits


def test_embedder_builtin_needs_no_anchors(folder: Path, fits: list[str], deep_now: None) -> None:
    """The built-in embedders include their calibration, which makes the first recall faster."""
    write(folder, "a.md", "# A\n\npostgres database\n")
    recalled(folder)
    assert not fits


def test_embedder_completes_old_metadata(folder: Path, used: Path, fits: list[str]) -> None:
    """Old vectors without calibration are calibrated once and not recomputed."""
    entries = without_calibration(used)
    rows = used.with_name("rows-0.i8").stat()
    recalled(folder)
    recalled(folder)
    assert len(fits) == 1
    assert json.loads(used.read_text("utf-8")) == entries
    assert used.with_name("rows-0.i8").stat().st_mtime_ns == rows.st_mtime_ns


def test_embedder_recalibrates_after_anchor_change(
    folder: Path, used: Path, fits: list[str], tmp_path: Path
) -> None:
    """After an upgrade with new anchors, vectors stay and the calibration is recomputed."""
    entries = json.loads(used.read_text("utf-8"))
    used.write_text(json.dumps({**entries, "calibrated": -1, "midpoint": 9.0}), "utf-8")
    with open_vault(folder) as vault:
        assert vault.call("model_use", name=str(tmp_path / "tiny-model"))["embedded"] == 0
    recalled(folder)
    assert len(fits) == 1
    assert json.loads(used.read_text("utf-8")) == entries


def test_embedder_works_with_unwritable_old_metadata(
    folder: Path, used: Path, fits: list[str]
) -> None:
    """If the metadata can't be written, each recall computes the calibration itself."""
    without_calibration(used)
    with FileLock(index_of(folder) / "lock"), FileLock(used.parents[1] / "lock"):
        assert 0 <= recalled(folder)["similarity"] <= 1
    assert len(fits) == 1


def test_embedder_recalibrates_changed_model(
    folder: Path, used: Path, fits: list[str], tmp_path: Path
) -> None:
    """A model that has changed gets new vectors and a new calibration."""
    before = json.loads(used.read_text("utf-8"))
    shutil.rmtree(tmp_path / "tiny-model")
    make_model(tmp_path / "tiny-model", width=12)
    with open_vault(folder) as vault:
        assert vault.call("model_use", name=str(tmp_path / "tiny-model"))["embedded"] == 2
    recalled(folder)
    assert len(fits) == 1
    assert json.loads(used.read_text("utf-8"))["version"] != before["version"]


def test_embedder_without_anchors_falls_back_to_keywords(
    folder: Path, tmp_path: Path, vault: Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a model loads but the anchors can't be read, recall answers from keywords."""
    model = make_model(tmp_path / "tiny-model")
    write(folder, "a.md", "# Zebra\n\nThe zebra.\n")
    write(folder, "memvault.toml", f'version = 1\n[embedder]\nmodel = "{model.as_posix()}"\n')
    monkeypatch.setattr(calibrate, "ANCHORS", folder / "none.jsonl")
    assert [entry["filePath"] for entry in explained(vault, "zebra")] == ["a.md"]
