"""A vault is served to a team over HTTP: to token holders only, each as one agent."""

from __future__ import annotations

import json
import os
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from conftest import Run, contents, refused, succeeded, until, write

pytest.importorskip("mcp", reason="the MCP SDK is not installed: pip install 'memvault[mcp]'")
from mcp import Client

from http_client import HELLO_REQUEST, LATEST, LIMIT, META, NOTE, Served, named, token
from mcp_client import LOADED as LOADED  # modules preloaded for commands; see conftest
from mcp_client import structured


@pytest.fixture
def places(tmp_path: Path, run: Run) -> dict[str, Path]:
    """Two vaults with names, and their folders."""
    found = {name: named(run, name, tmp_path / name) for name in ("team", "other")}
    write(found["team"], "fact/tea.md", NOTE.format("tea", "The team drinks green tea."))
    write(found["other"], "fact/rum.md", NOTE.format("rum", "The others drink rum."))
    return found


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_serve_write_token_allows_recall_and_write(
    places: dict[str, Path], run: Run, mode: str
) -> None:
    """With a write token, a client of either protocol can recall and write as its own agent."""
    given = token(run, "ann", "team,other", "write")

    async def talk(client: Client) -> None:
        found = await structured(client, "memory_recall", query="what does the team drink")
        assert found["memories"][0]["memId"] == "tea-7k2m9q"
        made = await structured(client, "memory_remember", title="Milk", content="None in it.")
        assert (places["team"] / made["filePath"]).is_file()
        every = await structured(client, "memory_recall", query="drink", vaults=["all"])
        assert {entry["vault"] for entry in every["memories"]} == {"team", "other"}
        there = await structured(
            client, "memory_compound", query="other:rum-7k2m9q", modifications="And tea."
        )
        assert there["vault"] == "other"
        log = await structured(client, "memory_log")
        assert {change["agent"] for change in log["changes"]} == {"ann"}

    async def elsewhere(client: Client) -> None:
        found = await structured(client, "memory_list")
        assert [entry["title"] for entry in found["memories"]] == ["rum"]

    with Served("--tools", "all") as server:
        server.talk(given, talk, mode=mode)
        server.talk(given, elsewhere, "/mcp/other", mode=mode)
        code, said = server.end()
    assert (code, "Traceback" in said) == (0, False), said


@pytest.mark.promise("S41")
def test_serve_read_token_cannot_write(places: dict[str, Path], run: Run) -> None:
    """With a read token, nothing in the vault changes and no write tool is offered."""
    write(
        places["team"],
        "agents/bob/plans/p.md",
        "---\nid: p\nschedule: 2020-01-01T00:00:00Z\n---\n\nCall.\n",
    )
    before = contents(places["team"])

    async def talk(client: Client) -> None:
        offered = {tool.name for tool in (await client.list_tools()).tools}
        assert "memory_recall" in offered
        assert not offered & {"memory_remember", "vault_doctor", "git_sync", "register_tool"}
        refusal = await structured(client, "memory_remember", title="x", content="y")
        assert refusal["error"]["code"] == "refused"
        inner = {"toolName": "memory_remember", "parameters": {"title": "x", "content": "y"}}
        assert not (await structured(client, "call_tool", **inner))["success"]
        context = await structured(client, "context", task="what does the team drink")
        assert "green tea" in context["context"]
        assert (await structured(client, "list_inbox"))["events"] == []

    with Served("--tools", "all") as server:
        server.talk(token(run, "bob", "team"), talk)
    assert contents(places["team"]) == before


@pytest.mark.promise("S38")
def test_serve_requires_valid_token(places: dict[str, Path], run: Run) -> None:
    """Without a valid token nothing is answered, and a removed token is invalid immediately."""
    given = token(run, "ann", "team")
    with Served() as server:
        for wrong in (None, "", "x", given[:-1], given.swapcase()):
            answer = server.send(wrong, HELLO_REQUEST)
            assert (
                answer.status,
                "WWW-Authenticate".lower() in {name.lower() for name in answer.headers},
            ) == (401, True)
        assert server.send(given, HELLO_REQUEST).status == 200
        for path in ("/mcp/other", "/mcp/nope", "/", "/mcp/team/x", "/../etc/passwd"):
            assert server.send(given, HELLO_REQUEST, path).status == 404, path
        assert server.send(given, HELLO_REQUEST, "/mcp/team").status == 200
        succeeded(run("tokens", "remove", "ann"))
        assert server.send(given, HELLO_REQUEST).status == 401
        health = server.send(None, None, "/healthz", "GET")
        assert (health.status, health.json["status"]) == (200, "ok")
        _, said = server.end()
    assert given not in said
    assert str(places["team"]) not in said


