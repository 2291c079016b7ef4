"""No regular expression of the package stalls on a text that was made for it."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

import hard_texts as texts_source
from conftest import SOAK
from hard_texts import hard_texts
from pattern_source import BOUNDS, METHODS, Used, patterns
from patterns import TooSlow, limited, tried

_TRIED = Path(__file__).with_name("tried_patterns.txt")
"""A line for each pattern that came to its end on all its texts; ``make soak`` writes it."""
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


def _line(used: Used) -> str:
    """Return a hash of all that decides how a pattern is tried, the making of the texts included.

    A pattern that changes, is used in another way or meets longer texts has another one.
    """
    source = Path(str(texts_source.__file__)).read_bytes()
    given = (
        hashlib.sha256(source).hexdigest(),
        (_SIZE, _TEXTS, _BOUND, _TIMES, _SLOWEST),
        (used.pattern.pattern, used.pattern.flags, sorted(used.methods), BOUNDS.get(used.where)),
    )
    return hashlib.sha256(repr(given).encode()).hexdigest()[:32]


def _known() -> set[str]:
    return set(_TRIED.read_text("utf-8").split())


def test_a_pattern_comes_to_its_end_soon() -> None:
    """Whatever a text repeats, each pattern is done with 60,000 characters of it in seconds.

    Tried are those that no soak has tried as they are now; a soak tries all.
    """
    known = set() if SOAK else _known()
    lines = set()
    for used in patterns():
        line = _line(used)
        lines.add(line)
        if line not in known:
            try:
                _try(used)
            except TooSlow as error:
                pytest.fail(f"{used.where}: {used.pattern.pattern!r}: {error}")
    if SOAK:
        _TRIED.write_text("".join(f"{line}\n" for line in sorted(lines)), "utf-8")


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
    """Patterns that once stopped a vault are found by the same texts, and none counts as tried."""
    flags = re.MULTILINE | re.DOTALL if slow.startswith("^") else 0
    used = Used("", re.compile(slow, flags), METHODS & {"findall", "search"})
    assert _line(used) not in _known()
    with pytest.raises(TooSlow):
        _try(used, 0.5)


def test_a_pattern_that_changes_is_tried_again() -> None:
    """A pattern that was tried is tried anew once it, a flag or what is done with it changes."""
    known = _known()
    used = next(used for used in patterns() if _line(used) in known)
    changed = re.compile(f"(?:{used.pattern.pattern})", used.pattern.flags)
    others = [
        used._replace(pattern=changed),
        used._replace(pattern=re.compile(used.pattern.pattern, used.pattern.flags ^ re.DOTALL)),
        used._replace(methods=used.methods ^ METHODS),
    ]
    assert not {_line(other) for other in others} & known
