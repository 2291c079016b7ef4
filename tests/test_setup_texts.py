"""Setup adds entries to settings and text files, and removes them and emptied containers."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from conftest import ROOT
from memvault.errors import Refused
from memvault.integrations import NAMES, json_edit, marked_blocks
from memvault.integrations.integration import (
    MARKDOWN,
    TOML,
    MarkedBlock,
    OwnedFile,
    SettingsFile,
    SetupContext,
)
from memvault.integrations.programs import PROGRAMS
from memvault.integrations.setup import with_parts, without

PLACE = SetupContext(
    "project",
    Path("/work/project"),
    Path("/home/me"),
    {},
    ("memvault",),
    Path("/work/project/my notes"),
    "## Memory\n\nUse `memvault recall`.\n",
    "You are the historian.\n",
    {"memory_recall": "recall", "memory_show": "show"},
)
FORMS = ROOT / "tests/integrations"
FILES = [file for name in NAMES for file in PROGRAMS[name].files(PLACE)]
JSON = [file for file in FILES if isinstance(file.parts[0], json_edit.JsonEntry)]
BLOCKS = [file for file in FILES if isinstance(file.parts[0], MarkedBlock)]
KEYS = ["mcpServers", "mcp", "memvault", "hooks", "SessionStart", "Stop", "version", "other", "ä"]
KEYS += ["permissions", "allow"]

values: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from(
        [None, True, 7, -1.5, "", "a // b,", "ü", '",', "{", "C:\\xampp", "\U00010000"]
    ),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=3)
    ),
    max_leaves=8,
)
settings: st.SearchStrategy[dict[str, Any]] = st.dictionaries(
    st.sampled_from(KEYS),
    values
    | st.dictionaries(
        st.sampled_from(["SessionStart", "Stop", "memvault", "other", "allow"]),
        st.lists(st.just("mcp__memvault__memory_recall"))
        | st.lists(st.fixed_dictionaries({"hooks": st.just([])}) | values, max_size=2)
        | values,
        max_size=3,
    ),
    max_size=4,
)
blank = st.sampled_from(["", "", " ", "\n", "\n  ", "\t", "\r\n", " // said, {\n", "/* a\n, b */"])


@st.composite
def commented(draw: st.DrawFn, value: Any) -> str:
    """Write a value as JSON with comments, irregular spacing and trailing commas."""

    def space() -> str:
        return str(draw(blank))

    if not isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=draw(st.booleans()))
    parts = []
    for item in value:
        key = f"{json.dumps(item)}{space()}:{space()}" if isinstance(value, dict) else ""
        inner = value[item] if isinstance(value, dict) else item
        parts.append(f"{space()}{key}{draw(commented(inner))}{space()}")
    comma = f",{space()}" if parts and draw(st.sampled_from([False, True])) else ""
    first, last = "{}" if isinstance(value, dict) else "[]"
    return f"{first}{','.join(parts)}{comma}{space() if not parts else ''}{last}"


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Write settings like a person or a program."""
    value = draw(settings)
    if draw(st.booleans()):
        mark = draw(st.sampled_from(["", "\ufeff"]))
        return f"{mark}{draw(blank)}{draw(commented(value))}{draw(blank)}"
    indent = draw(st.sampled_from([None, 0, 2, 4, "\t"]))
    text = json.dumps(value, indent=indent) + draw(st.sampled_from(["", "\n", "\n\n"]))
    return text.replace("\n", draw(st.sampled_from(["\n", "\r\n"])))


def merged(value: Any, file: SettingsFile) -> Any:
    """Return a file's expected content after setup."""
    whole: Any = json.loads(json.dumps(value))
    for part in file.parts:
        assert isinstance(part, json_edit.JsonEntry)
        inner = whole
        for key in part.keys[:-1]:
            inner = inner.setdefault(key, {})
        if part.listed:
            items = inner.setdefault(part.keys[-1], [])
            items += [item for item in part.content if item not in items]
        else:
            inner[part.keys[-1]] = part.value
    return whole


