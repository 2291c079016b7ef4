"""Calls over MCP wait, finish and are canceled in order, and do not reveal local paths."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from conftest import Run, all_gone, sampled, some_of, until, without_rights, write
from memvault import Vault, open_vault
from memvault.call import Call, Caller
from memvault.tools.core import registry
from memvault.workspace import Workspace
from tool_calls import call_of, over_mcp
from tool_matrix import CLIENT

pytest.importorskip("mcp", reason="the MCP SDK is not installed: pip install 'memvault[mcp]'")
import mcp_types as types
from mcp import Client, MCPError

from mcp_client import LIMIT, Raw, in_session, session, structured
from memvault.mcp import stdio
from memvault.mcp.calls import PendingCall
from memvault.mcp.sdk_types import result

SLOW = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
with open("../pids.tmp", "w") as file:
    file.write(f"{os.getpid()} {child.pid}")
os.rename("../pids.tmp", "../pids")
time.sleep(600)
"""
HOOK = {"events": [{"eventType": "Hook", "parameter": "ci"}]}


def waits(workspace: Workspace) -> tuple[PendingCall, threading.Thread]:
    """Start a call that waits for a hook, in a thread."""
    call = PendingCall(workspace, Caller(), "wait_for", HOOK)
    thread = threading.Thread(target=call.run)
    thread.start()
    return call, thread


@in_session()
async def test_mcp_calls_continue_while_one_waits(client: Client, folder: Path) -> None:
    """While a call waits for an event, the agent recalls and remembers over the same server."""
    waiting = [asyncio.create_task(structured(client, "wait_for", **HOOK)) for _ in range(3)]
    results = await asyncio.gather(
        *(structured(client, "memory_recall", query=f"zebra {n}") for n in range(8)),
        *(
            structured(client, "memory_remember", title=f"T{n}", content="x", memoryType="")
            for n in range(4)
        ),
    )
    assert all(found["success"] for found in results)
    assert not any(task.done() for task in waiting)
    for number in range(3):
        await structured(client, "push_service", name="ci", message=str(number))
    events = [(await task)["events"][0]["result"]["data"]["message"] for task in waiting]
    assert sorted(events) == ["0", "1", "2"]
    assert (await structured(client, "peek_inbox"))["events"] == []


@pytest.fixture
def slow(folder: Path, run: Run) -> Path:
    """A vault with a trusted tool that never ends; returns the file with its processes."""
    write(folder, "tools/slow.py", SLOW)
    write(folder, "tools/slow.md", "---\ndescription: x\ncommand: python3 slow.py\n---\n")
    assert run("tools", "trust", "slow", "--yes").code == 0
    return folder / "pids"


WAYS: list[tuple[str, dict[str, Any]]] = [
    ("slow", {}),
    ("call_tool", {"toolName": "slow"}),
    ("call_tool", {"toolName": "call_tool", "parameters": {"toolName": "slow"}}),
]


@pytest.mark.parametrize(("name", "arguments"), WAYS, ids=["itself", "called", "called twice"])
@pytest.mark.parametrize("end", ["cancel", "input", "signal"])
def test_mcp_call_children_exit_on_cancel_or_server_exit(
    folder: Path, slow: Path, name: str, arguments: dict[str, Any], end: str
) -> None:
    """When a call is canceled or the server exits, the tool's program and its children exit."""
    with Raw(folder) as server:
        server.call(1, name, **arguments)
        until(slow.exists)
        if end == "cancel":
            server.send("notifications/cancelled", {"requestId": 1})
            until(lambda: all_gone(slow))
            server.call(2, "memory_list")
            while server.receive()["id"] != 2:  # a canceled call may also be answered
                pass
        elif end == "signal":
            server.process.send_signal(signal.SIGTERM)
            server.process.wait(LIMIT)
        server.ended()
        until(lambda: all_gone(slow))


