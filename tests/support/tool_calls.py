"""A call of each tool that works in the vault ``filled``, and the ways to make it.

Calls are built from the tool's parameters: each required parameter gets the value of its key in
``VALUES``, or a value of its type. ``OWN`` has additional arguments for some tools. A new tool
whose call does not work that way fails in ``test_cli``.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from memvault.__main__ import main
from memvault.arguments.parameters import Parameter
from memvault.call import Call, Caller
from memvault.command_table import TOOLS
from memvault.tools.core.registry import Tool, all_tools
from memvault.workspace import Workspace
from ran import Ran

VALUES: dict[str, Any] = {
    "query": "zebra",
    "memId": "m1",
    "ids": ["m3", "none"],
    "title": "Bilbies",
    "name": "Bilbies",
    "content": "They dig too.",
    "memoryType": "fact",
    "memories": [{"key": "k", "value": "a b"}],
    "keys": ["k", "l"],
    "goals": [{"id": "g", "description": "Ship it", "status": "later"}],
    "goalIds": ["g"],
    "plans": [{"name": "Report", "instruction": "Do it", "scheduledAt": "2999-01-01"}],
    "planIds": ["p"],
    "fact": "Crows dig, too",
    "factId": "m3",
    "procedureName": "zebra",
    "skillId": "life.dig.deep",
    "categoryId": "life",
    "subcategoryId": "life.dig",
    "agent": "bob",
    "subbrain": "night",
    "talkId": 7,
    "events": [{"eventType": "Hook", "parameter": "ci"}],
    "spaceId": "team",
    "toolName": "memory_list_types",
    "resource": "wood",
}
"""Values by parameter key, for every tool that has such a parameter."""

OWN: dict[str, dict[str, Any]] = {
    "memory_remember": {"tags": ["a", "b"], "importance": 0.25, "source": "a, b"},
    "memory_recall": {
        "query": "sleep",
        "memoryType": "fact",
        "tags": ["x"],
        "limit": 3,
        "type": "keyword",
        "explain": True,
    },
    "recall_memory": {"observations": ["zebra"]},
    "memory_compound": {"mode": "append"},
    "memory_forget": {"threshold": 0.8},
    "memory_create": {"tags": ["a", "b"]},
    "memory_load": {"memId": "m2", "offset": 2, "length": 4},
    "memory_search": {"type": "Keyword", "limit": 2},
    "memory_active": {"full": True},
    "memory_save": {"area": "zoo", "metadata": {"n": 1, "k": "a,b"}},
    "memory_list": {"tags": ["x"], "filter": "'x' in tags", "since": "9d", "limit": 1},
    "context": {"task": "who digs", "budget": 300},
    "get_goals": {"status": "active"},
    "get_plans": {"status": "active"},
    "store_episode": {
        "context": ["Rain, again"],
        "actions": ["Dug", "Slept, dry"],
        "outcomes": [{"type": "done", "text": "deep,wide"}, {"type": "seen", "n": [1]}],
        "skillsUsed": ["a", "b"],
        "importance": 0.25,
        "reflection": "## Well",
    },
    "recall_similar_experience": {"limit": 2, "minImportance": 0.1},
    "get_recent_episodes": {"days": 2, "limit": 1},
    "store_fact": {"category": "zoo", "confidence": 0.5, "source": "a, b"},
    "recall_fact": {"limit": 2, "category": "General"},
    "update_fact": {"newText": "They sleep.", "newConfidence": 0.5},
    "store_procedure": {"initialSuccessRate": 0.25, "skillId": "life.fly"},
    "recall_procedure": {"minSuccessRate": 0.5},
    "update_success_rate": {"success": False},
    "use_skill": {"difficultyModifier": 0.25},
    "consolidate_memories": {"days": 30},
    "wait_for": {"timeout": 5},
    "peek_inbox": {"count": 2, "filter": "talk"},
    "enter_space": {"limit": 1},
    "read_messages": {"spaceId": "team"},
    "get_available_tools": {"schema": False},
    "register_tool": {"name": "hi", "description": "Says hi", "command": "echo hi"},
    "observe_location": {"radius": 3},
    "move_to": {"x": -3, "y": 4.5},
    "gather_resource": {"amount": 2},
    "memory_diff": {"memId": "m2"},
    "memory_rename": {"title": "New name", "to": "elsewhere/"},
    "tag_add": {"tags": ["a", "b"]},
    "tag_remove": {"tags": ["x"]},
    "tag_rename": {"old": "x", "new": "y"},
    "complete_task": {"memory": "m2", "line": 13},
    "memory_random": {"memoryType": "procedure"},
    "save_search": {"name": "dig", "query": "zebra"},
    "delete_search": {"name": "zoo"},
    "model_use": {"name": "builtin"},
    "model_verify": {"name": "builtin"},
}
"""Arguments that cannot be derived from parameters, by tool."""

WORKING = [tool for tool in all_tools() if tool.name != "git_sync"]
"""The tools that succeed in this vault; a sync needs a remote, and has its own tests."""

WRITING = [tool for tool in all_tools() if not tool.read_only and tool.name != "memory_undo"]
"""The tools that write, except undo, which needs something to undo."""
WRITING_BY_ITSELF = [tool for tool in WRITING if not tool.name.startswith("git_")]
"""The writing tools whose changes are not made by git."""
WRITES: dict[str, dict[str, Any]] = {
    "memory_forget": {"confirm": True},
    "memory_rename": {"confirm": True},
    "tag_rename": {"confirm": True},
    "consolidate_memories": {"apply": True},
    "memory_restore": {"memId": "m1", "revision": "2"},
    "memory_today": {"text": "Fed the zebra"},
    "enter_space": {"spaceId": "new"},
    "vault_doctor": {"fix": True},
}
"""Arguments that make a tool write, if its usual arguments only show a preview."""
OF_THIS_MACHINE = {
    "memory_load": "active memory is of this machine",
    "memory_evict": "active memory is of this machine",
    "context": "counts are of this machine",
    "talk_log": "the log is of this machine",
    "wait_for": "events that were handed out cannot be called back",
    "use_skill": "counts are of this machine",
    "call_tool": "the tool it calls here only reads",
    "consolidate_memories": "nothing repeats in this vault; the next test has one where it does",
    "vault_reindex": "the index is derived",
    "trash_empty": "what is deleted for good is gone",
    "vault_doctor": "nothing is wrong in this vault; test_doctor.py undoes each fix",
    "git_init": "git keeps what is in .gitignore, and no tool of the vault's reads it",
    "git_sync": "what others wrote is theirs to take back",
    "peek_inbox": "looking delivers due plans, which are nobody's change",
}
"""Tools whose calls leave nothing to undo in the vault, with the reason."""


def call_of(tool: Tool) -> dict[str, Any]:
    """Return arguments with which a tool succeeds in the vault ``filled``."""
    needed = {entry.key: _value(entry) for entry in tool.parameters if entry.required}
    return {**needed, **OWN.get(tool.name, {})}


def writing_call(tool: Tool) -> dict[str, Any]:
    """Return arguments with which a tool writes in the vault ``filled``, if it can write."""
    return {**call_of(tool), **WRITES.get(tool.name, {})}


def soon(tool: Tool) -> dict[str, Any]:
    """Return the same arguments with a short timeout for tools that wait."""
    arguments = writing_call(tool)
    return sayable(tool, arguments) if tool.name == "wait_for" else arguments


def warmed(root: Path) -> None:
    """Run every writing tool in a throwaway vault, so that their modules are loaded."""
    for tool in WRITING_BY_ITSELF:
        printed(root, "call", tool.name, json.dumps(soon(tool)))


def _value(parameter: Parameter) -> Any:
    """Return a value for a parameter, by its key or else by its type."""
    if parameter.key in VALUES:
        return VALUES[parameter.key]
    if parameter.choices:
        return parameter.choices[0]
    fitting: dict[type, Any] = {str: "They dig.", bool: True, list: ["a zebra", "digs, now"]}
    fitting |= {int: int(parameter.arg.minimum or 1), float: parameter.arg.minimum or 1, dict: {}}
    return fitting[parameter.types[0]]


def sayable(tool: Tool, arguments: dict[str, Any]) -> dict[str, Any]:
    """Replace values that a command line cannot express, and shorten waits."""
    if tool.name == "set_memories":
        entry = arguments["memories"][0]
        return {"memories": [{**entry, "key": entry["key"].replace("=", "")}]}
    if tool.name == "call_tool":  # Without a name, the command prompts for one.
        return {**arguments, "toolName": arguments["toolName"] or "zebra"}
    if tool.name != "wait_for":
        return arguments
    event = arguments["events"][0]
    parameter = str(event.get("parameter", "")) if event["eventType"] != "Time" else "0.01"
    talk = {}
    if event["eventType"] in ("User", "Agent"):
        parameter = re.sub("[#:]", "", parameter)
        talk = {"talkId": event["talkId"]} if event.get("talkId") else {}
    events = [{"eventType": event["eventType"], "parameter": parameter, **talk}]
    return {"events": events, "timeout": 0.02}


def words(tool: Tool, arguments: dict[str, Any]) -> list[str]:
    """Return the command line that is equivalent to JSON arguments."""
    given = _for_command(tool, arguments)
    options, positional = [], []
    for parameter in tool.shell_parameters:
        value = given.get(parameter.key)
        if "/" in parameter.flag:  # a flag with a positive and a negative form
            options.append(parameter.flag.split("/")[not value])
            continue
        if value is None or (value is False and parameter.types == (bool,)):
            continue
        shown = [_word(entry) for entry in (value if isinstance(value, list) else [value])]
        if parameter.arg.positional:
            positional += shown
        elif parameter.types == (bool,):
            options.append(parameter.flag)
        else:
            options += [f"{parameter.flag}={entry}" for entry in shown]
    return [*tool.command.split(), *options, "--", *positional]


def _word(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _for_command(tool: Tool, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a command that has special syntax, under its own keys."""
    match tool.name:
        case "set_memories":
            pairs = [f"{entry['key']}={entry['value']}" for entry in arguments["memories"]]
            return {"key=value": pairs}
        case "set_goals":
            return dict(arguments["goals"][0])
        case "set_plans":
            return dict(arguments["plans"][0])
        case "get_available_tools":
            return {**arguments, "schema": arguments.get("schema", True)}
        case "register_tool":
            file = Path(tempfile.gettempdir()) / f"memvault-test-{os.getpid()}.json"
            file.write_text(json.dumps(arguments), "utf-8")
            return {"file": str(file)}
        case "wait_for":
            event = arguments["events"][0]
            word = f"{event['eventType'].lower()}:{event['parameter']}"
            word += f"#{event['talkId']}" if "talkId" in event else ""
            return {"events": [word], "timeout": arguments["timeout"]}
        case _:
            return arguments


