"""Two clones that change the same memories end equal, with nothing lost and no conflict left."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import write
from git_clones import Clone, cloned, git, settle, without_identity
from memvault import open_vault

NOTE = """---
id: database-abc123   # never changes
memory_type: fact
tags: [a, b]
modified: 2026-01-01T00:00:00.000Z
usage_count: 3
status: open          # or done
---

# Database

We use SQLite.

It is small.

It is in one file.
"""


@pytest.fixture
def clones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Clone, ...]]:
    """Two clones of one vault, where git knows nobody's name."""
    without_identity(monkeypatch, tmp_path / "home")
    yield from cloned(tmp_path)


@pytest.fixture
def both(clones: tuple[Clone, ...]) -> tuple[Clone, ...]:
    """The same clones with one memory in them."""
    one, two = clones
    write(one.root, "fact/database.md", NOTE)
    one.sync()
    two.sync()
    return clones


def test_what_one_remembers_the_other_has_after_a_sync(clones: tuple[Clone, ...]) -> None:
    """A memory travels, and each sync says how much it committed, pulled and pushed."""
    one, two = clones
    made = one.remember("Wombats", "They dig.")
    assert one.sync() == {
        "success": True, "branch": "main", "remote": "origin",
        "committed": 1, "pulled": 0, "pushed": 1,
    }  # fmt: skip
    found = two.sync()
    assert (found["committed"], found["pulled"], found["pushed"]) == (0, 1, 0)
    assert two.call("memory_show", memId=made["memId"])["content"].strip() == "They dig."
    assert settle(one, two)[made["filePath"]]
    assert "memvault" in one.git("log", "-1", "--format=%an <%ae> %s")


def test_both_compound_one_memory(both: tuple[Clone, ...]) -> None:
    """Two clones that add to one memory have both additions, and the later time of change."""
    one, two = both
    one.call("memory_compound", query="database-abc123", modifications="Since May.")
    two.call("memory_compound", query="database-abc123", modifications="Since June.")
    text = settle(one, two)["fact/database.md"]
    assert text.endswith("It is in one file.\n\nSince May.\n\nSince June.\n")
    assert "# never changes" in text
    assert "# or done" in text


def test_headers_are_merged_by_key(both: tuple[Clone, ...]) -> None:
    """Keys of both sides stay, lists are sets, counts add up, and the later change counts."""
    one, two = both
    first = NOTE.replace("[a, b]", "[b, c]").replace("count: 3", "count: 5")
    first = first.replace("open ", "done ").replace("2026-01-01", "2026-01-03")
    second = NOTE.replace("[a, b]", "[a, b, d]").replace("count: 3", "count: 4\nowner: bob")
    second = second.replace("open ", "late ").replace("2026-01-01", "2026-01-02")
    write(one.root, "fact/database.md", first)
    write(two.root, "fact/database.md", second)
    one.sync()
    found = two.sync()
    assert found["notKept"] == ["fact/database.md: status: late"]
    text = settle(one, two)["fact/database.md"]
    header = text.partition("\n---")[0]
    assert "tags: [b, c, d]" in header
    assert "usage_count: 6" in header
    assert "owner: bob" in header
    assert "modified: 2026-01-03" in header
    assert "status: done          # or done" in header
    assert "# never changes" in header
    assert "status: late" in two.git("log", "--format=%B")


def test_a_text_that_both_changed_is_kept_as_two_files(both: tuple[Clone, ...]) -> None:
    """Both versions stay as memories that name each other until one is forgotten; doctor tells."""
    one, two = both
    write(one.root, "fact/database.md", NOTE.replace("SQLite", "PostgreSQL"))
    write(two.root, "fact/database.md", NOTE.replace("SQLite", "DuckDB"))
    two.call("git_init")
    two.git("commit", "--quiet", "--all", "--message", "DuckDB")
    later = (two.root / "fact/database.md").read_text("utf-8") + "\nAnd fast.\n"
    write(two.root, "fact/database.md", later)
    one.sync()
    found = two.sync()
    assert found["keptTwice"] == [
        {"filePath": "fact/database.md", "copyPath": "fact/database-2.md"}
    ]
    files = settle(one, two)
    assert "PostgreSQL" in files["fact/database.md"]
    assert "And fast." not in files["fact/database.md"]
    assert "DuckDB" in files["fact/database-2.md"]
    assert "And fast." in files["fact/database-2.md"]
    status = one.call("git_status")
    assert status["keptTwice"] == [
        {"filePath": "fact/database.md", "copyPath": "fact/database-2.md"}
    ]
    other = one.call("memory_show", memId="fact/database-2.md")
    assert other["memId"] != "database-abc123"
    assert other["metadata"]["conflict_with"] == ["[[database-abc123]]"]
    mine = one.call("memory_show", memId="database-abc123")
    assert mine["metadata"]["conflict_with"] == [f"[[{other['memId']}]]"]
    told = one.call("vault_doctor")["findings"]
    assert [entry["code"] for entry in told] == ["kept-twice", "kept-twice"]
    one.call("memory_forget", query="fact/database-2.md", confirm=True)
    assert [entry["code"] for entry in one.call("vault_doctor", fix=True)["fixed"]] == [
        "link-settled"
    ]
    assert "conflict_with" not in (one.root / "fact/database.md").read_text("utf-8")
    assert one.call("vault_doctor")["findings"] == []


