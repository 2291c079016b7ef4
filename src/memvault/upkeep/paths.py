"""Paths of this machine, which a caller who is not at it is neither told nor asked for."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

from memvault import config
from memvault.errors import Refused
from memvault.workspace import Workspace

__all__ = ["check_model", "told"]


def told(workspace: Workspace, text: str) -> str:
    """Return a text of the program's own as the caller is told it.

    To one who is not at this machine a path in the vault is told relative to
    it, and of others the folder is named by what it is for.
    """
    if workspace.paths:
        return text
    names: dict[str, str] = {}
    for folder, name in _folders(workspace):
        for path in (folder, os.path.realpath(folder)):
            if Path(path).is_absolute() and Path(path).name:
                for spelled in (path, repr(path)[1:-1]):
                    names.setdefault(spelled, name)
    known = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    slash = re.escape(os.sep)
    pattern = rf"(?<![\w.~-])(?:({known})(?![\w-]|\.\w))({slash}(?=[^\s'\"]))?"

    def instead(match: re.Match[str]) -> str:
        name, rest = names[match[1]], match[2] or ""
        if name:
            return name + rest
        return "" if rest else "the vault"

    return re.sub(pattern, instead, text)


def _folders(workspace: Workspace) -> Iterator[tuple[str, str]]:
    """Yield each folder of this machine that may be spoken of, and what it is told as.

    The vault's has no name: what lies in it is told by its path there.
    """
    yield str(workspace.root), ""
    settings = workspace.__dict__.get("settings")  # as they were read, if they could be
    for model in (settings.embedder, settings.reranker) if settings else ():
        yield model, Path(model).name
    yield str(config.models_folder()), "the folder of models"
    yield str(config.cache_folder()), "the cache folder"
    yield str(config.cache_folder().parent), "the cache folder"
    yield str(config.state_folder()), "the state folder"
    yield str(config.state_folder().parent), "the state folder"
    yield tempfile.gettempdir(), "the temporary folder"
    yield str(Path(config.__file__).parent), "memvault"
    yield str(config.home_expanded("~")), "the home folder"


def check_model(workspace: Workspace, name: str) -> None:
    """Make sure that the caller may name a model so.

    Raises:
        Refused: it is a folder outside of the vault, and the caller is not at this machine.
    """
    if workspace.paths:
        return
    text = name.strip()
    folder = config.home_expanded(text)
    outside = folder.is_absolute() or text.startswith("~") or ".." in folder.parts
    try:
        outside = outside or (folder.is_dir() and not (workspace.root / text).is_dir())
    except ValueError:  # a NUL, or half a character, in which case it is no folder
        return
    if outside:
        raise Refused(
            "A folder outside of the vault is not for this caller to name",
            "name a model, or a folder in the vault; memvault model use on the machine takes any",
        )
