"""Fuzz targets pass for saved and new inputs, and no regular expression stalls."""

from __future__ import annotations

import ast
import hashlib
import re
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hard_texts as texts_source
from conftest import ROOT, SOAK, examples, sampled, soak_only
from hard_texts import hard_texts
from pattern_source import BOUNDS, METHODS, Used, patterns
from patterns import TooSlow, limited, tried
from targets import CORPUS, NAMES, Target, target

SLOW = ("worded_dates", "plans", "inbox_files", "door", "gateway", "messages", "pages")
NEED_MCP = ("gateway", "messages", "pages")
"""Targets that need the MCP SDK."""
FIRST = {
    "edits": st.sampled_from(["a=tNew", "a=n", "b=lta|tb", "facts=dx~i1", "title=f0.5"]),
    "arguments": st.sampled_from(["memory_recall", "set_plans", "store_episode", "register_tool"]),
    "door": st.sampled_from(["memory_recall", "memory_list", "memory_show", "get_plans"]),
    "gateway": st.sampled_from(["memory_recall", "resources/read", "POST /mcp HTTP/1.1\r"]),
    "messages": st.sampled_from(["memory_recall", "memory_remember", "prompts/get", "[1,"]),
    "pages": st.sampled_from(["/?q=", "/m/", "GET / HTTP/1.1\r\nHost: localhost:8421\r"]),
}
"""First lines for targets whose input begins with a line."""
FRAMED = ("headers", "inbox_files", "plans", "tool_files")
"""Targets that read files with a header."""


@st.composite
def inputs(draw: st.DrawFn, chosen: Target) -> bytes:
    """Generate an input of a target: arbitrary bytes, or its keywords at valid positions."""
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


def chosen_target(name: str) -> Target:
    """Return a target; skip the test if it needs the MCP SDK and that is not installed."""
    if name in NEED_MCP:
        pytest.importorskip(
            "mcp", reason="the MCP SDK is not installed: pip install 'memvault[mcp]'"
        )
    return target(name)


def _is_spelt(text: str) -> bool:
    """Return whether a string's lone surrogates are bytes that are not UTF-8."""
    return not re.search("[\ud800-\udc7f\udd00-\udfff]", text)


@pytest.mark.promise("R12", "R13", "R14", "R15", "R16", "R17", "R18")
@pytest.mark.promise("R75", "R76", "R77", "R78", "R79", "S102", "S103")
@pytest.mark.parametrize("name", NAMES)
def test_fuzz_targets_pass_on_new_inputs(name: str) -> None:
    """For arbitrary bytes, each reader meets its guarantees and fails only as documented."""
    chosen = chosen_target(name)

    @settings(max_examples=examples(10 if name in SLOW else 30))
    @given(inputs(chosen))
    def holds(data: bytes) -> None:
        chosen.check(data)

    holds()


@pytest.mark.parametrize("name", NAMES)
def test_fuzz_targets_pass_on_corpus_inputs(name: str) -> None:
    """Every input in the fuzz corpus still meets the guarantees."""
    chosen = chosen_target(name)
    kept = sorted(chosen.corpus.iterdir())
    assert kept
    for file in kept:
        try:
            chosen.check(file.read_bytes())
        except Exception as error:
            error.add_note(f"with {file.relative_to(ROOT)}")
            raise


def test_fuzz_corpus_is_small_and_has_no_local_paths() -> None:
    """The corpus stays small and contains no paths of the machine that created it."""
    files = [file for file in CORPUS.rglob("*") if file.is_file()]
    assert {file.parent.name for file in files} == set(NAMES)
    assert sum(file.stat().st_size for file in files) < 200_000
    machine = re.compile(rb"/(home|Users|root|tmp|work)/")
    told = [file for file in files if machine.search(file.read_bytes())]
    assert not told


_TRIED = Path(__file__).with_name("tried_patterns.txt")
"""A line for each pattern that finished on all its test strings; ``make soak`` writes it."""
_SIZE = 3_000
_TEXTS = 500
_BOUND = 5.0
_TIMES = 20
"""A quadratic pattern that takes 0.02 s takes 8 s for a string this many times as long."""
_SLOWEST = 3
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef)


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


@cache
def _code_of_texts() -> str:
    """Return the code that generates the test strings, without comments and docstrings."""
    tree = ast.parse(Path(str(texts_source.__file__)).read_text("utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node):
            del node.body[0]
    return ast.unparse(tree)


def _line(used: Used) -> str:
    """Return a hash of everything that determines how a pattern is tested.

    A pattern that changes, is used in another way or is applied to longer strings has another hash.
    """
    given = (
        _code_of_texts(),
        (_SIZE, _TEXTS, _BOUND, _TIMES, _SLOWEST),
        (used.pattern.pattern, used.pattern.flags, sorted(used.methods), BOUNDS.get(used.where)),
    )
    return hashlib.sha256(repr(given).encode()).hexdigest()[:32]


def _known() -> set[str]:
    return set(_TRIED.read_text("utf-8").split())


@pytest.mark.promise("S52")
def test_regex_patterns_take_bounded_time() -> None:
    """On 60,000 characters of any repeated string, each regular expression ends in seconds."""
    lines = {_line(used): used for used in patterns()}
    untried = lines.keys() - (set() if SOAK else _known())
    assert SOAK or len(untried) < len(lines) / 2, (
        "the test strings have changed; retest all patterns and update tried_patterns.txt with:"
        " SOAK_SECONDS=1 python -m pytest tests/test_fuzzed.py -k regex_patterns"
    )
    for line in sorted(untried):
        used = lines[line]
        try:
            _try(used)
        except TooSlow as error:
            pytest.fail(f"{used.where}: {used.pattern.pattern!r}: {error}")
    if SOAK:
        _TRIED.write_text("".join(f"{line}\n" for line in sorted(lines)), "utf-8")


@sampled(5)
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
def test_stalling_regex_pattern_is_detected(slow: str) -> None:
    """The test strings detect patterns that once hung, and none of those counts as tested."""
    flags = re.MULTILINE | re.DOTALL if slow.startswith("^") else 0
    used = Used("", re.compile(slow, flags), METHODS & {"findall", "search"})
    assert _line(used) not in _known()
    with pytest.raises(TooSlow):
        _try(used, 0.5)


@soak_only
def test_changed_regex_pattern_is_tested_again() -> None:
    """A changed pattern, flag or usage makes a tested pattern untested."""
    known = _known()
    used = next(used for used in patterns() if _line(used) in known)
    changed = re.compile(f"(?:{used.pattern.pattern})", used.pattern.flags)
    others = [
        used._replace(pattern=changed),
        used._replace(pattern=re.compile(used.pattern.pattern, used.pattern.flags ^ re.DOTALL)),
        used._replace(methods=used.methods ^ METHODS),
    ]
    assert not {_line(other) for other in others} & known
