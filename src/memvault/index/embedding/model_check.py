"""Select a model for embedding or reranking after checking that it works on this machine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from memvault.errors import EmbedderError, NotFound, UsageError, VaultUnreadable
from memvault.files import plain_files
from memvault.files.user_folders import SETTINGS_FILE, expand_home
from memvault.index.embedding import model_settings
from memvault.index.embedding.embedder import BUILTIN, MULTILINGUAL
from memvault.index.embedding.fastembed_models import (
    CROSS_ENCODER,
    EMBEDDING,
    known_models,
    open_cross_encoder,
)
from memvault.index.embedding.transformer import load_embedder
from memvault.named_tuple import NamedTuple
from memvault.settings.toml_file import set_values
from memvault.settings.vault_settings import Settings
from memvault.store.change_set import FileRef
from memvault.store.memory_store import MemoryStore

Purpose = Literal["embed", "rerank"]
_QUESTION = "Which database do we use?"
_STATEMENT = "The database is PostgreSQL"
_RELATED = "We store our data in Postgres"
AUTOMATIC = "auto"
"""The name that selects the built-in model by the vault's languages."""
_UNRELATED = "Bananas ripen faster in a paper bag"


class CheckedModel(NamedTuple):
    """A model that works on this machine, and its scores of a related and an unrelated text.

    ``dimension`` is the vector size of an embedder, or None for a cross-encoder.
    """

    name: str
    version: str
    dimension: int | None
    related: float
    unrelated: float


def select_model(store: MemoryStore, name: str, purpose: Purpose) -> CheckedModel:
    """Check a model, allow its folder on this machine, and set it in the vault's settings.

    If the model does not work, nothing changes.

    Raises:
        EmbedderError: if the model cannot be loaded or downloaded.
    """
    model_name, root = _resolve_name(store.root, name, purpose)
    fingerprint = model_settings.fingerprint(model_name, root)
    checked = _check_model(model_name, root, purpose, download=True)
    model_settings.allow(model_name, store.root, fingerprint)
    is_named = purpose == "rerank" or model_settings.is_named(store.settings)
    if model_name != configured_model(store.settings, purpose) or not is_named:
        _save_model(store, "rerank" if purpose == "rerank" else "embedder", model_name)
    return checked._replace(name=model_name)


def check(root: Path, name: str) -> CheckedModel:
    """Load the configured embedder; raises ``EmbedderError`` as ``select_model`` does."""
    return _check_model(name, root, "embed")._replace(name=name)


def use_automatic_model(store: MemoryStore) -> None:
    """Remove the embedder from the vault's settings, so that it is chosen by language again."""
    if "embedder.model" in store.settings.explicit:
        _save_model(store, "embedder", None)


def configured_model(settings: Settings, purpose: Purpose) -> str:
    """Return the model configured in the settings."""
    return settings.rerank.model if purpose == "rerank" else settings.embedder.model


def verify(root: Path, settings: Settings, name: str | None, purpose: Purpose) -> CheckedModel:
    """Load a model, by default the configured one, and compare three texts with it.

    Raises:
        EmbedderError: if the model cannot be loaded, or comes from the vault and is not allowed on
            this machine.
        NotFound: if the model does not distinguish the texts.
    """
    if name:
        model_name, folder = _resolve_name(root, name, purpose)
    else:
        choose = (
            model_settings.choose_embedder if purpose == "embed" else model_settings.choose_reranker
        )
        model_name, folder, note = choose(settings, root)
        if note:
            message, _, hint = note.partition("; ")
            raise EmbedderError(message, hint)
    checked = _check_model(model_name, folder, purpose)
    if checked.related <= checked.unrelated:
        raise NotFound(
            f"The model {checked.name} loads, but cannot tell related passages from unrelated ones",
            "list fastembed's cross-encoders with `memvault model list`"
            if purpose == "rerank"
            else "return to the built-in models with `memvault model use auto`",
        )
    return checked


def _check_model(
    name: str, root: Path | None, purpose: Purpose, download: bool = False
) -> CheckedModel:
    """Load a model, and score a related and an unrelated text with it."""
    if purpose == "rerank":
        encoder = open_cross_encoder(name, root, download)
        scores = encoder.scores(_QUESTION, (_STATEMENT, _UNRELATED))
        return CheckedModel(encoder.name, encoder.version, None, *scores)
    embedder = load_embedder(name, root, download=download)
    question, *others = embedder.embed([_STATEMENT, _RELATED, _UNRELATED])
    related, unrelated = (float(question @ other) for other in others)
    return CheckedModel(embedder.name, embedder.version, embedder.dimension, related, unrelated)


def _save_model(store: MemoryStore, section: str, name: str | None) -> None:
    path = store.root / SETTINGS_FILE
    try:
        before = plain_files.read(path, plain_files.MAX_SETTING_BYTES)
        after = set_values(path, section, {"model": name}, VaultUnreadable)
        store.changes.replace(SETTINGS_FILE, before, after, FileRef(SETTINGS_FILE, SETTINGS_FILE))
    except (FileNotFoundError, NotFound) as error:
        raise NotFound(f"{SETTINGS_FILE} no longer exists", "run `memvault init`") from error


def _resolve_name(root: Path, name: str, purpose: Purpose) -> tuple[str, Path | None]:
    """Return a model's name, in portable form if possible, and the vault if it may be a path.

    A name in fastembed's list takes precedence over a folder with that name.
    """
    text = name.strip()
    if not text:
        raise UsageError("The model's name is empty", "list the models with `memvault model list`")
    kind = EMBEDDING if purpose == "embed" else CROSS_ENCODER
    if text in (BUILTIN, MULTILINGUAL) or text.lower() in {
        model["name"].lower() for model in known_models(kind)
    }:
        return text, None
    folder = expand_home(text)
    if (root / text).is_dir() or not folder.is_dir():
        return text, root
    return os.path.realpath(folder), root
