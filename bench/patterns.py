"""Test every regular expression of the package on texts that are hard for it.

A text of twice the length may take at most three times as long; a pattern used only on short texts
may take up to 0.01 s on the longest of them. Prints a table with one line per pattern and its
slowest text; exits with 1 if a pattern is too slow.
"""

from __future__ import annotations

import argparse
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from hard_texts import Hard, hard_texts
from pattern_source import BOUNDS, Used, patterns

__all__ = ["TooSlow", "limited", "tried"]

_FIRST = 4_000
"""The text length at which quadratic growth is visible, because it takes at least 2 ms."""
_SUSPICIOUS = 0.001
_SLOWEST = 8
"""The number of strings per pattern whose growth is measured, in addition to unusually slow ones.
"""
_MEASURABLE = 0.01
_LARGEST = 1_000_000
_MOST_GROWTH = 3.0
_GIVE_UP = 20.0


class TooSlow(Exception):
    """A pattern did not finish within the time limit."""


class Worst(NamedTuple):
    """A pattern's slowest case: method, text, seconds for ``size`` characters, growth."""

    method: str
    hard: Hard
    size: int
    seconds: float
    growth: float


_METHODS: dict[str, Callable[[re.Pattern[str], str], object]] = {
    "match": lambda pattern, text: pattern.match(text),
    "search": lambda pattern, text: pattern.search(text),
    "fullmatch": lambda pattern, text: pattern.fullmatch(text),
    "sub": lambda pattern, text: pattern.sub(text[:0], text),
    "subn": lambda pattern, text: pattern.subn(text[:0], text),
    "split": lambda pattern, text: pattern.split(text),
    "findall": lambda pattern, text: pattern.findall(text),
    "finditer": lambda pattern, text: sum(1 for _ in pattern.finditer(text)),
}


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Abort computations that exceed a limit with ``TooSlow``."""

    def late(*_: object) -> None:
        raise TooSlow(f"more than {seconds:g} s")

    before = signal.signal(signal.SIGVTALRM, late)
    # CPU time, which other programs do not affect.
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def tried(used: Used, method: str, text: str) -> float:
    """Apply a pattern to a string; return the CPU seconds of this process."""
    pattern: re.Pattern[Any] = used.pattern
    given: Any = text if isinstance(pattern.pattern, str) else text.encode("utf-8", "replace")
    start = time.process_time()
    _METHODS[method](pattern, given)
    return time.process_time() - start


def worst(used: Used, most: int) -> Worst:
    """Return the string whose time grows fastest with its length, or else the slowest string."""
    if used.where in BOUNDS:
        return _bounded(used, most, BOUNDS[used.where])
    tries = [(method, hard) for hard in hard_texts(used.pattern, most) for method in used.methods]
    timed: list[tuple[float, str, Hard]] = []
    for method, hard in tries:
        text = hard.text(_FIRST)
        try:
            with limited(_GIVE_UP):
                timed.append((tried(used, method, text), method, hard))
        except TooSlow:
            return Worst(method, hard, len(text), _GIVE_UP, float("inf"))
    timed.sort(key=lambda entry: -entry[0])
    found: list[Worst] = []
    for seconds, method, hard in timed:
        if len(found) >= _SLOWEST and seconds < _SUSPICIOUS:
            break
        try:
            with limited(_GIVE_UP):
                found.append(_grown(used, method, hard))
        except TooSlow:
            found.append(Worst(method, hard, _FIRST, _GIVE_UP, float("inf")))
        if found[-1].growth > _MOST_GROWTH:
            break
    return max(found, key=lambda entry: (entry.growth > _MOST_GROWTH, entry.seconds / entry.size))


def _bounded(used: Used, most: int, size: int) -> Worst:
    """Return the slowest text of at most ``size`` characters."""
    found = []
    for hard in hard_texts(used.pattern, most):
        text = hard.text(size)[:size]
        for method in used.methods:
            with limited(_GIVE_UP):
                seconds = _best(used, method, text)
            growth = float("inf") if seconds > _MEASURABLE else 0.0
            found.append(Worst(method, hard, len(text), seconds, growth))
    return max(found, key=lambda entry: entry.seconds)


def _grown(used: Used, method: str, hard: Hard) -> Worst:
    """Measure how much longer a text of twice the length takes; repeat slow measurements."""
    size = _FIRST
    while (seconds := _best(used, method, hard.text(size))) < _MEASURABLE and size < _LARGEST:
        size *= 2
    if seconds < _MEASURABLE:
        return Worst(method, hard, size, seconds, 0.0)
    growth = float("inf")
    for _ in range(4):
        growth = min(growth, _best(used, method, hard.text(2 * size)) / seconds)
        if growth <= _MOST_GROWTH:
            break
        seconds = _best(used, method, hard.text(size))
    return Worst(method, hard, size, seconds, growth)


def _best(used: Used, method: str, text: str) -> float:
    return min(tried(used, method, text) for _ in range(3))


def main() -> None:
    """Test all patterns, or those whose location contains a given text."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--texts", type=int, default=1500, help="texts for each pattern")
    options.add_argument("--only", default="", help="only patterns whose location contains it")
    given = options.parse_args()
    failed = 0
    found = [used for used in patterns() if given.only in used.where]
    for used in found:
        slowest = worst(used, given.texts)
        bad = slowest.growth > _MOST_GROWTH
        failed += bad
        growth = f"{slowest.growth:4.1f}x"
        print(
            f"{'SLOW' if bad else 'ok':4}  {used.where:52} {slowest.method:9} "
            f"{slowest.size:>9,} {slowest.seconds * 1000:8.2f} ms {growth}  {slowest.hard}",
            flush=True,
        )
    print(f"{len(found)} patterns, {failed} too slow")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
