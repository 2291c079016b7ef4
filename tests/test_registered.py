"""A vault's own tool is validated like any other, and broken ones block nothing."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from conftest import Run, called, refused, until, write
from memvault import Vault
from memvault.command_table import COMMANDS
from memvault.files.plain_files import MAX_SETTING_BYTES

ECHO = """
import json, os, sys
given = json.load(sys.stdin)
names = ("MEMVAULT_VAULT", "MEMVAULT_AGENT")
where = {"folder": os.getcwd(), "environment": [os.environ[name] for name in names]}
print(json.dumps({"given": given, **where}))
"""
HEADER = """\
name: echo   # what it is called
description: Says it again
parameters:
  - {name: city, type: string, description: Where, enum: [Rome, Oslo]}
  - {name: days, type: integer, default: 3}
  - {name: share, type: number, required: false}
  - {name: fast, type: boolean, default: false}
  - {name: list-of, type: array, required: false}
  - {name: json, type: object, required: false}
command: python3 echo.py
"""
FILE = f"---\n{HEADER}---\n\n# How to use it\n\nAs it is.\n"


@pytest.fixture
def echo(folder: Path, run: Run) -> Path:
    """A vault with a registered and trusted tool."""
    write(folder, "tools/echo.py", ECHO)
    assert run("tools", "register", str(write(folder.parent, "mine.md", FILE))).code == 0
    assert run("tools", "trust", "echo", "--yes").code == 0
    return folder


def program(folder: Path, run: Run, text: str, **more: Any) -> None:
    """Register and trust a tool named t that runs this Python code."""
    write(folder, "tools/t.py", text)
    given = {"name": "t", "description": "x", "command": ["python3", "t.py"], **more}
    assert run("tools", "register", "-", stdin=json.dumps(given)).code == 0
    assert run("tools", "trust", "t", "--yes").code == 0


def test_register_tool_refuses_nearly_equal_name(echo: Path, run: Run) -> None:
    """A name that differs only in spelling from another tool's is refused, not replaced."""
    given = {"name": "ECHO", "description": "x", "command": ["true"]}
    done = run("tools", "register", "-", stdin=json.dumps(given))
    assert "almost the same name, echo" in refused(done, 1)


def test_registered_tool_flag_can_be_false(folder: Path, run: Run) -> None:
    """A boolean that is required or defaults to true can be set to false on the command line."""
    kinds = [
        {"name": "on", "type": "boolean", "default": True},
        {"name": "sure", "type": "boolean"},
    ]
    program(folder, run, "import sys; print(sys.stdin.read())", parameters=kinds)
    for line, expected in (
        (("--no-on", "--sure"), {"on": False, "sure": True}),
        (("--no-sure",), {"on": True, "sure": False}),
        (("--on", "--sure"), {"on": True, "sure": True}),
    ):
        found = run("t", *line, "--json").json
        assert {name: found[name] for name in expected} == expected
    assert run("t").code == 2


