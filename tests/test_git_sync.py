"""Two clones that sync end up equal, lose nothing, and report each conflict."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from conftest import sampled, sampled_tests, soak_only, write
from git_clones import NOTE, Clone, git, hook, settle
from made_secrets import MADE
from memvault import open_vault

pytestmark = sampled_tests(4)

DATABASE = """---
id: database-abc123   # never changes
memory_type: fact
tags: [a, b]
modified: 2026-01-01T00:00:00.000Z
usage_count: 3
success_rate: 0.5
status: open          # or done
---

# Database

We use SQLite.

It is small.

It is in one file.
"""


def titled(mem_id: str, title: str, text: str) -> str:
    """Return a memory with a title in its header."""
    return f"---\nid: {mem_id}\ntitle: {title}\n---\n\n{text}\n"


@pytest.fixture
def both(clones: tuple[Clone, ...]) -> tuple[Clone, ...]:
    """The same clones with two memories in them."""
    one, two = clones
    write(one.root, "fact/database.md", DATABASE)
    write(one.root, "note.md", NOTE)
    one.sync()
    two.sync()
    return clones


def test_sync_transfers_memories(clones: tuple[Clone, ...]) -> None:
    """A memory is transferred, and each sync reports how much it committed, pulled and pushed."""
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


@pytest.mark.promise("R37")
def test_sync_merges_compounds_of_one_memory(both: tuple[Clone, ...]) -> None:
    """Two clones that add to one memory get both additions and the later modification time."""
    one, two = both
    one.call("memory_compound", query="database-abc123", modifications="Since May.")
    two.call("memory_compound", query="database-abc123", modifications="Since June.")
    text = settle(one, two)["fact/database.md"]
    assert text.endswith("It is in one file.\n\nSince May.\n\nSince June.\n")
    assert "# never changes" in text
    assert "# or done" in text


@pytest.mark.promise("R37")
def test_sync_merges_edit_and_additions(both: tuple[Clone, ...]) -> None:
    """An edit on one clone and additions on both are merged into one file."""
    one, two = both
    write(one.root, "note.md", NOTE.replace("SQLite", "PostgreSQL") + "\nSince May.\n")
    write(two.root, "note.md", NOTE + "\nSince June.\n\nAnd July.\n")
    one.sync()
    assert "keptTwice" not in two.sync()
    files = settle(*both)
    assert files["note.md"].endswith(
        "We use PostgreSQL.\n\nIt is small.\n\nIt is in one file.\n\n"
        "Since May.\n\nSince June.\n\nAnd July.\n"
    )
    assert "note-2.md" not in files


@soak_only
def test_sync_conflict_at_end_keeps_both_versions(both: tuple[Clone, ...]) -> None:
    """If one side changed the last line and the other appended to it, both versions are kept."""
    one, two = both
    write(one.root, "note.md", NOTE.replace("one file.", "two files."))
    write(two.root, "note.md", NOTE + "\nSince June.\n")
    one.sync()
    assert two.sync()["keptTwice"]
    files = settle(*both)
    assert "two files" in files["note.md"]
    assert "Since June." in files["note-2.md"]


@pytest.mark.promise("R37")
def test_sync_merges_headers_by_key(both: tuple[Clone, ...]) -> None:
    """Both sides' keys are merged: lists united, counts added up, and the later value wins."""
    one, two = both
    first = DATABASE.replace("[a, b]", "[b, c]").replace("count: 3", "count: 5")
    first = first.replace("open ", "done ").replace("2026-01-01", "2026-01-03")
    first = first.replace("rate: 0.5", "rate: 0.6355")
    second = DATABASE.replace("[a, b]", "[a, b, d]").replace("count: 3", "count: 4\nowner: bob")
    second = second.replace("open ", "late ").replace("2026-01-01", "2026-01-02")
    second = second.replace("rate: 0.5", "rate: 0.45")
    write(one.root, "fact/database.md", first)
    write(two.root, "fact/database.md", second)
    one.sync()
    found = two.sync()
    assert found["notKept"] == ["fact/database.md: status: late"]
    text = settle(one, two)["fact/database.md"]
    header = text.partition("\n---")[0]
    assert "tags: [b, c, d]" in header
    assert "usage_count: 6" in header
    assert "success_rate: 0.5855" in header  # the change of both sides, since both had outcomes
    assert "owner: bob" in header
    assert "modified: 2026-01-03" in header
    assert "status: done          # or done" in header
    assert "# never changes" in header
    said = two.git("log", "--format=%B")
    assert "Changed on both sides, so discarded:\n- fact/database.md: status: late" in said


