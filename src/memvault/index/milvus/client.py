"""The connection to Milvus, the rows of its collections, and the collections' schemas."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Sequence, Set
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from memvault.index.milvus.collection_schema import FORMAT, collection_schema, signature
from memvault.index.milvus.deadline import Deadlines
from memvault.index.milvus.engine_errors import (
    CollectionMissing,
    EngineAddress,
    EngineRefused,
    EngineUnavailable,
    display_address,
    map_error,
)
from memvault.index.milvus.publication import Publication
from memvault.named_tuple import NamedTuple

Value = TypeVar("Value")

_LOGGERS = ("pymilvus", "milvus_lite", "grpc", "grpc._server")
_RETRY_PAUSE = 0.1
"""Seconds before the first retry of a call; each following pause is twice as long."""
_UNLOADED_WORDS = ("not loaded", "released")


Row = dict[str, Any]

KINDS = ("words", "passages", "memories")
_BATCH_BYTES = 4_000_000
_MAX_PUSHDOWN_KEYS = 5_000
"""The maximum number of memories in an engine filter; larger sets are filtered locally."""
MAX_ROWS = 16_000
"""The maximum number of rows per response; Milvus returns at most 16,384."""
_PAGE_ROWS = 1_000
_TEXT_PAGE_ROWS = 100


class Hit(NamedTuple):
    """A matching row and its score."""

    row: Row
    score: float


class EngineClient:
    """The rows of all vaults in an engine, which is connected on first use.

    Readers set ``may_create`` to False, so that no file or collection is created.

    Raises:
        EngineUnavailable: if the engine does not respond in time.
        EngineRefused: if the token is refused, or the collections belong to another program.
    """

    def __init__(self, where: EngineAddress, may_create: bool = True) -> None:
        self.where = where
        self._may_create = may_create
        self._client: Any = None
        self.deadlines = Deadlines(where.timeout)
        self._ready: set[str] = set()

    @contextlib.contextmanager
    def patient(self) -> Iterator[None]:
        """Allow a minute per call, for a complete upload, once the engine has responded."""
        self._call("has_collection", self.where.collection)
        with self.deadlines.patient():
            yield

    def close(self) -> None:
        """Close the connection."""
        if self._client is not None:
            with contextlib.suppress(Exception):  # treat it as closed even on failure
                self._client.close()
        self._client = None
        self._ready.clear()

    def _call(self, method: str, *arguments: Any, **options: Any) -> Any:
        """Call a method of the Milvus client with a timeout; retry if the engine is down."""
        return self._retrying(
            lambda client, timeout: getattr(client, method)(*arguments, timeout=timeout, **options)
        )

    def _retrying(self, ask: Callable[[Any, float], Value]) -> Value:
        """Call ``ask`` with the client and a timeout in seconds; retry if the engine is down."""
        ends, pause = self.deadlines.next_end(), _RETRY_PAUSE
        while True:
            timeout = max(_RETRY_PAUSE, ends - time.monotonic())
            try:
                return ask(self._opened(timeout), timeout)
            except Exception as error:
                mapped, message = map_error(error, self.where), str(error)
                if mapped is None:
                    raise
                over = time.monotonic() + pause >= ends
                if over or not isinstance(mapped, EngineUnavailable):
                    self.close()
                    raise mapped from error
            time.sleep(pause)
            pause *= 2
            if any(word in message for word in _UNLOADED_WORDS):
                self._load_again(ends)

    def _load_again(self, ends: float) -> None:
        """Load the collections again, because a restarted engine may have unloaded them."""
        for name in self._ready:
            timeout = max(_RETRY_PAUSE, ends - time.monotonic())
            with contextlib.suppress(Exception):  # the next call reports the error
                self._opened(timeout).load_collection(name, timeout=timeout)

    def _opened(self, seconds: float) -> Any:
        if self._client is None:
            is_file = "://" not in self.where.uri
            if is_file and not self._may_create and not Path(self.where.uri).exists():
                raise CollectionMissing(f"file {self.where.uri}")
            from pymilvus import MilvusClient

            for noisy in _LOGGERS:  # this module reports the errors itself
                logging.getLogger(noisy).setLevel(logging.CRITICAL + 1)
            self._client = MilvusClient(
                self.where.uri, token=self.where.token, timeout=seconds, dedicated=True
            )
        return self._client

    def search_keywords(
        self, vault: str, generation: str, query: str, limit: int, among: Sequence[int] | None
    ) -> list[Hit]:
        """Return a vault's documents that best match a query's tokens."""
        where = _memory_filter(vault, generation, among)
        fields = ("uid", "block", "text", "lengths")
        return self._search("words", where, "sparse", query, limit, fields)

    def nearest(
        self,
        vault: str,
        generation: str,
        vector: Sequence[float],
        limit: int,
        among: Sequence[int] | None,
    ) -> list[Hit]:
        """Return the passages of a vault that are nearest to a vector."""
        where = _memory_filter(vault, generation, among)
        return self._search("passages", where, "dense", vector, limit, ("uid",))

    def count_documents(self, vault: str, generation: str, tokens: Sequence[str]) -> int:
        """Return how many of a vault's documents contain at least one of the tokens."""
        return self.count(
            "words",
            f'{_generation_filter(vault, generation)} and TEXT_MATCH(text, "{" ".join(tokens)}")',
        )

    def rows(
        self, kind: str, vault: str, generation: str, uids: Sequence[int], fields: Sequence[str]
    ) -> Iterator[Row]:
        """Yield the rows of the given memories."""
        name = self._collection(kind)
        has_texts = kind == "memories" and "text" in fields
        size = _TEXT_PAGE_ROWS if has_texts else _PAGE_ROWS
        for first in range(0, len(uids), size):
            among = list(uids[first : first + size])
            where = f"{_generation_filter(vault, generation)} and uid in {among}"
            if has_texts:  # texts can be of any size
                yield from self._pages(name, where, fields, size)
                continue
            rows = self._query(name, where, fields, MAX_ROWS)
            yield from (
                rows if len(rows) < MAX_ROWS else self._pages(name, where, fields, MAX_ROWS)
            )

    def generation_rows(
        self, kind: str, vault: str, generation: str, fields: Sequence[str], above: int = -1
    ) -> Iterator[Row]:
        """Yield all rows of a generation with a uid greater than ``above``."""
        where = f"{_generation_filter(vault, generation)} and uid > {above}"
        yield from self._pages(self._collection(kind), where, fields, MAX_ROWS)

    def count(self, kind: str, expression: str) -> int:
        """Return how many rows match a filter expression."""
        rows = self._call(
            "query", self._collection(kind), filter=expression, output_fields=["count(*)"]
        )
        return int(rows[0]["count(*)"])

    def upsert(self, kind: str, rows: Sequence[Row], progress: Callable[[int], None]) -> None:
        """Insert or replace rows by id; ``progress`` gets the number of rows written."""
        name = self._collection(kind)
        done = 0
        for batch in _batches([{**row, FORMAT: 0} for row in rows]):
            self._call("upsert", name, batch)
            done += len(batch)
            progress(done)

    def delete(self, kind: str, vault: str, generation: str, uids: Sequence[int]) -> None:
        """Delete the rows of the given memories."""
        for first in range(0, len(uids), _PAGE_ROWS):
            batch = list(uids[first : first + _PAGE_ROWS])
            self._remove(kind, f"{_generation_filter(vault, generation)} and uid in {batch}")

    def delete_from(self, kind: str, vault: str, generation: str, uid: int) -> None:
        """Delete the rows of all memories with at least this uid."""
        self._remove(kind, f"{_generation_filter(vault, generation)} and uid >= {uid}")

    def delete_other_generations(self, kind: str, vault: str, generation: str) -> None:
        """Delete the rows of a vault that belong to other generations."""
        current = f'["{generation}", "card"]'
        self._remove(kind, f'vault == "{vault}" and generation not in {current}')

    def clear(self, vault: str) -> None:
        """Delete all rows of a vault."""
        for kind in KINDS:
            self._remove(kind, f'vault == "{vault}"')

    def publication(self, vault: str) -> Publication | None:
        """Return the publication of a vault, or None if it was never published."""
        where = f'id == "{vault}-card"'
        for row in self._query(self._collection("words"), where, ("lengths",), 1):
            return Publication.from_json(row["lengths"])
        return None

    def publications(self) -> dict[str, Publication]:
        """Return the publications of all vaults, by vault id."""
        rows = self._pages(self._collection("words"), 'generation == "card"', ("vault", "lengths"))
        return {row["vault"]: Publication.from_json(row["lengths"]) for row in rows}

    def publish(self, vault: str, publication: Publication) -> None:
        """Store the publication of a vault."""
        about = {"id": f"{vault}-card", "vault": vault, "generation": "card", "uid": -1}
        row = {**about, "block": -1, "lengths": publication.to_json(), "text": "card"}
        self.upsert("words", [row], lambda _: None)

    def _remove(self, kind: str, expression: str) -> None:
        self._call("delete", self._collection(kind), filter=expression)

    def drop(self) -> None:
        """Drop the collections, with the rows of every vault."""
        for kind in KINDS:
            self._call("drop_collection", f"{self.where.collection}_{kind}")
        self._ready.clear()

    def _search(
        self,
        kind: str,
        expression: str,
        field: str,
        query: Any,
        limit: int,
        fields: Sequence[str],
    ) -> list[Hit]:
        name = self._collection(kind)
        if not limit:
            return []
        (hits,) = self._call(
            "search",
            name,
            data=[query],
            anns_field=field,
            filter=expression,
            limit=min(limit, MAX_ROWS),
            output_fields=list(fields),
        )
        return [Hit(dict(hit["entity"]), float(hit["distance"])) for hit in hits]

    def _query(self, name: str, expression: str, fields: Sequence[str], limit: int) -> list[Row]:
        """Return the rows that match a filter expression, in one request."""
        rows = self._call("query", name, filter=expression, output_fields=list(fields), limit=limit)
        return [dict(row) for row in rows]

    def _pages(
        self, name: str, expression: str, fields: Sequence[str], size: int = _PAGE_ROWS
    ) -> Iterator[Row]:
        pages = self._call(
            "query_iterator",
            name,
            filter=expression,
            output_fields=list(fields),
            batch_size=size,
        )
        try:
            while page := self._retrying(lambda *_: pages.next()):
                yield from page
        finally:
            with contextlib.suppress(Exception):
                pages.close()

    def _collection(self, kind: str) -> str:
        """Return a collection's name after creating it if necessary, checking and loading it."""
        name = f"{self.where.collection}_{kind}"
        if name not in self._ready:
            exists = self._call("has_collection", name)
            if not exists and not self._may_create:
                raise CollectionMissing(
                    f"collection {name} in the engine at {display_address(self.where)}"
                )
            if not exists:
                self._retrying(partial(_create_collection, name, kind))
            self._check(name, kind)
            self._call("load_collection", name)
            self._ready.add(name)
        return name

    def _check(self, name: str, kind: str) -> None:
        """Check that a collection has this version's schema and this embedder's vector size."""
        description = self._call("describe_collection", name)
        actual = signature(description["fields"])
        expected = signature(collection_schema(kind)[0].to_dict()["fields"])
        if actual != expected:
            differs = ", ".join(sorted(f"{key} {value}" for key, value in actual ^ expected))
            raise EngineRefused(
                f"The collection {name} does not have this version's schema: {differs[:200]}",
                "create it again with `memvault index drop` and `memvault index push`, "
                "or use another collection",
            )


