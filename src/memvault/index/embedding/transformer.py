"""Load transformer embedders by their names in settings. The static embedder has no name there."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from memvault.errors import EmbedderError
from memvault.index.embedding import model_settings
from memvault.index.embedding.arrays import Matrix, normalize
from memvault.index.embedding.embedder import (
    BUILTIN,
    MODELS,
    MULTILINGUAL,
    REINSTALL,
    ModelCard,
    fingerprint_of,
    read_card,
    reinstall_hint,
)
from memvault.index.embedding.wordpiece import DATA as SHARED_TOKENIZER
from memvault.index.embedding.wordpiece import open_wordpiece

if TYPE_CHECKING:
    from memvault.index.embedding.numpy_transformer import NumpyTransformer
    from memvault.index.embedding.token_vectors import TextVectors, TokenCodec, TokenEmbedder
    from memvault.results import AvailableModel

_PACKAGE_DATA = Path(__file__).resolve().parents[2] / "data"
DATA = _PACKAGE_DATA / "deep"
FOLDERS = {BUILTIN: DATA, MULTILINGUAL: _PACKAGE_DATA / "multilingual"}
"""Folders of the built-in transformers, by their names in settings."""
_MAX_WORKERS = 4
_LOG_LEVEL = 4
"""The minimum severity of ONNX Runtime's messages on standard error; errors are raised anyway."""


def builtin_models() -> list[AvailableModel]:
    """Return the transformers in the package in the format of ``fastembed_models.known_models``."""
    return [
        {
            "name": BUILTIN,
            "dimension": read_card(FOLDERS[BUILTIN]).dimension,
            "sizeInGb": 0.02,
            "license": "Apache-2.0",
            "description": "Built in: a transformer for English; works offline",
        },
        {
            "name": MULTILINGUAL,
            "dimension": read_card(FOLDERS[MULTILINGUAL]).dimension,
            "sizeInGb": 0.03,
            "license": "MIT",
            "description": "Built in, for 24 languages: used if more than a tenth of the memories "
            "are not English",
        },
    ]


def card_of(name: str) -> ModelCard | None:
    """Return a built-in embedder's card, or None for other models, which must be loaded first."""
    return read_card(FOLDERS[name]) if name in FOLDERS else None


def load_embedder(name: str, root: Path | None, download: bool = False) -> TokenEmbedder:
    """Return an embedder: ``builtin``, ``multilingual``, a folder, or a fastembed model.

    A folder contains ``model.onnx`` and may be relative to the vault ``root``. Each model is loaded
    once per process. The network is used only if ``download`` is true.

    Raises:
        EmbedderError: if there is no such model, or the model is not on this machine.
    """
    if name in FOLDERS:
        return MODELS.get((name, fingerprint_of(FOLDERS[name])), lambda: BuiltinTransformer(name))
    from memvault.index.embedding.fastembed_models import FastembedEmbedder

    try:
        return MODELS.get(
            ("embedder", *model_settings.identity(name, root)),
            lambda: FastembedEmbedder(name, root, download),
        )
    except ImportError as error:
        raise EmbedderError(
            f"fastembed cannot be loaded: {error}", reinstall_hint(error)
        ) from error


