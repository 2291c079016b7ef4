"""The transformer vectors of a vault: selecting the model, scoring a query, and adding vectors.

They are computed after the static vectors: by a background process (``background_embedding``),
within a call if the settings say ``now``, or immediately by ``memvault reindex``. They are used in
a search only if half of the memories have them, and nearly all that compete for an answer
(``recall.retrieve``).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, Self, cast

import numpy as np

from memvault.errors import EmbedderError, MemvaultError, StorageError, UsageError
from memvault.files.lock import FileLock
from memvault.files.user_folders import ownership_problem
from memvault.index.embedding import calibrate, model_settings
from memvault.index.embedding.arrays import (
    Codes,
    Flags,
    Hashes,
    Integers,
    Matrix,
    Places,
    distinct,
)
from memvault.index.embedding.embedder import MULTILINGUAL, Calibration, read_card
from memvault.index.embedding.transformer import DATA, card_of, load_embedder
from memvault.index.embedding.wordpiece import DATA as STATIC
from memvault.index.folder import DEEP, is_unused, mark_used
from memvault.index.local import background_embedding
from memvault.index.local.soft_match import max_per_memory
from memvault.index.vectors.nearest import ScoredPassages
from memvault.index.vectors.vector_file import FORMAT, VectorCard, VectorFile, hashes_of
from memvault.store.memory_store import MemoryStore
from memvault.vault import naming

if TYPE_CHECKING:
    from concurrent.futures import Future

    from memvault.index.embedding.token_vectors import TextVectors, TokenEmbedder

LOCK = "lock"
"""The lock in the parent of the models' folders, held while vectors are added or dropped."""
_MIN_USED_SHARE = 0.5
_MIN_ROWS_TO_COMPACT = 1_000
_MIN_KEPT = 1_000
"""The number of passages from which their places are kept for the next search."""
_COLUMNS = (("hashes", "u64"), ("ends", "u64"))
"""The hash of each text, and the number of tokens stored up to and including its own."""


