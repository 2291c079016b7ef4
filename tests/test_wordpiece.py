"""The Python tokenizer returns the same tokens as the library ``tokenizers``."""

from __future__ import annotations

import json
import shutil
from array import array
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from conftest import SOAK
from memvault.errors import EmbedderError
from memvault.index.embedding.embedder import REINSTALL
from memvault.index.embedding.static import StaticEmbedder
from memvault.index.embedding.tokenizer import open_tokenizer
from memvault.index.embedding.wordpiece import (
    CHARACTERS,
    DATA,
    SPECIAL,
    VOCABULARY,
    WordPiece,
)
from write_wordpieces import vocabulary

EVERYDAY = Path(__file__).parents[1] / "bench" / "everyday"
WORDPIECE = WordPiece(DATA)
WORDS = json.loads((DATA / "tokenizer.json").read_text("utf-8"))["model"]["vocab"]


def _expected(text: str) -> list[int]:
    ids: list[int] = open_tokenizer()[0].encode(text, add_special_tokens=False).ids
    return ids


def _encoded_together(texts: list[str]) -> list[list[int]]:
    return [array("H", ids).tolist() for ids in WORDPIECE.encode_each(texts)]


PIECES = st.sampled_from([word.removeprefix("##") for word in WORDS])
TEXTS = st.lists(
    st.one_of(PIECES, PIECES.map(str.upper), st.text(max_size=8), st.sampled_from(SPECIAL)),
    max_size=12,
)


@given(TEXTS, st.sampled_from(["", " ", "-"]))
@example(["x" * 100, "x" * 101, "é" * 100, "é" * 101], " ")
@example(["ΑΣ", "İstanbul", "ñandú", "한국어", "東京", "a\x1cb\x85c\u2028d", "\ufffd\x00"], " ")
@example(["[CLS]", "[[SEP]]", "[cls]", "##ing", "[", "don't"], "")
def test_wordpiece_ids_match_library(words: list[str], joint: str) -> None:
    """Words, special tokens and text in any script are split as in the tokenizers library."""
    text = joint.join(words)
    assert WORDPIECE.encode(text) == _expected(text)
    assert _encoded_together([text, text]) == [_expected(text)] * 2


def test_wordpiece_ids_of_notes_match_library() -> None:
    """Questions and notes of the everyday sets have the library's ids, in all languages."""
    # The long texts of everyday-sessions and -projects add time but no characters.
    texts = [
        json.loads(line)["text"]
        for path in sorted(EVERYDAY.glob("everyday-[!ps]*/*.jsonl"))
        for line in path.read_text("utf-8").splitlines()
    ]
    expected = open_tokenizer()[0].encode_batch(texts, add_special_tokens=False)
    assert [WORDPIECE.encode(text) for text in texts] == [entry.ids for entry in expected]
    assert _encoded_together(texts) == [entry.ids for entry in expected]


def test_wordpiece_handles_each_character_like_library() -> None:
    """Alone or in a word, a character is removed, split or kept as in the library."""
    every = range(0x20000) if SOAK else [*range(0x3400), *range(0x3400, 0x20000, 61)]
    codes = [code for code in every if not 0xD800 <= code < 0xE000]
    texts = [
        " ".join(f"a{chr(code)}b {chr(code)}" for code in codes[start : start + 512])
        for start in range(0, len(codes), 512)
    ]
    expected = open_tokenizer()[0].encode_batch(texts, add_special_tokens=False)
    for text, entry in zip(texts, expected, strict=True):
        assert WORDPIECE.encode(text) == entry.ids
        assert _encoded_together([text]) == [entry.ids]


def test_wordpiece_vocabulary_matches_tokenizer_file() -> None:
    """The sorted vocabulary contains the tokens and ids of the tokenizer file."""
    assert (DATA / VOCABULARY).read_bytes() == vocabulary(WORDS)


def test_wordpiece_lone_surrogate_is_unknown() -> None:
    """Invalid Unicode maps to the unknown token and is not an error."""
    expected = [*_expected("a"), WORDPIECE.unknown, *_expected("b")]
    assert WORDPIECE.encode("a \ud800 b") == expected
    assert _encoded_together(["a \ud800 b"]) == [expected]


def test_wordpiece_ids_do_not_depend_on_text_length() -> None:
    """A text has the same ids alone and together with many others."""
    text = "The café's spare key, 日本語 [SEP] "
    (long,), (short,) = StaticEmbedder().tokens([text * 200]), StaticEmbedder().tokens([text])
    assert long.tolist() == short.tolist() * 200


@pytest.mark.parametrize("name", [VOCABULARY, CHARACTERS])
@pytest.mark.parametrize("damage", ["missing", "half", "no text"])
def test_wordpiece_damaged_vocabulary_is_reported(tmp_path: Path, name: str, damage: str) -> None:
    """A missing or damaged tokenizer file is a single error with a hint to repair it."""
    folder = shutil.copytree(DATA, tmp_path / "embedder")
    path = folder / name
    text = path.read_bytes()
    path.unlink()
    if damage != "missing":
        path.write_bytes(text[: len(text) // 2] if damage == "half" else b"\xff\x00" * 99)
    with pytest.raises(EmbedderError, match="tokenizer cannot be loaded") as raised:
        StaticEmbedder(folder).embed_query("café")
    assert raised.value.hint == REINSTALL
