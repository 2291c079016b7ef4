#!/usr/bin/env python3
"""Compute the statistics for quantizing a built-in transformer's token vectors.

    PYTHONPATH=bench python training/token_statistics.py [--model NAME] [FOLDER ...]

Writes three statistics to the model's folder in ``src/memvault/data``: the mean token vector, the
mean absolute difference from it, and the ids of the tokens that are not stored. The token vectors
are those of all passages of judged sets, by default the everyday sets in the model's languages.
Judgments are not read.
"""

from __future__ import annotations

import argparse
import re
import tempfile
from pathlib import Path

import numpy as np

from judged import make_vault, read_set
from memvault.index.embedding.embedder import BUILTIN, MULTILINGUAL
from memvault.index.embedding.token_vectors import TokenCodec
from memvault.index.embedding.tokenizer import open_tokenizer
from memvault.index.embedding.transformer import FOLDERS, BuiltinTransformer
from memvault.index.embedding.wordpiece import DATA as SHARED
from memvault.index.text.analyzer import stop_words
from memvault.index.text.sentence_blocks import passage_texts
from memvault.workspace import Workspace

_EVERYDAY = Path(__file__).resolve().parents[1] / "bench" / "everyday"
_ENGLISH = [_EVERYDAY / f"everyday-{name}" for name in ("home", "ops", "research")]
_SETS = {BUILTIN: _ENGLISH, MULTILINGUAL: [*_ENGLISH, _EVERYDAY / "everyday-languages"]}


def ignored_tokens(model: str) -> list[int]:
    """Return the ids of the end token, of punctuation tokens and of English stop words.

    The multilingual model keeps all words, because a stop word of one language may be a noun in
    another.
    """
    tokenizer, _ = open_tokenizer(SHARED if model == BUILTIN else FOLDERS[model])
    stops = stop_words("english") if model == BUILTIN else frozenset[str]()
    return sorted(
        number
        for token, number in tokenizer.get_vocab().items()
        if token in ("[SEP]", "</s>", *stops)
        or not re.search(r"\w", token.removeprefix("##").removeprefix("▁"))
    )


def main() -> None:
    """Embed the passages and write the statistics."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--model", choices=tuple(FOLDERS), default=BUILTIN)
    options = parser.parse_args()
    texts: list[str] = []
    with tempfile.TemporaryDirectory() as work:
        for folder in options.folders or _SETS[options.model]:
            root = Path(work, folder.name)
            paths = make_vault(root, read_set(folder).documents)
            store = Workspace(root).store
            texts += (text for path in paths for text in passage_texts(store.read(path)))
    ignored = np.array(ignored_tokens(options.model))
    found = BuiltinTransformer(options.model).embed_tokens(texts)
    rows = np.concatenate([text.tokens[~np.isin(text.ids, ignored)] for text in found])
    mean = rows.mean(axis=0)
    TokenCodec(mean, np.abs(rows - mean).mean(axis=0), ignored).write(FOLDERS[options.model])
    print(f"{len(rows)} tokens of {len(texts)} passages; {len(ignored)} tokens are not stored")


if __name__ == "__main__":
    main()