def variants(
    value: Any, change: Callable[[Any], Any], kinds: tuple[type, ...] = (str,)
) -> Iterator[Any]:
    """For each part of a value with a given type, yield the value with that part changed."""
    if isinstance(value, kinds):
        yield change(value)
    if isinstance(value, list):
        for at, entry in enumerate(value):
            changed = variants(entry, change, kinds)
            yield from ([*value[:at], new, *value[at + 1 :]] for new in changed)
    elif isinstance(value, dict):
        for key, entry in value.items():
            yield from ({**value, key: new} for new in variants(entry, change, kinds))


def typed(*line: str) -> Ran:
    """Run a command line in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([*line])
    return Ran(code, out.getvalue(), err.getvalue())


def printed(root: Path, *line: str) -> Any:
    """Run a command line in this process; return its output parsed as JSON."""
    return typed("--vault", str(root), "--json", *line).json


TRUSTED = Caller()
"""A client with the rights of the command line, so that their answers can be compared."""


def over_mcp(root: Path, tool: str, arguments: dict[str, Any], halves: bool = False) -> Any:
    """Return a call's result over MCP, which its text must equal except for lone surrogates."""
    pytest.importorskip("mcp", reason="the MCP SDK is not installed: pip install 'memvault[mcp]'")
    from memvault.mcp import sdk_types
    from memvault.mcp.calls import PendingCall
    from memvault.tools.core import render

    workspace = Workspace(root)
    call = PendingCall(workspace, TRUSTED, tool, arguments)
    answer = sdk_types.result(Call(workspace, TRUSTED), call.run())
    call.acknowledge()
    workspace.close()
    text = answer.content[0].text  # type: ignore[union-attr]
    assert halves or text == render.text(answer.structured_content)
    assert answer.is_error is ("error" in answer.structured_content)
    return answer.structured_content


