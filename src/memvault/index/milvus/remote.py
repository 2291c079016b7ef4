"""The index of a vault that another machine published and whose files are not on this machine.

The local manifest is a copy of the published one. Terms and vectors are searched in the engine, and
texts are fetched on demand. Answers reflect the last upload.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING

from memvault import clock
from memvault.errors import NotFound, Refused, StorageError
from memvault.files import atomic
from memvault.files.plain_files import MAX_SETTING_BYTES, read
from memvault.index.folder import IndexFolder
from memvault.index.local.backend import Progress
from memvault.index.local.index_files import IndexFiles
from memvault.index.local.manifest import Manifest
from memvault.index.local.snapshot import Overlay, Snapshot
from memvault.index.milvus.client import EngineClient
from memvault.index.milvus.engine_errors import EngineRefused, display_address
from memvault.index.milvus.keyword_rows import GenerationState
from memvault.index.milvus.milvus_backend import MilvusBackend
from memvault.index.milvus.publication import Publication
from memvault.index.milvus.published import index_name, publication_version
from memvault.index.milvus.text_rows import StoredText, StoredTexts
from memvault.index.protocol import IndexCorrupted, StaleView, WaitPolicy
from memvault.model import FileState, Memory, is_document
from memvault.store.change_set import FILE_MISSING_HINT
from memvault.vault.document import etag
from memvault.vault.memory_file import read_document, read_memory

if TYPE_CHECKING:
    from pathlib import Path

    from memvault.index.embedding.static import StaticEmbedder
    from memvault.index.local.vector_search import VectorSearch
    from memvault.settings.vault_settings import Settings

_STATE_FILE = "sent"
"""The file with the state of the published index at the manifest's last update."""
_FETCH_BATCH = 500
_MAX_CACHED_TEXTS = 1_000
"""The maximum number of cached texts."""
_MAX_CACHED_BYTES = 64_000_000
_MAX_CLOCK_SKEW = timedelta(minutes=5)
"""The tolerated clock difference between two machines."""


def clock_skew_note(published_at: str) -> str:
    """Return a note if an upload's time is in the future, so a clock must be wrong; else empty."""
    when = clock.parse(published_at)
    if when is None or when - clock.now() < _MAX_CLOCK_SKEW:
        return ""
    return f"the vault was published at {published_at}, in the future: a machine's clock is wrong"


def _state_of(publication: Publication) -> str:
    return f"{publication.words} {publication.state}"