@pytest.mark.parametrize("name", ["wait_for", "call_tool"])
def test_mcp_wait_through_call_tool_can_be_canceled(folder: Path, name: str) -> None:
    """Canceling a call ends its wait, whether called directly or through call_tool."""
    workspace = Workspace(folder)
    arguments = HOOK if name == "wait_for" else {"toolName": "wait_for", "parameters": HOOK}
    call = PendingCall(workspace, Caller(), name, arguments)
    thread = threading.Thread(target=call.run, daemon=True)
    thread.start()
    PendingCall(workspace, Caller(), "memory_list", {}).run()
    call.cancel()
    thread.join(LIMIT / 4)
    assert not thread.is_alive()
    workspace.close()


@in_session()
async def test_canceled_wait_does_not_consume_event(client: Client, folder: Path) -> None:
    """After a client cancels a wait, the event it waited for is available to the next caller."""
    waiting = asyncio.create_task(structured(client, "wait_for", **HOOK))
    await structured(client, "memory_list")  # this call was sent later, so the wait has begun
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await structured(client, "push_service", name="ci", message="green")
    taken = await structured(client, "peek_inbox")
    assert [event["data"]["message"] for event in taken["events"]] == ["green"]


@pytest.mark.parametrize("poll", ["0", "1"])
def test_mcp_canceled_wait_ends_its_thread(
    folder: Path, monkeypatch: pytest.MonkeyPatch, poll: str
) -> None:
    """The server does not accumulate threads of canceled waits."""
    monkeypatch.setenv("MEMVAULT_POLL", poll)
    workspace = Workspace(folder)
    begun = [waits(workspace) for _ in range(3)]
    PendingCall(workspace, Caller(), "memory_list", {}).run()
    call, thread = begun[1]
    call.cancel()
    thread.join(LIMIT)
    assert [thread.is_alive() for _, thread in begun] == [True, False, True]
    for call, thread in begun:
        call.cancel()
        thread.join(LIMIT)
        assert not thread.is_alive()
    workspace.close()


def test_mcp_call_canceled_before_answer_requeues_events(folder: Path, vault: Vault) -> None:
    """If a call is canceled before its answer is sent, its events return to the inbox."""
    vault.call("push_service", name="ci", message="green")
    workspace = Workspace(folder)
    taken: list[PendingCall] = []

    def take() -> int:
        taken.append(PendingCall(workspace, Caller(), "peek_inbox", {}))
        return len(taken[-1].run()["events"])

    assert take() == 1
    assert take() == 0  # the next call does not requeue the event either
    taken[0].cancel()
    until(take)
    taken[-1].acknowledge()
    threads = set(threading.enumerate())
    taken[-1].cancel()
    # Events are requeued in a separate thread.
    until(lambda: threads.issuperset(threading.enumerate()))
    assert take() == 0
    workspace.close()


def test_mcp_call_canceled_in_queue_does_nothing(folder: Path, vault: Vault) -> None:
    """A queued call whose client disconnects before the tool starts does not write a memory."""
    workspace = Workspace(folder)
    call = PendingCall(
        workspace, Caller(), "set_memories", {"memories": [{"key": "k", "value": "v"}]}
    )
    call.cancel()
    assert call.run()["error"]["code"] == "timed_out"
    assert vault.call("get_memories")["memories"] == []
    workspace.close()


