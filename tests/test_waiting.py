"""Waiting ends promptly with the first event, uses no CPU, and loses nothing if interrupted."""

from __future__ import annotations

import errno
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from conftest import Run, refused, until, write
from memvault import Vault, open_vault
from memvault.agents.address import Address
from memvault.agents.messages.folder_watcher import FolderWatcher
from memvault.agents.messages.inbox import Inbox
from memvault.agents.messages.waiting import EventPattern, WaitResult, wait
from memvault.call import Call
from memvault.tools.core import invoke
from memvault.workspace import Workspace


@pytest.fixture
def call(folder: Path) -> Iterator[Call]:
    """A call of the agent ``main``."""
    workspace = Workspace(folder)
    yield Call(workspace)
    workspace.close()


def waiting(folder: Path, *words: str, agent: str = "main") -> subprocess.Popen[str]:
    """Start a wait in a separate process."""
    lock_of(folder, agent).unlink(missing_ok=True)
    command = [sys.executable, "-m", "memvault", "wait", "for", *words, "--agent", agent, "--json"]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)


def lock_of(folder: Path, agent: str) -> Path:
    """The file that an agent's first check for events creates."""
    return folder / ".memvault" / "agents" / agent / "lock"


def looks(folder: Path, agent: str = "main") -> None:
    """Wait until a started wait has checked for events."""
    until(lock_of(folder, agent).exists)


class Waiting:
    """A wait in a thread of this process that counts its checks."""

    def __init__(self, call: Call, *wanted: EventPattern) -> None:
        self.looks = 0
        self.happened: list[WaitResult] = []
        turn = threading.Condition()

        def look() -> bool:
            self.looks += 1
            return False

        def run() -> None:
            with turn:
                happened = wait(call.inbox, wanted, lambda *_: True, turn, stopped=look)
                self.happened.append(happened)

        self._thread = threading.Thread(target=run, daemon=True)
        self._thread.start()

    def asleep(self) -> None:
        """Return once the wait has checked, created its watcher, and checked again."""
        until(lambda: self.looks >= 2)

    def ended(self) -> WaitResult:
        """Return the event that ended the wait."""
        self._thread.join(timeout=60)
        assert self.happened
        return self.happened[0]


class Turn(threading.Condition):
    """A condition that adds up the seconds of unsuccessful waiting."""

    def __init__(self) -> None:
        super().__init__()
        self.in_vain = 0.0

    def wait(self, timeout: float | None = None) -> bool:
        woken = super().wait(timeout)
        if not woken:
            self.in_vain += timeout or 0.0
        return woken


Watched = tuple[Path, FolderWatcher, Turn]
LONG = 60.0
"""The length in seconds of a sleep that only a change interrupts."""


