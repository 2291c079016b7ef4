"""The index of a vault that another machine has published; its files are not on this machine.

The manifest on this machine follows the published index. Terms and vectors are searched in the
engine, and texts are fetched when they are needed. Answers are as of the last upload.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING

from memvault import clock
from memvault.errors import NotFound, Refused, StorageError
from memvault.files import atomic
from memvault.files.plain_files import SETTING, read
from memvault.index.embedding.embedder import BUILTIN, read_card
from memvault.index.embedding.tokenizer import DATA
from memvault.index.folder import IndexFolder
from memvault.index.local.backend import Progress
from memvault.index.local.local_index import LocalIndex
from memvault.index.local.manifest import Manifest
from memvault.index.local.snapshot import Overlay, Snapshot, blocks_to_read, stale_if_corrupted
from memvault.index.milvus.client import EngineClient, EngineRefused, display_address
from memvault.index.milvus.keyword_rows import GenerationState, MilvusKeywordStore
from memvault.index.milvus.milvus_backend import MilvusBackend
from memvault.index.milvus.publication import Publication
from memvault.index.milvus.published import made_by, name_of
from memvault.index.milvus.text_rows import StoredText, StoredTexts
from memvault.index.protocol import (
    IndexCorrupted,
    KeywordAnswer,
    KeywordQuery,
    MatchLocation,
    SentenceFeatures,
    SentenceQuery,
    StaleView,
    View,
    WaitPolicy,
)
from memvault.index.text.analysis import analyser
from memvault.index.text.indexed_text import EncodedBlock, encode_blocks, split_memory
from memvault.model import FileState, Memory
from memvault.store.change_set import FILE_MISSING_HINT, ChangeSet
from memvault.store.memory_store import MemoryStore
from memvault.vault.document import etag
from memvault.vault.reader import Scan

if TYPE_CHECKING:
    from pathlib import Path

    from memvault.index.local.transformer_vectors import TransformerVectors
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


class RemoteStore(MemoryStore):
    """The files of a remote vault as they were published; read-only."""

    def __init__(
        self,
        root: Path,
        settings: Settings,
        index: Callable[[], RemoteIndex],
        change_set: ChangeSet | None = None,
    ) -> None:
        super().__init__(root, settings, change_set)
        self._index = index

    def with_change_set(self, change_set: ChangeSet) -> RemoteStore:
        """Return a store of the same memories with another change set."""
        return RemoteStore(self.root, self.settings, self._index, change_set)

    def complete_interrupted_move(self, seconds: float = 1.0) -> None:
        """Do nothing: no files are moved here."""

    def read_listed(self, path: str) -> None:
        """Return None: the index also finds memories by path."""

    def scan(self) -> Scan:
        """Raise ``Refused``: only the machine that published the vault can list its files."""
        raise Refused("The vault's files are on another machine", "run this there")

    def state(self) -> str:
        """Return a value that changes with every upload; raises the same errors as ``refresh``."""
        return self._index().state()

    def read_bytes(self, path: str) -> tuple[bytes, FileState]:
        """Return a file's bytes as published; raises the same errors as a store."""
        return self._index().bytes_of(path)

    def fetch(self, keys: Iterable[int]) -> None:
        """Fetch the texts of a view's memories."""
        self._index().fetch_for_view(keys)


