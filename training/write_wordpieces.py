#!/usr/bin/env python3
"""Write the files of the pure Python tokenizer from those of the library ``tokenizers``.

    python training/write_wordpieces.py [FOLDER]

FOLDER contains ``tokenizer.json``, by default the static table's. Writes next to it:

- ``vocabulary.tsv``: the number of tokens, and each token with its id, sorted by bytes.
- ``characters.tsv``: the ranges of non-ASCII characters that the library removes, replaces with a
  space, or treats as separate words.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

from tokenizers import Tokenizer

from memvault.index.embedding.wordpiece import CHARACTERS, DATA, VOCABULARY


def vocabulary(tokens: dict[str, int]) -> bytes:
    """Return the text of ``vocabulary.tsv``."""
    rows = sorted((token.encode(), number) for token, number in tokens.items())
    lines = [b"%d" % len(rows), *(b"%s\t%d" % row for row in rows)]
    return b"\n".join(lines) + b"\n"


def characters(tokenizer: Tokenizer) -> str:
    """Return the text of ``characters.tsv``."""
    ranges: list[tuple[int, int, str]] = []
    for code, kind in _kinds(tokenizer):
        if ranges and ranges[-1][1:] == (code - 1, kind):
            ranges[-1] = (ranges[-1][0], code, kind)
        else:
            ranges.append((code, code, kind))
    return "".join(f"{first:x}\t{last:x}\t{kind}\n" for first, last, kind in ranges)


def _kinds(tokenizer: Tokenizer) -> Iterator[tuple[int, str]]:
    """Yield the characters that the library does not treat as letters."""
    for code in (*range(128, 0xD800), *range(0xE000, 0x110000)):
        character = chr(code)
        found = tokenizer.normalizer.normalize_str(character)
        if not found:
            yield code, "removed"
        elif found == " ":
            yield code, "space"
        elif len(found) > 2 and found[0] == found[-1] == " ":
            yield code, "ideograph"
        elif len(tokenizer.pre_tokenizer.pre_tokenize_str(f"a{character}b")) == 3:
            yield code, "punctuation"


def write_wordpieces(folder: Path) -> None:
    """Write both files next to a folder's ``tokenizer.json``."""
    source = folder / "tokenizer.json"
    tokens = json.loads(source.read_text("utf-8"))["model"]["vocab"]
    (folder / VOCABULARY).write_bytes(vocabulary(tokens))
    ranges = characters(Tokenizer.from_file(str(source)))
    (folder / CHARACTERS).write_text(ranges, "ascii", newline="\n")


def main() -> None:
    """Write the files of one folder."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("folder", type=Path, nargs="?", default=DATA)
    write_wordpieces(parser.parse_args().folder)


if __name__ == "__main__":
    main()
