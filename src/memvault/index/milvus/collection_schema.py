"""The schemas of the collections in Milvus."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from memvault.index.embedding.embedder import read_card
from memvault.index.embedding.wordpiece import DATA

FORMAT = "format_2"
"""A field whose name is the row format's version, because some engines store no other metadata."""
TEXT = 65_535
"""The maximum size in bytes of a text field in Milvus."""


def collection_schema(kind: str) -> tuple[Any, Any]:
    """Return a collection's schema, and its indexes."""
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
        # Every collection must have a vector.
        schema.add_field("place", DataType.FLOAT_VECTOR, dim=2)
        index.add_index("place", index_type="FLAT", metric_type="L2")
    else:
        schema.add_field("passage", DataType.INT64)
        schema.add_field("hash", DataType.INT64)
        schema.add_field("dense", DataType.FLOAT_VECTOR, dim=read_card(DATA).dimension)
        # If a memory has hundreds of identical passages, an approximate index may find only it.
        index.add_index("dense", index_type="FLAT", metric_type="COSINE")
    return schema, index


def signature(fields: Sequence[dict[str, Any]]) -> set[tuple[str, str]]:
    """Return the names, types and sizes of fields."""
    names = set()
    for field in fields:
        size = field.get("params", {}).get("dim") or field.get("params", {}).get("max_length") or ""
        names.add((field["name"], f"{field['type'].name} {size}".strip()))
    return names
