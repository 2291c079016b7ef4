"""The index of a vault that this machine publishes to an engine."""

from __future__ import annotations

import contextlib
import hashlib
import platform
from collections.abc import Iterator

from memvault import clock
from memvault.errors import StorageError
from memvault.index.embedding.embedder import read_card
from memvault.index.embedding.wordpiece import DATA
from memvault.index.folder import IndexFolder
from memvault.index.local.backend import Progress
from memvault.index.local.index_files import INDEX_VERSION, IndexFiles
from memvault.index.local.local_index import LocalIndex
from memvault.index.local.static_vectors import open_store
from memvault.index.milvus import vector_rows
from memvault.index.milvus.client import KINDS, EngineClient
from memvault.index.milvus.engine_errors import EngineAddress, EngineRefused
from memvault.index.milvus.milvus_backend import MilvusBackend
from memvault.index.milvus.publication import Publication
from memvault.index.milvus.text_rows import StoredTexts
from memvault.index.protocol import COMPLETE
from memvault.store.memory_store import MemoryStore


def publication_version() -> str:
    """Return the versions of this program's terms, passages and vectors."""
    return f"{INDEX_VERSION} {read_card(DATA).version}"


def index_name(where: EngineAddress, vault: str) -> str:
    """Return the folder name of an index in an engine."""
    digest = hashlib.sha256(f"{where.uri}\n{where.collection}\n{vault}".encode()).hexdigest()
    return f"engine-{digest[:16]}"


class PublishingBackend(MilvusBackend):
    """The backend of a vault that this machine publishes.

    The local manifest records the uploaded rows. Before each answer, the folder is compared with
    the manifest, and the differences are uploaded. ``publisher_id`` is the id of the only machine
    that may publish the vault.
    """

    def __init__(
        self,
        store: MemoryStore,
        engine: EngineClient,
        vault: str,
        publisher_id: str,
        progress: Progress,
    ) -> None:
        super().__init__(engine, vault, progress)
        self.texts = StoredTexts(engine, vault)
        self._store = store
        self.publisher_id = publisher_id

    @contextlib.contextmanager
    def refreshing(self, files: IndexFiles, is_patient: bool = False) -> Iterator[None]:
        """Check that this machine publishes the vault, and publish the index afterward.

        Raises:
            EngineUnavailable: if the engine does not respond.
            EngineRefused: if the engine denies access, or another machine publishes this vault.
        """
        with self.engine.patient() if is_patient else contextlib.nullcontext():
            with self.engine.deadlines.refresh():
                publication = self._checked(files)
            yield
            if self._upload(files):
                self._publish(files, publication)

    def identity(self) -> tuple[str, str, str]:
        """Return the fields of a publication that identify this machine."""
        return self.publisher_id, platform.node(), self._store.root.name

    def _checked(self, files: IndexFiles) -> Publication:
        """Return the vault's publication; without one in the engine, everything is uploaded again.

        The publication is stored before any upload, so that an interrupted upload can be resumed.
        """
        publication = self.engine.publication(self.vault)
        if publication is None:
            with files.writing():
                files.invalidate()
            publication = Publication(
                *self.identity(), version=publication_version(), published_at=clock.iso()
            )
            self.engine.publish(self.vault, publication)
        self._require_publisher(publication)
        return publication

    def _require_publisher(self, publication: Publication | None) -> None:
        if publication is not None and publication.publisher != self.publisher_id:
            raise EngineRefused(
                f"The vault {self.vault} is published by {publication.host}, last on "
                f"{clock.local(publication.published_at)}, and only one machine may publish it",
                "to get a separate id, delete the vault line under [index] in memvault.toml and "
                "run `memvault index push`; if this is the same vault, run "
                "`memvault index push --take-over`",
            )

    def _upload(self, files: IndexFiles) -> bool:
        """Upload the texts and vectors that the engine lacks, unless another process is uploading.

        Returns whether all texts are uploaded; no new publication is stored before that.
        """
        opened, keyword_store = files.opened, self.keyword_store(files)
        if opened is None or keyword_store is None:
            return False
        generation, folder = keyword_store.state.generation, files.folder
        is_pending = self.texts.has_pending(opened.manifest, generation, folder)
        vectors = open_store(files.vectors_folder)
        if vectors is not None and not vector_rows.has_pending(opened.manifest, folder):
            vectors = None
        if not is_pending and vectors is None:
            return True
        with contextlib.suppress(StorageError), files.locked(0.0) as locked:
            if locked and is_pending:
                self.texts.upload(opened.manifest, self._store, generation, folder, self.progress)
            if locked and vectors is not None:
                vector_rows.upload(self.engine, self.vault, opened.manifest, vectors, folder)
        return not self.texts.has_pending(opened.manifest, generation, folder)

    def _publish(self, files: IndexFiles, previous: Publication) -> None:
        """Store the current publication, and delete the rows of other generations."""
        opened, keyword_store = files.opened, self.keyword_store(files)
        if opened is None or keyword_store is None:
            return
        publication = Publication(
            *self.identity(),
            words=keyword_store.state.generation,
            passages=vector_rows.uploaded_generation(opened.manifest, files.folder),
            documents=keyword_store.state.documents,
            memories=opened.manifest.count(),
            removed=keyword_store.state.removed,
            recently_removed=keyword_store.state.recently_removed,
            state=f"{opened.commit.number} {self.texts.uploaded_frequency(files.folder)}",
            version=publication_version(),
            published_at=previous.published_at,
        )
        if previous == publication:
            return
        # The upload may have taken a while.
        self._require_publisher(self.engine.publication(self.vault))
        self.engine.publish(self.vault, publication._replace(published_at=clock.iso()))
        for kind in KINDS:
            current, former = (
                (publication.passages, previous.passages)
                if kind == "passages"
                else (publication.words, previous.words)
            )
            if current and current != former:
                self.engine.delete_other_generations(kind, self.vault, current)