class BuiltinTransformer:
    """A built-in model, run by ONNX Runtime on the CPU and loaded on first use.

    Queries for the English model, and a few texts, are run by ``numpy_transformer``, which loads
    faster.
    """

    def __init__(self, name: str = BUILTIN) -> None:
        self._folder = FOLDERS[name]
        self._label = "built-in" if name == BUILTIN else f"built-in {name}"
        card = read_card(self._folder)
        if not (self._folder / "model.onnx").is_file():
            raise EmbedderError(f"The {self._label} model is not in the package", REINSTALL)
        self._shares_tokenizer = not (self._folder / "tokenizer.json").is_file()
        self._prefixes = card.query_prefix, card.passage_prefix
        self._max_tokens = card.tokens
        self.name = name
        self.version = card.version
        self.dimension = card.dimension
        self.calibration = card.calibration
        self._last_query: tuple[str, TextVectors] | None = None

    def embed(self, texts: Sequence[str]) -> Matrix:
        """Return unit vectors of shape (len(texts), dimension)."""
        rows = [vectors.vector for vectors in self.embed_tokens(texts)]
        return np.stack(rows) if rows else np.zeros((0, self.dimension), np.float32)

    def embed_tokens(self, texts: Sequence[str]) -> list[TextVectors]:
        """Return the unit vectors of texts, each with its token vectors.

        A text longer than the model's input is read in windows of equal length, and its vector is
        the mean over all tokens. Each thread processes one text: two threads on one text would
        spend half their time waiting for each other. The longest texts come first, so that all
        threads finish at about the same time.
        """
        workers = min(_MAX_WORKERS, os.cpu_count() or 1, len(texts))
        if workers < 2:
            return [self._embed(text) for text in texts]
        from concurrent.futures import ThreadPoolExecutor

        _ = self._tokenizer  # load it once, before the threads start
        longest_first = sorted(range(len(texts)), key=lambda number: -len(texts[number]))
        with ThreadPoolExecutor(workers) as pool:
            embedded = pool.map(self._embed, [texts[number] for number in longest_first])
            by_place = dict(zip(longest_first, embedded, strict=True))
        return [by_place[number] for number in range(len(texts))]

    def embed_few_tokens(self, texts: Sequence[str]) -> list[TextVectors]:
        """Return the vectors of a few short texts, which the English model runs like queries."""
        return [self._embed(text, is_quick=self._shares_tokenizer) for text in texts]

    def embed_query(self, text: str) -> Matrix:
        """Return a query's unit vector, the normalized mean over its tokens; shape (dimension,)."""
        return self.embed_query_tokens(text).vector

    def embed_query_tokens(self, text: str) -> TextVectors:
        """Return a query's vectors; a long query is truncated to the model's input.

        The start and end tokens are omitted. A query without known tokens (``WordPiece.known``) has
        a vector of zeros. The last query is cached.
        """
        last_query = self._last_query
        if last_query is None or last_query[0] != text:
            vectors = self._embed(text, is_query=True, is_quick=self._shares_tokenizer)
            query = vectors._replace(tokens=vectors.tokens[1:-1], ids=vectors.ids[1:-1])
            if not len(query.ids):
                query = query._replace(vector=np.zeros_like(vectors.vector))
            last_query = self._last_query = text, query
        return last_query[1]

    def _embed(self, text: str, is_query: bool = False, is_quick: bool = False) -> TextVectors:
        """Return a text's vectors; the mean includes the tokens of the model's prefix.

        Every window begins with the prefix, whose token vectors are omitted. With ``is_quick``, the
        English model is run by ``numpy_transformer``.
        """
        from memvault.index.embedding.token_vectors import TextVectors

        first, lead, inner, last = self._token_ids(text, is_query, is_quick)
        room = self._max_tokens - 2 - len(lead)
        count = max(1, -(-len(inner) // room))
        size = room if is_query else -(-len(inner) // count)
        states, token_states, read = [], [], []
        for start in range(0, 1 if is_query else max(len(inner), 1), max(size, 1)):
            part = inner[start : start + size]
            state = self._run([first, *lead, *part, last], is_quick)
            states.append(state)
            token_states.append(np.delete(state, np.s_[1 : 1 + len(lead)], axis=0))
            read += [first, *part, last]
        vector = normalize(np.concatenate(states).mean(axis=0))
        return TextVectors(
            vector, normalize(np.concatenate(token_states)), np.array(read, np.int64)
        )

    def _token_ids(
        self, text: str, is_query: bool, is_quick: bool
    ) -> tuple[int, list[int], list[int], int]:
        """Return the ids of the start token, the prefix, the text and the end token."""
        if is_quick:
            wordpiece = open_wordpiece(SHARED_TOKENIZER)
            tokens = wordpiece.known(text) if is_query else wordpiece.tokens(text)
            inner = list(islice(tokens, self._max_tokens if is_query else None))
            return wordpiece.first, [], inner, wordpiece.last
        tokenizer = self._tokenizer
        prefix = self._prefixes[0 if is_query else 1]
        lead = tokenizer.encode(prefix, add_special_tokens=False).ids if prefix else []
        first, *inner, last = tokenizer.encode(prefix + text).ids
        return first, lead, inner[len(lead) :], last

    def _run(self, token_ids: list[int], is_quick: bool) -> Matrix:
        """Return the last hidden state of a token sequence, shape (tokens, dimension)."""
        try:
            if is_quick:
                return self._numpy_transformer.run(token_ids)
            ids = np.array([token_ids], dtype=np.int64)
            inputs = {
                "input_ids": ids,
                "attention_mask": np.ones_like(ids),
                "token_type_ids": np.zeros_like(ids),
            }
            (state, *_) = self._session.run(None, inputs)
        except Exception as error:  # ONNX Runtime has its own exception classes
            summary = (str(error).splitlines() or [type(error).__name__])[0][:200].rstrip(". ")
            raise EmbedderError(
                f"The {self._label} model cannot be used: {summary}", REINSTALL
            ) from error
        hidden_state: Matrix = state[0]
        return hidden_state

    @cached_property
    def codec(self) -> TokenCodec:
        """Return the codec that quantizes the token vectors."""
        from memvault.index.embedding.token_vectors import TokenCodec

        return TokenCodec.read(self._folder)

    @cached_property
    def _tokenizer(self) -> Any:
        from memvault.index.embedding.tokenizer import open_tokenizer

        tokenizer, _ = open_tokenizer(SHARED_TOKENIZER if self._shares_tokenizer else self._folder)
        return tokenizer

    @cached_property
    def _numpy_transformer(self) -> NumpyTransformer:
        from memvault.index.embedding.numpy_transformer import NumpyTransformer

        return NumpyTransformer(self._folder)

    @cached_property
    def _session(self) -> Any:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        options.enable_cpu_mem_arena = False
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = _LOG_LEVEL
        return onnxruntime.InferenceSession(
            str(self._folder / "model.onnx"), options, providers=["CPUExecutionProvider"]
        )
