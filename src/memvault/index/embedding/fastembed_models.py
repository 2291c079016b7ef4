"""Load fastembed models: embedders, and cross-encoders for reranking.

A cross-encoder is a transformer that reads a query and a text together and scores their relevance.
It is more accurate than terms and vectors but needs one model run per text, so only the top results
are scored.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from memvault import sanitize
from memvault.errors import EmbedderError, closest
from memvault.files.user_folders import models_folder
from memvault.index.embedding.arrays import Matrix, normalize
from memvault.index.embedding.embedder import MODELS
from memvault.index.embedding.model_settings import choose_reranker, folder_of, identity
from memvault.index.embedding.token_vectors import TextVectors
from memvault.named_tuple import NamedTuple
from memvault.settings.vault_settings import Settings

if TYPE_CHECKING:
    from memvault.results import AvailableModel

_MAX_TOKENS = 512
"""Maximum tokens per text, even if the model accepts more, because attention is quadratic."""
_MODEL_FILE = "model.onnx"
_REQUIRED_FILES = (
    _MODEL_FILE,
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
)
_LOCAL_PREFIX = "local/"
"""Prefix of the internal names under which model folders are registered in fastembed's list."""


class ModelKind(NamedTuple):
    """A kind of model: its name, its ``model use`` option, and how to do without it."""

    noun: str
    option: str
    instead: str


EMBEDDING = ModelKind(
    "embedding model",
    "",
    "return to the built-in embedder with `memvault model use builtin`",
)
CROSS_ENCODER = ModelKind(
    "cross-encoder",
    " --for rerank",
    "omit `--rerank`, or choose another with `memvault model use NAME --for rerank`",
)


class LoadedModel(NamedTuple):
    """A fastembed model object, and a version that changes with the model's files."""

    model: Any
    version: str


def load(kind: ModelKind, name: str, root: Path | None, download: bool) -> LoadedModel:
    """Load a model by its fastembed name or from a folder, which may be relative to ``root``.

    Raises:
        EmbedderError: if there is no such model, or the model is not on this machine.
    """
    folder = folder_of(name, root)
    with map_model_errors(kind, name):
        loaded = _by_name(kind, name, download) if folder is None else _from_folder(kind, folder)
        tokenizer = getattr(loaded.model.model, "tokenizer", None)
        if tokenizer is not None:
            limit = int((tokenizer.truncation or {}).get("max_length", _MAX_TOKENS))
            tokenizer.enable_truncation(max_length=min(limit, _MAX_TOKENS))
    return loaded


def known_models(kind: ModelKind) -> list[AvailableModel]:
    """Return fastembed's models: name, dimension, size in GB, license and description."""
    return [
        cast(
            "AvailableModel",
            {
                "name": str(model["model"]),
                **({"dimension": int(model["dim"])} if kind == EMBEDDING else {}),
                "sizeInGb": float(model["size_in_GB"]),
                "license": str(model["license"]),
                "description": str(model["description"]),
            },
        )
        for model in _model_class(kind).list_supported_models()
        if not str(model["model"]).startswith(_LOCAL_PREFIX)
    ]


@contextmanager
def map_model_errors(kind: ModelKind, name: str) -> Iterator[None]:
    """Map all errors from fastembed, the model hub and ONNX Runtime to ``EmbedderError``."""
    try:
        yield
    except EmbedderError:
        raise
    except Exception as error:
        summary = (str(error).splitlines() or [type(error).__name__])[0][:200].rstrip(". ")
        raise EmbedderError(f"The model {name} cannot be used: {summary}", kind.instead) from error


def _model_class(kind: ModelKind) -> Any:
    if kind == CROSS_ENCODER:
        from fastembed.rerank.cross_encoder import TextCrossEncoder

        return TextCrossEncoder
    from fastembed import TextEmbedding

    return TextEmbedding


