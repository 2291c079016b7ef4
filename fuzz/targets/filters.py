"""Any filter is refused in one sentence, or true or false for each memory; it executes nothing."""

from __future__ import annotations

from typing import Any

from memvault.errors import UsageError
from memvault.index.protocol import MemoryRecord
from memvault.recall.filter_expression import compile_expression
from memvault.recall.filters import Filters, values_of
from targets.shapes import text_of

TOKENS = tuple(
    "created|modified|tags|title|area|importance|status|db|'main'|'2026-01-01'|'2026-01'|0.5|"
    "1|-1|None|"
    "True|False|==|!=|<|<=|>|>=| in | not in | and | or |not |is|(|)|[|]|{|}|,|.startswith(|"
    ".endswith(|"
    ".contains(|.lower()|__class__|lambda x: |import|f'{a}'|b''|...|1j|0x|1e999|'|\"|\\|\n|#|"
    ":=|*|**|~|@".split("|")
)


def _record(**header: Any) -> dict[str, Any]:
    moment = "2026-11-22T10:30:00.000Z"
    names = ("m1", "Use PostgreSQL", "learning", ("db", "x"), moment, moment)
    return values_of(
        MemoryRecord(1, "notes/a.md", 9, "e", *names, header, "", "english", "header", "header")
    )


_RECORDS = (
    _record(),
    _record(area="main", importance=0.5, status=None, db=["x", 1, None, ["y"]]),
    _record(area={"main": 1}, importance=10**18, status=True, db="x"),
)


def check(data: bytes) -> None:
    """Parse a filter, and apply it to memories."""
    text = text_of(data)
    try:
        passes = compile_expression(text)
    except UsageError as error:
        assert error.hint
        assert len(error.message) < 5_000
        return
    found = [passes(values) for values in _RECORDS]
    assert all(type(value) is bool for value in found)
    assert found == [passes(values) for values in _RECORDS]
    assert Filters(expression=text).predicate() is not None
    try:
        opposite = compile_expression(f"not ({text.strip()}\n)")
    except UsageError:  # too long now, or the text is complete only without a bracket
        return
    assert [not value for value in found] == [opposite(values) for values in _RECORDS]
