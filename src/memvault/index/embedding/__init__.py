"""Texts to vectors: the built-in table, models that a person chose, and what cosines mean."""

from __future__ import annotations

import os

# ONNX Runtime 1.31 has telemetry, and complains where it cannot keep a device id, unless this
# is set before it is loaded.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
