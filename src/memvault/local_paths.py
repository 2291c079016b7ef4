"""Paths of this machine, which a caller who is not at it is not told."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

from memvault.call import Call
from memvault.errors import MemvaultError
from memvault.files import user_folders
from memvault.settings import locate, user_settings
from memvault.settings.vault_settings import EngineSettings, load_settings


def hide_local_paths(call: Call, text: str) -> str:
    """Return a text of the program's own as the caller is told it; see ``telling``."""
    return telling(call)(text)


def telling(call: Call) -> Callable[[str], str]:
    """Return what makes of a text of the program's own what the caller is told.

    To one who is not at this machine a path in the vault is told relative to
    it, and of others the folder is named by what it is for. The settings are read once,
    here, for however many texts.
    """
    if call.caller.may_see_paths:
        return str
    names: dict[str, str] = {}
    for folder, name in _folders(call):
        for path in (folder, os.path.realpath(folder)):
            if Path(path).is_absolute() and Path(path).name:
                for spelled in (path, repr(path)[1:-1]):
                    names.setdefault(spelled, name)

    def instead(match: re.Match[str]) -> str:
        name, rest = names[match[1]], match[2] or ""
        if name:
            return name + rest
        return "" if rest else "the vault"

    return partial(_any_of(names).sub, instead)


def _any_of(folders: Iterable[str]) -> re.Pattern[str]:
    """Return what finds folders in a text, and whether something in them is meant."""
    known = "|".join(map(re.escape, sorted(folders, key=len, reverse=True)))
    slash = re.escape(os.sep)
    return re.compile(rf"(?<![\w.~-])(?:({known})(?![\w-]|\.\w))({slash}(?=[^\s'\"]))?")


def _engine(shared: EngineSettings) -> Iterator[tuple[str, str]]:
    if shared.uri:
        yield shared.uri.partition("://")[2] or shared.uri, "a file of this machine"


def _folders(call: Call) -> Iterator[tuple[str, str]]:
    """Yield each folder of this machine that may be spoken of, and what it is told as.

    The vault's has no name: what lies in it is told by its path there.
    """
    yield str(call.root), ""
    settings = call.workspace.__dict__.get("settings")  # as they were read, if they could be
    if settings is not None:
        yield from _engine(settings.shared)
    models = [settings.embedder, settings.reranker] if settings else []
    with contextlib.suppress(MemvaultError):
        own = user_settings.load()
        models += [own.embedder, own.reranker]
        for trusted in own.trusted:
            yield trusted, Path(trusted).name
        for vault, root in own.vaults.items():
            yield root, f"the vault {vault}"
        for beside in locate.reachable_vaults(call.caller.vaults).values():
            with contextlib.suppress(MemvaultError):
                yield from _engine(load_settings(beside).shared)
    for model in models:
        yield model, Path(model).name
    owned = (
        (user_folders.models_folder, "the folder of models"),
        (partial(user_folders.user_folder, "cache"), "the cache folder"),
        (partial(user_folders.user_folder, "state"), "the state folder"),
        (partial(user_folders.user_folder, "config"), "the folder of settings"),
    )
    for find, name in owned:
        with contextlib.suppress(OSError, MemvaultError):  # there is none, or none that counts
            if (folder := find()) is not None:
                yield str(folder), name
                if folder.name == "memvault":
                    yield str(folder.parent), name
    yield tempfile.gettempdir(), "the temporary folder"
    yield str(Path(user_folders.__file__).parent), "memvault"
    yield str(user_folders.expand_home("~")), "the home folder"
