"""Choose the models to load: vaults may configure one, but folders need the user's consent.

Loading a model can run untrusted code: a file of a thousand bytes can run forever or use all
memory. A folder named in a vault's settings is therefore opened only if the user allowed exactly
its current bytes with ``memvault model use``.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any

from memvault import sanitize
from memvault.errors import EmbedderError, MemvaultError
from memvault.files.user_folders import expand_home
from memvault.index.embedding.embedder import BUILTIN, MULTILINGUAL, fingerprint_of
from memvault.named_tuple import NamedTuple
from memvault.settings import user_settings
from memvault.settings.vault_settings import Settings

_KIND = "model"
_MIN_FOREIGN, _MIN_STILL_FOREIGN = 0.1, 0.05
"""The share of non-English memories at which a vault switches to the multilingual model, and the
share below which the vault switches back.
"""
TRANSFORMER_VARIABLE = "MEMVAULT_DEEP"
"""The environment variable that overrides the setting ``embedder.deep``."""


class ModelChoice(NamedTuple):
    """The model to use, the vault in which to look up its name, and a note for the user.

    ``root`` is None for a name that does not come from a vault.
    """

    name: str
    root: Path | None
    note: str = ""


class ModelFingerprint(NamedTuple):
    """A snapshot of a model's folder: file sizes by path, and one digest of all files."""

    sizes: dict[str, int]
    digest: str


def folder_of(name: str, root: Path | None) -> Path | None:
    """Return the folder that a model's name refers to, or None for a built-in or fastembed model.

    A folder may be relative to the vault ``root``; without a vault the path must be absolute.
    """
    path = expand_home(name)
    if name in (BUILTIN, MULTILINGUAL):
        return None
    if root is None:
        return path if path.is_absolute() else None
    folder = root / path
    return folder if folder.is_dir() or path.is_absolute() or name.startswith(".") else None


def identity(name: str, root: Path | None) -> tuple[Hashable, ...]:
    """Return the identity of a model: its name, or its folder with the state of its files."""
    folder = folder_of(name, root)
    if folder is None:
        return name, None
    return name, os.path.realpath(folder), fingerprint_of(folder)


def is_path(name: str, root: Path) -> bool:
    """Return whether a model's name is, or could be, the path of a folder."""
    return bool(name) and (
        ".." in Path(name).parts or name.startswith("~") or folder_of(name, root) is not None
    )


def choose_embedder(settings: Settings, root: Path) -> ModelChoice:
    """Return the embedder to use; the built-in one if the vault's is not allowed here."""
    if "embedder.model" not in settings.explicit:
        return ModelChoice(user_settings.load().embedder.model or settings.embedder.model, None)
    if is_allowed(settings.embedder.model, root):
        return ModelChoice(settings.embedder.model, root)
    return ModelChoice(BUILTIN, None, _refusal(settings.embedder.model, ""))


def automatic_model(languages: Mapping[str, int], has_multilingual: bool) -> str:
    """Return the built-in model for a vault without a configured one.

    ``languages`` has the number of memories by language. Between the two thresholds the vault keeps
    its current model, which is the multilingual one if ``has_multilingual`` is set.
    """
    total = sum(languages.values())
    foreign = total - languages.get("english", 0)
    limit = _MIN_STILL_FOREIGN if has_multilingual else _MIN_FOREIGN
    return MULTILINGUAL if foreign > limit * total else BUILTIN


def is_named(settings: Settings) -> bool:
    """Return whether an embedder is configured in the vault's or the user's settings."""
    return "embedder.model" in settings.explicit or bool(user_settings.load().embedder.model)


def is_switched_off(settings: Settings) -> bool:
    """Return whether the user's or the vault's settings turn off the transformer."""
    return (os.environ.get(TRANSFORMER_VARIABLE) or settings.embedder.deep) == "off"


