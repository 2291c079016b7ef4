#!/usr/bin/env python3
"""Fit the weights of score parts, and of the features of the match probability, on judged sets.

    PYTHONPATH=bench python training/fit_ranking.py FOLDER [FOLDER ...] [--model multilingual]
        [--keep-parts] [--fits NAME ...] [--output FILE]

Each FOLDER is a set for ``bench/quality.py``. The program itself retrieves the candidates of every
query and computes their parts. The weights maximize the likelihood of judged candidates under a
softmax over the scores (a listwise loss) with equal weight for each set. A match probability is a
logistic regression over the features of single candidates; its negative examples are unanswerable
questions and questions of other sets.

With ``--keep-parts`` only the match probability is fitted, and the weights of the package are used.
With ``--model multilingual`` that model embeds all sets, and only its fit is computed; other fits
in FILE are kept.

The report fits each set's weights without that set. The figures of docs/development/quality.md come
from the program.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import tempfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from judged import (
    JudgedSet,
    by_group,
    group_of,
    kind_of,
    make_vault,
    other_questions,
    read_set,
)
from memvault.index.embedding.embedder import BUILTIN, MULTILINGUAL
from memvault.index.protocol import COMPLETE, View
from memvault.index.text.analyzer import query_analyzer
from memvault.recall import features
from memvault.recall.answer import RELEVANT, STRONG, RecallRequest
from memvault.recall.features import columns, evidence
from memvault.recall.query import parse
from memvault.recall.ranking import answer_probability as chance_of
from memvault.recall.ranking import length_loss
from memvault.recall.retrieve import retrieve
from memvault.recall.weights import FITTED, RankingWeights, constants
from memvault.workspace import Workspace

Numbers = npt.NDArray[np.float64]

PARTS = (
    "keyword coverage proximity adjacency title_coverage soft_match title_soft_match "
    "static transformer tokens"
).split()
EVIDENCE = (
    "keyword_absolute coverage proximity adjacency title_coverage soft_match_absolute "
    "title_soft_match_absolute static_absolute transformer_absolute tokens_absolute "
    "brevity brief_coverage"
).split()
SIGNS = np.array([-1 if name == "brevity" else 1 for name in EVIDENCE])
"""The sign of each weight: a short memory counts against an answer, everything else counts for
it.
"""
_DEEP = "keyword adjacency soft_match title_soft_match transformer tokens".split()
"""The parts of a score in fits with transformer vectors."""
WITHOUT = {
    "tokens": frozenset(PARTS).difference(_DEEP) | {"brevity", "brief_coverage"},
    "transformer": frozenset(PARTS).difference(_DEEP)
    | frozenset(part for part in (*PARTS, *EVIDENCE) if "tokens" in part),
    "static": frozenset(
        part for part in (*PARTS, *EVIDENCE) if "tokens" in part or part.startswith("transformer")
    ),
    "none": frozenset(
        part
        for part in (*PARTS, *EVIDENCE)
        if "tokens" in part or part.startswith(("transformer", "static")) or "soft" in part
    ),
    "multilingual": frozenset(PARTS).difference(
        "keyword adjacency soft_match title_soft_match static transformer tokens".split()
    )
    | frozenset(
        part for part in EVIDENCE if "tokens" in part or part.startswith("static") or "soft" in part
    ),
}
"""The parts of a score and the probability features that each fit omits."""
RAISED = {"tokens": 2.0, "multilingual": 2.0}
"""Factors by which each fit's weights for ``RAISED_PARTS`` are multiplied.

