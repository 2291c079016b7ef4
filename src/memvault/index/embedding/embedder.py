"""The interface of embedders, and a cache of models shared by all vaults of a process."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar
from weakref import WeakValueDictionary

from memvault.files.file_stamps import state_of

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Matrix = npt.NDArray[np.float32]

BUILTIN = "builtin"
Model = TypeVar("Model")


class Calibration(NamedTuple):
    """The logistic map from a cosine to the probability that two texts are about the same subject.

    ``separation`` measures how well the embedder distinguishes the anchors: the difference between
    the mean cosines of pairs about the same subject and of the others, in standard deviations.
    """

    slope: float
    midpoint: float
    separation: float = 0.0

    @classmethod
    def of(cls, card: Mapping[str, Any]) -> Calibration:
        """Read the calibration from an embedder's card."""
        return cls(*(float(card[name]) for name in cls._fields))

    def similarity(self, cosine: float) -> float:
        """Return a similarity in 0..1 that is comparable between embedders."""
        # Not 1 / (1 + exp(-x)), which overflows.
        return 0.5 + 0.5 * math.tanh(self.slope * (cosine - self.midpoint) / 2)

    def similarity_matrix(self, rows: Matrix) -> list[list[float]]:
        """Return the matrix of similarities between unit vectors."""
        return [[self.similarity(cosine) for cosine in row] for row in (rows @ rows.T).tolist()]


class Embedder(Protocol):
    """A model that maps text to unit vectors with ``dimension`` components.

    ``name`` is the name used in the settings; ``version`` changes whenever the same text would get
    another vector.
    """

    name: str
    version: str
    dimension: int

    @property
    def calibration(self) -> Calibration | None:
        """The calibration of this embedder, if it was determined when it was trained."""

    def embed(self, texts: Sequence[str]) -> Matrix:
        """Return one unit vector per passage; shape (len(texts), dimension), float32."""

    def embed_query(self, text: str) -> Matrix:
        """Return a query's unit vector; shape (dimension,), float32."""


class ModelCache:
    """A cache of models by key: each is loaded once and released with its last reference."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._models: WeakValueDictionary[Hashable, Any] = WeakValueDictionary()
        self._loading: WeakValueDictionary[Hashable, Any] = WeakValueDictionary()

    def get(self, key: Hashable, load: Callable[[], Model]) -> Model:
        """Return the model of a key, and load it if it is not in use. Errors as for ``load``.

        Other threads that request the same model wait until it is loaded.
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
    """Return a value that changes with the state of any file of a folder; no file is read."""
    paths = [os.path.join(parent, name) for parent, _, names in os.walk(folder) for name in names]
    return tuple((path, state_of(path)) for path in sorted(paths))


def normalize(rows: Matrix) -> Matrix:
    """Scale vectors to length 1 along the last axis; zero vectors are unchanged."""
    import numpy as np

    lengths = np.linalg.norm(rows, axis=-1, keepdims=True)
    scaled: Matrix = (rows / np.maximum(lengths, 1e-12)).astype(np.float32)
    return scaled
