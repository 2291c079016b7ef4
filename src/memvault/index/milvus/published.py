"""The index of a vault that this machine publishes to an engine, with a local fallback."""

from __future__ import annotations

import contextlib
import hashlib
import platform
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from memvault import clock
from memvault.errors import StorageError
from memvault.index.embedding.embedder import read_card
from memvault.index.embedding.wordpiece import DATA
from memvault.index.folder import IndexFolder
from memvault.index.local.backend import Progress
from memvault.index.local.index_files import MADE
from memvault.index.local.local_index import LocalIndex
from memvault.index.local.snapshot import Snapshot
from memvault.index.milvus.client import (
    KINDS,
    EngineAddress,
    EngineClient,
    EngineRefused,
    EngineUnavailable,
)
from memvault.index.milvus.keyword_rows import MilvusKeywordStore
from memvault.index.milvus.milvus_backend import MilvusBackend
from memvault.index.milvus.publication import Publication, vector_generation
from memvault.index.milvus.text_rows import StoredTexts
from memvault.index.protocol import COMPLETE, IndexStatus, LinkEntry, View, WaitPolicy
from memvault.store.memory_store import MemoryStore

if TYPE_CHECKING:
    from memvault.vault.folder_watch import FolderWatch


def made_by() -> str:
    """Return the versions of the terms, passages and vectors that this program computes."""
    return f"{MADE} {read_card(DATA).version}"


def name_of(where: EngineAddress, vault: str) -> str:
    """Return the name of the folder of an index in an engine."""
    digest = hashlib.sha256(f"{where.uri}\n{where.collection}\n{vault}".encode()).hexdigest()
    return f"engine-{digest[:16]}"


