"""Deep embedders by the names that settings use; the quick one has no name there."""

from __future__ import annotations

from pathlib import Path

from memvault.errors import EmbedderError
from memvault.index.embedding import permitted, transformer
from memvault.index.embedding.embedder import BUILTIN, MODELS, Calibration, Embedder


def known_version(name: str) -> str | None:
    """Return an embedder's version where that can be told without loading it, else None."""
    return str(transformer.read_card()["version"]) if name == BUILTIN else None


def speaks(name: str, language: str) -> bool:
    """Say whether a model was made for a language; of one that a person chose nothing is known."""
    return name != BUILTIN or language in (*transformer.read_card()["languages"], "none")


def known_calibration(name: str) -> Calibration | None:
    """Return what a model's cosines mean where that can be told without loading it, else None."""
    return transformer.read_calibration() if name == BUILTIN else None


def display_name(name: str) -> str:
    """Return what an embedder is called: the built-in one by its model's name."""
    return str(transformer.read_card()["name"]) if name == BUILTIN else name


def load_embedder(name: str, root: Path | None, download: bool = False) -> Embedder:
    """Return an embedder: ``builtin``, a folder with ``model.onnx``, or a fastembed model.

    It is loaded once for the whole process.
    Folders may be relative to the vault ``root``. Only with ``download`` is the network used.

    Raises:
        EmbedderError: there is no such model, or it is not on this machine.
    """
    if name == BUILTIN:
        return transformer.BuiltinTransformer()  # which shares what it loads
    try:
        from memvault.index.embedding.onnx_model import OnnxEmbedder
    except ImportError as error:
        raise EmbedderError(
            f"fastembed cannot be loaded: {error}", "pip install --force-reinstall memvault"
        ) from error
    return MODELS.get(
        ("embedder", *permitted.identity(name, root)),
        lambda: OnnxEmbedder(name, root, download=download),
    )
