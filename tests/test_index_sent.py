"""A vault published by another machine looks the same here and satisfies the index contract."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from conftest import only_with, sampled_tests, write
from index_contract import IndexContract, note
from memvault import clock
from memvault.errors import Refused
from memvault.index.folder import prepare_folder
from memvault.index.local.snapshot import Snapshot
from memvault.index.milvus.client import EngineClient
from memvault.index.milvus.engine_errors import EngineAddress
from memvault.index.milvus.published import Publisher, PublishingBackend
from memvault.index.milvus.remote import RemoteIndex, RemoteReader
from memvault.index.protocol import SearchIndex, StaleView, WaitPolicy
from memvault.settings.vault_settings import load_settings
from memvault.store.memory_store import MemoryStore

pytestmark = [only_with("pymilvus", "milvus_lite", extra="milvus"), sampled_tests(2)]


class Follower(RemoteIndex):
    """The index of a remote vault, whose owner publishes before each refresh."""

    owner: Publisher

    def refresh(self, vectors: bool, patience: WaitPolicy) -> Snapshot:
        """Publish, then read the published index."""
        self.owner.push()
        return super().refresh(vectors, patience)


class TestSentIndex(IndexContract):
    """The contract for a published index."""

    def test_view_rejects_text_changed_after_refresh(self, notes: Path) -> None:
        """A view returns the content from its refresh; once that is gone, the view is stale."""
        with self.opened(notes) as index:
            view = self.seen(index, vectors=False)
            uids = self.uids(view)
            write(notes, "fact/tea.md", note("tea", "Tea", "Something else altogether."))
            found = view.text(uids["ports"])
            assert found is not None
            assert "8080" in found.body
            self.seen(index, vectors=False)
            with pytest.raises(StaleView):
                view.text(uids["tea"])

    def test_search_as_of_past_never_shows_later_memories(self, notes: Path) -> None:
        """A search as of an earlier time is refused on a machine without the files."""
        with self.opened(notes) as index, pytest.raises(Refused):
            index.at(self.seen(index), clock.now())

    @pytest.mark.promise("S19")
    def test_remote_index_returns_current_text_after_rebuild(self, notes: Path) -> None:
        """After the owner rebuilds the index, each name still returns its own text."""
        with self.opened(notes) as index:
            assert isinstance(index, Follower)
            for record in self.seen(index, vectors=False).records():
                assert index.reader.read_bytes(record.path)[0]
            write(notes, "a.md", note("first", "First", "This was made first, and sorts so."))
            (notes / "fact/tea.md").unlink()
            index.owner.index.rebuild()
            view = self.seen(index, vectors=False)
            for record in view.records():
                memory = view.text(record.uid)
                assert memory is not None
                assert memory.title == record.title

    @contextmanager
    def opened(self, root: Path) -> Iterator[SearchIndex[Any]]:
        """Open a vault as another machine sees it."""
        settings = load_settings(root)
        settings = settings.replace(index=settings.index.replace(vault="v1"))
        where = EngineAddress(str(root.parent / "engine.db"), "test", "", 30.0)
        store = MemoryStore(root, settings)
        backend = PublishingBackend(store, EngineClient(where), "v1", "here", lambda *_: None)
        owner = Publisher(store, prepare_folder(root), lambda *_: None, backend)
        other = root.parent / "elsewhere"
        other.mkdir(exist_ok=True)
        place = prepare_folder(other)
        reader = RemoteReader(other, settings, place, lambda *_: None, backend.engine)
        index = Follower(reader, place)
        index.owner = owner
        try:
            yield index
        finally:
            owner.close()
            index.close()
