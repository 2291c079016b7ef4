"""A backend whose keyword index is in an engine."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from memvault.index.local.backend import Progress
from memvault.index.local.index_files import IndexFiles
from memvault.index.milvus.client import EngineClient
from memvault.index.milvus.keyword_rows import GenerationState, MilvusKeywordStore
from memvault.index.milvus.publication import vector_generation


class MilvusBackend:
    """The rows of one vault in an engine."""

    is_shared = True

    def __init__(self, engine: EngineClient, vault: str, progress: Progress) -> None:
        self.engine = engine
        self.vault = vault
        self.progress = progress

    def refreshing(
        self,
        files: IndexFiles,  # noqa: ARG002  # see ``PublishingBackend``
        is_patient: bool = False,  # noqa: ARG002
    ) -> AbstractContextManager[None]:
        """Do nothing, because this machine publishes nothing."""
        return nullcontext()

    def close(self) -> None:
        """Close the connection."""
        self.engine.close()

    def keyword_store(self, files: IndexFiles) -> MilvusKeywordStore | None:
        """Return the keyword index of the open commit, or None if there is no usable index."""
        opened = files.opened
        if opened is None:
            return None
        return self.open_keyword(files.keyword_folder, opened.commit.files)

    def open_keyword(self, folder: Path | None, files: Iterable[str]) -> MilvusKeywordStore:
        """See ``Backend.open_keyword``."""
        return MilvusKeywordStore(self.engine, self.vault, folder, files, self.progress)

    def create_keyword(self, folder: Path) -> MilvusKeywordStore:
        """Create a keyword index with a new generation."""
        created = self.open_keyword(folder, ())
        folder.mkdir(parents=True, exist_ok=True)
        created.set_generation(GenerationState(secrets.token_hex(8), 0))
        return created

    def delete_vectors(self, manifest: int, uids: Sequence[int]) -> None:
        """See ``Backend.delete_vectors``."""
        self.engine.delete("passages", self.vault, vector_generation(manifest), uids)