@soak_only
@pytest.mark.promise("R41")
def test_sync_commits_dropped_header_value(both: tuple[Clone, ...]) -> None:
    """An overridden value can be found in git, even if it was the only change."""
    one, two = both
    write(one.root, "note.md", NOTE.replace("tags: [a]", "status: done").replace("01T", "03T"))
    write(two.root, "note.md", NOTE.replace("tags: [a]", "status: late").replace("01T", "02T"))
    one.sync()
    assert two.sync()["notKept"] == ["note.md: status: late"]
    settle(*both)
    for clone in both:
        assert "status: late" in clone.git("log", "--format=%B")


def test_sync_masks_secret_in_dropped_value(clones: tuple[Clone, ...]) -> None:
    """A note about a dropped value masks the secret in it."""
    one, two = clones
    before, make = MADE["GitHub token"]
    secret = before + make()
    note = "---\nid: note-abc123\nstatus: {}\nmodified: 2026-01-0{}\n---\n\nOne.\n"
    write(one.root, "note.md", note.format("open", 1))
    settle(*clones)
    write(one.root, "note.md", note.format("done", 3))
    write(two.root, "note.md", note.format(f"use {secret}", 2))
    one.sync()
    told = two.sync()
    assert "[masked: GitHub token]" in told["notKept"][0]
    assert secret not in str(told)
    assert secret not in two.git("log", "-1", "--format=%B")
    assert "[masked: GitHub token]" in two.git("log", "-1", "--format=%B")


@pytest.mark.promise("R38")
def test_sync_keeps_conflicting_versions_as_two_files(both: tuple[Clone, ...]) -> None:
    """Both versions are kept and linked until one is forgotten, and doctor reports them."""
    one, two = both
    write(one.root, "fact/database.md", DATABASE.replace("SQLite", "PostgreSQL"))
    write(two.root, "fact/database.md", DATABASE.replace("SQLite", "DuckDB"))
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


@soak_only
def test_sync_keeps_both_versions_with_broken_header(both: tuple[Clone, ...]) -> None:
    """A header that cannot be edited is unchanged; the other version links to it."""
    one, two = both
    broken = NOTE.replace("id: note-abc123\ntags: [a]\n", "{id: note-abc123, tags: [a]}\n")
    write(one.root, "note.md", NOTE.replace("SQLite", "PostgreSQL"))
    write(two.root, "note.md", broken.replace("SQLite", "DuckDB"))
    one.sync()
    assert two.sync()["keptTwice"]
    files = settle(*both)
    assert files["note-2.md"] == broken.replace("SQLite", "DuckDB")
    assert "conflict_with" in files["note.md"]
    for clone in both:
        assert clone.call("git_status")["keptTwice"]
        assert "kept-twice" in [f["code"] for f in clone.call("vault_doctor")["findings"]]


@soak_only
def test_forgetting_conflicting_version_removes_its_link(both: tuple[Clone, ...]) -> None:
    """Forgetting a conflicting version deletes its file and the link to it."""
    one, two = both
    write(one.root, "fact/database.md", DATABASE.replace("SQLite", "PostgreSQL"))
    write(two.root, "fact/database.md", DATABASE.replace("SQLite", "DuckDB"))
    two.git("commit", "--quiet", "--all", "--message", "DuckDB")
    two.call("memory_forget", query="database-abc123", confirm=True)
    one.sync()
    assert "keptTwice" not in two.sync()
    files = settle(one, two)
    assert "PostgreSQL" in files["fact/database.md"]
    assert "conflict_with" not in files["fact/database.md"]
    assert "fact/database-2.md" not in files
    assert "DuckDB" in one.git("log", "--all", "--patch")


def test_sync_handles_any_file_name(clones: tuple[Clone, ...]) -> None:
    """Spaces, quotes, brackets and letters of any script in a path are supported."""
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


@pytest.mark.promise("R38")
def test_sync_keeps_memories_with_same_title(clones: tuple[Clone, ...]) -> None:
    """If clones add memories with the same title, both are kept with their own ids."""
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


