"""What an embedder is, and the models that all vaults of a process share."""

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
    """The logistic map from a cosine to the chance that two texts are about the same thing.

    ``separation`` says how well the embedder tells the anchors apart: by how many
    standard deviations the mean cosines of those about the same thing and of the
    others differ.
    """

    slope: float
    midpoint: float
    separation: float = 0.0

    @classmethod
    def of(cls, card: Mapping[str, Any]) -> Calibration:
        """Read what an embedder's card says."""
        return cls(*(float(card[name]) for name in cls._fields))

    def similarity(self, cosine: float) -> float:
        """Return a similarity in 0..1 that means the same for every embedder."""
        # Not 1 / (1 + exp(-x)), which overflows.
        return 0.5 + 0.5 * math.tanh(self.slope * (cosine - self.midpoint) / 2)

    def similarity_matrix(self, rows: Matrix) -> list[list[float]]:
        """Return the similarity of each of some unit vectors to each."""
        return [[self.similarity(cosine) for cosine in near] for near in (rows @ rows.T).tolist()]


class Embedder(Protocol):
    """Text to unit vectors of ``dimension`` numbers.

    ``name`` is the one that the settings use; ``version`` changes whenever the same
    text would get another vector.
    """

    name: str
    version: str
    dimension: int

    @property
    def calibration(self) -> Calibration | None:
        """What this embedder's cosines mean, if that was measured when it was made."""

    def embed(self, texts: Sequence[str]) -> Matrix:
        """Return one unit vector a passage; shape (len(texts), dimension), float32."""

    def embed_query(self, text: str) -> Matrix:
        """Return a query's unit vector; shape (dimension,), float32."""


class ModelCache:
    """Models by what identifies them, each loaded once and closed when nobody uses it any more."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._models: WeakValueDictionary[Hashable, Any] = WeakValueDictionary()
        self._loading: WeakValueDictionary[Hashable, Any] = WeakValueDictionary()

    def get(self, key: Hashable, load: Callable[[], Model]) -> Model:
        """Return the model of a key; load it where nobody uses it. Errors as for ``load``.

        Other threads that want the same model wait for it.
        """
        with self._lock:
            loading = self._loading.setdefault(key, threading.Lock())
        with loading:
            found: Model | None = self._models.get(key)
            if found is None:
                found = self._models[key] = load()
            return found


MODELS = ModelCache()


def fingerprint_of(folder: Path) -> Hashable:
    """Return what changes whenever a file of a model's folder does; none is read."""
    found = [os.path.join(parent, name) for parent, _, names in os.walk(folder) for name in names]
    return tuple((path, state_of(path)) for path in sorted(found))


def normalize(rows: Matrix) -> Matrix:
    """Scale vectors to length 1 along the last axis; zeros stay."""
    import numpy as np

    lengths = np.linalg.norm(rows, axis=-1, keepdims=True)
    scaled: Matrix = (rows / np.maximum(lengths, 1e-12)).astype(np.float32)
    return scaled