def test_a_version_that_was_forgotten_leaves_no_link(both: tuple[Clone, ...]) -> None:
    """Who changed a memory and then forgot it has no second file, and the first names none."""
    one, two = both
    write(one.root, "fact/database.md", NOTE.replace("SQLite", "PostgreSQL"))
    write(two.root, "fact/database.md", NOTE.replace("SQLite", "DuckDB"))
    two.git("commit", "--quiet", "--all", "--message", "DuckDB")
    two.call("memory_forget", query="database-abc123", confirm=True)
    one.sync()
    assert "keptTwice" not in two.sync()
    files = settle(one, two)
    assert "PostgreSQL" in files["fact/database.md"]
    assert "conflict_with" not in files["fact/database.md"]
    assert "fact/database-2.md" not in files
    assert "DuckDB" in one.git("log", "--all", "--patch")


def test_a_name_of_any_kind_travels(clones: tuple[Clone, ...]) -> None:
    """Blanks, quotes, brackets and letters of any script in a path are nothing special."""
    one, two = clones
    names = ["a b.md", "[x] *.md", "'q' \"r\".md", "日本語.md", ":(top)t.md", "-n.md"]
    for name in names:
        write(one.root, name, "One.\n\nTwo.\n\nThree.\n")
    settle(one, two)
    for name in names:
        write(one.root, name, "1.\n\nTwo.\n\nThree.\n")
        write(two.root, name, "One.\n\nTwo.\n\n3.\n")
    files = settle(one, two)
    assert {files[name] for name in names} == {"1.\n\nTwo.\n\n3.\n"}


def test_two_memories_of_one_title_are_both_kept(clones: tuple[Clone, ...]) -> None:
    """Clones that remember under one title have two memories with that title and their own ids."""
    one, two = clones
    ids = [
        clone.remember("wombats", text)["memId"]
        for clone, text in ((one, "They dig."), (two, "They sleep."))
    ]
    two.call("memory_compound", query=ids[1], modifications="All day.")
    settle(one, two)
    for clone in clones:
        shown = [clone.call("memory_show", memId=mem_id) for mem_id in ids]
        assert [entry["title"] for entry in shown] == ["wombats", "wombats"]
        assert shown[0]["content"].strip() == "They dig."
        assert shown[1]["content"].strip() == "They sleep.\n\nAll day."


@pytest.mark.parametrize("forgets", [0, 1])
def test_what_one_forgot_and_the_other_changed_stays(both: tuple[Clone, ...], forgets: int) -> None:
    """A memory that is changed while another clone forgets it is still there."""
    deleter, other = both[forgets], both[1 - forgets]
    deleter.call("memory_forget", query="database-abc123", confirm=True)
    other.call("memory_compound", query="database-abc123", modifications="More.")
    both[0].sync()
    assert both[1].sync()["notDeleted"] == ["fact/database.md"]
    assert "More." in settle(*both)["fact/database.md"]


@pytest.mark.parametrize("moves", [0, 1])
def test_a_memory_that_moved_is_changed_where_it_is(both: tuple[Clone, ...], moves: int) -> None:
    """One clone changes a memory's type, the other its text: one file has both."""
    mover, other = both[moves], both[1 - moves]
    mover.call(
        "memory_compound", query="database-abc123", modifications="Moved.", memoryType="learning"
    )
    other.call("memory_compound", query="database-abc123", modifications="Changed.")
    files = settle(*both)
    assert "fact/database.md" not in files
    assert "Moved." in files["learning/database.md"]
    assert "Changed." in files["learning/database.md"]


