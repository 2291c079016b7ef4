"""A header is found, read and patched without touching the rest, whatever a person wrote."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from memvault.errors import Refused
from memvault.model import FileState, Memory
from memvault.vault import document
from memvault.vault.front_matter import dump_header, parse_header, patch_header, split_front_matter

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
    """Some lines of a header: a key with its value, or a comment or blank lines with no key.

    ``tail`` is what stands behind the value and is not part of it.
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
    """Write one key in any of the ways in which people do."""
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
    """Write several keys, and comments and blank lines between them."""
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
    return document.read_memory(data, FileState("notes/a.md", len(data), 0, 0, 0), frozenset())


@given(headers(), NEWLINES, VALUES, st.integers(0, 3))
@example([Block("k", "k:\n- a\n", ["a"], "\n")], "\n", 0.5, 0)
def test_a_patch_changes_one_value_and_nothing_else(
    found: list[Block], newline: str, value: Any, which: int
) -> None:
    """Setting a key leaves every character of other keys, comments and blank lines as it was."""
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
def test_a_comment_behind_the_key_survives(old: str, value: Any) -> None:
    """The remark that a person put beside a key outlives every change of its value."""
    header = f"a: 1\ntags: # curated by hand\n{old}# next\nb: 2\n"
    patched = patch_header(header, {"tags": value})
    assert parse_header(patched) == {"a": 1, "tags": value, "b": 2}
    assert "# curated by hand" in patched
    assert patched.endswith("\n# next\nb: 2\n")


@given(headers(), NEWLINES, KEYS, VALUES, VALUES, COMMENTS)
def test_setting_a_key_back_is_exact(
    found: list[Block], newline: str, key: str, old: Any, new: Any, comment: str
) -> None:
    """What memvault itself wrote, changed and changed back, is the same header to the letter."""
    assume(key not in _wanted(found))
    line = dump_header({key: old}).removesuffix("\n")
    header = _text([*found[:2], Block(key, f"{line}{comment}\n", old, ""), *found[2:]], newline)
    changed = patch_header(header, {key: new}, newline)
    assert parse_header(changed)[key] == new
    assert patch_header(changed, {key: old}, newline) == header


@given(headers(), NEWLINES, KEYS, VALUES, st.integers(0, 3))
@example([Block("k", "k: 1\n", 1, "\n"), Block("m", "m: 2\n", 2, "\n")], "\r", "x", "y", 0)
def test_a_key_added_or_removed_is_a_line_more_or_less(
    found: list[Block], newline: str, key: str, value: Any, which: int
) -> None:
    """A new key is one line at the end, and removing a key takes its own lines only."""
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
def test_header_and_body_are_edited_apart(
    found: list[Block],
    newline: str,
    closing: str,
    old: str,
    new: str,
    spelled: tuple[str, str],
    value: Any,
) -> None:
    """Another body leaves the header byte for byte, another header value leaves the body so."""
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
ANYTHING = st.one_of(
    st.binary(max_size=200),
    PIECES.map(lambda text: text.encode("utf-8", "surrogatepass")),
    PIECES.map(lambda text: f"---\n{text}\n---\nbody".encode("utf-8", "surrogatepass")),
    st.tuples(PIECES, st.sampled_from(["utf-16", "utf-32", "cp1252"])).map(
        lambda pair: f"---\n{pair[0]}\n---\nbody".encode(pair[1], "replace")
    ),
)


@given(ANYTHING, st.dictionaries(st.sampled_from(["tags", "title", "a"]), VALUES, max_size=2))
@example(b"---\ntitle:\tx\n---\nbody", {"tags": "y"})
@example(b"---\n (:\n---", {"tags": "", "title": ""})
def test_any_bytes_are_read_and_edited_right_or_refused(
    data: bytes, changes: dict[str, Any]
) -> None:
    """No file, however broken, makes reading fail or an edit do anything but what was asked."""
    memory = _memory(data)
    assert memory.etag == document.etag(data)
    json.dumps(memory.metadata, allow_nan=False)
    readable = "front matter" not in memory.problem and "binary" not in memory.problem
    if readable:
        assert document.edit(data, {}, None) == data
    try:
        edited = document.edit(data, changes, None)
    except Refused:
        return
    again = _memory(edited)
    assert again.metadata == {**memory.metadata, **changes}
    assert again.body == memory.body or not memory.metadata
    assert again.body.endswith(memory.body)


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
def test_whatever_is_written_reads_back_equal(header: dict[str, Any], body: str) -> None:
    """Any text, number, list or mapping in a new memory's header comes back as it was given."""
    assert parse_header(dump_header(header)) == header
    assert parse_header(dump_header(header, "\r\n")) == header
    memory = _memory(document.encode_new({"id": "an-id", **header}, body))
    assert memory.problem == ""
    assert memory.metadata == {"id": "an-id", **header}
    lines = body.replace("\r\n", "\n").replace("\r", "\n")
    kept = "".join(c for c in lines if c in "\n\t" or not re.match(r"[\x00-\x1f\x7f-\x9f]", c))
    assert memory.body.strip("\n") == kept.strip("\n")


@pytest.mark.parametrize("text", ["\udcff", "a\ud83d b", "\ude00\ud83d"])
def test_bytes_that_are_no_text_never_break_a_header(text: str) -> None:
    """A value that UTF-8 cannot hold costs its odd characters and never the whole header."""
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
def test_odd_headers_are_edited_exactly_or_refused(header: str) -> None:
    """Duplicate keys, merge keys, aliases, tabs and tags are kept as written or left alone."""
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
def test_times_are_iso_whatever_the_year(day: str) -> None:
    """A date in a header comes back as ISO 8601, also one from before the year 1000."""
    memory = _memory(f"---\ncreated: {day}\nmodified: {day}\n---\n".encode())
    assert memory.created == memory.modified == f"{day}T00:00:00.000Z"


def test_the_header_is_the_files_first_lines_only() -> None:
    """A rule in the text is no header, and a header without an end is text."""
    for text in ("a\n---\nb: c\n---\n", "----\nb: c\n---\n", "---\nb: c\n", " ---\na: b\n---\n"):
        assert split_front_matter(text).body == text
    assert split_front_matter("---\na: b\n---").header == "a: b\n"
    assert split_front_matter("---\n---\nx").header == ""
    assert split_front_matter("---\na: b\n---\nc: d\n---\n").body == "c: d\n---\n"