class RemoteReader:
    """The memories in a vault that another machine publishes: a local manifest and remote texts.

    Texts are fetched from the engine on demand, and some are cached.
    """

    def __init__(
        self,
        root: Path,
        settings: Settings,
        index_folder: IndexFolder,
        progress: Progress,
        engine: EngineClient,
    ) -> None:
        self.root = root
        self.settings = settings
        self.engine = engine
        self._vault = settings.index.vault
        self._progress = progress
        self._texts = StoredTexts(engine, self._vault)
        self._cache: dict[int, StoredText] = {}
        self._invalid_uids: set[int] = set()
        self._known_types = frozenset(memory_type.name for memory_type in settings.types)
        self._backend = MilvusBackend(engine, self._vault, progress)
        self.files = IndexFiles(
            settings, index_folder, self._backend, index_name(engine.where, self._vault)
        )

    def sync(self) -> Publication:
        """Update the manifest to the published index, and return its publication.

        Raises:
            EngineUnavailable: if the engine does not respond.
            EngineRefused: if the engine denies access, or contains nothing that this version can
                read.
            IndexCorrupted: if the index on this machine is corrupted.
        """
        with self.engine.deadlines.refresh():
            publication = self._publication()
        state = _state_of(publication)
        if self.files.open() is None or self._synced_state() != state or self._invalid_uids:
            with self._write_lock():
                self._update(publication)
                atomic.write(self.files.folder / _STATE_FILE, state.encode(), durable=False)
            self._cache.clear()
        return publication

    def state(self) -> str:
        """Return a value that changes with every upload.

        Raises:
            EngineUnavailable: if the engine does not respond.
            EngineRefused: if the engine denies access, or contains nothing that this version can
                read.
        """
        return _state_of(self._publication())

    def read_listed(self, path: str) -> None:
        """Return None: memories are found by path in the index, which is updated first."""

    def read(self, path: str) -> Memory:
        """Read one memory; raise ``NotFound`` if no published memory has this path."""
        data, state = self.read_bytes(path)
        if is_document(path):
            return read_document(data, state)
        return read_memory(data, state, self._known_types, self.settings.encoding)

    def read_bytes(self, path: str) -> tuple[bytes, FileState]:
        """Return a file's bytes as published.

        Raises:
            NotFound: if no published memory has this path.
            Refused: if the publishing machine could not read the file.
            StaleView: if the index on this machine is corrupted.
        """
        opened = self.files.open()
        try:
            named = opened.manifest.find_by_name(path) if opened is not None else []
        except IndexCorrupted as error:
            raise StaleView(self.files.discard(error)) from error
        record = next((entry for entry in named if entry.path == path), None)
        if record is None:
            raise NotFound(f"There is no file {path} in the vault", FILE_MISSING_HINT)
        if not record.etag:
            raise Refused(
                f"{path} cannot be read on its machine: {record.problem}", FILE_MISSING_HINT
            )
        self.fetch([record.uid])
        copy = self._cache.get(record.uid)
        if copy is None or copy.row.record.path != path or etag(copy.data) != record.etag:
            raise NotFound(f"The text of {path} is no longer in the engine", FILE_MISSING_HINT)
        return copy.data, copy.row.state

    def fetch(self, uids: Iterable[int]) -> None:
        """Fetch the texts of memories into the cache."""
        size = sum(len(copy.data) for copy in self._cache.values())
        if len(self._cache) > _MAX_CACHED_TEXTS or size > _MAX_CACHED_BYTES:
            self._cache.clear()
        missing = [uid for uid in uids if uid >= 0 and uid not in self._cache]
        opened, keyword_store = self.files.opened, self._backend.keyword_store(self.files)
        if missing and opened is not None and keyword_store is not None:
            texts = self._texts.texts(keyword_store.state.generation, missing)
            self._cache |= texts
            for uid in missing:
                record = opened.manifest.record(uid)
                is_valid = (
                    uid in texts and record is not None and etag(texts[uid].data) == record.etag
                )
                if record is not None and record.etag and not is_valid:
                    self._invalid_uids.add(uid)

    def fetch_for_view(self, uids: Iterable[int]) -> None:
        """Fetch the texts of memories; raises ``StaleView`` if the engine is unavailable."""
        with self.engine.deadlines.search():
            self.fetch(uids)

    def close(self) -> None:
        """Close open files and the connection."""
        self.files.close()
        self.engine.close()

    def _publication(self) -> Publication:
        publication = self.engine.publication(self._vault)
        where = display_address(self.engine.where)
        if publication is None:
            raise EngineRefused(
                f"The engine at {where} no longer has the vault {self._vault}",
                "remove its name with `memvault vaults remove`",
            )
        if publication.version != publication_version():
            raise EngineRefused(
                f"{publication.host} published the vault with another version of memvault",
                "install the same version on both machines, then run `memvault index push` there",
            )
        if not publication.is_valid:
            raise EngineRefused(
                f"The engine at {where} has invalid data about the vault",
                "run `memvault index push` on the machine that has the vault",
            )
        return publication

    @contextmanager
    def _write_lock(self) -> Iterator[None]:
        """Hold the index lock; raises ``StorageError`` or ``TimedOut``."""
        try:
            with self.files.writing():
                yield
        except StorageError as error:
            raise StorageError(
                error.message, "free some space; remote vaults are copied to this folder"
            ) from error

    def _synced_state(self) -> str:
        try:
            return read(self.files.folder / _STATE_FILE, MAX_SETTING_BYTES).decode()
        except (OSError, UnicodeDecodeError):
            return ""

    def _update(self, publication: Publication) -> None:
        """Update the manifest to the published index; requires the index lock.

        Memories whose texts do not match their records are omitted until they change again.
        """
        generation = publication.words
        opened = self.files.open(writing=True)
        keyword_store = self._backend.keyword_store(self.files)
        if opened is None or keyword_store is None or keyword_store.state.generation != generation:
            opened = self.files.create_empty()
            keyword_store = self._backend.open_keyword(
                self.files.keyword_folder, opened.commit.files
            )
        manifest = opened.manifest
        recent = self._removed_since(publication, keyword_store.state)
        if recent is not None:
            manifest.apply(recent & manifest.uids(), ())
            self._add(manifest, generation, self._texts.uids(generation, manifest.next_uid() - 1))
        if recent is None or manifest.count() != publication.memories:
            stored, published = manifest.uids(), self._texts.uids(generation)
            manifest.apply(stored - published, ())
            self._add(manifest, generation, published - stored)
        frequency = self._texts.frequency(generation)
        if frequency is not None:
            manifest.blocks.store_document_frequency(*frequency)
        manifest.apply(self._invalid_uids & manifest.uids(), ())
        self._invalid_uids.clear()
        keyword_store.set_generation(
            GenerationState(generation, publication.documents, publication.removed)
        )
        self.files.commit(keyword_store)

    def _removed_since(
        self, publication: Publication, own_state: GenerationState
    ) -> set[int] | None:
        """Return the memories removed since this manifest was updated, or None if unknown."""
        removed_count, listed = (
            publication.removed - own_state.removed,
            len(publication.recently_removed),
        )
        is_known = own_state.documents and 0 <= removed_count <= listed
        return set(publication.recently_removed[listed - removed_count :]) if is_known else None

    def _add(self, manifest: Manifest, generation: str, uids: Set[int]) -> None:
        added = sorted(uids)
        for first in range(0, len(added), _FETCH_BATCH):
            batch = added[first : first + _FETCH_BATCH]
            manifest.apply((), self._texts.manifest_rows(generation, batch))
            if len(added) > _FETCH_BATCH:
                self._progress("fetching", first + len(batch), len(added))


