"""Requests of a token wait for their turn, in order; canceled requests use no more resources."""

from __future__ import annotations

import asyncio
import os
import select
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import cast

import pytest

from conftest import Run, index_of, until, write

pytest.importorskip("mcp", reason="the MCP SDK is not installed: pip install 'memvault[mcp]'")

from http_client import LATEST, Served, named, token
from memvault.files.lock import FileLock
from memvault.mcp.fair_shares import CallCosts, FairShares
from memvault.mcp.read_runner import HeavyReadRunner, shared_lane
from memvault.mcp.request_queue import RequestQueue, run_with_slots, take_all
from memvault.serial_executor import SerialExecutor

HOOK = [{"eventType": "Hook", "parameter": "build"}]
QUICK = ("--tools", "all", "--rate", "10000", "--audit", os.devnull)
IMPATIENT = """
import sys
from memvault.mcp.profiles import ToolSelection
from memvault.server.audit import AuditLog
from memvault.server.gateway import RequestLimits
from memvault.server.http_server import ListenAddress, TlsCertificate, serve

address = ListenAddress.read("127.0.0.1:0", [])
limits = RequestLimits(calls=1, wait=0.5)
sys.exit(serve(address, TlsCertificate(), (), ToolSelection("all"), limits, AuditLog("")))
"""


@pytest.fixture
def team(tmp_path: Path, run: Run) -> Path:
    """A vault with a name."""
    folder = named(run, "team", tmp_path / "team")
    write(folder, "fact/tea.md", "# Tea\n\nGreen.\n")
    return folder


@pytest.mark.promise("R54")
def test_request_queue_answers_sixty_concurrent_calls(team: Path, run: Run) -> None:
    """Sixty concurrent calls of one token are all answered under any concurrency limit."""
    given = token(run, "ann", "team")
    with Served("--audit", os.devnull) as server, ThreadPoolExecutor(60) as pool:
        answers = list(pool.map(lambda _: server.result(given, "memory_list"), range(60)))
    assert {answer["count"] for answer in answers} == {1}


@pytest.mark.promise("R54")
def test_request_queue_full_returns_retry_after(team: Path, run: Run) -> None:
    """Calls beyond the limit and the queue get 429 with Retry-After; others are served."""
    ann, ben = token(run, "ann", "team", "write"), token(run, "ben", "team")
    with Served(*QUICK, "--calls", "2", "--queue", "3") as server, ThreadPoolExecutor(20) as pool:
        waiting = [server.begin(ann, "wait_for", events=HOOK, timeout=4) for _ in range(2)]
        time.sleep(1)
        asked = [pool.submit(server.call, ann, "memory_list") for _ in range(10)]
        assert server.call(ben, "memory_list").status == 200
        answers = [each.result() for each in asked]
        for each in waiting:
            assert each.recv(20).startswith(b"HTTP/1.1 200")
            each.close()
    refused = [answer for answer in answers if answer.status == 429]
    assert (len(answers) - len(refused), len(refused)) == (3, 7)
    for answer in refused:
        names = {name.lower(): value for name, value in answer.headers.items()}
        assert int(names["retry-after"]) > 0


def test_request_queue_handles_cancellation_immediately(team: Path, run: Run) -> None:
    """A client can cancel a call immediately, even while its calls occupy every slot."""
    ann = token(run, "ann", "team", "write")
    cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    with Served(*QUICK, "--calls", "1") as server:
        opened = server.begin(ann, "wait_for", events=HOOK, timeout=20)
        time.sleep(1)
        assert server.send(ann, cancelled, MCP_Protocol_Version=LATEST).status in (200, 202)
        assert not select.select([opened], [], [], 0)[0]
        opened.close()


@pytest.mark.promise("R54")
def test_request_queue_timeout_returns_retry_after(team: Path, run: Run) -> None:
    """A call that is not started in time gets 429 with Retry-After."""
    ann = token(run, "ann", "team", "write")
    with Served(prefix=(sys.executable, "-c", IMPATIENT)) as server:
        waiting = server.begin(ann, "wait_for", events=HOOK, timeout=30)
        until(lambda: server.call(ann, "memory_list").status == 429)
        answer = server.call(ann, "memory_list")
        waiting.close()
        assert {"retry-after", "Retry-After"} & answer.headers.keys()
        until(lambda: server.call(ann, "memory_list").status == 200)