def test_mcp_unwritable_answer_requeues_its_events(folder: Path, vault: Vault) -> None:
    """If an answer cannot be written, its events are requeued."""
    vault.call("push_service", name="ci", message="green")
    with Raw(folder) as server:
        assert server.process.stdout
        server.process.stdout.close()
        server.process.stdout = None
        server.call(1, "peek_inbox")
        server.call(2, "set_memories", memories=[{"key": "done", "value": "yes"}])
        for _ in range(int(LIMIT * 20)):
            if vault.call("get_memories")["memories"]:
                break
            threading.Event().wait(0.05)
        assert server.ended()[0] == 0
    assert len(vault.call("peek_inbox")["events"]) == 1


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
def test_mcp_signal_stops_server_during_waiting_calls(folder: Path, sent: signal.Signals) -> None:
    """On a signal, a server with open input and waiting calls exits immediately and silently."""
    with Raw(folder, fresh=True) as server:
        server.call(1, "wait_for", **HOOK)
        server.call(2, "memory_list")
        assert server.receive()["id"] == 2
        server.process.send_signal(sent)
        server.process.wait(LIMIT)
        code, out, err = server.ended()
        assert (code, err) == (128 + sent, b"")
        assert [json.loads(line)["id"] for line in out.splitlines()] == [1]


def test_mcp_server_exits_at_end_of_input(folder: Path) -> None:
    """When a client closes the server's input, the server exits without finishing waits."""
    with Raw(folder, fresh=True) as server:
        server.call(1, "wait_for", **HOOK)
        server.call(2, "memory_list")
        assert server.receive()["id"] == 2
        code, _, err = server.ended()
        assert (code, err) == (0, b"")


@pytest.mark.parametrize(
    ("line", "request_id", "code"),
    [
        (b'{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{', None, -32700),
        (b"no message", None, -32700),
        (b"\xff\xfe", None, -32700),
        (b"[" * 100_000, None, -32700),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', None, -32600),
        (b"[]", None, -32600),
        (b"7", None, -32600),
        (b'{"id":8,"method":"ping"}', 8, -32600),
        (b'{"jsonrpc":"2.0","id":"a","method":"ping","params":[1]}', "a", -32600),
        (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', None, -32600),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', None, -32600),
        (b'{"jsonrpc":"1.0","method":"notifications/x"}', None, 0),
        (b"  ", None, 0),
    ],
)
def test_mcp_invalid_line_gets_json_rpc_error(line: bytes, request_id: object, code: int) -> None:
    """Invalid JSON is answered with error -32700, and any other invalid message with -32600."""
    answer = stdio._message(line + b"\n")
    if not code:
        assert answer is None
        return
    assert isinstance(answer, types.JSONRPCError)
    assert (answer.id, answer.error.code) == (request_id, code)


