"""Expressions that choose memories: what they say of times."""

from __future__ import annotations

import pytest

from memvault.errors import UsageError
from memvault.recall.filters import compile_expression

MEMORY = {"created": "2026-11-22T10:30:00.000Z", "modified": "2026-12-01T00:00:00.000Z"}


@pytest.mark.parametrize(
    "text",
    [
        "created == '2026-11-22'",
        "created <= '2026-11-22'",
        "created >= '2026-11-22'",
        "created == '2026-11'",
        "'2026' == created",
        "created < '2026-11-23' and created > '2026-11-21'",
        "'2026-11-01' <= created < '2026-12'",
        "created == '2026-11-22T11:30+01:00'",
        "created < '2026-11-22 10:31'",
        "modified != '2026-11-30'",
        "modified > created",
        "created.startswith('2026-11-22T')",
    ],
)
def test_a_date_means_the_whole_day(text: str) -> None:
    """Dates, months, years and times in any zone compare as people mean them."""
    assert compile_expression(text)(MEMORY)


@pytest.mark.parametrize(
    "text", ["created < '2026-11-22'", "created > '2026-11-22'", "modified == '2026-11'"]
)
def test_what_is_not_in_a_day_is_not_found(text: str) -> None:
    """A day is neither before nor after itself."""
    assert not compile_expression(text)(MEMORY)


@pytest.mark.parametrize("text", ["yesterday", "22.11.2026", "2026-13", "", "x" * 500])
def test_a_time_that_is_none_is_refused(text: str) -> None:
    """A filter that could never fit is refused in one sentence, not answered with nothing."""
    with pytest.raises(UsageError) as failed:
        compile_expression(f"created > {text!r}")
    assert len(failed.value.message) < 150
    assert "2026-01-31" in failed.value.hint