def _by_name(kind: ModelKind, name: str, download: bool) -> LoadedModel:
    names = {model["name"].lower(): model["name"] for model in known_models(kind)}
    if name.lower() not in names:
        near = names.get(closest(name.lower(), names), "")
        hint = "list the models with `memvault model list`, or use the path of a folder"
        hint = f"did you mean {near}?" if near else hint
        raise EmbedderError(f"There is no {kind.noun} {name!r}", hint)
    cache = models_folder()
    try:
        model = _create(kind, name, cache_dir=str(cache), local_files_only=True)
    except Exception as error:
        if not download:
            raise EmbedderError(
                f"The model {name} is not on this machine",
                "download it with "
                f"`memvault model use {sanitize.quote_argument(name)}{kind.option}`",
            ) from error
        try:
            model = _create(kind, name, cache_dir=str(cache))
        except Exception as unreachable:
            raise EmbedderError(
                f"The model {name} is not on this machine and could not be downloaded",
                "connect to the network and try again, or use a folder with model.onnx",
            ) from unreachable
    folder = getattr(model.model, "_model_dir", None)
    return LoadedModel(model, Path(folder).name[:12] if folder else "1")


def _from_folder(kind: ModelKind, folder: Path) -> LoadedModel:
    missing = [name for name in _REQUIRED_FILES if not (folder / name).is_file()]
    if missing:
        raise EmbedderError(
            f"{folder} is not a model folder: it has no {', '.join(missing)}",
            "export the model with optimum-cli or copy its files from the model's page",
        )
    version = _fingerprint(folder)
    alias = f"{_LOCAL_PREFIX}{version}"
    if alias not in {str(model["model"]) for model in _model_class(kind).list_supported_models()}:
        _register(kind, alias, folder)
    return LoadedModel(_create(kind, alias, specific_model_path=str(folder)), version)


def _register(kind: ModelKind, alias: str, folder: Path) -> None:
    """Register a folder in fastembed's model list, because models can only be loaded from there."""
    from fastembed.common.model_description import ModelSource, PoolingType

    options: dict[str, Any] = {}
    if kind == EMBEDDING:
        pooling = PoolingType.CLS if _pools_first_token(folder) else PoolingType.MEAN
        options = {"pooling": pooling, "normalization": True, "dim": 0}
    _model_class(kind).add_custom_model(
        model=alias, sources=ModelSource(hf=alias), model_file=_MODEL_FILE, **options
    )


def _pools_first_token(folder: Path) -> bool:
    """Return whether the model's sentence-transformers settings ask for first-token pooling."""
    try:
        settings = json.loads((folder / "1_Pooling" / "config.json").read_text("utf-8"))
    except (OSError, ValueError):
        return False
    return bool(isinstance(settings, dict) and settings.get("pooling_mode_cls_token"))