def test_mcp_overlong_line_is_refused_and_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a limited part of an endless line is kept in memory, and the next line is read."""
    monkeypatch.setattr(stdio, "_MAX_LINE", 100)
    read, write_end = os.pipe()
    os.write(write_end, b"a" * 100 + b"\n" + b"b" * 1_000 + b"\n" + b"c\n" + b"d" * 500)
    os.close(write_end)
    lines = list(stdio._lines(read))
    os.close(read)
    assert [line[:1] for line in lines] == [b"a", b"b", b"c", b"d"]
    assert max(map(len, lines)) == 101
    refused = stdio._message(lines[1])
    assert isinstance(refused, types.JSONRPCError)
    assert "100 bytes" in refused.error.message


@pytest.mark.parametrize(
    ("tool", "arguments", "ignored"),
    [
        ("memory_remember", {"title": "T", "content": "x", "toolCallId": "call_1"}, 1),
        ("memory_list", {"sessionId": "s", "action": "a", "chatInput": "", "tool": "x"}, 4),
        ("memory_list_types", {"random_string": "x"}, 1),
        ("memory_show", {"memId": "m1", "action": "sendMessage", "_meta": {}}, 2),
        ("memory_save", {"text": "x", "_metadata_of_program": 1}, 1),
        ("call_tool", {"toolName": "memory_list", "tool": "call_tool", "sessionId": "s"}, 2),
        ("call_tool", {"toolName": "memory_list", "parameters": {"sessionId": "s"}}, 1),
        ("store_episode", {"actions": ["Dug"], "action": "sendMessage"}, 1),
        ("memory_recall", {"query": "zebra", **{f"x{n}": 1 for n in range(100)}}, 100),
        ("memory_recall", {"query": "zebra", "limit": "null", "tags": "null", "since": "null"}, 0),
        ("memory_recall", {"query": "zebra", "type": "null", "asOf": "null", "full": "null"}, 0),
    ],
    ids=str,
)
def test_mcp_extra_arguments_are_ignored(
    filled: Path, tool: str, arguments: dict[str, Any], ignored: int
) -> None:
    """A call with unknown arguments succeeds, and a warning lists the ignored ones."""
    answer = over_mcp(filled, tool, arguments)
    assert answer["success"], answer
    notes = [note for note in answer.get("warnings", ()) if note.startswith("ignored unknown")]
    assert len(notes) == (ignored > 0)
    if ignored:
        shown = notes[0].count(",") + 1
        assert shown == min(ignored, 8)
        assert (f"and {ignored - 8} more" in notes[0]) == (ignored > 8)
        assert len(notes[0]) < 700


@pytest.mark.parametrize(
    ("tool", "arguments", "told"),
    [
        ("memory_recall", {"query": "x", "limits": 3}, "did you mean limit?"),
        ("memory_recall", {"query": "x", "limit": 2, "limits": 3}, "did you mean limit?"),
        ("memory_recall", {"query": "x", "": 3}, "valid arguments:"),
        ("memory_remember", {"title": "T", "content": "x", "memory_typ": "a"}, "memoryType"),
        ("memory_remember", {"title": "T", "content": "x", "body": "y"}, "pass it only once"),
        ("memory_recall", {"sessionId": "s"}, ""),
        ("memory_show", {"memId": "null"}, ""),
    ],
    ids=str,
)
def test_mcp_misspelled_arguments_are_refused(
    filled: Path, tool: str, arguments: dict[str, Any], told: str
) -> None:
    """A misspelled, duplicate or missing argument fails the call."""
    answer = over_mcp(filled, tool, arguments)
    assert not answer["success"], answer
    assert told in answer["error"]["hint"]


def test_mcp_null_string_is_text(filled: Path) -> None:
    """Search words, content and titles can be the word null."""
    made = over_mcp(filled, "memory_remember", {"title": "null", "content": "null"})
    assert made["success"]
    found = over_mcp(filled, "memory_recall", {"query": "null"})
    assert found["memories"][0]["memId"] == made["memId"]


def test_mcp_invalid_lines_and_surrogates_are_answered(folder: Path) -> None:
    """Invalid messages and lone surrogates in strings get an answer and do not block clients."""
    with Raw(folder) as server:
        assert server.process.stdin
        server.process.stdin.write(b"\nno message\n[1]\n\xff\xfe\n")
        server.process.stdin.flush()
        codes = [server.receive()["error"]["code"] for _ in range(3)]
        assert codes == [-32700, -32600, -32700]
        server.call(1, "memory_show", memId="half \ud800")
        assert server.receive()["result"]["structuredContent"]["error"]["code"] == "not_found"
        server.call(2, "no_tool_\ud800")
        assert server.receive()["error"]["code"] == -32602
        server.send("resources/read", {"uri": "memvault://memory/\ud800"}, 3)
        assert server.receive()["id"] == 3
        server.call(4, "memory_list")
        assert server.receive()["result"]["isError"] is False


def test_mcp_stdout_contains_only_protocol_messages(folder: Path) -> None:
    """Output of a library, or of a program started by a tool, goes to standard error."""
    code = """
import os, subprocess
from memvault.process import claimed_stdio
with claimed_stdio() as (read, written):
    print("library", flush=True)
    subprocess.run(["sh", "-c", "cat; echo program"], check=True)
    os.write(written, b"protocol " + os.read(read, 100))