@pytest.mark.promise("S43")
def test_serve_refuses_unknown_hosts_and_origins(places: dict[str, Path], run: Run) -> None:
    """Requests from another site's page or for another host name are refused."""
    given = token(run, "ann", "team")
    with Served() as server:
        assert server.send(given, HELLO_REQUEST, Origin="https://evil.example").status == 403
        assert server.send(given, HELLO_REQUEST, Host="evil.example").status == 421
        assert server.send(None, None, "/healthz", "GET", Host="evil.example").status == 421
        assert server.send(given, HELLO_REQUEST, Host="localhost:1").status == 200
        assert server.send(given, HELLO_REQUEST, Host="memory.example.org").status == 421
    with Served("--name", "memory.example.org") as server:
        assert server.send(given, HELLO_REQUEST, Host="memory.example.org").status == 200


@pytest.mark.promise("S45")
def test_serve_token_limits_affect_only_their_token(places: dict[str, Path], run: Run) -> None:
    """Oversized bodies and excess requests are refused without affecting other tokens."""
    ann, ben = token(run, "ann", "team"), token(run, "ben", "team")
    with Served("--body", "5") as server:
        assert server.send(ann, b'"' + b"x" * 4_500_000 + b'"').status == 400
        assert server.send(ann, HELLO_REQUEST, method="PUT").status == 405
    with Served("--body", "1", "--rate", "1") as server:
        assert server.send(ann, b'"' + b"x" * 1_100_000 + b'"').status == 413
        statuses = [server.send(ann, HELLO_REQUEST).status for _ in range(4)]
        assert 429 in statuses
        assert server.send(ben, HELLO_REQUEST).status == 200


@pytest.mark.promise("S45")
def test_serve_closes_idle_connections(places: dict[str, Path]) -> None:
    """A connection that is silent or never completes its request headers is closed."""
    with (
        Served() as server,
        socket.create_connection(("127.0.0.1", server.port), LIMIT) as silent,
        socket.create_connection(("127.0.0.1", server.port), LIMIT) as slow,
    ):
        slow.sendall(b"POST /mcp HTTP/1.1\r\n")
        assert server.send(None, None, "/healthz", "GET").status == 200
        assert (silent.recv(1), slow.recv(1)) == (b"", b"")


@pytest.mark.promise("S47")
def test_serve_audit_log_records_each_request(
    places: dict[str, Path], run: Run, tmp_path: Path
) -> None:
    """Each line has the token, vault, tool, outcome and time of a request, but no contents."""
    given = token(run, "ann", "team", "read", "--as", "builder")

    async def talk(client: Client) -> None:
        await structured(client, "memory_recall", query="green tea")
        await structured(client, "memory_show", memId="nothing-like-it")
        await structured(client, "memory_remember", title="x", content="y")
        await client.read_resource("memvault://memory/tea-7k2m9q")

    file = tmp_path / "audit.jsonl"
    with Served("--tools", "all", "--audit", str(file)) as server:
        server.talk(given, talk)
        message = {"jsonrpc": "2.0", "id": 1, "method": "green", "params": {"_meta": META}}
        server.send(given, message, MCP_Protocol_Version=LATEST, Mcp_Method="green")
        server.send("wrong", {})
    lines = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    told = [
        (line["tool"], line["outcome"])
        for line in lines
        if line["token"] and line["tool"] != "tools/list"
    ]
    assert told[-5:] == [
        ("memory_recall", "ok"),
        ("memory_show", "not_found"),
        ("memory_remember", "refused"),
        ("resources/read", "ok"),
        ("unknown", "failed"),
    ]
    assert {line["agent"] for line in lines if line["token"]} == {"builder"}
    assert lines[-1]["outcome"] == "unauthorized"
    assert "green" not in file.read_text("utf-8")
    assert file.stat().st_mode & 0o077 == 0


