"""The connection to Milvus, the rows of its collections, and the collections' schemas."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Sequence, Set
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from memvault.errors import MemvaultError, Refused
from memvault.index.embedding.embedder import read_card
from memvault.index.embedding.wordpiece import DATA
from memvault.index.milvus.publication import Publication
from memvault.index.protocol import StaleView

_DENIED_CODES = ("UNAUTHENTICATED", "PERMISSION_DENIED")
_DENIED_WORDS = ("auth", "permission", "invalid token", "credential")
_PUNCTUATION = ".,;:'\"()[]<>"
TOKEN = "MEMVAULT_MILVUS_TOKEN"  # noqa: S105 - the name of a variable, not a token


class EngineUnavailable(MemvaultError):
    """The engine does not answer."""

    code = "engine_away"


class EngineRefused(Refused):
    """The engine denies access, or its collections are not memvault's."""


class CollectionMissing(EngineRefused):
    """The engine has no such collections, or its file is missing."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"There is no {what}",
            "`memvault index push` makes it, on the machine that has the vault",
        )


class EngineAddress(NamedTuple):
    """The address or file of an engine, the name of its collections, and the token.

    ``patience`` is the number of seconds that one call may take, and that a refresh and the
    searches after it may take together.
    """

    uri: str
    collection: str
    token: str
    patience: float = 3.0


def display_address(where: EngineAddress) -> str:
    """Return an engine's address for use in messages."""
    return where.uri.partition("://")[2] or where.uri


def _status_code(error: BaseException) -> str:
    """Return the gRPC status of an error; for a refusal the client sets it only in the cause."""
    code = getattr(error, "code", None)
    return str(getattr(code(), "name", "")) if callable(code) else ""


def _without_names(text: str, where: EngineAddress) -> str:
    """Return a message in lower case without the names of the engine and its collections.

    These names are chosen by users and must not be mistaken for error texts.
    """
    address = display_address(where)
    host = address.partition("/")[0].rpartition(":")[0] or address

    def is_name(word: str) -> bool:
        stripped = word.strip(_PUNCTUATION)
        is_collection = stripped == where.collection or stripped.startswith(f"{where.collection}_")
        return address in word or stripped == host or is_collection

    return " ".join(word for word in text.split() if not is_name(word)).lower()


def map_error(error: Exception, where: EngineAddress) -> MemvaultError | None:
    """Return the error of this program for an error of the client; None for any other error."""
    module = type(error).__module__
    if not module.startswith(("pymilvus", "grpc", "milvus_lite")):
        return None
    name = display_address(where)
    message = _without_names(str(getattr(error, "message", "") or error), where)
    if _status_code(error.__cause__ or error) in _DENIED_CODES or any(
        word in message for word in _DENIED_WORDS
    ):
        if where.token:
            return EngineRefused(f"The engine at {name} refuses the token", f"{TOKEN} holds it")
        return EngineRefused(
            f"The engine at {name} wants a token",
            f"{TOKEN} holds it; `memvault index push`, or `memvault vaults add` for a vault of "
            "another machine, allows sending it to this address",
        )
    if "is illegal" in message:
        return EngineRefused(
            f"{where.uri!r} is not an engine's address",
            "write it as http://HOST:19530, or as a file that ends with .db",
        )
    if "open local milvus failed" in message:
        return EngineUnavailable(
            f"{name} cannot be opened as an engine",
            "one process at a time has it: serve, or another command; is it one of milvus-lite's?",
        )
    if any(
        word in message for word in ("memory quota", "disk quota", "resource exhausted", "full")
    ):
        return EngineUnavailable(
            f"The engine at {name} is full", "free some room there, and try again"
        )
    return EngineUnavailable(
        f"The engine at {name} does not answer within {where.patience:g} s",
        "check that it is running; to wait longer, raise patience in [index] or in vaults add; "
        "with fallback = true, this machine answers instead",
    )


Value = TypeVar("Value")

_LOGGERS = ("pymilvus", "milvus_lite", "grpc", "grpc._server")
_PATIENT_SECONDS = 60.0
"""Seconds that a call may take while a user waits for a complete upload."""
_RETRY_PAUSE = 0.1
"""Seconds before the first retry of a call; each further pause is twice as long."""
_UNLOADED_WORDS = ("not loaded", "released")


Row = dict[str, Any]