def _create_collection(name: str, kind: str, client: Any, timeout: float) -> None:
    """Create a collection, unless another machine has just created it."""
    if not client.has_collection(name, timeout=timeout):
        schema, index = collection_schema(kind)
        client.create_collection(
            name, schema=schema, index_params=index, consistency_level="Strong", timeout=timeout
        )


def pushdown_keys(among: Set[int] | None) -> list[int] | None:
    """Return the memories to pass to the engine as a filter, or None for no filter."""
    few = among is not None and len(among) <= _MAX_PUSHDOWN_KEYS
    return sorted(uid for uid in among if uid >= 0) if few and among is not None else None


def _generation_filter(vault: str, generation: str) -> str:
    return f'vault == "{vault}" and generation == "{generation}"'


def _memory_filter(vault: str, generation: str, among: Sequence[int] | None) -> str:
    return _generation_filter(vault, generation) + (
        "" if among is None else f" and uid in {list(among)}"
    )


def _batches(rows: Sequence[Row]) -> Iterator[list[Row]]:
    batch: list[Row] = []
    size = 0
    for row in rows:
        row_bytes = len(row.get("text", "").encode()) + len(row.get("record", "")) + 2_000
        if batch and size + row_bytes > _BATCH_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(row)
        size += row_bytes
    if batch:
        yield batch
