#!/usr/bin/env python3
"""Write the vectors of generic prompts for each built-in embedder.

    python training/embed_generic_prompts.py

Only the part ``fit`` of bench/prompts/generic.jsonl is embedded: the English prompts with the
English embedders, and the prompts in all languages with the multilingual one. Run it after changing
an embedder or the prompts.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from memvault.index.embedding import generic_prompts
from memvault.index.embedding.embedder import MULTILINGUAL

PROMPTS = Path(__file__).resolve().parents[1] / "bench" / "prompts" / "generic.jsonl"


def prompts(embedder: str) -> list[str]:
    """Return the prompts to embed with an embedder."""
    entries = map(json.loads, PROMPTS.read_text("utf-8").splitlines())
    return [
        entry["text"]
        for entry in entries
        if entry["metadata"]["part"] == "fit"
        and (embedder == MULTILINGUAL or entry["metadata"]["language"] == "en")
    ]


def main() -> None:
    """Write one file for each embedder; leave out prompts without known words."""
    for embedder, file in generic_prompts.FILES.items():
        vectors = np.stack([generic_prompts.embed(text, embedder) for text in prompts(embedder)])
        vectors = vectors[np.abs(vectors).sum(axis=1) > 0]
        np.save(file, vectors.astype(np.float16))
        print(f"{file.parent.name}: {len(vectors)} prompts, {file.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