def _fingerprint(folder: Path) -> str:
    """Return a digest of a model's size, start, end and tokenizer."""
    digest = hashlib.blake2b(digest_size=6)
    with open(folder / _MODEL_FILE, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        digest.update(f"{size}".encode() + file.read(1 << 20))
        file.seek(max(0, size - (1 << 20)))
        digest.update(file.read())
    digest.update((folder / "tokenizer.json").read_bytes())
    return digest.hexdigest()


def _create(kind: ModelKind, name: str, **options: Any) -> Any:
    """Load a model without showing fastembed's log messages, which repeat its errors."""
    make = _model_class(kind)
    with contextlib.suppress(ImportError):  # fastembed currently logs with this library
        from loguru import logger

        logger.disable("fastembed")
    threads = os.cpu_count() or 1
    return make(name, cuda=False, enable_cpu_mem_arena=False, threads=threads, **options)


_BATCH = 16
"""Number of texts per embedding batch."""


class FastembedEmbedder:
    """An embedder from fastembed's list or a folder, chosen by the user."""

    calibration = None  # computed by ``calibrate``
    codec = None  # fastembed returns no token vectors

    def __init__(self, name: str, root: Path | None, download: bool) -> None:
        """Load an embedder by name from fastembed or a folder; raises ``EmbedderError``."""
        self.name = name
        self._model, self.version = load(EMBEDDING, name, root, download)
        with map_model_errors(EMBEDDING, name):
            self.dimension = len(next(iter(self._model.embed(["dimension"]))))

    def embed(self, texts: Sequence[str]) -> Matrix:
        """Return unit vectors of shape (len(texts), dimension)."""
        with map_model_errors(EMBEDDING, self.name):
            rows = list(self._model.passage_embed(list(texts), batch_size=_BATCH))
        return _unit(np.asarray(rows, np.float32).reshape(-1, self.dimension))

    def embed_tokens(self, texts: Sequence[str]) -> list[TextVectors]:
        """Return the unit vectors, without token vectors."""
        return [self._without_tokens(vector) for vector in self.embed(texts)]

    embed_few_tokens = embed_tokens

    def embed_query_tokens(self, text: str) -> TextVectors:
        """Return a query's vector, without token vectors."""
        return self._without_tokens(self.embed_query(text))

    def _without_tokens(self, vector: Matrix) -> TextVectors:
        return TextVectors(vector, np.zeros((0, self.dimension), np.float32), np.zeros(0, np.int64))

    def embed_query(self, text: str) -> Matrix:
        """Return a query's unit vector of shape (dimension,), using the model's query prefix."""
        with map_model_errors(EMBEDDING, self.name):
            row = next(iter(self._model.query_embed(text)))
        return _unit(np.asarray(row, np.float32))


def _unit(rows: Matrix) -> Matrix:
    """Scale vectors to length 1; rows with nan or infinity become zeros."""
    is_finite = np.isfinite(rows).all(axis=-1, keepdims=True)
    return normalize(np.where(is_finite, rows, np.float32(0.0)))


_RERANK_BATCH = 1
"""Texts per reranking batch. Batches are padded to the longest text; batches of eight texts took
longer and used twice the memory.
"""


def open_cross_encoder(name: str, root: Path | None, download: bool = False) -> CrossEncoder:
    """Return a cross-encoder, loaded once per process; raises ``EmbedderError``."""
    return MODELS.get(
        ("cross-encoder", *identity(name, root)), lambda: CrossEncoder(name, root, download)
    )


def open_reranker(settings: Settings, root: Path) -> CrossEncoder:
    """Return a vault's cross-encoder without downloading it.

    Raises:
        EmbedderError: if the model is not allowed, or not on this machine.
    """
    choice = choose_reranker(settings, root)
    return open_cross_encoder(choice.name, choice.root)


class CrossEncoder:
    """A cross-encoder run by ONNX Runtime on the CPU."""

    def __init__(self, name: str, root: Path | None, download: bool = False) -> None:
        """Load a cross-encoder by name from fastembed or a folder; raises ``EmbedderError``."""
        self.name = name
        self._model, self.version = load(CROSS_ENCODER, name, root, download)

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return each text's relevance to the query in 0..1: the sigmoid of the model's logit.

        Raises:
            EmbedderError: if the model fails, or does not return one number per text.
        """
        with map_model_errors(CROSS_ENCODER, self.name):
            try:
                logits = list(self._model.rerank(query, list(texts), batch_size=_RERANK_BATCH))
            except (TypeError, IndexError) as error:  # fastembed expects one number
                raise self._not_cross_encoder() from error
        if not all(isinstance(logit, float) and not math.isnan(logit) for logit in logits):
            raise self._not_cross_encoder()
        return [0.5 + 0.5 * math.tanh(logit / 2) for logit in logits]

    def _not_cross_encoder(self) -> EmbedderError:
        return EmbedderError(
            f"The model {self.name} is not a cross-encoder: it does not return one number per text",
            "list fastembed's cross-encoders with `memvault model list`",
        )
