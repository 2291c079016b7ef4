"""Transformer embedders, by the names used in settings; the static embedder has no name there."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memvault.errors import EmbedderError
from memvault.index.embedding import model_choice
from memvault.index.embedding.embedder import (
    BUILTIN,
    MODELS,
    Calibration,
    Embedder,
    fingerprint_of,
    normalize,
)
from memvault.index.embedding.fastembed_models import EMBEDDING, load, map_model_errors
from memvault.index.embedding.static import open_tokenizer

if TYPE_CHECKING:
    from memvault.index.embedding.embedder import Matrix


_BATCH = 16
"""Texts per batch, unless a model's vectors depend on the other texts of the batch."""


class OnnxEmbedder:
    """A transformer model run by ONNX Runtime on the CPU."""

    calibration = None  # computed by ``calibrate``

    def __init__(
        self,
        name: str,
        root: Path | None,
        download: bool = False,
        batch: int = _BATCH,
        threads: int | None = None,
    ) -> None:
        self.name = name
        self._batch = batch
        self._model, self.version = load(EMBEDDING, name, root, download, threads)
        with map_model_errors(EMBEDDING, name):
            self.dimension = len(next(iter(self._model.embed(["dimension"]))))

    def embed(self, texts: Sequence[str]) -> Matrix:
        """Return unit vectors, shape (len(texts), dimension)."""
        import numpy as np

        with map_model_errors(EMBEDDING, self.name):
            rows = list(self._model.passage_embed(list(texts), batch_size=self._batch))
        if not rows:
            return np.zeros((0, self.dimension), dtype=np.float32)
        return normalize(np.asarray(rows, dtype=np.float32))

    def embed_query(self, text: str) -> Matrix:
        """Return a query's unit vector, shape (dimension,), using the model's query prefix."""
        import numpy as np

        with map_model_errors(EMBEDDING, self.name):
            row = next(iter(self._model.query_embed(text)))
        vector: Matrix = normalize(np.asarray([row], dtype=np.float32))[0]
        return vector


_LOG_LEVEL = 4
"""The minimum level of messages that ONNX Runtime writes to standard error; errors are raised."""