@pytest.fixture(params=["watched", "polled", "unwatchable"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each change notification method, with long sleeps between polls."""

    def no_more_watches() -> None:
        raise OSError(errno.ENOSPC, "inotify watch limit reached")

    monkeypatch.setattr("memvault.agents.messages.folder_watcher._MAX_SLEEP", LONG)
    if request.param == "polled":
        monkeypatch.setenv("MEMVAULT_POLL", "1")
    elif request.param == "unwatchable":
        monkeypatch.setattr("watchdog.observers.Observer", no_more_watches)
    return str(request.param)


@pytest.fixture
def watched(kind: str, tmp_path: Path) -> Iterator[Watched]:
    """A folder, its watcher, and the condition that it waits on."""
    folder, turn = tmp_path / "inbox", Turn()
    folder.mkdir()
    sleeper = FolderWatcher(folder, turn)
    yield folder, sleeper, turn
    sleeper.close()
    sleeper.close()


def test_wait_ends_on_delivery(tmp_path: Path, kind: str) -> None:
    """A new event ends the sleep; during the sleep, other processes can acquire the lock."""
    inbox = Inbox(tmp_path, Address("main"))
    inbox.folder.mkdir(parents=True)
    turn = Turn()
    sleeper = FolderWatcher(inbox.folder, turn)
    delivered = threading.Event()

    def act() -> None:
        with turn:  # free, because the waiting thread released it
            inbox.deliver("talk", {})
            delivered.set()

    thread = threading.Thread(target=act)
    with turn:
        thread.start()
        sleeper.sleep(LONG)
        assert delivered.is_set()
    thread.join()
    sleeper.close()
    assert turn.in_vain < LONG / 2
    assert kind != "watched" or turn.in_vain == 0.0


def test_wait_lasts_until_timeout_without_change(watched: Watched) -> None:
    """Without a change a sleep ends after its timeout."""
    _, sleeper, turn = watched
    with turn:
        sleeper.sleep(0.4)
    assert turn.in_vain == pytest.approx(0.4)


def test_wait_notices_file_created_before_sleep(watched: Watched) -> None:
    """A file created between the check and the sleep ends the wait immediately."""
    folder, sleeper, turn = watched
    write(folder, "a.md", "x")
    time.sleep(0.2)  # the system may have reported it by now
    with turn:
        sleeper.sleep(LONG)
    assert turn.in_vain == 0.0


def test_wait_survives_deleted_inbox(watched: Watched) -> None:
    """An inbox that git deletes wakes the waiting call, and its replacement is watched."""
    folder, sleeper, turn = watched
    with turn:
        folder.rmdir()
        sleeper.sleep(LONG)
        write(folder, "a.md", "x")
        sleeper.sleep(LONG)
    assert turn.in_vain == 0.0


@pytest.mark.parametrize("between", ["", "in its place"])
def test_wait_survives_replaced_inbox(watched: Watched, between: str) -> None:
    """An inbox that is replaced, even by a file for a while, still wakes the waiting call."""
    folder, sleeper, turn = watched
    folder.rename(folder.with_name("old"))
    if between:
        folder.write_text(between)
    else:
        folder.mkdir()
    with turn:
        sleeper.sleep(0.1)
    if between:
        folder.unlink()

    def act() -> None:
        with turn:
            write(folder, "a.md", "x")

    thread = threading.Thread(target=act)
    with turn:
        thread.start()
        sleeper.sleep(LONG)
        sleeper.sleep(0 if (folder / "a.md").exists() else LONG)
    thread.join()
    assert turn.in_vain < LONG / 2


def test_wait_supports_conversation_across_three_shells(run: Run, folder: Path) -> None:
    """Two agents and the user, each in a separate shell, can ask, wait and answer."""
    run("talk", "agent", "alice", "not the answer", "--agent", "bob")
    asked = run("talk", "agent", "bob", "Ready?", "--agent", "alice", "--json").json["talkId"]
    alice = waiting(folder, f"agent:bob#{asked}", agent="alice")
    heard = run("inbox", "peek", "--agent", "bob", "--json").json["events"][0]["data"]
    assert heard == {"from": "alice", "talkId": asked, "message": "Ready?"}
    question = run("talk", "user", "May I?", "--agent", "bob", "--json").json["talkId"]
    bob = waiting(folder, "user", "time:30", agent="bob")
    looks(folder, "alice")
    looks(folder, "bob")
    run("reply", str(question), "You may", "--agent", "user")
    assert json.loads(bob.communicate(timeout=60)[0])["events"][0]["event"]["eventType"] == "User"
    run("reply", str(asked), "Ready", "--agent", "bob")
    found = json.loads(alice.communicate(timeout=60)[0])["events"][0]
    assert found["event"] == {"eventType": "Agent", "parameter": "bob", "talkId": asked}
    assert found["result"]["data"]["message"] == "Ready"
    assert found["result"]["data"]["inReplyTo"] == asked
    left = run("inbox", "peek", "--agent", "alice", "--json").json
    assert left["events"][0]["data"]["message"] == "not the answer"
    assert left["remaining"] == 0


def test_wait_for_reply_ends_on_next_message(run: Run, folder: Path) -> None:
    """The asker gets the other agent's next message once, whether or not it is a reply."""
    asked = run("talk", "agent", "bob", "Which port?", "--agent", "alice", "--json").json["talkId"]
    alice = waiting(folder, f"agent:bob#{asked}", agent="alice")
    looks(folder, "alice")
    run("talk", "agent", "alice", "8081", "--agent", "bob")
    found = json.loads(alice.communicate(timeout=60)[0])["events"][0]
    assert found["event"] == {"eventType": "Agent", "parameter": "bob", "talkId": asked}
    assert found["result"]["data"]["message"] == "8081"
    assert run("inbox", "list", "--agent", "alice", "--json").json["total"] == 0
    refused(run("wait", "for", f"agent:bob#{asked}", "--timeout", "0", "--agent", "alice"), 4)


@pytest.mark.parametrize("poll", ["0", "1"])
def test_wait_rarely_polls_the_inbox(
    call: Call, monkeypatch: pytest.MonkeyPatch, poll: str
) -> None:
    """A wait checks the inbox when something arrives, and otherwise a few times a minute."""
    monkeypatch.setenv("MEMVAULT_POLL", poll)
    waits = Waiting(call, EventPattern("Hook", "x"))
    waits.asleep()
    time.sleep(1.5)
    assert waits.looks <= 3
    call.inbox.deliver("service", {"name": "other"})
    until(lambda: waits.looks >= 3)
    call.inbox.deliver("service", {"name": "x"})
    assert waits.ended().popped.events[0].data["name"] == "x"


@pytest.mark.parametrize("poll", ["0", "1"])
def test_wait_returns_event_leased_by_killed_process(
    folder: Path, call: Call, monkeypatch: pytest.MonkeyPatch, poll: str
) -> None:
    """An event that was taken by a process killed before delivering it ends the next wait."""
    monkeypatch.setenv("MEMVAULT_POLL", poll)
    call.inbox.deliver("service", {"name": "x"})
    code = (
        "import sys\nfrom pathlib import Path\nfrom memvault.tools.core import invoke\n"
        "from memvault.workspace import Workspace\n"
        "taken = invoke.call(Workspace(Path()), 'peek_inbox', {})\n"
        "print(len(taken.result['events']), flush=True)\n"
        "sys.stdin.read()"
    )
    taker = subprocess.Popen(
        [sys.executable, "-c", code], cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert taker.stdout is not None
    assert taker.stdout.readline() == b"1\n"
    waits = Waiting(call, EventPattern("Hook", "x"))
    waits.asleep()
    taker.kill()
    taker.communicate()
    assert taker.returncode == -signal.SIGKILL
    assert waits.ended().popped.events[0].data["name"] == "x"


def test_wait_sleeps_despite_unwritable_plan(
    folder: Path, call: Call, write_protect: Callable[[Path], None]
) -> None:
    """A wait keeps sleeping if the file of a due plan cannot be written."""
    past = (datetime.now(UTC) - timedelta(minutes=1)).isoformat()
    plans = [{"name": "Stuck", "instruction": "go", "scheduledAt": past}]
    assert invoke.call(call.workspace, "set_plans", {"plans": plans}).result["success"]
    write_protect(next((folder / "agents/main/plans").glob("*.md")))
    waits = Waiting(call, EventPattern("Time", "1.5"))
    assert waits.ended().wanted.kind == "Time"
    assert waits.looks < 8


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_wait_interrupted_by_signal_loses_nothing(
    folder: Path, sent: signal.Signals, code: int
) -> None:
    """Ctrl-C and SIGTERM end a wait silently with their exit codes, and no event is lost."""
    process = subprocess.Popen(
        [sys.executable, "-m", "memvault", "wait", "for", "hook:x"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    looks(folder)
    process.send_signal(sent)
    assert process.communicate(timeout=60)[0] == ""
    assert process.returncode == code
    with open_vault(folder) as vault:
        vault.call("push_service", name="x")
        assert len(vault.call("peek_inbox")["events"]) == 1


def test_wait_does_not_block_other_threads(vault: Vault) -> None:
    """While one thread waits, other threads can use the vault and can end the wait."""
    found: list[object] = []
    events = [{"eventType": "hook", "parameter": "x"}]
    thread = threading.Thread(
        target=lambda: found.append(vault.call("wait_for", events=events, timeout=60))
    )
    thread.start()
    until(lock_of(vault._workspace.root, "main").exists)
    assert vault.call("push_service", name="other")["success"]
    assert vault.call("peek_inbox")["events"][0]["data"]["name"] == "other"
    vault.call("push_service", name="x", message="go")
    thread.join(timeout=60)
    assert "'message': 'go'" in str(found)


def test_wait_ends_immediately_on_existing_event(run: Run) -> None:
    """An event older than the wait counts, and only that event is popped."""
    for name in ("a", "b", "a"):
        run("inbox", "push", name, f"about {name}")
    found = run("wait", "for", "time:0", "HOOK:b", "--json").json["events"]
    assert found[0]["result"]["data"] == {"name": "b", "message": "about b"}
    assert run("wait", "for", "time:0", "hook:b", "--json").json["events"][0]["event"] == {
        "eventType": "Time",
        "parameter": "0",
        "talkId": 0,
    }
    assert run("inbox", "peek", "--count", "9", "--json").json["remaining"] == 0


def test_wait_accepts_number_as_hook_name(vault: Vault) -> None:
    """JSON's 5, 5.0 and "5" all mean the hook named 5 in a shell, and 0 is a valid name too."""
    for name, given in (("5", 5), ("5", 5.0), ("5", "5"), ("0", 0), ("2.5", 2.5)):
        vault.call("push_service", name=name)
        wanted = [{"eventType": "Hook", "parameter": given}]
        event = vault.call("wait_for", events=wanted, timeout=0)["events"][0]["event"]
        assert event["parameter"] == name
    huge = [{"eventType": "User", "talkId": 10**5_000}]
    assert vault.call("wait_for", events=huge, timeout=0)["error"]["code"] == "usage"


def test_wait_refuses_invalid_event(run: Run) -> None:
    """An invalid event is refused with a clear message, and a timeout has its own exit code."""
    refused(run("wait", "for", "agent:bob"), 1)
    refused(run("wait", "for", "user"), 1)
    refused(run("wait", "for", "time:soon"), 2)
    refused(run("wait", "for", "time:-1"), 2)
    refused(run("wait", "for", "hook:"), 2)
    refused(run("wait", "for", "agent:../x"), 2)
    refused(run("wait", "for", "user:me"), 2)
    refused(run("wait", "for", "agent:bob#x"), 2)
    refused(run("wait", "for", f"user#{'9' * 5_000}"), 2)
    refused(run("wait", "for", "rain:now"), 2)
    refused(run("wait", "for"), 2)
    refused(run("wait", "for", "hook:x", "--timeout", "0.1"), 4)
    run("inbox", "push", "y")
    late = run("wait", "for", "hook:x", "--timeout", "0")
    assert (late.code, "1 in the inbox, see `memvault inbox list`" in late.err) == (4, True)


def test_wait_fires_due_plan(folder: Path, call: Call) -> None:
    """A wait sleeps no longer than until the next plan is due, and fires it."""
    plans = [{"name": "Look", "instruction": "Look", "runAfter": "1 second"}]
    assert invoke.call(call.workspace, "set_plans", {"plans": plans}).result["success"]
    waits = Waiting(call, EventPattern("Hook", "x"))
    inbox = folder / "agents/main/inbox"
    until(lambda: list(inbox.glob("*.md")))
    event = next(inbox.glob("*.md"))
    call.inbox.deliver("service", {"name": "x"})
    waits.ended()
    (found,) = call.inbox.peek().events
    due = datetime.fromisoformat(found.data["scheduledFor"]).timestamp()
    assert event.stat().st_mtime - due < 3.5  # without the plan, the wait would have slept for 5 s
