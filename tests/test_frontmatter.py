"""Front matter is edited line by line, and no input found by fuzzing breaks it."""

from __future__ import annotations

import json
import re
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from conftest import called, write
from memvault import Vault
from memvault.agents.plans.schedule import latest, next_after
from memvault.arguments import parameters
from memvault.arguments.binding import bind
from memvault.errors import Refused, UsageError
from memvault.index.text.analyzer import analyzer, query_analyzer
from memvault.model import FileState, Memory
from memvault.recall import dates
from memvault.vault import decoding, document, memory_file
from memvault.vault.front_matter import dump_header, split_front_matter
from memvault.vault.header_patch import patch_header
from memvault.vault.header_yaml import parse_header
from memvault.vault.markdown import has_conflict_markers
from memvault.vault_tools.definition import tool_definition

NEWLINES = st.sampled_from(["\n", "\r\n", "\r"])
KEYS = st.from_regex(r"[A-Za-z_][A-Za-z0-9_-]{0,8}", fullmatch=True).filter(
    lambda key: key.lower() not in ("true", "false", "null")
)
UTF8 = st.characters(codec="utf-8")
PRINTABLE = st.text(UTF8, max_size=12).filter(str.isprintable)
PLAIN = st.from_regex(r"[a-zäß字][A-Za-z0-9äß字/+.()=-]{0,8}( [a-z]{1,4})?", fullmatch=True)
ODD = (
    "no|yes|null|~|true|1.0|007|1e5|2026-01-01|- a|# a|@a|%a|&a|*a|!a|a: b|a #b|a,b|[a]|{a}|'a|"
    '|>|?|=|<<|---|...| a |\t|\0|\x7f|\x1b[31m|a\nb|\r|\x85|\u2028|\ufeff|😀|👩\u200d👧|:|"|\\'
).split("|")
TEXTS = st.one_of(st.text(UTF8, max_size=15), st.sampled_from(ODD))
NUMBERS = st.one_of(st.integers(-(10**12), 10**12), st.floats(0, 1).map(lambda x: round(x, 4)))
LINES = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cc", "Cs"), include_characters="\t\n")
)
VALUES = st.one_of(TEXTS, NUMBERS, st.booleans(), st.lists(TEXTS, max_size=4))


class Block(NamedTuple):
    """Lines of a header: a key with its value, or a comment or blank lines with no key.

    ``tail`` is the text after the value that is not part of it.
    """

    key: str
    text: str
    value: Any
    tail: str