def test_registered_tool_is_called_like_a_builtin_tool(echo: Path, run: Run) -> None:
    """By flags, by call and by call_tool, a tool gets the same arguments and defaults."""
    given = {"city": "Rome", "days": 3, "share": 2.0, "fast": True, "list-of": [1, "b"]}
    text = json.dumps({"CITY": "rome", "share": 2, "Fast": True, "listOf": [1, "b"]})
    outer = json.dumps({"toolName": "echo", "parameters": json.loads(text)})
    flags = ["--city", "ROME", "--share", "2", "--fast", "--list-of", '[1, "b"]']
    for line in (
        ["call", "echo", text],
        ["call", "call_tool", outer],
        ["call_tool", "Echo", text],
        ["echo", *flags, "--json"],
        ["--json", "echo", *flags],
    ):
        ran = run("--agent", "bob", *line)
        assert ran.code == 0, ran
        found = ran.json["result"] if outer in line else ran.json
        assert found["given"] == given
        assert found["folder"] == str(echo / "tools")
        assert found["environment"] == [str(echo), "bob"]
    whole = run("echo", "--city", "Oslo", "--its-json", '{"a": [1]}', "--json").json["given"]
    assert whole == {"city": "Oslo", "days": 3, "fast": False, "json": {"a": [1]}}
    away = run("echo", "--city", "Oslo", "--vault", str(echo), cwd=echo.parent)
    assert "city: Oslo" in away.out
    assert "--city Rome|Oslo" in run("echo", "--help").out


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"city": "Paris"},
        {"city": 5},
        {"city": None},
        {"city": "Rome", "days": 2.5},
        {"city": "Rome", "days": True},
        {"city": "Rome", "share": "half"},
        {"city": "Rome", "share": float("nan")},
        {"city": "Rome", "fast": "maybe"},
        {"city": "Rome", "list-of": "a"},
        {"city": "Rome", "json": []},
        {"city": "Rome", "json": {"a": float("inf")}},
        {"city": "Rome", "town": "x"},
        {"city": "Rome", "Days": 1, "days": 1},
    ],
    ids=str,
)
def test_registered_tool_arguments_are_validated_first(
    folder: Path, run: Run, vault: Vault, arguments: dict[str, Any]
) -> None:
    """Arguments are validated before the program of a trusted tool starts."""
    write(folder, "tools/echo.py", "open('../ran', 'w')")
    write(folder, "tools/echo.md", FILE)
    assert run("tools", "trust", "echo", "--yes").code == 0
    assert vault.call("echo", **arguments)["error"]["code"] == "usage"
    assert not (folder / "ran").exists()
    assert vault.call("echo", city="Rome")["success"]
    assert (folder / "ran").exists()


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("print('{\"a\": 1}')", {"a": 1}),
        ("print('[1, 2]')", {"result": [1, 2]}),
        ("print('\"x\"')", {"result": "x"}),
        ("print('plain words')", {"output": "plain words\n"}),
        ("print('NaN')", {"output": "NaN\n"}),
        ("print('[' * 100000)", {"output": "[" * 100_000 + "\n"}),
        ("", {}),
        ('print(\'{"success": 5, "error": 1, "a": 2}\')', {"a": 2}),
        ('print(\'{"warnings": ["careful"]}\')', {"warnings": ["careful"]}),
    ],
    ids=["object", "list", "text", "words", "no number", "deep", "nothing", "ours", "warnings"],
)
def test_registered_tool_output_is_the_result(
    folder: Path, run: Run, vault: Vault, text: str, result: dict[str, Any]
) -> None:
    """A JSON object is the result; other JSON is in ``result``, and other text in ``output``."""
    program(folder, run, text)
    assert vault.call("t") == {"success": True, **result}


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("import sys; sys.exit('one\\nNo such city.\\n')", 1, "No such city"),
        ("import os; os._exit(7)", 1, "exit code 7"),
        ("import os, signal; os.kill(os.getpid(), 9)", 1, "killed by signal 9"),
        ('print(\'{"success": false, "error": {"message": "Closed"}}\')', 1, "Closed"),
        ('print(\'{"success": false, "candidates": 1}\')', 1, "no reason given"),
        ("import time; time.sleep(600)", 4, "within 0.5 s"),
        ("while True: print('x' * 1000)", 1, "printed more than 1,000,000 bytes"),
    ],
    ids=["complaint", "code", "signal", "says so", "says no more", "too long", "too much"],
)
def test_registered_tool_failure_is_a_failed_result(
    folder: Path, run: Run, text: str, code: int, said: str
) -> None:
    """A failure, signal, timeout or too much output each has a message and an exit code."""
    program(folder, run, text, timeout=0.5 if code == 4 else 60)
    ran = run("t")
    assert (ran.code, ran.out) == (code, "")
    assert ran.err.startswith("error: The tool t ")
    assert said in ran.err
    assert run("call", "t").json["error"]["message"] in ran.err


