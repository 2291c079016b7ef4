"""Embedders: the built-in one, and any ONNX model through fastembed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from conftest import SHARED, Run, index_of, titles, until, write
from memvault import Vault, open_vault
from memvault.errors import EmbedderError
from memvault.files.lock import FileLock
from memvault.index.embedding import tokenizer
from memvault.index.embedding.embedder import Calibration
from memvault.index.embedding.static import StaticEmbedder
from memvault.index.embedding.transformer import load_embedder

TEACHER = SHARED / "models" / "all-MiniLM-L6-v2"
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "database", "postgres", "cat", "fish", "storage"]


def make_model(folder: Path, width: int = 8) -> Path:
    """Write a model of a few words: token vectors, as a transformer's output would be."""
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
    """Write a graph over token ids, and the files of a tokenizer that knows these words."""
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
    """A tiny model in a folder of its own."""
    return make_model(tmp_path / "tiny-model")


def test_the_built_in_embedder_works_without_anything_else() -> None:
    """Related texts are nearer than unrelated ones, with nothing downloaded."""
    embedder = StaticEmbedder()
    near, other, far = embedder.embed(
        ["The database is PostgreSQL", "We store data in Postgres", "Bananas ripen in a bag"]
    )
    assert near @ other > near @ far
    assert near.shape == (embedder.dimension,)
    assert np.isclose(np.linalg.norm(near), 1.0, atol=1e-5)


def test_texts_without_a_token_get_a_vector_too() -> None:
    """An empty text is embedded as nothing and never as an error."""
    vectors = StaticEmbedder().embed(["", "   ", "word"])
    assert vectors.shape[0] == 3
    assert not np.isnan(vectors).any()


def test_embedding_does_not_depend_on_the_neighbours() -> None:
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
def test_a_text_has_the_same_tokens_alone_and_among_many(texts: list[str]) -> None:
    """Of many texts each word is encoded once; which tokens a text has does not change by it."""
    many = TABLE.tokens(texts)
    for text, tokens in zip(texts, many, strict=True):
        assert tokens.tolist() == TABLE.tokens([text])[0].tolist()


def test_similarity_rises_with_the_cosine() -> None:
    """The calibrated similarity keeps the order of the cosines and stays within 0 and 1."""
    calibration = Calibration(8.0, 0.5)
    values = [calibration.similarity(cosine / 10) for cosine in range(-10, 11)]
    assert values == sorted(values)
    assert 0 <= values[0] < values[-1] <= 1


def test_a_model_folder_can_be_used(
    vault: Vault, folder: Path, model: Path, deep_now: None
) -> None:
    """After model use FOLDER, recall by meaning asks that model."""
    write(folder, "a.md", "# A\n\npostgres storage\n")
    write(folder, "b.md", "# B\n\ncat fish\n")
    used = vault.call("model_use", name=str(model))
    assert used["success"], used
    assert used["dimension"] == 8
    assert used["embedded"] == 2
    assert titles(vault.call("memory_recall", query="database", type="vector", limit=1)) == ["A"]
    status = vault.call("vault_status")
    assert status["deep"]["vectors"] == 2
    assert status["deep"]["name"] == str(model)
    assert status["embedder"]["vectors"] == 2
    assert vault.call("model_verify")["dimension"] == 8


def test_the_settings_keep_their_comments(vault: Vault, folder: Path, model: Path) -> None:
    """Choosing a model changes one line of memvault.toml."""
    write(folder, "memvault.toml", "# mine\nversion = 1  # one\n")
    assert vault.call("model_use", name=str(model))["success"]
    text = (folder / "memvault.toml").read_text("utf-8")
    assert "# mine" in text
    assert "version = 1  # one" in text
    assert vault.call("model_use", name="builtin")["previous"] == str(model)


def test_a_new_memory_is_embedded_by_the_model_in_use(
    vault: Vault, folder: Path, model: Path, deep_now: None
) -> None:
    """A file added after model use is found by meaning at once."""
    assert vault.call("model_use", name=str(model))["success"]
    write(folder, "fish.md", "# Pets\n\ncat fish cat\n")
    write(folder, "db.md", "# Data\n\npostgres database\n")
    assert titles(vault.call("memory_recall", query="cat", type="vector", limit=1)) == ["Pets"]


