#!/usr/bin/env python3
"""Embed texts with the teacher, so that the built-in embedder can be fitted to it.

    python training/embed_teacher.py TEACHER_FOLDER TEXTS.jsonl OUTPUT.npy [--int8 | --cuda]

Writes unit vectors as float16, one row per text, shape (texts, width). Works in chunks and
continues after an interruption; missing rows are zero, so the fit can begin with the existing ones.
``--int8`` rounds the teacher's weights to 8 bits first, which is faster on a CPU and changes the
vectors only slightly; ``--cuda`` needs onnxruntime-gpu.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime
from tokenizers import Tokenizer

CHUNK = 4_096
BATCH_TOKENS = 4_096
MAX_TOKENS = 256


class Teacher:
    """A sentence-embedding model run by ONNX Runtime, mean-pooled."""

    def __init__(self, folder: Path, cuda: bool = False, int8: bool = False) -> None:
        providers = ["CUDAExecutionProvider"] if cuda else ["CPUExecutionProvider"]
        model = _rounded(folder / "model.onnx") if int8 else str(folder / "model.onnx")
        self._session = onnxruntime.InferenceSession(model, providers=providers)
        self._names = {entry.name for entry in self._session.get_inputs()}
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.enable_truncation(MAX_TOKENS)
        self._tokenizer.no_padding()
        self.width = len(self.embed(["width"])[0])

    def embed(self, texts: list[str]) -> npt.NDArray[np.float32]:
        """Return unit vectors, shape (texts, width); batches contain texts of similar length."""
        encoded = [encoding.ids for encoding in self._tokenizer.encode_batch(texts)]
        order = sorted(range(len(texts)), key=lambda place: len(encoded[place]))
        rows: dict[int, npt.NDArray[np.float32]] = {}
        start = 0
        while start < len(order):
            end = start + 1
            while end < len(order) and (end - start + 1) * len(encoded[order[end]]) <= BATCH_TOKENS:
                end += 1
            batch = order[start:end]
            found = self._run([encoded[place] for place in batch])
            rows.update(zip(batch, found, strict=True))
            start = end
        return np.stack([rows[place] for place in range(len(texts))])

    def _run(self, batch: list[list[int]]) -> npt.NDArray[np.float32]:
        width = max(len(ids) for ids in batch)
        ids = np.zeros((len(batch), width), dtype=np.int64)
        mask = np.zeros_like(ids)
        for place, row in enumerate(batch):
            ids[place, : len(row)] = row
            mask[place, : len(row)] = 1
        feed: dict[str, Any] = {
            "input_ids": ids,
            "attention_mask": mask,
            "token_type_ids": np.zeros_like(ids),
        }
        hidden = self._session.run(None, {key: feed[key] for key in self._names})[0]
        weights = mask[:, :, None].astype(np.float32)
        pooled = (hidden * weights).sum(axis=1) / weights.sum(axis=1)
        unit: npt.NDArray[np.float32] = pooled / np.linalg.norm(pooled, axis=1, keepdims=True)
        return unit


def _rounded(model: Path) -> bytes:
    """Return a model with its weights as 8-bit integers."""
    from onnxruntime.quantization import quantize_dynamic

    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "model.onnx"
        quantize_dynamic(model, target, per_channel=True)
        return target.read_bytes()


def main() -> None:
    """Embed the missing rows, and print the progress."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("teacher", type=Path)
    parser.add_argument("texts", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--cuda", action="store_true")
    parser.add_argument("--int8", action="store_true")
    options = parser.parse_args()
    texts = [json.loads(line) for line in options.texts.read_text("utf-8").splitlines()]
    teacher = Teacher(options.teacher, options.cuda, options.int8)
    if options.output.is_file():
        rows = np.load(options.output, mmap_mode="r+")
    else:
        shape = (len(texts), teacher.width)
        rows = np.lib.format.open_memmap(options.output, "w+", np.float16, shape)
    started, done = time.perf_counter(), 0
    for start in range(0, len(texts), CHUNK):
        chunk = texts[start : start + CHUNK]
        if rows[start + len(chunk) - 1].any():
            continue
        rows[start : start + len(chunk)] = teacher.embed(chunk)
        rows.flush()
        done += len(chunk)
        speed = done / (time.perf_counter() - started)
        print(f"{start + len(chunk):,} of {len(texts):,}, {speed:.0f} a second", flush=True)


if __name__ == "__main__":
    main()