SHELL = re.compile(
    rf"memvault (?:{'|'.join(entry.words for entry in TOOLS if entry.tool != 'model_use')})\b"
    r"(?! --fix)|(?<![\w-])--[a-z]"
)
"""Matches text that an agent without a shell cannot use: a tool's command, or an option."""


def shell_words(answer: Any) -> list[str]:
    """Return the messages of an answer that mention a command or an option."""
    error = answer.get("error", {})
    texts = [*(error.values() if isinstance(error, dict) else [error]), answer.get("message", "")]
    for_people = re.compile(r"memvault (?:model use|tools trust|mcp|vaults|init|index)\b.*")
    return [
        text
        for text in [*texts, *answer.get("warnings", ())]
        if SHELL.search(for_people.sub("", text))
    ]


CHANGING = [
    (re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z"), "TIME"),
    (re.compile(r"\d{8}T\d{6}\.\d{3,6}Z(-[a-z0-9]{10})?"), "TIME"),
    (re.compile(r"\b[0-9a-f]{12,}\b"), "HASH"),
    (re.compile(r"\b\d{10,}\b"), "NUMBER"),
    (re.compile(r"-[a-z0-9]{6}\b"), "-RANDOM"),
    (re.compile(r'"(seconds|index)": [\d.e-]+'), r'"\1": 0'),
    (re.compile(r'"(changeId|undoes|undoneBy)": "[a-z0-9]{8}"'), r'"\1": "ID"'),
]
"""Patterns of values that differ between runs: times, random ids, and values derived from them."""


def normal(root: Path, found: Any) -> str:
    """Return a result as text without values that differ between runs."""
    text = json.dumps(found, sort_keys=True, ensure_ascii=False).replace(str(root), "ROOT")
    for pattern, name in CHANGING:
        text = pattern.sub(name, text)
    return text
