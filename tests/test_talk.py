"""Talk reaches whom it is meant for, under a number that can be answered."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from conftest import write
from memvault import Vault, clock, open_vault
from memvault.agents.address import Address
from memvault.agents.messages.talks import TalkLog
from memvault.settings.vault_settings import Settings
from memvault.store.memory_store import MemoryStore
from racing import Racing, raced


def said(result: dict[str, Any]) -> int:
    """The talkId of a result."""
    assert result["success"], result
    return int(result["talkId"])


def next_event(folder: Path, agent: str) -> dict[str, Any]:
    """Take the next event of an agent; its data."""
    with open_vault(folder, agent) as vault:
        found = vault.call("peek_inbox")["events"]
    return dict(found[0]["data"]) if found else {}


def test_talk_ids_rise_and_survive_a_deleted_record(vault: Vault, folder: Path) -> None:
    """No talkId comes twice, is 0, or falls, whatever kind of talk, even without .memvault."""
    ids = []
    for _ in range(5):
        ids.append(said(vault.call("talk_agent", agent="bob", message="x")))
        ids.append(said(vault.call("talk_user", message="x")))
        ids.append(said(vault.call("talk_brain", subbrain="planner", message="x")))
        ids.append(said(vault.call("talk_log", severity="INFO", message="x")))
        shutil.rmtree(folder / ".memvault")
    assert ids == sorted(set(ids))
    assert ids[0] > 0
    write(folder, ".memvault/talk-id", str(2**53 - 1))
    assert said(vault.call("talk_user", message="x")) == 1


TALKING = """
from datetime import UTC, datetime
from memvault import clock, open_vault

def work(seconds):
    clock.now = lambda: datetime.fromtimestamp(seconds, UTC)
    with open_vault() as vault:
        for number in range(40):
            print(vault.call("talk_user", message="x")["talkId"])
