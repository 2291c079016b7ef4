"""Talks and spaces reach their recipients, and keep their messages."""

from __future__ import annotations

import json
import os
import shutil
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from conftest import Git, Run, called, refused, write
from memvault import Vault, clock, open_vault
from memvault.agents.address import Address
from memvault.agents.messages import talks as talk_records
from memvault.agents.messages.talks import TalkLog
from memvault.call import Caller
from memvault.settings.vault_settings import Settings
from memvault.store.memory_store import MemoryStore
from memvault.tools.core import invoke
from memvault.workspace import Workspace
from racing import Racing, raced


def said(result: dict[str, Any]) -> int:
    """The talkId of a result."""
    assert result["success"], result
    return int(result["talkId"])


def next_event(folder: Path, agent: str) -> dict[str, Any]:
    """Take the next event of an agent; return its data."""
    with open_vault(folder, agent) as vault:
        found = vault.call("peek_inbox")["events"]
    return dict(found[0]["data"]) if found else {}


def test_talk_ids_increase_after_deleted_state(vault: Vault, folder: Path) -> None:
    """No talkId repeats, is 0 or decreases, for any kind of talk, even without .memvault."""
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


def test_talk_ids_are_unique_across_processes(folder: Path, racing: Racing) -> None:
    """Agents that talk concurrently get different talkIds, even if the clock is stopped."""
    told = raced(racing.run(folder, TALKING, [[clock.now().timestamp()]] * 4))
    outs = [[int(line) for line in lines] for lines in told]
    assert all(out == sorted(out) for out in outs)
    assert len({number for out in outs for number in out}) == 160


def test_talk_reply_refers_to_its_question(folder: Path) -> None:
    """A reply goes to the sender of the talk and can itself be answered."""
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


def test_talk_brain_reaches_only_its_agent(folder: Path) -> None:
    """A brain reaches the main brain as primary, but no brain of another agent."""
    with open_vault(folder, "alice/planner") as planner:
        said(planner.call("talk_brain", subbrain="primary", message="done"))
        assert planner.call("talk_brain", subbrain="bob/x", message="m")["error"]["code"] == "usage"
        assert planner.call("talk_agent", agent="bob/x", message="m")["error"]["code"] == "usage"
        said(planner.call("talk_agent", agent="alice/other", message="m"))
    assert next_event(folder, "alice")["from"] == "alice/planner"


def test_talk_to_similar_agent_name_warns(vault: Vault) -> None:
    """A message to Bob instead of bob is delivered as addressed, with a warning."""
    assert "warnings" not in vault.call("talk_agent", agent="bob", message="x")
    assert "warnings" not in vault.call("talk_agent", agent="zoe", message="x")
    assert "did you mean bob?" in vault.call("talk_agent", agent="Bob", message="x")["warnings"][0]
    assert "warnings" not in vault.call("talk_agent", agent="bob", message="x")


def test_talk_wait_for_answer_to_unsent_talk_is_refused(folder: Path) -> None:
    """A wait for an answer requires a talk that was sent to the same agent."""
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


