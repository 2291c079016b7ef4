"""Calibrate an embedder's cosines on the user's machine if no calibration ships with it.

The similarity threshold for forgetting must mean the same with any embedder, but a cosine of 0.7 is
high for one model and low for another. The calibration of the static vectors was fitted to labeled
pairs. For other models, this module embeds the anchors, pairs of short texts in the package, and
fits a logistic map so that pairs about the same subject reach one target mean probability, and all
other pairs reach another.

The targets are not the anchors' true probabilities, because anchors are easier to distinguish than
real texts. They are chosen so that fitting the static vectors to the anchors gives the same map as
fitting them to the labeled pairs. Run ``training/calibrate.py`` to update them after changing an
anchor or the static table.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import numpy as np

from memvault.errors import EmbedderError
from memvault.index.embedding.arrays import Flags, Numbers
from memvault.index.embedding.embedder import Calibration, Embedder, reinstall_hint
from memvault.named_tuple import NamedTuple

_DATA = Path(__file__).resolve().parents[2] / "data"
ANCHORS = _DATA / "anchors.jsonl"
TARGETS = _DATA / "anchor_targets.json"
_MIN_SLOPE, _MAX_SLOPE = 1.0, 200.0
_STEPS = 30


class AnchorPair(NamedTuple):
    """A pair of passages, and whether they are about the same subject."""

    a: str
    b: str
    same: bool


class AnchorTargets(NamedTuple):
    """The target mean probabilities of anchors about the same subject, and of all other anchors.

    Calibrations are stored with the ``version`` of the targets and recomputed when it changes.
    """

    version: int
    same: float
    other: float


@cache
def anchor_targets() -> AnchorTargets:
    """Read the calibration targets; raises ``EmbedderError``."""
    with _reading():
        return AnchorTargets(**json.loads(TARGETS.read_text("utf-8")))


def anchors() -> list[AnchorPair]:
    """Read the anchors: paraphrases, pairs within one topic, and unrelated pairs.

    Raises:
        EmbedderError: if the file is missing or invalid.
    """
    with _reading():
        lines = ANCHORS.read_text("utf-8").splitlines()
        entries = [json.loads(line) for line in lines]
        return [AnchorPair(entry["a"], entry["b"], entry["kind"] == "same") for entry in entries]


@contextmanager
def _reading() -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EmbedderError(
            f"Cannot read the calibration data: {error}", reinstall_hint(error)
        ) from error


def calibrate(embedder: Embedder) -> Calibration:
    """Fit the calibration of an embedder by embedding the anchors.

    Raises:
        EmbedderError: if the anchors cannot be read or the embedder fails.
    """
    pairs = anchors()
    same = np.array([pair.same for pair in pairs])
    values = cosines(embedder, pairs)
    _, same_target, other_target = anchor_targets()
    fitted = fit_logistic(values, np.where(same, same_target, other_target))
    return fitted._replace(separation=separation(values, same))


def separation(values: Numbers, same: Flags) -> float:
    """Return the distance between the means of the two kinds of pairs, in standard deviations."""
    same_values, other_values = values[same], values[~same]
    spread = math.sqrt(float(same_values.var() + other_values.var()) / 2)
    return float(same_values.mean() - other_values.mean()) / max(spread, 1e-6)


def cosines(embedder: Embedder, pairs: Sequence[AnchorPair]) -> Numbers:
    """Return each pair's cosine; the first text is embedded as a query."""
    queries = np.stack([embedder.embed_query(pair.a) for pair in pairs])
    products = queries * embedder.embed([pair.b for pair in pairs])
    values: Numbers = products.sum(axis=1).astype(np.float64)
    return values


def fit_logistic(values: Numbers, targets: Numbers, weights: Numbers | None = None) -> Calibration:
    """Fit the logistic map from cosines to target probabilities by Newton steps.

    The slope stays positive and finite. A model that cannot separate the pairs gets the minimum
    slope, so that few of its cosines reach a similarity of 0.6: forgetting nothing is better than
    forgetting arbitrary memories.
    """
    values = np.nan_to_num(values)
    shares = np.ones_like(values) if weights is None else weights
    shares = shares / shares.sum()
    center, base = float(shares @ values), float(shares @ targets)
    spread = math.sqrt(float(shares @ (values - center) ** 2))
    design = np.stack([(values - center) / max(spread, 1e-6), np.ones_like(values)], axis=1)
    beta = np.zeros(2)
    for _ in range(_STEPS):
        chance = 0.5 + 0.5 * np.tanh(design @ beta / 2)
        curve = (design * (shares * chance * (1 - chance))[:, None]).T @ design
        beta += np.linalg.solve(curve + 1e-9 * np.eye(2), design.T @ (shares * (targets - chance)))
    slope = float(beta[0]) / max(spread, 1e-6)
    if _MIN_SLOPE <= slope <= _MAX_SLOPE:
        return Calibration(slope, center - float(beta[1]) / slope)
    slope = _MAX_SLOPE if slope > _MAX_SLOPE else _MIN_SLOPE
    return Calibration(slope, center - math.log(base / (1 - base)) / slope)
