"""Calls over HTTP lose nothing, even if a client disconnects or the server exits."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import shutil
import signal
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from conftest import Run, index_of, sampled, until, write

pytest.importorskip("mcp", reason="the MCP SDK is not installed: pip install 'memvault[mcp]'")
import mcp_types as types
from mcp import Client

from http_client import HELLO_REQUEST, LIMIT, NOTE, Served, named, token
from mcp_client import LOADED as LOADED  # modules preloaded for commands; see conftest
from mcp_client import structured
from memvault import open_vault
from memvault.call import Caller
from memvault.files.lock import FileLock
from memvault.mcp.calls import REPLIES, PendingCall
from memvault.server.gateway import HttpExchange
from memvault.workspace import Workspace
from test_mcp import Heard

HOOK = [{"eventType": "Hook", "parameter": "build"}]
BEN = [{"eventType": "Agent", "parameter": "ben"}]


@pytest.fixture
def team(tmp_path: Path, run: Run) -> Path:
    """A vault with a name."""
    folder = named(run, "team", tmp_path / "team")
    write(folder, "fact/tea.md", NOTE.format("tea", "Green."))
    return folder


def test_serve_two_agents_talk(team: Path, run: Run) -> None:
    """One agent waits for another's message, and each has the identity of its token."""
    ann, ben = token(run, "ann", "team", "write"), token(run, "ben", "team", "write")

    async def waits(client: Client) -> None:
        await structured(client, "talk_agent", agent="ben", message="are you there")
        found = await structured(client, "wait_for", events=BEN, timeout=30)
        assert "hello ann" in json.dumps(found)

    async def sends(client: Client) -> None:
        await asyncio.to_thread(server.waits)
        await structured(client, "talk_agent", agent="ann", message="hello ann")

    with Served("--tools", "all") as server:

        async def both() -> None:
            async with asyncio.timeout(LIMIT):
                await asyncio.gather(server.talking(ann, waits), server.talking(ben, sends))

        asyncio.run(both())


@pytest.mark.promise("R53")
def test_serve_keeps_event_after_client_disconnects(team: Path, run: Run) -> None:
    """An event that arrives after its client disconnected is kept for the next client."""
    ann = token(run, "ann", "team", "write")
    with Served("--tools", "all") as server:
        with server.begin(ann, "wait_for", events=HOOK, timeout=30):
            server.waits()
        server.waits(is_open=False)
        server.result(ann, "push_service", name="build", message="keep me")
        held = server.result(ann, "list_inbox")
        assert "keep me" in json.dumps(held)


@pytest.mark.promise("R53")
@pytest.mark.parametrize("is_there", [True, False])
def test_serve_requeues_event_of_undelivered_answer(team: Path, is_there: bool) -> None:
    """An event is consumed only if the complete answer is sent before the client disconnects."""
    with open_vault(team) as vault:
        vault.call("push_service", name="build", message="keep me")
    workspace, scope = Workspace(team), dict[str, Any]()
    taking = PendingCall(workspace, Caller(), "peek_inbox", {})

    async def receive() -> dict[str, str]:
        if is_there:
            await asyncio.sleep(LIMIT)
        return {"type": "http.disconnect"}

    async def send(_: object) -> None:
        await asyncio.sleep(0)

    async def answered() -> None:
        answer = HttpExchange(scope, receive, send)
        scope[REPLIES].register(1, taking)
        assert "keep me" in json.dumps(await asyncio.to_thread(taking.run))
        await answer.send({"type": "http.response.body", "body": b"x", "more_body": False})
        answer.close()

    asyncio.run(answered())
    for thread in threading.enumerate():  # events are requeued in another thread
        if thread.name == "memvault gives up a call":
            thread.join()
    workspace.close()
    with open_vault(team) as vault:
        assert len(vault.call("list_inbox")["events"]) == (0 if is_there else 1)