class Publisher:
    """Publishes a vault's index, and compares it with the engine on request.

    With ``fallback``, a local index answers while the engine is unavailable.
    """

    def __init__(
        self,
        store: MemoryStore,
        index_folder: IndexFolder,
        progress: Progress,
        backend: PublishingBackend,
        fallback: bool = False,
    ) -> None:
        self.backend = backend
        self.index = LocalIndex(
            store,
            index_folder,
            progress,
            backend,
            index_name(backend.engine.where, backend.vault),
            LocalIndex(store, index_folder, progress) if fallback else None,
        )

    def push(self) -> Publication | None:
        """Upload all differences, including vectors; return the vault's publication."""
        backend = self.backend
        with backend.engine.patient():
            self.index.refresh(True, COMPLETE)
            if self.differences():
                self.index.rebuild()
                self.index.refresh(True, COMPLETE)
            return backend.engine.publication(backend.vault)

    def take_over(self) -> None:
        """Make this machine the vault's publisher, replacing any other machine.

        The previous publisher deleted this machine's rows, so everything is uploaded again.
        """
        backend, files = self.backend, self.index.files
        publication = backend.engine.publication(backend.vault)
        if publication is not None and publication.publisher != backend.publisher_id:
            with files.writing():
                files.invalidate()
            publisher, host, name = backend.identity()
            backend.engine.publish(
                backend.vault, publication._replace(publisher=publisher, host=host, name=name)
            )

    def differences(self) -> str:
        """Return how the engine's rows differ from the uploaded rows; empty if they match.

        A memory gets a new uid whenever its text changes, so comparing uids is sufficient.
        """
        backend = self.backend
        publication = backend.engine.publication(backend.vault)
        if publication is None or publication.publisher != backend.publisher_id:
            host = publication.host if publication else "no machine"
            return f"{host} publishes this vault, not this machine"
        opened = self.index.files.open()
        keyword_store = backend.keyword_store(self.index.files)
        if opened is None or keyword_store is None:
            return "this machine has published nothing yet"
        generation, uploaded = keyword_store.state.generation, opened.manifest.uids()
        rows = backend.engine.generation_rows("words", backend.vault, generation, ("uid",))
        in_words, in_texts = {row["uid"] for row in rows}, backend.texts.uids(generation)
        missing = (uploaded - (in_words & in_texts)) | (self._lost_vectors() & uploaded)
        missing_count, extra_count = len(missing), len((in_words | in_texts) - uploaded)
        differences = (
            [f"it lacks {missing_count:,} of {len(uploaded):,} memories"] if missing_count else []
        )
        if extra_count:
            differences.append(f"it has {extra_count:,} memories that were deleted on this machine")
        return "; ".join(differences)

    def close(self) -> None:
        """Close open files and the connection."""
        self.index.close()

    def _lost_vectors(self) -> set[int]:
        """Return the memories whose uploaded vectors are missing from the engine."""
        backend, opened = self.backend, self.index.files.opened
        if opened is None:
            return set()
        uploaded = vector_rows.upload_state(opened.manifest, self.index.files.folder)
        if not uploaded.last:
            return set()
        rows = backend.engine.generation_rows(
            "passages", backend.vault, uploaded.generation, ("uid",)
        )
        uids = {uid for uid in opened.manifest.uids() if uid <= uploaded.last}
        return uids - {row["uid"] for row in rows}