def test_sync_reports_renamed_files(clones: tuple[Clone, ...]) -> None:
    """If both sides created the same name, the result shows the later file's new name."""
    one, two = clones
    write(one.root, "plan.md", titled("plan-aaaaaa", "Plan", "Ours."))
    write(two.root, "plan.md", titled("plan-bbbbbb", "Plan", "Theirs."))
    one.sync()
    done = two.sync()
    assert done["renamed"] == [{"from": "plan.md", "filePath": "plan-2.md"}]
    assert "Theirs." in (two.root / "plan-2.md").read_text("utf-8")
    assert "renamed" not in two.sync()


@sampled(2)
@pytest.mark.promise("R39")
@pytest.mark.parametrize("forgets", [0, 1])
def test_sync_keeps_memory_deleted_here_and_changed_there(
    both: tuple[Clone, ...], forgets: int
) -> None:
    """A memory that is changed while another clone forgets it is still there."""
    deleter, other = both[forgets], both[1 - forgets]
    deleter.call("memory_forget", query="database-abc123", confirm=True)
    other.call("memory_compound", query="database-abc123", modifications="More.")
    both[0].sync()
    assert both[1].sync()["notDeleted"] == ["fact/database.md"]
    assert "More." in settle(*both)["fact/database.md"]


def test_sync_reports_path_of_kept_memory(clones: tuple[Clone, ...]) -> None:
    """A memory deleted by others is reported with its path, even if its folder is now a file."""
    one, two = clones
    write(one.root, "proj/one.md", titled("one-aaaaaa", "One", "First."))
    settle(one, two)
    (one.root / "proj/one.md").unlink()
    (one.root / "proj").rmdir()
    write(one.root, "proj", "A file.\n")
    one.sync()
    write(two.root, "proj/one.md", titled("one-aaaaaa", "One", "Changed."))
    done = two.sync()
    assert done["notDeleted"] == ["proj_2/one.md"]
    assert (two.root / "proj_2/one.md").is_file()


@sampled(2)
@pytest.mark.promise("R39")
@pytest.mark.parametrize("moves", [0, 1])
def test_sync_applies_change_to_moved_memory(both: tuple[Clone, ...], moves: int) -> None:
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


@sampled(2)
@pytest.mark.parametrize("first", [0, 1])
def test_sync_does_not_apply_change_to_new_memory_at_path(
    both: tuple[Clone, ...], first: int
) -> None:
    """If a new memory takes an old one's path, the other side's edit applies to the old one."""
    one, two = both
    moved = DATABASE.replace("database-abc123", "newcomer-abc123").replace("SQLite", "Oracle")
    (one.root / "fact/database.md").rename(one.root / "fact/storage.md")
    write(one.root, "fact/database.md", moved)
    write(two.root, "fact/database.md", DATABASE.replace("[a, b]", "[a, b, mine]"))
    both[first].sync()
    texts = settle(both[1 - first], both[first])
    assert "mine" in texts["fact/storage.md"]
    assert "mine" not in texts["fact/database.md"]
    assert texts["fact/database.md"] == moved


@soak_only
@pytest.mark.promise("R39")
def test_sync_follows_swapped_memories(both: tuple[Clone, ...]) -> None:
    """Moves along a chain of paths, and swaps, include changes by others."""
    one, two = both
    (one.root / "note.md").rename(one.root / "last.md")
    (one.root / "fact/database.md").rename(one.root / "note.md")
    write(two.root, "note.md", NOTE.replace("[a]", "[a, note]"))
    write(two.root, "fact/database.md", DATABASE.replace("[a, b]", "[a, b, data]"))
    two.sync()
    assert "renamed" not in one.sync()
    files = settle(*both)
    assert "[a, note]" in files["last.md"]
    assert "[a, b, data]" in files["note.md"]
    for name in ("last.md", "note.md"):
        write(one.root, name, files["note.md" if name == "last.md" else "last.md"])
    write(two.root, "last.md", files["last.md"].replace("[a, note]", "[a, late]"))
    two.sync()
    one.sync()
    files = settle(*both)
    assert sorted(path for path in files if path.endswith(".md")) == ["last.md", "note.md"]
    assert "[a, late]" in files["note.md"]
    assert "[a, b, data]" in files["last.md"]


def test_sync_keeps_conflicting_state_and_plain_files(clones: tuple[Clone, ...]) -> None:
    """Two values under one key, and two versions of any file, become two files."""
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
    for clone in clones:
        codes = {(f["code"], f["filePath"]) for f in clone.call("vault_doctor")["findings"]}
        assert ("kept-twice", "agents/main/memories/tone_2.md") in codes
    assert (two.root / "picture.bin").read_bytes() == b"\0\1"
    assert (two.root / "picture_2.bin").read_bytes() == b"\0\2"


