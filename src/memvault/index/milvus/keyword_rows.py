"""The keyword index of one vault's memories, stored in Milvus.

Milvus selects candidates with its own BM25 over encoded terms; field weights are expressed by
repeating terms in the query. The candidates are then scored as in the local index, with the same
counts: term frequencies by field, field lengths, and the number of the vault's documents that
contain each term.
"""

from __future__ import annotations

import json
import secrets
from base64 import b32encode
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

from memvault.files import atomic
from memvault.files.plain_files import MAX_SETTING_BYTES, FileStamp, read, stamp_of
from memvault.index.keyword import bm25f
from memvault.index.keyword.bm25f import (
    EXACT_FIELD,
    FIELDS,
    WHOLE_WEIGHT,
    KeywordDocument,
    PostingList,
    Segment,
)
from memvault.index.milvus.client import MAX_ROWS, EngineClient, Row, pushdown_keys
from memvault.index.protocol import IndexCorrupted, KeywordQuery, StaleView
from memvault.named_tuple import NamedTuple

_FIELD_LETTERS = {"title": "t", "headings": "h", "body": "b", "tags": "g", EXACT_FIELD: "w"}
_WEIGHTS: Mapping[str, float] = {**FIELDS, EXACT_FIELD: WHOLE_WEIGHT}
_MAX_TERM_BYTES = 120
"""The maximum size in bytes of an encoded term; the end of a longer term is replaced by a hash."""
_HASH_BYTES = 16


def encode_term(field: str, term: str) -> str:
    """Encode a term of a field as one token."""
    data = term.encode("utf-8", "surrogatepass")
    if len(data) > _MAX_TERM_BYTES:
        data = (
            data[: _MAX_TERM_BYTES - _HASH_BYTES] + blake2b(data, digest_size=_HASH_BYTES).digest()
        )
    return f"{_FIELD_LETTERS[field]}{b32encode(data).decode().rstrip('=').lower()}"


def encode_document(fields: Mapping[str, Counter[str]]) -> Iterator[str]:
    """Yield a document's tokens, repeating each for every occurrence of its term."""
    for name, terms in fields.items():
        for term, count in terms.items():
            yield from [encode_term(name, term)] * count


def encode_group(group: Iterable[str], is_whole: bool) -> list[str]:
    """Return the alternative tokens of a group of stems, or of an exact term."""
    names = (EXACT_FIELD,) if is_whole else tuple(FIELDS)
    return [encode_term(name, term) for term in group for name in names]


def encode_query(groups: Iterable[Iterable[str]], wholes: Iterable[str]) -> str:
    """Return a query text in which each token's count is twice its field's weight."""
    tokens: list[str] = []
    for terms, names in (
        (groups, tuple(FIELDS)),
        (((exact_term,) for exact_term in wholes), (EXACT_FIELD,)),
    ):
        for group in terms:
            for term in group:
                for name in names:
                    tokens += [encode_term(name, term)] * round(2 * _WEIGHTS[name])
    return " ".join(tokens)


_STATE_PREFIX = "engine-"
"""The prefix of a state file's name; each commit has a separate file."""
_MAX_PIECE_BYTES = 60_000
"""The maximum size in bytes of a document's tokens in one row; longer documents use several
rows."""
_MAX_REMOVED_UIDS = 500
"""The number of most recently removed memories that are listed in a state."""
_CANDIDATE_FACTOR = 4
_MIN_CANDIDATES = 400
"""The minimum number of candidates to score; usually there are four times the query's limit."""


class GenerationState(NamedTuple):
    """The generation of rows of a commit, and its number of documents.

    ``removed`` is the number of memories ever removed, and ``recently_removed`` has the uids of the
    most recent ones, so that another machine can update its copy without listing all memories.
    """

    generation: str
    documents: int
    removed: int = 0
    recently_removed: tuple[int, ...] = ()


