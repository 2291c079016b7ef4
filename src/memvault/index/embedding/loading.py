"""Embedders by the names that settings use."""

from __future__ import annotations

from pathlib import Path

from memvault.errors import EmbedderError
from memvault.index.embedding.embedder import BUILTIN, Embedder


def is_slow(name: str) -> bool:
    """Say whether embedding with this embedder takes so long that a recall must not wait for it."""
    return name != BUILTIN


def known_version(name: str) -> str | None:
    """Return an embedder's version where that can be told without loading it, else None."""
    if name != BUILTIN:
        return None
    from memvault.index.embedding.static import read_card

    return str(read_card()["version"])


def open_embedder(name: str, root: Path | None, download: bool = False) -> Embedder:
    """Load an embedder: ``builtin``, a folder with ``model.onnx``, or a fastembed model.

    Folders may be relative to the vault ``root``. Only with ``download`` is the network used.

    Raises:
        EmbedderError: there is no such model, or it is not on this machine.
    """
    if name == BUILTIN:
        from memvault.index.embedding.static import StaticEmbedder

        return StaticEmbedder()
    try:
        from memvault.index.embedding.onnx_model import OnnxEmbedder
    except ImportError as error:
        raise EmbedderError(
            f"fastembed cannot be loaded: {error}", "pip install --force-reinstall memvault"
        ) from error
    return OnnxEmbedder(name, root, download=download)