def choose_reranker(settings: Settings, root: Path) -> ModelChoice:
    """Return the cross-encoder to use.

    Raises:
        EmbedderError: if the vault's model is not allowed on this machine.
    """
    if "rerank.model" not in settings.explicit:
        return ModelChoice(user_settings.load().rerank.model or settings.rerank.model, None)
    if not is_allowed(settings.rerank.model, root):
        message, _, hint = _refusal(settings.rerank.model, " --for rerank").partition("; ")
        raise EmbedderError(message, hint)
    return ModelChoice(settings.rerank.model, root)


def fingerprint(name: str, root: Path | None) -> ModelFingerprint | None:
    """Return the fingerprint of a model folder, to allow it after a check, or None for a name.

    Raises:
        EmbedderError: if the folder cannot be read, or contains a symbolic link to a folder.
    """
    folder = folder_of(name, root)
    if folder is None:
        return None
    try:
        sizes = _sizes(folder)
        return ModelFingerprint(sizes, _digest(folder, sizes))
    except OSError as error:
        raise EmbedderError(
            f"The model folder {name} cannot be read: {error.strerror}", "check its contents"
        ) from error


def allow(name: str, root: Path, tried: ModelFingerprint | None) -> None:
    """Allow the vault to use a model folder, as long as its content matches the one checked.

    Raises ``StorageError``.
    """
    folder = folder_of(name, root)
    if folder is not None and tried is not None:
        from memvault import grants

        grants.add(root, _KIND, os.path.realpath(folder), tried._asdict())


def cache_key(settings: Settings, root: Path) -> object:
    """Return a value that changes whenever a different embedder may be chosen.

    Reads no large files.
    """
    folder = folder_of(settings.embedder.model, root)
    if folder is None or "embedder.model" not in settings.explicit:
        return None
    try:
        allowed = _granted(folder, root)
        files = [(folder / name).stat() for name in allowed.get("sizes", ())]
    except (OSError, ValueError, MemvaultError):  # ValueError: the path contains NUL
        return None
    return allowed.get("digest"), [
        (file.st_size, file.st_mtime_ns, file.st_ctime_ns) for file in files
    ]


def is_allowed(name: str, root: Path) -> bool:
    """Return whether a model may be loaded; named models always may, folders need a grant."""
    folder = folder_of(name, root)
    if folder is None:
        return True
    try:
        allowed = _granted(folder, root)
        if not allowed:  # never read a folder that an untrusted vault chose
            return False
        sizes = _sizes(folder)
        return bool(allowed["sizes"] == sizes and allowed["digest"] == _digest(folder, sizes))
    except (OSError, ValueError, MemvaultError, KeyError):
        return False


def _granted(folder: Path, root: Path) -> dict[str, Any]:
    from memvault import grants

    return grants.get(root, _KIND, os.path.realpath(folder))


def _refusal(name: str, option: str) -> str:
    word = sanitize.quote_argument(name)
    return (
        f"the model folder {word} is not allowed on this machine, or has changed since; "
        f"allow it with `memvault model use {word}{option}`"
    )


def _sizes(folder: Path) -> dict[str, int]:
    """Return the size of every file below a folder, by path.

    Raises:
        OSError: if the folder contains a link to a folder, whose files could change unnoticed.
    """
    from memvault.files.walk import walk

    sizes = {}
    for parent, folders, names in walk(folder):
        folders.sort()
        if any(Path(parent, name).is_symlink() for name in folders):
            raise OSError(errno.ELOOP, "a folder in it is a link")
        for name in sorted(names):
            path = Path(parent, name)
            if path.is_file():
                sizes[path.relative_to(folder).as_posix()] = path.stat().st_size
    return sizes


def _digest(folder: Path, sizes: Mapping[str, int]) -> str:
    """Return one digest of all file names and contents."""
    import hashlib

    combined = hashlib.sha256()
    for name in sizes:
        with open(folder / name, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        combined.update(f"{digest} {name}\0".encode("utf-8", "surrogatepass"))
    return combined.hexdigest()
