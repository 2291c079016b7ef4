"""Reads of a served vault run concurrently with each other and with writes, and are never stale."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from select import select
from typing import Any

import pytest

from conftest import Run, sampled, soak_only, until, write

pytest.importorskip("mcp", reason="the MCP SDK is not installed: pip install 'memvault[mcp]'")

from http_client import HELLO_REQUEST, LIMIT, NOTE, Served, named, token
from mcp_client import LOADED as LOADED  # modules preloaded for commands; see conftest
from memvault.call import Caller
from memvault.files.lock import FileLock
from memvault.mcp.fair_shares import CallCosts
from memvault.mcp.profiles import ToolSelection
from memvault.mcp.read_runner import Lane, LocalReadRunner, Read
from memvault.mcp.request_queue import RequestQueue
from memvault.server import read_pool
from memvault.server.read_pool import ReadPool

pytestmark = pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="processes are seen by it")
_EITHER = pytest.mark.parametrize("workers", ["0", "2"])


@pytest.fixture
def team(tmp_path: Path, run: Run) -> Path:
    """A vault with a name."""
    folder = named(run, "team", tmp_path / "team")
    for name in ("tea", "rum", "milk"):
        write(folder, f"fact/{name}.md", NOTE.format(name, f"Some like {name}."))
    return folder


def _readers(server: int) -> list[int]:
    """Return a server's reader processes."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
                line = (folder / "cmdline").read_bytes()
            except OSError:  # the process has already exited
                continue
            if parent == str(server) and b"read_worker" in line:
                found.append(int(folder.name))
    return found


