"""Hide paths of this machine from callers that are not on it."""

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
    """Return a text of the program as shown to the caller; see ``telling``."""
    return telling(call)(text)


def telling(call: Call) -> Callable[[str], str]:
    """Return a function that converts a text of the program to the one shown to the caller.

    For a caller that is not on this machine, a path in the vault is shown relative to it, and other
    folders by their purpose. The settings are read only once, here, for any number of texts.
    """
    if call.caller.may_see_paths:
        return str
    names: dict[str, str] = {}
    for folder, name in _folders(call):
        for path in (folder, os.path.realpath(folder)):
            if Path(path).is_absolute() and Path(path).name:
                for spelled in (path, repr(path)[1:-1]):
                    names.setdefault(spelled, name)

    def replacement(match: re.Match[str]) -> str:
        name, rest = names[match[1]], match[2] or ""
        if name:
            return name + rest
        return "" if rest else "the vault"

    return partial(_any_of(names).sub, replacement)


def _any_of(folders: Iterable[str]) -> re.Pattern[str]:
    """Return a pattern that finds folders in a text, and the separator before a name in them."""
    alternatives = "|".join(map(re.escape, sorted(folders, key=len, reverse=True)))
    slash = re.escape(os.sep)
    return re.compile(rf"(?<![\w.~-])(?:({alternatives})(?![\w-]|\.\w))({slash}(?=[^\s'\"]))?")


def _engine_address(shared: EngineSettings) -> Iterator[tuple[str, str]]:
    if shared.uri:
        yield shared.uri.partition("://")[2] or shared.uri, "a file of this machine"


def _folders(call: Call) -> Iterator[tuple[str, str]]:
    """Yield each folder of this machine that a text may have, and the name shown for it.

    The vault's folder has no name: files in it are shown by their relative path.
    """
    yield str(call.root), ""
    settings = call.workspace.__dict__.get("settings")  # as loaded before, if that succeeded
    if settings is not None:
        yield from _engine_address(settings.shared)
    models = [settings.embedder, settings.reranker] if settings else []
    with contextlib.suppress(MemvaultError):
        user = user_settings.load()
        models += [user.embedder, user.reranker]
        for trusted in user.trusted:
            yield trusted, Path(trusted).name
        for vault, root in user.vaults.items():
            yield root, f"the vault {vault}"
        for other in locate.reachable_vaults(call.caller.vaults).values():
            with contextlib.suppress(MemvaultError):
                yield from _engine_address(load_settings(other).shared)
    for model in models:
        yield model, Path(model).name
    owned = (
        (user_folders.models_folder, "the folder of models"),
        (partial(user_folders.user_folder, "cache"), "the cache folder"),
        (partial(user_folders.user_folder, "state"), "the state folder"),
        (partial(user_folders.user_folder, "config"), "the folder of settings"),
    )
    for find, name in owned:
        with contextlib.suppress(OSError, MemvaultError):  # there is none, or it is not valid
            if (folder := find()) is not None:
                yield str(folder), name
                if folder.name == "memvault":
                    yield str(folder.parent), name
    yield tempfile.gettempdir(), "the temporary folder"
    yield str(Path(user_folders.__file__).parent), "memvault"
    yield str(user_folders.expand_home("~")), "the home folder"