def test_registered_tool_is_a_file(echo: Path, run: Run) -> None:
    """The tool is stored in tools/NAME.md, with a split command and a body for people."""
    text = (echo / "tools/echo.md").read_text("utf-8")
    assert "command: [python3, echo.py]" in text
    assert text.endswith("---\n\n# How to use it\n\nAs it is.\n")
    listed = run("tools", "list", "--schema", "--json").json["tools"]
    found = {entry["name"]: entry for entry in listed}
    properties = found["echo"]["inputSchema"]["properties"]
    assert found["echo"]["inputSchema"]["required"] == ["city"]
    assert properties["city"] == {
        "type": "string",
        "enum": ["Rome", "Oslo"],
        "description": "Where",
    }
    assert properties["days"]["default"] == 3
    assert properties["list-of"] == {"type": "array", "description": "Any array"}
    assert found["echo"]["trusted"] is True
    assert "trusted" not in found["memory_recall"]
    assert "move_to" not in found
    assert run("list").out.count("How to use it") == 0


def test_reregistering_tool_keeps_handwritten_parts(folder: Path, run: Run) -> None:
    """An update edits only the changed lines, and the previous file becomes a revision."""
    given = {"name": "t", "description": "One", "command": ["true"]}
    lines = "name: t\n# my comment\ndescription: 'One' # really\ncommand: [true, 5]\nown: 1"
    mine = f"---\n{lines}\n---\n\nB\n"
    write(folder, "tools/T.md", mine)
    ran = run("tools", "register", "-", "--json", stdin=json.dumps({**given, "description": "Two"}))
    assert ran.json["filePath"] == "tools/T.md"
    text = (folder / "tools/T.md").read_text("utf-8")
    for kept in ("# my comment", "# really", "own: 1", "\n\nB\n", "Two"):
        assert kept in text
    revision = next((folder / ".memvault/history").rglob(f"{ran.json['previousRevision']}.md"))
    assert revision.read_text("utf-8") == mine
    again = run("tools", "register", str(folder / "tools/T.md"), "--json").json
    assert "previousRevision" not in again
    assert (folder / "tools/T.md").read_text("utf-8") == text


TOOL = {"name": "t", "description": "x", "command": ["true"]}
PARAMETER = {"name": "a", "type": "string"}


@pytest.mark.parametrize(
    "change",
    [
        {"name": ""},
        {"name": "../x"},
        {"name": "a b"},
        {"name": "con"},
        {"name": "x" * 61},
        {"name": "memory_recall"},
        {"name": "Move-To"},
        {"name": "recall"},
        {"name": "inbox"},
        {"name": "init"},
        {"description": " "},
        {"command": []},
        {"command": ""},
        {"command": "'"},
        {"command": ["a\0"]},
        {"timeout": 0},
        {"timeout": 1e9},
        {"more": 1},
        {"parameters": [{"name": "a"}]},
        {"parameters": [{**PARAMETER, "type": "date"}]},
        {"parameters": [{**PARAMETER, "name": "a b"}]},
        {"parameters": [{**PARAMETER, "default": 1}]},
        {"parameters": [{**PARAMETER, "enum": []}]},
        {"parameters": [{**PARAMETER, "enum": [1]}]},
        {"parameters": [{**PARAMETER, "enum": ["b"], "default": "c"}]},
        {"parameters": [{**PARAMETER, "type": "array", "enum": [[]]}]},
        {"parameters": [{**PARAMETER, "pattern": "x"}]},
        {"parameters": [PARAMETER, {**PARAMETER, "name": "A"}]},
        {"parameters": [{**PARAMETER, "name": "json"}, {**PARAMETER, "name": "its-json"}]},
        {"parameters": [{**PARAMETER, "description": "x" * 1_001}]},
        {"description": "x" * 1_001},
        {"command": ["sh", "-c", "x" * 4_000]},
        {"parameters": [{"name": f"p{n}", "type": "string"} for n in range(101)]},
    ],
    ids=lambda change: str(change)[:60],
)
def test_invalid_tool_definition_is_refused(
    vault: Vault, folder: Path, change: dict[str, Any]
) -> None:
    """An invalid definition is refused with a reason, and nothing is written."""
    failed = vault.call("register_tool", **{**TOOL, **change})
    assert failed["error"]["code"] == "usage"
    assert failed["error"]["hint"]
    assert not (folder / "tools").exists()


