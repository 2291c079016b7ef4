"""Output from a vault cannot mislead: no control characters, no reversed or forged lines."""

from __future__ import annotations

import contextlib
import io
import json
import re
import unicodedata
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from conftest import Run, write
from memvault import sanitize
from memvault.call import Call
from memvault.cli import output, print_result
from memvault.cli.options import GlobalOptions
from memvault.errors import MemvaultError
from memvault.tools.core import registry
from memvault.tools.core.registry import Tool
from memvault.workspace import Workspace
from tool_matrix import Matrix

CONTROLS = "".join(chr(code) for code in range(0xA0) if unicodedata.category(chr(code)) == "Cc")
TURNING = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
HIDDEN = CONTROLS + TURNING + "\u2028\u2029\ufeff\ud800|\udfff|\udc80\U000e0000\U000e0041\U000e007f"
FORGED = "ERROR: forged"
UNSEEN = HIDDEN.translate(dict.fromkeys(map(ord, "\n\t|")))
HOSTILE = f"{HIDDEN}\n{FORGED}\r{FORGED}\r\n{FORGED}\x85{FORGED}\u2028{FORGED}"
ORDINARY = "Ünïcödé مرحبا שלום 日本語 🏳️‍🌈 👩‍👧 می‌خواهم ❤️"
NAMED = {"memId": "x", "title": "x", "filePath": "x.md"}
"""The fields shown for an ambiguous memory."""
OWN_WORDS = ("cutAt",)
"""Fields whose values are the program's own words, by which forms are selected."""
TEXTS = ("content", "context", "diff")
"""Fields that are shown line by line."""


def hostile(value: Any, key: str = "") -> Any:
    """Return a result with hostile text in every string, and under a hostile key."""
    if isinstance(value, str):
        if key in OWN_WORDS:
            return value
        return value + (HOSTILE.replace(FORGED, "text") if key in TEXTS else HOSTILE)
    if isinstance(value, Mapping):
        found = {name: hostile(entry, name) for name, entry in value.items()}
        return {**found, HOSTILE: list(found.values())[-1]} if found and key else found
    if isinstance(value, list | tuple):
        return [hostile(entry, key) for entry in value]
    return value


def checked(text: str, lines: bool = True) -> None:
    """Check that a string contains no control characters, reversed text, or forged lines."""
    for char in UNSEEN:
        assert char not in text, repr(char)
    if lines:
        for line in text.split("\n"):
            assert not line.startswith(FORGED)


def printed(tool: str, found: Any, as_json: bool) -> str:
    """Return the printed form of a result, including notes."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        if isinstance(found, MemvaultError):
            output.failure(found, as_json)
        else:
            options = GlobalOptions()
            options.json = as_json
            print_result.print_result(options, found, registry.find(tool).view)
    return out.getvalue()


def error_of(answer: dict[str, Any]) -> MemvaultError:
    """Return the error in a failed result."""
    details = {key: value for key, value in answer.items() if key not in ("success", "error")}
    error = answer["error"]
    if isinstance(error, str):  # flat, as call_tool returns it
        error = {"message": error, "hint": details.pop("hint", "")}
    return MemvaultError(error["message"], error.get("hint", ""), details)


@pytest.mark.promise("S60")
@pytest.mark.parametrize("fails", [False, True], ids=["works", "fails"])
def test_output_shows_hostile_text_safely(matrix: Matrix, folder: Path, fails: bool) -> None:
    """Hostile text in any field of a tool's result is escaped for display and exact in JSON."""
    for tool in registry.all_tools():
        row = matrix.rows[tool.name]
        answers = [row.outcomes[name].result for name in ("mcp", "python")]
        answers += [answer for _, answer in row.failures]
        answer = next((answer for answer in answers if answer["success"] is not fails), None)
        if answer is not None:
            _is_shown_safely(tool, error_of(answer) if fails else answer, folder)


def _is_shown_safely(tool: Tool, found: Any, folder: Path) -> None:
    if isinstance(found, MemvaultError):
        details = hostile({**found.details, "candidates": [NAMED]}, "details")
        found = MemvaultError(hostile(found.message), hostile(found.hint), details)
        whole = found.result()
    else:
        found = whole = hostile(found)
        whole["warnings"] = [HOSTILE]
    checked(printed(tool.name, found, as_json=False))
    text = printed(tool.name, found, as_json=True)
    checked(text, lines=False)
    assert json.loads(text) == whole
    answers = pytest.importorskip("memvault.mcp.sdk_types", reason="no MCP SDK")
    answer = answers.result(Call(Workspace(folder)), whole)
    checked(answer.content[0].text)
    assert answer.structured_content == answers.replace_surrogates(whole)


