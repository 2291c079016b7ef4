"""The keyword index: a Whoosh index behind a handful of methods.

A memory is one Whoosh document for each block of its text (almost always one),
with fields for title, headings, body, tags, type and whole identifiers. Terms
come from ``analysis``, not from Whoosh's analysers, which are most of its cost.
Scoring is BM25F (Robertson and Zaragoza 2009) computed a term at a time over
the postings: Whoosh's own tree of matchers took 0.5 s for a ten-word question
over 10,000 memories where this takes 0.05 s.

Whoosh reads pickles: it gets those of our own folder alone (``place``), and of
few classes (``whoosh_pickles``). Whatever it raises becomes ``DamagedIndex``.
"""

from __future__ import annotations

import functools
import heapq
import math
import pickle
import struct
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, ParamSpec, TypeVar

from memvault.index.damage import DamagedIndex

__all__ = [
    "FIELDS",
    "KeywordAnswer",
    "KeywordDocument",
    "KeywordHit",
    "KeywordIndex",
    "field_lengths",
]

FIELDS: Mapping[str, float] = {
    "title": 3.0,
    "headings": 1.5,
    "body": 1.0,
    "tags": 2.0,
    "type": 0.5,
}
"""Fields of stemmed terms with their weights in BM25F."""
_WHOLE = "identifier"
_WHOLE_WEIGHT = 1.0
_K1 = 1.2
_B = {"title": 0.5, "headings": 0.5, "body": 0.75, "tags": 0.3, "type": 0.0, _WHOLE: 0.5}
_MEMORY_MB = 96
_MAX_SEGMENTS = 12

P = ParamSpec("P")
R = TypeVar("R")


class KeywordDocument(NamedTuple):
    """One block of a memory: for each field the terms and how often they occur."""

    uid: int
    fields: Mapping[str, Counter[str]]


def field_lengths(documents: Iterable[KeywordDocument]) -> dict[str, int]:
    """Return how many terms each field has in some documents."""
    counted = dict.fromkeys(_B, 0)
    for document in documents:
        for name, terms in document.fields.items():
            counted[name] += sum(terms.values())
    return counted


class KeywordHit(NamedTuple):
    """A memory's best block: its BM25F score and what each query term gave to it."""

    uid: int
    score: float
    terms: dict[str, float]


class KeywordAnswer(NamedTuple):
    """The hits, best first, and how rare each term is among all memories (its idf)."""

    hits: list[KeywordHit]
    rarity: dict[str, float]


def _mapped(function: Callable[P, R]) -> Callable[P, R]:
    """Turn what Whoosh raises of an index that it cannot read into ``DamagedIndex``.

    Errors that only a mistake in a program raises pass, so nothing of a caller's
    may run inside.
    """

    @functools.wraps(function)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except (
            FileNotFoundError,
            EOFError,
            LookupError,
            ValueError,
            struct.error,
            zlib.error,
            pickle.UnpicklingError,
        ) as error:
            raise DamagedIndex(f"{type(error).__name__}: {error}") from error
        except Exception as error:
            if type(error).__module__.startswith("whoosh"):
                raise DamagedIndex(f"{type(error).__name__}: {error}") from error
            raise

    return guarded


class _Segment(NamedTuple):
    """Where postings come from: a part of the index on disk, or documents held in memory."""

    postings: Callable[[str, str], Iterable[tuple[int, float]]]
    length: Callable[[str, int], float]
    uid: Callable[[int], int]
    documents: int