class TransformerVectorFile:
    """The vectors of one model and the codes of tokens, by the hashes of their texts."""

    def __init__(self, file: VectorFile) -> None:
        self._file = file
        self._order: tuple[Places, Hashes] | None = None
        self._found: tuple[Hashes, Integers] | None = None
        """The hashes and places of the last search, which usually are those of the next one."""

    @classmethod
    def open(cls, folder: Path) -> Self | None:
        """Open the vectors in a folder; None if there are none that can be used."""
        file = VectorFile.open(folder, _COLUMNS)
        return cls(file) if file is not None else None

    @classmethod
    def create(cls, folder: Path, card: VectorCard) -> Self:
        """Create an empty file, or open the one that another process has created in the meantime.

        Raises:
            OSError: the folder cannot be written.
            StorageError: the folder of the transformer vectors was deleted; it is not recreated.
            TimedOut: another process holds the lock for too long.
        """
        with _locked(folder):
            return cls(_open_or_create(folder, card))

    @property
    def folder(self) -> Path:
        """The folder of the model."""
        return self._file.folder

    @property
    def card(self) -> VectorCard:
        """The model that computed the vectors, and their number."""
        return self._file.card

    def places(self, hashes: Hashes) -> Integers:
        """Return the row of each hash, or -1 where there is none."""
        _, (known, _) = self._file.load()
        if not len(known):
            return np.full(len(hashes), -1, np.int64)
        if self._order is None or len(self._order[1]) != len(known):
            order = np.argsort(known)
            self._order, self._found = (order, known[order]), None
        if self._found is not None and np.array_equal(self._found[0], hashes):
            return self._found[1]
        order, sorted_hashes = self._order
        nearest = np.minimum(np.searchsorted(sorted_hashes, hashes), len(sorted_hashes) - 1)
        found: Integers = np.where(sorted_hashes[nearest] == hashes, order[nearest], -1)
        if len(hashes) > _MIN_KEPT:
            self._found = hashes, found
        return found

    def rows(self, places: Integers) -> Matrix:
        """Return the vectors in the given rows."""
        return self._file.load()[0].decode(places)

    def score(self, query: Matrix, places: Integers) -> Matrix:
        """Return the cosine of each row to a query; nan for -1."""
        rows, _ = self._file.load()
        cosines: Matrix = np.append(rows.cosines(query), np.float32(np.nan))[places]
        return cosines

    def token_codes(self, hashes: Hashes) -> list[Codes]:
        """Return the codes of each text's tokens; a text without any has none."""
        codes = self._file.load_tokens()
        places = self.places(hashes)
        _, (_, ends) = self._file.load()
        bounds = np.append(0, ends).astype(np.int64)
        return [
            codes[bounds[place] : bounds[place + 1]] if place >= 0 else codes[:0]
            for place in places
        ]

    def add(self, hashes: Hashes, rows: Matrix, codes: Sequence[Codes] = ()) -> None:
        """Add the vectors of texts, except those that another process has added in the meantime.

        ``codes`` are those of each text's tokens, or nothing. Raises the same errors as ``create``.
        """
        with self._updating():
            _, first = np.unique(hashes, return_index=True)
            new = first[self.places(hashes[first]) < 0]
            if len(new):
                added = [codes[place] for place in new] if codes else []
                self._file.append(
                    rows[new],
                    hashes[new],
                    self._file.card.tokens + _ends(added, len(new)),
                    tokens=np.concatenate(added) if added else None,
                )

    def store_calibration(self, calibration: Calibration, seconds: float = 30.0) -> None:
        """Write the calibration of the cosines to the card.

        Raises the same errors as ``create``, after waiting ``seconds`` for the lock.
        """
        with self._updating(seconds):
            self._file.store_calibration(calibration)

    def compact(self, used: Hashes, max_tokens: int) -> None:
        """Drop the vectors that no memory uses if they are more than half, and surplus tokens.

        ``used`` are the hashes of all texts; those first in order keep their tokens as long as
        ``max_tokens`` are not exceeded. Raises the same errors as ``create``.
        """
        with self._updating():
            rows, (hashes, ends) = self._file.load()
            is_used = np.isin(hashes, used)
            wasted = self.card.rows > _MIN_ROWS_TO_COMPACT and is_used.mean() < _MIN_USED_SHARE
            if not wasted and self.card.tokens <= max_tokens:
                return
            kept = np.flatnonzero(is_used)
            stored = np.diff(ends.astype(np.int64), prepend=0)
            order = self.places(used)
            order = order[order >= 0]
            _, first = np.unique(order, return_index=True)
            order = order[np.sort(first)]
            fits = np.zeros(len(hashes), np.bool_)
            fits[order[np.cumsum(stored[order]) <= max_tokens]] = True
            new_ends = np.cumsum(np.where(fits, stored, 0)[kept]).astype(np.uint64)
            codes = self._file.load_tokens()[np.repeat(fits, stored)]
            self._file.replace(rows.select(kept), hashes[kept], new_ends, tokens=codes)
            self._order = None

    @contextmanager
    def _updating(self, seconds: float = 30.0) -> Iterator[None]:
        """Hold the lock, and load what other processes have added.

        A file that is missing or corrupted is replaced by an empty one.
        """
        with _locked(self._file.folder, seconds):
            known = self.card
            card = known._replace(rows=0, tokens=0, checksums=(), states=(), generation=0)
            self._file, self._order = _open_or_create(self._file.folder, card), None
            if known.calibration is not None and self.card.calibration is None:
                self._file.store_calibration(known.calibration)
            yield


def _ends(codes: Sequence[Codes], count: int) -> Hashes:
    """Return the number of tokens up to and including each of ``count`` texts."""
    lengths = [len(own) for own in codes] or [0] * count
    return np.cumsum(np.array(lengths, np.uint64))


def _open_or_create(folder: Path, card: VectorCard) -> VectorFile:
    found = VectorFile.open(folder, _COLUMNS)
    if found is not None and found.card.version == card.version:
        return found
    return VectorFile.create(folder, card, _COLUMNS)


@contextmanager
def _locked(folder: Path, seconds: float = 30.0) -> Iterator[None]:
    """Hold the lock of a model's folder; a deleted index is not recreated by a running process."""
    try:
        with FileLock(folder.parent / LOCK, seconds, makes_folder=False):
            yield
    except FileNotFoundError as error:
        raise StorageError("The index was deleted in the meantime", "try again") from error