@soak_only
def test_sync_keeps_both_versions_of_ignored_file(both: tuple[Clone, ...]) -> None:
    """Instructions such as AGENTS.md are not memories: both versions are kept unchanged."""
    one, two = both
    write(one.root, "memvault.toml", 'version = 1\nignore = ["AGENTS*.md"]\n')
    settle(*both)
    write(one.root, "AGENTS.md", "One.\n")
    write(two.root, "AGENTS.md", "Two.\n")
    one.sync()
    assert two.sync()["keptTwice"] == [{"filePath": "AGENTS.md", "copyPath": "AGENTS_2.md"}]
    files = settle(*both)
    assert (files["AGENTS.md"], files["AGENTS_2.md"]) == ("One.\n", "Two.\n")
    assert one.call("vault_doctor")["findings"] == []


@sampled(4)
@pytest.mark.promise("R40")
@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("name", ["ideas", "ideas.md"])
def test_sync_keeps_file_and_folder_of_same_name(
    both: tuple[Clone, ...], first: int, name: str
) -> None:
    """If one side has a file where the other has a folder, the later sync keeps both."""
    write(both[0].root, f"{name}/x.md", "In the folder.\n")
    write(both[1].root, name, "The file.\n")
    both[first].sync()
    files = settle(both[1 - first], both[first])
    assert sorted(text for path, text in files.items() if "ideas" in path) == [
        "In the folder.\n",
        "The file.\n",
    ]
    for clone in both:
        write(clone.root, f"later/{clone.root.name}.md", "Later.\n")
    settle(*both)


@soak_only
def test_sync_replaces_file_with_folder(both: tuple[Clone, ...]) -> None:
    """Replacing a file with a folder of the same name, and back, is synced to the other clone."""
    one, two = both
    write(one.root, "ideas", "The file.\n")
    settle(*both)
    (one.root / "ideas").unlink()
    write(one.root, "ideas/x.md", "In the folder.\n")
    assert "ideas/x.md" in settle(*both)
    (two.root / "ideas/x.md").unlink()
    (two.root / "ideas").rmdir()
    write(two.root, "ideas", "The file again.\n")
    assert settle(two, one)["ideas"] == "The file again.\n"


def test_sync_accepts_folder_replaced_by_symlink(clones: tuple[Clone, ...]) -> None:
    """A shared folder that becomes a link does not block this sync, the next or other clones."""
    one, two = clones
    write(one.root, "docs/x.txt", "text\n")
    write(one.root, "docs/a.md", "zebra\n")
    settle(one, two)
    (one.root / "docs").rename(one.root / "elsewhere")
    (one.root / "docs").symlink_to("elsewhere")
    settle(one, two)
    for clone in clones:
        assert (clone.root / "docs").is_symlink()
        assert (clone.root / "elsewhere/x.txt").read_text() == "text\n"


@soak_only
@pytest.mark.promise("R40")
def test_sync_never_deletes_untracked_folder(both: tuple[Clone, ...]) -> None:
    """A folder with untracked files is not replaced by a file, and a message reports it."""
    one, two = both
    write(two.root, ".gitignore", ".memvault/\n.*.tmp\n*.private\n")
    settle(two, one)
    write(two.root, "ideas/my.private", "Mine.\n")
    write(one.root, "ideas", "The file.\n")
    one.call("memory_compound", query="note-abc123", modifications="Since May.")
    one.sync()
    failed = two.vault.call("git_sync")["error"]
    assert failed["code"] == "refused"
    assert "a folder here (contains ideas/my.private)" in failed["message"]
    assert (two.root / "ideas/my.private").read_text("utf-8") == "Mine.\n"
    assert not list((two.root / ".memvault/history").rglob("*.md"))
    (two.root / "ideas/my.private").rename(two.root / "my.private")
    assert settle(two, one)["ideas"] == "The file.\n"


def test_sync_joins_unrelated_histories(clones: tuple[Clone, ...], tmp_path: Path) -> None:
    """A vault with a separate history can join; both sides' files are kept."""
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


@pytest.mark.promise("R42")
def test_sync_keeps_local_merge_commits(both: tuple[Clone, ...]) -> None:
    """Local commits that include a merge are not rebased, and nothing is lost."""
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