KINDS = ("words", "passages", "memories")
_BATCH_BYTES = 4_000_000
_MAX_PUSHDOWN_KEYS = 5_000
"""The maximum number of memories in a filter of the engine; larger sets are filtered here."""
MOST = 16_000
"""The maximum number of rows of one answer; Milvus returns no more than 16,384."""
_PAGE_ROWS = 1_000
_TEXT_PAGE_ROWS = 100


class Hit(NamedTuple):
    """A row that was found, and its score."""

    row: Row
    score: float


class EngineClient:
    """The rows of all vaults in an engine, which is connected to on first use.

    Readers set ``makes`` to False: then no file and no collections are created.

    Raises:
        EngineUnavailable: it does not answer in time.
        EngineRefused: the token is refused, or the collections are another program's.
    """

    def __init__(self, where: EngineAddress, makes: bool = True) -> None:
        self.where = where
        self._makes = makes
        self._client: Any = None
        self._of_view = where.patience
        self._view_ends = 0.0
        self._is_patient = False
        self._view_error: MemvaultError | None = None
        self._ready: set[str] = set()

    def begin_view(self) -> None:
        """Reset the time limit for the next view, or raise the error that ended the last one."""
        self._of_view = self.where.patience
        error, self._view_error = self._view_error, None
        if error is not None:
            raise error

    @contextlib.contextmanager
    def patiently(self) -> Iterator[None]:
        """Allow each call a minute, once the engine answers; the user waits for the whole."""
        name = self.where.collection
        self._asked(lambda client, left: client.has_collection(name, timeout=left))
        self._is_patient = True
        try:
            yield
        finally:
            self._is_patient = False

    @contextlib.contextmanager
    def timed(self) -> Iterator[None]:
        """Make calls for a view or its refresh within their remaining common time limit."""
        self._view_ends = time.monotonic() + self._of_view
        try:
            yield
        finally:
            self._of_view = max(0.0, self._view_ends - time.monotonic())
            self._view_ends = 0.0

    @contextlib.contextmanager
    def viewing(self) -> Iterator[None]:
        """Make calls for a view within its time limit.

        Raises:
            StaleView: the engine does not answer, or refuses; ``begin_view`` raises the reason.
        """
        try:
            with self.timed():
                yield
        except (EngineUnavailable, EngineRefused) as error:
            self._view_error = error
            raise StaleView(error) from error

    def close(self) -> None:
        """Close the connection."""
        if self._client is not None:
            with contextlib.suppress(Exception):  # it is closed in any case
                self._client.close()
        self._client = None
        self._ready.clear()

    def _asked(self, ask: Callable[[Any, float], Value]) -> Value:
        """Make a call with the seconds that it may take; retry while the engine is unavailable."""
        now = time.monotonic()
        usual = self._view_ends or now + self.where.patience
        ends, pause = now + _PATIENT_SECONDS if self._is_patient else usual, _RETRY_PAUSE
        while True:
            left = max(_RETRY_PAUSE, ends - time.monotonic())
            try:
                return ask(self._opened(left), left)
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
        """Load the collections again, as a restarted engine may have unloaded them."""
        for name in self._ready:
            left = max(_RETRY_PAUSE, ends - time.monotonic())
            with contextlib.suppress(Exception):  # the call that needs it reports the error
                self._opened(left).load_collection(name, timeout=left)

    def _opened(self, seconds: float) -> Any:
        if self._client is None:
            is_file = "://" not in self.where.uri
            if is_file and not self._makes and not Path(self.where.uri).exists():
                raise CollectionMissing(f"file {self.where.uri}")
            from pymilvus import MilvusClient

            for noisy in _LOGGERS:  # their errors are reported by this module
                logging.getLogger(noisy).setLevel(logging.CRITICAL + 1)
            self._client = MilvusClient(
                self.where.uri, token=self.where.token, timeout=seconds, dedicated=True
            )
        return self._client

    def words(
        self, vault: str, generation: str, query: str, limit: int, among: Sequence[int] | None
    ) -> list[Hit]:
        """Return the documents of a vault that match a query's tokens best."""
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

    def holding(self, vault: str, generation: str, tokens: Sequence[str]) -> int:
        """Return how many documents of a vault contain one of the tokens."""
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
            if has_texts:  # texts may have any size
                yield from self._pages(name, where, fields, size)
                continue
            found = self._query(name, where, fields, MOST)
            yield from found if len(found) < MOST else self._pages(name, where, fields, MOST)

    def every(
        self, kind: str, vault: str, generation: str, fields: Sequence[str], above: int = -1
    ) -> Iterator[Row]:
        """Yield all rows of one generation with a uid greater than ``above``."""
        where = f"{_generation_filter(vault, generation)} and uid > {above}"
        yield from self._pages(self._collection(kind), where, fields, MOST)

    def count(self, kind: str, expression: str) -> int:
        """Return how many rows match a filter expression."""
        name = self._collection(kind)
        found = self._asked(
            lambda client, left: client.query(
                name, filter=expression, output_fields=["count(*)"], timeout=left
            )
        )
        return int(found[0]["count(*)"])

    def put(self, kind: str, rows: Sequence[Row], progress: Callable[[int], None]) -> None:
        """Insert or replace rows by id; ``progress`` is called with the number of rows done."""
        name = self._collection(kind)
        done = 0
        for batch in _batches([{**row, FORMAT: 0} for row in rows]):
            self._asked(partial(_upsert, name, batch))
            done += len(batch)
            progress(done)

    def delete(self, kind: str, vault: str, generation: str, uids: Sequence[int]) -> None:
        """Delete the rows of the given memories."""
        for first in range(0, len(uids), _PAGE_ROWS):
            batch = list(uids[first : first + _PAGE_ROWS])
            self._remove(kind, f"{_generation_filter(vault, generation)} and uid in {batch}")

    def forget_from(self, kind: str, vault: str, generation: str, uid: int) -> None:
        """Delete the rows of all memories with this uid or a higher one."""
        self._remove(kind, f"{_generation_filter(vault, generation)} and uid >= {uid}")

    def delete_other_generations(self, kind: str, vault: str, generation: str) -> None:
        """Delete the rows of a vault that belong to other generations."""
        current = f'["{generation}", "card"]'
        self._remove(kind, f'vault == "{vault}" and generation not in {current}')

    def clear(self, vault: str) -> None:
        """Delete all rows of a vault."""
        for kind in KINDS:
            self._remove(kind, f'vault == "{vault}"')

    def card(self, vault: str) -> Publication | None:
        """Return the publication of a vault; None if it was never published."""
        where = f'id == "{vault}-card"'
        for row in self._query(self._collection("words"), where, ("lengths",), 1):
            return Publication.from_json(row["lengths"])
        return None

    def cards(self) -> dict[str, Publication]:
        """Return the publications of all vaults, by vault id."""
        rows = self._pages(self._collection("words"), 'generation == "card"', ("vault", "lengths"))
        return {row["vault"]: Publication.from_json(row["lengths"]) for row in rows}

    def publish(self, vault: str, card: Publication) -> None:
        """Store the publication of a vault."""
        about = {"id": f"{vault}-card", "vault": vault, "generation": "card", "uid": -1}
        row = {**about, "block": -1, "lengths": card.to_json(), "text": "card"}
        self.put("words", [row], lambda _: None)

    def _remove(self, kind: str, expression: str) -> None:
        name = self._collection(kind)
        self._asked(lambda client, left: client.delete(name, filter=expression, timeout=left))

    def drop(self) -> None:
        """Drop the collections, with the rows of every vault."""
        for kind in KINDS:
            name = f"{self.where.collection}_{kind}"
            self._asked(partial(_drop_collection, name))
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
        (found,) = self._asked(
            lambda client, left: client.search(
                name,
                data=[query],
                anns_field=field,
                filter=expression,
                limit=min(limit, MOST),
                output_fields=list(fields),
                timeout=left,
            )
        )
        return [Hit(dict(hit["entity"]), float(hit["distance"])) for hit in found]

    def _query(self, name: str, expression: str, fields: Sequence[str], limit: int) -> list[Row]:
        """Return the rows that match a filter expression, in one request."""
        return [
            dict(row)
            for row in self._asked(
                lambda client, left: client.query(
                    name, filter=expression, output_fields=list(fields), limit=limit, timeout=left
                )
            )
        ]

    def _pages(
        self, name: str, expression: str, fields: Sequence[str], size: int = _PAGE_ROWS
    ) -> Iterator[Row]:
        pages = self._asked(
            lambda client, left: client.query_iterator(
                name,
                filter=expression,
                output_fields=list(fields),
                batch_size=size,
                timeout=left,
            )
        )
        try:
            while page := self._asked(lambda *_: pages.next()):
                yield from page
        finally:
            with contextlib.suppress(Exception):
                pages.close()

    def _collection(self, kind: str) -> str:
        """Return a collection's name, after creating it if necessary, checking and loading it."""
        name = f"{self.where.collection}_{kind}"
        if name not in self._ready:
            there = self._asked(lambda client, left: client.has_collection(name, timeout=left))
            if not there and not self._makes:
                raise CollectionMissing(
                    f"collection {name} in the engine at {display_address(self.where)}"
                )
            if not there:
                self._asked(partial(_create_collection, name, kind))
            self._check(name, kind)
            self._asked(lambda client, left: client.load_collection(name, timeout=left))
            self._ready.add(name)
        return name

    def _check(self, name: str, kind: str) -> None:
        """Check that a collection has the schema of this version and of this embedder's vectors."""
        description = self._asked(
            lambda client, left: client.describe_collection(name, timeout=left)
        )
        actual = signature(description["fields"])
        expected = signature(of(kind)[0].to_dict()["fields"])
        if actual != expected:
            differs = ", ".join(sorted(f"{key} {value}" for key, value in actual ^ expected))
            raise EngineRefused(
                f"The collection {name} is not as this version makes it: {differs[:200]}",
                "`memvault index drop`, then `memvault index push`, makes it anew; "
                "or name another collection",
            )


