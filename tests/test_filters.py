"""Expressions that choose memories: what they mean, of times too, and that they run nothing."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from conftest import titles, write
from memvault import Vault
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


@pytest.mark.parametrize("expression", ["status != 'keep'", "importance < 0.5", "area == 'x'"])
def test_a_value_that_is_not_there_passes_no_comparison(
    vault: Vault, folder: Path, expression: str
) -> None:
    """A filter never takes in a memory for lack of the key it asks about."""
    write(folder, "a.md", "# A\n\nzebra\n")
    assert titles(vault.call("memory_list", filter=expression)) == []
    assert titles(vault.call("memory_list", filter="status == None")) == ["A"]


FORBIDDEN = """
    title.__class__   ().__class__.__bases__   __import__('os').system('true')   open('/etc/passwd')
    lower(title)   [x for x in tags]   (x for x in tags)   {x: 1 for x in tags}   {1: 2} == x
    lambda: 1   f'{title}' == 'x'   (x := 1)   tags[0] == 'x'   title[0:2]   title + 'x'   title % 1
    2 ** 9   -title   ~1   1 if title else 2   title is None   title.upper()   title.format(1)
    title.startswith(prefix='x')   title.startswith(*tags)   title.startswith   [*tags]   b'x' in t
    title.lower().__len__()   1j   ...   await x   x; y   x = 1   #   import os   x.lower(*())
""".strip()


@pytest.mark.parametrize("text", re.split(r"\s{3,}", FORBIDDEN))
def test_a_filter_runs_nothing(text: str) -> None:
    """Attributes, calls, comprehensions, subscripts and arithmetic are refused, never run."""
    for whole in (text, f"title == 'x' or {text}", f"not {text}"):
        with pytest.raises(UsageError):
            compile_expression(whole)


values = st.dictionaries(
    st.sampled_from("abc"),
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.lists(st.text()),
)


@given(st.text(st.characters(codec=None), max_size=60), values)
@example("'\ud800' == a\0", {})
@example("(" * 400, {})
@example("not " * 190 + "-" * 190 + "1", {})
@example("a == 9" + "9" * 1_900, {"a": 1})
def test_any_text_is_a_filter_or_a_usage_error(text: str, given_values: dict[str, Any]) -> None:
    """Nothing that a filter may hold ever raises anything but a usage error."""
    try:
        test = compile_expression(text)
    except UsageError:
        return
    assert test(given_values) in (True, False)


numbers = st.integers(-3, 3)


ATOMS = """
    a < b   a == 1   b != -2   a >= b   0 <= a < 2   a   b > 0 > a   a in [1, b]   s.lower() == 'x'
    'x' in t   'y' not in t   t == ['x']   s.startswith('x')
""".strip()


simple = st.recursive(
    st.sampled_from(re.split(r"\s{3,}", ATOMS)),
    lambda inner: (
        st.builds("({}) {} ({})".format, inner, st.sampled_from(["and", "or"]), inner)
        | st.builds("not ({})".format, inner)
    ),
    max_leaves=6,
)


@given(simple, numbers, numbers, st.lists(st.sampled_from("xyz")), st.sampled_from("xXy"))
def test_a_filter_means_what_it_means_in_python(
    text: str, a: int, b: int, t: list[str], s: str
) -> None:
    """Where all values are there, an expression is true exactly where Python says so."""
    names: dict[str, Any] = {"a": a, "b": b, "t": t, "s": s}
    assert compile_expression(text)(names) == bool(eval(text, {"__builtins__": {}}, names))