@given(st.text() | st.text(st.sampled_from(HIDDEN + ORDINARY)))
def test_output_text_is_visible_and_round_trips(text: str) -> None:
    """Any string is displayed as one line, and is unchanged in JSON."""
    # JSON joins two surrogates into one character.
    assume(not re.search("[\ud800-\udbff][\udc00-\udfff]", text))
    checked(sanitize.escape_line(text), lines=False)
    assert "\n" not in sanitize.escape_line(text)
    assert sanitize.escape_text(text).count("\n") == text.count("\n")
    shown = sanitize.safe_json({text: [text]})
    checked(shown, lines=False)
    assert json.loads(shown) == {text: [text]}


def test_output_keeps_letters_of_every_script() -> None:
    """Letters of any script, emoji and their joiners are printed unchanged."""
    assert sanitize.escape_line(ORDINARY) == sanitize.escape_text(ORDINARY) == ORDINARY
    assert sanitize.safe_json(ORDINARY) == f'"{ORDINARY}"'


@pytest.mark.promise("S60")
def test_output_header_values_stay_on_one_line(run: Run, folder: Path) -> None:
    """A type, tag or title with line breaks stays within its own line of a listing."""
    header = '---\ntitle: "a\\u202eb\\u2028c"\nmemory_type: "x\\nERROR: forged"\n'
    write(folder, "a.md", f'{header}tags: ["t\\nERROR: forged"]\n---\nThe zebra sleeps.\n')
    write(folder, "b\nERROR: forged.md", "The zebra eats.\n")
    for words in ("list", "recall zebra", "show a.md", "search zebra", "status"):
        checked(run(*words.split()).out)
    shown = run("list", "--json")
    checked(shown.out, lines=False)
    assert "x\nERROR: forged" in {entry["memoryType"] for entry in shown.json["memories"]}


@pytest.mark.promise("S62")
def test_recall_output_quotes_memory_text(run: Run, folder: Path) -> None:
    """Recall prints each line that comes from a memory behind a quote marker."""
    write(folder, "a.md", "# Zebra\n\nThe zebra sleeps.\n\nERROR: forged\n1. Zebra  0.99  fact\n")
    whole = run("recall", "zebra", "--full").out.splitlines()
    assert whole[2:] == [
        *("   > # Zebra", "   > ", "   > The zebra sleeps.", "   > "),
        *("   > ERROR: forged", "   > 1. Zebra  0.99  fact"),
    ]
    assert all(line.startswith("   > ") for line in run("recall", "zebra").out.splitlines()[2:])


@pytest.mark.promise("S61")
def test_vault_tool_help_escapes_terminal_codes(run: Run, folder: Path) -> None:
    """A vault tool's description is escaped in its help and never starts a new line there."""
    enum = '["x\\e[31m", "y\\nERROR: forged"]'
    parameter = f'{{name: p, type: string, description: "d\\u202e", enum: {enum}}}'
    default = '{name: q, type: string, default: "v\\u2028ERROR: forged\\e"}'
    write(
        folder,
        "tools/t.md",
        f'---\ndescription: "Says\\u202e it"\nparameters:\n- {parameter}\n- {default}\n'
        "command: [echo]\n---\n",
    )
    shown = run("t", "--help")
    assert shown.code == 0, shown
    assert "\\u202e" in shown.out
    checked(shown.out)
    checked(run("tools", "list").out)
    checked(run("t", "--p", "z").err)


def test_log_escapes_bidirectional_characters(run: Run, folder: Path) -> None:
    """A message in a log is safe to print and is read back exactly."""
    assert run("talk", "log", "info", "a\u202eb\u2028c").code == 0
    line = (folder / ".memvault/agents/main/log.jsonl").read_text("utf-8")
    checked(line, lines=False)
    assert json.loads(line)["message"] == "a\u202eb\u2028c"


def test_output_errors_escape_terminal_codes(run: Run, folder: Path) -> None:
    """Escape sequences in names are displayed as symbols, even in errors."""
    write(folder, "a\x1b[31m.md", "# A\n")
    assert "\x1b" not in run("show", "nothing\x1b[31m").err
    assert "\x1b" not in run("list").out


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(value=st.dictionaries(st.text(), JSON, max_size=5))
def test_output_json_lines_parse_to_the_same_value(value: dict[str, Any]) -> None:
    """JSON from ``--json`` equals the value, with one line for each key and each entry."""
    text = sanitize.as_json_lines(value)
    assert json.loads(text) == value
    entries = sum(len(entry) + 1 for entry in value.values() if isinstance(entry, list) and entry)
    assert text.count("\n") == max(len(value), 1) + entries + 1