def test_register_tool_refuses_command_names(vault: Vault, folder: Path) -> None:
    """A tool cannot take the name of a command, so it can always be called as a command."""
    names = {"help", "version"}
    for command in COMMANDS:
        names |= {command.words.split()[0], command.words.replace(" ", "_")}
    assert {"call", "hook", "new", "serve", "setup", "tokens", "vaults_add"} < names
    for name in names:
        failed = vault.call("register_tool", **{**TOOL, "name": name})
        assert failed["error"]["message"] == f"{name} is reserved by memvault"
    assert not (folder / "tools").exists()


def test_invalid_tool_file_is_refused(folder: Path, run: Run) -> None:
    """A missing or broken file, or one without a definition, is refused and writes nothing."""
    for text in ("words", "{", "[]", '{"a"', "---\na: [\n---\n", "---\nname: x\n---\n", "\0" * 99):
        refused(run("tools", "register", "-", stdin=text), 2)
    refused(run("tools", "register", "missing.md"), 2)
    refused(run("tools", "register"), 2)
    assert not (folder / "tools").exists()
    write(folder, "tools/t.md", "About tools")
    refused(run("tools", "register", "-", stdin=json.dumps(TOOL)), 1)
    assert (folder / "tools/t.md").read_text("utf-8") == "About tools"


def test_broken_tool_file_is_reported_and_the_rest_work(echo: Path, run: Run) -> None:
    """A broken tool file is reported in a warning, and the other tools work."""
    write(echo, "tools/README.md", "# What lies here\n")
    for name, text in (
        ("a", "---\nbroken: [\n---\n"),
        ("b", "---\ndescription: x\n---\n"),
        ("c", "---\nname: memory_recall\ndescription: x\ncommand: evil\n---\n"),
        ("d", "\0" * 2_000),
        ("e", FILE),
        ("f", "---\ndescription: x\ncommand: [x]\n---\n" + "x" * (MAX_SETTING_BYTES + 1)),
    ):
        write(echo, f"tools/{name}.md", text)
    (echo / "tools/folder.md").mkdir()
    ran = run("tools", "list")
    for name in ("a", "b", "c", "d", "f"):
        assert f"tools/{name}.md is not a tool" in ran.err
    assert "tools/echo.md is skipped: tools/e.md has the same name" in ran.err
    assert "README" not in ran.err
    assert run("call", "recall", '{"query": "x"}').code == 0
    assert "tools/a.md is not a tool" in run("call", "a").json["error"]["message"]
    (echo / "tools/e.md").unlink()
    assert run("tools", "trust", "echo", "--yes").code == 0  # new files in tools/ end trust
    assert run("call", "echo", '{"city": "Rome"}').code == 0


def test_misspelled_tool_gets_a_suggestion(echo: Path, run: Run) -> None:
    """The error for a misspelled tool name suggests the registered tool."""
    assert run("call", "eccho").json["error"]["hint"] == "did you mean echo?"
    called = run("call", "call_tool", '{"toolName": "eccho"}')
    assert (called.code, called.json["hint"]) == (2, "did you mean echo?")