def _single(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


SCALARS = st.one_of(
    PLAIN.map(lambda text: (text, text)),
    PRINTABLE.map(lambda text: (_single(text), text)),
    PRINTABLE.map(lambda text: (json.dumps(text, ensure_ascii=False), text)),
    st.sampled_from(
        [("0.5", 0.5), ("12", 12), ("true", True), ("null", None), ("~", None), ("no", "no")]
    ),
    st.sampled_from([("2026-01-01", "2026-01-01"), ("007", "007"), ("1:30", "1:30")]),
)
COMMENTS = st.one_of(st.just(""), st.just("  "), PLAIN.map(lambda text: f"  # {text}: [x"))


@st.composite
def blocks(draw: st.DrawFn, key: str) -> Block:
    """Generate one key in any of the ways in which people write it."""
    tail = draw(COMMENTS) + "\n"
    items = draw(st.lists(SCALARS, min_size=1, max_size=3))
    values = [value for _, value in items]
    flow = ", ".join(text for text, _ in items)
    name = draw(st.sampled_from([key, f'"{key}"', f"'{key}'"]))
    indent = draw(st.sampled_from(["", "  "]))
    shapes = [
        Block(key, f"{name}: {items[0][0]}{tail}", values[0], tail),
        Block(key, f"{name}:   {items[0][0]}{tail}", values[0], tail),
        Block(key, f"{name}:{tail}", None, tail),
        Block(key, f"{name}: [{flow}]{tail}", values, tail),
        Block(key, f"{name}: [{flow},\n  last ]{tail}", [*values, "last"], tail),
        Block(key, f"{name}: {{a: {_single('x, y')}, b: 1}}{tail}", {"a": "x, y", "b": 1}, tail),
        Block(
            key,
            f"{name}:\n" + "".join(f"{indent}- {text}{tail}" for text, _ in items),
            values,
            "\n",
        ),
        Block(
            key,
            f"{name}:\n  sub: {items[0][0]}{tail}  b: [1]\n",
            {"sub": values[0], "b": [1]},
            "\n",
        ),
        Block(key, f"{name}: |\n  one: two\n    # three\n", "one: two\n  # three\n", "\n"),
        Block(key, f"{name}: >-\n  one\n  two\n", "one two", "\n"),
    ]
    block: Block = draw(st.sampled_from(shapes))
    return block


@st.composite
def headers(draw: st.DrawFn) -> list[Block]:
    """Generate several keys, and comments and blank lines between them."""
    found = []
    for key in draw(st.lists(KEYS, min_size=1, max_size=4, unique=True)):
        between = draw(st.sampled_from(["", "", "# a: comment\n", "\n", "  \n# [x\n\n"]))
        found += [Block("", between, None, ""), draw(blocks(key))]
    return [*found, Block("", draw(st.sampled_from(["", "# the end\n", "\n"])), None, "")]


def _text(found: list[Block], newline: str) -> str:
    return "".join(block.text for block in found).replace("\n", newline)


def _keyed(found: list[Block], which: int) -> int:
    places = [place for place, block in enumerate(found) if block.key]
    return places[which % len(places)]


def _wanted(found: list[Block]) -> dict[str, Any]:
    return {block.key: block.value for block in found if block.key}


def _memory(data: bytes) -> Memory:
    return memory_file.read_memory(data, FileState("notes/a.md", len(data), 0, 0, 0), frozenset())


@given(headers(), NEWLINES, VALUES, st.integers(0, 3))
@example([Block("k", "k:\n- a\n", ["a"], "\n")], "\n", 0.5, 0)
def test_header_edit_changes_only_one_value(
    found: list[Block], newline: str, value: Any, which: int
) -> None:
    """Setting a key leaves other keys, comments and blank lines unchanged."""
    place = _keyed(found, which)
    before, block, after = found[:place], found[place], found[place + 1 :]
    header = _text(found, newline)
    assert parse_header(header) == _wanted(found)
    patched = patch_header(header, {block.key: value}, newline)
    assert parse_header(patched) == {**_wanted(found), block.key: value}
    head, tail = _text(before, newline), _text([block._replace(text=block.tail), *after], newline)
    assert patched.startswith(head + block.text.split(":")[0] + ":")
    assert patched.endswith(tail)
    assert patch_header(patched, {block.key: value}, newline) == patched


@pytest.mark.parametrize("value", [[], "text", {}], ids=["empty list", "text", "empty mapping"])
@pytest.mark.parametrize("old", ["- a\n", "  - a\n  - b\n", "  a: b\n"])
def test_header_edit_keeps_comment_after_value(old: str, value: Any) -> None:
    """A person's comment after a value survives every change of that value."""
    header = f"a: 1\ntags: # curated by hand\n{old}# next\nb: 2\n"
    patched = patch_header(header, {"tags": value})
    assert parse_header(patched) == {"a": 1, "tags": value, "b": 2}
    assert "# curated by hand" in patched
    assert patched.endswith("\n# next\nb: 2\n")


@given(headers(), NEWLINES, KEYS, VALUES, VALUES, COMMENTS)
def test_header_key_set_back_is_byte_identical(
    found: list[Block], newline: str, key: str, old: Any, new: Any, comment: str
) -> None:
    """A header that memvault wrote is identical after changing a key and changing it back."""
    assume(key not in _wanted(found))
    line = dump_header({key: old}).removesuffix("\n")
    header = _text([*found[:2], Block(key, f"{line}{comment}\n", old, ""), *found[2:]], newline)
    changed = patch_header(header, {key: new}, newline)
    assert parse_header(changed)[key] == new
    assert patch_header(changed, {key: old}, newline) == header


@given(headers(), NEWLINES, KEYS, VALUES, st.integers(0, 3))
@example([Block("k", "k: 1\n", 1, "\n"), Block("m", "m: 2\n", 2, "\n")], "\r", "x", "y", 0)
def test_header_edit_adds_or_removes_only_its_lines(
    found: list[Block], newline: str, key: str, value: Any, which: int
) -> None:
    """A new key is one line at the end; removing a key removes only its own lines."""
    assume(key not in _wanted(found))
    header = _text(found, newline)
    longer = patch_header(header, {key: value}, newline)
    assert longer.startswith(header)
    assert parse_header(longer) == {**_wanted(found), key: value}
    assert patch_header(longer, {key: None}, newline) == header
    place = _keyed(found, which)
    shorter = patch_header(header, {found[place].key: None}, newline)
    assert shorter == _text(found[:place] + found[place + 1 :], newline)


@given(
    headers(),
    NEWLINES,
    st.sampled_from(["---", "...", "---  ", "...\t"]),
    LINES,
    LINES,
    st.sampled_from([("", "utf-8"), ("\ufeff", "utf-8"), ("\ufeff", "utf-16-le")]),
    VALUES,
)
@example([Block("k", "k: 1\n", 1, "\n")], "\r", "---", "old", "new", ("", "utf-8"), "x")
def test_header_and_body_are_edited_separately(
    found: list[Block],
    newline: str,
    closing: str,
    old: str,
    new: str,
    spelled: tuple[str, str],
    value: Any,
) -> None:
    """Changing the body leaves the header byte for byte unchanged, and the reverse."""
    bom, encoding = spelled
    old, new = old.replace("\n", newline), new.replace("\n", newline)
    head = _text([Block("", "--- \n", None, ""), *found], newline) + closing + newline
    data = (bom + head + old).encode(encoding)
    memory = _memory(data)
    assert memory.metadata == _wanted(found)
    assert memory.body == old
    assert document.edit(data, {}, None) == data
    assert document.edit(data, {}, new) == (bom + head + new).encode(encoding)
    assert document.edit(document.edit(data, {}, new), {}, old) == data
    key = next(block.key for block in found if block.key)
    edited = document.edit(data, {key: [str(value)]}, None)
    assert edited.startswith((bom + "--- " + newline).encode(encoding))
    assert edited.endswith((closing + newline + old).encode(encoding))
    assert _memory(edited).metadata == {**_wanted(found), key: [str(value)]}


MARKS = "---|...|\n|\n|\r\n|\r|:| |  |- |[|]|{|}|,|&a |*a|!!merge |<<|!x |>|#|'|\t|%|@|?"
WORDS = "\ufeff|\0|\x85|\u2028|\ud800|id: |tags: |title: |a: |b: |true|1.0|2026-01-01|.inf|é|😀|\\u"
PIECES = st.lists(
    st.sampled_from([*MARKS.split("|"), *WORDS.split("|"), "|", '"']), max_size=25
).map("".join)
JSON = st.recursive(
    st.one_of(TEXTS, NUMBERS, st.booleans(), st.floats(allow_nan=False, allow_infinity=False)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=6,
)


@given(st.dictionaries(st.one_of(KEYS, TEXTS), JSON, max_size=4), TEXTS)
@example({"tags": ["👩\u200d👧"]}, "")
@example({"metadata": {"a": "x, y"}}, "")
@example({"importance": 1e-05}, "")
@example({"true": "x", "null": "y"}, "")
def test_header_values_round_trip(header: dict[str, Any], body: str) -> None:
    """Any string, number, list or mapping in a new header reads back unchanged."""
    assert parse_header(dump_header(header)) == header
    assert parse_header(dump_header(header, "\r\n")) == header
    memory = _memory(document.encode_new({"id": "an-id", **header}, body))
    assert memory.problem == ""
    assert memory.metadata == {"id": "an-id", **header}
    lines = body.replace("\r\n", "\n").replace("\r", "\n")
    kept = "".join(c for c in lines if c in "\n\t" or not re.match(r"[\x00-\x1f\x7f-\x9f]", c))
    assert memory.body.strip("\n") == kept.strip("\n")


@pytest.mark.parametrize("text", ["\udcff", "a\ud83d b", "\ude00\ud83d"])
def test_header_invalid_characters_are_replaced(text: str) -> None:
    """A value that UTF-8 can't represent loses only those characters, not the whole header."""
    memory = _memory(document.encode_new({"id": "an-id", "source": text, "tags": [text]}, text))
    assert memory.problem == ""
    assert memory.mem_id == "an-id"


@pytest.mark.parametrize(
    "header",
    [
        "title: a\ntitle: b\n",
        "<<: {a: 1}\nb: 2\n",
        "base: &x [1]\nother: *x\n",
        "  a: 1\n  b: 2\n",
        "{a: 1, b: 2}\n",
        "a:\t1\nb: 2\n",
        "? a\n: 1\nb: 2\n",
        "a: !!str 1\nb: !!int '2'\n",
        "\ufeffa: 1\n",
        "null\n",
        "# only a comment\n",
        "a: |+\n  kept\n\n",
    ],
)
def test_header_with_unusual_yaml_is_edited_exactly_or_refused(header: str) -> None:
    """Duplicate keys, merge keys, aliases, tabs and tags are preserved or the edit is refused."""
    data = f"---\n{header}---\nbody\n".encode()
    memory = _memory(data)
    assert memory.problem == ""
    for key in [*memory.metadata, "new"]:
        try:
            edited = document.edit(data, {key: "changed"}, None)
        except Refused:
            continue
        assert _memory(edited).metadata == {**memory.metadata, key: "changed"}
        assert key in memory.metadata or edited.decode().startswith(f"---\n{header}")


@pytest.mark.parametrize("day", ["0001-01-01", "0987-06-05", "1970-01-01", "9999-12-31"])
def test_header_dates_are_iso_for_any_year(day: str) -> None:
    """A date in a header is returned as ISO 8601, even one before the year 1000."""
    memory = _memory(f"---\ncreated: {day}\nmodified: {day}\n---\n".encode())
    assert memory.created == memory.modified == f"{day}T00:00:00.000Z"


def test_header_must_start_at_first_line() -> None:
    """A horizontal rule in the text is not a header, and an unclosed header is text."""
    for text in ("a\n---\nb: c\n---\n", "----\nb: c\n---\n", "---\nb: c\n", " ---\na: b\n---\n"):
        assert split_front_matter(text).body == text
    assert split_front_matter("---\na: b\n---").header == "a: b\n"
    assert split_front_matter("---\n---\nx").header == ""
    assert split_front_matter("---\na: b\n---\nc: d\n---\n").body == "c: d\n---\n"


HEADER = "id: wombats-abc123\ntitle: Wombats\nmemory_type: fact\n"
IN_HEADER = f"""---
{HEADER}<<<<<<< HEAD
modified: 2026-01-02T00:00:00.000Z
=======
modified: 2026-01-03T00:00:00.000Z
>>>>>>> theirs
---

They dig.
"""
OVER_BOTH = f"""---
{HEADER}<<<<<<< HEAD
modified: 2026-01-02T00:00:00.000Z
---

They dig.
=======
modified: 2026-01-03T00:00:00.000Z
---

They sleep.
>>>>>>> theirs
"""
WHOLE = f"""<<<<<<< HEAD
---
{HEADER}---

They dig.
=======
---
id: wombats-xyz789
---

They sleep.
>>>>>>> theirs
"""
IDENTITY = f"""---
<<<<<<< HEAD
{HEADER}||||||| base
id: wombats
=======
id: other-abc123
title: Other
>>>>>>> theirs
---

They dig.
"""
IN_BODY = (
    f"---\n{HEADER}---\n\n<<<<<<< HEAD\nThey dig.\n=======\nThey sleep.\n>>>>>>> theirs\n\nEnd.\n"
)
EXAMPLE = f"---\n{HEADER}---\n\nGit writes:\n\n```\n<<<<<<< HEAD\na\n=======\nb\n>>>>>>> x\n```\n"
ALL = [IN_HEADER, OVER_BOTH, WHOLE, IDENTITY, IN_BODY]
NAMES = ["header", "both", "whole", "identity", "body"]


@pytest.mark.parametrize("text", ALL, ids=NAMES)
@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["lf", "crlf"])
def test_memory_with_conflict_markers_keeps_its_id(
    folder: Path, vault: Vault, text: str, end: str
) -> None:
    """A memory with a conflict keeps this side's ID, title and type."""
    write(folder, "note.md", text.replace("\n", end))
    shown = called(vault, "memory_show", memId="wombats-abc123")
    assert (shown["title"], shown["memoryType"]) == ("Wombats", "fact")
    assert "conflict" in shown["problem"]
    assert vault.call("memory_recall", query="dig")["count"] == 1


@pytest.mark.parametrize("text", ALL, ids=NAMES)
@pytest.mark.parametrize("how", [{}, {"section": "More"}], ids=["append", "section"])
def test_conflict_in_memory_stops_compound(
    vault: Vault, folder: Path, text: str, how: dict[str, str]
) -> None:
    """Compound explains what to do first and leaves the file unchanged."""
    file = write(folder, "note.md", text)
    failed = vault.call("memory_compound", query="note.md", modifications="More.", **how)
    assert failed["error"]["code"] == "refused"
    assert "conflict" in failed["error"]["message"]
    assert failed["error"]["hint"]
    assert file.read_text("utf-8") == text


def test_conflict_is_resolved_by_replacing_text(vault: Vault, folder: Path) -> None:
    """Replacing the text of a memory with a conflict removes the conflict markers."""
    file = write(folder, "note.md", IN_BODY)
    called(vault, "memory_compound", query="note.md", modifications="They do both.", mode="replace")
    assert file.read_text("utf-8") == f"---\n{HEADER}---\n\nThey do both.\n"


def test_conflict_markers_in_code_block_are_ignored(vault: Vault, folder: Path) -> None:
    """A memory with conflict markers in a code block can be changed like any other."""
    write(folder, "note.md", EXAMPLE)
    assert not has_conflict_markers(EXAMPLE)
    assert has_conflict_markers(IN_BODY)
    assert "problem" not in vault.call("memory_show", memId="note.md")
    assert vault.call("memory_compound", query="note.md", modifications="More.")["success"]


def test_entry_with_conflict_in_header_keeps_its_key(vault: Vault, folder: Path) -> None:
    """A value with a conflict in its header is found under its key, and a note reports it."""
    text = "---\nkey: tone\n<<<<<<< HEAD\na: 1\n=======\na: 2\n>>>>>>> x\n---\n\nfriendly\n"
    write(folder, "agents/main/memories/tone.md", text)
    found = vault.call("get_memories")
    assert found["memories"] == [{"key": "tone", "value": "friendly"}]
    assert any("conflict" in note for note in found["warnings"])


@pytest.mark.promise("R13")
def test_header_is_not_added_by_removing_key() -> None:
    """A file without front matter is unchanged when a key it never had is removed."""
    assert document.edit(b"text\n", {"status": None}, None) == b"text\n"
    assert document.edit(b"text\n", {"status": None, "a": 1}, None) == b"---\na: 1\n---\n\ntext\n"


@pytest.mark.promise("R13")
@pytest.mark.parametrize("text", ["{" * 200, "[" * 200 + "]", "- " * 150 + "-", "? " * 120 + "x"])
def test_header_value_with_many_brackets_round_trips(text: str) -> None:
    """A value that only looks deeply nested is stored as text and does not break its header."""
    file = document.Document.parse(document.encode_new({"a": text, "b": [text]}, "body"))
    assert file.header == {"a": text, "b": [text]}
    assert parse_header(patch_header("c: 1\n", {"a": text})) == {"c": 1, "a": text}


@pytest.mark.parametrize(
    ("start", "level"), [("x: ", '["]",'), ("x: ", "{']': "), ("x: ", "[ # ]\n "), ("", "- ")]
)
@pytest.mark.promise("R12")
def test_deeply_nested_header_is_reported_as_broken(start: str, level: str) -> None:
    """An endlessly nested header is reported as broken, however its depth is hidden."""
    for levels in (200, 240_000 // len(level)):
        with pytest.raises(ValueError, match="nested too deeply"):
            parse_header(start + level * levels)


@pytest.mark.promise("R13")
@pytest.mark.parametrize("number", [float("inf"), float("-inf")])
def test_header_infinite_number_reads_back_as_text(number: float) -> None:
    """A JSON number such as 1e400 is the same text in a new header and in an edited one."""
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
@pytest.mark.promise("R13")
def test_header_too_large_to_read_is_not_written(value: object) -> None:
    """Data too large for a header is refused before an unreadable file is written."""
    with pytest.raises(Refused):
        document.encode_new({"a": value}, "body")
    for file in (b"---\nb: 1\n---\n", b"body\n"):
        with pytest.raises(Refused):
            document.edit(file, {"a": value}, None)


@pytest.mark.promise("R13")
def test_header_limit_applies_to_escaped_text() -> None:
    """A value that exceeds the limit only after escaping is refused, not cut."""
    with pytest.raises(Refused):
        document.encode_new({"a": "\x07" * 100_000}, "body")
    with pytest.raises(Refused):
        patch_header("b: 1\n", {"a": "\x07" * 100_000})


@pytest.mark.promise("R13")
@pytest.mark.parametrize("rest", ["", "# why\n", "z: 1\n", "\n# why\n\nz: 1\n"])
def test_header_edit_of_mapping_keeps_following_lines(rest: str) -> None:
    """Replacing a mapping whose last value is empty keeps the lines that follow it."""
    header = f"facts:\n  ? x\n{rest}"
    fresh = document.edit(f"---\n{header}---\nbody\n".encode(), {"facts": "none"}, None).decode()
    assert fresh.endswith(f"\n{rest}---\nbody\n")
    assert document.Document.parse(fresh.encode()).header == {**parse_header(rest), "facts": "none"}


@pytest.mark.promise("R13")
def test_header_edit_of_duplicate_key_changes_last_value() -> None:
    """If a key occurs twice, the last value counts and is the one an edit changes."""
    file = b"---\nfacts: [b]\nfacts:\n  x: 1\n---\n"
    assert document.edit_entry(file, "facts", "x", 2) == file.replace(b"1", b"2")
    assert document.edit(b"---\na: 1\na: 2\n---\n", {"a": 3}, None) == b"---\na: 1\na: 3\n---\n"


@pytest.mark.promise("R13")
@pytest.mark.parametrize("marks", ["\ufeff", "\ufeff\ufeff"])
def test_header_edit_handles_byte_order_mark(marks: str) -> None:
    """An edit of a header with a byte order mark keeps the mark and all other lines."""
    file = f"---\n{marks}a: 1\nb: 2\n---\n".encode()
    assert document.edit(file, {"b": "x"}, None) == f"---\n{marks}a: 1\nb: x\n---\n".encode()
    assert document.edit(file, {"a": None}, None) == f"---\n{marks}b: 2\n---\n".encode()
    tagged = f"---\n{marks}!\nb:\n-\n---".encode()  # the remaining text would not be a mapping
    with pytest.raises(Refused, match="cannot be edited safely"):
        document.edit(tagged, {"b": None}, None)


@pytest.mark.promise("R13")
def test_header_edit_changing_the_encoding_is_refused() -> None:
    """Removing the bytes that are not UTF-8 is refused if the rest would be read differently."""
    file = b"---\na: caf\xe9 na\xefve d\xe9j\xe0 vu\n---\n" + "Grüße".encode() + b"\n"
    assert decoding.decode(file).encoding not in ("utf-8", "binary")
    with pytest.raises(Refused):
        document.edit(file, {"a": None}, None)
    assert document.edit(b"---\na: \xff\n---\nplain\n", {"a": None}, None) == b"---\n---\nplain\n"


@pytest.mark.promise("R13")
@pytest.mark.parametrize("half", ["a\ud800", "\udcff"])
def test_header_lone_surrogate_becomes_question_mark(half: str) -> None:
    """An unpaired surrogate becomes a question mark in new headers and edited ones."""
    shown = half[:-1] + "?"
    for header in (dump_header({half: [half]}), patch_header("", {half: [half]})):
        assert parse_header(header) == {shown: [shown]}


@pytest.mark.parametrize(
    "given", [{"x" * 9_000: 1}, {"name": "a", "parameters": [{"name": "p", "type": "y" * 9_000}]}]
)
@pytest.mark.promise("R17")
def test_header_error_shortens_long_keys(given: dict[str, object]) -> None:
    """An error shows only the start of a long key or choice."""
    with pytest.raises(UsageError) as failed:
        bind(parameters.parameters_of(tool_definition), given, "it")
    assert len(failed.value.message) < 300


@pytest.mark.parametrize(
    ("languages", "text"), [(("italian", "english"), "All's well that ends well")]
)
@pytest.mark.promise("R14")
def test_query_keeps_contraction_like_words(languages: tuple[str, ...], text: str) -> None:
    """An English query finds its own words in a vault that also has Italian or French."""
    words, _, _ = query_analyzer(languages).query(text)
    for language in languages:
        stems = analyzer(language).terms(text).stems
        assert all(any(stem in stems for stem in word) for word in words)


@pytest.mark.promise("R16")
def test_query_date_is_read_from_adjacent_words() -> None:
    """A date is read only from adjacent words in the query, not across other text."""
    text = "march 2003-94 2020"
    found = dates.find_date(text, date(2026, 11, 22))
    assert found is None or found.words in text


@pytest.mark.promise("R15")
def test_schedule_search_past_skipped_day_ends() -> None:
    """Searching back past the day that Apia skipped ends instead of hanging."""
    apia, after = ZoneInfo("Pacific/Apia"), datetime(2011, 12, 30, 9, tzinfo=UTC)
    assert latest("*/7 2 * * 5L", after + timedelta(days=2), apia) is None
    found = next_after("*/7 2 * * 5L", after, apia)
    assert found is not None
    assert found > after


@pytest.mark.promise("R15")
def test_schedule_finds_run_before_half_hour_clock_change() -> None:
    """If clocks go forward by half an hour, the last run of that night is found."""
    lord_howe, line = ZoneInfo("Australia/Lord_Howe"), "59 */5 31 OCT SUN"
    run = datetime(2027, 10, 2, 14, 29, tzinfo=UTC)
    assert next_after(line, run - timedelta(hours=1), lord_howe) == run
    assert latest(line, run, lord_howe) == run
    assert latest(line, run + timedelta(minutes=1), lord_howe) == run


@pytest.mark.promise("R18")
def test_header_with_conflict_marker_is_not_edited() -> None:
    """An edit of a header that contains a conflict marker is refused."""
    with pytest.raises(Refused):
        document.edit(b"---\n<<<<<<< a: #b\n tag: 2\n---\n\nText.\n", {"status": "active"}, None)


@pytest.mark.parametrize("header", [b"<<<<<<< \n---", b"<<<<<<< \x1f\n---", b"<<<<<<< a\nid: b"])
def test_header_with_conflict_marker_is_reported(header: bytes) -> None:
    """A header with a conflict marker is reported as partially read."""
    memory = memory_file.read_memory(
        b"---\n" + header + b"\n---\n\nText.\n", FileState("a.md", 9, 0, 0, 0), frozenset()
    )
    assert memory.problem