These parts do not depend on single words. The listwise loss gives them too little weight for a
right first answer (docs/development/quality.md). The other fits gain nothing from a factor.
"""
RAISED_PARTS = ("adjacency", "transformer", "tokens")
FITS = {BUILTIN: ("tokens", "transformer", "static", "none"), MULTILINGUAL: ("multilingual",)}
"""The fits that are made from the vectors of each model."""
STEPS, RATE, LAST_RATE, SHRINKAGE = 300, 0.1, 0.01, 0.1
STRONG_ERRORS, RELEVANT_ERRORS = 0.0075, 0.015
"""The accepted share of unanswerable queries with a strong candidate, and the accepted share of
other queries without a relevant candidate.
"""
DEPTH, LEADING = 10, 3
"""The number of first candidates whose probability is computed, and the number of first candidates
from which the most likely one is chosen for the fit.
"""


class Asked(NamedTuple):
    """One query's candidates: parts, evidence, grades, and score losses for length.

    ``parts`` has the shape (candidates, PARTS), and ``evidence`` has the shape (candidates,
    EVIDENCE). A part is 0 if no candidate has it. ``judged`` are the grades of all judged
    documents, best first. The losses do not affect the fit of the weights.
    """

    parts: Numbers
    evidence: Numbers
    grades: Numbers
    judged: list[float]
    losses: Numbers


def gather(judged: JudgedSet, others: Sequence[str], work: Path, model: str) -> list[Asked]:
    """Return the candidates of a set's queries, and of ``others`` that its vaults do not answer.

    Queries about days are omitted, because they are answered by dates, whose weight is not fitted.
    """
    found: list[Asked] = []
    for group, documents in by_group(judged).items():
        root = work / judged.name / (group or "all")
        ids = make_vault(root, documents)
        settings = f'version = 1\n\n[embedder]\nmodel = "{model}"\n'
        (root / "memvault.toml").write_text(settings, "utf-8")
        workspace = Workspace(root)
        workspace.index.refresh(True, COMPLETE)
        view = workspace.index.refresh(True, COMPLETE)
        for query in [*judged.queries, *judged.unanswerable]:
            if group_of(query) == group and kind_of(query) != "date":
                grades = judged.relevant.get(query["_id"], {})
                found.append(_asked(view, query["text"], ids, grades))
        found += [_asked(view, text, ids, {}) for text in others]
        workspace.close()
    return found


def _asked(view: View, text: str, ids: Mapping[str, str], grades: Mapping[str, float]) -> Asked:
    query = parse(text, query_analyzer(view.languages()))
    retrieved = retrieve(view, query, RecallRequest(text), None)
    candidates = features.compute(view, query, retrieved, retrieved.pool())
    values = columns(candidates)
    nothing = [0.0] * len(candidates)
    of_candidates = [evidence(entry, len(query.words)) for entry in candidates]
    return Asked(
        np.array([values.get(part, nothing) for part in PARTS]).T,
        np.array([[own.get(name, 0.0) for name in EVIDENCE] for own in of_candidates]),
        np.array([grades.get(ids[entry.record.path], 0.0) for entry in candidates]),
        sorted(grades.values(), reverse=True),
        np.array([length_loss(entry.record.size) for entry in candidates]),
    )


def raised_weights(sets: Sequence[Sequence[Asked]], name: str) -> Numbers:
    """Return the weights of a fit, shape (PARTS,), with ``RAISED_PARTS`` multiplied."""
    factors = [RAISED.get(name, 1.0) if part in RAISED_PARTS else 1.0 for part in PARTS]
    found: Numbers = fit_weights(sets, WITHOUT[name]) * np.array(factors)
    return found


def fit_weights(sets: Sequence[Sequence[Asked]], without: frozenset[str]) -> Numbers:
    """Compute the weights, shape (PARTS,), that make judged candidates likely.

    Adam (Kingma and Ba 2015) on the listwise softmax loss (Cao et al. 2007), with non-negative
    weights. Parts are divided by their standard deviation among a query's candidates, with equal
    weight per set, so that all are regularized alike.
    """
    batches = [_batch(asked) for asked in sets]
    allowed = np.array([part not in without for part in PARTS], dtype=float)
    spread = np.sqrt(np.mean([_variance(parts, known) for parts, _, known in batches], axis=0))
    spread = np.maximum(spread, 1e-9)
    weights: Numbers = 0.3 * allowed
    first, second = np.zeros_like(weights), np.zeros_like(weights)
    for step in range(1, STEPS + 1):
        slope = SHRINKAGE * weights
        for parts, wanted, known in batches:
            scores = np.where(known, parts @ (weights / spread), -1e9)
            chosen = np.exp(scores - scores.max(axis=1, keepdims=True))
            chosen /= chosen.sum(axis=1, keepdims=True)
            error = np.einsum("qn,qnp->p", chosen - wanted, parts, optimize=True) / len(parts)
            slope += error / spread / len(batches)
        first = 0.9 * first + 0.1 * slope
        second = 0.999 * second + 0.001 * slope**2
        rise = first / (1 - 0.9**step) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
        rate = RATE + (LAST_RATE - RATE) * (step - 1) / (STEPS - 1)
        weights = np.maximum(weights - rate * rise, 0.0) * allowed
    found: Numbers = weights / spread
    return found


def _variance(parts: Numbers, known: npt.NDArray[np.bool_]) -> Numbers:
    """Return each part's variance among the candidates of a query, averaged over all queries."""
    mask = known[:, :, None]
    means = (parts * mask).sum(axis=1, keepdims=True) / mask.sum(axis=1, keepdims=True)
    found: Numbers = (((parts - means) * mask) ** 2).sum(axis=(0, 1)) / known.sum()
    return found


