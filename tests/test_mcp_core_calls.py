"""Calls by models succeed with the short definitions of the core profile as with the full ones.

Models send the arguments of other memory servers, strings for other types, and keys that their
clients add. They know hidden arguments from full definitions, the reference or errors.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from conftest import write

pytest.importorskip("mcp", reason="the MCP SDK is not installed: pip install 'memvault[mcp]'")
from mcp import Client

from mcp_client import LOADED as LOADED  # modules preloaded for commands; see conftest
from mcp_client import session, structured
from memvault.mcp import profiles

CORE = profiles.profiles()["core"].tools
DEFINITIONS = pytest.mark.parametrize(
    "tools", ["core", ",".join(CORE)], ids=["short definitions", "full definitions"]
)
POSTGRES, RETRIES, LOCK = "Use PostgreSQL", "Retries need a cap", "Lock timeout in the queue"
NOTES = {
    "architectural-decision/use-postgresql.md": (
        f"---\nid: pg\ntags: [database, infrastructure]\n---\n\n# {POSTGRES}\n\n"
        "## Decision\n\nWe use the PostgreSQL database for orders.\n\n"
        "## Reasons\n\nEasier backups.\n"
    ),
    "learning/retries.md": (
        f"---\nid: retry\ntags: [network]\n---\n\n# {RETRIES}\n\nWithout a cap, retries storm.\n"
    ),
    "issue/lock.md": (
        f"---\nid: lock\ntags: [database]\nmodified: 2020-02-03T10:00:00.000Z\n---\n\n# {LOCK}\n\n"
        "The queue waits for a lock of the database.\n"
    ),
}


class Task(NamedTuple):
    """A call that only reads: the arguments as a model sends them, and the result's titles."""

    tool: str
    arguments: dict[str, Any] | None
    titles: set[str]


RECALL, SHOW, LIST = "memory_recall", "memory_show", "memory_list"
ALL = {POSTGRES, RETRIES, LOCK}
NEW = {POSTGRES, RETRIES}
TASKS = [
    # the documented arguments
    Task(RECALL, {"query": "which database do we use", "limit": 1}, {POSTGRES}),
    Task(RECALL, {"query": "database", "tags": ["database"], "since": "2026-01-01"}, {POSTGRES}),
    Task(RECALL, {"query": "queue", "memoryType": "issue", "offset": 0}, {LOCK}),
    Task(LIST, {"memoryType": "learning", "limit": 5}, {RETRIES}),
    Task(SHOW, {"memId": "pg", "section": "Reasons"}, {POSTGRES}),
    # keys in another spelling, and the names of other programs
    Task(RECALL, {"question": "why do retries storm", "top_k": 1}, {RETRIES}),
    Task(RECALL, {"q": "database", "memory_type": "architectural-decision"}, {POSTGRES}),
    Task(RECALL, {"search": "database", "kind": "issue", "max_results": 3}, {LOCK}),
    Task(LIST, {"category": "issue", "maxResults": 10, "skip": 0}, {LOCK}),
    Task(SHOW, {"path": "learning/retries.md"}, {RETRIES}),
    Task(SHOW, {"title": POSTGRES}, {POSTGRES}),
    Task(SHOW, {"MEMORY_ID": "lock"}, {LOCK}),
    # strings for numbers, lists and flags, and whole numbers as floats
    Task(RECALL, {"query": "which database do we use", "limit": "1"}, {POSTGRES}),
    Task(RECALL, {"query": "why do retries storm", "limit": 1.0}, {RETRIES}),
    Task(RECALL, {"query": "database", "tags": "database, infrastructure"}, {POSTGRES}),
    Task(RECALL, {"query": "database", "tags": '["database", "infrastructure"]'}, {POSTGRES}),
    Task(LIST, {"labels": "#network"}, {RETRIES}),
    # dates in words
    Task(RECALL, {"query": "database", "since": "last week"}, NEW),
    Task(RECALL, {"query": "database", "from": "7d", "to": "today"}, NEW),
    Task(RECALL, {"query": "database", "until": "February 3rd, 2020"}, {LOCK}),
    Task(RECALL, {"query": "database", "since": "2020-02", "until": "2020-02-28"}, {LOCK}),
    Task(RECALL, {"query": "database", "endDate": "2020-12-31T23:59:59Z"}, {LOCK}),
    # every argument of the schema, with null for the missing ones
    Task(
        RECALL,
        {
            "query": "database",
            "memoryType": None,
            "tags": None,
            "since": "null",
            "until": None,
            "limit": None,
            "offset": None,
        },
        ALL,
    ),
    Task(LIST, {"memoryType": None, "tags": [], "limit": None, "offset": None}, ALL),
    # keys that clients add
    Task(RECALL, {"query": "database", "sessionId": "1", "toolCallId": "2"}, ALL),
    Task(LIST, {"random_string": "dummy"}, ALL),
    Task(LIST, None, ALL),
    # arguments that the short definition omits, and filters in the query
    Task(RECALL, {"query": "database", "filter": "'network' in tags"}, {RETRIES}),
    Task(RECALL, {"query": "", "isAll": True}, ALL),
    Task(RECALL, {"query": "queue", "type": "Keyword", "strict": "yes"}, {LOCK}),
    Task(RECALL, {"query": "database -queue in:issue"}, set()),
    Task(RECALL, {"query": "tag:network", "explain": "true", "budget": "500"}, {RETRIES}),
    Task(LIST, {"query": "tag:database", "sort": "title", "since": "2025"}, {POSTGRES}),
    Task(SHOW, {"id": "pg", "around": "backups", "length": "40"}, {POSTGRES}),
]