class Conversation:
    """Agents that talk in a vault: each line of text is a talk, and is awaited by its number."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.numbers: dict[str, int] = {}

    def talk(self, sender: str, to: str, text: str) -> None:
        """Talk to another agent, or to the user, or between brains."""
        with open_vault(self.folder, sender) as vault:
            if to == "user":
                made = vault.call("talk_user", message=text)
            elif sender.partition("/")[0] == to.partition("/")[0]:
                brain = to.partition("/")[2] or "primary"
                made = vault.call("talk_brain", subbrain=brain, message=text)
            else:
                made = vault.call("talk_agent", agent=to, message=text)
        self.numbers[text] = said(made)

    def reply(self, sender: str, question: str, text: str) -> None:
        """Reply to a talk by its number."""
        with open_vault(self.folder, sender) as vault:
            self.numbers[text] = said(
                vault.call("reply", talkId=self.numbers[question], message=text)
            )

    def wait(self, agent: str, *wanted: tuple[str, str]) -> tuple[str, str]:
        """Wait for others' answers to talks; return the answered talk, and the answer."""
        events = [
            {"eventType": "User", "talkId": self.numbers[text]}
            if name == "user"
            else {"eventType": "Agent", "parameter": name, "talkId": self.numbers.get(text, 0)}
            for name, text in wanted
        ]
        with open_vault(self.folder, agent) as vault:
            found = vault.call("wait_for", events=events, timeout=0)
        if not found["success"]:
            return found["error"]["code"], ""
        (event,) = found["events"]
        texts = {number: text for text, number in self.numbers.items()}
        return texts.get(event["event"]["talkId"], ""), event["result"]["data"]["message"]

    def left(self, agent: str) -> list[str]:
        """The messages in an agent's inbox."""
        with open_vault(self.folder, agent) as vault:
            return [entry["data"]["message"] for entry in vault.call("list_inbox")["events"]]


@pytest.fixture
def spoken(folder: Path) -> Conversation:
    """A conversation in an empty vault."""
    return Conversation(folder)


NOTHING = ("timed_out", "")


def test_talk_earlier_message_does_not_answer_a_question(spoken: Conversation) -> None:
    """Older messages, and those of other talks or agents, stay in the inbox; no wait ends."""
    spoken.talk("bob", "alice", "older")
    spoken.talk("alice", "bob", "other question")
    spoken.talk("alice", "bob", "question")
    spoken.reply("bob", "other question", "to the other")
    spoken.talk("eve", "alice", "of eve")
    assert spoken.wait("alice", ("bob", "question")) == NOTHING
    spoken.talk("bob", "alice", "answer")
    assert spoken.wait("alice", ("bob", "question")) == ("question", "answer")
    assert spoken.wait("alice", ("bob", "question")) == NOTHING
    assert spoken.left("alice") == ["older", "to the other", "of eve"]


def test_talk_reply_precedes_unrelated_message(spoken: Conversation) -> None:
    """If the inbox has both, the reply ends the wait, and the message is kept for the next wait."""
    spoken.talk("alice", "bob", "question")
    spoken.talk("bob", "alice", "a moment")
    spoken.reply("bob", "question", "answer")
    wanted = [("bob", "any"), ("bob", "question")]
    assert spoken.wait("alice", *wanted) == ("question", "answer")
    assert spoken.wait("alice", *wanted) == ("question", "a moment")
    assert spoken.left("alice") == []


def test_talk_message_answers_oldest_awaited_question(spoken: Conversation) -> None:
    """A message answers the oldest of the open questions that are being waited for."""
    for text in ("one", "two", "three"):
        spoken.talk("alice", "bob", text)
    for text in ("first", "second", "third"):
        spoken.talk("bob", "alice", text)
    assert spoken.wait("alice", ("bob", "three"), ("bob", "two")) == ("two", "first")
    assert spoken.wait("alice", ("bob", "three")) == ("three", "second")
    assert spoken.wait("alice", ("bob", "one")) == ("one", "third")


def test_talk_agents_asking_each_other_do_not_deadlock(spoken: Conversation) -> None:
    """The later question ends the other agent's wait, and that agent can then reply."""
    spoken.talk("alice", "bob", "ready?")
    spoken.talk("bob", "alice", "and you?")
    assert spoken.wait("bob", ("alice", "and you?")) == NOTHING
    assert spoken.wait("alice", ("bob", "ready?")) == ("ready?", "and you?")
    spoken.reply("alice", "and you?", "yes")
    assert spoken.wait("bob", ("alice", "and you?")) == ("and you?", "yes")
    assert (spoken.left("alice"), spoken.left("bob")) == ([], ["ready?"])