class SentView(Snapshot):
    """A snapshot of a remote vault; texts are fetched when they are compared or shown."""

    __slots__ = ()

    @property
    def _files(self) -> RemoteStore:
        assert isinstance(self.store, RemoteStore)
        return self.store

    @stale_if_corrupted
    def keyword(self, query: KeywordQuery) -> KeywordAnswer:
        """Return the memories that match terms best, without those uploaded since the refresh."""
        found = super().keyword(query)
        known = self.manifest.uids() if self.manifest is not None else set()
        hits = [hit for hit in found.hits if hit.key < 0 or hit.key in known]
        return found._replace(hits=hits)

    @stale_if_corrupted
    def sentence_features(
        self, asked: SentenceQuery, places: Mapping[int, MatchLocation]
    ) -> dict[int, SentenceFeatures]:
        """Compute the features of memories for a query, after fetching their texts together."""
        self._files.fetch(places)
        return super().sentence_features(asked, places)

    @stale_if_corrupted
    def text(self, key: int) -> Memory | None:
        """Read a memory; raises the same errors as a view."""
        self._files.fetch([key])
        return super().text(key)

    def _blocks(self, key: int, places: MatchLocation) -> Sequence[EncodedBlock]:
        """Return a memory's first blocks and those around its best matches, split from its text."""
        if key < 0:
            return super()._blocks(key, places)
        if key not in self.overlay.blocks:
            try:
                record, memory = self.record(key), self.text(key)
            except StaleView as error:
                if error.reason is not None:
                    raise
                return ()  # its text was replaced meanwhile; the next refresh leaves it out
            cuts = split_memory(memory) if memory is not None else []
            self.overlay.cuts[key] = cuts
            language = record.language if record is not None else ""
            self.overlay.blocks[key] = encode_blocks(cuts, analyser(language)) if cuts else []
        all_blocks = self.overlay.blocks[key]
        firsts = [block.first for block in all_blocks]
        numbers = blocks_to_read(places, lambda passage: max(bisect_right(firsts, passage) - 1, 0))
        return [all_blocks[number] for number in numbers if 0 <= number < len(all_blocks)]


