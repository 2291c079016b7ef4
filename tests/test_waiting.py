"""Waiting ends with the first event, promptly, at no cost, and loses nothing when cut off."""

from __future__ import annotations

import json
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import Run, refused, write
from memvault import Vault, open_vault
from memvault.work.agents import Address
from memvault.work.mailbox import Inbox
from memvault.work.waking import Polling, Waker, Watching, waker


def waiting(folder: Path, *words: str, agent: str = "main") -> subprocess.Popen[str]:
    """Start a wait in a process of its own."""
    command = [sys.executable, "-m", "memvault", "wait", "for", *words, "--agent", agent, "--json"]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)


def asleep(process: subprocess.Popen[str]) -> None:
    """Give a waiting process time to begin."""
    time.sleep(1.0)
    assert process.poll() is None


class WakerContract:
    """What every waker does; each kind is a subclass."""

    make: Callable[[Path, threading.Condition], Waker]

    def slept(self, folder: Path, change: Callable[[], object] | None, seconds: float) -> float:
        turn = threading.Condition()
        sleeper = type(self).make(folder, turn)

        def act() -> None:
            if change is not None:
                time.sleep(0.3)
                with turn:  # free, because the sleeper sleeps
                    change()

        thread = threading.Thread(target=act)
        with turn:
            thread.start()
            begun = time.monotonic()
            sleeper.sleep(seconds)
            passed = time.monotonic() - begun
        thread.join()
        sleeper.close()
        sleeper.close()
        return passed

    def test_it_wakes_at_a_delivery(self, tmp_path: Path) -> None:
        """A new event ends the sleep, and meanwhile others may have the lock."""
        inbox = Inbox(tmp_path, Address("main"))
        inbox.folder.mkdir(parents=True)
        passed = self.slept(inbox.folder, lambda: inbox.deliver("talk", {}), 4.0)
        assert 0.25 < passed < 2.0

    def test_it_wakes_after_its_time(self, tmp_path: Path) -> None:
        """Without a change the sleep is as long as asked."""
        assert 0.35 < self.slept(tmp_path, None, 0.4) < 1.5

    def test_it_is_told_of_what_came_before_it_slept(self, tmp_path: Path) -> None:
        """A file that came between looking and sleeping wakes at once."""
        turn = threading.Condition()
        sleeper = type(self).make(tmp_path, turn)
        write(tmp_path, "a.md", "x")
        begun = time.monotonic()
        with turn:
            sleeper.sleep(4.0)
        sleeper.close()
        assert time.monotonic() - begun < 2.0


class TestWatching(WakerContract):
    """The waker that the system tells."""

    make = Watching

    def test_a_folder_made_anew_is_watched_again(self, tmp_path: Path) -> None:
        """Whoever deletes and makes an inbox again still wakes who waits there."""
        folder = tmp_path / "inbox"
        folder.mkdir()
        sleeper, turn = Watching(folder, threading.Condition()), threading.Condition()
        folder.rename(tmp_path / "old")
        folder.mkdir()
        with turn, sleeper._turn:
            sleeper.sleep(0.1)
            write(folder, "a.md", "x")
            begun = time.monotonic()
            sleeper.sleep(4.0)
        sleeper.close()
        assert time.monotonic() - begun < 2.0


class TestPolling(WakerContract):
    """The waker that looks."""

    make = Polling


