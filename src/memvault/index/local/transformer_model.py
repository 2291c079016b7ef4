"""A vault's transformer model: its selection, the loaded model, and the file of its vectors.

Transformer vectors are computed after the static vectors: by a background process
(``background_embedding``), during a call if the setting is ``now``, or by ``memvault reindex``.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

from memvault.errors import EmbedderError, UsageError
from memvault.files.plain_files import digest_of
from memvault.files.user_folders import ownership_problem
from memvault.index.embedding import model_settings
from memvault.index.embedding.embedder import MULTILINGUAL, ModelCard
from memvault.index.embedding.transformer import card_of, load_embedder
from memvault.index.folder import DEEP, mark_used
from memvault.index.vectors.vector_file import FORMAT
from memvault.store.memory_store import MemoryStore
from memvault.vault import naming

if TYPE_CHECKING:
    from memvault.index.embedding.token_vectors import TokenEmbedder
    from memvault.index.local.unstored_vectors import UnstoredVectors
    from memvault.index.vectors.vector_store import VectorStore

Mode = Literal["auto", "off", "now"]
_MODES = ("auto", "off", "now")
_VARIABLE = model_settings.TRANSFORMER_VARIABLE


class TransformerModel:
    """The model that embeds a vault; an in-memory index has no transformer vectors."""

    def __init__(
        self,
        store: MemoryStore,
        folder: Path | None,
        languages: Callable[[], Mapping[str, int]] = dict,
    ) -> None:
        """Use the vectors below an index's folder.

        ``languages`` returns the number of memories by language, which selects one of the built-in
        models if neither the vault nor the user sets a model.
        """
        self.store = store
        self._languages = languages
        self.folder = folder / DEEP if folder is not None else None
        self._choice: tuple[object, model_settings.ModelChoice] | None = None
        self._embedder: TokenEmbedder | None = None
        self._opened: VectorStore | None = None
        self.unstored: dict[int, UnstoredVectors] = {}
        """Vectors that searches computed before they were stored, by text hash."""

    @property
    def mode(self) -> Mode:
        """Return when vectors are computed.

        In another user's vault, ``now`` is treated as ``auto`` because it delays answers, unless it
        comes from the environment.
        """
        chosen = os.environ.get(_VARIABLE) or self.store.settings.embedder.deep
        if chosen not in _MODES:
            raise UsageError(f"{_VARIABLE} must be one of {', '.join(_MODES)}", "unset it")
        if self.folder is None:
            return "off"
        if chosen == "now" and _VARIABLE not in os.environ and not self._is_own():
            return "auto"
        return cast("Mode", chosen)

    def _is_own(self) -> bool:
        try:
            return not ownership_problem(self.store.root)
        except OSError:
            return False

    @property
    def choice(self) -> model_settings.ModelChoice:
        """Return the model to use, with a note if it is not the configured one."""
        automatic = self._automatic_model()
        state = automatic, model_settings.cache_key(self.store.settings, self.store.root)
        if self._choice is None or state != self._choice[0]:
            choice = model_settings.choose_embedder(self.store.settings, self.store.root)
            if automatic:
                choice = choice._replace(name=automatic)
            if self._choice is not None and choice.name != self._choice[1].name:
                self.close()
            self._choice = state, choice
        return self._choice[1]

    def _automatic_model(self) -> str:
        """Return the model for the vault's languages; empty if a model is configured."""
        if not self._is_automatic:
            return ""
        has_multilingual = self.vectors_folder(MULTILINGUAL).is_dir()
        return model_settings.automatic_model(self._languages(), has_multilingual)

    @cached_property
    def _is_automatic(self) -> bool:
        settings = self.store.settings
        if self.folder is None or settings.language == "none":
            return False
        return not model_settings.is_named(settings)

    @property
    def name(self) -> str:
        """Return the display name of the model."""
        card = card_of(self.choice.name)
        return card.name if card else self.choice.name

    def embedder(self) -> TokenEmbedder:
        """Return the model, loaded once; raises ``EmbedderError``."""
        name, root, _ = self.choice
        if self._embedder is None:
            if root is not None and not model_settings.is_allowed(name, root):
                raise EmbedderError(
                    f"The model {name} is not allowed on this machine",
                    "allow it with `memvault model use`",
                )
            self._embedder = load_embedder(name, root)
        return self._embedder

    def close(self) -> None:
        """Release the vectors and the model; the next use opens them again."""
        self._embedder = self._opened = None
        self.unstored.clear()

    @property
    def card(self) -> ModelCard | None:
        """Return the card of a built-in model, or None for other models."""
        return card_of(self.choice.name)

    def opened(self) -> VectorStore | None:
        """Open the vectors of the model's current version, or return None if there are none.

        The version of a model that is not built in is known only once it is loaded.
        """
        if self.folder is None:
            return None
        from memvault.index.vectors.vector_store import VectorStore

        vectors = VectorStore.open(self.vectors_folder(self.choice.name))
        if vectors is None:
            return None
        model = self._embedder or self.card
        if model is not None and vectors.card.version != model.version:
            return None
        if self._opened is None or self._opened.card != vectors.card:
            self._opened = vectors
            with contextlib.suppress(OSError):
                mark_used(vectors.folder)
        return self._opened

    def vectors_folder(self, name: str) -> Path:
        """Return the folder of the vectors of a model."""
        assert self.folder is not None
        card = card_of(name)
        key = name if card is None else f"{name} {card.version} {FORMAT}"
        digest = digest_of(key.encode("utf-8", "surrogatepass"), 4).hex()
        return self.folder / f"{naming.slug(name, 40)}-{digest}"
