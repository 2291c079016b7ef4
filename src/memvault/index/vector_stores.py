"""The vectors of a vault: which embedder's are used, what waits to be embedded, doing it."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from memvault.errors import EmbedderError, MemvaultError
from memvault.index import vectors
from memvault.index.embedding import calibrate, permitted
from memvault.index.embedding.embedder import BUILTIN, Embedder
from memvault.index.embedding.loading import is_slow, known_version, open_embedder
from memvault.index.manifest import Manifest
from memvault.index.vectors import VectorCard, Vectors
from memvault.vault.store import Store

Progress = Callable[[str, int, int], None]
"""Told what is being done, how much of it is, and how much there is."""

_BATCH = 256
_SLOW_BATCH = 16
_MOST_PASSAGES = 4_000
"""Passages embedded at once after which no further memory is added."""
_MOST_IN_MEMORY = 500
_WASTE = 0.5
_WORTH_COMPACTING = 1_000


class VectorStores:
    """Vectors below ``folder``, one folder an embedder."""

    def __init__(self, store: Store, folder: Path, progress: Progress) -> None:
        self._store = store
        self._folder = folder
        self._progress = progress
        self._embedders: dict[str, Embedder] = {}
        self._choice: tuple[object, permitted.Choice] | None = None

    @property
    def wanted(self) -> str:
        """The embedder in the settings, or the built-in one where that may not be loaded here."""
        return self.choice.name

    @property
    def choice(self) -> permitted.Choice:
        """The embedder to use, and why it is not the one in the settings, where it is not."""
        state = permitted.state(self._store.settings, self._store.root)
        if self._choice is None or state != self._choice[0]:
            found = permitted.embedder(self._store.settings, self._store.root)
            self._choice = state, found
        return self._choice[1]

    def embedder(self, name: str, download: bool = False) -> Embedder:
        """Return an embedder, loaded once; errors as for ``open_embedder``."""
        if name not in self._embedders:
            root = self.choice.root if name == self.wanted else self._store.root
            if root is not None and not permitted.is_allowed(name, root):
                raise EmbedderError(f"The model {name} is not allowed here", "memvault model use")
            self._embedders[name] = open_embedder(name, root, download)
        return self._embedders[name]

    def opened(self, name: str, manifest: Manifest) -> Vectors | None:
        """Open an embedder's vectors if they are whole.

        Vectors of another version than the embedder's, as far as that is known
        here, are none: what made them is not what would be asked.
        """
        found = Vectors.open(self._of(name), manifest.identity())
        loaded = self._embedders.get(name)
        version = loaded.version if loaded is not None else known_version(name)
        stale = found is not None and version is not None and found.card.version != version
        return None if stale else found

    def pending(self, manifest: Manifest) -> list[tuple[int, str]]:
        """Return (uid, path) of the memories that the wanted embedder has not seen, rising."""
        found = self.opened(self.wanted, manifest)
        return manifest.uids_above(found.card.last_uid if found else 0)

    def is_finished(self, manifest: Manifest) -> bool:
        """Say whether the wanted embedder has seen all, and its vectors can be searched at once.

        What they mean is found with the first of them; only an earlier version's
        may lack it. Files that something else has touched are read whole each
        time, until their card says how they are now.
        """
        found = self.opened(self.wanted, manifest)
        if found is None:
            return not manifest.uids_above(0)
        known = self.wanted == BUILTIN or found.card.calibration is not None
        return known and found.is_settled and not manifest.uids_above(found.card.last_uid)

    def best(self, waiting: int, manifest: Manifest) -> Vectors | None:
        """Return the vectors to search: the wanted embedder's, unless another's cover more."""
        names = [self.wanted, *(self._others(manifest) if waiting else [])]
        root = self._store.root
        opened = [
            self.opened(name, manifest)
            for name in names
            if name == self.wanted or permitted.is_allowed(name, root)
        ]
        usable = [entry for entry in opened if entry is not None and entry.card.rows]
        return max(usable, key=lambda entry: entry.card.last_uid, default=None)

    def passages(self, pending: Sequence[tuple[int, str]]) -> dict[int, list[str]]:
        """Return passages to embed in memory, of as many memories as that does not take long for.

        Those that were indexed last come first.
        """
        if is_slow(self.wanted):
            return {}
        return {uid: self._passages(path) for uid, path in pending[-_MOST_IN_MEMORY:]}

    def unwritten(self) -> Vectors | None:
        """Return vectors with no rows, to embed in memory with; None where that takes too long."""
        if is_slow(self.wanted):
            return None
        embedder = self.embedder(self.wanted)
        card = VectorCard(self.wanted, embedder.version, embedder.dimension, manifest=0)
        return Vectors(self._folder, card)

    def embed(
        self,
        manifest: Manifest,
        budget: float | None,
        texts: Mapping[int, list[str]] = MappingProxyType({}),
    ) -> None:
        """Embed what is pending, lowest uid first; a slow embedder stops after ``budget`` seconds.

        With a model's first vectors goes what its cosines mean; that takes some seconds, once.
        ``texts`` are passages already at hand. A model that is not on this
        machine is no error here: searching goes on without it.
        """
        slow = is_slow(self.wanted)
        if slow and budget == 0.0:
            return
        found = self.opened(self.wanted, manifest)
        if found is not None and not found.is_settled:
            found.write_card()
        if self.is_finished(manifest):
            return
        deadline = time.monotonic() + budget if slow and budget is not None else None
        try:
            embedder = self.embedder(self.wanted)
            found = self._begun(found, embedder, manifest)
        except EmbedderError:
            if self.wanted == BUILTIN:
                raise
            return
        pending = self.pending(manifest)
        size = _SLOW_BATCH if slow else _BATCH
        done = 0
        while done < len(pending):
            passages = self._next(pending[done : done + size], texts)
            batch = pending[done : done + len(passages)]
            rows = embedder.embed([text for entry in passages for text in entry])
            found.append([uid for uid, _ in batch], [len(entry) for entry in passages], rows)
            done += len(batch)
            if len(pending) > size:
                self._progress("embedding", done, len(pending))
            if deadline is not None and time.monotonic() > deadline:
                break
        alive = manifest.uids()
        if found.card.rows > _WORTH_COMPACTING and found.dead(alive) > _WASTE:
            found.compact(alive)

    def drop_others(self, manifest: Manifest) -> None:
        """Delete the vectors of embedders that are no longer wanted."""
        for name in self._others(manifest):
            shutil.rmtree(self._of(name), ignore_errors=True)

    def _begun(self, found: Vectors | None, embedder: Embedder, manifest: Manifest) -> Vectors:
        """Return vectors to go on with, new ones where there are none, and known what they mean."""
        known = embedder.calibration or (found.card.calibration if found else None)
        calibration = None if known else calibrate.fitted(embedder)
        if found is None:
            name, identity = self.wanted, manifest.identity()
            card = VectorCard(name, embedder.version, embedder.dimension, identity)
            found = Vectors.create(self._of(name), card)
        if calibration is not None:
            found.keep(calibration)
        return found

    def _others(self, manifest: Manifest) -> list[str]:
        names = []
        with contextlib.suppress(OSError):
            for entry in os.scandir(self._folder / "vectors"):
                found = Vectors.open(Path(entry.path), manifest.identity())
                if found is not None and found.card.embedder != self.wanted:
                    names.append(found.card.embedder)
        return names

    def _of(self, name: str) -> Path:
        return self._folder / "vectors" / vectors.folder_name(name)

    def _next(
        self, pending: Sequence[tuple[int, str]], texts: Mapping[int, list[str]]
    ) -> list[list[str]]:
        """Return the passages of the first of some memories, as many as are embedded at once."""
        found: list[list[str]] = []
        count = 0
        for uid, path in pending:
            found.append(texts.get(uid) or self._passages(path))
            count += len(found[-1])
            if count > _MOST_PASSAGES:
                break
        return found

    def _passages(self, path: str) -> list[str]:
        from memvault.index.documents import passage_texts

        try:
            return passage_texts(self._store.read(path))
        except MemvaultError:
            return [path]
