"""Any ONNX sentence-embedding model, through fastembed: one it knows, or a local folder."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memvault.config import home_expanded, models_folder
from memvault.errors import EmbedderError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Matrix = npt.NDArray[np.float32]

__all__ = ["OnnxEmbedder", "known_models"]

_MAX_TOKENS = 512
_BATCH = 16
_NEEDED = ("model.onnx", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")


class OnnxEmbedder:
    """A transformer run by ONNX Runtime on the processor."""

    calibration = None  # index/calibrate.py finds it

    def __init__(self, name: str, root: Path, download: bool = False) -> None:
        self.name = name
        folder = home_expanded(name)
        local = root / folder
        with _explained(name):
            if local.is_dir() or folder.is_absolute() or name.startswith("."):
                self._model, self.version = _open_folder(local)
            else:
                self._model, self.version = _open_known(name, download)
            tokenizer = getattr(self._model.model, "tokenizer", None)
            if tokenizer is not None:
                tokenizer.enable_truncation(max_length=_capped(tokenizer.truncation))
            self.dimension = len(next(iter(self._model.embed(["dimension"]))))

    def embed(self, texts: Sequence[str]) -> Matrix:
        """Return unit vectors, shape (len(texts), dimension)."""
        import numpy as np

        with _explained(self.name):
            rows = list(self._model.passage_embed(list(texts), batch_size=_BATCH))
        if not rows:
            return np.zeros((0, self.dimension), dtype=np.float32)
        return _unit(np.asarray(rows, dtype=np.float32))

    def embed_query(self, text: str) -> Matrix:
        """Return a query's unit vector, shape (dimension,), with the model's own query prefix."""
        import numpy as np

        with _explained(self.name):
            row = next(iter(self._model.query_embed(text)))
        vector: Matrix = _unit(np.asarray([row], dtype=np.float32))[0]
        return vector


def known_models() -> list[dict[str, Any]]:
    """List fastembed's models: name, dimension, size in GB, description, licence."""
    from fastembed import TextEmbedding

    return [
        {
            "name": str(model["model"]),
            "dimension": int(model["dim"]),
            "sizeInGb": float(model["size_in_GB"]),
            "licence": str(model["license"]),
            "description": str(model["description"]),
        }
        for model in TextEmbedding.list_supported_models()
    ]


def _open_known(name: str, download: bool) -> tuple[Any, str]:
    from fastembed import TextEmbedding

    models = {str(model["model"]).lower() for model in TextEmbedding.list_supported_models()}
    if name.lower() not in models:
        raise EmbedderError(
            f"There is no embedding model {name!r}",
            "memvault model list names those that can be used; a folder's path works too",
        )
    cache = models_folder()
    try:
        model = _quietly(name, cache_dir=str(cache), local_files_only=True)
    except Exception as error:
        if not download:
            raise EmbedderError(
                f"The model {name} is not on this machine",
                f"memvault model use {name} downloads it once; every other command works offline",
            ) from error
        model = _quietly(name, cache_dir=str(cache))
    folder = getattr(model.model, "_model_dir", None)
    return model, Path(folder).name[:12] if folder else "1"


def _open_folder(folder: Path) -> tuple[Any, str]:
    from fastembed import TextEmbedding
    from fastembed.common.model_description import ModelSource, PoolingType

    missing = [name for name in _NEEDED if not (folder / name).is_file()]
    if missing:
        raise EmbedderError(
            f"{folder} is not a model's folder: it has no {', '.join(missing)}",
            "export the model with optimum-cli or copy its files from the model's page",
        )
    version = _fingerprint(folder)
    alias = f"local/{version}"
    known = {str(model["model"]) for model in TextEmbedding.list_supported_models()}
    if alias not in known:
        TextEmbedding.add_custom_model(
            model=alias,
            pooling=PoolingType.CLS if _pools_first_token(folder) else PoolingType.MEAN,
            normalization=True,
            sources=ModelSource(hf=alias),
            dim=0,
            model_file="model.onnx",
        )
    return _quietly(alias, specific_model_path=str(folder)), version


def _pools_first_token(folder: Path) -> bool:
    """Read sentence-transformers' pooling settings where they lie beside the model."""
    try:
        settings = json.loads((folder / "1_Pooling" / "config.json").read_text("utf-8"))
    except (OSError, ValueError):
        return False
    return bool(isinstance(settings, dict) and settings.get("pooling_mode_cls_token"))


def _fingerprint(folder: Path) -> str:
    """Tell two models apart by size, beginning and end, without reading all of them."""
    digest = hashlib.blake2b(digest_size=6)
    with open(folder / "model.onnx", "rb") as file:
        size = os.fstat(file.fileno()).st_size
        digest.update(f"{size}".encode() + file.read(1 << 20))
        file.seek(max(0, size - (1 << 20)))
        digest.update(file.read())
    digest.update((folder / "tokenizer.json").read_bytes())
    return digest.hexdigest()


def _quietly(name: str, **options: Any) -> Any:
    """Load a model without fastembed's log lines; its errors say the same."""
    from fastembed import TextEmbedding

    with contextlib.suppress(ImportError):  # fastembed's own way of logging, today
        from loguru import logger

        logger.disable("fastembed")
    return TextEmbedding(
        name, cuda=False, enable_cpu_mem_arena=False, threads=os.cpu_count() or 1, **options
    )


def _capped(truncation: dict[str, Any] | None) -> int:
    """Return how many tokens the model takes, at most 512: attention grows with the square."""
    given = int((truncation or {}).get("max_length", _MAX_TOKENS))
    return min(given, _MAX_TOKENS)


def _unit(rows: Matrix) -> Matrix:
    import numpy as np

    unit: Matrix = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    return unit


@contextmanager
def _explained(name: str) -> Iterator[None]:
    """Turn whatever fastembed, the hub and ONNX Runtime raise into one ``EmbedderError``."""
    try:
        yield
    except EmbedderError:
        raise
    except Exception as error:
        first = (str(error).splitlines() or [type(error).__name__])[0][:200]
        raise EmbedderError(
            f"The model {name} cannot be used: {first}",
            "memvault model use builtin goes back to the embedder that always works",
        ) from error