@sampled(2)
@pytest.mark.promise("R52")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_calls_in_flight_finish_before_server_exits(team: Path, run: Run, number: int) -> None:
    """On a signal, the server finishes running calls and immediately times out waiting ones."""
    ann = token(run, "ann", "team", "write")
    answers: dict[str, Any] = {}
    with Served("--tools", "all", fresh=True) as server:
        server.result(ann, "memory_list")

        def wait() -> None:
            answers["wait"] = server.result(ann, "wait_for", events=HOOK, timeout=600)

        def write_much() -> None:
            for entry in range(30):
                try:
                    answers[str(entry)] = server.result(
                        ann, "memory_remember", title=f"Note {entry}", content="x"
                    )
                except (AssertionError, OSError):  # the server no longer accepts connections
                    return

        threads = [threading.Thread(target=work) for work in (wait, write_much)]
        for thread in threads:
            thread.start()
        server.waits()
        until(lambda: answers)
        code, said = server.end(signal.Signals(number))  # the server waits less time than the call
        for thread in threads:
            thread.join()
    assert (code, "Traceback" in said) == (0, False), said
    assert answers.pop("wait")["error"]["code"] == "timed_out"
    made = {entry["filePath"] for entry in answers.values()}
    assert made
    assert all((team / path).is_file() for path in made)


def is_closing(server: Served) -> bool:
    """Return whether a server refuses further requests."""
    try:
        return server.send(None, None, "/healthz", "GET").status == 503
    except OSError:
        return True


@pytest.mark.promise("R52")
def test_serve_second_signal_ends_waiting_calls(team: Path, run: Run) -> None:
    """After a second signal, a call that waits for another process does not delay the exit."""
    ann = token(run, "ann", "team")
    lock = index_of(team) / "lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    with Served(fresh=True) as server, FileLock(lock):

        def ask() -> None:
            with contextlib.suppress(AssertionError, OSError, http.client.HTTPException):
                server.result(ann, "memory_recall", query="green")

        asking = threading.Thread(target=ask)
        asking.start()
        server.waits(str(lock))
        server.process.send_signal(signal.SIGTERM)
        until(lambda: is_closing(server))
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(LIMIT) == 1
        asking.join()
        assert server.process.stderr is not None
        assert b"aborted" in server.process.stderr.read()


@pytest.mark.promise("R56")
def test_serve_refuses_duplicate_request_id(team: Path, run: Run) -> None:
    """A second request with a pending id in the same session is refused; the first completes."""
    ann = token(run, "ann", "team", "write")
    with Served("--tools", "all") as server:
        session = server.send(ann, HELLO_REQUEST).headers["mcp-session-id"]

        def ask(tool: str, number: int | str, **arguments: Any) -> Any:
            params = {"name": tool, "arguments": arguments}
            message = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
            return server.send(ann, message, Mcp_Session_Id=session)

        with ThreadPoolExecutor(1) as beside:
            first = beside.submit(ask, "wait_for", 7, events=HOOK, timeout=LIMIT)
            server.waits()
            for same in (7, "7"):
                answer = ask("memory_list", same)
                assert (answer.status, "in use" in answer.json["error"]) == (400, True)
            assert ask("push_service", 8, name="build", message="it is done").status == 200
            assert "it is done" in first.result(timeout=LIMIT).body.decode()
        assert ask("memory_list", 7).status == 200


def test_serve_refuses_request_id_of_wrong_type(team: Path, run: Run) -> None:
    """A request with an invalid id is refused, not dropped as a notification."""
    ann = token(run, "ann", "team")
    with Served() as server:
        session = server.send(ann, HELLO_REQUEST).headers["mcp-session-id"]
        message: dict[str, Any] = {}
        wrong: object
        for wrong in (True, None, 1.5, [1], {}):
            message = {"jsonrpc": "2.0", "id": wrong, "method": "tools/list", "params": {}}
            answer = server.send(ann, message, Mcp_Session_Id=session)
            assert (answer.status, "id" in answer.json["error"]) == (400, True)
        assert server.send(ann, {**message, "id": 2}, Mcp_Session_Id=session).status == 200