@pytest.mark.promise("R43")
def test_sync_retries_after_concurrent_push(both: tuple[Clone, ...], tmp_path: Path) -> None:
    """If someone else pushed between pull and push, sync pulls again."""
    one, two = both
    one.remember("First", "One.")
    two.remember("Second", "Two.")
    file = two.root / ".git/hooks/pre-push"
    command = f'git -C "{one.root}" -c user.name=x -c user.email=x@y'
    script = (
        f"unset GIT_DIR GIT_INDEX_FILE\nmv '{file}' '{file}.done'\n"
        f"{command} add -A && {command} commit -qm x && {command} push -q"
    )
    hook(two.root, "pre-push", script)
    found = two.sync()
    assert (found["pulled"], found["pushed"]) == (1, 1)
    files = settle(one, two)
    assert {"context/first.md", "context/second.md"} <= files.keys()


@sampled(2)
@pytest.mark.promise("R43")
@pytest.mark.parametrize("name", ["note.md", "idea.md"])
def test_sync_keeps_file_saved_during_sync(
    both: tuple[Clone, ...], tmp_path: Path, name: str
) -> None:
    """A file that an editor saves after the sync's commit is not overwritten."""
    one, two = both
    write(one.root, name, NOTE.replace("[a]", "[a, b]"))
    one.sync()
    saved = write(tmp_path, "saved", NOTE.replace("[a]", "[a, c]"))
    script = f"#!/bin/sh\n[ -e '{saved}' ] && mv '{saved}' '{two.root / name}'\n"
    file = write(two.root, ".git/saving", f'{script}exec git-upload-pack "$@"\n')
    file.chmod(0o755)
    two.git("config", "remote.origin.uploadpack", str(file))
    found = two.sync()
    assert (found["committed"], found["pulled"], found["pushed"]) == (1, 1, 1)
    assert "tags: [a, b, c]" in settle(*both)[name]


def test_undo_reports_path_after_sync(clones: tuple[Clone, ...]) -> None:
    """If a sync renamed a new memory's file, undo refuses and reports the new path."""
    one, two = clones
    write(one.root, "context/plan.md", titled("plan-aaaaaa", "Plan", "Ours."))
    one.sync()
    made = two.remember("Plan", "Theirs.")
    two.sync()
    change = two.call("memory_undo", list=True)["changes"][0]["changeId"]
    refused = two.vault.call("memory_undo", change=change)
    assert not refused["success"]
    assert "context/plan-2.md" in refused["error"]["message"], refused
    assert f"memory_show(memId={made['memId']})" in refused["error"]["hint"]


def test_restore_refuses_duplicate_id_after_sync(clones: tuple[Clone, ...]) -> None:
    """A restore is refused if another file has the same memId."""
    one, two = clones
    made = one.remember("Kept", "First.")
    settle(one, two)
    two.call("memory_compound", query=made["memId"], modifications="Second.")
    one.call("memory_forget", query=made["memId"], confirm=True)
    settle(two, one)
    refused = one.vault.call("memory_restore", memId=made["memId"])
    assert not refused["success"]
    assert made["filePath"] in refused["error"]["message"]
    assert not one.call("vault_doctor", only=["id-shared"])["findings"]


@pytest.mark.promise("R36")
def test_sync_keeps_replaced_text_as_revision(both: tuple[Clone, ...]) -> None:
    """Text replaced or deleted by a sync can still be shown as a revision."""
    one, two = both
    one.call("memory_compound", query="note-abc123", modifications="Since May.")
    one.call("memory_forget", query="database-abc123", confirm=True)
    one.sync()
    two.sync()
    kept = [file.read_text("utf-8") for file in (two.root / ".memvault/history").rglob("*.md")]
    assert sorted(kept) == sorted([NOTE, DATABASE])


@soak_only
def test_sync_keeps_header_line_that_is_not_yaml(both: tuple[Clone, ...]) -> None:
    """A header line that is not YAML is kept, and the two versions link to each other."""
    one, two = both
    write(one.root, "note.md", NOTE.replace("SQLite", "PostgreSQL"))
    write(two.root, "note.md", NOTE.replace("tags: [a]", "tags: [a").replace("SQLite", "DuckDB"))
    one.sync()
    assert two.sync()["keptTwice"]
    files = settle(*both)
    assert "\ntags: [a\n" in files["note-2.md"]
    for name, other in (("note.md", "note-2.md"), ("note-2.md", "note.md")):
        (mem_id,) = re.findall(r"^id: (.+)", files[other], re.MULTILINE)
        assert f"[[{mem_id}]]" in files[name]