def _batch(asked: Sequence[Asked]) -> tuple[Numbers, Numbers, npt.NDArray[np.bool_]]:
    """Return parts, target shares and a mask of the rows without padding.

    Queries whose candidates all have a grade, or none, are omitted.
    """
    useful = [own for own in asked if 0 < (own.grades > 0).sum() < len(own.grades)]
    most = max(len(own.grades) for own in useful)
    parts = np.zeros((len(useful), most, len(PARTS)))
    wanted = np.zeros((len(useful), most))
    known = np.zeros((len(useful), most), dtype=np.bool_)
    for number, own in enumerate(useful):
        count = len(own.grades)
        gains = 2**own.grades - 1
        parts[number, :count], known[number, :count] = own.parts, True
        wanted[number, :count] = gains / gains.sum()
    return parts, wanted, known


def scores(asked: Asked, weights: Numbers) -> Numbers:
    """Return the candidates' scores, as in the program without dates and missing numbers."""
    total = weights @ asked.parts.any(axis=0) or 1.0
    found: Numbers = np.maximum(asked.parts @ weights / total - asked.losses, 0.0)
    return found


def ordered(asked: Asked, weights: Numbers) -> npt.NDArray[np.int64]:
    """Return the candidates' positions, best first."""
    return np.argsort(-scores(asked, weights), kind="stable").astype(np.int64)


def figures(sets: Sequence[Asked], weights: Numbers) -> Numbers:
    """Return the means of hit@1, R@5, R@10 and nDCG@10.

    For all but nDCG, only documents with the highest grade are relevant.
    """
    rows = []
    for own in sets:
        if not own.judged:
            continue
        grades = own.grades[ordered(own, weights)]
        right = grades >= own.judged[0]
        total = sum(grade >= own.judged[0] for grade in own.judged)
        hits = [right[:1].sum(), right[:5].sum() / total, right[:10].sum() / total]
        rows.append([*hits, _gain(grades) / _gain(np.array(own.judged))])
    means: Numbers = np.array(rows, dtype=float).mean(axis=0)
    return means


def _gain(grades: Numbers) -> float:
    first = grades[:DEPTH]
    return float(((2**first - 1) / np.log2(np.arange(len(first)) + 2)).sum())


def chance(
    sets: Sequence[Sequence[Asked]], weights: Numbers, without: frozenset[str]
) -> tuple[Numbers, float]:
    """Fit the logistic regression from evidence to "something answers"; return weights and bias.

    Each query is represented by the most likely of its first candidates. Sets have equal weight,
    and so do answerable and unanswerable queries. The most likely candidate depends on the fit, so
    the fit runs twice. The logit is then stretched: nearly all unanswerable queries have no strong
    result, and nearly all others have a relevant one.
    """
    queries = [own for asked in sets for own in asked if len(own.grades)]
    share = np.concatenate([_shares(asked) for asked in sets])
    target = np.array([float(bool(own.judged)) for own in queries])
    leading = [ordered(own, weights)[:LEADING] for own in queries]
    likeliest = [places[0] for places in leading]
    for _ in range(2):
        rows = np.array(
            [own.evidence[place] for own, place in zip(queries, likeliest, strict=True)]
        )
        fitted = _logistic_with_signs(rows, target, share, without)
        likeliest = [
            places[(own.evidence[places] @ fitted).argmax()]
            for own, places in zip(queries, leading, strict=True)
        ]
    wanted = math.log(STRONG / (1 - STRONG)), math.log(RELEVANT / (1 - RELEVANT))
    stretch = 1.0
    for _ in range(10):  # the program lowers candidates behind the best
        highest = np.array([_highest(own, weights, stretch * fitted) for own in queries]) / stretch
        strong = _quantile(highest[target == 0], share[target == 0], 1 - STRONG_ERRORS)
        relevant = _quantile(highest[target == 1], share[target == 1], RELEVANT_ERRORS)
        stretch = (wanted[0] - wanted[1]) / max(strong - relevant, 0.1)
    return stretch * fitted, wanted[0] - stretch * strong


def _shares(asked: Sequence[Asked]) -> Numbers:
    """Return the weight of each query: answerable and unanswerable queries sum to 100 each.

    The fit's regularization is relative to this sum.
    """
    answered = np.array([bool(own.judged) for own in asked if len(own.grades)])
    found: Numbers = np.where(answered, 1 / max(answered.sum(), 1), 1 / max((~answered).sum(), 1))
    return 100 * found


