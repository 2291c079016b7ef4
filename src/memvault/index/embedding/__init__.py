"""Embed texts: static vectors, transformer models, calibration and clustering by meaning.

Nothing here stores vectors: ``index.local.transformer_writer`` adds them to ``index.vectors``.
"""

from __future__ import annotations

import os

# ONNX Runtime 1.31 prints a warning if it cannot store a telemetry device id, unless this is set
# before it is loaded.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
