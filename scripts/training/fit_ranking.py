#!/usr/bin/env python3
"""Fit what the parts of a score count, and what a chance means, on judged sets.

    python scripts/training/fit_ranking.py FOLDER [FOLDER ...] [--output FILE]

Each FOLDER is a set as ``bench/quality.py`` reads it. Every query is asked of
the program itself, and the parts of its candidates are written down. The
weights make the judged candidates likely under a softmax over the scores
(a listwise loss), each set counting the same. A chance is a logistic regression
over what says of a candidate by itself that it answers; questions of other sets
and questions that nothing answers are its counterexamples.

The report leaves each set out of its own fit. The figures of docs/quality.md are
the program's.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import quality

from memvault.index import analysis
from memvault.index.protocol import WHOLE
from memvault.recall.compared import Compared
from memvault.recall.query import parse
from memvault.recall.ranking import columns
from memvault.recall.retrieve import retrieve
from memvault.recall.strength import evidence
from memvault.recall.values import Request
from memvault.recall.weights import corners
from memvault.workspace import Workspace

Numbers = npt.NDArray[np.float64]

PARTS = (
    "keyword keyword_own covered together order title words words_own title_words "
    "vector vector_own deep deep_own"
).split()
EVIDENCE = (
    "keyword_own covered together order title words_own title_words vector_own deep_own few "
    "covered_few"
).split()
WITHOUT = {
    "deep": frozenset[str](),
    "quick": frozenset({"deep", "deep_own"}),
    "words": frozenset({"deep", "deep_own", "vector", "vector_own"}),
}
"""Which parts a fit does without."""
SHARPNESS = 12.0
STEPS, RATE, SHRINKAGE = 300, 0.05, 1e-3
DEPTH = 20
STRONG_ERRORS = 0.05


class Asked(NamedTuple):
    """One query's candidates: parts, place between the corners, evidence, and grades.

    ``parts`` has shape (candidates, PARTS), ``evidence`` (candidates, EVIDENCE);
    a part that nobody has is 0.
    """

    parts: Numbers
    corners: Numbers
    evidence: Numbers
    grades: Numbers
    whole: float
    answers: bool


def gather(judged: quality.JudgedSet, others: Sequence[str], work: Path) -> list[Asked]:
    """Ask a set's questions, and ``others`` that its vaults do not answer, and write down all."""
    found: list[Asked] = []
    for group, documents in quality.by_group(judged).items():
        root = work / judged.name / (group or "all")
        ids = quality.make_vault(root, documents)
        with Workspace(root) as workspace:
            view = workspace.index.look(True, WHOLE)
            language = workspace.settings.language
            analyser = analysis.analyser(language)

            def ask(text: str, grades: Mapping[str, float], answers: bool) -> Asked:
                query = parse(text, analyser)
                retrieved = retrieve(view, query, Request(text), None)
                words = [[(language, stem)] for stem in query.stems]
                compared = Compared(view, query, retrieved, words)
                candidates = compared.candidates(retrieved.pool())
                values = columns(candidates)
                most = max((entry.closeness.covered for entry in candidates), default=0.0)
                nothing = [0.0] * len(candidates)
                told = [evidence(entry, len(query.stems)) for entry in candidates]
                return Asked(
                    np.array([values.get(part, nothing) for part in PARTS]).T,
                    np.array(corners(most, [entry.record.size for entry in candidates])),
                    np.array([[own.get(name, 0.0) for name in EVIDENCE] for own in told]),
                    np.array([grades.get(ids[entry.record.path], 0.0) for entry in candidates]),
                    sum(grades.values()),
                    answers,
                )

            for query in judged.queries:
                if quality.group_of(query) == group:
                    grades = judged.relevant.get(query["_id"], {})
                    found.append(ask(query["text"], grades, bool(grades)))
            found += [ask(text, {}, False) for text in others]
    return found