class QuerySession:
    """A loaded model that uses the tokenizer of the static embedder."""

    def __init__(self, model: Path, tokens: int) -> None:
        """Load a model that accepts at most ``tokens`` tokens.

        Raises:
            EmbedderError: the model cannot be loaded.
        """
        self._tokenizer, _ = open_tokenizer()
        self._tokens = tokens
        try:
            import onnxruntime

            options = onnxruntime.SessionOptions()
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
            options.enable_cpu_mem_arena = False
            options.intra_op_num_threads = options.inter_op_num_threads = 1
            options.log_severity_level = _LOG_LEVEL
            self._session = onnxruntime.InferenceSession(
                str(model), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # of ONNX Runtime's own kinds
            raise _model_error(error) from error

    def embed(self, text: str) -> Matrix:
        """Return a text's unit vector: the normalized mean of its tokens' vectors."""
        import numpy as np

        token_ids = self._tokenizer.encode(text).ids
        if len(token_ids) > self._tokens:  # the last token marks the end
            token_ids = [*token_ids[: self._tokens - 1], token_ids[-1]]
        ids = np.array([token_ids], dtype=np.int64)
        inputs = {
            "input_ids": ids,
            "attention_mask": np.ones_like(ids),
            "token_type_ids": np.zeros_like(ids),
        }
        try:
            (tokens, *_) = self._session.run(None, inputs)
        except Exception as error:  # of ONNX Runtime's own kinds
            raise _model_error(error) from error
        vector: Matrix = normalize(tokens[0].mean(axis=0))
        return vector


def _model_error(error: Exception) -> EmbedderError:
    summary = (str(error).splitlines() or [type(error).__name__])[0][:200].rstrip(". ")
    return EmbedderError(
        f"The built-in model cannot be used: {summary}", "pip install --force-reinstall memvault"
    )


DATA = Path(__file__).resolve().parents[2] / "data" / "deep"
_MAX_WORKERS = 4
_REINSTALL = "pip install --force-reinstall memvault"


def read_card() -> dict[str, Any]:
    """Return the metadata of the model without loading it.

    Raises:
        EmbedderError: the card is missing or invalid.
    """
    try:
        card: dict[str, Any] = json.loads((DATA / "card.json").read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise EmbedderError(f"The built-in model cannot be read: {error}", _REINSTALL) from error
    return card


def read_calibration() -> Calibration:
    """Return the calibration of the model; errors as for ``read_card``."""
    return Calibration.of(read_card())


class BuiltinTransformer:
    """The model in the package; its two sessions are loaded on first use, and shared."""

    name = BUILTIN

    def __init__(self) -> None:
        card = read_card()
        if not (DATA / "model.onnx").is_file():
            raise EmbedderError("The built-in model is not in the package", _REINSTALL)
        self._tokens = int(card["tokens"])
        self.version = str(card["version"])
        self.dimension = int(card["dimension"])
        self.calibration = read_calibration()

    def embed(self, texts: Sequence[str]) -> Matrix:
        """Return unit vectors, shape (len(texts), dimension).

        Each processor works on its own text: two threads that share a text spend half of their time
        waiting for each other.
        """
        import numpy as np

        workers = min(_MAX_WORKERS, os.cpu_count() or 1, len(texts))
        if workers < 2:
            return self._passages.embed(texts)
        from concurrent.futures import ThreadPoolExecutor

        model = self._passages
        vectors = np.empty((len(texts), self.dimension), np.float32)
        with ThreadPoolExecutor(workers) as pool:
            parts = [texts[start::workers] for start in range(workers)]
            for start, rows in enumerate(pool.map(model.embed, parts)):
                vectors[start::workers] = rows
        return vectors

    def embed_query(self, text: str) -> Matrix:
        """Return a query's unit vector, shape (dimension,)."""
        return self._queries.embed(text)

    @cached_property
    def _passages(self) -> OnnxEmbedder:
        return MODELS.get(
            ("passages", fingerprint_of(DATA)),
            lambda: OnnxEmbedder(BUILTIN, None, batch=1, threads=1),
        )

    @cached_property
    def _queries(self) -> QuerySession:
        return MODELS.get(
            ("queries", fingerprint_of(DATA)),
            lambda: QuerySession(DATA / "model.onnx", self._tokens),
        )


def known_version(name: str) -> str | None:
    """Return an embedder's version if it is known without loading it, else None."""
    return str(read_card()["version"]) if name == BUILTIN else None


def speaks(name: str, language: str) -> bool:
    """Return whether a model supports a language; for a user's own model this is assumed."""
    return name != BUILTIN or language in (*read_card()["languages"], "none")


def known_calibration(name: str) -> Calibration | None:
    """Return a model's calibration if it is known without loading it, else None."""
    return read_calibration() if name == BUILTIN else None


def display_name(name: str) -> str:
    """Return the name of an embedder to display: for the built-in one, its model's name."""
    return str(read_card()["name"]) if name == BUILTIN else name


def load_embedder(name: str, root: Path | None, download: bool = False) -> Embedder:
    """Return an embedder: ``builtin``, a folder with ``model.onnx``, or a fastembed model.

    It is loaded once per process. A folder may be relative to the vault ``root``. The network is
    only used if ``download`` is true.

    Raises:
        EmbedderError: there is no such model, or it is not on this machine.
    """
    if name == BUILTIN:
        return BuiltinTransformer()  # shares its sessions
    try:
        return MODELS.get(
            ("embedder", *model_choice.identity(name, root)),
            lambda: OnnxEmbedder(name, root, download=download),
        )
    except ImportError as error:
        raise EmbedderError(
            f"fastembed cannot be loaded: {error}", "pip install --force-reinstall memvault"
        ) from error