print("after")
"""
    done = subprocess.run(
        [sys.executable, "-c", code], input=b"in", capture_output=True, check=True
    )
    assert done.stdout.split() == [b"protocol", b"in" + b"after"]
    assert done.stderr.split() == [b"library", b"program"]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder, next to folders for the cache and everything else."""
    for name, variable in (
        ("house", "HOME"),
        ("hoard", "XDG_CACHE_HOME"),
        ("mind", "XDG_STATE_HOME"),
        ("wishes", "XDG_CONFIG_HOME"),
        ("scratch", "TMPDIR"),
        ("brains", "MEMVAULT_MODELS"),
    ):
        (tmp_path / name).mkdir(mode=0o777)
        (tmp_path / name).chmod(0o777)
        monkeypatch.setenv(variable, str(tmp_path / name))
    return tmp_path / "house"


@pytest.fixture
def kept(home: Path, filled: Path) -> Path:
    """A vault in the home folder, with sample data."""
    root = home / "notes"
    shutil.copytree(filled, root)
    write(root, "a.md", "# Alpha\n\nThe zebra sleeps.\n")
    write(root, "locked/b.md", "# Beta\n\nThe zebra eats.\n")
    with open_vault(root) as vault:
        vault.call("enter_space", spaceId="team")
        vault.call("talk_agent", agent="main", message="Hello")
        vault.call("push_service", name="ci", message="green")
        vault.call("memory_load", memId="Alpha")
        vault.call("memory_recall", query="zebra")
    return root


def right() -> list[tuple[str, dict[str, Any]]]:
    """Return a valid call of every third tool; ``make soak`` uses all."""
    return [(tool.name, call_of(tool)) for tool in some_of(registry.all_tools(), every=3)]


def test_mcp_hint_refers_to_tools_instead_of_commands(folder: Path, vault: Vault, run: Run) -> None:
    """The same hint suggests a command to a person, and a tool with arguments to an agent."""
    asked = {"query": " "}
    for answer in (vault.call("memory_recall", **asked), over_mcp(folder, "memory_recall", asked)):
        assert answer["error"]["hint"].endswith("or list all memories with `isAll`")
    assert run("call", "memory_recall", json.dumps(asked)).json == vault.call(
        "memory_recall", **asked
    )
    assert "or list all memories with `--all`" in run("recall", " ").err
    missing = over_mcp(folder, "memory_show", {"memId": "nothing"})
    assert missing["error"]["hint"] == "`memory_list` shows all of them"
    assert "hint: `memvault list` shows" in run("show", "nothing").err


Calls = Sequence[tuple[str, dict[str, Any]]]


def answers(root: Path, calls: Calls = (), prefix: Sequence[str] = ()) -> list[str]:
    """Return everything that a server sends: tools, memories, and answers."""
    found: list[str] = []

    async def talk(client: Client) -> None:
        for ask in (
            client.list_tools,
            client.list_resources,
            lambda: client.read_resource("memvault://memory/Alpha"),
            lambda: client.read_resource("memvault://memory/nothing"),
            lambda: client.read_resource("file:///etc/passwd"),
            lambda: client.call_tool("nothing", {}),
        ):
            try:
                found.append(repr(await ask()))
            except MCPError as error:
                found.append(repr(error.error))
        for name, arguments in calls:
            found.append(f"{name} {arguments} {await client.call_tool(name, arguments)!r}")

    session(root, talk, "--programs", prefix=prefix)
    return found


def told(root: Path, calls: Calls) -> list[str]:
    """Return the server's answers to calls, computed in this process."""
    workspace, found = Workspace(root), []
    for name, arguments in calls:
        call = PendingCall(workspace, CLIENT, name, arguments)
        answer = result(Call(workspace, CLIENT), call.run())
        call.acknowledge()
        found.append(f"{name} {arguments} {answer!r}")
    workspace.close()
    return found


def no_paths(home: Path, said: list[str]) -> None:
    """Check that no answer contains a folder on this machine."""
    for answer in said:
        for folder in (home.parent, *home.parent.iterdir()):
            assert str(folder) not in answer
        assert str(Path(registry.__file__).parents[1]) not in answer


