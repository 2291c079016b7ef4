"""The embedder interface, model cards, and a cache of models shared by all vaults in a process."""

from __future__ import annotations

import errno
import json
import math
import os
import threading
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from weakref import WeakValueDictionary

from memvault.errors import INSTALL, EmbedderError
from memvault.files.plain_files import stamp_of
from memvault.named_tuple import NamedTuple

if TYPE_CHECKING:
    from memvault.index.embedding.arrays import Matrix

BUILTIN = "builtin"
MULTILINGUAL = "multilingual"
REINSTALL = f"{INSTALL} --force-reinstall ."
"""The hint if a package file is missing."""
Model = TypeVar("Model")


class Calibration(NamedTuple):
    """Logistic map from a cosine to the probability that two passages share a subject.

    ``separation`` is the difference between the mean cosines of anchor pairs about the same subject
    and of other pairs, in standard deviations.
    """

    slope: float
    midpoint: float
    separation: float = 0.0

    def similarity(self, cosine: float) -> float:
        """Return a similarity in 0..1 that is comparable between embedders."""
        # Not 1 / (1 + exp(-x)), which overflows.
        return 0.5 + 0.5 * math.tanh(self.slope * (cosine - self.midpoint) / 2)

    def similarity_matrix(self, rows: Matrix) -> list[list[float]]:
        """Return the matrix of similarities between unit vectors."""
        return [[self.similarity(cosine) for cosine in row] for row in (rows @ rows.T).tolist()]


class ModelCard(NamedTuple):
    """Properties of a built-in model that are available without loading it.

    ``name`` is displayed. ``version`` changes whenever a text's vector would change. ``languages``
    lists the supported languages; ``tokens`` is the maximum length of a text in tokens, or 0 if
    unlimited. The prefixes are prepended to queries and passages.
    """

    name: str
    version: str
    dimension: int
    calibration: Calibration
    languages: tuple[str, ...] = ()
    tokens: int = 0
    query_prefix: str = ""
    passage_prefix: str = ""


def reinstall_hint(error: Exception) -> str:
    """Return the hint for a package file that cannot be loaded."""
    if os.strerror(errno.EMFILE) in str(error):  # may be wrapped in an ImportError
        return "allow more open files: ulimit -n 1024"
    return REINSTALL


def read_card(folder: Path) -> ModelCard:
    """Read the card of a model in the package.

    Raises:
        EmbedderError: if the card is missing or invalid.
    """
    try:
        card = json.loads((folder / "card.json").read_text("utf-8"))
        return ModelCard(
            str(card["name"]),
            str(card["version"]),
            int(card["dimension"]),
            Calibration(*(float(card[name]) for name in Calibration._fields)),
            tuple(card.get("languages", ())),
            int(card.get("tokens", 0)),
            str(card.get("query_prefix", "")),
            str(card.get("passage_prefix", "")),
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EmbedderError(
            f"A built-in model cannot be read: {error}", reinstall_hint(error)
        ) from error


class Embedder(Protocol):
    """A model that maps text to unit vectors with ``dimension`` components.

    ``name`` is the name in the settings. ``version`` changes whenever a text's vector would change.
    """

    name: str
    version: str
    dimension: int

    @property
    def calibration(self) -> Calibration | None:
        """Return the calibration determined in training, if any."""

    def embed(self, texts: Sequence[str]) -> Matrix:
        """Return one unit vector per passage, as float32 of shape (len(texts), dimension)."""

    def embed_query(self, text: str) -> Matrix:
        """Return a query's unit vector, as float32 of shape (dimension,)."""


class ModelCache:
    """A cache of models by key; each model is loaded once and released with its last reference."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._models: WeakValueDictionary[Hashable, Any] = WeakValueDictionary()
        self._loading: WeakValueDictionary[Hashable, Any] = WeakValueDictionary()

    def get(self, key: Hashable, load: Callable[[], Model]) -> Model:
        """Return the model for a key, loading it if necessary; raises ``EmbedderError``.

        Threads that request the same model wait until it is loaded.
        """
        with self._lock:
            loading = self._loading.setdefault(key, threading.Lock())
        with loading:
            model: Model | None = self._models.get(key)
            if model is None:
                model = self._models[key] = load()
            return model


MODELS = ModelCache()


def fingerprint_of(folder: Path) -> Hashable:
    """Return a value that changes when the metadata of a file in a folder changes."""
    paths = [os.path.join(parent, name) for parent, _, names in os.walk(folder) for name in names]
    return tuple((path, stamp_of(path)) for path in sorted(paths))