@pytest.mark.parametrize(
    ("asker", "asked"),
    [("alice/planner", "alice"), ("alice", "alice/planner"), ("alice", "user")],
)
def test_talk_from_brain_or_user_is_an_answer(spoken: Conversation, asker: str, asked: str) -> None:
    """A talk from a brain or the user answers exactly the one who asked."""
    spoken.talk(asker, asked, "question")
    spoken.talk("user", asker.partition("/")[0], "other")
    if asked != "user":
        spoken.talk(asked, asker, "answer")
        assert spoken.wait(asker, (asked, "question")) == ("question", "answer")
    else:
        assert spoken.wait(asker, (asked, "question")) == ("question", "other")


@pytest.mark.parametrize("behind", [timedelta(hours=-1), timedelta(), timedelta(hours=1)])
def test_talk_answer_from_machine_with_slow_clock_is_matched(
    spoken: Conversation, monkeypatch: pytest.MonkeyPatch, behind: timedelta
) -> None:
    """An answer has a later talkId than its question, even if the machine's clock is behind."""
    spoken.talk("alice", "bob", "question")
    with open_vault(spoken.folder, "bob") as bob:
        bob.call("peek_inbox")
    (spoken.folder / ".memvault/talk-id").unlink()
    real = clock.now
    with monkeypatch.context() as other:
        other.setattr(clock, "now", lambda: real() + behind)
        other.setattr(clock, "_latest", clock._latest)  # restored for later tests
        spoken.talk("bob", "alice", "answer")
    assert spoken.wait("alice", ("bob", "question")) == ("question", "answer")


def test_talk_huge_id_does_not_affect_next_id(vault: Vault, folder: Path) -> None:
    """A handwritten message with a huge talkId is read, and the next talkId is normal."""
    first = said(vault.call("talk_user", message="x"))
    header = f"---\ntype: talk\nfrom: bob\ntalkId: {2**53 - 1}\n---\n"
    write(folder, "agents/main/inbox/x.md", f"{header}\nHello\n")
    assert vault.call("peek_inbox")["events"][0]["data"]["talkId"] == 2**53 - 1
    assert first < said(vault.call("talk_agent", agent="bob", message="x")) < first + 10**8


def test_talk_ids_wrap_around(spoken: Conversation) -> None:
    """After the highest talkId comes 1, and a message with it answers the earlier question."""
    write(spoken.folder, ".memvault/talk-id", str(2**53 - 2))
    spoken.talk("alice", "bob", "question")
    spoken.talk("bob", "alice", "answer")
    assert spoken.numbers == {"question": 2**53 - 1, "answer": 1}
    assert spoken.wait("alice", ("bob", "question")) == ("question", "answer")


def test_talk_answer_is_requeued_if_result_is_lost(spoken: Conversation) -> None:
    """If a wait's result is lost, its answer returns to the next wait or to the inbox."""
    spoken.talk("alice", "bob", "question")
    spoken.talk("bob", "alice", "answer")
    wanted = {"eventType": "Agent", "parameter": "bob", "talkId": spoken.numbers["question"]}
    workspace = Workspace(spoken.folder)
    with invoke.call(workspace, "wait_for", {"events": [wanted]}, Caller("alice")) as lost:
        assert lost.result["events"]
        assert spoken.left("alice") == []
    workspace.close()
    assert spoken.left("alice") == ["answer"]
    assert spoken.wait("alice", ("bob", "question")) == ("question", "answer")


