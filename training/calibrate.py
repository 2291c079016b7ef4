#!/usr/bin/env python3
"""Evaluate the calibrations of embedders on labeled pairs, and compute the anchor targets.

    python training/calibrate.py PAIRS [--model NAME_OR_FOLDER ...]
    python training/calibrate.py --targets

PAIRS is a folder of ``*.jsonl`` files with lines ``{"a", "b", "label"}``, where label 1 means that
both texts are about the same thing. All files have the same weight. For the built-in embedder and
each model, the script prints the area under the curve (AUC) of each file, and then a table with a
row for each calibration. *pairs* is fitted to the labels of the pairs, and *anchors* is the
calibration that the program computes. The others are alternatives that were tried:

- *labels*: fitted to the anchors with targets 1 and 0.
- *class means*: the mean logits of the anchors about the same thing, and of the other anchors, are
  made equal to those of the built-in embedder.
- *spread*: the mean and the standard deviation of the logits of all anchors are made equal to those
  of the built-in embedder.
- *fixed*: slope 10, midpoint 0.5.

ECE is the expected calibration error over ten bins. P and R are precision and recall if pairs with
at least the given similarity are classified as being about the same thing. *as pairs* is the share
of pairs that are classified as by the calibration *pairs*.

``--targets`` writes ``data/anchor_targets.json``: the targets for which fitting to the anchors
reproduces the calibration in the built-in embedder's card. Run it after changing an anchor or the
built-in embedder.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from memvault.index.embedding.calibrate import (
    TARGETS,
    AnchorPair,
    AnchorTargets,
    anchor_targets,
    anchors,
    calibrate,
    cosines,
    fit_logistic,
    separation,
)
from memvault.index.embedding.embedder import Calibration, Embedder
from memvault.index.embedding.static import StaticEmbedder
from memvault.index.embedding.transformer import load_embedder

BINS = 10
THRESHOLDS = (0.6, 0.75)

Numbers = npt.NDArray[np.float64]


class Measured(NamedTuple):
    """Labeled pairs with their cosines; ``weights`` add up to 1, equally for each file."""

    cosines: Numbers
    labels: Numbers
    weights: Numbers
    areas: dict[str, float]


def measure(folder: Path, embedder: Embedder) -> Measured:
    """Embed the labeled pairs of a folder."""
    files = sorted(folder.glob("*.jsonl"))
    values, labels, weights, areas = [], [], [], {}
    for path in files:
        rows = [json.loads(line) for line in path.read_text("utf-8").splitlines() if line]
        pairs = [AnchorPair(row["a"], row["b"], bool(row["label"])) for row in rows]
        found, same = cosines(embedder, pairs), np.array([pair.same for pair in pairs])
        values.append(found)
        labels.append(same.astype(np.float64))
        weights.append(np.full(len(pairs), 1 / (len(pairs) * len(files))))
        above = found[same][:, None] - found[~same]
        areas[path.stem] = float((above > 0).mean() + (above == 0).mean() / 2)
    return Measured(np.concatenate(values), np.concatenate(labels), np.concatenate(weights), areas)


def write_card(
    file: Path,
    about: Mapping[str, Any],
    load: Callable[[], Embedder],
    pairs: Path | None,
    calibration: Calibration = Calibration(8.0, 0.5, 1.0),  # noqa: B008 - immutable
) -> None:
    """Write a model's card, with its calibration.

    With ``pairs``, the calibration is fitted to the pairs, and its separation is computed from the
    anchors. To embed them, the model is loaded with a card that has the given ``calibration``.
    """
    file.write_text(json.dumps({**about, **calibration._asdict()}, indent=2) + "\n", "utf-8")
    if pairs is None:
        return
    embedder, known = load(), anchors()
    found = measure(pairs, embedder)
    fitted = fit_logistic(found.cosines, found.labels, found.weights)
    same = np.array([pair.same for pair in known])
    fitted = fitted._replace(separation=separation(cosines(embedder, known), same))
    rounded = {name: round(value, 4) for name, value in fitted._asdict().items()}
    file.write_text(json.dumps({**about, **rounded}, indent=2) + "\n", "utf-8")


def similarities(calibration: Calibration, values: Numbers) -> Numbers:
    """Return the similarities of cosines."""
    return np.array([calibration.similarity(float(value)) for value in values])


def targets(builtin: Embedder) -> AnchorTargets:
    """Return the targets that reproduce the built-in embedder's calibration from the anchors.

    A logistic fit preserves the sum of the targets, and the sum of targets times cosines; these are
    two equations with two unknowns. Targets that differ from the current ones get the next version.
    """
    assert builtin.calibration is not None
    pairs = anchors()
    values, same = cosines(builtin, pairs), np.array([pair.same for pair in pairs])
    chances = similarities(builtin.calibration, values)
    sums = np.array([[same.sum(), (~same).sum()], [values[same].sum(), values[~same].sum()]])
    solved = np.linalg.solve(sums, np.array([chances.sum(), values @ chances]))
    first, second = (round(float(value), 4) for value in solved)
    present = anchor_targets()
    found = present._replace(same=first, other=second)
    return found if found == present else found._replace(version=present.version + 1)


def by_class_means(values: Numbers, wanted: Numbers, same: npt.NDArray[np.bool_]) -> Calibration:
    """Return the calibration that gives the two classes the desired mean logits."""
    rise = float(wanted[same].mean() - wanted[~same].mean())
    slope = rise / float(values[same].mean() - values[~same].mean())
    return Calibration(slope, float(values[same].mean() - wanted[same].mean() / slope))


def by_spread(values: Numbers, wanted: Numbers) -> Calibration:
    """Return the calibration that gives the logits the desired mean and standard deviation."""
    slope = float(wanted.std() / values.std())
    return Calibration(slope, float(values.mean() - wanted.mean() / slope))


def routes(embedder: Embedder, builtin: Embedder) -> dict[str, Calibration]:
    """Return every calibration that needs no labeled pairs."""
    assert builtin.calibration is not None
    pairs = anchors()
    same = np.array([pair.same for pair in pairs])
    values = cosines(embedder, pairs)
    chances = similarities(builtin.calibration, cosines(builtin, pairs))
    logits = np.log(chances / (1 - chances))
    return {
        "anchors": calibrate(embedder),
        "labels": fit_logistic(values, same.astype(np.float64)),
        "class means": by_class_means(values, logits, same),
        "spread": by_spread(values, logits),
        "fixed": Calibration(10.0, 0.5),
    }


def row(name: str, found: Measured, calibration: Calibration, best: Calibration) -> str:
    """Return a row of the table."""
    chances = similarities(calibration, found.cosines)
    reference = similarities(best, found.cosines)
    bins = np.minimum((chances * BINS).astype(int), BINS - 1)
    error = sum(
        abs(float(found.weights[bins == number] @ (chances - found.labels)[bins == number]))
        for number in range(BINS)
    )
    cells = [name, f"{calibration.slope:.2f}", f"{calibration.midpoint:.3f}", f"{error:.3f}"]
    for threshold in THRESHOLDS:
        chosen = chances >= threshold
        right = float(found.weights @ (chosen * found.labels))
        share = float(found.weights @ chosen)
        agreed = float(found.weights @ (chosen == (reference >= threshold)))
        precision = f"{right / share:.2f}" if share else "–"
        reached = right / float(found.weights @ found.labels)
        cells += [precision, f"{reached:.2f}", f"{agreed:.3f}"]
    return f"| {' | '.join(cells)} |"


def report(folder: Path, embedder: Embedder, builtin: Embedder) -> None:
    """Print an embedder's table."""
    found = measure(folder, embedder)
    best = fit_logistic(found.cosines, found.labels, found.weights)
    areas = ", ".join(f"{name} {area:.3f}" for name, area in found.areas.items())
    base = float(found.weights @ found.labels)
    name = Path(embedder.name).name
    print(f"\n{name}: {len(found.labels):,} pairs, {base:.2f} of them the same; AUC: {areas}\n")
    heads = "".join(f" P at {value} | R at {value} | as pairs |" for value in THRESHOLDS)
    print(f"| calibration | slope | midpoint | ECE |{heads}")
    print("| --- " * (4 + 3 * len(THRESHOLDS)) + "|")
    for way, calibration in {"pairs": best, **routes(embedder, builtin)}.items():
        print(row(way, found, calibration, best))


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("pairs", type=Path, nargs="?")
    parser.add_argument("--model", action="append", default=[])
    parser.add_argument("--targets", action="store_true")
    options = parser.parse_args()
    builtin = StaticEmbedder()
    if options.targets:
        TARGETS.write_text(json.dumps(targets(builtin)._asdict()) + "\n", "utf-8")
        return
    if options.pairs is None:
        parser.error("PAIRS is missing")
    report(options.pairs, builtin, builtin)
    for name in options.model:
        report(options.pairs, load_embedder(name, Path.cwd()), builtin)


if __name__ == "__main__":
    main()
