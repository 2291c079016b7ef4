#!/usr/bin/env python3
r"""Fit the built-in embedder's table to a teacher's sentence vectors.

    python training/train_static_embedder.py TEACHER_FOLDER TEXTS.jsonl VECTORS.npy OUTPUT \
        [--questions QUESTIONS.jsonl] [--pairs PAIRS_FOLDER]
        [--epochs 8] [--dimension 256] [--seed 1]

TEXTS and VECTORS come from ``texts.py`` and ``embed_teacher.py``. A text's vector is the normalized
sum of its tokens' rows. Initially, a row is the teacher's vector of the single token
(``build_static_embedder.py``), projected on the first principal components of the teacher's
sentence vectors. The rows are then fitted with Adam, so that texts get vectors similar to the
teacher's: the loss is 1 - cosine, plus 20 times the squared difference of the similarities within a
batch.

With QUESTIONS (``pairs.py``), the rows are then tuned for retrieval in one pass over the pairs.
Within a batch, a query should be nearest to its own passage, and a passage to its own query
(cross-entropy of cosines divided by 0.05). The first loss is added, so that vectors stay close to
the teacher's. This requires at least one batch of 1,024 pairs.

Fitting and tuning must be one run, since the last step changes the table so that it cannot be tuned
further. This step shortens the directions along which texts differ most, each by its length to the
power of 0.2, which gives the other directions more influence. Rows are stored as 8-bit integers
with one scale per row.

Requires PyTorch and runs on the CPU: on two cores, an epoch takes about one second per thousand
texts. Prints the loss and, for held-out texts, the mean cosine to the teacher's vectors and the
correlation of similarities.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from tokenizers import Tokenizer

from build_static_embedder import OUTPUT, rarity, teacher_vectors, write_table

BATCH = 512
HELD_OUT = 4_000
RATE = 3e-3
SIMILARITY_WEIGHT = 20.0
MAX_TOKENS = 256
QUESTION_BATCH = 1_024
QUESTION_RATE = 1e-3
QUESTION_WEIGHT = 0.3
QUESTION_RUN = 8  # number of adjacent pairs that stay together in a batch
TEMPERATURE = 0.05
FLATTEN = 0.2
FLATTEN_SAMPLE = 20_000
VERSION = "3"

Matrix = npt.NDArray[np.float32]


def token_ids(tokenizer: Tokenizer, texts: list[str]) -> list[npt.NDArray[np.int64]]:
    """Return each text's token ids without special tokens."""
    tokenizer.no_padding()
    tokenizer.enable_truncation(MAX_TOKENS)
    found = []
    for start in range(0, len(texts), 10_000):
        encoded = tokenizer.encode_batch_fast(
            texts[start : start + 10_000], add_special_tokens=False
        )
        found += [np.asarray(entry.ids, dtype=np.int64) for entry in encoded]
    return found


def principal_axes(vectors: Matrix, dimension: int) -> Matrix:
    """Return the first principal axes through the origin, shape (dimension, width)."""
    _, axes = np.linalg.eigh(vectors.T @ vectors)
    first: Matrix = axes[:, ::-1][:, :dimension].T.astype(np.float32)
    return first


def unit(rows: Matrix) -> Matrix:
    """Scale rows to length 1; zeros stay."""
    scaled: Matrix = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)
    return scaled


