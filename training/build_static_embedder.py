#!/usr/bin/env python3
"""Create the simplest table for the built-in embedder, without training text.

Each token of the teacher's vocabulary is passed through the teacher on its own; the mean-pooled
outputs are centered, projected by PCA to 256 dimensions, weighted by how rare the token is, and
stored as 8-bit integers with one scale per row. A text's embedding is then the normalized sum of
its tokens' rows (the method of Model2Vec, Minish Lab 2024, reimplemented).

    python training/build_static_embedder.py TEACHER_FOLDER [--pairs PAIRS_FOLDER]

The shipped table begins as such a table and is then fitted by ``train_static_embedder.py``.
TEACHER_FOLDER contains ``model.onnx`` and ``tokenizer.json`` (for the shipped table:
sentence-transformers/all-MiniLM-L6-v2, Apache-2.0). PAIRS_FOLDER, if given, contains ``*.jsonl``
files of ``{"a", "b", "label"}``; they determine only the two constants that convert a cosine to a
similarity, not the table.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnxruntime
from tokenizers import Tokenizer

from calibrate import write_card
from memvault.index.embedding.static import StaticEmbedder
from write_wordpieces import write_wordpieces

OUTPUT = Path(__file__).resolve().parents[1] / "src/memvault/data/embedder"
DIMENSION = 256
BATCH = 512
VERSION = "1"

Matrix = npt.NDArray[np.float32]


def teacher_vectors(folder: Path, tokenizer: Tokenizer) -> Matrix:
    """Pass every token through the teacher separately; shape (vocabulary, width)."""
    options = onnxruntime.SessionOptions()
    options.enable_cpu_mem_arena = False
    session = onnxruntime.InferenceSession(
        str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"]
    )
    names = {entry.name for entry in session.get_inputs()}
    first, last = (tokenizer.token_to_id(token) for token in ("[CLS]", "[SEP]"))
    size = tokenizer.get_vocab_size()
    rows = []
    for start in range(0, size, BATCH):
        ids = np.array([[first, token, last] for token in range(start, min(start + BATCH, size))])
        feed = {
            "input_ids": ids,
            "attention_mask": np.ones_like(ids),
            "token_type_ids": np.zeros_like(ids),
        }
        hidden = session.run(None, {key: feed[key] for key in names})[0]
        rows.append(np.asarray(hidden, dtype=np.float32).mean(axis=1))
    return np.concatenate(rows)


def rarity(tokenizer: Tokenizer) -> Matrix:
    """Return each token's weight by its rank, after Zipf; shape (vocabulary, 1).

    WordPiece vocabularies list words by descending frequency, after special tokens, punctuation and
    single characters. Special tokens have no weight, punctuation almost none, single letters and
    digits little, and characters of scripts without spaces as much as words.
    """
    weights = np.zeros(tokenizer.get_vocab_size(), dtype=np.float32)
    first_word = tokenizer.token_to_id("the") or 0
    for token, number in tokenizer.get_vocab().items():
        bare = token.removeprefix("##")
        if token.startswith("[") and token.endswith("]") and len(token) > 2:
            continue
        if len(bare) > 1:
            weights[number] = np.log1p(max(1, number - first_word + 1))
        elif not bare.isalnum():
            weights[number] = 0.1
        else:
            weights[number] = 2.0 if bare.isascii() else 7.0
    return weights[:, None]


def project(vectors: Matrix, dimension: int) -> Matrix:
    """Center and project on the first principal components."""
    centred = vectors - vectors.mean(axis=0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    projected: Matrix = (centred @ axes[:dimension].T).astype(np.float32)
    return projected


def quantize(table: Matrix) -> tuple[npt.NDArray[np.int8], Matrix]:
    """Split each row into 8-bit integers and the scale that restores it."""
    scales = np.abs(table).max(axis=1) / 127.0
    safe = np.where(scales == 0.0, 1.0, scales)
    return np.rint(table / safe[:, None]).astype(np.int8), scales.astype(np.float32)


def write_table(
    folder: Path, table: Matrix, teacher: Path, version: str, pairs: Path | None
) -> None:
    """Write the static embedder's files: table, scales, tokenizer and card."""
    folder.mkdir(parents=True, exist_ok=True)
    integers, scales = quantize(table)
    np.save(folder / "table.npy", integers)
    np.save(folder / "scales.npy", scales)
    tokenizer = teacher / "tokenizer.json"
    if tokenizer.resolve() != (folder / "tokenizer.json").resolve():
        shutil.copyfile(tokenizer, folder / "tokenizer.json")
    write_wordpieces(folder)
    about = {
        "name": "builtin",
        "version": version,
        "dimension": table.shape[1],
        "teacher": teacher.name,
        "license": "Apache-2.0",
    }
    write_card(folder / "card.json", about, lambda: StaticEmbedder(folder), pairs)
    print(f"{integers.shape[0]:,} tokens x {integers.shape[1]} in {folder}")


def main() -> None:
    """Build the table and write it to the package."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("teacher", type=Path)
    parser.add_argument("--pairs", type=Path)
    options = parser.parse_args()
    tokenizer = Tokenizer.from_file(str(options.teacher / "tokenizer.json"))
    table = project(teacher_vectors(options.teacher, tokenizer), DIMENSION) * rarity(tokenizer)
    write_table(OUTPUT, table, options.teacher, VERSION, options.pairs)


if __name__ == "__main__":
    main()