@sampled(1)
def test_mcp_write_error_shows_vault_relative_path(kept: Path, home: Path) -> None:
    """If a write is denied, the error shows the file's path relative to the vault."""
    weak = without_rights()
    paths = [path for path in (kept, *kept.rglob("*")) if path.is_dir()]
    for path in paths:
        path.chmod(0o555)
    (kept / "locked").chmod(0)
    try:
        said = answers(kept, right()[::3], weak)
    finally:
        for path in paths:
            path.chmod(0o755)
    no_paths(home, said)
    assert any("Permission denied" in answer for answer in said)


BROKEN = {
    "memvault.toml": "version = [\n",
    ".memvault": "no folder\n",
    "agents": "no folder\n",
    "tools": "no folder\n",
    "spaces": "no folder\n",
    "a.md": "---\ntitle: [\n---\n\nThe zebra sleeps.\n",
    "agents/main/inbox/x.md": "---\ntitle: [\n---\n",
    "tools/t.md": "---\ntitle: [\n---\n",
}


@sampled(4)
@pytest.mark.promise("S37")
@pytest.mark.parametrize("path", BROKEN)
def test_mcp_broken_file_has_vault_relative_path(kept: Path, home: Path, path: str) -> None:
    """Errors, hints and warnings show a broken file's path relative to the vault."""
    if (kept / path).is_dir():
        (kept / path).rename(kept / "away")
    write(kept, path, BROKEN[path])
    no_paths(home, [*answers(kept), *told(kept, right())])


@sampled(2)
@pytest.mark.parametrize("path", ["house/notes/memvault.toml", "wishes/memvault/settings.toml"])
def test_mcp_model_folder_is_reported_by_name(
    kept: Path, tmp_path: Path, home: Path, path: str
) -> None:
    """A model path in the vault's or the user's settings is reported as its folder name only."""
    elsewhere = tmp_path / "house" / "zoo" / "okapi"
    write(elsewhere, "model.onnx", "no model")
    models = "".join(f'[{use}]\nmodel = "{elsewhere}"\n' for use in ("embedder", "rerank"))
    write(tmp_path, path, models).chmod(0o600)
    said = told(kept, [*right(), ("memory_recall", {"query": "zebra", "rerank": True})])
    no_paths(home, said)
    assert any("okapi" in answer for answer in said)


def test_mcp_reports_relative_cache_folder(
    kept: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a user folder setting is not an absolute path, answers report it without showing paths."""
    monkeypatch.setenv("MEMVAULT_CACHE", "cache")
    said = answers(kept, [("memory_recall", {"query": "zebra"}), ("memory_show", {})])
    no_paths(home, said)
    assert "MEMVAULT_CACHE is not an absolute path" in said[-2]


@pytest.mark.promise("S16")
def test_mcp_model_path_is_refused(kept: Path, home: Path, run: Run) -> None:
    """Over MCP a model must be given by name; the command line also accepts a folder."""
    write(home, "zoo/model.onnx", "no model")
    calls = [
        (tool, {"name": name, "for": use})
        for tool in ("model_use", "model_verify")
        for name in (str(home / "zoo"), "~/zoo", "../zoo", "x/../../zoo", str(home / "none"), ".")
        for use in ("embed", "rerank")
    ]
    said = answers(kept, calls)[-len(calls) :]
    assert len({answer.partition("CallToolResult")[2] for answer in said}) == 1
    assert "use folders on this machine" in said[0]
    assert str(home / "zoo") in run("model", "verify", str(home / "zoo")).err


def test_command_line_prints_absolute_paths(kept: Path, run: Run) -> None:
    """The command line prints absolute paths."""
    assert str(kept) in run("status", "--vault", str(kept)).out
    assert run("status", "--json", "--vault", str(kept)).json["vault"] == str(kept)