def test_talk_contacts_are_remembered(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent can wait for an early contact after exceeding the limit of recorded messages."""
    monkeypatch.setattr(talk_records, "_MAX_RECORDED", 100)  # instead of 1,000
    talks = TalkLog(MemoryStore(folder, Settings()).changes, Address("alice"))
    first = talks.send(Address("bob"), "hello")
    for _ in range(105):
        talks.record_received([])
        talks.send(Address("eve"), "x")
    assert talks.has_talked_to(Address("bob"))
    assert talks.has_talked_to(Address("bob"), first)
    assert talks.has_talked_to(Address("eve"), first + 1)
    assert not talks.has_talked_to(Address("zoe"))


def test_talk_log_is_json_lines(vault: Vault, folder: Path) -> None:
    """Each talk_log is a separate line, even after a truncated line."""
    log = write(folder, ".memvault/agents/main/log.jsonl", '{"cut')
    number = said(vault.call("talk_log", severity="Warning", message="two\nlines"))
    line = json.loads(log.read_text("utf-8").splitlines()[1])
    assert (line["severity"], line["message"], line["talkId"]) == ("warning", "two\nlines", number)


def test_talk_log_accepts_common_severity_names(vault: Vault, run: Run, folder: Path) -> None:
    """Critical is a separate severity, and other logs' severity names map to the nearest."""
    names = {"critical": "critical", "FATAL": "critical", "err": "error", "warn": "warning"}
    names |= {"notice": "info", "trace": "debug"}
    for name in names:
        assert vault.call("talk_log", severity=name, message="x")["success"]
        assert run("talk", "log", name, "x").code == 0
    lines = (folder / ".memvault/agents/main/log.jsonl").read_text("utf-8").splitlines()
    written = [json.loads(line)["severity"] for line in lines]
    assert written == [severity for severity in names.values() for _ in range(2)]


def test_talk_log_is_never_written_through_symlink(vault: Vault, folder: Path) -> None:
    """A log that is a symlink or not a regular file is reported and unchanged."""
    kept = write(folder, "rc", "alias")
    log = folder / ".memvault/agents/main/log.jsonl"
    log.parent.mkdir(parents=True)
    log.symlink_to(kept)
    said = vault.call("talk_log", severity="info", message="x")["error"]
    assert said["code"] == "refused"
    assert "log.jsonl is not a regular file" in said["message"]
    log.unlink()
    log.mkdir()
    assert vault.call("talk_log", severity="info", message="x")["error"]["code"] == "refused"
    assert kept.read_text("utf-8") == "alias"


@pytest.mark.parametrize("name", ["", "../x", "a/b/c", ".hidden", "con", "x" * 80, "a b"])
def test_talk_refuses_invalid_agent_name(vault: Vault, folder: Path, name: str) -> None:
    """Nothing is written for an agent whose name cannot be a folder name."""
    with open_vault(folder, name or "/") as other:
        assert other.call("peek_inbox")["error"]["code"] == "usage"
    assert not (folder / "agents").exists()


def test_talk_empty_message_is_refused(vault: Vault) -> None:
    """An empty message is rejected."""
    vault.call("enter_space", spaceId="team")
    assert vault.call("send_message", text="")["error"]["code"] == "usage"


def test_space_message_reaches_every_other_member(folder: Path) -> None:
    """A message is in the history and in the inbox of each member except the sender."""
    with open_vault(folder, "alice") as alice, open_vault(folder, "user") as user:
        assert alice.call("enter_space", spaceId="Team Ärger")["totalMessages"] == 0
        entered = user.call("enter_space", spaceId="team-ärger")
        assert entered["spaceName"] == "Team Ärger"
        write(folder, "spaces/team-ärger/members/carol.md", "")
        sent = user.call("send_message", text="- one\n- two")
        assert sent["status"] == "delivered"
        assert (
            next_event(folder, "carol")
            == next_event(folder, "alice")
            == {
                "spaceId": "team-ärger",
                "spaceName": "Team Ärger",
                "senderName": "user",
                "senderType": "human",
                "content": "- one\n- two",
                "messageId": sent["messageId"],
            }
        )
        assert next_event(folder, "user") == {}
        history = alice.call("enter_space", spaceId="Team Ärger")["history"]
        assert [(entry["id"], entry["content"]) for entry in history] == [
            (sent["messageId"], "- one\n- two")
        ]


def test_space_pages_start_with_the_newest(vault: Vault) -> None:
    """Offset and limit page through a space's messages without a gap."""
    vault.call("enter_space", spaceId="team")
    for number in range(7):
        vault.call("send_message", text=str(number))

    def page(limit: int, offset: int) -> list[str]:
        found = vault.call("read_messages", limit=limit, offset=offset)
        assert found["total"] == 7
        return [entry["content"] for entry in found["messages"]]

    assert page(3, 0) == ["4", "5", "6"]
    assert page(3, 3) == ["1", "2", "3"]
    assert page(3, 6) == ["0"]
    assert page(3, 9) == []
    assert page(0, 0) == []


def test_space_accepts_handwritten_messages(vault: Vault, folder: Path) -> None:
    """A plain file is a message from the user; a broken one is reported and skipped."""
    vault.call("enter_space", spaceId="team")
    vault.call("send_message", text="first")
    note = write(folder, "spaces/team/messages/note.md", "From my editor\n")
    os.utime(note, (time.time() + 1, time.time() + 1))  # a file system's clock may be behind
    write(folder, "spaces/team/messages/broken.md", "---\nid: [\n---\nx")
    write(folder, "spaces/team/space.md", "---\nname: [\n---\n")
    found = vault.call("read_messages")
    assert [entry["content"] for entry in found["messages"]] == ["first", "From my editor"]
    assert found["messages"][1]["senderType"] == "human"
    assert "broken.md" in found["warnings"][0]
    assert found["total"] == 2
    assert vault.call("read_messages", limit=1, offset=1)["total"] == 2


def test_space_invalid_or_unknown_name_is_refused(run: Run, folder: Path) -> None:
    """Unsafe space names are refused, and a space that does not exist is reported."""
    for name in ("", "../x", "a/b", "!!!"):
        refused(run("space", "enter", name), 2)
    refused(run("space", "read", "--space", "nowhere"), 1)
    refused(run("space", "send", "x"), 1)
    run("space", "enter", "team")
    shutil.rmtree(folder / "spaces")
    refused(run("space", "send", "x"), 1)
    (folder / "spaces").mkdir()
    (folder / "spaces" / "out").symlink_to("/tmp")
    refused(run("space", "enter", "out"), 1)


def test_space_unreachable_member_is_reported(vault: Vault, folder: Path) -> None:
    """A broken member file keeps a message from neither the space nor the other members."""
    vault.call("enter_space", spaceId="team")
    write(folder, "spaces/team/members/a.md", "---\nagent: ../../x\n---\n")
    write(folder, "spaces/team/members/bob.md", "---\nbroken: [\n---\n")
    sent = called(vault, "send_message", text="x")
    assert "../../x" in sent["warnings"][0]
    assert next_event(folder, "bob")["content"] == "x"


def test_space_names_with_equal_folder_names_stay_separate(folder: Path) -> None:
    """Different space names that map to one folder name stay separate, in any order."""
    long = "the long and winding road that leads to the door of the house number "
    names = ["C#", "C++", "C", f"{long}one", f"{long}two"]
    with open_vault(folder) as vault:
        made = [vault.call("enter_space", spaceId=name) for name in names]
        assert [entered["spaceName"] for entered in made] == names
        ids = [entered["spaceId"] for entered in made]
        assert len(set(ids)) == len(names)
        for name, space_id in zip(names, ids, strict=True):
            assert vault.call("enter_space", spaceId=space_id)["spaceName"] == name
            assert vault.call("enter_space", spaceId=name)["spaceId"] == space_id
            assert vault.call("send_message", text=f"about {name}")["success"]
        for name in names:
            found = vault.call("read_messages", spaceId=name)["messages"]
            assert [message["content"] for message in found] == [f"about {name}"]
        # C# is deleted, and C++ keeps its folder.
        (folder / "spaces" / ids[0] / "space.md").unlink()
        assert vault.call("enter_space", spaceId="C++")["spaceId"] == ids[1]


def test_space_name_ignores_case_blanks_and_unicode_form(vault: Vault) -> None:
    """Case, blanks, hyphens and the Unicode form of an umlaut do not create another space."""
    for name in ("Team Ärger", "team-ärger", "TEAM  a\u0308rger", " team_ärger "):
        assert vault.call("enter_space", spaceId=name)["spaceId"] == "team-ärger"


@pytest.mark.parametrize("place", ["spaces", "spaces/ops", "spaces/ops/members"])
@pytest.mark.parametrize("target", ["outside", "vault/learning"])
def test_space_symlink_is_neither_read_nor_written(
    vault: Vault, folder: Path, tmp_path: Path, place: str, target: str
) -> None:
    """Nothing is written through a symlink, and the names behind it are not shown."""
    write(tmp_path, f"{target}/opsecret/a.md", "# A\n\na\n")
    link = folder / place
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(tmp_path / target)
    failed = vault.call("enter_space", spaceId="ops")["error"]
    assert failed["code"] == "refused"
    assert "is a link" in failed["message"]
    read = vault.call("read_messages", spaceId="opsecre")
    assert read["success"] is False
    assert "opsecret" not in str(read)
    assert [path.name for path in (tmp_path / target).rglob("*")] == ["opsecret", "a.md"]


def test_space_with_unreadable_messages_is_reported(vault: Vault, folder: Path) -> None:
    """A file in place of a space's message folder is reported, not counted as no messages."""
    vault.call("enter_space", spaceId="team")
    write(folder, "spaces/team/messages", "a note")
    for found in (vault.call("read_messages"), vault.call("send_message", text="x")):
        assert "messages is a file where a folder should be" in found["error"]["message"]


def test_space_broken_messages_do_not_hide_others(vault: Vault, folder: Path) -> None:
    """A page contains the newest readable messages, and broken ones are not counted."""
    vault.call("enter_space", spaceId="s")
    for text in ("m1", "m2", "m3"):
        vault.call("send_message", text=text)
    place = "spaces/s/messages"
    write(folder, f"{place}/20991122T052742.193672Z-y38bhfevvg.md", "---\nx: [\n---\n")
    write(folder, f"{place}/zzz.md", "")
    for limit, texts in ((1, ["m3"]), (2, ["m2", "m3"]), (9, ["m1", "m2", "m3"])):
        found = vault.call("read_messages", limit=limit)
        assert [message["content"] for message in found["messages"]] == texts
        assert found["total"] == 3


def test_space_created_on_two_clones_merges(tmp_path: Path, git: Git) -> None:
    """The same space, created, joined and used in two clones, merges with git."""
    write(tmp_path, "a/memvault.toml", "")
    git("a", "init", "-q")
    for words in (("add", "-A"), ("commit", "-qm", "begin"), ("clone", "-q", ".", "../b")):
        git("a", *words)
    for name in ("a", "b"):
        with open_vault(tmp_path / name, "alice") as vault:
            vault.call("enter_space", spaceId="Release 2")
            vault.call("send_message", text=f"from {name}")
        git(name, "add", "-A")
        git(name, "commit", "-qm", "spoke")
    git("a", "pull", "-q", "--no-rebase", "--no-edit", "../b")
    with open_vault(tmp_path / "a", "alice") as vault:
        found = vault.call("read_messages", spaceId="Release 2")["messages"]
    assert [message["content"] for message in found] == ["from a", "from b"]


def test_reply_hints_at_the_option_that_replies_as_another_agent(folder: Path, run: Run) -> None:
    """The error for another agent's talk suggests --agent in a shell, but not over MCP."""
    run("talk", "user", "Which?", "--agent", "bob")
    done = run("reply", "1", "yes")
    assert "received no talk 1" in refused(done, 1)
    assert "`--agent NAME`" in done.err
    with open_vault(folder) as vault:
        assert "--agent" not in vault.call("reply", talkId=1, message="yes")["error"]["hint"]
