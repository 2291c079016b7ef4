"""Fit how much the vectors of an embedder that a person chose count in a vault's ranking.

The ranking weights were fitted with the models of the package. For any other model, titles and
headings of the vault are asked as questions, and the memory of each has to be found without it. One
factor on the weights of the vectors is chosen by half of the questions, and kept only if it is
better for the other half too.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Sequence
from heapq import nsmallest
from statistics import fmean, pstdev
from typing import NamedTuple

from memvault import clock
from memvault.index.protocol import COMPLETE, Index, MemoryRecord, StaleView, View
from memvault.index.text.analyzer import QueryAnalyser, query_analyser
from memvault.index.text.passages import split_passages
from memvault.model import Memory, is_example
from memvault.recall import features, ranking
from memvault.recall.answer import RecallRequest
from memvault.recall.query import parse
from memvault.recall.retrieve import retrieve
from memvault.recall.weights import weights_with
from memvault.settings.vault_settings import RankingSettings
from memvault.vault.file_names import normalize_title
from memvault.vault.markdown import headings

FACTORS = (0.5, 0.75, 1.0, 1.5, 2.0)
_DEFAULT = FACTORS.index(1.0)
_MIN_QUESTIONS, _MAX_QUESTIONS = 30, 100
_MAX_TRIED = 1_000
"""The maximum number of memories that are read to find questions."""
_MIN_WORDS = 2
"""The minimum number of words of a question, stop words not counted."""
_MAX_PASSAGES, _MAX_ALL_PASSAGES = 10, 400
"""The maximum number of passages of one memory and of all: they are embedded without the title."""
_LAST_RANK = 50
"""The rank of a memory that is behind it, or no candidate."""
_NAMES = frozenset({"title", "aliases", "alias"})
"""The header's keys that name a memory."""
_PATH = "0.md"
"""The path of a memory that must not be found by its file name."""


class VectorFit(NamedTuple):
    """How much the vectors count, relative to the default weights, and the questions asked."""

    factor: float
    questions: int


class _Question(NamedTuple):
    """A title or heading, and the memory without it."""

    text: str
    memory: Memory


def fit(index: Index, settings: RankingSettings) -> VectorFit | None:
    """Fit and store the factor of a vault that a chosen embedder has embedded.

    The factor is 1 if there are too few questions, or no other factor is better. Returns None if
    memories change in the meantime; the factor then stays as it is.

    Raises:
        EmbedderError: the model cannot be used.
    """
    try:
        found = _fit(index, settings)
    except StaleView:
        return None
    index.store_vector_factor(found.factor)
    return found


def _fit(index: Index, settings: RankingSettings) -> VectorFit:
    view = index.refresh(True, COMPLETE)
    questions = dict(_questions(view))
    if len(questions) < _MIN_QUESTIONS:
        return VectorFit(1.0, 0)
    memories = {key: question.memory for key, question in questions.items()}
    seen, keys = index.embed_texts(view, memories)
    ranks = [
        _ranks(seen, question.text, key, settings)
        for key, question in zip(keys, questions.values(), strict=True)
    ]
    return VectorFit(best_factor(ranks), len(ranks))


def best_factor(ranks: Sequence[Sequence[int]]) -> float:
    """Return the factor with the best mean rank, on a logarithmic scale.

    ``ranks`` has for each question the rank of its memory with each of ``FACTORS``. The factor is
    the best one for every second question; it is 1 unless the other questions gain more by it than
    the standard error of their mean gain.
    """
    values = [[-math.log2(rank) for rank in own] for own in ranks]
    chosen, checked = values[::2], values[1::2]
    best = max(
        range(len(FACTORS)),
        key=lambda place: (fmean(own[place] for own in chosen), place == _DEFAULT),
    )
    gains = [own[best] - own[_DEFAULT] for own in checked]
    error = pstdev(gains) / math.sqrt(len(gains))
    return FACTORS[best] if fmean(gains) > error else 1.0


def _questions(view: View) -> Iterator[tuple[int, _Question]]:
    """Yield the keys of memories, spread over the vault, each with a question for it.

    The order depends only on the paths, so that most questions stay the same when the vault grows.
    """
    analyser = query_analyser(view.languages())
    count = passages = 0
    for record in nsmallest(_MAX_TRIED, view.records(), key=_spread):
        memory = None if is_example(record.metadata) else view.text(record.key)
        question = _question(memory, analyser) if memory is not None else None
        own = len(split_passages(question.memory.body)) if question is not None else 0
        if question is None or own > _MAX_PASSAGES:
            continue
        count, passages = count + 1, passages + own
        if count > _MAX_QUESTIONS or passages > _MAX_ALL_PASSAGES:
            break
        yield record.key, question


def _spread(record: MemoryRecord) -> tuple[int, str]:
    return zlib.crc32(record.path.encode("utf-8", "surrogatepass")), record.path


def _question(memory: Memory, analyser: QueryAnalyser) -> _Question | None:
    """Return a memory's title, or else its first heading, as a question; None if neither is one.

    Titles, aliases and headings with this text are removed, and the file's name. A title or
    heading with few words is not a question.
    """
    names = [memory.title, *(text for *_, text in headings(memory.body))]
    text = next((name for name in names if len(parse(name, analyser).words) >= _MIN_WORDS), None)
    if text is None:
        return None
    is_text = {normalize_title(text)}
    body, behind = "", 0
    for start, end, _, heading in headings(memory.body):
        if normalize_title(heading) in is_text:
            body += memory.body[behind:start]
            behind = end
    body += memory.body[behind:]
    if len(parse(body, analyser).words) < _MIN_WORDS:
        return None
    header = {name: value for name, value in memory.metadata.items() if name not in _NAMES}
    title = "" if normalize_title(memory.title) in is_text else memory.title
    return _Question(text, memory._replace(path=_PATH, title=title, metadata=header, body=body))


def _ranks(view: View, text: str, key: int, settings: RankingSettings) -> list[int]:
    """Return the rank of a memory among the candidates for a question, with each factor."""
    query = parse(text, query_analyser(view.languages()))
    candidates = retrieve(view, query, RecallRequest(text), None)
    rows = features.compute(view, query, candidates, candidates.pool())
    settings = settings.replace(diversity=False)
    now = clock.now()
    found = []
    for factor in FACTORS:
        weights = weights_with(
            candidates.has_vectors, candidates.transformer_weight, vector_factor=factor
        )
        order = [entry.row.key for entry in ranking.rank(rows, weights, settings, now, None)]
        rank = order.index(key) + 1 if key in order else _LAST_RANK
        found.append(min(rank, _LAST_RANK))
    return found