Mode = Literal["auto", "off", "now"]
_MODES = ("auto", "off", "now")
_VARIABLE = model_settings.TRANSFORMER_VARIABLE
_MIN_COVERAGE = 0.5
"""The share of memories that must have transformer vectors for them to be used.

Below it, the mean cosine of all memories is hardly known.
"""
_MAX_EXCESS = 1.1
"""How far the tokens may exceed the allowed number until ``compact`` drops some."""
_BATCH = 32
"""Passages embedded at once: with more, processors wait for each other less often, but the process
may stop only between batches."""


class TransformerScores(NamedTuple):
    """The scores of passages by the transformer model.

    ``cosines`` are those of the passages, on the scale of the built-in model, nan for passages
    without a vector; None if the transformer vectors are not used. ``waiting`` is the number of
    memories that lack a vector. ``share`` is how much better the model separates than the static
    embedding table: 1 if as much as the built-in model. ``is_multilingual`` is whether the model is
    the package's multilingual one.
    """

    waiting: int = 0
    name: str = ""
    cosines: Matrix | None = None
    calibration: Calibration | None = None
    share: float = 0.0
    is_multilingual: bool = False


class TransformerVectors:
    """The transformer vectors in the folder of a vault's index; an in-memory index has none."""

    def __init__(
        self,
        store: MemoryStore,
        folder: Path | None,
        languages: Callable[[], Mapping[str, int]] = dict,
    ) -> None:
        """Use the vectors below an index's folder.

        ``languages`` returns the numbers of memories by language, which decide between the models
        of the package if neither the vault nor its user names one.
        """
        self._store = store
        self._languages = languages
        self.folder = folder / DEEP if folder is not None else None
        self._choice: tuple[object, model_settings.ModelChoice] | None = None
        self._embedder: TokenEmbedder | None = None
        self._opened: TransformerVectorFile | None = None
        self._failure = ""

    @property
    def mode(self) -> Mode:
        """When vectors are computed; another user's vault cannot set ``now``, which delays answers.

        Such a vault's ``now`` is read as ``auto``, unless the environment sets it.
        """
        chosen = os.environ.get(_VARIABLE) or self._store.settings.embedder.deep
        if chosen not in _MODES:
            raise UsageError(f"{_VARIABLE} must be one of {', '.join(_MODES)}", "unset it")
        if self.folder is None:
            return "off"
        if chosen == "now" and _VARIABLE not in os.environ and not self._is_own():
            return "auto"
        return cast("Mode", chosen)

    def _is_own(self) -> bool:
        try:
            return not ownership_problem(self._store.root)
        except OSError:
            return False

    @property
    def choice(self) -> model_settings.ModelChoice:
        """The model to use, with a note if it is not the one in the settings."""
        automatic = self._automatic_model()
        state = automatic, model_settings.cache_key(self._store.settings, self._store.root)
        if self._choice is None or state != self._choice[0]:
            found = model_settings.choose_embedder(self._store.settings, self._store.root)
            if automatic:
                found = found._replace(name=automatic)
            if self._choice is not None and found.name != self._choice[1].name:
                self._embedder = self._opened = None
            self._choice = state, found
        return self._choice[1]

    def _automatic_model(self) -> str:
        """Return the model for the vault's languages; empty if one is named."""
        if not self._is_automatic:
            return ""
        has_multilingual = self._model_folder(MULTILINGUAL).is_dir()
        return model_settings.automatic_model(self._languages(), has_multilingual)

    @cached_property
    def _is_automatic(self) -> bool:
        settings = self._store.settings
        if self.folder is None or settings.language == "none":
            return False
        return not model_settings.is_named(settings)

    @property
    def name(self) -> str:
        """The display name of the model."""
        card = card_of(self.choice.name)
        return card.name if card else self.choice.name

    def embedder(self, download: bool = False) -> TokenEmbedder:
        """Return the model, loaded once; raises the same errors as ``load_embedder``."""
        name, root, _ = self.choice
        if self._embedder is None:
            if root is not None and not model_settings.is_allowed(name, root):
                raise EmbedderError(f"The model {name} is not allowed here", "`memvault model use`")
            self._embedder = load_embedder(name, root, download)
        return self._embedder

    def close(self) -> None:
        """Release the vectors and the model; the next use opens them again."""
        self._embedder = self._opened = None

    def is_running(self) -> bool:
        """Return whether a process is computing vectors, in the background or in the foreground."""
        locks = (background_embedding.BACKGROUND_LOCK, background_embedding.FOREGROUND_LOCK)
        return any(background_embedding.is_running(self.folder, name) for name in locks)

    def failure_reason(self) -> str:
        """Return why vectors recently failed or cannot be computed; empty if all is well."""
        reason = background_embedding.failure(self.folder, self.choice.name)
        if not reason and self.opened() is None:
            try:
                self.embedder()
            except EmbedderError as error:
                reason = error.message
        return reason

    def notes(self) -> list[str]:
        """Return notes for the user about the model."""
        return [note for note in (self.choice.note, self._failure) if note]

    def set_failure(self, error: MemvaultError | None) -> None:
        """Record a failure as a note, or clear it; it does not make the search fail."""
        note = f"{error.message}: the built-in table answers alone; {error.hint}" if error else ""
        self._failure = note

    def opened(self) -> TransformerVectorFile | None:
        """Open the current vectors; None if there are none of the model's version.

        The version of a model other than the built-in one is known only once it is loaded.
        """
        if self.folder is None:
            return None
        found = TransformerVectorFile.open(self._model_folder(self.choice.name))
        if found is None:
            return None
        known = self._embedder or card_of(self.choice.name)
        if known is not None and found.card.version != known.version:
            return None
        if self._opened is None or self._opened.card != found.card:
            self._opened = found
            with contextlib.suppress(OSError):
                mark_used(found.folder)
        return self._opened

    def _model_folder(self, name: str) -> Path:
        assert self.folder is not None
        card = card_of(name)
        key = name if card is None else f"{name} {card.version} {FORMAT}"
        digest = hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()
        return self.folder / f"{naming.slug(name, 40)}-{digest}"

    def missing(self, uids: Integers, hashes: Hashes, beginning: int) -> tuple[set[int], set[int]]:
        """Return the memories without a vector of one of their first passages, and of a later one.

        ``uids`` and ``hashes`` are those of all passages, and ``beginning`` is how many of a memory
        are the first.
        """
        lacks = self._lacks(hashes)
        firsts = np.flatnonzero(np.append(True, uids[1:] != uids[:-1])[: len(uids)])
        own_first = np.repeat(firsts, np.diff(np.append(firsts, len(uids))))
        is_late = np.arange(len(uids)) - own_first >= beginning
        return set(uids[lacks & ~is_late].tolist()), set(uids[lacks & is_late].tolist())

    def lacking(self, hashes: Hashes) -> int:
        """Return how many passages have no vector yet."""
        return int(self._lacks(hashes).sum())

    def _lacks(self, hashes: Hashes) -> Flags:
        found = self.opened()
        return np.full(len(hashes), True) if found is None else found.places(hashes) < 0

    def score(self, text: str, language: str, passages: ScoredPassages) -> TransformerScores:
        """Score the passages of all memories against a query; a model failure becomes a note.

        A model that does not support the query's language is less reliable than the keyword index,
        so its scores are not used.
        """
        if self.mode == "off" or not len(passages.uids):
            return TransformerScores()
        try:
            found = self._score(text, language, passages)
            if self.mode == "auto":
                self.set_failure(None)
        except EmbedderError as error:
            self.set_failure(error)
            found = TransformerScores(len(passages.firsts))
        if found.waiting and self.mode == "auto":
            self._start_worker()
        return found

    def similarity_matrix(self, hashes: Hashes) -> list[list[float]] | None:
        """Return the pairwise similarities of texts, in 0..1; None if a text has no vector yet."""
        found = self.opened() if self.mode != "off" else None
        places = found.places(hashes) if found is not None else None
        if found is None or places is None or (places < 0).any():
            return None
        card = card_of(self.choice.name)
        calibration = card.calibration if card else found.card.calibration
        if calibration is None:
            return None
        return calibration.similarity_matrix(found.rows(places))

    def token_matches(self, text: str, passages: Mapping[int, Hashes]) -> dict[int, float]:
        """Return how well a query's tokens match those of passages, given by memory as hashes.

        Memories without stored tokens are left out. May be called only after ``score`` of the same
        text.
        """
        found = self.opened() if self.mode != "off" else None
        embedder = self._embedder
        if found is None or embedder is None or embedder.codec is None or not passages:
            return {}
        query = embedder.embed_query_tokens(text)
        keys = list(passages)
        codes = found.token_codes(np.concatenate([passages[key] for key in keys]))
        owners = np.repeat(np.arange(len(keys)), [len(passages[key]) for key in keys])
        lengths = np.array([len(own) for own in codes], np.int64)
        has_tokens = lengths > 0
        if not has_tokens.any():
            return {}
        lengths, owned = lengths[has_tokens], owners[has_tokens]
        if not len(query.ids):  # nothing that the model knows matches nothing
            return {keys[place]: 0.0 for place in distinct(owned)}
        cosines = embedder.codec.cosines(query.tokens, np.concatenate(codes))
        by_passage = np.maximum.reduceat(cosines, np.cumsum(lengths) - lengths, axis=1)
        best = max_per_memory(by_passage, owned, len(keys))
        means = best.mean(axis=0)
        return {keys[place]: float(means[place]) for place in distinct(owned)}

    def _start_worker(self) -> None:
        """Start a process that computes missing vectors, unless that failed recently."""
        background_embedding.start(self._store.root, self.folder, self.choice.name)
        why = background_embedding.failure(self.folder, self.choice.name)
        if why:
            self.set_failure(EmbedderError(why, "`memvault reindex` tries again"))

    def _score(self, text: str, language: str, passages: ScoredPassages) -> TransformerScores:
        firsts = passages.firsts
        found = self.opened()
        if found is None:
            return TransformerScores(len(firsts))
        places = found.places(passages.hashes)
        waiting = int(np.logical_or.reduceat(places < 0, firsts).sum())
        card = card_of(self.choice.name)
        is_supported = card is None or language in (*card.languages, "none")
        if waiting > len(firsts) * (1 - _MIN_COVERAGE) or not is_supported:
            return TransformerScores(waiting)
        embedder = self.embedder()
        if embedder.version != found.card.version:
            return TransformerScores(len(firsts))
        cosines = found.score(embedder.embed_query_tokens(text).vector, places)
        known = embedder.calibration or found.card.calibration
        if known is None:  # the card was written by an earlier version
            known = calibrate.calibrate(embedder)
            with contextlib.suppress(OSError, MemvaultError):
                found.store_calibration(known, 0.0)  # a search does not wait for the lock
        # Ranking weights and calibration are fitted to the cosines of the built-in model.
        reference, quick = read_card(DATA).calibration, read_card(STATIC).calibration
        share = 1.0  # the anchors are English, so they do not measure a multilingual model
        if card is None:
            gain = reference.separation - quick.separation
            share = min(max((known.separation - quick.separation) / gain, 0.0), 1.0)
        scaled = (cosines - known.midpoint) * (known.slope / reference.slope) + reference.midpoint
        is_multilingual = self.choice.name == MULTILINGUAL
        return TransformerScores(waiting, self.name, scaled, reference, share, is_multilingual)

    def embed(self, memories: Iterable[list[str]], should_continue: Callable[[int], bool]) -> None:
        """Embed the passages that lack vectors, memory by memory, in the given order.

        ``memories`` yields each memory's passage texts. ``should_continue`` is called with the
        number of memories done before anything is written, and stops the work by returning False. A
        successful write clears an earlier failure.

        Raises:
            EmbedderError: the model cannot be used.
            OSError: the vectors cannot be written.
        """
        from concurrent.futures import ThreadPoolExecutor

        found = self._open_or_create()
        embedder = self.embedder()
        texts = _lacking_texts(memories, found)
        with ThreadPoolExecutor(1) as ahead:  # the next batch is read, and the last one written
            last: tuple[list[tuple[int, str]], Future[list[TextVectors]]] | None = None
            began, count = time.monotonic(), 0
            while batch := list(islice(texts, _BATCH)):
                running = ahead.submit(embedder.embed_tokens, [text for _, text in batch])
                if last is not None:
                    if not self._add(found, *last, should_continue):
                        return
                    count += len(last[0])
                    background_embedding.measured(
                        found.folder.parent, count / (time.monotonic() - began)
                    )
                last = batch, running
            if last is not None:
                self._add(found, *last, should_continue)

    def _add(
        self,
        found: TransformerVectorFile,
        batch: Sequence[tuple[int, str]],
        running: Future[list[TextVectors]],
        should_continue: Callable[[int], bool],
    ) -> bool:
        """Add the vectors of a batch when they are computed; return whether to continue."""
        codec, vectors = self.embedder().codec, running.result()
        if not should_continue(batch[-1][0]):
            return False
        codes: list[Codes] = []
        if codec is not None and found.card.tokens < self._max_tokens(found) * _MAX_EXCESS:
            codes = [codec.encode(own) for own in vectors]
        rows = np.stack([own.vector for own in vectors])
        found.add(hashes_of([text for _, text in batch]), rows, codes)
        background_embedding.succeeded(self.folder)
        return True

    def _open_or_create(self) -> TransformerVectorFile:
        """Return the file of vectors to add to, created if missing, with its calibration known."""
        embedder = self.embedder()
        found = self.opened()
        existing = embedder.calibration or (found.card.calibration if found else None)
        calibration = None if existing else calibrate.calibrate(embedder)
        if found is None:
            name = self.choice.name
            width = embedder.codec.width if embedder.codec is not None else 0
            card = VectorCard(name, embedder.version, embedder.dimension, token_width=width)
            found = TransformerVectorFile.create(self._model_folder(name), card)
        if calibration is not None:
            found.store_calibration(calibration)
        return found

    def compact(self, hashes: Sequence[int]) -> None:
        """Drop vectors that are not used and tokens that are too many, as the file's ``compact``.

        ``hashes`` are those of the passages of all memories, the most important first.
        """
        found = self.opened()
        if found is not None:
            found.compact(np.array(hashes, np.uint64), self._max_tokens(found))

    def _max_tokens(self, found: TransformerVectorFile) -> int:
        """Return how many tokens the settings allow to be stored."""
        megabytes = self._store.settings.embedder.token_megabytes
        return int(megabytes * 1_000_000) // max(found.card.token_width, 1)

    def finish(self) -> None:
        """Clear failures and delete unused models: no vector is missing any more."""
        background_embedding.succeeded(self.folder)
        self.delete_unused_models()

    def delete_unused_models(self) -> None:
        """Delete the vectors of models that are no longer used.

        Nothing is deleted if the model in the settings may not be used at present, because that may
        change.
        """
        for entry in self.unused_models():
            import shutil

            shutil.rmtree(entry, ignore_errors=True)

    def unused_models(self) -> list[Path]:
        """Return the folders that ``delete_unused_models`` would delete.

        Vectors that another version of the program has made with its version of the same model are
        deleted when they have not been used for 30 days.
        """
        if self.folder is None or self.mode == "off" or self.choice.note:
            return []
        current = self._model_folder(self.choice.name)
        model = current.name.rpartition("-")[0]
        with contextlib.suppress(OSError):
            return [
                entry
                for entry in self.folder.iterdir()
                if entry.is_dir()
                and entry != current
                and (entry.name.rpartition("-")[0] != model or is_unused(entry))
            ]
        return []


def _lacking_texts(
    memories: Iterable[list[str]], found: TransformerVectorFile
) -> Iterator[tuple[int, str]]:
    """Yield each text without a vector once, with the number of memories before its own."""
    yielded: set[int] = set()
    for number, texts in enumerate(memories):
        hashes = hashes_of(texts)
        for text, text_hash, place in zip(
            texts, hashes.tolist(), found.places(hashes), strict=True
        ):
            if place < 0 and text_hash not in yielded:
                yielded.add(text_hash)
                yield number, text