def test_polling_takes_over_where_watching_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that cannot be watched, or MEMVAULT_POLL=1, is polled."""
    blocked = write(tmp_path, "file", "x") / "inbox"
    assert isinstance(waker(blocked, threading.Condition()), Polling)
    monkeypatch.setenv("MEMVAULT_POLL", "1")
    assert isinstance(waker(tmp_path, threading.Condition()), Polling)


def test_three_shells_hold_a_conversation(run: Run, folder: Path) -> None:
    """Two agents and the user, each a shell of its own, ask, wait and answer."""
    asked = run("talk", "agent", "bob", "Ready?", "--agent", "alice", "--json").json["talkId"]
    alice = waiting(folder, f"agent:bob#{asked}", agent="alice")
    run("talk", "agent", "alice", "not the answer", "--agent", "bob")
    heard = run("inbox", "peek", "--agent", "bob", "--json").json["events"][0]["data"]
    assert heard == {"from": "alice", "talkId": asked, "message": "Ready?"}
    question = run("talk", "user", "May I?", "--agent", "bob", "--json").json["talkId"]
    bob = waiting(folder, "user", "time:30", agent="bob")
    asleep(alice)
    asleep(bob)
    run("reply", str(question), "You may", "--agent", "user")
    assert json.loads(bob.communicate(timeout=20)[0])["events"][0]["event"]["eventType"] == "User"
    run("reply", str(asked), "Ready", "--agent", "bob")
    found = json.loads(alice.communicate(timeout=20)[0])["events"][0]
    assert found["event"] == {"eventType": "Agent", "parameter": "bob", "talkId": asked}
    assert found["result"]["data"]["message"] == "Ready"
    assert found["result"]["data"]["inReplyTo"] == asked
    left = run("inbox", "peek", "--agent", "alice", "--json").json
    assert left["events"][0]["data"]["message"] == "not the answer"
    assert left["remaining"] == 0


@pytest.mark.parametrize("poll", ["0", "1"])
def test_a_waiter_costs_nothing_and_wakes_at_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch, poll: str
) -> None:
    """Waiting for two seconds takes next to no computing, and the event comes promptly."""
    monkeypatch.setenv("MEMVAULT_POLL", poll)

    def spent(idle: float) -> tuple[float, float]:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        process = waiting(folder, "hook:x")
        asleep(process)
        time.sleep(idle)
        begun = time.monotonic()
        Inbox(folder, Address("main")).deliver("service", {"name": "x", "message": ""})
        process.communicate(timeout=20)
        late = time.monotonic() - begun
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, late

    short, _ = spent(0.0)
    long, late = spent(2.0)
    assert long - short < 0.3
    assert late < 2.0


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_wait_that_is_cut_off_ends_in_order(
    folder: Path, sent: signal.Signals, code: int
) -> None:
    """Ctrl-C and SIGTERM end a wait with their exit codes, silently, and nothing is lost."""
    process = subprocess.Popen(
        [sys.executable, "-m", "memvault", "wait", "for", "hook:x"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    asleep(process)
    process.send_signal(sent)
    assert process.communicate(timeout=10)[0] == ""
    assert process.returncode == code
    with open_vault(folder) as vault:
        vault.call("push_service", name="x")
        assert len(vault.call("peek_inbox")["events"]) == 1


def test_a_library_can_be_used_while_it_waits(vault: Vault) -> None:
    """Other threads of an open vault go on while one waits, and can end its wait."""
    found: list[object] = []
    events = [{"eventType": "hook", "parameter": "x"}]
    thread = threading.Thread(
        target=lambda: found.append(vault.call("wait_for", events=events, timeout=20))
    )
    thread.start()
    time.sleep(0.5)
    assert vault.call("push_service", name="other")["success"]
    assert vault.call("peek_inbox")["events"][0]["data"]["name"] == "other"
    vault.call("push_service", name="x", message="go")
    thread.join(timeout=10)
    assert "'message': 'go'" in str(found)


def test_what_is_there_already_ends_the_wait_at_once(run: Run) -> None:
    """An event older than the wait counts, and exactly it is taken."""
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


def test_a_wait_says_what_is_wrong_with_it(run: Run) -> None:
    """What cannot be waited for is refused in a sentence, and waiting in vain has its own code."""
    refused(run("wait", "for", "agent:bob"), 1)
    refused(run("wait", "for", "user"), 1)
    refused(run("wait", "for", "time:soon"), 2)
    refused(run("wait", "for", "time:-1"), 2)
    refused(run("wait", "for", "hook:"), 2)
    refused(run("wait", "for", "agent:../x"), 2)
    refused(run("wait", "for", "user:me"), 2)
    refused(run("wait", "for", "agent:bob#x"), 2)
    refused(run("wait", "for", "rain:now"), 2)
    refused(run("wait", "for"), 2)
    refused(run("wait", "for", "hook:x", "--timeout", "0.1"), 4)


def test_only_talk_is_waited_for_by_its_number(vault: Vault) -> None:
    """A talkId given with an event that has none is refused, whatever kind of event it is."""
    for kind in ("Time", "Hook"):
        event = {"eventType": kind, "parameter": "0", "talkId": 5}
        error = vault.call("wait_for", events=[event], timeout=0)["error"]
        assert error["message"] == f"{kind} events have no talkId"


def test_a_due_plan_wakes_who_waits(folder: Path) -> None:
    """A wait sleeps no longer than until the next plan is due, and fires it."""
    from memvault.work.waiting import Wanted, wait

    begun = time.monotonic()

    def due() -> list[str]:
        if time.monotonic() - begun > 0.5:
            inbox.deliver("service", {"name": "x", "message": "now"}, event_id="due-1")
        return []

    inbox = Inbox(folder, Address("main"), due, lambda: begun + 0.5 - time.monotonic())
    turn = threading.Condition()
    with turn:
        happened = wait(inbox, [Wanted("Hook", "x")], lambda *_: True, turn, timeout=10)
    assert happened.popped.events[0].event_id == "due-1"
    assert time.monotonic() - begun < 3
