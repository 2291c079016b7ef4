"""Events that were taken and did not reach the taker come back, each as it was."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from conftest import write
from memvault import Vault, open_vault
from memvault.agents.address import Address, agent_lock
from memvault.agents.messages.inbox import Inbox, Lease
from memvault.tools.core import invoke
from memvault.workspace import Workspace

PRIVATE = ".memvault/agents/main"


@pytest.fixture
def inbox(folder: Path) -> Inbox:
    """The inbox of the agent ``main``."""
    return Inbox(folder, Address("main"))


def taken(inbox: Inbox, count: int = 1) -> Lease:
    """Take the next events."""
    lease = inbox.pop(count).lease
    assert lease is not None
    return lease


def letters(folder: Path) -> dict[str, str]:
    """The files of a folder with their texts."""
    return {path.name: path.read_text("utf-8") for path in folder.glob("*.md")}


def test_an_event_goes_back_beside_a_newer_one_of_its_name(folder: Path, inbox: Inbox) -> None:
    """A file name that is used again and again, as by CI, costs no event that went back."""
    for build in ("build 1 failed", "build 2 failed", "build 3 is fine"):
        write(folder, "agents/main/inbox/ci.md", build)
        lease = taken(inbox, 5)
        write(folder, "agents/main/inbox/ci.md", "later")
        lease.requeue()
    builds = {"build 1 failed", "build 2 failed", "build 3 is fine", "later"}
    assert set(letters(inbox.folder).values()) == builds
    wanted = [{"eventType": "Hook", "parameter": "ci"}]
    with open_vault(folder) as vault:
        heard = [vault.call("wait_for", events=wanted, timeout=0)["events"][0] for _ in builds]
        assert vault.call("peek_inbox") == {"success": True, "events": [], "remaining": 0}
    assert {each["result"]["data"]["message"] for each in heard} == builds


def test_the_same_event_goes_back_once(folder: Path, inbox: Inbox) -> None:
    """An event that was delivered again meanwhile, byte for byte, is there once."""
    write(folder, "agents/main/inbox/ci.md", "fine")
    lease = taken(inbox)
    write(folder, "agents/main/inbox/ci.md", "fine")
    lease.requeue()
    assert letters(inbox.folder) == {"ci.md": "fine"}
    assert not list((folder / PRIVATE / "claims").iterdir())


def test_a_very_long_name_goes_back_too(folder: Path, inbox: Inbox) -> None:
    """An event whose name leaves no room for another one behind it is not lost."""
    name = "ü" * 125
    write(folder, f"agents/main/inbox/{name}.md", "one")
    lease = taken(inbox)
    write(folder, f"agents/main/inbox/{name}.md", "two")
    lease.requeue()
    assert set(letters(inbox.folder).values()) == {"one", "two"}


def test_only_events_are_taken_out_of_a_lease(folder: Path, inbox: Inbox) -> None:
    """What somebody else put into a lease or beside it stays where it is."""
    inbox.deliver("service", {"name": "x"})
    lease = taken(inbox)
    own = next(path for path in (folder / PRIVATE / "claims").iterdir() if path.is_dir())
    strange = [own / "thesis.tex", write(folder, f"{PRIVATE}/claims/docs/a.md", "a")]
    strange[0].write_text("x")
    lease.requeue()
    assert len(inbox.peek()) == 1
    assert all(path.exists() for path in strange)


def test_events_go_back_under_the_readers_lock(folder: Path, inbox: Inbox) -> None:
    """Nobody sees an event half gone back; where the lock is not free it is the next look's."""
    inbox.deliver("service", {"name": "x"})
    lease = taken(inbox)
    with agent_lock(folder, Address("main")):
        lease.requeue()
        assert letters(inbox.folder) == {}
    assert [event.data["name"] for event in inbox.peek()] == ["x"]


def test_a_taking_that_finds_nothing_leaves_nothing(folder: Path, inbox: Inbox) -> None:
    """Where the wanted event's file goes away at the last moment no lease is left."""
    name = inbox.deliver("service", {"name": "x"})

    def vanishes(_event: object) -> bool:
        (inbox.folder / f"{name}.md").unlink()
        return True

    popped = inbox.pop(fits=vanishes)
    assert (popped.events, popped.remaining, popped.lease) == ([], 0, None)
    assert not list((folder / PRIVATE / "claims").iterdir())


@pytest.mark.parametrize("name", ["claims", "popped"])
def test_nothing_is_taken_that_could_not_be_kept(vault: Vault, folder: Path, name: str) -> None:
    """A file in the place of a folder that taking needs is named, and the event stays."""
    vault.call("push_service", name="x")
    blocking = write(folder, f"{PRIVATE}/{name}", "")
    failed = vault.call("peek_inbox")["error"]
    assert failed["code"] == "refused"
    assert f"{name} is a file" in failed["message"]
    blocking.unlink()
    assert vault.call("peek_inbox")["events"][0]["data"]["name"] == "x"


def test_a_taking_that_cannot_be_completed_is_said(folder: Path) -> None:
    """The result is not spoilt: a note says that the events may come again, and they do."""
    workspace = Workspace(folder)
    invoke.call(workspace, "push_service", {"name": "x"})
    outcome = invoke.call(workspace, "peek_inbox", {})
    taken = outcome.result["events"]
    blocking = write(folder, f"{PRIVATE}/popped", "")
    notes = outcome.settle()
    assert len(notes) == 1
    assert "may come a second time" in notes[0]
    blocking.unlink()
    assert invoke.call_result(workspace, "peek_inbox", {})["events"] == taken
    assert invoke.call_result(workspace, "peek_inbox", {})["events"] == []


def test_a_result_that_is_not_settled_gives_its_events_back(folder: Path) -> None:
    """Events of a result that is not settled return to the inbox, those of nested calls too."""
    workspace = Workspace(folder)
    invoke.call(workspace, "push_service", {"name": "x"})
    with invoke.call(workspace, "call_tool", {"toolName": "peek_inbox"}) as left:
        assert len(left.result["events"]) == 1
    with invoke.call(workspace, "peek_inbox", {}) as settled:
        assert settled.result["events"] == left.result["events"]
        assert settled.settle() == []
    assert invoke.call_result(workspace, "peek_inbox", {})["events"] == []


def test_the_last_takings_are_kept(folder: Path, inbox: Inbox) -> None:
    """A hundred takings can be looked up on this machine; older ones go."""
    other = write(folder, f"{PRIVATE}/popped/mine/a.md", "mine")
    for number in range(103):
        inbox.deliver("service", {"name": str(number)})
        taken(inbox).acknowledge()
    kept = [path for path in (folder / PRIVATE / "popped").iterdir() if path.name != "mine"]
    assert len(kept) == 100
    assert other.exists()


def test_taking_one_event_reads_one(folder: Path, inbox: Inbox) -> None:
    """The oldest event is as quickly taken out of a full inbox as out of an empty one."""
    for number in range(300):
        inbox.deliver("service", {"name": str(number)})
    code = (
        "import sys\nread = set()\n"
        "sys.addaudithook(lambda event, given: read.add(given[0])"
        " if event == 'open' and '/inbox/' in str(given[0]) else None)\n"
        "from memvault import open_vault\n"
        "found = open_vault().call('peek_inbox')\n"
        "print(found['events'][0]['data']['name'], found['remaining'], len(read))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["0", "299", "1"]
