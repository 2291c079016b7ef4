"""What is asked of Milvus: a vault's rows, found, counted, sent and deleted."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence, Set
from functools import partial
from typing import Any, NamedTuple

from memvault.index.milvus import schema
from memvault.index.milvus.card import Publication
from memvault.index.milvus.connection import Connection
from memvault.index.milvus.where import CollectionMissing, EngineRefused, display_address

Row = dict[str, Any]

KINDS = ("words", "passages", "memories")
_BATCH_BYTES = 4_000_000
_PUSHED = 5_000
"""Memories that a search is limited to in the engine; of more the rest is left out here."""
MOST = 16_000
"""Rows of one answer at most: Milvus gives no more than 16,384."""
_PAGE = 1_000
_PAGE_OF_TEXTS = 100


class Hit(NamedTuple):
    """A row that was found, and how well it fits."""

    row: Row
    score: float


class EngineClient(Connection):
    """The rows of all vaults in an engine; errors as for a connection."""

    def words(
        self, vault: str, generation: str, query: str, limit: int, among: Sequence[int] | None
    ) -> list[Hit]:
        """Return the documents of a vault that fit a query's tokens best."""
        where = _among(vault, generation, among)
        fields = ("uid", "block", "text", "lengths")
        return self._found("words", where, "sparse", query, limit, fields)

    def nearest(
        self,
        vault: str,
        generation: str,
        vector: Sequence[float],
        limit: int,
        among: Sequence[int] | None,
    ) -> list[Hit]:
        """Return the passages of a vault that are nearest to a vector."""
        where = _among(vault, generation, among)
        return self._found("passages", where, "dense", vector, limit, ("uid",))

    def holding(self, vault: str, generation: str, tokens: Sequence[str]) -> int:
        """Return how many documents of a vault hold one of some tokens."""
        return self.count(
            "words", f'{_of(vault, generation)} and TEXT_MATCH(text, "{" ".join(tokens)}")'
        )

    def rows(
        self, kind: str, vault: str, generation: str, uids: Sequence[int], fields: Sequence[str]
    ) -> Iterator[Row]:
        """Yield the rows of some memories."""
        name = self._named(kind)
        has_texts = kind == "memories" and "text" in fields
        size = _PAGE_OF_TEXTS if has_texts else _PAGE
        for first in range(0, len(uids), size):
            among = list(uids[first : first + size])
            where = f"{_of(vault, generation)} and uid in {among}"
            if has_texts:  # of any size
                yield from self._pages(name, where, fields, size)
                continue
            found = self._queried(name, where, fields, MOST)
            yield from found if len(found) < MOST else self._pages(name, where, fields, MOST)

    def every(
        self, kind: str, vault: str, generation: str, fields: Sequence[str], above: int = -1
    ) -> Iterator[Row]:
        """Yield all rows of one generation, or those of higher uids than one."""
        where = f"{_of(vault, generation)} and uid > {above}"
        yield from self._pages(self._named(kind), where, fields, MOST)

    def count(self, kind: str, expression: str) -> int:
        """Return how many rows an expression fits."""
        name = self._named(kind)
        found = self._asked(
            lambda client, left: client.query(
                name, filter=expression, output_fields=["count(*)"], timeout=left
            )
        )
        return int(found[0]["count(*)"])

    def put(self, kind: str, rows: Sequence[Row], told: Callable[[int], None]) -> None:
        """Send rows, those of the same ids in place of older ones; ``told`` hears how many."""
        name = self._named(kind)
        done = 0
        for batch in _batches([{**row, schema.FORMAT: 0} for row in rows]):
            self._asked(partial(_sent, name, batch))
            done += len(batch)
            told(done)

    def delete(self, kind: str, vault: str, generation: str, uids: Sequence[int]) -> None:
        """Delete the rows of some memories."""
        self._remove(kind, f"{_of(vault, generation)} and uid in {list(uids)}")

    def forget_from(self, kind: str, vault: str, generation: str, uid: int) -> None:
        """Delete the rows of the memories from one on."""
        self._remove(kind, f"{_of(vault, generation)} and uid >= {uid}")

    def delete_other_generations(self, kind: str, vault: str, generation: str) -> None:
        """Delete the rows of a vault that are of an older generation."""
        kept = f'["{generation}", "card"]'
        self._remove(kind, f'vault == "{vault}" and generation not in {kept}')

    def clear(self, vault: str) -> None:
        """Delete all rows of a vault."""
        for kind in KINDS:
            self._remove(kind, f'vault == "{vault}"')

    def card(self, vault: str) -> Publication | None:
        """Return what is said of a vault; None where it was never sent."""
        where = f'id == "{vault}-card"'
        for row in self._queried(self._named("words"), where, ("lengths",), 1):
            return Publication.from_json(row["lengths"])
        return None

    def cards(self) -> dict[str, Publication]:
        """Return what is said of each vault, by its id."""
        rows = self._pages(self._named("words"), 'generation == "card"', ("vault", "lengths"))
        return {row["vault"]: Publication.from_json(row["lengths"]) for row in rows}

    def publish(self, vault: str, card: Publication) -> None:
        """Say of a vault who sends it, and when that was."""
        about = {"id": f"{vault}-card", "vault": vault, "generation": "card", "uid": -1}
        row = {**about, "block": -1, "lengths": card.to_json(), "text": "card"}
        self.put("words", [row], lambda _: None)

    def _remove(self, kind: str, expression: str) -> None:
        name = self._named(kind)
        self._asked(lambda client, left: client.delete(name, filter=expression, timeout=left))

    def drop(self) -> None:
        """Drop the collections, with the rows of every vault."""
        for kind in KINDS:
            name = f"{self.where.collection}_{kind}"
            self._asked(partial(_dropped, name))
        self._ready.clear()

    def _found(
        self,
        kind: str,
        expression: str,
        field: str,
        query: Any,
        limit: int,
        fields: Sequence[str],
    ) -> list[Hit]:
        name = self._named(kind)
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

    def _queried(self, name: str, expression: str, fields: Sequence[str], limit: int) -> list[Row]:
        """Return the rows that an expression fits, by one request."""
        return [
            dict(row)
            for row in self._asked(
                lambda client, left: client.query(
                    name, filter=expression, output_fields=list(fields), limit=limit, timeout=left
                )
            )
        ]

    def _pages(
        self, name: str, expression: str, fields: Sequence[str], size: int = _PAGE
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

    def _named(self, kind: str) -> str:
        """Return a collection's name; it is there, as this version makes it, and loaded."""
        name = f"{self.where.collection}_{kind}"
        if name not in self._ready:
            there = self._asked(lambda client, left: client.has_collection(name, timeout=left))
            if not there and not self._makes:
                raise CollectionMissing(
                    f"collection {name} in the engine at {display_address(self.where)}"
                )
            if not there:
                self._asked(partial(_made, name, kind))
            self._check(name, kind)
            self._asked(lambda client, left: client.load_collection(name, timeout=left))
            self._ready.add(name)
        return name

    def _check(self, name: str, kind: str) -> None:
        """Make sure that a collection is ours: of this version, and of this embedder's vectors."""
        told = self._asked(lambda client, left: client.describe_collection(name, timeout=left))
        held = schema.signature(told["fields"])
        wanted = schema.signature(schema.of(kind)[0].to_dict()["fields"])
        if held != wanted:
            differs = ", ".join(sorted(f"{key} {value}" for key, value in held ^ wanted))
            raise EngineRefused(
                f"The collection {name} is not as this version makes it: {differs[:200]}",
                "memvault index drop, then memvault index push, makes it anew; "
                "or name another collection",
            )


def _sent(name: str, rows: Sequence[Row], client: Any, left: float) -> None:
    client.upsert(name, rows, timeout=left)


def _made(name: str, kind: str, client: Any, left: float) -> None:
    """Make a collection, unless another machine has just done so."""
    if not client.has_collection(name, timeout=left):
        made, index = schema.of(kind)
        client.create_collection(
            name, schema=made, index_params=index, consistency_level="Strong", timeout=left
        )


def _dropped(name: str, client: Any, left: float) -> None:
    client.drop_collection(name, timeout=left)


def pushdown_keys(among: Set[int] | None) -> list[int] | None:
    """Return the memories that a search is limited to in the engine; None for all."""
    few = among is not None and len(among) <= _PUSHED
    return sorted(uid for uid in among if uid >= 0) if few and among is not None else None


def _of(vault: str, generation: str) -> str:
    return f'vault == "{vault}" and generation == "{generation}"'


def _among(vault: str, generation: str, among: Sequence[int] | None) -> str:
    return _of(vault, generation) + ("" if among is None else f" and uid in {list(among)}")


def _batches(rows: Sequence[Row]) -> Iterator[list[Row]]:
    batch: list[Row] = []
    size = 0
    for row in rows:
        own = len(row.get("text", "").encode()) + len(row.get("record", "")) + 2_000
        if batch and size + own > _BATCH_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(row)
        size += own
    if batch:
        yield batch