@pytest.mark.promise("R55")
@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="needs Linux's /proc")
def test_request_queue_drops_calls_of_disconnected_clients(team: Path, run: Run) -> None:
    """After forty clients disconnect, their queued calls never start and no thread remains."""
    given = token(run, "ann", "team", "write")
    lock = index_of(team) / "lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    (tea,) = team.rglob("*.md")
    with Served(*QUICK, "--calls", "16") as server:
        tasks = Path(f"/proc/{server.process.pid}/task")

        def threads() -> int:
            return len(os.listdir(tasks))

        assert server.call(given, "list_inbox").status == 200
        before = threads()
        with FileLock(lock):  # like another process that is indexing
            clients = [
                server.begin(given, "memory_remember", title=f"T{n}", content="x")
                for n in range(40)
            ]
            until(lambda: set(team.rglob("*.md")) - {tea})
            time.sleep(1)
            during = threads()
            for client in clients:
                client.close()
            time.sleep(1)
            after = threads()

        def workers_ended() -> bool:
            """Call once more, because idle workers exit at the first call after ten seconds."""
            assert server.call(given, "memory_list").status == 200
            return threads() <= before + 2

        until(workers_ended)
        assert during <= before + 4
        assert after <= before + 4
        made = set(team.rglob("*.md")) - {tea}
        assert len(made) <= 4, made
        _, said = server.end()
    assert "Traceback" not in said


def test_request_queue_serves_others_during_long_wait(team: Path, run: Run) -> None:
    """While agents wait for events, their other calls and those of other tokens are served."""
    ann, ben = token(run, "ann", "team", "write"), token(run, "ben", "team", "write")
    with Served(*QUICK) as server:
        waiting = [server.begin(ann, "wait_for", events=HOOK, timeout=60) for _ in range(6)]
        for given in (ann, ben):
            assert server.call(given, "memory_list").status == 200
        for _ in waiting:
            assert server.call(ann, "push_service", name="build", message="done").status == 200
        for each in waiting:
            with each, each.makefile("rb") as answer:
                head = iter(answer.readline, b"\r\n")
                (length,) = (line for line in head if line.startswith(b"content-length"))
                assert b"done" in answer.read(int(length.split()[1]))


def test_request_queue_alternates_between_keys() -> None:
    """Keys take turns however many calls each has waiting; each key's calls run in order."""

    async def served() -> list[str]:
        queue, order = RequestQueue(total=1), list[str]()

        async def one(key: str, number: int) -> None:
            place = await queue.take(key)
            order.append(f"{key}{number}")
            await asyncio.sleep(0)
            place.leave()

        first = await queue.take("a")
        tasks = [asyncio.create_task(one("a", number)) for number in range(4)]
        await asyncio.sleep(0)
        tasks += [asyncio.create_task(one("b", 0)), asyncio.create_task(one("c", 0))]
        gone = asyncio.create_task(one("b", 1))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.sleep(0)
        assert queue.size == 7
        first.leave()
        await asyncio.gather(*tasks)
        assert queue.size == 0
        return order

    assert asyncio.run(served()) == ["a0", "b0", "c0", "a1", "a2", "a3"]


@pytest.mark.promise("S45")
def test_request_queue_prefers_key_with_least_usage() -> None:
    """Of the waiting keys, the one with the least processor time is next, even if it came last."""

    async def served() -> list[str]:
        shares = FairShares()
        queue, other, order = RequestQueue(total=1, shares=shares), RequestQueue(shares=shares), []

        async def one(key: str) -> None:
            slot = await queue.take(key)
            order.append(key)
            queue.charge(key, {"a": 3.0, "b": 1.0, "c": 0.1}[key])
            slot.leave()

        first = await queue.take("a")
        tasks = [asyncio.create_task(one(key)) for key in "aaabbbc"]
        await asyncio.sleep(0)
        other.charge("a", 2.0)  # used through another queue with the same shares
        first.leave()
        await asyncio.gather(*tasks)
        return order

    assert asyncio.run(served()) == ["b", "c", "b", "a", "b", "a", "a"]


def test_request_queue_does_not_bank_unused_time() -> None:
    """A key that arrives late gets no exclusive service to catch up with the others' usage."""
    shares = FairShares()
    for key in ("a", "b"):
        shares.enter(key)
        shares.charge(key, 100.0)
    shares.enter("late")
    assert shares.used("late") == 100.0
    shares.charge("late", 1.0)
    shares.leave("late")
    shares.enter("late")
    assert shares.used("late") == 101.0


