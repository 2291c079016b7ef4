"""What is fuzzed holds: for every input that was ever kept, and for new ones each time.

``make fuzz`` runs the same targets for as long as one likes.
"""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import ROOT, examples
from targets import CORPUS, NAMES, Target, target

SLOW = ("worded_dates", "plans", "letters", "door")
FIRST = {
    "edits": st.sampled_from(["a=tNew", "a=n", "b=lta|tb", "facts=dx~i1", "title=f0.5"]),
    "arguments": st.sampled_from(["memory_recall", "set_plans", "store_episode", "register_tool"]),
    "door": st.sampled_from(["memory_recall", "memory_list", "memory_show", "get_plans"]),
}
"""First lines of targets whose bytes begin with one."""
FRAMED = ("headers", "letters", "plans", "tool_files")
"""Targets of files with a header."""


@st.composite
def inputs(draw: st.DrawFn, chosen: Target) -> bytes:
    """Make an input of a target: any bytes, or words that it knows, in their place."""
    if draw(st.integers(0, 3)) == 0:
        return draw(st.binary(max_size=200))
    words = st.one_of(
        st.sampled_from(chosen.tokens), st.sampled_from(chosen.tokens), st.text(max_size=6)
    )
    text = "".join(draw(st.lists(words, max_size=12)))
    if chosen.name in FRAMED:
        text = f"---\n{text}\n---\n{draw(words)}"
    if chosen.name in FIRST:
        text = f"{draw(FIRST[chosen.name])}\n{text}"
    return text.encode("utf-8", "surrogateescape" if _is_spelt(text) else "replace")


def _is_spelt(text: str) -> bool:
    """Say whether the half characters of a text are bytes that are no UTF-8."""
    return not re.search("[\ud800-\udc7f\udd00-\udfff]", text)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_fuzzed_holds_for_new_inputs(name: str) -> None:
    """Whatever the bytes, each reader keeps its promises and fails only as it says."""
    chosen = target(name)

    @settings(max_examples=examples(20 if name in SLOW else 60))
    @given(inputs(chosen))
    def holds(data: bytes) -> None:
        chosen.check(data)

    holds()


@pytest.mark.parametrize("name", NAMES)
def test_what_is_fuzzed_holds_for_the_inputs_that_were_kept(name: str) -> None:
    """No input that a fuzzer ever found worth keeping breaks a promise again."""
    chosen = target(name)
    kept = sorted(chosen.corpus.iterdir())
    assert kept
    for file in kept:
        try:
            chosen.check(file.read_bytes())
        except Exception as error:
            error.add_note(f"with {file.relative_to(ROOT)}")
            raise


def test_the_kept_inputs_are_few_and_of_no_machine() -> None:
    """The corpus stays small, and says nothing of the machine that it was made on."""
    files = [file for file in CORPUS.rglob("*") if file.is_file()]
    assert {file.parent.name for file in files} == set(NAMES)
    assert sum(file.stat().st_size for file in files) < 200_000
    machine = re.compile(rb"/(home|Users|root|tmp|work)/")
    told = [file for file in files if machine.search(file.read_bytes())]
    assert not told
