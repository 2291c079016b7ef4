"""The index of a vault that another machine has published; its files are not on this machine.

The manifest on this machine follows the published index. Terms and vectors are searched in the
engine, and texts are fetched when they are needed. Answers are as of the last upload.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
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
from memvault.index.milvus.client import EngineClient, EngineRefused, display_address
from memvault.index.milvus.keyword_rows import GenerationState, MilvusKeywordStore
from memvault.index.milvus.milvus_backend import MilvusBackend
from memvault.index.milvus.publication import Publication
from memvault.index.milvus.published import made_by, name_of
from memvault.index.milvus.text_rows import StoredText, StoredTexts
from memvault.index.protocol import IndexCorrupted, StaleView, View, WaitPolicy
from memvault.model import FileState, Memory
from memvault.store.change_set import FILE_MISSING_HINT
from memvault.vault.document import etag
from memvault.vault.memory_file import read_memory

if TYPE_CHECKING:
    from pathlib import Path

    from memvault.index.embedding.fastembed_models import CrossEncoder
    from memvault.index.embedding.static import StaticEmbedder
    from memvault.index.local.vector_search import VectorSearch
    from memvault.settings.vault_settings import Settings

_STATE_FILE = "sent"
"""The file that holds the state of the published index that the manifest was last updated to."""
_FETCH_BATCH = 500
_MAX_CACHED_TEXTS = 1_000
"""The maximum number of texts kept in memory."""
_MAX_CACHED_BYTES = 64_000_000
_MAX_CLOCK_SKEW = timedelta(minutes=5)
"""The tolerated difference between two machines' clocks."""


def clock_skew_note(sent: str) -> str:
    """Return a note that a clock is wrong if an upload's time is in the future; else empty."""
    when = clock.parse(sent)
    if when is None or when - clock.now() < _MAX_CLOCK_SKEW:
        return ""
    return f"the vault was sent at {sent}, which is still to come: a machine's clock is off"


def _state_of(card: Publication) -> str:
    return f"{card.words} {card.state}"


