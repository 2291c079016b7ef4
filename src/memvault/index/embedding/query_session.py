"""One text through the built-in transformer, by ONNX Runtime alone: quick to load and to leave.

Nothing else imports onnxruntime.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from memvault.errors import EmbedderError
from memvault.index.embedding.embedder import normalize
from memvault.index.embedding.static import open_tokenizer

if TYPE_CHECKING:
    from memvault.index.embedding.embedder import Matrix

_FATAL = 4
"""The level from which ONNX Runtime says anything on standard error; errors are raised."""


class QuerySession:
    """A loaded model whose tokenizer is the static table's."""

    def __init__(self, model: Path, tokens: int) -> None:
        """Load a model that reads so many tokens at most; ``EmbedderError`` where that fails."""
        self._tokenizer, _ = open_tokenizer()
        self._tokens = tokens
        try:
            import onnxruntime

            options = onnxruntime.SessionOptions()
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
            options.enable_cpu_mem_arena = False
            options.intra_op_num_threads = options.inter_op_num_threads = 1
            options.log_severity_level = _FATAL
            self._session = onnxruntime.InferenceSession(
                str(model), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # of ONNX Runtime's own kinds
            raise _explained(error) from error

    def embed(self, text: str) -> Matrix:
        """Return a text's unit vector: the mean of its tokens' vectors, scaled."""
        import numpy as np

        whole = self._tokenizer.encode(text).ids
        if len(whole) > self._tokens:  # the last one only says that it ends
            whole = [*whole[: self._tokens - 1], whole[-1]]
        ids = np.array([whole], dtype=np.int64)
        given = {
            "input_ids": ids,
            "attention_mask": np.ones_like(ids),
            "token_type_ids": np.zeros_like(ids),
        }
        try:
            (tokens, *_) = self._session.run(None, given)
        except Exception as error:  # of ONNX Runtime's own kinds
            raise _explained(error) from error
        vector: Matrix = normalize(tokens[0].mean(axis=0))
        return vector


def _explained(error: Exception) -> EmbedderError:
    first = (str(error).splitlines() or [type(error).__name__])[0][:200].rstrip(". ")
    return EmbedderError(
        f"The built-in model cannot be used: {first}", "pip install --force-reinstall memvault"
    )
