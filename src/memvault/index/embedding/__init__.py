"""Texts to vectors: the built-in table, models that a person chose, and what cosines mean."""

from __future__ import annotations

import os

# Since 1.31 ONNX Runtime reports to its maker unless this is set before it is loaded.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
