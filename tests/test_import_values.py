"""Values that several importers write: keys, links, tasks and tables."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memvault.importers import convert, outlines, plain_text

KEYS = st.lists(st.from_regex(r"[ab](-[1-3]){0,2}", fullmatch=True))


@given(keys=KEYS)
def test_numbered_keys_are_unique(keys: list[str]) -> None:
    """Keys are unique, and the first record with a key keeps it."""
    seen: Counter[str] = Counter()
    made = [convert.unique_key(key, seen) for key in keys]
    assert len(set(made)) == len(made)
    assert keys[:1] == made[:1]


@given(pairs=st.lists(KEYS.filter(bool)))
def test_free_keys_are_unique(pairs: list[list[str]]) -> None:
    """A record gets its other key if the first is taken, and a number if both are."""
    seen: Counter[str] = Counter()
    made = [convert.unique_key_or(seen, keys[0], keys[-1]) for keys in pairs]
    assert len(set(made)) == len(made)


@pytest.mark.parametrize(
    ("url", "title", "link"),
    [
        ("https://a.example/b", "A [b]\n*c*", "[A \\[b\\] \\*c\\*](<https://a.example/b>)"),
        ("https://a.example/b", None, "[a.example](<https://a.example/b>)"),
        ("https://a.example/<b>", "A", ""),
        ("file:///etc/passwd", "A", ""),
        ({"url": "https://a.example/"}, "A", ""),
    ],
)
def test_web_link_is_a_page_with_its_title(url: object, title: object, link: str) -> None:
    """Only a web URL becomes a link, labeled by its host if it has no title."""
    assert convert.web_link(url, title) == link


def test_table_may_have_short_rows_and_limited_cells() -> None:
    """The head has all columns, empty rows are omitted, and too many cells are an error."""
    assert plain_text.table([["a"], [], ["b", "c"]]) == "| a |  |\n| --- | --- |\n| b | c |"
    assert plain_text.table([[]]) == ""
    with pytest.raises(ValueError, match="more than 200,000 cells"):
        plain_text.table([["a"] * plain_text.MAX_CELLS, ["b"]])


def test_link_to_a_missing_page_keeps_its_label() -> None:
    """A link's label is kept if the missing page's name contains links."""
    link = "[[{}]]".format
    assert outlines.link_missing("a [[b]]", "", lambda name, _: link(name)) == "a [[b]]"
    assert outlines.link_missing("a [[b]]", "see", lambda name, _: link(name)) == "see (a [[b]])"
