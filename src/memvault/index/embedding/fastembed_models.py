"""A transformer that reads a query and a text together and says how well they fit.

It sees what neither terms nor vectors see, at the price of a run of the model
for each text, so only the best few of an answer are given to it.
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
from typing import Any, NamedTuple

from memvault import sanitize
from memvault.errors import EmbedderError
from memvault.files.user_folders import models_folder
from memvault.index.embedding import static
from memvault.index.embedding.embedder import BUILTIN, MODELS
from memvault.index.embedding.model_choice import folder_of, identity

_MAX_TOKENS = 512
"""Tokens of a text at most, also where the model takes more: attention grows with the square."""
_NEEDED = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")
_MODEL = "model.onnx"
_BUILTIN_MODEL = "../deep/model.onnx"
_LOCAL = "local/"
"""How the names begin that folders get in fastembed's list, which no one else should see."""


class ModelKind(NamedTuple):
    """A kind of model: what it is called, what ``model use`` needs for it, what works without."""

    noun: str
    option: str
    instead: str


EMBEDDING = ModelKind(
    "embedding model", "", "memvault model use builtin goes back to the embedder that always works"
)
CROSS_ENCODER = ModelKind(
    "cross-encoder",
    " --for rerank",
    "recall without --rerank needs none; memvault model use NAME --for rerank takes another",
)


class LoadedModel(NamedTuple):
    """fastembed's object, and a version that changes with the model's files."""

    model: Any
    version: str


def load(
    kind: ModelKind, name: str, root: Path | None, download: bool, threads: int | None = None
) -> LoadedModel:
    """Load a model that fastembed knows by name, or a folder's, which may be relative to ``root``.

    One text is worked on by so many threads, as many as there are processors by default.

    Raises:
        EmbedderError: there is no such model, or it is not on this machine.
    """
    folder = static.DATA if name == BUILTIN else folder_of(name, root)
    with map_model_errors(kind, name):
        if folder is None:
            loaded = _by_name(kind, name, download)
        else:
            model = _BUILTIN_MODEL if name == BUILTIN else _MODEL
            loaded = _from_folder(kind, folder, model, threads)
        tokenizer = getattr(loaded.model.model, "tokenizer", None)
        if tokenizer is not None:
            most = int((tokenizer.truncation or {}).get("max_length", _MAX_TOKENS))
            tokenizer.enable_truncation(max_length=min(most, _MAX_TOKENS))
    return loaded


def known_models(kind: ModelKind) -> list[dict[str, Any]]:
    """List fastembed's models: name, dimension of a vector, size in GB, licence, description."""
    return [
        {
            "name": str(model["model"]),
            **({"dimension": int(model["dim"])} if kind == EMBEDDING else {}),
            "sizeInGb": float(model["size_in_GB"]),
            "licence": str(model["license"]),
            "description": str(model["description"]),
        }
        for model in _class(kind).list_supported_models()
        if not str(model["model"]).startswith(_LOCAL)
    ]


@contextmanager
def map_model_errors(kind: ModelKind, name: str) -> Iterator[None]:
    """Turn whatever fastembed, the hub and ONNX Runtime raise into one ``EmbedderError``."""
    try:
        yield
    except EmbedderError:
        raise
    except Exception as error:
        first = (str(error).splitlines() or [type(error).__name__])[0][:200].rstrip(". ")
        raise EmbedderError(f"The model {name} cannot be used: {first}", kind.instead) from error


def _class(kind: ModelKind) -> Any:
    if kind == CROSS_ENCODER:
        from fastembed.rerank.cross_encoder import TextCrossEncoder

        return TextCrossEncoder
    from fastembed import TextEmbedding

    return TextEmbedding


def _by_name(kind: ModelKind, name: str, download: bool) -> LoadedModel:
    if name.lower() not in {model["name"].lower() for model in known_models(kind)}:
        raise EmbedderError(
            f"There is no {kind.noun} {name!r}",
            "memvault model list names those that can be used; a folder's path works too",
        )
    cache = models_folder()
    try:
        model = _quietly(kind, name, None, cache_dir=str(cache), local_files_only=True)
    except Exception as error:
        if not download:
            raise EmbedderError(
                f"The model {name} is not on this machine",
                f"memvault model use {sanitize.quote_argument(name)}{kind.option} downloads it once"
                "; every other command works offline",
            ) from error
        try:
            model = _quietly(kind, name, None, cache_dir=str(cache))
        except Exception as unreachable:
            raise EmbedderError(
                f"The model {name} is not on this machine and could not be fetched",
                "try again with a network; a folder with model.onnx needs none",
            ) from unreachable
    folder = getattr(model.model, "_model_dir", None)
    return LoadedModel(model, Path(folder).name[:12] if folder else "1")