class RemoteIndex(LocalIndex):
    """The index of a vault that another machine publishes."""

    def __init__(
        self,
        store: MemoryStore,
        place: IndexFolder,
        progress: Progress,
        engine: EngineClient,
        vault: str,
    ) -> None:
        self.engine = engine
        self.published_at = ""
        self._vault = vault
        self._copies = StoredTexts(engine, vault)
        self._cache: dict[int, StoredText] = {}
        self._invalid_keys: set[int] = set()
        backend = MilvusBackend(engine, vault, progress)
        super().__init__(store, place, progress, backend, name_of(engine.where, vault))

    @cached_property
    def deep(self) -> TransformerVectors:
        """No transformer vectors: these need the texts."""
        from memvault.index.local.transformer_vectors import TransformerVectors

        return TransformerVectors(self._store, None)

    def _refresh(self, vectors: bool, patience: WaitPolicy) -> Snapshot:  # noqa: ARG002 - there are no files
        """Update the manifest to the published index and return a snapshot of it.

        Raises:
            EngineUnavailable: the engine does not answer.
            EngineRefused: it denies access, or holds nothing that can be read here.
        """
        self.engine.begin_view()
        with self.engine.timed():
            card = self._card()
        state = _state_of(card)
        if self._files.open() is None or self._followed_state() != state or self._invalid_keys:
            with self._write_lock():
                self._follow(card)
                atomic.write(self._files.folder / _STATE_FILE, state.encode(), durable=False)
            self._cache.clear()
        self.published_at = card.sent
        return self._create_view(card, vectors)

    def with_vectors(self, view: View, patience: WaitPolicy) -> Snapshot:  # noqa: ARG002 - it has none to add to
        """Return a snapshot with vectors; errors as for ``refresh``."""
        return self.refresh(True, patience)

    def state(self) -> str:
        """Return the state of the published index; raises the same errors as ``refresh``."""
        return _state_of(self._card())

    def at(self, view: View, moment: datetime) -> View:  # noqa: ARG002 - part of the interface
        """Raise ``Refused``: earlier versions are kept only with the files."""
        raise Refused(
            "Only the machine that holds a vault knows what was so before",
            "leave out asOf, or ask there",
        )

    def bytes_of(self, path: str) -> tuple[bytes, FileState]:
        """Return a file's bytes as published.

        Raises:
            NotFound: no published memory has this path.
            Refused: the publishing machine could not read the file.
            StaleView: the index on this machine is corrupted.
        """
        opened = self._files.open()
        try:
            named = opened.manifest.find_by_name(path) if opened is not None else []
        except IndexCorrupted as error:
            raise StaleView(self._files.discard(error)) from error
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
        opened = self._files.opened
        if missing and opened is not None and isinstance(opened.keyword, MilvusKeywordStore):
            found = self._copies.of(opened.keyword.card.generation, missing)
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

    def notes(self) -> list[str]:
        """Return notes for the user, including that a clock is wrong."""
        return [*super().notes(), *filter(None, [clock_skew_note(self.published_at)])]

    def close(self) -> None:
        """Close open files and the connection."""
        super().close()
        self.engine.close()

    def _card(self) -> Publication:
        card = self.engine.card(self._vault)
        where = display_address(self.engine.where)
        if card is None:
            raise EngineRefused(
                f"The engine at {where} holds the vault {self._vault} no more",
                "memvault vaults remove takes its name away",
            )
        if card.made != made_by():
            raise EngineRefused(
                f"{card.host} sent the vault with another version of memvault",
                "use the same version here and there, and run memvault index push there",
            )
        if not card.is_valid:
            raise EngineRefused(
                f"What the engine at {where} says of the vault makes no sense",
                "memvault index push, on the machine that has it, says it anew",
            )
        return card

    @contextmanager
    def _write_lock(self) -> Iterator[None]:
        """Hold the index's lock; raises the same errors as ``refresh``."""
        try:
            with self._writing():
                yield
        except StorageError as error:
            raise StorageError(
                error.message, "what another machine sent is followed here: give it room"
            ) from error

    def _followed_state(self) -> str:
        try:
            return read(self._files.folder / _STATE_FILE, SETTING).decode()
        except (OSError, UnicodeDecodeError):
            return ""

    def _follow(self, card: Publication) -> None:
        """Update the manifest to the published index; requires the index's lock.

        Memories whose texts do not match their records are left out until something else changes.
        """
        generation = card.words
        opened = self._files.open(writing=True)
        words = opened.keyword if opened is not None else None
        if (
            opened is None
            or not isinstance(words, MilvusKeywordStore)
            or (words.card.generation != generation)
        ):
            opened = self._files.create_empty()
            words = opened.keyword
        assert isinstance(words, MilvusKeywordStore)
        manifest = opened.manifest
        recent = self._removed_since(card, words.card)
        if recent is not None:
            manifest.apply(recent & manifest.uids(), ())
            self._add(manifest, generation, self._copies.uids(generation, manifest.next_uid() - 1))
        if recent is None or manifest.count() != card.memories:
            known, held = manifest.uids(), self._copies.uids(generation)
            manifest.apply(known - held, ())
            self._add(manifest, generation, held - known)
        frequency = self._copies.frequency(generation)
        if frequency is not None:
            manifest.blocks.count_tokens(*frequency)
        manifest.apply(self._invalid_keys & manifest.uids(), ())
        self._invalid_keys.clear()
        words.follow(GenerationState(generation, card.documents, card.removed))
        self._files.commit(words)

    def _removed_since(self, card: Publication, own: GenerationState) -> set[int] | None:
        """Return the memories removed since this manifest was updated; None if that is unknown."""
        removed_count, listed = card.removed - own.removed, len(card.gone)
        is_known = own.documents and 0 <= removed_count <= listed
        return set(card.gone[listed - removed_count :]) if is_known else None

    def _add(self, manifest: Manifest, generation: str, uids: Set[int]) -> None:
        added = sorted(uids)
        for first in range(0, len(added), _FETCH_BATCH):
            batch = added[first : first + _FETCH_BATCH]
            manifest.apply((), self._copies.kept(generation, batch))
            if len(added) > _FETCH_BATCH:
                self._progress("fetching", first + len(batch), len(added))

    def _create_view(self, card: Publication, vectors: bool) -> Snapshot:
        opened = self._files.opened
        assert opened is not None
        return SentView(
            self._store,
            self._files,
            opened.commit,
            opened.manifest,
            opened.keyword,
            self._vector_search_in(card) if vectors and card.passages else None,
            Overlay({}, [], {}, None, 0, {}, {}),
            card.sent,
        )

    def _vector_search_in(self, card: Publication) -> VectorSearch:
        from memvault.index.local.vector_search import VectorSearch
        from memvault.index.local.vectors import VectorCard, VectorFile
        from memvault.index.milvus.vector_rows import MilvusVectorStore

        about = VectorCard(BUILTIN, read_card(DATA).version, 0, int(card.passages, 16))
        file = VectorFile(self._files.folder, about, ())  # uids and hashes are in the engine too
        stored = MilvusVectorStore(file, self.engine, self._vault)
        return VectorSearch(stored, self._static, self.deep, 0)
