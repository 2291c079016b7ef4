"""Rows read from an engine are valid or dropped, regardless of its contents."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import only_with
from memvault.errors import MemvaultError
from memvault.index.milvus import keyword_rows, text_rows
from memvault.index.milvus.engine_errors import (
    EngineAddress,
    EngineRefused,
    EngineUnavailable,
    map_error,
)
from memvault.index.milvus.publication import Publication

pytestmark = only_with("pymilvus", extra="milvus")
RECORD = {
    **dict.fromkeys(text_rows.RECORD_FIELDS, ""),
    "uid": 1,
    "size": 3,
    "path": "fact/tea.md",
    "mem_id": "tea-7k2m9q",
    "title": "Tea",
    "tags": ["drinks"],
    "metadata": {},
}
"""An engine's record of a memory."""


@pytest.mark.parametrize(
    "record",
    [
        "",
        "[]",
        '{"record": {}, "lengths": {}, "times": [0, 0]}',
        json.dumps({"record": RECORD, "lengths": {}, "times": 0}),
        json.dumps({"record": RECORD, "lengths": [], "times": [0, 0]}),
        json.dumps({"record": {**RECORD, "path": "../../x.md"}, "lengths": {}, "times": [0, 0]}),
        json.dumps({"record": {**RECORD, "mem_id": "../x"}, "lengths": {}, "times": [0, 0]}),
        json.dumps({"record": {**RECORD, "title": 3}, "lengths": {}, "times": [0, 0]}),
        json.dumps({"record": {**RECORD, "tags": [3]}, "lengths": {}, "times": [0, 0]}),
        json.dumps({"record": {**RECORD, "metadata": "x"}, "lengths": {}, "times": [0, 0]}),
        json.dumps({"record": {**RECORD, "more": 1}, "lengths": {}, "times": [0, 0]}),
        json.dumps({"record": {**RECORD, "vault": "x"}, "lengths": {}, "times": [0, 0]}),
        "[" * 10_000,
    ],
)
def test_untrusted_engine_rows_are_validated(record: str) -> None:
    """A row that cannot be a memory is dropped; all others are read."""
    assert text_rows.parse_row(1, record) is None
    whole = {"record": RECORD, "lengths": {"body": 3}, "times": [0, 0], "is_text": True}
    found = text_rows.parse_row(1, json.dumps(whole))
    assert found is not None
    assert found.record.title == "Tea"


@pytest.mark.parametrize("lengths", [[1], "abc", {"body": "x"}, {"body": [1]}, {"body": -1}, None])
def test_invalid_field_lengths_are_dropped(lengths: object) -> None:
    """Only integer term counts of known fields are scored."""
    assert not keyword_rows.are_lengths(lengths)
    assert keyword_rows.are_lengths({"body": 3})


@given(st.text(), st.booleans())
def test_row_text_decodes_any_encoding(text: str, is_text: bool) -> None:
    """Decoding accepts any string; the etag detects invalid encodings."""
    assert isinstance(text_rows.bytes_of(text, is_text), bytes)


@pytest.mark.parametrize(
    ("uri", "said", "kind"),
    [
        ("http://auth.example:1", "Fail connecting to server on auth.example:1", EngineUnavailable),
        ("http://full.example:1", "Fail connecting to server on full.example:1", EngineUnavailable),
        ("http://h:1", "collection permissions_words is not there", EngineUnavailable),
        ("http://h:1", "auth check failure", EngineRefused),
        ("/tmp/full/x.db", "Open local milvus failed", EngineUnavailable),
    ],
)
def test_engine_name_in_error_is_ignored(uri: str, said: str, kind: type[MemvaultError]) -> None:
    """The name of an unavailable engine or collection is not mistaken for a refusal."""
    from pymilvus.exceptions import MilvusException

    error = MilvusException(message=said)
    found = map_error(error, EngineAddress(uri, "permissions", "x"))
    assert type(found) is kind
    assert found is not None
    assert "is full" not in found.message


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
said = st.dictionaries(st.sampled_from([*Publication._fields, "more"]), values)


@pytest.mark.promise("S19")
@given(values | said)
def test_publication_parser_accepts_any_row(told: object) -> None:
    """A publication's strings are valid, its numbers are not negative, and it round-trips."""
    card = Publication.from_json(told)
    for value, default in zip(card, Publication("", "", ""), strict=True):
        assert type(value) is type(default)
    assert min(card.documents, card.memories, card.removed, *card.recently_removed, 0) == 0
    assert Publication.from_json(card.to_json()) == card
    assert Publication.from_json(json.loads(json.dumps(card.to_json()))) == card


@pytest.mark.promise("S19")
@given(said)
def test_record_parser_accepts_any_row(told: dict[str, object]) -> None:
    """Values that the manifest cannot store are dropped without an error."""
    for name, value in told.items():
        record = {**RECORD, "metadata": {"supersedes": value}, name: value}
        text = json.dumps({"record": record, "lengths": {"body": value}, "times": [value, 0]})
        text_rows.parse_row(1, text)
        text_rows.parse_row(1 << 70, text)
