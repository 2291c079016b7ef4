"""Choosing a model, to embed or to rerank, and finding out whether it works here."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from memvault.call import Call
from memvault.errors import EmbedderError, NotFound, Refused, UsageError, VaultUnreadable
from memvault.index.embedding import permitted
from memvault.index.embedding.cross_encoder import CrossEncoder
from memvault.index.embedding.embedder import BUILTIN
from memvault.index.embedding.fastembed_models import CROSS_ENCODER, EMBEDDING, Kind, known_models
from memvault.index.embedding.loading import open_embedder
from memvault.settings_file import with_setting
from memvault.user_folders import SETTINGS_FILE, home_expanded
from memvault.vault import atomic

__all__ = ["check_caller", "use", "use_reranker", "verify", "verify_reranker"]

_RELATED = ("The database is PostgreSQL", "We store our data in Postgres")
_QUESTION = "Which database do we use?"
_UNRELATED = "Bananas ripen faster in a paper bag"


def use(call: Call, name: str) -> dict[str, Any]:
    """Check a model, write it into the settings, and embed every memory with it.

    Nothing is changed where the model cannot be used.

    Raises:
        EmbedderError: it cannot be loaded or fetched.
    """
    wanted, root = _meant(call.root, name, EMBEDDING)
    tried = permitted.fingerprint(wanted, root)
    embedder = open_embedder(wanted, root, download=True)
    before = call.settings.embedder
    permitted.allow(wanted, call.root, tried)
    if wanted != before:
        _write(call, "embedder", wanted)
    embedded = call.index.embed_all()
    return {
        "name": wanted,
        "version": embedder.version,
        "dimension": embedder.dimension,
        "previous": before,
        "embedded": embedded,
    }


def check_caller(call: Call, name: str) -> None:
    """Make sure that the caller may choose a model: it is a program, and a folder is a path.

    Raises:
        Refused: it may not.
    """
    if not call.caller.programs:
        raise Refused(
            "A model is a program, and this caller may not name programs to run",
            "memvault model use in a shell chooses one; memvault mcp --programs lets clients do it",
        )
    if not call.caller.paths and permitted.is_path(name.strip(), call.root):
        raise Refused(
            "This caller may not name folders of this machine", "name one of fastembed's models"
        )


def verify(call: Call, name: str | None) -> dict[str, Any]:
    """Load a model, or the one in use, embed three texts, and compare them.

    Raises:
        EmbedderError: it cannot be loaded, or the vault's may not be loaded here.
    """
    choice = permitted.embedder(call.settings, call.root)
    if not name and choice.note:
        said, _, hint = choice.note.partition("; ")
        raise EmbedderError(said, hint)
    started = time.perf_counter()
    wanted, root = _meant(call.root, name, EMBEDDING) if name else choice[:2]
    embedder = open_embedder(wanted, root)
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


def use_reranker(call: Call, name: str) -> dict[str, Any]:
    """Check a cross-encoder and write it into the settings; errors as for ``use``."""
    wanted, root = _meant(call.root, name, CROSS_ENCODER)
    tried = permitted.fingerprint(wanted, root)
    encoder = CrossEncoder(wanted, root, download=True)
    encoder.scores(_QUESTION, _RELATED)
    permitted.allow(wanted, call.root, tried)
    before = call.settings.reranker
    if wanted != before:
        _write(call, "rerank", wanted)
    return {"name": wanted, "version": encoder.version, "previous": before}


def verify_reranker(call: Call, name: str | None) -> dict[str, Any]:
    """Load a cross-encoder, or the one in use, and let it judge two texts; errors as for verify."""
    started = time.perf_counter()
    if name:
        wanted, root = _meant(call.root, name, CROSS_ENCODER)
    else:
        wanted, root, _ = permitted.reranker(call.settings, call.root)
    encoder = CrossEncoder(wanted, root)
    related, unrelated = encoder.scores(_QUESTION, (_RELATED[0], _UNRELATED))
    return {
        "name": encoder.name,
        "version": encoder.version,
        "related": round(related, 4),
        "unrelated": round(unrelated, 4),
        "seconds": round(time.perf_counter() - started, 3),
        "works": related > unrelated,
    }


def _write(call: Call, section: str, name: str) -> None:
    """Write a model's name into the settings, and have them read anew."""
    path = call.root / SETTINGS_FILE
    try:
        atomic.replace(path, with_setting(path, section, "model", name, VaultUnreadable))
    except FileNotFoundError as error:
        raise NotFound(f"{SETTINGS_FILE} is gone", "memvault init") from error
    call.workspace.reload()


def _meant(root: Path, name: str, kind: Kind) -> tuple[str, Path | None]:
    """Return a model's name, and the vault if it is a folder's path, portable where it can be.

    What fastembed knows is fastembed's, whatever folder a vault has of that name.
    """
    text = name.strip()
    if not text:
        raise UsageError("The model's name is empty", "memvault model list names those there are")
    if text == BUILTIN or text.lower() in {model["name"].lower() for model in known_models(kind)}:
        return text, None
    folder = home_expanded(text)
    if (root / text).is_dir() or not folder.is_dir():
        return text, root
    return str(folder.resolve()), root