def _logistic_with_signs(
    rows: Numbers, target: Numbers, share: Numbers, without: frozenset[str]
) -> Numbers:
    """Fit a logistic regression without features whose weight would have the wrong sign."""
    known = np.array([name not in without for name in EVIDENCE], dtype=float)
    fitted = _logistic(rows * known, target, share)
    while (fitted * SIGNS < 0).any():
        known[fitted * SIGNS < 0] = 0.0
        fitted = _logistic(rows * known, target, share)
    return fitted


def _highest(own: Asked, weights: Numbers, fitted: Numbers) -> float:
    """Return the highest logit among a query's first candidates, without the bias."""
    first, behind = _first(own, weights)
    return float((own.evidence[first] @ fitted - constants().deficit_weight * behind).max())


def _first(own: Asked, weights: Numbers) -> tuple[npt.NDArray[np.int64], Numbers]:
    """Return the first candidates' positions, and how far their scores are behind the best."""
    first = ordered(own, weights)[:DEPTH]
    found = scores(own, weights)[first]
    return first, found[0] - found


def _quantile(values: Numbers, share: Numbers, part: float) -> float:
    """Return the weighted quantile of values."""
    order = np.argsort(values)
    place = np.searchsorted(np.cumsum(share[order]), part * share.sum())
    return float(values[order][min(int(place), len(values) - 1)])


def _logistic(rows: Numbers, target: Numbers, share: Numbers) -> Numbers:
    """Return the weights of a logistic regression by Newton steps, without its bias."""
    design = np.concatenate([rows, np.ones((len(rows), 1))], axis=1)
    beta = np.zeros(design.shape[1])
    shrinkage = np.append(np.full(rows.shape[1], 5.0), 1e-9)
    for _ in range(50):
        chance = 0.5 + 0.5 * np.tanh(design @ beta / 2)
        slope = design.T @ (share * (chance - target)) + shrinkage * beta
        curve = (design * (share * chance * (1 - chance))[:, None]).T @ design
        beta -= np.linalg.solve(curve + np.diag(shrinkage), slope)
    found: Numbers = beta[:-1] * rows.any(axis=0)
    return found


def chances(own: Asked, weights: Numbers, fit: tuple[Numbers, float]) -> Numbers:
    """Return the first candidates' match probabilities, in order, as computed by the program."""
    known = RankingWeights({}, dict(zip(EVIDENCE, fit[0].tolist(), strict=True)), fit[1])
    return np.array(
        [
            chance_of(dict(zip(EVIDENCE, own.evidence[place].tolist(), strict=True)), known, behind)
            for place, behind in zip(*_first(own, weights), strict=True)
        ]
    )


class Strengths(NamedTuple):
    """Shares of queries with a candidate that is strong or relevant.

    ``nothing_`` fields are for unanswerable queries. For the other queries, ``answered_`` fields
    count any candidate, and ``right_`` fields count only correct ones.
    """

    nothing_strong: float
    nothing_relevant: float
    answered_relevant: float
    right_relevant: float
    right_strong: float


def strengths(asked: Sequence[Asked], weights: Numbers, fit: tuple[Numbers, float]) -> Strengths:
    """Compute how often the candidates of queries are strong or relevant."""
    wrong, best, right = [], [], []
    for own in asked:
        found = chances(own, weights, fit) if len(own.grades) else np.zeros(0)
        if not own.judged:
            wrong.append(found.max(initial=0.0))
            continue
        is_right = own.grades[ordered(own, weights)[:DEPTH]] >= own.judged[0]
        best.append(found.max(initial=0.0))
        right.append(found[is_right].max(initial=0.0))

    def part(values: Sequence[float], least: float) -> float:
        return float(np.mean(np.array(values) >= least)) if values else 0.0

    return Strengths(
        part(wrong, STRONG),
        part(wrong, RELEVANT),
        part(best, RELEVANT),
        part(right, RELEVANT),
        part(right, STRONG),
    )