class Fit:
    """The rows being fitted, and the texts they are fitted on."""

    def __init__(self, rows: Matrix, ids: list[npt.NDArray[np.int64]], targets: Matrix) -> None:
        self.bag = torch.nn.EmbeddingBag.from_pretrained(
            torch.from_numpy(rows), freeze=False, mode="sum"
        )
        self._ids = ids
        self._targets = torch.from_numpy(targets)

    def vectors(self, places: npt.NDArray[np.int64]) -> Any:
        """Embed the texts at some positions as unit vectors."""
        return self.embed([self._ids[place] for place in places])

    def embed(self, chosen: list[npt.NDArray[np.int64]]) -> Any:
        """Embed texts given as token ids as unit vectors."""
        lengths = np.array([0, *(len(ids) for ids in chosen[:-1])])
        flat = torch.from_numpy(np.concatenate(chosen))
        sums = self.bag(flat, torch.from_numpy(np.cumsum(lengths)))
        return torch.nn.functional.normalize(sums, dim=1)

    def loss(self, places: npt.NDArray[np.int64]) -> Any:
        """Return the loss of one batch."""
        found, wanted = self.vectors(places), self._targets[torch.from_numpy(places)]
        direction = 1.0 - (found * wanted).sum(dim=1).mean()
        structure = (found @ found.T - wanted @ wanted.T).square().mean()
        return direction + SIMILARITY_WEIGHT * structure

    def report(self, places: npt.NDArray[np.int64]) -> str:
        """Print how close the vectors of texts are to the teacher's."""
        with torch.no_grad():
            found, wanted = self.vectors(places), self._targets[torch.from_numpy(places)]
            cosine = float((found * wanted).sum(dim=1).mean())
            upper = torch.triu_indices(len(places), len(places), 1)
            pairs = torch.stack([(rows @ rows.T)[upper[0], upper[1]] for rows in (found, wanted)])
            return f"cosine {cosine:.4f}, correlation {float(torch.corrcoef(pairs)[0, 1]):.4f}"

    def run(self, train: npt.NDArray[np.int64], held: npt.NDArray[np.int64], epochs: int) -> None:
        """Fit for some epochs, with the rate falling to zero."""
        optimizer = torch.optim.Adam(self.bag.parameters(), lr=RATE)
        steps = epochs * (len(train) // BATCH)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0 - step / steps)
        print(f"before: {self.report(held)}", flush=True)
        for epoch in range(epochs):
            order, total = np.random.permutation(train), 0.0  # seeded in main
            for start in range(0, len(order) - BATCH + 1, BATCH):
                loss = self.loss(order[start : start + BATCH])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                schedule.step()
                total += float(loss.detach())
            mean = total / (len(order) // BATCH)
            print(f"epoch {epoch + 1}: loss {mean:.4f}; held out: {self.report(held)}", flush=True)

    def tune(
        self, train: npt.NDArray[np.int64], held: npt.NDArray[np.int64], questions: Questions
    ) -> None:
        """Fit queries to their passages, together with the teacher, in one pass over the pairs."""
        optimizer = torch.optim.Adam(self.bag.parameters(), lr=QUESTION_RATE)
        batches = list(questions.batches())
        schedule = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda step: 1.0 - step / len(batches)
        )
        order, total = np.random.permutation(train), 0.0  # seeded in main
        for step, batch in enumerate(batches):
            teacher = self.loss(order.take(np.arange(BATCH) + step * BATCH, mode="wrap"))
            matched = self.matching(questions, batch)
            optimizer.zero_grad()
            (teacher + QUESTION_WEIGHT * matched).backward()
            optimizer.step()
            schedule.step()
            total += float(matched.detach())
        mean = total / len(batches)
        print(f"questions: loss {mean:.4f}; held out: {self.report(held)}", flush=True)

    def matching(self, questions: Questions, batch: npt.NDArray[np.int64]) -> Any:
        """Return the cross-entropy of retrieving passages by queries, and queries by passages."""
        asked = self.embed([questions.queries[place] for place in batch])
        told = self.embed([questions.passages[place] for place in batch])
        same = torch.from_numpy(questions.kinds[batch][:, None] == questions.kinds[batch][None])
        same.fill_diagonal_(False)  # equal queries: neither passage is wrong
        scores = (asked @ told.T / TEMPERATURE).masked_fill(same, -1e4)
        right = torch.arange(len(batch))
        entropy = torch.nn.functional.cross_entropy
        return (entropy(scores, right) + entropy(scores.T, right)) / 2


class Questions:
    """Pairs of a query and a passage as token ids; ``kinds`` is equal for equal queries."""

    def __init__(self, tokenizer: Tokenizer, path: Path) -> None:
        pairs = [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]
        self.queries = token_ids(tokenizer, [query for query, _ in pairs])
        self.passages = token_ids(tokenizer, [passage for _, passage in pairs])
        self.kinds = np.unique([query.lower() for query, _ in pairs], return_inverse=True)[1]

    def batches(self) -> Iterator[npt.NDArray[np.int64]]:
        """Yield the positions of each batch: runs of neighbors, shuffled."""
        runs = np.arange(len(self.queries) // QUESTION_RUN * QUESTION_RUN).reshape(-1, QUESTION_RUN)
        places = np.random.permutation(runs).ravel()  # seeded in main
        for start in range(0, len(places) - QUESTION_BATCH + 1, QUESTION_BATCH):
            batch = places[start : start + QUESTION_BATCH]
            full = [len(self.queries[place]) and len(self.passages[place]) for place in batch]
            yield batch[np.array(full, dtype=bool)]


def flattened(rows: Matrix, vectors: Matrix) -> Matrix:
    """Shorten the directions along which texts' vectors are longest."""
    squares, axes = np.linalg.eigh(vectors.T @ vectors)
    factors = np.maximum(squares, 1e-6) ** (-FLATTEN / 2)
    scaled: Matrix = (rows @ (axes * factors) @ axes.T).astype(np.float32)
    return scaled / np.float32(factors.mean())


def first_rows(teacher: Path, tokenizer: Tokenizer, axes: Matrix) -> Matrix:
    """Return each token's own teacher vector in the axes, weighted by rarity."""
    weights = rarity(tokenizer)
    rows = teacher_vectors(teacher, tokenizer)
    found: Matrix = unit(rows - rows.mean(axis=0)) @ axes.T * weights / weights.max()
    return found.astype(np.float32)


def main() -> None:
    """Fit and write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("teacher", type=Path)
    parser.add_argument("texts", type=Path)
    parser.add_argument("vectors", type=Path)
    parser.add_argument("output", type=Path, nargs="?", default=OUTPUT)
    parser.add_argument("--questions", type=Path)
    parser.add_argument("--pairs", type=Path)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--dimension", type=int, default=256)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    np.random.seed(options.seed)  # one seed for the whole run
    torch.manual_seed(options.seed)
    rows = np.load(options.vectors, mmap_mode="r")
    texts = [json.loads(line) for line in options.texts.read_text("utf-8").splitlines()]
    tokenizer = Tokenizer.from_file(str(options.teacher / "tokenizer.json"))
    questions = Questions(tokenizer, options.questions) if options.questions else None
    if questions and len(questions.queries) < QUESTION_BATCH:
        parser.error(
            f"{options.questions} has {len(questions.queries):,} pairs, "
            f"fewer than one batch of {QUESTION_BATCH:,}."
        )
    ids = token_ids(tokenizer, texts)
    ready = np.array([n for n in range(len(texts)) if len(ids[n]) and rows[n, :8].any()])
    teacher = np.zeros((len(texts), rows.shape[1]), dtype=np.float32)
    teacher[ready] = rows[ready]
    axes = principal_axes(teacher[ready], options.dimension)
    kept = float(np.linalg.norm(teacher[ready] @ axes.T, axis=1).mean())
    print(f"{len(ready):,} texts; the axes keep {kept:.4f} of their length")
    train, held = ready[HELD_OUT:], ready[:HELD_OUT]
    fit = Fit(first_rows(options.teacher, tokenizer, axes), ids, unit(teacher @ axes.T))
    fit.run(train, held, options.epochs)
    if questions:
        fit.tune(train, held, questions)
    with torch.no_grad():
        sample = fit.vectors(train[:FLATTEN_SAMPLE]).numpy()
    fitted = flattened(fit.bag.weight.detach().numpy(), sample)
    write_table(options.output, fitted, options.teacher, VERSION, options.pairs)


if __name__ == "__main__":
    main()