@pytest.fixture
def notes(folder: Path) -> Path:
    """A vault with three memories."""
    for path, text in NOTES.items():
        write(folder, path, text)
    return folder


@DEFINITIONS
def test_reading_tasks_succeed(notes: Path, tools: str) -> None:
    """A model finds the right memories, however it writes the arguments."""

    async def talk(client: Client) -> None:
        for task in TASKS:
            result = (await client.call_tool(task.tool, task.arguments)).structured_content
            assert result["success"], (task, result)
            memories = result.get("memories", [result])
            assert {entry["title"] for entry in memories} == task.titles, (task, result)

    session(notes, talk, tools=tools)


@DEFINITIONS
def test_writing_tasks_succeed(notes: Path, tools: str) -> None:
    """A model stores, extends, replaces, forgets, restores and undoes memories."""

    async def talk(client: Client) -> None:
        made = await structured(
            client,
            "memory_remember",
            name="Deploys need a review",
            text=["Ask Husam.", "Before ten."],
            labels="team, deploy",
            category="Learning",
            importance="0.8",
        )
        assert (made["memoryType"], made["tags"]) == ("learning", ["team", "deploy"])
        mem_id = made["memId"]
        shown = await structured(client, SHOW, memId=mem_id)
        assert "- Ask Husam.\n- Before ten." in shown["content"]
        assert shown["metadata"]["importance"] == 0.8

        newer = await structured(
            client, "memory_remember", title="Use SQLite", content="Simpler.", supersedes="pg"
        )
        updated = await structured(
            client, "memory_remember", title="Use SQLite", content="Fewer parts.", filePath="pg"
        )
        assert updated["isUpdate"]
        assert updated["filePath"] != newer["filePath"]

        for arguments in (
            {"memId": mem_id, "content": "It is quick."},
            {"query": mem_id, "modifications": "By chat.", "section": "How", "mode": "Section"},
            {"title": "Deploys need a review", "changes": "Seen again.", "mode": "APPEND"},
        ):
            assert (await structured(client, "memory_compound", **arguments))["success"]
        shown = await structured(client, SHOW, memId=mem_id)
        assert re.search(r"It is quick\.\n+## How\n+By chat\.\n+Seen again\.", shown["content"])
        stale = {"query": mem_id, "modifications": "x", "ifMatch": "0" * 16}
        assert (await structured(client, "memory_compound", **stale))["error"]["code"] == "conflict"

        preview = await structured(client, "memory_forget", query=mem_id)
        assert preview["confirmRequired"]
        token = preview["confirmToken"]
        assert (await structured(client, "memory_forget", query=mem_id, confirm=token))["files"]
        assert (await structured(client, "memory_forget", id="lock", confirmed="true"))["files"]
        trash = (await structured(client, "memory_restore"))["trash"]
        assert {entry["title"] for entry in trash} == {"Deploys need a review", LOCK}
        assert (await structured(client, "memory_restore", title=LOCK))["memId"] == "lock"

        changes = (await structured(client, "memory_undo", list="true", limit="2"))["changes"]
        assert [change["tool"] for change in changes] == ["memory_restore", "memory_forget"]
        assert (await structured(client, "memory_undo", changeId=changes[0]["changeId"]))["undone"]
        assert (await structured(client, SHOW, memId="lock"))["error"]["code"] == "not_found"

    session(notes, talk, tools=tools)


@DEFINITIONS
def test_tools_without_required_arguments_accept_any_key(notes: Path, tools: str) -> None:
    """Types and the context block are returned even if the client adds arguments."""

    async def talk(client: Client) -> None:
        for arguments in ({}, {"random_string": "x"}, {"budget": 400}):
            types = (await structured(client, "memory_list_types", **arguments))["types"]
            assert {entry["name"]: entry["count"] for entry in types}["issue"] == 1
        for arguments in ({"task": "retries"}, {"prompt": "retries", "budget": "900"}):
            block = (await structured(client, "context", **arguments))["context"]
            assert RETRIES in block

    session(notes, talk, tools=tools)


@DEFINITIONS
def test_argument_error_suggests_valid_arguments(notes: Path, tools: str) -> None:
    """An error specifies the invalid argument and the arguments or values to use instead."""
    wrong: list[tuple[str, dict[str, Any], str, str]] = [
        (
            RECALL,
            {"query": "x", "explan": True},
            "has no argument 'explan'",
            "did you mean explain?",
        ),
        (RECALL, {"query": "x", "mode": "tag"}, "has no argument 'mode'", "did you mean type?"),
        (RECALL, {"query": "x", "limit": "many"}, "`limit` must be an integer", "Maximum results"),
        (RECALL, {"query": "x", "since": "someday"}, "since must be a date", "7d"),
        (LIST, {"budget": 5}, "`budget` must be at least 200", "0 for no limit"),
        (SHOW, {"arguments": {"memId": "pg"}}, "needs `memId`", "path, or exact title"),
        (
            "memory_compound",
            {"query": "pg", "modifications": "x", "mode": "merge"},
            "`mode` must be one of append, replace, section",
            "replace",
        ),
    ]

    async def talk(client: Client) -> None:
        for tool, arguments, message, hint in wrong:
            error = (await structured(client, tool, **arguments))["error"]
            assert error["code"] == "usage"
            assert message in error["message"]
            assert hint in error["hint"]
        ignored = await structured(client, LIST, colour="red")
        assert ignored["warnings"] == ["ignored unknown argument of `memory_list`: 'colour'"]

    session(notes, talk, tools=tools)
