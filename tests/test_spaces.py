"""Spaces hold what was said in them, tell their members, and are what their names say."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from conftest import Git, Run, refused, write
from memvault import Vault, open_vault
from test_talk import next_event


def test_a_space_tells_every_other_member(folder: Path) -> None:
    """A message is in the history and in the inbox of each member but the sender."""
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


def test_pages_go_back_from_the_newest(vault: Vault) -> None:
    """Offset and limit walk through a space's messages without a gap."""
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


def test_files_written_by_hand_take_part(vault: Vault, folder: Path) -> None:
    """A plain file is a message of the user; a broken one is named and skipped."""
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


def test_what_cannot_be_a_space_is_refused(run: Run, folder: Path) -> None:
    """Spaces have names that are safe, and are told from those that do not exist."""
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


def test_a_member_that_cannot_be_told_is_named(vault: Vault, folder: Path) -> None:
    """One bad member file keeps a message neither from the space nor from the others."""
    vault.call("enter_space", spaceId="team")
    write(folder, "spaces/team/members/a.md", "---\nagent: ../../x\n---\n")
    write(folder, "spaces/team/members/bob.md", "---\nbroken: [\n---\n")
    sent = vault.call("send_message", text="x")
    assert sent["success"]
    assert "../../x" in sent["warnings"][0]
    assert next_event(folder, "bob")["content"] == "x"


def test_different_names_are_different_spaces(folder: Path) -> None:
    """Names that make the same folder name are told apart, in whatever order they come."""
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
        (folder / "spaces" / ids[0] / "space.md").unlink()  # C# is gone, and C++ stays itself
        assert vault.call("enter_space", spaceId="C++")["spaceId"] == ids[1]


def test_one_name_in_several_spellings_is_one_space(vault: Vault) -> None:
    """Case, blanks, hyphens and the form of an umlaut make no other space."""
    for name in ("Team Ärger", "team-ärger", "TEAM  a\u0308rger", " team_ärger "):
        assert vault.call("enter_space", spaceId=name)["spaceId"] == "team-ärger"


@pytest.mark.parametrize("place", ["spaces", "spaces/ops", "spaces/ops/members"])
@pytest.mark.parametrize("target", ["outside", "vault/learning"])
def test_spaces_behind_a_link_are_neither_read_nor_made(
    vault: Vault, folder: Path, tmp_path: Path, place: str, target: str
) -> None:
    """Nothing is written through a link, and the names behind it are told to nobody."""
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


def test_a_folder_that_cannot_be_read_is_not_an_empty_one(vault: Vault, folder: Path) -> None:
    """A file in the place of a space's messages is named, and nothing is counted as no messages."""
    vault.call("enter_space", spaceId="team")
    write(folder, "spaces/team/messages", "a note")
    for found in (vault.call("read_messages"), vault.call("send_message", text="x")):
        assert "messages is a file where a folder should be" in found["error"]["message"]


def test_broken_messages_hide_no_others(vault: Vault, folder: Path) -> None:
    """A page holds the newest messages that can be read, and broken ones are not counted."""
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


def test_a_space_that_two_machines_make_is_one(tmp_path: Path, git: Git) -> None:
    """Two clones in which the same space was made, entered and spoken in merge with git."""
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