@pytest.mark.promise("S45")
def test_request_queue_limits_key_to_half_while_others_active(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A key has at most its share; alone, it may use all slots for cheap requests."""

    async def taken(*cheap: bool) -> int:
        shares = FairShares()
        lane = shared_lane(4, shares, CallCosts(), cast("HeavyReadRunner", None))
        if len(cheap) > 4:
            lane.queue.take_free("other")
        return sum(lane.queue.take_free("a", is_cheap) is not None for is_cheap in cheap)

    assert asyncio.run(taken(False, False, False, False)) == 2
    assert asyncio.run(taken(True, True, True, True)) == 4
    assert asyncio.run(taken(True, True, True, True, True)) == 2
    shares = FairShares()
    shares.enter("other")
    shares.leave("other")
    assert not shares.is_alone("a")
    monkeypatch.setattr("time.monotonic", lambda before=time.monotonic: before() + 100)
    assert shares.is_alone("a")


def test_request_queue_classifies_heavy_calls_by_cost() -> None:
    """A call is heavy if its tool is marked as heavy, or if it costs far more than usual."""
    costs = CallCosts()
    assert costs.is_heavy("a", "vault_review")
    assert not costs.is_cheap("a", "memory_recall")
    costs.note("b", "memory_recall", 0.1)
    assert costs.is_cheap("b", "memory_recall")
    costs.note("a", "memory_recall", 0.5)
    assert not costs.is_heavy("a", "memory_recall")  # the call may have had to index first
    costs.note("a", "memory_recall", 0.5)
    assert costs.is_heavy("a", "memory_recall")
    assert not costs.is_heavy("b", "memory_recall")
    costs.note("a", "memory_recall", 0.1)
    assert not costs.is_heavy("a", "memory_recall")
    for _ in range(3):
        costs.note("a", "memory_list", 0.9)
        costs.note("c", "memory_list", 0.9)
    assert costs.is_heavy("a", "memory_list")  # most other keys use less
    slow = CallCosts()
    for key in ("a", "b"):  # if all calls are slow, a call is heavy only if it takes seconds
        for _ in range(3):
            slow.note(key, "memory_recall", 0.9)
            slow.note("a", "memory_log", 2.5)
    assert not slow.is_heavy("b", "memory_recall")
    assert slow.is_heavy("a", "memory_log")


def test_request_queue_releases_each_slot_once() -> None:
    """No slot is assigned twice, even if it is released several times or by others."""

    async def served() -> None:
        queue = RequestQueue(each=1, waiting=1)
        place = await queue.take("a")
        assert place.hold()
        place.leave()
        assert queue.take_free("a") is None
        waiting = asyncio.create_task(queue.take("a"))
        await asyncio.sleep(0)
        assert queue.is_full("a")
        place.free()
        place.leave()
        assert not place.hold()
        following = await waiting
        assert (queue.size, queue.take_free("a")) == (1, None)
        waiting = asyncio.create_task(queue.take("a"))
        await asyncio.sleep(0)
        following.leave()
        waiting.cancel()  # when it is already its turn
        await asyncio.sleep(0)
        assert queue.size == 0

    asyncio.run(served())


def _no_thread(_thread: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def test_request_queue_recovers_if_no_thread_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that gets no thread fails and frees its slot; the next call is served."""

    async def served() -> int:
        queue, executor = RequestQueue(each=1), SerialExecutor()
        slots = await take_all(queue, "a", None)
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", _no_thread)
            with pytest.raises(RuntimeError, match="new thread"):
                await run_with_slots(lambda: 1, executor, slots, lambda _: None)
        assert queue.size == 0
        executor.wait()
        slots = await take_all(queue, "a", None)
        work = run_with_slots(lambda: 2, executor, slots, lambda _: None)
        return await asyncio.wait_for(work, 10)

    assert asyncio.run(served()) == 2


def test_serial_executor_continues_without_second_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """If no thread starts for the next function, it runs after the waiting one has failed."""
    executor, is_queued = SerialExecutor(), threading.Event()

    def waits() -> None:
        is_queued.wait(10)
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", _no_thread)
            executor.let_next_run()

    first, second = executor.submit(waits), executor.submit(lambda: 2)
    is_queued.set()
    assert second.result(10) == 2
    assert isinstance(first.exception(10), RuntimeError)


def test_serial_executor_survives_callback_that_exits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Functions are run although a callback of an earlier one raised ``SystemExit``."""
    executor, is_queued, has_exited = SerialExecutor(), threading.Event(), threading.Event()
    monkeypatch.setattr(threading, "excepthook", lambda _: has_exited.set())
    first = executor.submit(lambda: is_queued.wait(10))
    first.add_done_callback(lambda _: sys.exit(3))
    second = executor.submit(lambda: 2)
    is_queued.set()
    assert second.result(10) == 2
    assert first.result(10)
    assert executor.submit(lambda: 3).result(10) == 3
    assert has_exited.wait(10)


def test_serial_executor_finishes_work_of_daemon_threads() -> None:
    """Work submitted in a daemon thread is not cut off when the program exits."""
    executor, is_daemon = SerialExecutor(), list[bool]()

    def submits() -> None:
        is_daemon.append(executor.submit(lambda: threading.current_thread().daemon).result(10))

    thread = threading.Thread(target=submits, daemon=True)
    thread.start()
    thread.join(10)
    assert is_daemon == [False]