def report(sets: Mapping[str, Sequence[Asked]], name: str, keeps_parts: bool) -> None:
    """Print each set's figures with weights fitted without it, and with the final weights."""

    def weights_of(fitted: Sequence[Sequence[Asked]]) -> Numbers:
        return shipped_weights(name) if keeps_parts else raised_weights(fitted, name)

    of_all = weights_of(list(sets.values()))
    chance_of_all = chance(list(sets.values()), of_all, WITHOUT[name])
    shares = "none strong | none relevant | answered relevant | right relevant | right strong"
    print(f"\n| {name} | hit@1 | R@5 | R@10 | nDCG@10 | {shares} |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    means = []
    for left_out, asked in sets.items():
        others = [entry for other, entry in sets.items() if other != left_out]
        weights = weights_of(others)
        own_chance = chance(others, weights, WITHOUT[name])
        for title, each, fit in (
            (left_out, weights, own_chance),
            ("  fit of all", of_all, chance_of_all),
        ):
            found = [*figures(asked, each), *strengths(asked, each, fit)]
            print(f"| {title} | {' | '.join(f'{value:.3f}' for value in found)} |", flush=True)
            means.append(found)
    for title, rows in (("mean, left out", means[::2]), ("mean, fit of all", means[1::2])):
        values = np.array(rows).mean(axis=0)
        print(f"| {title} | {' | '.join(f'{value:.3f}' for value in values)} |", flush=True)


def shipped_weights(name: str) -> Numbers:
    """Return the weights of a fit in the package, shape (PARTS,)."""
    parts = json.loads(FITTED.read_text("utf-8"))["fits"][name]["parts"]
    return np.array([parts.get(part, 0.0) for part in PARTS])


def written(
    sets: Mapping[str, Sequence[Asked]], model: str, names: Sequence[str], keeps_parts: bool
) -> dict[str, Any]:
    """Return all fits in the package's format; only those with the given names are computed."""
    known = json.loads(FITTED.read_text("utf-8"))
    for name in names:
        without = WITHOUT[name]
        every = list(sets.values())
        weights = shipped_weights(name) if keeps_parts else raised_weights(every, name)
        evidence_weights, constant = chance(every, weights, without)
        known["fits"][name] = {
            "parts": {
                part: round(float(value), 3)
                for part, value in zip(PARTS, weights, strict=True)
                if value
            },
            "evidence": {
                name: round(float(value), 3)
                for name, value in zip(EVIDENCE, evidence_weights, strict=True)
                if value
            },
            "bias": round(constant, 3),
        }
    prefix = "" if model == BUILTIN else f"{model}_"
    kind = "evidence_" if keeps_parts else ""
    return {
        **known,
        f"{prefix}{kind}fitted": datetime.now(UTC).date().isoformat(),
        f"{prefix}{kind}sets": sorted(sets),
        "constants": constants()._asdict(),  # the fits are valid only with these constants
    }


def token_line(sets: Mapping[str, Sequence[Asked]]) -> str:
    """Return the line from calibrated cosines to token matches, for ``recall.features``."""
    rows = np.concatenate([own.evidence for asked in sets.values() for own in asked])
    places = [EVIDENCE.index(name) for name in ("transformer_absolute", "tokens_absolute")]
    cosine, match = rows[:, places].T
    slope, offset = np.polyfit(cosine[match != 0], match[match != 0], 1)
    return f"token matches are {offset:.3f} + {slope:.3f} times the calibrated cosine"


def main() -> None:
    """Gather candidates, report, and write the fits."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--model", choices=tuple(FITS), default=BUILTIN, help="of the vectors")
    parser.add_argument("--output", type=Path, help="write the fits here")
    parser.add_argument("--others", type=int, default=40, help="questions of other sets")
    parser.add_argument("--keep-parts", action="store_true", help="fit only the match probability")
    parser.add_argument("--fits", nargs="+", help="compute only these fits; others are kept")
    options = parser.parse_args()
    names = options.fits or FITS[options.model]
    if unknown := set(names) - set(FITS[options.model]):
        parser.error(f"no fit of the model {options.model}: {', '.join(sorted(unknown))}")
    judged = {folder.name: read_set(folder, "fit") for folder in options.folders}
    with tempfile.TemporaryDirectory() as work, tempfile.TemporaryDirectory() as cache:
        os.environ["MEMVAULT_CACHE"] = os.environ["MEMVAULT_STATE"] = cache
        os.environ["MEMVAULT_DEEP"] = "now"
        sets = {}
        for name, own in judged.items():
            foreign = other_questions(own, list(judged.values()), options.others)
            sets[name] = gather(own, foreign, Path(work), options.model)
            print(f"{name}: {len(sets[name])} questions", flush=True)
    for name in names:
        report(sets, name, options.keep_parts)
    print(f"\n{token_line(sets)}")
    if options.output:
        options.output.write_text(
            json.dumps(written(sets, options.model, names, options.keep_parts), indent=1) + "\n",
            "utf-8",
        )


if __name__ == "__main__":
    main()