REFUSALS: list[tuple[list[str], int, str]] = [
    (["serve"], 2, "The address is missing"),
    (["serve", "--http", "nowhere"], 2, "is not an address"),
    (["serve", "--http", ":99999"], 2, "is not an address"),
    (["serve", "--http", "0.0.0.0:0"], 2, "needs `--name HOST`"),
    (["serve", "--http", ":0", "--vaults", "nope"], 3, "There is no vault named 'nope'"),
    (["serve", "--http", ":0", "--certificate", "x"], 2, "needs its key"),
    (["serve", "--http", ":0", "--tools", "nope"], 2, "There is no profile or tool 'nope'"),
    (["serve", "--http", "192.0.2.1:80"], 1, "is not available"),
    (
        ["serve", "--http", ":0", "--certificate", "memvault.toml", "--key", "memvault.toml"],
        2,
        "The certificate cannot be used",
    ),
    (["tokens", "add", "Ann", "--vaults", "team"], 2, "is not a valid token name"),
    (["tokens", "add", "ann"], 2, "The vaults are missing"),
    (["tokens", "add", "ann", "--vaults", "nope"], 3, "There is no vault named 'nope'"),
    (["tokens", "add", "ann", "--vaults", "team", "--scope", "all"], 2, "is not a scope"),
    (["tokens", "add", "ann", "--vaults", "team", "--as", "user"], 2, "cannot act as"),
    (["tokens", "remove", "ann"], 1, "There is no token named 'ann'"),
    (["tokens", "remove"], 2, "`memvault tokens remove` needs `NAME`"),
    (["tokens", "add"], 2, "`memvault tokens add` needs `NAME`"),
    (["tokens", "add", "ann", "--vaults", "team", "--days", "4000000"], 2, "must be at most"),
    (["serve", "--http", ":0", "--name", "a b/c"], 2, "is not a host name"),
]


def test_serve_invalid_arguments_are_reported(places: dict[str, Path], run: Run) -> None:
    """A wrong address, name or scope is reported in one sentence with a hint."""
    for words, code, said in REFUSALS:
        assert said in refused(run(*words), code), words


@pytest.mark.promise("S47")
def test_serve_tokens_are_shown_once(places: dict[str, Path], run: Run) -> None:
    """A token is shown when created and stored as a hash, and its name can't be reused."""
    given = token(run, "ann", "team", "write", "--days", "30")
    listed: Any = succeeded(run("tokens", "list", "--json")).json["tokens"]
    assert [(entry["name"], entry["agent"], entry["scope"]) for entry in listed] == [
        ("ann", "ann", "write")
    ]
    again = refused(run("tokens", "add", "ann", "--vaults", "team"), 1)
    assert "A token named ann already exists" in again
    assert given not in run("tokens", "list").out


def test_serve_resolves_vault_names_at_each_request(places: dict[str, Path], run: Run) -> None:
    """A removed name is refused, and a reassigned name opens its new vault."""
    given = token(run, "ann", "team")

    async def other(client: Client) -> None:
        found = await structured(client, "memory_list")
        assert [entry["title"] for entry in found["memories"]] == ["rum"]

    with Served("--tools", "all") as server:
        assert server.send(given, HELLO_REQUEST).status == 200
        succeeded(run("vaults", "remove", "team"))
        assert server.send(given, HELLO_REQUEST).status == 503
        succeeded(run("vaults", "remove", "other"))
        succeeded(run("vaults", "add", "team", str(places["other"])))
        server.talk(given, other)


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs Linux's /proc")
def test_serve_closes_vault_with_reassigned_name(places: dict[str, Path], run: Run) -> None:
    """When a name is assigned to another folder, the server closes the old one's index."""
    given = token(run, "ann", "team")

    async def recall(client: Client) -> None:
        assert (await structured(client, "memory_recall", query="drink"))["count"] == 1

    def held() -> list[str]:
        return [name for name in server.opened() if "/indexes/team-" in name and ".db" in name]

    with Served("--tools", "all") as server:
        server.talk(given, recall)
        assert held()
        for name in ("team", "other"):
            succeeded(run("vaults", "remove", name))
        succeeded(run("vaults", "add", "team", str(places["other"])))
        server.talk(given, recall)
        until(lambda: not held())  # the server does this after the answer


