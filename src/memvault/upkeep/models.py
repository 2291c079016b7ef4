"""Choosing a model, to embed or to rerank, and finding out whether it works here."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from memvault import config
from memvault.errors import NotFound, UsageError
from memvault.index.cross_encoder import CrossEncoder
from memvault.index.embed import BUILTIN, open_embedder
from memvault.vault import atomic
from memvault.workspace import Workspace

__all__ = ["use", "use_reranker", "verify", "verify_reranker"]

_RELATED = ("The database is PostgreSQL", "We store our data in Postgres")
_QUESTION = "Which database do we use?"
_UNRELATED = "Bananas ripen faster in a paper bag"


def use(workspace: Workspace, name: str) -> dict[str, Any]:
    """Check a model, write it into the settings, and embed every memory with it.

    Nothing is changed where the model cannot be used.

    Raises:
        EmbedderError: it cannot be loaded or fetched.
    """
    wanted = _portable(workspace.root, name)
    embedder = open_embedder(wanted, workspace.root, download=True)
    before = workspace.settings.embedder
    if wanted != before:
        _write(workspace, "embedder", wanted)
    embedded = workspace.index.embed_all()
    return {
        "name": wanted,
        "version": embedder.version,
        "dimension": embedder.dimension,
        "previous": before,
        "embedded": embedded,
    }


def verify(workspace: Workspace, name: str) -> dict[str, Any]:
    """Load a model, embed three texts, and compare them."""
    started = time.perf_counter()
    embedder = open_embedder(_portable(workspace.root, name), workspace.root)
    vectors = embedder.embed([*_RELATED, _UNRELATED])
    related, unrelated = float(vectors[0] @ vectors[1]), float(vectors[0] @ vectors[2])
    return {
        "name": embedder.name,
        "version": embedder.version,
        "dimension": embedder.dimension,
        "related": round(related, 4),
        "unrelated": round(unrelated, 4),
        "seconds": round(time.perf_counter() - started, 3),
        "works": related > unrelated,
    }


def use_reranker(workspace: Workspace, name: str) -> dict[str, Any]:
    """Check a cross-encoder and write it into the settings; errors as for ``use``."""
    wanted = _portable(workspace.root, name)
    encoder = CrossEncoder(wanted, workspace.root, download=True)
    encoder.scores(_QUESTION, _RELATED)
    before = workspace.settings.reranker
    if wanted != before:
        _write(workspace, "rerank", wanted)
    return {"name": wanted, "version": encoder.version, "previous": before}


def verify_reranker(workspace: Workspace, name: str) -> dict[str, Any]:
    """Load a cross-encoder and let it judge two texts."""
    started = time.perf_counter()
    encoder = CrossEncoder(_portable(workspace.root, name), workspace.root)
    related, unrelated = encoder.scores(_QUESTION, (_RELATED[0], _UNRELATED))
    return {
        "name": encoder.name,
        "version": encoder.version,
        "related": round(related, 4),
        "unrelated": round(unrelated, 4),
        "seconds": round(time.perf_counter() - started, 3),
        "works": related > unrelated,
    }


def _write(workspace: Workspace, section: str, name: str) -> None:
    """Write a model's name into the settings, and have them read anew."""
    data = config.with_setting(workspace.root, section, "model", name)
    try:
        atomic.replace(workspace.root / config.SETTINGS_FILE, data)
    except FileNotFoundError as error:
        raise NotFound(f"{config.SETTINGS_FILE} is gone", "memvault init") from error
    workspace.reload()


def _portable(root: Path, name: str) -> str:
    """Return a folder as a path that means the same from anywhere; a model's name as it is."""
    text = name.strip()
    if not text:
        raise UsageError("The model's name is empty", "memvault model list names those there are")
    if text == BUILTIN or (root / text).is_dir():
        return text
    folder = config.home_expanded(text)
    return str(folder.resolve()) if folder.is_dir() else text
