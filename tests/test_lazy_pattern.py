"""A pattern compiled on first use equals the pattern of ``re.compile``."""

from __future__ import annotations

import re

import pytest

from memvault.lazy_pattern import lazy_pattern


def test_lazy_pattern_behaves_like_compiled_pattern() -> None:
    """A lazy pattern has the methods, attributes and flags of the compiled pattern."""
    made, compiled = (
        lazy_pattern(r"(?P<word>\w+)|-", re.ASCII),
        re.compile(r"(?P<word>\w+)|-", re.ASCII),
    )
    for text in ("", "one two", "--", "äh", "a-b"):
        assert made.findall(text) == compiled.findall(text)
        assert made.sub("x", text) == compiled.sub("x", text)
        assert made.split(text) == compiled.split(text)
        assert [found.span() for found in made.finditer(text)] == [
            found.span() for found in compiled.finditer(text)
        ]
        assert (made.match(text) is None) == (compiled.match(text) is None)
        assert (made.fullmatch(text) is None) == (compiled.fullmatch(text) is None)
    assert (made.pattern, made.flags) == (compiled.pattern, compiled.flags)
    assert (made.groups, made.groupindex) == (compiled.groups, compiled.groupindex)


def test_lazy_pattern_with_error_fails_on_first_use() -> None:
    """A syntax error is raised at the first use, as ``re`` raises it."""
    made = lazy_pattern("(")
    with pytest.raises(re.error, match="unterminated subpattern"):
        made.search("x")
