"""Select a model for embedding or reranking, and check that it works on this machine."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from memvault.call import Call
from memvault.errors import EmbedderError, NotFound, Refused, UsageError, VaultUnreadable
from memvault.files import plain_files
from memvault.files.user_folders import SETTINGS_FILE, expand_home
from memvault.index.embedding import model_choice
from memvault.index.embedding.embedder import BUILTIN, Embedder
from memvault.index.embedding.fastembed_models import (
    CROSS_ENCODER,
    EMBEDDING,
    CrossEncoder,
    known_models,
    open_cross_encoder,
)
from memvault.index.embedding.transformer import load_embedder
from memvault.local_paths import hide_local_paths
from memvault.settings.toml_file import set_value
from memvault.store.change_set import FileRef

Purpose = Literal["embed", "rerank"]
_QUESTION = "Which database do we use?"
_STATEMENT = "The database is PostgreSQL"
_RELATED = "We store our data in Postgres"
_UNRELATED = "Bananas ripen faster in a paper bag"


def select_model(call: Call, name: str, purpose: Purpose) -> dict[str, Any]:
    """Check a model, set it in the settings, and if it embeds, embed every memory with it.

    Nothing is changed if the model cannot be used.

    Raises:
        EmbedderError: it cannot be loaded or downloaded.
        Refused: the caller may not select a model.
    """
    _check_caller(call, name)
    rerank = purpose == "rerank"
    model_name, root = _resolve_name(call.root, name, purpose)
    fingerprint = model_choice.fingerprint(model_name, root)
    model, _ = _load_and_score(model_name, root, purpose, download=True)
    before = call.settings.reranker if rerank else call.settings.embedder
    model_choice.allow(model_name, call.root, fingerprint)
    if model_name != before:
        _save_model(call, "rerank" if rerank else "embedder", model_name)
    return {
        "name": hide_local_paths(call, model_name),
        **_describe(model),
        "previous": hide_local_paths(call, before),
        **({} if rerank else {"embedded": call.index.embed_all()}),
    }


def verify(call: Call, name: str | None, purpose: Purpose) -> dict[str, Any]:
    """Load a model, by default the one in use, and compare three texts with it.

    Raises:
        EmbedderError: it cannot be loaded, or is the vault's and not allowed on this machine.
        NotFound: it does not distinguish the texts.
        Refused: the caller may not select a model.
    """
    _check_caller(call, name or "")
    started = time.perf_counter()
    if name:
        model_name, root = _resolve_name(call.root, name, purpose)
    else:
        choose = (
            model_choice.choose_embedder if purpose == "embed" else model_choice.choose_reranker
        )
        model_name, root, note = choose(call.settings, call.root)
        if note:
            message, _, hint = note.partition("; ")
            raise EmbedderError(message, hint)
    model, (related, unrelated) = _load_and_score(model_name, root, purpose)
    known_as = hide_local_paths(call, model.name)
    if related <= unrelated:
        raise NotFound(
            f"The model {known_as} loads, but does not tell texts apart",
            "memvault model list names fastembed's cross-encoders"
            if purpose == "rerank"
            else "memvault model use builtin goes back to the embedder that always works",
        )
    return {
        "name": known_as,
        **_describe(model),
        "related": round(related, 4),
        "unrelated": round(unrelated, 4),
        "seconds": round(time.perf_counter() - started, 3),
        "works": True,
    }


def _check_caller(call: Call, name: str) -> None:
    """Check that the caller may select a model, which is a program and may be named by a path."""
    if not call.caller.may_run_programs:
        raise Refused(
            "A model is a program, and this caller may not name programs to run",
            "memvault model use in a shell chooses one; memvault mcp --programs lets clients do it",
        )
    if not call.caller.may_see_paths and model_choice.is_path(name.strip(), call.root):
        raise Refused(
            "This caller may not name folders of this machine", "name one of fastembed's models"
        )


def _load_and_score(
    name: str, root: Path | None, purpose: Purpose, download: bool = False
) -> tuple[Embedder | CrossEncoder, Sequence[float]]:
    """Return a loaded model, and its scores of a related and an unrelated text."""
    if purpose == "rerank":
        encoder = open_cross_encoder(name, root, download)
        return encoder, encoder.scores(_QUESTION, (_STATEMENT, _UNRELATED))
    embedder = load_embedder(name, root, download=download)
    question, *others = embedder.embed([_STATEMENT, _RELATED, _UNRELATED])
    return embedder, [float(question @ other) for other in others]


def _describe(model: Embedder | CrossEncoder) -> dict[str, Any]:
    if isinstance(model, CrossEncoder):
        return {"version": model.version}
    return {"version": model.version, "dimension": model.dimension}


def _save_model(call: Call, section: str, name: str) -> None:
    """Write a model's name to the settings, and reload them."""
    path = call.root / SETTINGS_FILE
    try:
        before = plain_files.read(path, plain_files.SETTING)
        after = set_value(path, section, "model", name, VaultUnreadable)
        call.store.changes.replace(
            SETTINGS_FILE, before, after, FileRef(SETTINGS_FILE, SETTINGS_FILE)
        )
    except (FileNotFoundError, NotFound) as error:
        raise NotFound(f"{SETTINGS_FILE} is gone", "memvault init") from error
    call.workspace.reload()


def _resolve_name(root: Path, name: str, purpose: Purpose) -> tuple[str, Path | None]:
    """Return a model's name, portable if possible, and the vault if it may be a folder's path.

    A name that fastembed knows is fastembed's model, even if the vault has such a folder.
    """
    text = name.strip()
    if not text:
        raise UsageError("The model's name is empty", "memvault model list names those there are")
    kind = EMBEDDING if purpose == "embed" else CROSS_ENCODER
    if text == BUILTIN or text.lower() in {model["name"].lower() for model in known_models(kind)}:
        return text, None
    folder = expand_home(text)
    if (root / text).is_dir() or not folder.is_dir():
        return text, root
    return str(folder.resolve()), root
