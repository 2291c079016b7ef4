"""What an embedder's cosines mean, found on the user's machine where nobody has measured it.

The threshold of a forget must mean the same with any embedder, but 0.7 is near
for one model and far for another. The built-in table's calibration was fitted
to labelled pairs. Any other model embeds the anchors, pairs of short texts that
come with the package, and gets the logistic map that lets anchors about the
same thing reach ``_SAME`` on average, and the others ``_OTHER``.

Those are no chances of the anchors, which are easier to tell apart than real
texts. They are the targets with which the built-in table's fit to the anchors
is its fit to the labelled pairs. ``scripts/training/calibrate.py`` prints them; whoever
changes an anchor or the table has to enter them anew, and raise ``VERSION``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from memvault.errors import EmbedderError
from memvault.index.embedding.embedder import Calibration, Embedder

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Numbers = npt.NDArray[np.float64]

VERSION = 2
"""Stored with the constants; others were found in another way and are found again."""
ANCHORS = Path(__file__).resolve().parents[2] / "data" / "anchors.jsonl"
_SAME, _OTHER = 0.6854, 0.0605
_LEAST, _GREATEST = 1.0, 200.0
_STEPS = 30


class AnchorPair(NamedTuple):
    """Two texts, and whether they are about the same thing."""

    a: str
    b: str
    same: bool


def anchors() -> list[AnchorPair]:
    """Read the anchors: rewordings, neighbours in one topic, and pairs with nothing in common.

    Raises:
        EmbedderError: they are not there.
    """
    try:
        lines = ANCHORS.read_text("utf-8").splitlines()
        entries = [json.loads(line) for line in lines]
        return [AnchorPair(entry["a"], entry["b"], entry["kind"] == "same") for entry in entries]
    except (OSError, ValueError, KeyError) as error:
        raise EmbedderError(
            f"The anchors cannot be read: {error}", "pip install --force-reinstall memvault"
        ) from error


def calibrate(embedder: Embedder) -> Calibration:
    """Find what an embedder's cosines mean by embedding the anchors; errors as for both."""
    import numpy as np

    pairs = anchors()
    same = np.array([pair.same for pair in pairs])
    values = cosines(embedder, pairs)
    found = fit_logistic(values, np.where(same, _SAME, _OTHER))
    return found._replace(separation=separation(values, same))


def separation(values: Numbers, same: npt.NDArray[np.bool_]) -> float:
    """Return by how many standard deviations the cosines of alike and of other pairs differ."""
    alike, other = values[same], values[~same]
    spread = math.sqrt(float(alike.var() + other.var()) / 2)
    return float(alike.mean() - other.mean()) / max(spread, 1e-6)


def cosines(embedder: Embedder, pairs: Sequence[AnchorPair]) -> Numbers:
    """Return each pair's cosine, one side as a query: many models embed those differently."""
    import numpy as np

    queries = np.stack([embedder.embed_query(pair.a) for pair in pairs])
    products = queries * embedder.embed([pair.b for pair in pairs])
    found: Numbers = products.sum(axis=1).astype(np.float64)
    return found


def fit_logistic(values: Numbers, targets: Numbers, weights: Numbers | None = None) -> Calibration:
    """Fit the logistic map from cosines to target chances by Newton steps.

    The slope stays positive and finite. A model that cannot tell the pairs
    apart gets the least slope, with which hardly a cosine reaches 0.6: better
    that nothing is forgotten than anything.
    """
    import numpy as np

    values = np.nan_to_num(values)
    shares = np.ones_like(values) if weights is None else weights
    shares = shares / shares.sum()
    centre, base = float(shares @ values), float(shares @ targets)
    spread = math.sqrt(float(shares @ (values - centre) ** 2))
    design = np.stack([(values - centre) / max(spread, 1e-6), np.ones_like(values)], axis=1)
    beta = np.zeros(2)
    for _ in range(_STEPS):
        chance = 0.5 + 0.5 * np.tanh(design @ beta / 2)
        curve = (design * (shares * chance * (1 - chance))[:, None]).T @ design
        beta += np.linalg.solve(curve + 1e-9 * np.eye(2), design.T @ (shares * (targets - chance)))
    slope = float(beta[0]) / max(spread, 1e-6)
    if _LEAST <= slope <= _GREATEST:
        return Calibration(slope, centre - float(beta[1]) / slope)
    slope = _GREATEST if slope > _GREATEST else _LEAST
    return Calibration(slope, centre - math.log(base / (1 - base)) / slope)