def fitted(sets: Sequence[Sequence[Asked]], without: frozenset[str]) -> Numbers:
    """Return the weights, shape (PARTS, corners), that make judged candidates likely.

    Adam (Kingma and Ba 2015) on the listwise softmax loss (Cao et al. 2007), no weight below 0.
    """
    batches = [_batch(asked) for asked in sets]
    allowed = np.array([part not in without for part in PARTS], dtype=float)[:, None]
    weights = np.full((len(PARTS), 4), 0.1) * allowed
    first, second = np.zeros_like(weights), np.zeros_like(weights)
    for step in range(1, STEPS + 1):
        slope = 2 * SHRINKAGE * weights
        for parts, places, wanted, known in batches:
            scores = np.einsum("qnp,qc,pc->qn", parts, places, weights, optimize=True)
            scores = np.where(known, SHARPNESS * scores, -1e9)
            likely = np.exp(scores - scores.max(axis=1, keepdims=True))
            likely /= likely.sum(axis=1, keepdims=True)
            error = (likely - wanted) / len(parts)
            slope += np.einsum("qn,qnp,qc->pc", error, parts, places, optimize=True) / len(batches)
        first = 0.9 * first + 0.1 * slope
        second = 0.999 * second + 0.001 * slope**2
        rise = first / (1 - 0.9**step) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
        weights = np.maximum(weights - RATE * rise, 0.0) * allowed
    return weights


def _batch(asked: Sequence[Asked]) -> tuple[Numbers, Numbers, Numbers, npt.NDArray[np.bool_]]:
    """Pad queries that candidates differ for; return parts, corners, wanted shares, what is known."""
    telling = [own for own in asked if 0 < (own.grades > 0).sum() < len(own.grades)]
    most = max(len(own.grades) for own in telling)
    parts = np.zeros((len(telling), most, len(PARTS)))
    wanted = np.zeros((len(telling), most))
    known = np.zeros((len(telling), most), dtype=np.bool_)
    for number, own in enumerate(telling):
        count = len(own.grades)
        gains = 2**own.grades - 1
        parts[number, :count], known[number, :count] = own.parts, True
        wanted[number, :count] = gains / gains.sum()
    return parts, np.array([own.corners for own in telling]), wanted, known


def ordered(asked: Asked, weights: Numbers) -> npt.NDArray[np.int64]:
    """Return the candidates' places, best first."""
    return np.argsort(-(asked.parts @ weights @ asked.corners), kind="stable")


def figures(sets: Sequence[Asked], weights: Numbers) -> Numbers:
    """Return the means of hit@1, R@5, R@10 and nDCG@10; where grades differ only the best count."""
    rows = []
    for own in sets:
        if not own.answers:
            continue
        grades = own.grades[ordered(own, weights)]
        best = max(own.grades.max(initial=0.0), 1.0)
        right = grades >= best
        total = max(float((own.grades >= best).sum()), own.whole if best == 1.0 else 1.0)
        gains = (2 ** grades[:10] - 1) / np.log2(np.arange(len(grades[:10])) + 2)
        ideal = np.sort(2**own.grades - 1)[::-1][:10]
        ideal = ideal / np.log2(np.arange(len(ideal)) + 2)
        rows.append(
            [
                float(right[:1].sum()),
                right[:5].sum() / total,
                right[:10].sum() / total,
                gains.sum() / max(ideal.sum(), 1e-9),
            ]
        )
    return np.array(rows).mean(axis=0)


def chance(
    sets: Sequence[Sequence[Asked]], all_weights: Sequence[Numbers], without: frozenset[str]
) -> tuple[Numbers, float]:
    """Fit the logistic regression from evidence to "this answers"; return weights and constant.

    Of each query the first candidates count, each set the same.
    """
    rows, labels, shares = [], [], []
    for asked, weights in zip(sets, all_weights, strict=True):
        for own in asked:
            first = ordered(own, weights)[:DEPTH]
            best = max(own.grades.max(initial=0.0), 1.0)
            rows.append(own.evidence[first])
            labels.append((own.grades[first] >= best).astype(float))
            shares.append(np.full(len(first), 1 / len(asked)))
    design = np.concatenate(rows) * [name not in without for name in EVIDENCE]
    design = np.concatenate([design, np.ones((len(design), 1))], axis=1)
    target, share = np.concatenate(labels), np.concatenate(shares)
    share = share / share.mean()
    beta = np.zeros(design.shape[1])
    shrinkage = np.append(np.full(len(EVIDENCE), 5.0), 0.0)
    for _ in range(50):
        likely = 0.5 + 0.5 * np.tanh(design @ beta / 2)
        slope = design.T @ (share * (likely - target)) + shrinkage * beta
        curve = (design * (share * likely * (1 - likely))[:, None]).T @ design
        beta -= np.linalg.solve(curve + np.diag(shrinkage + 1e-9), slope)
    return beta[:-1], float(beta[-1])


def chances(own: Asked, fit: tuple[Numbers, float]) -> Numbers:
    """Return each candidate's chance."""
    found: Numbers = 0.5 + 0.5 * np.tanh((own.evidence @ fit[0] + fit[1]) / 2)
    return found
