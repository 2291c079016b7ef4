"""Which model may be loaded here: a vault may name one, its user says which folders are read.

A model is a program: one of a thousand bytes can compute for ever, or take all
memory. So a folder that a vault's settings name is opened only where this user
allowed exactly those bytes, with ``memvault model use``.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from memvault import grants, user_settings
from memvault.config import Settings
from memvault.errors import EmbedderError, MemvaultError
from memvault.user_folders import home_expanded

__all__ = ["Choice", "allow", "embedder", "folder_of", "is_allowed", "is_path", "reranker"]

_KIND = "model"


class Choice(NamedTuple):
    """The model to use, and why that is not the one that the vault names, where it is not."""

    name: str
    note: str = ""


def folder_of(name: str, root: Path) -> Path | None:
    """Return the folder that a model's name stands for, relative to the vault; None for a name."""
    given = home_expanded(name)
    folder = root / given
    return folder if folder.is_dir() or given.is_absolute() or name.startswith(".") else None


def is_path(name: str, root: Path) -> bool:
    """Say whether a model's name is a folder's path, or could be one, whatever lies there."""
    return bool(name) and (
        ".." in Path(name).parts or name.startswith("~") or folder_of(name, root) is not None
    )


def embedder(settings: Settings, root: Path, builtin: str) -> Choice:
    """Return the embedder to use: the built-in one where the vault's may not be loaded here."""
    if settings.sources.get("embedder", "default") == "default":
        return Choice(user_settings.load().embedder or settings.embedder)
    if is_allowed(settings.embedder, root):
        return Choice(settings.embedder)
    return Choice(builtin, _refusal(settings.embedder, ""))


def reranker(settings: Settings, root: Path) -> str:
    """Return the cross-encoder to use.

    Raises:
        EmbedderError: the one that the vault names may not be loaded here.
    """
    if settings.sources.get("reranker", "default") == "default":
        return user_settings.load().reranker or settings.reranker
    if not is_allowed(settings.reranker, root):
        said, _, hint = _refusal(settings.reranker, " --for rerank").partition("; ")
        raise EmbedderError(said, hint)
    return settings.reranker


def allow(name: str, root: Path) -> None:
    """Let the vault's settings name a folder on this machine, as long as its files stay the same.

    Raises:
        StorageError: that cannot be kept.
        Refused: the user's state folder lies in a vault.
    """
    folder = folder_of(name, root)
    if folder is not None:
        sizes = _sizes(folder)
        allowed = {"sizes": sizes, "digest": _digest(folder, sizes)}
        grants.grant(root, _KIND, str(folder.resolve()), allowed)


def is_allowed(name: str, root: Path) -> bool:
    """Say whether a model may be loaded: any by its name, a folder as the user allowed it."""
    folder = folder_of(name, root)
    if folder is None:
        return True
    try:
        allowed = grants.granted(root, _KIND, str(folder.resolve()))
        if not allowed:  # nothing that a vault names is read before
            return False
        sizes = _sizes(folder)
        return bool(allowed["sizes"] == sizes and allowed["digest"] == _digest(folder, sizes))
    except (OSError, MemvaultError, KeyError):
        return False


def _refusal(name: str, option: str) -> str:
    return (
        f"the model folder {name} is not allowed on this machine, or was changed since; "
        f"memvault model use {name}{option} allows it as it is now"
    )


def _sizes(folder: Path) -> dict[str, Any]:
    """Return the size of every file below a folder, by its path."""
    found = {}
    for parent, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = Path(parent, name)
            if path.is_file():
                found[path.relative_to(folder).as_posix()] = path.stat().st_size
    return found


def _digest(folder: Path, sizes: Mapping[str, int]) -> str:
    """Return one digest of the files' names and bytes."""
    whole = hashlib.sha256()
    for name in sizes:
        with open(folder / name, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        whole.update(f"{digest} {name}\0".encode("utf-8", "surrogatepass"))
    return whole.hexdigest()
