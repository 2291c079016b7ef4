"""Hide this machine's paths from callers on other machines."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from memvault.errors import MemvaultError
from memvault.files import user_folders
from memvault.settings import locate, user_settings
from memvault.settings.vault_settings import EngineSettings, Settings, load_settings


def path_hider(
    root: Path, settings: Settings | None, reach: Sequence[str] | None
) -> Callable[[str], str]:
    """Return a function that hides the paths on this machine in a message.

    Paths in the vault at ``root`` are shown relative to it; other folders are replaced by their
    purpose. ``settings`` is the vault's settings, or None if they cannot be loaded; ``reach`` lists
    the vaults that the caller may access, or is None for all vaults. The user's settings are read
    only once, here.
    """
    names: dict[str, str] = {}
    for folder, name in _folders(root, settings, reach):
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
    """Return a pattern that matches folders in text, and the separator before a name in them."""
    alternatives = "|".join(map(re.escape, sorted(folders, key=len, reverse=True)))
    slash = re.escape(os.sep)
    return re.compile(rf"(?<![\w.~-])(?:({alternatives})(?![\w-]|\.\w))({slash}(?=[^\s'\"]))?")


def _engine_address(engine: EngineSettings) -> Iterator[tuple[str, str]]:
    if engine.uri:
        yield engine.uri.partition("://")[2] or engine.uri, "a file on this machine"


def _folders(
    root: Path, settings: Settings | None, reach: Sequence[str] | None
) -> Iterator[tuple[str, str]]:
    """Yield each folder on this machine that a string may contain, and its replacement.

    The vault's folder has no replacement: files in it are shown by their relative path.
    """
    yield str(root), ""
    models = []
    if settings is not None:
        yield from _engine_address(settings.index)
        models += [settings.embedder.model, settings.rerank.model]
    with contextlib.suppress(MemvaultError):
        user = user_settings.load()
        models += [user.embedder.model, user.rerank.model]
        for trusted in user.vaults.trusted:
            yield trusted, Path(trusted).name
        for vault, named in user.vaults.names.items():
            yield named, f"the vault {vault}"
        for other in locate.reachable_vaults(reach).values():
            with contextlib.suppress(MemvaultError):
                yield from _engine_address(load_settings(other).index)
    for model in models:
        yield model, Path(model).name
    owned = (
        (user_folders.models_folder, "the models folder"),
        (partial(user_folders.user_folder, "cache"), "the cache folder"),
        (partial(user_folders.user_folder, "state"), "the state folder"),
        (partial(user_folders.user_folder, "config"), "the settings folder"),
    )
    for find, name in owned:
        with contextlib.suppress(OSError, MemvaultError):  # The folder is missing or invalid.
            if (folder := find()) is not None:
                yield str(folder), name
                if folder.name == "memvault":
                    yield str(folder.parent), name
    yield tempfile.gettempdir(), "the temporary folder"
    yield str(Path(user_folders.__file__).parent), "memvault"
    yield str(user_folders.expand_home("~")), "the home folder"