class RemoteIndex:
    """The index of a vault that another machine publishes; answers reflect its last upload."""

    def __init__(self, reader: RemoteReader, index_folder: IndexFolder) -> None:
        self.reader = reader
        self._index_folder = index_folder

    def refresh(self, vectors: bool, wait_policy: WaitPolicy) -> Snapshot:  # noqa: ARG002 - there are no files
        """Update the manifest to the published index, and return a snapshot of it.

        Raises:
            EngineUnavailable: if the engine does not respond.
            EngineRefused: if the engine denies access, or contains nothing that this version can
                read.
        """
        return self.reader.files.rebuild_if_corrupted(lambda: self._snapshot(vectors))

    def with_vectors(self, view: Snapshot, wait_policy: WaitPolicy) -> Snapshot:  # noqa: ARG002 - it has no vectors to add to
        """See ``SearchIndex.with_vectors``."""
        return self.refresh(True, wait_policy)

    def at(self, view: Snapshot, moment: datetime) -> Snapshot:  # noqa: ARG002 - part of the interface
        """Raise ``Refused``: only the publishing machine stores earlier versions."""
        raise Refused(
            "Earlier versions are only on the machine that stores the vault",
            "omit `--as-of`, or run the command on that machine",
        )

    def close(self) -> None:
        """Close open files and the connection, and release the models."""
        self.reader.close()
        self.__dict__.pop("_table", None)

    def _snapshot(self, vectors: bool) -> Snapshot:
        reader = self.reader
        publication = reader.sync()
        opened = reader.files.opened
        assert opened is not None
        return Snapshot(
            store=reader,
            files=reader.files,
            commit=opened.commit,
            manifest=opened.manifest,
            words=opened.keyword,
            vectors=self._vector_search(publication) if vectors and publication.passages else None,
            overlay=Overlay.empty(),
            notes=tuple(
                filter(None, (self._index_folder.note, clock_skew_note(publication.published_at)))
            ),
            published_at=publication.published_at,
            fetch=reader.fetch_for_view,
        )

    def _vector_search(self, publication: Publication) -> VectorSearch:
        from memvault.index.local.vector_search import VectorSearch
        from memvault.index.milvus.vector_rows import MilvusVectors

        stored = MilvusVectors(
            self.reader.engine, self.reader.settings.index.vault, publication.passages
        )
        return VectorSearch(stored, lambda: self._table, None, 0)

    @cached_property
    def _table(self) -> StaticEmbedder:
        from memvault.index.embedding.static import open_table

        return open_table()
