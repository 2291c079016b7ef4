"""Queries are embedded without ONNX Runtime, to nearly the same vectors."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from conftest import sampled, titles, write
from locate_weights import locate
from memvault import Vault
from memvault.errors import EmbedderError
from memvault.index.embedding import transformer
from memvault.index.embedding.embedder import BUILTIN, REINSTALL
from memvault.index.embedding.numpy_transformer import WEIGHTS
from memvault.index.embedding.transformer import DATA, BuiltinTransformer

HOME = Path(__file__).parents[1] / "bench" / "everyday" / "everyday-home"
LONG = "The spare key is under the blue pot beside the back door. " * 30


def _queries() -> list[str]:
    lines = (HOME / "queries.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line)["text"] for line in lines]


def test_weight_offsets_match_the_model_file() -> None:
    """The stored weight offsets match the model file that they were generated from."""
    assert json.loads((DATA / WEIGHTS).read_text("utf-8")) == locate(DATA / "model.onnx")


def test_numpy_query_vectors_match_onnx_runtime() -> None:
    """NumPy query vectors match those of ONNX Runtime up to small rounding differences."""
    model, queries = BuiltinTransformer(), [*_queries(), "key", LONG[:600]]
    found = [model.embed_query_tokens(text) for text in queries]
    passages = model.embed_tokens(queries)
    for query, passage in zip(found, passages, strict=True):
        assert query.ids.tolist() == passage.ids[1:-1].tolist()
        assert query.tokens.shape == passage.tokens[1:-1].shape
        assert ((query.tokens * passage.tokens[1:-1]).sum(axis=1) > 0.97).all()
    cosines = np.array(
        [query.vector @ passage.vector for query, passage in zip(found, passages, strict=True)]
    )
    assert cosines.min() > 0.99
    assert np.median(cosines) > 0.99999


def test_few_texts_have_the_vectors_of_many() -> None:
    """Texts embedded during a search have their stored vectors, also if long or not English."""
    model = BuiltinTransformer()
    texts = [
        *_queries()[:5],
        LONG,
        "会議\n\n会議は三時に始まります。",
        "Привет, собрание в три часа",
        "",
    ]
    for few, many in zip(model.embed_few_tokens(texts), model.embed_tokens(texts), strict=True):
        assert few.ids.tolist() == many.ids.tolist()
        assert few.vector @ many.vector > 0.99


def _digest() -> str:
    model = BuiltinTransformer()
    found = [model.embed_query_tokens(text) for text in (*_queries()[:9], LONG)]
    return hashlib.sha256(
        b"".join(own.vector.tobytes() + own.tokens.tobytes() for own in found)
    ).hexdigest()


@sampled(2)
@pytest.mark.parametrize("threads", ["4", "1"])
def test_query_vectors_are_identical_across_processes(threads: str) -> None:
    """A query has bit-identical vectors in another process with any number of threads."""
    code = "import test_numpy_transformer; print(test_numpy_transformer._digest())"
    paths = os.pathsep.join([str(Path(__file__).parent), *map(str, sys.path)])
    environment = os.environ | {"OPENBLAS_NUM_THREADS": threads, "PYTHONPATH": paths}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == _digest()


def test_concurrent_queries_get_their_own_vectors() -> None:
    """Threads that use the same model each get the vectors of their own query."""
    model, queries = BuiltinTransformer(), _queries()[:20]
    alone = [model.embed_query(text) for text in queries]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(model.embed_query, queries * 2))
    assert all(map(np.array_equal, together, alone * 2))


@pytest.fixture
def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the model that the built-in transformer uses from now on."""
    folder = shutil.copytree(DATA, tmp_path / "deep")
    monkeypatch.setitem(transformer.FOLDERS, BUILTIN, folder)
    return folder


def _damage(folder: Path, how: str) -> None:
    model, weights = folder / "model.onnx", folder / WEIGHTS
    about = json.loads(weights.read_text("utf-8"))
    with model.open("r+b") as file:
        if how == "no list":
            weights.unlink()
        elif how == "half a list":
            weights.write_text(weights.read_text("utf-8")[:999], "utf-8")
        elif how == "another list":
            weights.write_text(json.dumps({"size": about["size"], "tensors": {}}), "utf-8")
        elif how == "half a model":
            file.truncate(about["size"] // 2)
        elif how == "empty":
            file.truncate(0)
        elif how == "moved weights":
            file.write(b"\0" * (about["size"] // 2))
        else:
            file.seek(about["tensors"]["3.inner.scales"][1])
            file.write(np.full(384, np.nan, np.float32).tobytes())


DAMAGES = [
    "no list",
    "half a list",
    "another list",
    "half a model",
    "empty",
    "moved weights",
    "nan",
]


@pytest.mark.parametrize("how", DAMAGES)
def test_damaged_model_weights_are_reported_with_a_hint(copied: Path, how: str) -> None:
    """Missing, truncated, moved or invalid weights cause one error with a hint to repair them."""
    _damage(copied, how)
    with pytest.raises(EmbedderError, match="built-in model cannot be used") as raised:
        BuiltinTransformer().embed_query("Where is the key?")
    assert raised.value.hint == REINSTALL


def test_recall_falls_back_if_model_weights_are_damaged(
    vault: Vault, folder: Path, copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With damaged weights, recall warns and uses keywords and static vectors."""
    monkeypatch.setenv("MEMVAULT_DEEP", "now")
    write(folder, "key.md", "# Key\n\nThe spare key is under the blue pot.\n")
    write(folder, "cat.md", "# Cat\n\nThe kitten sleeps on the sofa.\n")
    assert vault.call("vault_reindex")["success"]
    _damage(copied, "no list")
    found = vault.call("memory_recall", query="spare key")
    assert titles(found)[0] == "Key"
    assert "built-in model cannot be used" in found["warnings"][0]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="threads are counted in /proc")
@pytest.mark.parametrize(("chosen", "threads"), [({}, 1), ({"OPENBLAS_NUM_THREADS": "2"}, 2)])
def test_command_computes_vectors_in_one_thread(chosen: dict[str, str], threads: int) -> None:
    """A command computes in one thread unless configured; subprocesses keep their own setting."""
    code = """
import atexit, os, sys

@atexit.register  # the process ends within main
def count():
    import numpy
    print(len(os.listdir("/proc/self/task")), os.environ.get("OPENBLAS_NUM_THREADS"))

sys.argv = ["memvault", "--version"]
from memvault.__main__ import main
main()
"""
    others = {key: value for key, value in os.environ.items() if "NUM_THREADS" not in key}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=others | chosen,
        capture_output=True,
        text=True,
        check=True,
    )
    *_, shown, variable = done.stdout.split()
    assert int(shown) == min(threads, os.cpu_count() or 1)
    assert variable == chosen.get("OPENBLAS_NUM_THREADS", "None")
