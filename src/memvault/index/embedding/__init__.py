"""Embed texts as vectors: static vectors, transformer models, calibration, groups by meaning."""

from __future__ import annotations

import os

# ONNX Runtime 1.31 has telemetry, and complains if it cannot store a device id, unless this is set
# before it is loaded.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