def without_ours(value: Any, file: SettingsFile) -> Any:
    """Return settings without entries equal to ours and without containers emptied by this."""
    whole: Any = json.loads(json.dumps(value))
    for part in reversed(file.parts):
        assert isinstance(part, json_edit.JsonEntry)
        containers = [("", whole)]
        for key in part.keys if part.listed else part.keys[:-1]:
            container = containers[-1][1].get(key)
            if container is None:
                break
            containers.append((key, container))
        if isinstance(containers[-1][1], list) and part.value in containers[-1][1]:
            containers[-1][1].remove(part.value)
        while len(containers) > 1 and not containers[-1][1]:
            key, _ = containers.pop()
            del containers[-1][1][key]
    return whole


@pytest.mark.parametrize("file", JSON, ids=lambda file: str(file.path))
@given(text=texts())
def test_setup_remove_entry_leaves_the_rest_unchanged(file: SettingsFile, text: str) -> None:
    """Adding to any JSON twice and removing restores the bytes, except for empty containers."""
    try:
        after = with_parts(text, file)
    except json_edit.JsonSyntaxError:
        assume(False)
    assert with_parts(after, file) == after
    before = json_edit._Document(text).root.value
    expected = without_ours(before, file)
    left = without(after, file)
    if left is None:
        assert expected in ({}, file.base)
    elif expected == before:
        assert left == text
    else:
        assert json_edit._Document(left).root.value == expected


def test_setup_remove_entry_keeps_comments() -> None:
    """A file with comments and an empty object is not deleted."""
    (file, *_) = PROGRAMS["claude-code"].files(PLACE)
    text = "// mine\n{ /* nothing */ }\n"
    assert without(with_parts(text, file), file) == text


@pytest.mark.parametrize("file", JSON, ids=lambda file: str(file.path))
@given(value=settings, indent=st.sampled_from([None, 0, 2, "\t"]))
def test_setup_adds_to_json_settings(file: SettingsFile, value: Any, indent: Any) -> None:
    """The result is JSON with the earlier entries in their order and the added ones."""
    text = json.dumps(value, indent=indent)
    try:
        after = json.loads(with_parts(text, file))
    except json_edit.JsonSyntaxError:
        assume(False)
    expected = merged(value, file)
    assert after == expected
    assert [key for key in after if key in value] == list(value)


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.path))
def test_setup_removal_deletes_its_own_file(file: SettingsFile) -> None:
    """A file that setup created is deleted completely when setup is undone."""
    text = with_parts(None, file)
    assert with_parts(text, file) == text
    assert without(text, file) is None
    if not isinstance(file.parts[0], OwnedFile):
        assert text.endswith("\n")


@pytest.mark.parametrize("name", NAMES)
def test_setup_writes_the_documented_files(name: str) -> None:
    """In an empty project the written files equal those in tests/integrations byte for byte."""
    files = {
        file.path.relative_to(PLACE.root).as_posix().lstrip("."): with_parts(None, file)
        for file in PROGRAMS[name].files(PLACE)
    }
    forms = {
        path.relative_to(FORMS / name).as_posix(): path.read_bytes().decode()
        for path in (FORMS / name).rglob("*")
        if path.is_file() and path.name != "events.json"
    }
    assert files == forms


prose = st.text(st.sampled_from("ab#é <\n\n\r\t-\u2028\x0b"), max_size=30) | st.lists(
    st.sampled_from(["# Rules", "Be kind.", "", "```", "\r"]), max_size=6
).map("\n".join)


@given(text=prose, marks=st.sampled_from([MARKDOWN, TOML]), windows=st.booleans())
def test_setup_text_block_round_trips(
    text: str, marks: marked_blocks.BlockMarkers, windows: bool
) -> None:
    """Adding a block twice, changing and removing it restores the text, with a final newline."""
    if windows:
        text = text.replace("\r", "").replace("\n", "\r\n")
    whole = text
    if text and not text.endswith("\n"):
        whole += "\r\n" if "\r\n" in text else "\n"
    first = marked_blocks.insert_block(text, "One\n\ntwo\n", marks)
    assert marked_blocks.insert_block(first, "One\n\ntwo\n", marks) == first
    assert marked_blocks.remove_block(first, marks) == (whole or None)
    other = marked_blocks.insert_block(first, "Something else", marks)
    assert marked_blocks.remove_block(other, marks) == (whole or None)


