"""Describe the state of an index and of its embedders."""

from __future__ import annotations

from memvault.errors import EmbedderError
from memvault.index.embedding.embedder import BUILTIN
from memvault.index.local import background_embedding
from memvault.index.local.embedding_schedule import EmbeddingSchedule
from memvault.index.local.index_files import OpenIndex
from memvault.index.local.static_vectors import StaticVectors
from memvault.index.local.transformer_model import TransformerModel
from memvault.index.protocol import EmbedderStatus


def static_status(static: StaticVectors, opened: OpenIndex | None) -> EmbedderStatus:
    """Return the state of the static embedder."""
    vectors = static.opened() if opened is not None else None
    waiting = len(static.pending(opened.manifest)) if opened is not None else 0
    try:
        table = static.table
    except EmbedderError as error:
        return EmbedderStatus(BUILTIN, waiting=waiting, problem=error.message)
    return EmbedderStatus(
        BUILTIN,
        version=table.version,
        dimension=table.dimension,
        vectors=vectors.card.rows if vectors is not None else 0,
        waiting=waiting,
    )


def transformer_status(schedule: EmbeddingSchedule) -> EmbedderStatus:
    """Return the state of the transformer embedder and of its background process."""
    model = schedule.model
    if model.mode == "off":
        return EmbedderStatus(model.name, model.mode)
    locks = background_embedding.BACKGROUND_LOCK, background_embedding.FOREGROUND_LOCK
    is_running = any(background_embedding.is_running(model.folder, name) for name in locks)
    worker = background_embedding.worker(model.folder)
    passages, missing = schedule.passage_counts()
    status = EmbedderStatus(
        model.name,
        model.mode,
        waiting=schedule.pending(),
        is_running=is_running,
        problem=_failure_reason(model),
        note=model.choice.note,
        process=worker.process if is_running else 0,
        since=worker.since if is_running else "",
        passages=passages,
        waiting_passages=missing,
        seconds_left=missing / worker.rate if worker.rate else 0.0,
    )
    vectors = model.opened()
    if vectors is None:
        return status
    card = vectors.card
    return status._replace(version=card.version, dimension=card.dimension, vectors=card.rows)


def _failure_reason(model: TransformerModel) -> str:
    """Return why vectors recently failed or cannot be computed, or "" if there is no problem."""
    reason = background_embedding.failure(model.folder, model.choice.name)
    if not reason and model.opened() is None:
        try:
            model.embedder()
        except EmbedderError as error:
            reason = error.message
    return reason
