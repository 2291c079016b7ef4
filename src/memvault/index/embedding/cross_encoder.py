"""A transformer that reads a query and a text together and says how well they fit.

It sees what neither terms nor vectors see, at the price of a run of the model
for each text, so only the best few of an answer are given to it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from memvault.errors import EmbedderError
from memvault.index.embedding.embedder import MODELS
from memvault.index.embedding.fastembed_models import CROSS_ENCODER, load, map_model_errors
from memvault.index.embedding.permitted import identity

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