@pytest.mark.filterwarnings("ignore:resources.*is removed as of 2026-07-28")
def test_serve_distinguishes_clients_of_one_token(team: Path, run: Run) -> None:
    """Clients with equal request ids and different subscriptions each get their own answers."""
    ann = token(run, "ann", "team", "write")
    write(team, "fact/rum.md", NOTE.format("rum", "Brown."))
    heard = {"tea": Heard(), "rum": Heard()}
    told_of = set[str]()

    async def one(client: Client, name: str) -> None:
        await client.subscribe_resource(f"memvault://memory/{name}-7k2m9q")
        for _ in range(5):
            shown = await structured(client, "memory_show", memId=f"{name}-7k2m9q")
            assert shown["title"] == name
        write(team, f"fact/{name}.md", NOTE.format(name, "Cold."))
        told = await heard[name].of(types.ResourceUpdatedNotification)
        assert str(told.params.uri) == f"memvault://memory/{name}-7k2m9q"
        told_of.add(name)
        while len(told_of) < len(heard):  # by then, the other client's notification was sent too
            await asyncio.sleep(0.02)
        await structured(client, "memory_list")
        kinds = [
            m for m in heard[name].messages if isinstance(m, types.ResourceUpdatedNotification)
        ]
        assert {str(m.params.uri) for m in kinds} <= {f"memvault://memory/{name}-7k2m9q"}

    with Served("--tools", "all") as server:

        async def session(name: str) -> None:
            async def talk(client: Client) -> None:
                await one(client, name)

            await server.talking(ann, talk, mode="legacy", message_handler=heard[name])

        async def both() -> None:
            async with asyncio.timeout(LIMIT):
                await asyncio.gather(*map(session, heard))

        asyncio.run(both())


@pytest.mark.promise("S42")
def test_serve_session_belongs_to_one_token(team: Path, run: Run) -> None:
    """A session started with one token cannot be continued with another token."""
    ann, ben = token(run, "ann", "team"), token(run, "ben", "team")
    with Served() as server:
        begun = server.send(ann, HELLO_REQUEST)
        session = {name.lower(): value for name, value in begun.headers.items()}["mcp-session-id"]
        ping = {"jsonrpc": "2.0", "id": 2, "method": "ping", "params": {}}
        assert server.send(ann, ping, Mcp_Session_Id=session).status == 200
        assert server.send(ben, ping, Mcp_Session_Id=session).status == 404
        made_up = server.send(ben, ping, Mcp_Session_Id="0" * 32)
        assert made_up.status == 404


JAVASCRIPT = """
const [url, token] = process.argv.slice(2);
let session, number = 0;
async function send(method, params) {
  const headers = {"content-type": "application/json", authorization: `Bearer ${token}`,
                   accept: "application/json, text/event-stream"};
  if (session) headers["mcp-session-id"] = session;
  const body = {jsonrpc: "2.0", method, params};
  if (!method.startsWith("notifications/")) body.id = ++number;
  const answer = await fetch(url, {method: "POST", headers, body: JSON.stringify(body)});
  session ??= answer.headers.get("mcp-session-id");
  const text = await answer.text();
  if (!text) return null;
  const data = text.split("\\n").find(line => line.startsWith("data: {")) ?? "data: " + text;
  return JSON.parse(data.slice(6)).result;
}
const hello = {protocolVersion: "2025-06-18", capabilities: {},
               clientInfo: {name: "js", version: "1"}};
await send("initialize", hello);
await send("notifications/initialized", {});
const found = await send("tools/call", {name: "memory_recall", arguments: {query: "tea"}});
console.log(JSON.stringify(found.structuredContent.memories.map(entry => entry.memId)));
"""


def test_serve_works_with_javascript_client(team: Path, run: Run, tmp_path: Path) -> None:
    """A client that is not written in Python can recall too."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    script = write(tmp_path, "client.mjs", JAVASCRIPT)
    with Served() as server:
        line = [node, str(script), f"{server.url}/mcp", token(run, "js", "team")]
        ran = subprocess.run(line, capture_output=True, timeout=LIMIT, check=False)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout) == ["tea-7k2m9q"]
    assert team.is_dir()