def test_registered_tool_does_not_block_other_calls(folder: Path, run: Run, vault: Vault) -> None:
    """In one process, a slow tool does not delay other calls."""
    code = (
        "import os, time\nopen('../begun', 'w').close()\n"
        "while not os.path.exists('../go'): time.sleep(0.01)\nprint('[]')"
    )
    program(folder, run, code)
    found: list[Any] = []
    waiting = threading.Thread(target=lambda: found.append(vault.call("t")))
    waiting.start()
    until((folder / "begun").exists)
    assert vault.call("memory_list")["success"]
    assert vault.call("get_goals", status="active")["success"]
    write(folder, "go", "")
    waiting.join()
    assert found == [{"success": True, "result": []}]


def test_warnings_belong_to_their_call(folder: Path, run: Run, vault: Vault) -> None:
    """Concurrent calls keep their own warnings, in any order of completion."""
    code = (
        "import json, os, sys, time\n"
        "me = json.load(sys.stdin)['me']\n"
        "open(f'../begun-{me}', 'w').close()\n"
        "while not os.path.exists(f'../go-{me}'): time.sleep(0.01)\n"
        "print(json.dumps({'warnings': [me]}))"
    )
    write(folder, "tools/broken.md", "---\nbroken: [\n---\n")
    program(folder, run, code, parameters=[{"name": "me", "type": "string"}])
    found: dict[str, Any] = {}

    def call(me: str) -> None:
        found[me] = vault.call("t", me=me)

    threads = {me: threading.Thread(target=call, args=(me,)) for me in "ab"}
    for me, thread in threads.items():
        thread.start()
        until((folder / f"begun-{me}").exists)
    assert vault.call("get_available_tools", schema=False)["warnings"]
    assert vault.call("call_tool", toolName="get_available_tools")["warnings"]
    for me, thread in threads.items():
        write(folder, f"go-{me}", "")
        thread.join()
    assert found == {me: {"success": True, "warnings": [me]} for me in "ab"}


def test_tool_list_does_not_open_index(vault: Vault, tmp_path: Path) -> None:
    """Listing tools with their schemas does not open the index."""
    found = called(vault, "get_available_tools")["tools"]
    assert any("filePath" in str(entry["outputSchema"]) for entry in found)
    assert list((tmp_path / "cache").rglob("*.db")) == []


def test_registered_tool_reports_missing_program(vault: Vault, folder: Path, run: Run) -> None:
    """A tool fails if its program is missing on this machine, and reports which one."""
    assert vault.call("register_tool", **{**TOOL, "command": ["no-such-program"]})["success"]
    run("tools", "trust", "t", "--yes")
    failed = vault.call("t")["error"]
    assert (failed["code"], "no-such-program" in failed["message"]) == ("failed", True)


_COMMANDS = "run memvault recall zebra --limit 3 first, or memvault list"


@pytest.mark.parametrize(
    "printed",
    [
        {"message": _COMMANDS, "hint": _COMMANDS, "todo": [_COMMANDS]},
        {"warnings": [_COMMANDS]},
        {"success": False, "error": {"message": _COMMANDS, "hint": _COMMANDS}},
        {"success": False, "error": _COMMANDS},
    ],
    ids=str,
)
def test_registered_tool_output_is_unchanged(
    folder: Path, run: Run, vault: Vault, printed: dict[str, Any]
) -> None:
    """Commands in a tool's output, warnings and errors reach an agent unchanged."""
    program(folder, run, f"print({json.dumps(json.dumps(printed))})")
    for result in (vault.call("t"), vault.call("call_tool", toolName="t")):
        assert json.dumps(result).count(_COMMANDS) == json.dumps(printed).count(_COMMANDS)
        assert "memory_recall" not in json.dumps(result)


def test_registered_tool_error_is_quoted_unchanged(folder: Path, run: Run, vault: Vault) -> None:
    """A failed tool's last line is quoted unchanged, and memvault's own hints refer to tools."""
    program(folder, run, f"raise SystemExit({_COMMANDS!r})")
    assert _COMMANDS in vault.call("t")["error"]["message"]
    assert _COMMANDS in vault.call("call_tool", toolName="t")["error"]