tables = st.lists(
    st.sampled_from(
        [
            'model = "x"',
            "# a note",
            "",
            "[mcp_servers.other]",
            'command = "b"',
            '[projects."/a"]',
            'text = """',
            '"""',
        ]
    ),
    max_size=8,
    unique=True,
).map("\n".join)


@given(text=tables, end=st.sampled_from(["", "\n", "\n\n"]))
def test_setup_toml_table_round_trips(text: str, end: str) -> None:
    """TOML keeps its meaning with the added table, and removing the table restores the bytes."""
    (file,) = (file for file in BLOCKS if file.path.suffix == ".toml")
    text += end
    try:
        before = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        with pytest.raises(Refused, match="not valid TOML"):
            with_parts(text, file)
        return
    after = with_parts(text, file)
    found = tomllib.loads(after)
    assert found["mcp_servers"].pop("memvault")["args"][:2] == ["mcp", "--vault"]
    assert {**before, "mcp_servers": before.get("mcp_servers", {})} == found
    ending = "" if not text or text.endswith("\n") else "\n"
    assert without(after, file) == (text + ending or None)


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("[1,", 1, "Expecting value"),
        ("[,]", 1, "Expecting value"),
        ("[\n1,\n,]", 3, "(Expecting value|trailing comma)"),
        ("{\n  // only this\n", 3, "name enclosed in double quotes"),
        ('{\n "a": 1\n "b": 2\n}', 3, "Expecting ',' delimiter"),
        ('{"a" 1}', 1, "Expecting ':' delimiter"),
        ("{'a': 1}", 1, "double quotes"),
        ('{"a": nope}', 1, "Expecting value"),
        ('{"a": 1}\n{}', 2, "after the end"),
        ('{"a": "b\n"}', 1, "control character$"),
        ('{"a": 1 /* open }', 1, "delimiter"),
        ("[]", 1, "not an object"),
        ('{\n "mcpServers": []}', 2, "mcpServers is not an object"),
        (
            '{"mcpServers":\n {"memvault": {"command": "x"}}}',
            2,
            "was not written by `memvault setup`",
        ),
        ('{"mcpServers": {"memvault": {"args": 3}}}', 1, "was not written by `memvault setup`"),
    ],
)
def test_setup_refuses_invalid_settings_with_line(text: str, line: int, reason: str) -> None:
    """Invalid JSON settings, or ones with an unexpected value, are refused with the line."""
    with pytest.raises(json_edit.JsonSyntaxError, match=rf"^line {line}: .*{reason}"):
        with_parts(text, PROGRAMS["claude-code"].files(PLACE)[0])


@pytest.mark.parametrize(
    "text", ["<!-- memvault: begin -->\nx\n", "x\n<!-- memvault: end -->", "a\n# memvault: end\n"]
)
def test_setup_refuses_unbalanced_block_marker(text: str) -> None:
    """A file with only one of the two block markers is refused with its line number."""
    marks = TOML if "#" in text else MARKDOWN
    with pytest.raises(marked_blocks.UnbalancedMarkers, match=r"line [12]: "):
        marked_blocks.insert_block(text, "x", marks)
    with pytest.raises(marked_blocks.UnbalancedMarkers, match=r"line [12]: "):
        marked_blocks.remove_block(text, marks)


def test_setup_keeps_user_additions_to_server_entry() -> None:
    """Setup for another vault changes the server entry and keeps the user's additions."""
    file = PROGRAMS["claude-code"].files(PLACE)[0]
    text = with_parts("{}", file).replace('"type"', '"env": {"A": "b"},\n"type"')
    moved = PROGRAMS["claude-code"].files(PLACE._replace(vault=Path("/elsewhere")))[0]
    assert with_parts(text, file) == text
    server = json.loads(with_parts(text, moved))["mcpServers"]["memvault"]
    assert server["args"] == ["mcp", "--vault", "/elsewhere"]
    assert server["env"] == {"A": "b"}
    assert without(with_parts(text, moved), moved) is None