class RemoteReader:
    """The memories of a vault that another machine publishes: their manifest here, and texts.

    Texts are fetched from the engine when they are read, and some are kept.
    """

    def __init__(
        self,
        root: Path,
        settings: Settings,
        place: IndexFolder,
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
        self._invalid_keys: set[int] = set()
        self._known_types = frozenset(known.name for known in settings.types)
        backend = MilvusBackend(engine, self._vault, progress)
        self.files = IndexFiles(settings, place, backend, name_of(engine.where, self._vault))

    def follow(self) -> Publication:
        """Update the manifest to the published index, and return its publication.

        Raises:
            EngineUnavailable: the engine does not answer.
            EngineRefused: it denies access, or holds nothing that can be read here.
            IndexCorrupted: the index on this machine is corrupted.
        """
        self.engine.begin_view()
        with self.engine.timed():
            card = self._card()
        state = _state_of(card)
        if self.files.open() is None or self._followed_state() != state or self._invalid_keys:
            with self._write_lock():
                self._update(card)
                atomic.write(self.files.folder / _STATE_FILE, state.encode(), durable=False)
            self._cache.clear()
        return card

    def state(self) -> str:
        """Return a value that changes with every upload; raises the same errors as ``follow``."""
        return _state_of(self._card())

    def read_listed(self, path: str) -> None:
        """Return None: the index, which is updated first, also finds memories by path."""

    def read(self, path: str) -> Memory:
        """Read one memory; raises as ``read_bytes`` does."""
        data, state = self.read_bytes(path)
        return read_memory(data, state, self._known_types, self.settings.encoding)

    def read_bytes(self, path: str) -> tuple[bytes, FileState]:
        """Return a file's bytes as published.

        Raises:
            NotFound: no published memory has this path.
            Refused: the publishing machine could not read the file.
            StaleView: the index on this machine is corrupted.
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
                f"{path} cannot be read where it lies: {record.problem}", FILE_MISSING_HINT
            )
        self.fetch([record.key])
        copy = self._cache.get(record.key)
        if copy is None or copy.row.record.path != path or etag(copy.data) != record.etag:
            raise NotFound(f"The text of {path} is no longer in the engine", FILE_MISSING_HINT)
        return copy.data, copy.row.state

    def fetch(self, keys: Iterable[int]) -> None:
        """Fetch the texts of memories into the cache."""
        size = sum(len(copy.data) for copy in self._cache.values())
        if len(self._cache) > _MAX_CACHED_TEXTS or size > _MAX_CACHED_BYTES:
            self._cache.clear()
        missing = [key for key in keys if key >= 0 and key not in self._cache]
        opened = self.files.opened
        if missing and opened is not None and isinstance(opened.keyword, MilvusKeywordStore):
            found = self._texts.of(opened.keyword.card.generation, missing)
            self._cache |= found
            for key in missing:
                record = opened.manifest.record(key)
                is_valid = (
                    key in found and record is not None and etag(found[key].data) == record.etag
                )
                if record is not None and record.etag and not is_valid:
                    self._invalid_keys.add(key)

    def fetch_for_view(self, keys: Iterable[int]) -> None:
        """Fetch the texts of memories; raises ``StaleView`` if the engine is unavailable."""
        with self.engine.viewing():
            self.fetch(keys)

    def close(self) -> None:
        """Close open files and the connection."""
        self.files.close()
        self.engine.close()

    def _card(self) -> Publication:
        card = self.engine.card(self._vault)
        where = display_address(self.engine.where)
        if card is None:
            raise EngineRefused(
                f"The engine at {where} holds the vault {self._vault} no more",
                "`memvault vaults remove` takes its name away",
            )
        if card.made != made_by():
            raise EngineRefused(
                f"{card.host} sent the vault with another version of memvault",
                "use the same version here and there, and run `memvault index push` there",
            )
        if not card.is_valid:
            raise EngineRefused(
                f"What the engine at {where} says of the vault makes no sense",
                "`memvault index push`, on the machine that has it, says it anew",
            )
        return card

    @contextmanager
    def _write_lock(self) -> Iterator[None]:
        """Hold the index's lock; raises the same errors as ``follow``."""
        try:
            with self.files.writing():
                yield
        except StorageError as error:
            raise StorageError(
                error.message, "what another machine sent is followed here: give it room"
            ) from error

    def _followed_state(self) -> str:
        try:
            return read(self.files.folder / _STATE_FILE, MAX_SETTING_BYTES).decode()
        except (OSError, UnicodeDecodeError):
            return ""

    def _update(self, card: Publication) -> None:
        """Update the manifest to the published index; requires the index's lock.

        Memories whose texts do not match their records are left out until something else changes.
        """
        generation = card.words
        opened = self.files.open(writing=True)
        words = opened.keyword if opened is not None else None
        if (
            opened is None
            or not isinstance(words, MilvusKeywordStore)
            or (words.card.generation != generation)
        ):
            opened = self.files.create_empty()
            words = opened.keyword
        assert isinstance(words, MilvusKeywordStore)
        manifest = opened.manifest
        recent = self._removed_since(card, words.card)
        if recent is not None:
            manifest.apply(recent & manifest.uids(), ())
            self._add(manifest, generation, self._texts.uids(generation, manifest.next_uid() - 1))
        if recent is None or manifest.count() != card.memories:
            known, held = manifest.uids(), self._texts.uids(generation)
            manifest.apply(known - held, ())
            self._add(manifest, generation, held - known)
        frequency = self._texts.frequency(generation)
        if frequency is not None:
            manifest.blocks.count_tokens(*frequency)
        manifest.apply(self._invalid_keys & manifest.uids(), ())
        self._invalid_keys.clear()
        words.follow(GenerationState(generation, card.documents, card.removed))
        self.files.commit(words)

    def _removed_since(self, card: Publication, own: GenerationState) -> set[int] | None:
        """Return the memories removed since this manifest was updated; None if that is unknown."""
        removed_count, listed = card.removed - own.removed, len(card.gone)
        is_known = own.documents and 0 <= removed_count <= listed
        return set(card.gone[listed - removed_count :]) if is_known else None

    def _add(self, manifest: Manifest, generation: str, uids: Set[int]) -> None:
        added = sorted(uids)
        for first in range(0, len(added), _FETCH_BATCH):
            batch = added[first : first + _FETCH_BATCH]
            manifest.apply((), self._texts.kept(generation, batch))
            if len(added) > _FETCH_BATCH:
                self._progress("fetching", first + len(batch), len(added))


class RemoteIndex:
    """The index of a vault that another machine publishes; answers are as of its last upload."""

    def __init__(self, reader: RemoteReader, place: IndexFolder) -> None:
        self.reader = reader
        self.published_at = ""
        self._place = place

    def refresh(self, vectors: bool, patience: WaitPolicy) -> Snapshot:  # noqa: ARG002 - there are no files
        """Update the manifest to the published index and return a snapshot of it.

        Raises:
            EngineUnavailable: the engine does not answer.
            EngineRefused: it denies access, or holds nothing that can be read here.
        """
        return self.reader.files.healing(lambda: self._snapshot(vectors))

    def with_vectors(self, view: View, patience: WaitPolicy) -> Snapshot:  # noqa: ARG002 - it has none to add to
        """Return a snapshot with vectors; errors as for ``refresh``."""
        return self.refresh(True, patience)

    def at(self, view: View, moment: datetime) -> View:  # noqa: ARG002 - part of the interface
        """Raise ``Refused``: earlier versions are kept only with the files."""
        raise Refused(
            "Earlier versions are only on the machine that stores the vault",
            "omit `--as-of`, or run the command on that machine",
        )

    def rerank_scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return a cross-encoder's score of each text for a query; no model is downloaded."""
        return self._reranker.scores(query, texts)

    @cached_property
    def _reranker(self) -> CrossEncoder:
        from memvault.index.embedding.fastembed_models import open_reranker

        return open_reranker(self.reader.settings, self.reader.root)

    def notes(self) -> list[str]:
        """Return notes for the user, including that a clock is wrong."""
        return [*filter(None, (self._place.note, clock_skew_note(self.published_at)))]

    def close(self) -> None:
        """Close open files and the connection, and release the models."""
        self.reader.close()
        for name in ("_table", "_reranker"):
            self.__dict__.pop(name, None)

    def _snapshot(self, vectors: bool) -> Snapshot:
        reader = self.reader
        card = reader.follow()
        self.published_at = card.sent
        opened = reader.files.opened
        assert opened is not None
        return Snapshot(
            reader,
            reader.files,
            opened.commit,
            opened.manifest,
            opened.keyword,
            self._vector_search(card) if vectors and card.passages else None,
            Overlay({}, [], {}, None, 0, {}, {}, {}),
            card.sent,
            reader.fetch_for_view,
        )

    def _vector_search(self, card: Publication) -> VectorSearch:
        from memvault.index.local.vector_search import VectorSearch
        from memvault.index.milvus.vector_rows import MilvusVectors

        stored = MilvusVectors(self.reader.engine, self.reader.settings.index.vault, card.passages)
        return VectorSearch(stored, lambda: self._table, None, 0)

    @cached_property
    def _table(self) -> StaticEmbedder:
        from memvault.index.embedding.static import open_table

        return open_table()