def _from_folder(kind: ModelKind, folder: Path, model: str, threads: int | None) -> LoadedModel:
    missing = [name for name in (model, *_NEEDED) if not (folder / name).is_file()]
    if missing:
        raise EmbedderError(
            f"{folder} is not a model's folder: it has no {', '.join(missing)}",
            "export the model with optimum-cli or copy its files from the model's page",
        )
    version = _fingerprint(folder, model)
    alias = f"{_LOCAL}{version}"
    if alias not in {str(model["model"]) for model in _class(kind).list_supported_models()}:
        _enter(kind, alias, folder, model)
    return LoadedModel(_quietly(kind, alias, threads, specific_model_path=str(folder)), version)


def _enter(kind: ModelKind, alias: str, folder: Path, model: str) -> None:
    """Enter a folder's model in fastembed's list, which it loads from."""
    from fastembed.common.model_description import ModelSource, PoolingType

    options: dict[str, Any] = {}
    if kind == EMBEDDING:
        pooling = PoolingType.CLS if _pools_first_token(folder) else PoolingType.MEAN
        options = {"pooling": pooling, "normalization": True, "dim": 0}
    _class(kind).add_custom_model(
        model=alias, sources=ModelSource(hf=alias), model_file=model, **options
    )


def _pools_first_token(folder: Path) -> bool:
    """Read sentence-transformers' pooling settings where they lie beside the model."""
    try:
        settings = json.loads((folder / "1_Pooling" / "config.json").read_text("utf-8"))
    except (OSError, ValueError):
        return False
    return bool(isinstance(settings, dict) and settings.get("pooling_mode_cls_token"))


def _fingerprint(folder: Path, model: str) -> str:
    """Tell two models apart by size, beginning and end, without reading all of them."""
    digest = hashlib.blake2b(digest_size=6)
    with open(folder / model, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        digest.update(f"{size}".encode() + file.read(1 << 20))
        file.seek(max(0, size - (1 << 20)))
        digest.update(file.read())
    digest.update((folder / "tokenizer.json").read_bytes())
    return digest.hexdigest()


def _quietly(kind: ModelKind, name: str, threads: int | None, **options: Any) -> Any:
    """Load a model without fastembed's log lines; its errors say the same."""
    make = _class(kind)
    with contextlib.suppress(ImportError):  # fastembed's own way of logging, today
        from loguru import logger

        logger.disable("fastembed")
    number = threads or os.cpu_count() or 1
    return make(name, cuda=False, enable_cpu_mem_arena=False, threads=number, **options)


_BATCH = 1
"""A batch is padded to its longest text: eight at once took longer, and twice the memory."""


def open_cross_encoder(name: str, root: Path | None, download: bool = False) -> CrossEncoder:
    """Return a cross-encoder, loaded once for the whole process; errors as for ``load``."""
    return MODELS.get(
        ("cross-encoder", *identity(name, root)), lambda: CrossEncoder(name, root, download)
    )


class CrossEncoder:
    """A cross-encoder run by ONNX Runtime on the processor."""

    def __init__(self, name: str, root: Path | None, download: bool = False) -> None:
        """Load one of fastembed's cross-encoders, or a folder's; errors as for ``load``."""
        self.name = name
        self._model, self.version = load(CROSS_ENCODER, name, root, download)

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """Say of each text how well it fits the query, in 0..1: the sigmoid of the model's logit.

        Raises:
            EmbedderError: the model fails, or does not give one number for a text.
        """
        with map_model_errors(CROSS_ENCODER, self.name):
            try:
                logits = list(self._model.rerank(query, list(texts), batch_size=_BATCH))
            except (TypeError, IndexError) as error:  # fastembed takes a vector for a number
                raise self._unfit() from error
        if not all(isinstance(logit, float) and not math.isnan(logit) for logit in logits):
            raise self._unfit()
        return [0.5 + 0.5 * math.tanh(logit / 2) for logit in logits]

    def _unfit(self) -> EmbedderError:
        return EmbedderError(
            f"The model {self.name} is not a cross-encoder: it does not give one number for a text",
            "memvault model list names fastembed's cross-encoders",
        )