def test_a_changed_model_is_noticed(
    vault: Vault, folder: Path, model: Path, deep_now: None
) -> None:
    """Vectors of another version of a model are never mixed with new ones."""
    write(folder, "a.md", "# A\n\npostgres\n")
    assert vault.call("model_use", name=str(model))["success"]
    tokens = model / "tokenizer.json"
    tokens.write_text(tokens.read_text("utf-8") + "\n", "utf-8")
    with open_vault(folder) as fresh:
        assert fresh.call("vault_reindex")["success"]
        assert titles(fresh.call("memory_recall", query="postgres", type="vector")) == ["A"]


def test_vectors_of_an_older_table_are_made_anew(run: Run, folder: Path) -> None:
    """After an upgrade with another built-in table, the next recall embeds by it, unasked."""
    write(folder, "a.md", "# A\n\npostgres storage\n")
    assert run("recall", "postgres").code == 0
    card = next((index_of(folder) / "index" / "vectors").rglob("card.json"))
    entries = json.loads(card.read_text("utf-8"))
    card.write_text(json.dumps({**entries, "version": "older"}), "utf-8")
    ran = run("recall", "database", "--mode", "vector", "--json")
    assert titles(ran.json) == ["A"]
    assert "warnings" not in ran.json
    assert json.loads(card.read_text("utf-8"))["version"] == entries["version"]


@pytest.mark.parametrize("name", ["no/such-model", "/no/such/folder", "./nowhere"])
def test_a_model_that_is_not_there_changes_nothing(run: Run, folder: Path, name: str) -> None:
    """A failed model use is one sentence, and the vault goes on as it was."""
    before = (folder / "memvault.toml").read_bytes()
    ran = run("model", "use", name)
    assert ran.code == 1
    assert ran.err.startswith("error: ")
    assert "hint: " in ran.err
    assert "Traceback" not in ran.err
    assert (folder / "memvault.toml").read_bytes() == before


def test_a_known_model_that_is_not_here_is_said_so_at_once(folder: Path) -> None:
    """Offline, a fastembed model that was never fetched is a clear no."""
    with pytest.raises(EmbedderError, match="not on this machine"):
        load_embedder("BAAI/bge-small-en-v1.5", folder)


def test_recall_goes_on_without_the_model(run: Run, folder: Path, deep_now: None) -> None:
    """Where the chosen model is missing, the built-in table answers, and a note says so."""
    write(folder, "memvault.toml", '[embedder]\nmodel = "BAAI/bge-small-en-v1.5"\n')
    write(folder, "a.md", "# Alpha\n\nzebra\n")
    for mode in ("hybrid", "vector"):
        ran = run("recall", "zebra", "--mode", mode)
        assert ran.code == 0
        assert "Alpha" in ran.out
        assert "not on this machine" in ran.err
        assert "memvault model use BAAI/bge-small-en-v1.5" in ran.err


def test_a_killed_model_change_is_finished_later(
    folder: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed while embedding, the vault still answers, and reindex completes the vectors."""
    for number in range(300):
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
    with FileLock(index_of(folder) / "deep" / "following.lock"):  # nobody follows behind
        _is_finished_later(folder)


def _is_finished_later(folder: Path) -> None:
    with open_vault(folder) as vault:
        assert vault.call("vault_status")["deep"]["waiting"] > 0
        assert vault.call("memory_recall", query="cat fish 7", limit=3)["count"] == 3
        assert vault.call("vault_reindex")["success"]
        assert vault.call("vault_status")["deep"]["waiting"] == 0


@pytest.mark.skipif(not TEACHER.is_dir(), reason="the shared MiniLM model is not on this machine")
def test_a_real_transformer_can_be_used(vault: Vault, folder: Path, deep_now: None) -> None:
    """all-MiniLM-L6-v2 from a folder finds what shares no word with the question."""
    write(folder, "db.md", "# Storage\n\nPostgreSQL keeps our records.\n")
    write(folder, "pet.md", "# Pets\n\nThe kitten sleeps on the sofa.\n")
    assert vault.call("model_use", name=str(TEACHER))["dimension"] == 384
    found = vault.call("memory_recall", query="a young cat napping", type="vector", limit=1)
    assert titles(found) == ["Pets"]
    assert vault.call("model_verify")["works"]


def test_the_tokenizer_is_loaded_once() -> None:
    """A recall by both embedders reads the tokenizer's file once, however it is asked for."""
    assert tokenizer.open_tokenizer() is tokenizer.open_tokenizer(tokenizer.DATA)