"""


def test_processes_never_get_the_same_talk_id(folder: Path, racing: Racing) -> None:
    """Agents that talk at once get different talkIds, even where the clock stands still."""
    told = raced(racing.run(folder, TALKING, [[clock.now().timestamp()]] * 4))
    outs = [[int(line) for line in lines] for lines in told]
    assert all(out == sorted(out) for out in outs)
    assert len({number for out in outs for number in out}) == 160


def test_an_answer_is_tied_to_what_it_answers(folder: Path) -> None:
    """A reply goes to whoever sent the talk, and can be answered itself."""
    with open_vault(folder, "alice/planner") as alice, open_vault(folder, "bob") as bob:
        asked = said(alice.call("talk_agent", agent="bob", message="  One?\n"))
        answered = said(bob.call("reply", talkId=asked, message="Two"))
        assert next_event(folder, "alice/planner") == {
            "from": "bob",
            "talkId": answered,
            "inReplyTo": asked,
            "message": "Two",
        }
        again = said(alice.call("reply", talkId=answered, message="Three"))
        assert bob.call("peek_inbox", count=5)["events"][1]["data"]["talkId"] == again
        assert alice.call("reply", talkId=asked, message="x")["error"]["code"] == "not_found"


def test_brains_talk_within_their_agent(folder: Path) -> None:
    """A brain reaches the main one as primary, and no brain of another agent."""
    with open_vault(folder, "alice/planner") as planner:
        said(planner.call("talk_brain", subbrain="primary", message="done"))
        assert planner.call("talk_brain", subbrain="bob/x", message="m")["error"]["code"] == "usage"
        assert planner.call("talk_agent", agent="bob/x", message="m")["error"]["code"] == "usage"
        said(planner.call("talk_agent", agent="alice/other", message="m"))
    assert next_event(folder, "alice")["from"] == "alice/planner"


def test_a_name_that_is_almost_known_is_asked_about(vault: Vault) -> None:
    """Who writes to Bob where bob is known hears of it; the message is delivered as addressed."""
    assert "warnings" not in vault.call("talk_agent", agent="bob", message="x")
    assert "warnings" not in vault.call("talk_agent", agent="zoe", message="x")
    assert "is bob meant?" in vault.call("talk_agent", agent="Bob", message="x")["warnings"][0]
    assert "warnings" not in vault.call("talk_agent", agent="bob", message="x")


def test_a_wait_for_an_answer_to_nothing_is_refused(folder: Path) -> None:
    """Only an answer to a talk that was sent to the same can be waited for."""
    wait = {"eventType": "Agent", "parameter": "bob"}
    with open_vault(folder, "alice") as alice, open_vault(folder, "bob") as bob:
        first = said(alice.call("talk_agent", agent="bob", message="one"))
        other = said(alice.call("talk_agent", agent="eve", message="two"))
        second = said(alice.call("talk_agent", agent="bob", message="three"))
        for number in (first - 1, other, second + 1):
            failed = alice.call("wait_for", events=[{**wait, "talkId": number}], timeout=0)
            assert failed["error"]["code"] == "refused"
            assert f"no talk {number} to bob" in failed["error"]["message"]
        for number in (first, second):
            failed = alice.call("wait_for", events=[{**wait, "talkId": number}], timeout=0)
            assert failed["error"]["code"] == "timed_out"
        bob.call("peek_inbox")
        said(bob.call("reply", talkId=first, message="yes"))
        heard = alice.call("wait_for", events=[{**wait, "talkId": first}], timeout=0)
        assert heard["events"][0]["result"]["data"]["message"] == "yes"


def test_whom_one_talked_to_is_remembered(folder: Path) -> None:
    """After a thousand messages to others an old acquaintance may still be waited for."""
    talks = TalkLog(MemoryStore(folder, Settings()).changes, Address("alice"))
    first = talks.send(Address("bob"), "hello")
    for _ in range(1_005):
        talks.record_received([])
        talks.send(Address("eve"), "x")
    assert talks.has_talked_to(Address("bob"))
    assert talks.has_talked_to(Address("bob"), first)
    assert talks.has_talked_to(Address("eve"), first + 1)
    assert not talks.has_talked_to(Address("zoe"))


def test_the_log_is_lines_of_json(vault: Vault, folder: Path) -> None:
    """Each talk_log is a line of its own, also behind a line that was cut off."""
    log = write(folder, ".memvault/agents/main/log.jsonl", '{"cut')
    number = said(vault.call("talk_log", severity="Warning", message="two\nlines"))
    line = json.loads(log.read_text("utf-8").splitlines()[1])
    assert (line["severity"], line["message"], line["talkId"]) == ("warning", "two\nlines", number)


def test_the_log_is_never_written_through_a_link(vault: Vault, folder: Path) -> None:
    """A log that is a link, or no file, is named and left alone."""
    kept = write(folder, "rc", "alias")
    log = folder / ".memvault/agents/main/log.jsonl"
    log.parent.mkdir(parents=True)
    log.symlink_to(kept)
    said = vault.call("talk_log", severity="info", message="x")["error"]
    assert said["code"] == "refused"
    assert "log.jsonl is not a plain file" in said["message"]
    log.unlink()
    log.mkdir()
    assert vault.call("talk_log", severity="info", message="x")["error"]["code"] == "refused"
    assert kept.read_text("utf-8") == "alias"


@pytest.mark.parametrize("name", ["", "../x", "a/b/c", ".hidden", "con", "x" * 80, "a b"])
def test_a_name_that_is_none_is_refused(vault: Vault, folder: Path, name: str) -> None:
    """Nothing is written for an agent whose name cannot be a folder's."""
    assert vault.call("talk_agent", agent=name, message="x")["error"]["code"] == "usage"
    with open_vault(folder, name or "/") as other:
        assert other.call("peek_inbox")["error"]["code"] == "usage"
    assert not (folder / "agents").exists()


def test_empty_messages_are_refused(vault: Vault) -> None:
    """There is nothing to say without a text."""
    vault.call("enter_space", spaceId="team")
    for tool, arguments in (
        ("talk_user", {"message": " \n"}),
        ("send_message", {"text": ""}),
        ("push_service", {"name": " "}),
        ("talk_user", {"message": "x", "user": "somebody"}),
    ):
        assert vault.call(tool, **arguments)["error"]["code"] == "usage"