def _upsert(name: str, rows: Sequence[Row], client: Any, left: float) -> None:
    client.upsert(name, rows, timeout=left)


def _create_collection(name: str, kind: str, client: Any, left: float) -> None:
    """Create a collection, unless another machine has just done so."""
    if not client.has_collection(name, timeout=left):
        made, index = of(kind)
        client.create_collection(
            name, schema=made, index_params=index, consistency_level="Strong", timeout=left
        )


def _drop_collection(name: str, client: Any, left: float) -> None:
    client.drop_collection(name, timeout=left)


def pushdown_keys(among: Set[int] | None) -> list[int] | None:
    """Return the memories to limit a search to in the engine; None for no limit."""
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


FORMAT = "format_1"
"""A field whose name is the version of the rows; not all engines keep other metadata."""
TEXT = 65_535
"""The maximum size in bytes of a text field in Milvus."""


def of(kind: str) -> tuple[Any, Any]:
    """Return the schema of a collection, and its indexes."""
    from pymilvus import DataType, Function, FunctionType, MilvusClient

    schema = MilvusClient.create_schema(
        auto_id=False, enable_dynamic_field=False, partition_key_field="vault"
    )
    schema.add_field("id", DataType.VARCHAR, max_length=120, is_primary=True)
    schema.add_field("vault", DataType.VARCHAR, max_length=40, is_partition_key=True)
    schema.add_field("generation", DataType.VARCHAR, max_length=40)
    schema.add_field("uid", DataType.INT64)
    schema.add_field(FORMAT, DataType.INT64)
    index = MilvusClient.prepare_index_params()
    if kind == "words":
        schema.add_field("block", DataType.INT64)
        schema.add_field("lengths", DataType.JSON)
        schema.add_field(
            "text",
            DataType.VARCHAR,
            max_length=TEXT,
            enable_analyzer=True,
            enable_match=True,
            analyzer_params={"tokenizer": "standard"},
        )
        schema.add_field("sparse", DataType.SPARSE_FLOAT_VECTOR)
        bm25 = Function(
            name="bm25",
            function_type=FunctionType.BM25,
            input_field_names=["text"],
            output_field_names=["sparse"],
        )
        schema.add_function(bm25)
        index.add_index("sparse", index_type="SPARSE_INVERTED_INDEX", metric_type="BM25")
    elif kind == "memories":
        schema.add_field("piece", DataType.INT64)
        schema.add_field("record", DataType.VARCHAR, max_length=TEXT)
        schema.add_field("text", DataType.VARCHAR, max_length=TEXT)
        schema.add_field("place", DataType.FLOAT_VECTOR, dim=2)  # a collection needs one
        index.add_index("place", index_type="FLAT", metric_type="L2")
    else:
        schema.add_field("passage", DataType.INT64)
        schema.add_field("hash", DataType.INT64)
        schema.add_field("dense", DataType.FLOAT_VECTOR, dim=read_card(DATA).dimension)
        index.add_index("dense", index_type="AUTOINDEX", metric_type="COSINE")
    return schema, index


def signature(fields: Sequence[dict[str, Any]]) -> set[tuple[str, str]]:
    """Return the names of fields with their types and sizes."""
    found = set()
    for field in fields:
        size = field.get("params", {}).get("dim") or field.get("params", {}).get("max_length") or ""
        found.add((field["name"], f"{field['type'].name} {size}".strip()))
    return found