def _is_running(process: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


@sampled(2)
@_EITHER
def test_serve_reads_are_consistent_and_current(team: Path, run: Run, workers: str) -> None:
    """A read during a write returns one complete version, no older than the last confirmed."""
    given = token(run, "ann", "team", "write")
    write(team, "fact/beer.md", NOTE.format("beer", "Version 0. " * 50))
    acknowledged, begun, ended = 0, 0, threading.Event()

    def read(query: bool) -> int:
        least = acknowledged
        if query:
            (found,) = server.result(
                given, "memory_recall", query="version beer", limit=1, full=True
            )["memories"]
        else:
            found = server.result(given, "memory_show", memId="beer-7k2m9q")
        words = found["content"].split()[1::2]
        assert len(words) == 50
        assert len(set(words)) == 1
        version = int(words[0].rstrip("."))
        assert least <= version <= begun
        return version

    def keep_reading(query: bool) -> list[int]:
        versions = []
        while not ended.is_set():
            versions.append(read(query))
        return versions

    with Served("--workers", workers, "--rate", "10000", "--tools", "all") as server:
        with ThreadPoolExecutor(4) as pool:
            reading = [pool.submit(keep_reading, number % 2 == 0) for number in range(4)]
            try:
                for version in range(1, 16):
                    begun = version
                    text = f"Version {version}. " * 50
                    if version % 3:
                        edited = write(team, "beer.new", NOTE.format("beer", text))
                        edited.replace(team / "fact/beer.md")
                    else:
                        arguments = {"modifications": text, "mode": "replace"}
                        made = server.result(
                            given, "memory_compound", query="beer-7k2m9q", **arguments
                        )
                        assert made["success"], made
                    acknowledged = version
            finally:
                ended.set()
            for versions in (task.result() for task in reading):
                assert versions == sorted(versions)
        code, said = server.end()
    assert (code, "Traceback" in said) == (0, False), said


@_EITHER
def test_serve_waiting_write_does_not_delay_reads(team: Path, run: Run, workers: str) -> None:
    """A write that waits for another process does not delay reads, and still completes."""
    given = token(run, "ann", "team", "write")
    lock = team / ".memvault" / "lock"
    with Served("--workers", workers, "--tools", "all") as server:
        server.result(given, "memory_compound", query="tea-7k2m9q", modifications="And more.")
        with ThreadPoolExecutor(1) as pool:
            with FileLock(lock):
                added = {"query": "rum-7k2m9q", "modifications": "Or grog."}
                writing = pool.submit(server.result, given, "memory_compound", **added)
                server.waits(str(lock))
                for _ in range(3):
                    found = server.result(given, "memory_show", memId="rum-7k2m9q")
                    assert "grog" not in found["content"]
                    assert server.result(given, "memory_recall", query="who likes rum")["count"]
                assert not writing.done()
            assert writing.result()["success"], writing.result()
        assert "grog" in server.result(given, "memory_show", memId="rum-7k2m9q")["content"]


@pytest.mark.promise("S45")
@_EITHER
def test_serve_heavy_reads_run_in_separate_process(team: Path, run: Run, workers: str) -> None:
    """Recalls are answered while another token's heavy reads wait for a low-priority process."""
    for number in range(400):
        text = f"Note {number} on tea, {' '.join(f'w{number * 7 + n}' for n in range(60))}."
        write(team, f"fact/n{number}.md", NOTE.format(f"n{number}", text))
    quiet, busy = token(run, "ann", "team"), token(run, "bob", "team", "write")
    with Served("--workers", workers, "--tools", "all") as server:
        server.result(quiet, "memory_recall", query="who likes tea")
        before = set(_readers(server.process.pid))
        heavy = [
            server.begin(busy, *tool)
            for tool in [("vault_review",), ("vault_stats",), ("consolidate_memories",)] * 4
        ]
        with ExitStack() as opened:
            for socket in heavy:
                opened.enter_context(socket)
            until(lambda: set(_readers(server.process.pid)) - before)
            for _ in range(3):
                found = server.result(quiet, "memory_recall", query="who likes milk", limit=1)
                assert found["memories"][0]["memId"] == "milk-7k2m9q"
            waiting = select(heavy, [], [], 0)[0]
            assert len(waiting) < len(heavy)
            (apart,) = set(_readers(server.process.pid)) - before
            if hasattr(os, "getpriority"):
                assert os.getpriority(os.PRIO_PROCESS, apart) >= 10
            for socket in heavy:
                assert socket.recv(100).startswith(b"HTTP/1.1 200")
        assert len(_readers(server.process.pid)) == len(before) + 1


def test_serve_process_for_heavy_reads_exits_when_idle(
    team: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process for heavy reads exits after an idle period and is restarted on demand."""
    monkeypatch.setattr(read_pool, "_IDLE_TIMEOUT", 0.1)

    async def read_twice() -> None:
        lane = Lane(RequestQueue(total=1), CallCosts())
        pool = ReadPool(1, ToolSelection("all"), lane, gives_way=True)
        await pool.start()
        for _ in range(2):
            assert not _readers(os.getpid())
            read = Read(team, Caller(scope="read"), "vault_stats", {})
            assert not (await pool.run(read, "a", None)).is_error
            async with asyncio.timeout(LIMIT):
                while _readers(os.getpid()):
                    await asyncio.sleep(0.05)
        await pool.close()

    asyncio.run(read_twice())


def test_serve_call_in_open_vault_counts_as_cheap(team: Path) -> None:
    """A call's cost is recorded once its workspace is open, even if another one is unused."""

    async def read_twice() -> None:
        costs = CallCosts()
        reads = LocalReadRunner(team, ToolSelection("all"), Lane(RequestQueue(total=2), costs))
        read = Read(team, Caller(scope="read"), "memory_list", {})
        for is_known in (False, True):
            assert not (await reads.run(read, "a", None)).is_error
            await asyncio.sleep(0)
            assert costs.is_cheap("a", "memory_list") is is_known
        reads.close()

    asyncio.run(read_twice())


def test_serve_workers_return_same_results_as_one_process(team: Path, run: Run) -> None:
    """With --workers, each read tool and each error returns the same result as without."""
    given = token(run, "ann", "team")
    calls: list[tuple[str, dict[str, Any]]] = [
        ("memory_recall", {"query": "who likes tea"}),
        ("memory_show", {"memId": "tea-7k2m9q"}),
        ("memory_show", {"memId": "nothing-like-it"}),
        ("memory_list", {"limit": 2}),
        ("memory_recall", {"query": "tea", "limit": -1}),
        ("get_goals", {}),
        ("memory_remember", {"title": "x", "content": "y"}),
        ("no_such_tool", {}),
    ]
    answers = []
    for workers in ("0", "2"):
        with Served("--workers", workers, "--tools", "all") as server:
            answers.append(
                [server.call(given, tool, **arguments).json for tool, arguments in calls]
            )
            assert len(_readers(server.process.pid)) == (2 if workers == "2" else 0)
    assert answers[0] == answers[1]


def test_serve_reruns_calls_of_killed_worker(team: Path, run: Run, tmp_path: Path) -> None:
    """If workers are killed, every call is answered and audited, and new workers start."""
    given = token(run, "ann", "team")
    audit = tmp_path / "audit.jsonl"
    with Served("--workers", "2", "--rate", "10000", "--audit", str(audit)) as server:
        ended = threading.Event()

        def keep_asking() -> int:
            asked = 0
            while not ended.is_set():
                found = server.result(given, "memory_recall", query="who likes tea")
                assert found["memories"][0]["memId"] == "tea-7k2m9q"
                asked += 1
            return asked

        with ThreadPoolExecutor(3) as pool:
            asked_here, asking = 0, [pool.submit(keep_asking) for _ in range(3)]
            try:
                for _ in range(3):
                    before = set(_readers(server.process.pid))
                    os.kill(min(before), signal.SIGKILL)
                    server.result(given, "memory_recall", query="who likes rum")
                    until(lambda before=before: set(_readers(server.process.pid)) - before)  # type: ignore[misc]
                    asked_here += 1
            finally:  # otherwise, the other threads would never stop
                ended.set()
            asked = asked_here + sum(task.result() for task in asking)
        assert len(_readers(server.process.pid)) == 2
        code, said = server.end()
    assert (code, "Traceback" in said) == (0, False), said
    assert said.count("note: a read process exited") == 3
    lines = [json.loads(line) for line in audit.read_text("utf-8").splitlines()]
    assert [line["outcome"] for line in lines] == ["ok"] * asked


@soak_only
def test_serve_answers_calls_itself_if_workers_keep_dying(team: Path, run: Run) -> None:
    """Workers that keep dying are not restarted forever, and the calls are still answered."""
    given = token(run, "ann", "team")
    with Served("--workers", "2") as server:
        for _ in range(8):
            for process in _readers(server.process.pid):
                os.kill(process, signal.SIGKILL)
            server.result(given, "memory_recall", query="tea")
        assert not _readers(server.process.pid)
        assert server.result(given, "memory_recall", query="tea")["count"]


@sampled(3)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_serve_workers_exit_with_the_server(team: Path, run: Run, number: signal.Signals) -> None:
    """The workers exit with the server, even if it is killed."""
    with Served("--workers", "3") as server:
        readers = _readers(server.process.pid)
        assert len(readers) == 3
        server.result(token(run, "ann", "team"), "memory_recall", query="tea")
        code, said = server.end(number)
        assert code == (-signal.SIGKILL if number == signal.SIGKILL else 0), said
    until(lambda: not any(map(_is_running, readers)))


def test_serve_limits_apply_across_workers(team: Path, run: Run) -> None:
    """A token's limits apply to the whole server, not to each worker."""
    given = token(run, "ann", "team")
    with Served("--workers", "3", "--rate", "1") as server:
        began = time.monotonic()
        with ThreadPoolExecutor(8) as pool:
            calls = [pool.submit(server.call, given, "memory_list") for _ in range(8)]
            statuses = [call.result().status for call in calls]
        assert statuses.count(200) <= 3 + (time.monotonic() - began)
        assert 429 in statuses
    with Served("--workers", "3") as server:
        opened = server.send(given, HELLO_REQUEST)
        session = {"Mcp_Session_Id": opened.headers["mcp-session-id"]}
        question = {"name": "memory_recall", "arguments": {"query": "tea"}}
        for number in range(2, 8):
            message = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": question}
            assert server.send(given, message, **session).status == 200