@pytest.mark.promise("S46")
@pytest.mark.parametrize("how", ["no folder", "in a vault"])
def test_serve_refuses_all_requests_while_tokens_are_unreadable(
    places: dict[str, Path], run: Run, tmp_path: Path, how: str
) -> None:
    """While the token folder is broken, every request is refused and the server keeps running."""
    given = token(run, "ann", "team")
    (folder,) = tmp_path.rglob("tokens")
    aside = folder.with_name("aside")
    wrong = folder if how == "no folder" else folder.parent.parent / "memvault.toml"
    with Served() as server:
        assert server.send(given, HELLO_REQUEST).status == 200
        if wrong == folder:
            folder.rename(aside)
        wrong.write_text("version = 1\n", "utf-8")
        assert [server.send(given, HELLO_REQUEST).status for _ in range(2)] == [503, 503]
        time.sleep(2.2)  # the server checks for expired tokens once a second
        wrong.unlink()
        if wrong == folder:
            aside.rename(folder)
        assert server.send(given, HELLO_REQUEST).status == 200
        code, said = server.end()
    assert (code, said.count("note: "), "Traceback" in said) == (0, 1, False), said


@pytest.mark.promise("S96")
@pytest.mark.skipif(
    os.name != "posix" or os.geteuid() != 0, reason="only root can create such links"
)
def test_serve_audit_log_rejects_symlink_owned_by_another_user(tmp_path: Path) -> None:
    """The log may be a symlink owned by this user, but not one owned by another user."""
    from memvault.errors import StorageError
    from memvault.server.audit import AuditLog

    link, log = tmp_path / "audit.jsonl", tmp_path / "elsewhere.jsonl"
    link.symlink_to(log)
    AuditLog(str(link))
    assert log.stat().st_mode & 0o777 == 0o600
    log.unlink()
    os.lchown(link, 65_534, 65_534)
    with pytest.raises(StorageError, match="another user"):
        AuditLog(str(link))
    assert not log.exists()


@pytest.mark.promise("S46")
def test_serve_audit_log_summarizes_refusals(
    places: dict[str, Path], run: Run, tmp_path: Path
) -> None:
    """Any number of requests without a token add one or two audit lines with a count."""
    file = tmp_path / "audit.jsonl"
    with Served("--audit", str(file)) as server:
        for _ in range(60):
            assert server.send("wrong", {}).status == 401
        server.end()
    lines = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    assert len(lines) < 20
    assert sum(line.get("times", 1) for line in lines) == 60


def test_serve_logs_client_disconnect_during_request(places: dict[str, Path], run: Run) -> None:
    """An upload that stops halfway is a line in the audit log, without a traceback."""
    given = token(run, "ann", "team")
    head = f"POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {given}\r\n"
    head += "Expect: 100-continue\r\nContent-Length: 1000\r\n\r\n"
    with Served() as server:
        with socket.create_connection(("127.0.0.1", server.port), LIMIT) as client:
            client.sendall(head.encode())
            assert b"100 Continue" in client.recv(100)  # the server waits for the body
            client.sendall(b"{")
        server.says(b'"outcome": "gone"')
        _, said = server.end()
    assert "Traceback" not in said


def test_serve_refuses_copied_token_file(places: dict[str, Path], run: Run, tmp_path: Path) -> None:
    """A removed token is invalid, even if its file was copied under another name."""
    token(run, "ann", "team")
    (file,) = tmp_path.rglob("tokens/ann.json")
    file.with_name("ann (copy).json").write_bytes(file.read_bytes())
    succeeded(run("tokens", "remove", "ann"))
    assert succeeded(run("tokens", "list", "--json")).json["tokens"] == []


def test_serve_standard_error_summarizes_refusals(places: dict[str, Path]) -> None:
    """Any number of requests without a token or valid HTTP add only a few lines in all."""
    head = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\n"
    upgrade = b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    kinds = (
        b"no HTTP\r\n\r\n",
        head + b"\r\n",
        head + upgrade,
        head + b"Transfer-Encoding: chunked\r\n\r\nzzz\r\n",
    )
    with Served() as server:
        for _ in range(40):
            for sent in kinds:
                with socket.create_connection(("127.0.0.1", server.port), LIMIT) as stranger:
                    stranger.sendall(sent)
                    assert stranger.recv(12).startswith(b"HTTP/1.1 40")
        code, said = server.end()
    assert (code, "Traceback" in said) == (0, False), said
    assert len(said) < 4_000, said
    assert "Invalid HTTP request received. (" in said
