"""No regular expression of the package stalls on a text that was made for it."""

from __future__ import annotations

import re

import pytest

from hard_texts import hard_texts
from pattern_source import BOUNDS, METHODS, Used, patterns
from patterns import TooSlow, limited, tried

_SIZE = 3_000
_TEXTS = 500
_BOUND = 5.0
_TIMES = 20
"""What takes 0.02 s and grows with the square of the text takes 8 s for so many times the text."""
_SLOWEST = 3


def _try(used: Used, seconds: float = _BOUND) -> None:
    bound = BOUNDS.get(used.where)
    timed = []
    for hard in hard_texts(used.pattern, _TEXTS):
        for method in used.methods:
            with limited(seconds):
                timed.append((tried(used, method, hard.text(_SIZE)[:bound]), method, hard))
    timed.sort(key=lambda entry: -entry[0])
    for _, method, hard in timed[:_SLOWEST]:
        with limited(seconds):
            tried(used, method, hard.text(_SIZE * _TIMES)[:bound])


@pytest.mark.parametrize("used", patterns(), ids=lambda used: used.where)
def test_a_pattern_comes_to_its_end_soon(used: Used) -> None:
    """Whatever a text repeats, each pattern is done with 60,000 characters of it in seconds."""
    _try(used)


@pytest.mark.parametrize(
    "slow",
    [
        r"^<{7} .*?^={7}$.*?^>{7} ",
        r"<(?=\s*/?\s*memory\W{0,3}_?data)",
        r"\w*[A-Z][\w]*",
        r"“([^”]+)”",
        r"(a|a)*b",
    ],
)
def test_a_pattern_that_stalls_is_noticed(slow: str) -> None:
    """Patterns that once stopped a vault are found by the same texts."""
    flags = re.MULTILINE | re.DOTALL if slow.startswith("^") else 0
    with pytest.raises(TooSlow):
        _try(Used("", re.compile(slow, flags), METHODS & {"findall", "search"}), 1.0)