class PublishedIndex:
    """A vault's index in an engine; the manifest on this machine records what was uploaded.

    Before each answer the folder is compared with the manifest, and the differences are uploaded.
    ``holder`` is the id of the one machine that may publish the vault. With ``fallback``, an index
    on this machine answers while the engine is unavailable; ``away`` is then why. ``local`` is the
    part on this machine.
    """

    published_at = ""

    def __init__(
        self,
        store: MemoryStore,
        place: IndexFolder,
        progress: Progress,
        engine: EngineClient,
        vault: str,
        holder: str,
        fallback: bool = False,
    ) -> None:
        self.engine = engine
        self.away = ""
        self._store = store
        self._progress = progress
        self._vault = vault
        self._texts = StoredTexts(engine, vault)
        self._holder = holder
        backend = MilvusBackend(engine, vault, progress)
        name = name_of(engine.where, vault)
        self.local = LocalIndex(store, place, progress, backend, name)
        self._fallback = LocalIndex(store, place, progress) if fallback else None

    def refresh(self, vectors: bool, patience: WaitPolicy) -> Snapshot:
        """Upload the differences and return a snapshot.

        Other errors are those that the index protocol documents.

        Raises:
            EngineUnavailable: the engine does not answer, and there is no fallback.
            EngineRefused: it denies access, or another machine publishes this vault.
        """
        self.away = ""
        try:
            return self.local.files.healing(lambda: self._upload(vectors, patience))
        except EngineUnavailable as error:
            if self._fallback is None:
                raise
            self.away = f"{error.message}; this machine's own index answered"
            return self._fallback.refresh(vectors, patience)

    def _upload(self, vectors: bool, patience: WaitPolicy) -> Snapshot:
        self.engine.begin_view()
        with self.engine.timed():
            card = self._checked()
        view = self.local.refresh(vectors, patience._replace(index_seconds=None))
        if self._upload_texts():
            self._publish(card)
        return view

    def with_vectors(self, view: View, patience: WaitPolicy) -> Snapshot:
        """Return the same snapshot with vectors; errors as for ``refresh``."""
        assert isinstance(view, Snapshot)
        if self.away and self._fallback is not None:
            return self._fallback.with_vectors(view, patience)
        return self.local.add_vectors(view) or self.refresh(True, patience)

    def at(self, view: View, moment: datetime) -> View:
        """Return a view as of an earlier time, as far as the vault's history records it."""
        return self.local.at(view, moment)

    def links(self, view: View) -> dict[int, LinkEntry]:
        """Return the names and links of each memory; errors as for the index protocol."""
        return self.local.links(view)

    def rerank_scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return a cross-encoder's score of each text for a query; no model is downloaded."""
        return self.local.rerank_scores(query, texts)

    def push(self) -> Publication | None:
        """Upload all differences, including vectors; return the vault's publication."""
        with self.engine.patiently():
            self.refresh(True, COMPLETE)
            if self.differs():
                self.local.rebuild()
                self.refresh(True, COMPLETE)
            return self.engine.card(self._vault)

    def status(self) -> IndexStatus:
        """Return the state of the index, and whether its engine is away."""
        return self.local.status()._replace(away=self.away)

    @property
    def folder(self) -> Path | None:
        """The folder of the index; None if it is in memory."""
        return self.local.folder

    def delete_unused_models(self) -> None:
        """Delete the vectors of models that are no longer used."""
        self.local.delete_unused_models()

    @property
    def watch(self) -> FolderWatch | None:
        """What notes the changes of the vault's folder, if something does."""
        return self.local.watch

    def watch_folder(self) -> None:
        """Watch the folder from the next refresh on."""
        self.local.watch_folder()

    def keep_up(self) -> None:
        """Index here what has changed if that is little; the next refresh sends it."""
        self.local.keep_up()

    def take_over(self) -> None:
        """Become the machine that publishes the vault, whichever did before.

        The previous publisher deleted what this machine had uploaded before, so everything is
        uploaded again.
        """
        card = self.engine.card(self._vault)
        if card is not None and card.publisher != self._holder:
            with self.local.files.writing():
                self.local.files.invalidate()
            holder, host, name = self._identity()
            self.engine.publish(self._vault, card._replace(publisher=holder, host=host, name=name))

    def rebuild(self) -> None:
        """Upload everything again; raises the same errors as ``refresh``."""
        with self.engine.patiently():
            self._checked()
            self.local.rebuild()

    def embed_all(self, download: bool = False) -> int:
        """Embed every memory; raises the same errors as ``refresh`` and the protocol's."""
        with self.engine.patiently():
            self._checked()
            return self.local.embed_all(download)

    def differs(self) -> str:
        """Return how the engine's rows differ from what was uploaded; empty if they match.

        A memory gets a new uid whenever its text changes, so comparing uids is sufficient. If the
        engine is unavailable, the result is empty, and a note reports that.
        """
        if self.away:
            return ""
        card = self.engine.card(self._vault)
        if card is None or card.publisher != self._holder:
            return f"{card.host if card else 'nobody'} sends this vault, not this machine"
        opened = self.local.files.open()
        if opened is None or not isinstance(opened.keyword, MilvusKeywordStore):
            return "this machine has sent nothing yet"
        generation, sent = opened.keyword.card.generation, opened.manifest.uids()
        rows = self.engine.every("words", self._vault, generation, ("uid",))
        words, texts = {row["uid"] for row in rows}, self._texts.uids(generation)
        missing = (sent - (words & texts)) | (self._lost_vectors() & sent)
        missing_count, extra_count = len(missing), len((words | texts) - sent)
        differences = (
            [f"it lacks {missing_count:,} of {len(sent):,} memories"] if missing_count else []
        )
        differences += [f"it holds {extra_count:,} that are gone here"] if extra_count else []
        return "; ".join(differences)

    def _lost_vectors(self) -> set[int]:
        """Return the memories whose vectors were uploaded but are missing from the engine."""
        opened = self.local.files.opened
        stored = self.local.static.stored(opened.manifest) if opened is not None else None
        if opened is None or stored is None:
            return set()
        generation = vector_generation(opened.manifest.identity())
        rows = self.engine.every("passages", self._vault, generation, ("uid",))
        return set(stored[0].tolist()) - {row["uid"] for row in rows}

    def notes(self) -> list[str]:
        """Return notes for the user, including that the engine is unavailable."""
        return [*self.local.notes(), *filter(None, [self.away])]

    def close(self) -> None:
        """Close open files and the connection."""
        self.local.close()
        if self._fallback is not None:
            self._fallback.close()
        self.engine.close()

    def _checked(self) -> Publication:
        """Return the vault's publication; if the engine has none, everything is uploaded again.

        The publication is stored before anything is uploaded, so that an interrupted upload
        continues where it stopped.
        """
        card = self.engine.card(self._vault)
        if card is None:
            with self.local.files.writing():
                self.local.files.invalidate()
            card = Publication(*self._identity(), made=made_by(), sent=clock.iso())
            self.engine.publish(self._vault, card)
        self._require_publisher(card)
        return card

    def _require_publisher(self, card: Publication | None) -> None:
        if card is not None and card.publisher != self._holder:
            raise EngineRefused(
                f"The vault {self._vault} is sent by {card.host}, last on "
                f"{clock.local(card.sent)}, and by one machine alone",
                "take the line vault out of [index] in memvault.toml, and run "
                "`memvault index push`: it gets an id of its own; where this is that vault, moved, "
                "`memvault index push --take-over` keeps its id",
            )

    def _identity(self) -> tuple[str, str, str]:
        """Return the fields of a publication that identify this machine."""
        return self._holder, platform.node(), self._store.root.name

    def _upload_texts(self) -> bool:
        """Upload the texts that the engine lacks, unless another process is doing so.

        Return whether all texts are uploaded; until then no new publication is stored.
        """
        opened = self.local.files.opened
        if opened is None or not isinstance(opened.keyword, MilvusKeywordStore):
            return False
        generation, folder = opened.keyword.card.generation, self.local.files.folder
        if not self._texts.lacks(opened.manifest, generation, folder):
            return True
        with contextlib.suppress(StorageError), self.local.files.locked(0.0) as locked:
            if locked:
                self._texts.send(opened.manifest, self._store, generation, folder, self._progress)
        return not self._texts.lacks(opened.manifest, generation, folder)

    def _publish(self, card: Publication) -> None:
        """Store the current publication, and delete the rows of other generations."""
        opened = self.local.files.opened
        if opened is None:
            return
        words = opened.keyword
        has_vectors = self.local.static.opened(opened.manifest) is not None
        assert isinstance(words, MilvusKeywordStore)
        publication = Publication(
            *self._identity(),
            words=words.card.generation,
            passages=vector_generation(opened.manifest.identity()) if has_vectors else "",
            documents=words.card.documents,
            memories=opened.manifest.count(),
            removed=words.card.removed,
            gone=words.card.gone,
            state=f"{opened.commit.number} {self._texts.counted(self.local.files.folder)}",
            made=made_by(),
            sent=card.sent,
        )
        if card == publication and self.local.freshness == "current":
            return
        self._require_publisher(self.engine.card(self._vault))  # the upload may have taken long
        self.engine.publish(self._vault, publication._replace(sent=clock.iso()))
        for kind in KINDS:
            current, previous = (
                (publication.passages, card.passages)
                if kind == "passages"
                else (publication.words, card.words)
            )
            if current and current != previous:
                self.engine.delete_other_generations(kind, self._vault, current)