class _Candidates(NamedTuple):
    """Documents by memory and block: the frequency of each token, and field lengths.

    ``is_all`` is true if no other document contains any of the tokens.
    """

    counted: dict[tuple[int, int], Counter[str]]
    lengths: dict[tuple[int, int], Mapping[str, Any]]
    is_all: bool

    def count_containing(self, tokens: Sequence[str]) -> int:
        """Return how many of the documents contain at least one of the tokens."""
        return sum(
            any(map(document_tokens.__contains__, tokens))
            for document_tokens in self.counted.values()
        )

    def segment(self, documents: int, holding: Sequence[int]) -> Segment:
        """Return the documents as a segment with term counts over all documents in the vault."""
        documents_in_order = list(self.counted)

        lengths = {
            name: [self.lengths[document].get(name, 0) for document in documents_in_order]
            for name in _WEIGHTS
        }

        def find(term: str) -> Mapping[str, PostingList]:
            postings = {}
            for name in _WEIGHTS:
                token = encode_term(name, term)
                counts = {
                    number: count
                    for number, document in enumerate(documents_in_order)
                    if (count := self.counted[document].get(token))
                }
                if counts:
                    postings[name] = PostingList([*counts], [*counts.values()])
            return postings

        return Segment(find, lengths, documents_in_order.__getitem__, documents, holding)


