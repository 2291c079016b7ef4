"""Which statements say the same in a word or two more or less, however many there are."""

from __future__ import annotations

import tracemalloc
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from memvault.consolidation.statements import LEAST_WORDS, Statement, StatementIndex, shortens

WORDS = ["cache", "server", "backup", "log", "a1", "7", "not"]
FIXED = frozenset({"not", "a1"})


def said(stems: tuple[str, ...], text: str = "") -> Statement:
    """Return a statement of stems, of which those that are fixed may not go."""
    return Statement(text or " ".join(stems), (stems, ("", "")), FIXED.intersection(stems))


def shorter(whole: Statement) -> set[tuple[str, ...]]:
    """Return by trying what a statement is without one word of four, or two of eight."""
    stems = whole.stems
    free = [
        place for place, stem in enumerate(stems) if stem not in whole.fixed and not stem.isdigit()
    ]
    return {
        kept
        for count in range(1, min(2, len(stems) // 4) + 1)
        for gone in combinations(free, count)
        if len(kept := tuple(s for n, s in enumerate(stems) if n not in gone)) >= LEAST_WORDS
    }


statements = st.lists(st.sampled_from(WORDS), min_size=1, max_size=10).map(tuple).map(said)


@given(statements, statements)
def test_what_shortens_a_statement_is_what_trying_finds(one: Statement, other: Statement) -> None:
    """A word or two may go, but no names, numbers or negations, whatever else is there."""
    assert shortens(one, other) == (one.stems in shorter(other))


@given(st.lists(statements, max_size=12), statements)
def test_the_statement_that_says_the_same_is_found(taken: list[Statement], new: Statement) -> None:
    """Looking up finds what comparing with each statement would find."""
    known = StatementIndex(lambda *_: 0.9)
    for entry in taken:
        known.add(entry)
    fitting = [
        entry.key
        for entry in taken
        if entry.stems in shorter(new) or new.stems in shorter(entry) or entry.key == new.key
    ]
    found = known.find(new)
    assert (found.key if found else None) == (
        new.key if new.key in fitting else min(fitting, default=None)
    )


def test_a_long_sentence_takes_little_memory() -> None:
    """A thousand sentences of forty words are kept in a few megabytes."""
    known = StatementIndex(lambda *_: 0.0)
    many = [said(tuple(f"w{number}x{place}" for place in range(40))) for number in range(1_000)]
    tracemalloc.start()
    for entry in many:
        known.add(entry)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20_000_000