def test_another_memory_under_the_same_path_gets_no_change_of_the_old_one(
    both: tuple[Clone, ...],
) -> None:
    """Where a new memory took an old one's place, the other side's edit stays with the old one."""
    one, two = both
    moved = NOTE.replace("database-abc123", "newcomer-abc123").replace("SQLite", "Oracle")
    (one.root / "fact/database.md").rename(one.root / "fact/storage.md")
    write(one.root, "fact/database.md", moved)
    one.sync()
    write(two.root, "fact/database.md", NOTE.replace("[a, b]", "[a, b, mine]"))
    texts = settle(two, one)
    assert "mine" in texts["fact/storage.md"]
    assert "mine" not in texts["fact/database.md"]
    assert texts["fact/database.md"] == moved


def test_values_of_agents_and_plain_files_are_kept_too(clones: tuple[Clone, ...]) -> None:
    """Two values under one key, and two versions of any file, end as two files."""
    one, two = clones
    one.call("set_memories", memories=[{"key": "tone", "value": "friendly"}])
    two.call("set_memories", memories=[{"key": "tone", "value": "formal"}])
    write(one.root, "picture.bin", b"\0\1")
    write(two.root, "picture.bin", b"\0\2")
    one.sync()
    two.sync()
    one.sync()
    found = one.call("get_memories")
    assert found["memories"] == [{"key": "tone", "value": "friendly"}]
    assert "agents/main/memories/tone_2.md" in found["warnings"][0]
    assert (two.root / "picture.bin").read_bytes() == b"\0\1"
    assert (two.root / "picture_2.bin").read_bytes() == b"\0\2"


def test_others_may_push_meanwhile(both: tuple[Clone, ...], tmp_path: Path) -> None:
    """Where somebody else pushed between pull and push, sync pulls once more."""
    one, two = both
    one.remember("First", "One.")
    two.remember("Second", "Two.")
    hook = two.root / ".git" / "hooks" / "pre-push"
    command = f'git -C "{one.root}" -c user.name=x -c user.email=x@y'
    hook.write_text(
        f"#!/bin/sh\nunset GIT_DIR GIT_INDEX_FILE\nmv '{hook}' '{hook}.done'\n"
        f"{command} add -A && {command} commit -qm x && {command} push -q\n"
    )
    hook.chmod(0o755)
    found = two.sync()
    assert (found["pulled"], found["pushed"]) == (1, 1)
    files = settle(one, two)
    assert {"context/first.md", "context/second.md"} <= files.keys()


def test_merges_that_somebody_made_stay(both: tuple[Clone, ...]) -> None:
    """Local commits with a merge among them are not put in a row, and nothing of them is lost."""
    one, two = both
    two.git("switch", "--quiet", "--create", "side")
    write(two.root, "side.md", "Side.\n")
    two.git("add", "--all")
    two.git("commit", "--quiet", "--message", "Side")
    two.git("switch", "--quiet", "main")
    write(two.root, "main.md", "Main.\n")
    two.git("add", "--all")
    two.git("commit", "--quiet", "--message", "Main")
    two.git("merge", "--quiet", "--message", "Both", "side")
    one.remember("First", "One.")
    one.sync()
    merged = two.git("rev-parse", "HEAD").strip()
    two.sync()
    assert merged in two.git("rev-list", "HEAD")
    assert {"side.md", "main.md", "context/first.md"} <= settle(one, two).keys()


def test_vaults_without_a_common_past_come_together(
    clones: tuple[Clone, ...], tmp_path: Path
) -> None:
    """A vault that began elsewhere can join; both sides' files are there."""
    one, _ = clones
    one.remember("wombats", "They dig.")
    one.sync()
    root = tmp_path / "three"
    write(root, "memvault.toml", "version = 1\n# mine\n")
    with open_vault(root) as vault:
        three = Clone(root, vault)
        three.remember("wombats", "They sleep.")
        three.call("git_init")
        git(root, "remote", "add", "origin", "../shared.git")
        three.sync()
        files = settle(one, three)
    assert "They dig." in files["context/wombats.md"]
    assert "They sleep." in files["context/wombats-2.md"]
    assert "# mine" in files["memvault_2.toml"]
