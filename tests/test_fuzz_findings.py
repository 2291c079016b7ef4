"""What fuzzing found is mended, and stays so: each finding with the input that showed it."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from memvault.agents.plans.schedule import latest, next_after
from memvault.arguments import parameters
from memvault.arguments.binding import bind
from memvault.errors import Refused, UsageError
from memvault.index.text.analysis import analyser, query_analyser
from memvault.model import FileState
from memvault.plugins.tool_file import tool_definition
from memvault.recall import dates
from memvault.vault import document
from memvault.vault.front_matter import dump_header, parse_header, patch_header


def test_taking_a_key_away_adds_no_header() -> None:
    """A file without front matter stays as it is where a key is taken away that it never had."""
    assert document.edit(b"text\n", {"status": None}, None) == b"text\n"
    assert document.edit(b"text\n", {"status": None, "a": 1}, None) == b"---\na: 1\n---\n\ntext\n"


@pytest.mark.parametrize("text", ["{" * 200, "[" * 200 + "]", "- " * 150 + "-", "? " * 120 + "x"])
def test_a_text_of_brackets_reads_back(text: str) -> None:
    """A value that only looks deeply nested is a text, and does not break its header."""
    file = document.Document.parse(document.encode_new({"a": text, "b": [text]}, "body"))
    assert file.header == {"a": text, "b": [text]}
    assert parse_header(patch_header("c: 1\n", {"a": text})) == {"c": 1, "a": text}


@pytest.mark.parametrize(
    ("start", "level"), [("x: ", '["]",'), ("x: ", "{']': "), ("x: ", "[ # ]\n "), ("", "- ")]
)
def test_no_depth_crashes_the_process(start: str, level: str) -> None:
    """A header nested without end is broken front matter, whatever hides its depth."""
    for levels in (200, 240_000 // len(level)):
        with pytest.raises(ValueError, match="nested too deeply"):
            parse_header(start + level * levels)


@pytest.mark.parametrize("number", [float("inf"), float("-inf")])
def test_a_number_without_end_reads_back_the_same_everywhere(number: float) -> None:
    """What JSON lets in as 1e400 is the same text in a new header and in one that is edited."""
    assert parse_header(dump_header({"a": [number]})) == {"a": [str(number)]}
    assert parse_header(patch_header("b: 1\n", {"a": number})) == {"b": 1, "a": str(number)}


def _nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value", [_nested(40), _nested(900), ["x"] * 5_001, "x" * 262_144, {"k" * 1_100: 1}]
)
def test_a_header_that_could_not_be_read_is_not_written(value: object) -> None:
    """What is too much for a header is refused before a file is written that nobody can read."""
    with pytest.raises(Refused):
        document.encode_new({"a": value}, "body")
    for file in (b"---\nb: 1\n---\n", b"body\n"):
        with pytest.raises(Refused):
            document.edit(file, {"a": value}, None)


def test_a_header_of_escapes_is_as_long_as_it_is_written() -> None:
    """A text that fits, but not once it is spelled out, is refused and not cut off."""
    with pytest.raises(Refused):
        document.encode_new({"a": "\x07" * 100_000}, "body")
    with pytest.raises(Refused):
        patch_header("b: 1\n", {"a": "\x07" * 100_000})


@pytest.mark.parametrize("rest", ["", "# why\n", "z: 1\n", "\n# why\n\nz: 1\n"])
def test_a_key_without_a_value_at_the_end_takes_nothing_along(rest: str) -> None:
    """Setting a mapping whose last value is not written keeps the lines that follow it."""
    header = f"facts:\n  ? x\n{rest}"
    fresh = document.edit(f"---\n{header}---\nbody\n".encode(), {"facts": "none"}, None).decode()
    assert fresh.endswith(f"\n{rest}---\nbody\n")
    assert document.Document.parse(fresh.encode()).header == {**parse_header(rest), "facts": "none"}


def test_an_entry_is_set_where_a_key_is_given_twice() -> None:
    """Of two values under one key the last counts, also where an entry of it is set."""
    file = b"---\nfacts: [b]\nfacts:\n  x: 1\n---\n"
    assert document.edit_entry(file, "facts", "x", 2) == file.replace(b"1", b"2")
    assert document.edit(b"---\na: 1\na: 2\n---\n", {"a": 3}, None) == b"---\na: 1\na: 3\n---\n"


@pytest.mark.parametrize("marks", ["\ufeff", "\ufeff\ufeff"])
def test_a_mark_of_byte_order_in_a_header_moves_no_edit(marks: str) -> None:
    """An edit finds its place behind a mark of byte order, and keeps the mark and other lines."""
    file = f"---\n{marks}a: 1\nb: 2\n---\n".encode()
    assert document.edit(file, {"b": "x"}, None) == f"---\n{marks}a: 1\nb: x\n---\n".encode()
    assert document.edit(file, {"a": None}, None) == f"---\n{marks}b: 2\n---\n".encode()
    tagged = f"---\n{marks}!\nb:\n-\n---".encode()  # what is left would be no mapping
    with pytest.raises(Refused, match="cannot be edited safely"):
        document.edit(tagged, {"b": None}, None)


def test_an_edit_after_which_the_file_would_read_otherwise_is_refused() -> None:
    """Where one byte told that a file is not UTF-8, taking it away may not change the rest."""
    file = b"---\na: \xff\n---\n" + "Grüße".encode() + b"\n"
    assert document.decode(file).encoding == "cp1252"
    with pytest.raises(Refused):
        document.edit(file, {"a": None}, None)
    assert document.edit(b"---\na: \xff\n---\nplain\n", {"a": None}, None) == b"---\n---\nplain\n"


@pytest.mark.parametrize("half", ["a\ud800", "\udcff"])
def test_half_a_character_reads_back_as_it_was_written(half: str) -> None:
    """What no file can hold is a question mark, in a new header and in one that is edited."""
    shown = half[:-1] + "?"
    for header in (dump_header({half: [half]}), patch_header("", {half: [half]})):
        assert parse_header(header) == {shown: [shown]}


@pytest.mark.parametrize(
    "given", [{"x" * 9_000: 1}, {"name": "a", "parameters": [{"name": "p", "type": "y" * 9_000}]}]
)
def test_a_refusal_does_not_repeat_pages(given: dict[str, object]) -> None:
    """A key or a choice of any length is named by its beginning."""
    with pytest.raises(UsageError) as failed:
        bind(parameters.parameters_of(tool_definition), given, "it")
    assert len(failed.value.message) < 300


@pytest.mark.parametrize(
    ("languages", "text"), [(("italian", "english"), "All's well that ends well")]
)
def test_a_contraction_is_no_article(languages: tuple[str, ...], text: str) -> None:
    """A query in English finds its own words in a vault that also has Italian or French."""
    words, _ = query_analyser(languages).query(text)
    for language in languages:
        stems = analyser(language).terms(text).stems
        assert all(any(stem in stems for stem in word) for word in words)


def test_days_are_named_by_words_of_the_question() -> None:
    """A date is read from words that stand together, not across one that was no date."""
    text = "march 2003-94 2020"
    found = dates.find_date(text, date(2026, 11, 22))
    assert found is None or found.words in text


def test_a_search_past_a_day_that_was_left_out_ends() -> None:
    """Looking back past the day that Apia left out comes to an end instead of hanging."""
    apia, after = ZoneInfo("Pacific/Apia"), datetime(2011, 12, 30, 9, tzinfo=UTC)
    assert latest("*/7 2 * * 5L", after + timedelta(days=2), apia) is None
    found = next_after("*/7 2 * * 5L", after, apia)
    assert found is not None
    assert found > after


def test_a_run_before_half_an_hour_that_is_left_out_is_found() -> None:
    """Where clocks go forward by half an hour, the last run of that night is known."""
    lord_howe, line = ZoneInfo("Australia/Lord_Howe"), "59 */5 31 OCT SUN"
    run = datetime(2027, 10, 2, 14, 29, tzinfo=UTC)
    assert next_after(line, run - timedelta(hours=1), lord_howe) == run
    assert latest(line, run, lord_howe) == run
    assert latest(line, run + timedelta(minutes=1), lord_howe) == run


def test_a_lone_mark_of_git_in_a_header_is_not_patched_around() -> None:
    """A header is read without a mark that git writes, so a line beside one is never set."""
    with pytest.raises(Refused):
        document.edit(b"---\n<<<<<<< a: #b\n tag: 2\n---\n\nText.\n", {"status": "active"}, None)


@pytest.mark.parametrize("header", [b"<<<<<<< \n---", b"<<<<<<< \x1f\n---", b"<<<<<<< a\nid: b"])
def test_a_lone_mark_of_git_in_a_header_is_a_problem(header: bytes) -> None:
    """What is read of a header without a mark of git's is said not to be all of it."""
    memory = document.read_memory(
        b"---\n" + header + b"\n---\n\nText.\n", FileState("a.md", 9, 0, 0, 0), frozenset()
    )
    assert memory.problem