class KeywordIndex:
    """A Whoosh index in a folder, opened and read when first asked; without a folder, empty."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._index: Any = None
        self._reader: Any = None

    @classmethod
    @_mapped
    def create(cls, folder: Path) -> KeywordIndex:
        """Make an empty index in an empty folder."""
        folder.mkdir(parents=True, exist_ok=True)
        made = cls(folder)
        made._index = _storage(folder).create_index(_schema())
        return made

    def _opened(self) -> Any:
        """Return Whoosh's index, opened when first needed; None where this one is empty."""
        if self._index is None and self._folder is not None:
            self._index = _storage(self._folder).open_index()
        return self._index

    @_mapped
    def apply(
        self, removed: Iterable[int], added: Iterable[KeywordDocument], merge: bool = False
    ) -> None:
        """Take out memories and put in documents, as one commit."""
        writer = self._opened().writer(limitmb=_MEMORY_MB, timeout=5.0)
        try:
            for uid in removed:
                writer.delete_by_term("uid", str(uid))
            for document in added:
                writer.add_document(
                    uid=str(document.uid),
                    **{name: terms for name, terms in document.fields.items() if terms},
                )
        except BaseException:
            writer.cancel()
            raise
        many = len(self._open_reader().leaf_readers()) >= _MAX_SEGMENTS
        writer.commit(optimize=merge, merge=merge or many)
        self.close()

    @_mapped
    def wasted(self) -> float:
        """Return the share of documents that are marked deleted and still take room."""
        reader = self._open_reader()
        total = reader.doc_count_all()
        return 1.0 - reader.doc_count() / total if total else 0.0

    def search(
        self,
        stems: list[str],
        wholes: list[str],
        lengths: Mapping[str, float],
        allowed: Callable[[int], bool] | None = None,
        limit: int = 200,
        overlay: Iterable[KeywordDocument] = (),
        explain: bool = False,
    ) -> KeywordAnswer:
        """Return the best memories for a query's terms, best first.

        ``lengths`` are how many terms each field has in all memories: Whoosh's
        own sums count deleted documents and round. ``overlay`` are documents
        that are not in the index yet and are searched with it; ``allowed`` says
        of a memory whether it may be found. Only with ``explain`` do hits name their terms.
        """
        segments = [*self._segments(), _memory_segment(list(overlay))]
        wanted = [(stem, FIELDS) for stem in stems]
        wanted += [(whole, {_WHOLE: _WHOLE_WEIGHT}) for whole in wholes]
        scores, rarity = _score(segments, wanted, lengths)
        ranked = heapq.nlargest(len(scores), scores.items(), key=lambda item: item[1])
        found: dict[int, float] = {}
        places: dict[int, tuple[int, int]] = {}
        for place, score in ranked:
            uid = segments[place[0]].uid(place[1])
            if uid in found or (allowed is not None and not allowed(uid)):
                continue
            found[uid] = score
            places[uid] = place
            if len(found) >= limit:
                break
        shares = _shares(segments, wanted, lengths, places) if explain else {}
        hits = [KeywordHit(uid, score, shares.get(uid, {})) for uid, score in found.items()]
        return KeywordAnswer(hits, rarity)

    @_mapped
    def _segments(self) -> list[_Segment]:
        if self._opened() is None:
            return []
        found = []
        for leaf, _ in self._open_reader().leaf_readers():

            def postings(name: str, term: str, leaf: Any = leaf) -> Iterator[tuple[int, float]]:
                if (name, encoded := term.encode("utf-8", "replace")) not in leaf:
                    return
                matcher = leaf.postings(name, encoded)
                while matcher.is_active():
                    yield matcher.id(), matcher.weight()
                    matcher.next()

            def length(name: str, number: int, leaf: Any = leaf) -> float:
                return float(leaf.doc_field_length(number, name))

            @_mapped
            def uid(number: int, leaf: Any = leaf) -> int:
                return int(leaf.stored_fields(number)["uid"])

            found.append(_Segment(postings, length, uid, leaf.doc_count()))
        return found

    def _open_reader(self) -> Any:
        if self._reader is None:
            self._reader = self._opened().reader()
        return self._reader

    def close(self) -> None:
        """Let go of open files; the next use opens the latest state."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None


def _memory_segment(documents: list[KeywordDocument]) -> _Segment:
    inverted: dict[tuple[str, str], list[tuple[int, float]]] = defaultdict(list)
    for number, document in enumerate(documents):
        for name, terms in document.fields.items():
            for term, count in terms.items():
                inverted[name, term].append((number, float(count)))

    def postings(name: str, term: str) -> Iterable[tuple[int, float]]:
        return inverted.get((name, term), ())

    def length(name: str, number: int) -> float:
        return float(sum(documents[number].fields.get(name, Counter()).values()))

    return _Segment(postings, length, lambda number: documents[number].uid, len(documents))


_Place = tuple[int, int]
"""A segment's number and a document's number in it."""


@_mapped
def _score(
    segments: list[_Segment],
    wanted: list[tuple[str, Mapping[str, float]]],
    lengths: Mapping[str, float],
) -> tuple[dict[_Place, float], dict[str, float]]:
    scores: dict[_Place, float] = defaultdict(float)
    rarities: dict[str, float] = {}
    for term, rarity, gains in _gains(segments, wanted, lengths, None):
        rarities.setdefault(term, rarity)  # as a word, where it is looked for as a whole too
        for place, gain in gains:
            scores[place] += gain
    return scores, rarities


@_mapped
def _shares(
    segments: list[_Segment],
    wanted: list[tuple[str, Mapping[str, float]]],
    lengths: Mapping[str, float],
    places: Mapping[int, _Place],
) -> dict[int, dict[str, float]]:
    """Say what each term gave to each of the places found."""
    owners = {place: uid for uid, place in places.items()}
    shares: dict[int, dict[str, float]] = {uid: {} for uid in places}
    for term, _, gains in _gains(segments, wanted, lengths, frozenset(owners)):
        for place, gain in gains:
            share = shares[owners[place]]
            share[term] = share.get(term, 0.0) + gain
    return shares


def _gains(
    segments: list[_Segment],
    wanted: list[tuple[str, Mapping[str, float]]],
    lengths: Mapping[str, float],
    only: frozenset[_Place] | None,
) -> Iterator[tuple[str, float, list[tuple[_Place, float]]]]:
    """Yield for each term its rarity and what it adds to each document.

    Fields are weighted before saturation.
    """
    total = sum(segment.documents for segment in segments)
    if not total:
        return
    means = {name: lengths.get(name, 0.0) / total or 1.0 for name in _B}
    for term, fields in wanted:
        frequencies: dict[_Place, float] = defaultdict(float)
        for number, segment in enumerate(segments):
            for name, boost in fields.items():
                slope, mean, length = _B[name], means[name], segment.length
                for document, count in segment.postings(name, term):
                    norm = 1.0 - slope + slope * length(name, document) / mean
                    frequencies[number, document] += boost * count / norm
        rarity = math.log(1.0 + (total - len(frequencies) + 0.5) / (len(frequencies) + 0.5))
        yield (
            term,
            rarity,
            [
                (place, rarity * value * (_K1 + 1.0) / (value + _K1))
                for place, value in frequencies.items()
                if only is None or place in only
            ],
        )


def _storage(folder: Path) -> Any:
    from whoosh.filedb.filestore import FileStorage

    from memvault.index import whoosh_pickles

    whoosh_pickles.restrict()
    return FileStorage(str(folder))


def _schema() -> Any:
    from whoosh.fields import ID, Schema

    from memvault.index.whoosh_fields import Bag

    names = {**dict.fromkeys(FIELDS, True), _WHOLE: True}
    return Schema(uid=ID(stored=True, unique=True), **{name: Bag() for name in names})