class MilvusKeywordStore:
    """A ``KeywordStore`` in Milvus; its folder contains only state files."""

    def __init__(
        self,
        engine: EngineClient,
        vault: str,
        folder: Path | None,
        files: Iterable[str],
        progress: Callable[[str, int, int], None],
    ) -> None:
        self._engine = engine
        self._vault = vault
        self._folder = folder
        self._progress = progress
        self._name = next((name for name in files if name.startswith(_STATE_PREFIX)), "")
        self._state: GenerationState | None = None
        with suppress(IndexCorrupted):  # this generation has not been started yet
            self._state = self._read()

    @property
    def state(self) -> GenerationState:
        """Return the state of the generation that was current when the store was opened.

        Raises:
            IndexCorrupted: if the state is missing or invalid.
        """
        if self._state is None:
            self._state = self._read()
        return self._state

    def _read(self) -> GenerationState:
        if self._folder is None:
            return GenerationState("none", 0)
        try:
            values = json.loads(read(self._folder / self._name, MAX_SETTING_BYTES))
            recently_removed = tuple(map(int, values["recently_removed"]))
            counts = int(values["documents"]), int(values["removed"])
            return GenerationState(str(values["generation"]), *counts, recently_removed)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise IndexCorrupted(f"{self._name}: {error}") from error

    def set_generation(self, state: GenerationState) -> None:
        """Set the generation and document count that apply from the next commit on.

        The state of the last commit is kept until the next one is complete, so that nothing is lost
        if the process is killed in between.
        """
        assert self._folder is not None
        for path in self._folder.glob(f"{_STATE_PREFIX}*"):
            if path.name != self._name:
                path.unlink(missing_ok=True)
        self._name = f"{_STATE_PREFIX}{secrets.token_hex(8)}.json"
        atomic.write(self._folder / self._name, json.dumps(state._asdict()).encode())
        self._state = state

    def files(self) -> dict[str, FileStamp]:
        """Return the state of the store's file."""
        state = stamp_of(self._folder / self._name) if self._folder is not None else None
        return {self._name: state} if state is not None else {}

    def apply(self, removed: Iterable[int], added: Sequence[KeywordDocument]) -> MilvusKeywordStore:
        """Delete the rows of removed memories, and upload those of added documents."""
        state = self.state
        removed_uids = sorted({*removed})
        documents, found_uids = state.documents, set[int]()
        for first in range(0, len(removed_uids), 1_000):
            batch = removed_uids[first : first + 1_000]
            found_blocks = {
                (row["uid"], row["block"])
                for row in self._engine.rows(
                    "words", self._vault, state.generation, batch, ("uid", "block")
                )
            }
            documents -= len(found_blocks)
            found_uids |= {uid for uid, _ in found_blocks}
            for kind in ("words", "memories"):
                self._engine.delete(kind, self._vault, state.generation, batch)
        # An interrupted attempt may have deleted some of the rows.
        if len(found_uids) < len(removed_uids):
            documents = self._counted(state)
        if added:  # an interrupted attempt may have left rows with these uids
            first_uid = min(document.uid for document in added)
            self._engine.delete_from("words", self._vault, state.generation, first_uid)
        rows = [row for document in added for row in self._rows(state, document)]

        def report(done: int) -> None:
            if len(rows) > 1_000:
                self._progress("sending", done, len(rows))

        self._engine.upsert("words", rows, report)
        recent = (*state.recently_removed, *removed_uids)[-_MAX_REMOVED_UIDS:]
        total = state.removed + len(removed_uids)
        self.set_generation(
            GenerationState(state.generation, documents + len(added), total, recent)
        )
        return self

    def _counted(self, state: GenerationState) -> int:
        fields = ("uid", "block")
        rows = self._engine.generation_rows("words", self._vault, state.generation, fields)
        return len({(row["uid"], row["block"]) for row in rows})

    def _rows(self, state: GenerationState, document: KeywordDocument) -> Iterable[Row]:
        lengths = {name: sum(counts.values()) for name, counts in document.fields.items()}
        for number, text in enumerate(_pieces(encode_document(document.fields))):
            yield {
                "id": f"{self._vault}-{state.generation}-{document.uid}-{document.block}-{number}",
                "vault": self._vault,
                "generation": state.generation,
                "uid": document.uid,
                "block": document.block,
                "lengths": lengths,
                "text": text,
            }

    def candidates(self, query: KeywordQuery) -> list[Segment]:
        """Return the documents that Milvus ranks best, and how many contain each term."""
        terms = bm25f.query_terms(query)
        state = self.state
        tokens = [encode_group(entry.group, EXACT_FIELD in entry.fields) for entry in terms]
        candidates, document_counts = _Candidates({}, {}, True), list[int]()
        if state.documents and terms:
            with self._engine.deadlines.search():
                candidates = self._best(state, query)
                in_engine = partial(self._engine.count_documents, self._vault, state.generation)
                counted = (
                    candidates.count_containing
                    if query.allowed_uids is None and candidates.is_all
                    else in_engine
                )
                document_counts = list(map(counted, tokens))
        # Another process may be rebuilding the index and deleting these rows.
        if self._folder is not None and not self.files():
            raise StaleView
        return [candidates.segment(state.documents, document_counts)]

    def _best(self, state: GenerationState, query: KeywordQuery) -> _Candidates:
        """Return the documents that Milvus ranks highest, with their token frequencies."""
        limit = min(max(_CANDIDATE_FACTOR * query.limit, _MIN_CANDIDATES), MAX_ROWS)
        encoded, among = (
            encode_query(query.term_groups, query.exact_terms),
            pushdown_keys(query.allowed_uids),
        )
        hits = self._engine.search_keywords(self._vault, state.generation, encoded, limit, among)
        candidates = _Candidates({}, {}, len(hits) < limit)
        for hit in hits:
            document, lengths = (hit.row["uid"], hit.row["block"]), hit.row["lengths"]
            if min(document) >= 0 and are_lengths(lengths):
                candidates.counted.setdefault(document, Counter()).update(hit.row["text"].split())
                candidates.lengths[document] = dict(lengths)
        return candidates

    def close(self) -> None:
        """Do nothing: the connection is shared."""


def are_lengths(value: object) -> bool:
    """Return whether a value is a valid mapping of field lengths.

    The value is untrusted because others may write to the engine.
    """
    return isinstance(value, Mapping) and all(
        type(length) is int and length >= 0 for length in value.values()
    )


def _pieces(tokens: Iterable[str]) -> Iterator[str]:
    """Split a document's tokens into strings that each fit in one field; yield at least one."""
    piece: list[str] = []
    size = 0
    for token in tokens:
        if size + len(token) + 1 > _MAX_PIECE_BYTES:
            yield " ".join(piece)
            piece, size = [], 0
        piece.append(token)
        size += len(token) + 1
    yield " ".join(piece)
