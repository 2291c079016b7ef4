#!/usr/bin/env python3
"""Compute what the quantisation of a built-in transformer's token vectors needs.

    PYTHONPATH=bench python scripts/training/token_statistics.py [FOLDER ...]

Writes to ``src/memvault/data/deep``: the mean of the token vectors of all passages of
judged sets, by default the English everyday ones, the mean absolute difference to it, and
the ids of the tokens that are not stored. The judgements are not read.
"""

from __future__ import annotations

import argparse
import re
import tempfile
from pathlib import Path

import numpy as np

from judged import make_vault, read_set
from memvault.index.embedding.token_vectors import TokenCodec
from memvault.index.embedding.tokenizer import open_tokenizer
from memvault.index.embedding.transformer import DATA, BuiltinTransformer
from memvault.index.text.analysis import stop_words
from memvault.index.text.indexed_text import passage_texts
from memvault.workspace import Workspace

_EVERYDAY = Path(__file__).resolve().parents[2] / "bench" / "everyday"
_ENGLISH = [_EVERYDAY / f"everyday-{name}" for name in ("home", "ops", "research")]


def ignored_tokens(language: str) -> list[int]:
    """Return the ids of the end mark, of bare punctuation and of stop words."""
    tokenizer, _ = open_tokenizer()
    stops = stop_words(language)
    return sorted(
        number
        for token, number in tokenizer.get_vocab().items()
        if token == "[SEP]" or token in stops or not re.search(r"\w", token.removeprefix("##"))
    )


def main() -> None:
    """Embed the passages and write the statistics."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("folders", nargs="*", type=Path, default=_ENGLISH)
    options = parser.parse_args()
    texts: list[str] = []
    with tempfile.TemporaryDirectory() as work:
        for folder in options.folders:
            root = Path(work, folder.name)
            paths = make_vault(root, read_set(folder).documents)
            store = Workspace(root).store
            texts += (text for path in paths for text in passage_texts(store.read(path)))
    ignored = np.array(ignored_tokens("english"))
    found = BuiltinTransformer().embed_tokens(texts)
    rows = np.concatenate([text.tokens[~np.isin(text.ids, ignored)] for text in found])
    mean = rows.mean(axis=0)
    TokenCodec(mean, np.abs(rows - mean).mean(axis=0), ignored).write(DATA)
    print(f"{len(rows)} tokens of {len(texts)} passages; {len(ignored)} tokens are not stored")


if __name__ == "__main__":
    main()
