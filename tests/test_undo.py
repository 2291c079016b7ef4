"""Changes made by tools are recorded and can be undone without losing other changes."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import Run, called, refused, succeeded, vault_files, write
from episodes import WEEK, put_all
from memvault import Vault, open_vault
from memvault.errors import Conflict
from memvault.history.undo import revert_steps
from memvault.store.change_set import FileRef
from memvault.store.journal import FileChange


def remember(vault: Vault, **given: Any) -> dict[str, Any]:
    """Remember a text as a fact."""
    return called(vault, "memory_remember", memoryType="fact", **given)


def changes(vault: Vault) -> list[dict[str, Any]]:
    """Return the entries of the log, newest first."""
    return list(called(vault, "memory_log", limit=1_000)["changes"])


@pytest.mark.promise("R1")
def test_undo_reverts_entire_consolidation(vault: Vault, folder: Path) -> None:
    """One undo reverts all facts, procedures and archivings of a consolidation."""
    put_all(folder, WEEK)
    before = vault_files(folder)
    assert vault.call("consolidate_memories", apply=True)["success"]
    (change,) = changes(vault)
    assert len(change["files"]) > 2
    assert vault.call("memory_undo")["success"]
    assert vault_files(folder) == before


def test_undo_walks_back_step_by_step(vault: Vault, folder: Path) -> None:
    """Undo goes back step by step, skips its own undos and reports when nothing is left."""
    states = [vault_files(folder)]
    remember(vault, title="A", content="One.")
    states.append(vault_files(folder))
    vault.call("memory_compound", query="A", modifications="Two.")
    states.append(vault_files(folder))
    vault.call("memory_forget", query="A", confirm=True)
    for state in reversed(states):
        assert vault.call("memory_undo")["success"]
        assert vault_files(folder) == state
    assert vault.call("memory_undo")["error"]["code"] == "not_found"


@pytest.mark.promise("R3")
def test_undo_keeps_file_edited_since(vault: Vault, folder: Path) -> None:
    """If an editor has saved a file since, undo changes nothing and suggests a command."""
    made = remember(vault, title="A", content="One.")
    vault.call("memory_compound", query="A", modifications="Two.")
    path = folder / made["filePath"]
    path.write_text(path.read_text() + "\nBy hand.\n")
    before = vault_files(folder)
    refused = vault.call("memory_undo")
    assert refused["error"]["code"] == "conflict"
    assert "memory_log" in refused["error"]["hint"]
    assert vault_files(folder) == before
    assert vault.call("memory_log", memId="A")["edited"]
    listed = vault.call("memory_undo", list=True)["changes"]
    assert "has changed since" in listed[0]["obstacle"]


def test_undo_refuses_damaged_revision(vault: Vault, folder: Path) -> None:
    """If a revision's bytes do not match its name, undo changes nothing."""
    made = remember(vault, title="A", content="One.")
    vault.call("memory_compound", query="A", modifications="Two.")
    next((folder / ".memvault" / "history").rglob("2*.md")).write_bytes(b"")
    before = vault_files(folder)
    assert vault.call("memory_undo")["error"]["code"] == "conflict"
    assert vault_files(folder) == before
    assert made["filePath"] in before


def test_undo_skips_manually_reverted_change(vault: Vault, folder: Path) -> None:
    """If a change's new file was deleted manually, undo skips it and reverts the one before."""
    remember(vault, title="A", content="One.")
    gone = remember(vault, title="B", content="Two.")
    (folder / gone["filePath"]).unlink()
    assert vault.call("memory_undo")["success"]
    assert not [path for path in vault_files(folder) if path.startswith("fact/")]


def test_undo_does_not_treat_move_as_edit(vault: Vault, folder: Path) -> None:
    """A memory with a new type is reported as edited only if it was edited afterward."""
    remember(vault, title="A", content="One.")
    made = vault.call("memory_compound", query="A", modifications="Two.", memoryType="issue")
    assert not vault.call("memory_log", memId="A")["edited"]
    with (folder / made["filePath"]).open("a") as file:
        file.write("By hand.")
    assert vault.call("memory_log", memId="A")["edited"]


def test_undo_history_survives_clock_set_ahead(vault: Vault, folder: Path) -> None:
    """A memory's last revisions are kept, regardless of the age that their names imply."""
    remember(vault, title="A", content="One.")
    vault.call("memory_compound", query="A", modifications="Two.")
    kept = next((folder / ".memvault" / "history").rglob("2*.md"))
    kept.rename(kept.with_name(f"2001{kept.name[4:]}"))
    vault._workspace.store.history.prune()
    assert len(vault.call("memory_show", memId="A")["revisions"]) == 1


@pytest.mark.promise("R3")
def test_undo_reverts_all_files_or_none(vault: Vault, folder: Path) -> None:
    """Files of one call are reverted together; if one was edited, all stay as they are."""
    for name in ("A", "B"):
        remember(vault, title=name, content="Zebra.", tags=["x"])
    vault.call("memory_forget", query="", filter="'x' in tags", confirm=True)
    assert not [path for path in vault_files(folder) if path.endswith(("a.md", "b.md"))]
    write(folder, "fact/a.md", "# Mine\n")
    before = vault_files(folder)
    assert vault.call("memory_undo")["error"]["code"] == "conflict"
    assert vault_files(folder) == before
    (folder / "fact/a.md").unlink()
    assert vault.call("memory_undo")["success"]
    assert {"fact/a.md", "fact/b.md"} <= vault_files(folder).keys()


@pytest.mark.promise("R5")
def test_undo_skips_changes_of_other_agents(run: Run) -> None:
    """Without an ID, only the caller's last change is undone; the hint mentions the other one."""
    run("--agent", "coder", "remember", "A", "One.", "--type", "fact")
    refused = run("undo")
    assert refused.code == 1, refused.err
    assert "by coder" in refused.err
    given = refused.err.split("memvault undo ")[1].split("`")[0]
    assert run("undo", given).code == 0


@pytest.mark.promise("R4")
def test_undo_completes_partial_undo(vault: Vault, folder: Path) -> None:
    """If only some files of a change were reverted, undo with its ID reverts the rest."""
    for name in ("A", "B"):
        remember(vault, title=name, content="Zebra.", tags=["x"])
    before = vault_files(folder)
    vault.call("memory_forget", query="", filter="'x' in tags", confirm=True)
    (change, *_) = changes(vault)
    assert vault.call("memory_restore", memId="A")["success"]
    assert vault.call("memory_undo", change=change["changeId"])["success"]
    assert vault_files(folder) == before


@pytest.mark.promise("R27")
def test_undo_hint_of_partial_failure_lists_written_files(vault: Vault, folder: Path) -> None:
    """If the disk fails after a file was written, the hint lists it and how to undo it."""
    (folder / ".memvault/agents/main/plans.json").mkdir(parents=True)
    before = vault_files(folder)
    plan = {"name": "Report", "instruction": "Do it", "scheduledAt": "2999-01-01"}
    failed = vault.call("set_plans", plans=[plan])
    hint = failed["error"]["hint"]
    assert failed["error"]["code"] == "storage"
    assert "nothing was changed" not in hint
    assert "agents/main/plans/report.md was changed" in hint
    given = hint.split("memory_undo(change=")[1].split(")`")[0]
    assert vault.call("memory_undo", change=given)["success"]
    assert vault_files(folder) == before


@pytest.mark.promise("R6")
def test_log_finds_forgotten_memory(vault: Vault) -> None:
    """The log of a memory is found by title, memId or path even after it was forgotten."""
    made = remember(vault, title="A", content="One.")
    vault.call("memory_compound", query="A", modifications="Two.", memoryType="issue")
    vault.call("memory_forget", query="A", confirm=True)
    for name in ("A", made["memId"], made["filePath"]):
        log = vault.call("memory_log", memId=name)
        assert [change["tool"] for change in log["changes"]] == [
            "memory_forget",
            "memory_compound",
            "memory_remember",
        ]
    assert vault.call("memory_log", memId="nobody")["error"]["code"] == "not_found"


def test_diff_compares_any_two_revisions(vault: Vault) -> None:
    """Diff compares the last revision with now, any revision with now, and any two."""
    remember(vault, title="A", content="One.")
    assert vault.call("memory_diff", memId="A")["error"]["code"] == "not_found"
    first = vault.call("memory_compound", query="A", modifications="Two.")["previousRevision"]
    second = vault.call("memory_compound", query="A", modifications="Three.")["previousRevision"]
    assert "+Three." in vault.call("memory_diff", memId="A")["diff"].splitlines()
    whole = vault.call("memory_diff", memId="A", revision=first)["diff"].splitlines()
    assert {"+Two.", "+Three."} <= set(whole)
    between = vault.call("memory_diff", memId="A", revision=first, other=second)
    assert "+Two." in between["diff"].splitlines()
    assert "Three" not in between["diff"]
    assert vault.call("memory_diff", memId="A", revision="1999")["error"]["code"] == "not_found"


def test_diff_of_long_text_is_fast(vault: Vault) -> None:
    """If thirty thousand lines differ, all removed and added lines are shown."""
    lines = "\n".join(f"line {number}" for number in range(30_000))
    remember(vault, title="A", content=lines)
    other = "\n".join(f"row {number}" for number in range(30_000))
    vault.call("memory_compound", query="A", modifications=other, mode="replace")
    found = vault.call("memory_diff", memId="A")
    assert (found["added"], found["removed"]) >= (30_000, 30_000)


@pytest.mark.promise("R7")
def test_trash_is_emptied_in_two_steps(vault: Vault, folder: Path) -> None:
    """The first call previews; its token is valid for exactly those files, or those of an age."""
    remember(vault, title="A", content="One.")
    vault.call("memory_forget", query="A", confirm=True)
    preview = vault.call("trash_empty")
    assert preview["confirmRequired"]
    assert preview["files"] == vault.call("trash_list")["total"] == 1
    assert vault.call("trash_empty", older="30d", confirm=True)["deletedFiles"] == 0
    remember(vault, title="B", content="Two.")
    vault.call("memory_forget", query="B", confirm=True)
    assert vault.call("trash_empty", confirm=preview["confirmToken"])["error"]["code"] == "conflict"
    assert vault.call("trash_empty", confirm=True)["deletedFiles"] == 2
    assert vault.call("trash_list")["trash"] == []
    assert not list((folder / ".memvault" / "trash").rglob("*.md"))
    assert vault.call("memory_undo")["error"]["code"] == "not_found"


@pytest.mark.promise("R10")
def test_undo_history_is_limited_by_settings(folder: Path) -> None:
    """Settings limit the stored revisions per memory, in days and in megabytes."""
    write(folder, "memvault.toml", "version = 1\n[history]\nrevisions = 2\nmegabytes = 1\n")
    with open_vault(folder) as vault:
        remember(vault, title="A", content="x" * 700_000)
        for text in "abcd":
            vault.call("memory_compound", query="A", modifications=text)
        assert len(vault.call("memory_show", memId="A")["revisions"]) == 2
        (folder / ".memvault/journal/pruned").unlink()
        vault.call("memory_compound", query="A", modifications="e")
        kept = vault.call("memory_show", memId="A")["revisions"]
        assert len(kept) == 1  # at 700 KB each, only one fits
        found = vault.call("memory_show", memId="A", revision=kept[0])
        assert found["content"].rstrip().endswith("d")


JOURNAL = ".memvault/journal/1.jsonl"
LINE = {
    "id": "abcd1234",
    "when": "2026-01-01T00:00:00.000Z",
    "tool": "memory_remember",
    "agent": "main",
    "kind": "created",
    "path": "a.md",
    "mem_id": "a",
    "title": "A",
    "before": "",
    "after": "",
}


@pytest.mark.parametrize(
    "path",
    ["../outside.md", "/etc/hosts.md", ".git/config.md", "sub/../../x.md", "link/x.md", ".x"],
)
@pytest.mark.promise("R11")
def test_undo_with_untrusted_journal_stays_in_vault(vault: Vault, folder: Path, path: str) -> None:
    """A journal that came with a vault can't make undo touch files outside the vault."""
    from memvault.vault.document import etag

    outside = write(folder.parent, "outside.md", "mine")
    (folder / "link").symlink_to(folder.parent)
    line = {**LINE, "path": path, "after": etag(b"mine")}
    write(folder, JOURNAL, json.dumps(line) + "\n")
    assert vault.call("memory_undo")["error"]["code"] in ("refused", "conflict")
    assert outside.read_text() == "mine"


@pytest.mark.promise("R11")
@given(st.lists(st.one_of(st.binary(max_size=40), st.just(json.dumps(LINE).encode()))))
def test_undo_ignores_invalid_journal_lines(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes]
) -> None:
    """Invalid or truncated lines do not hide other lines or stop tools."""
    root = tmp_path_factory.mktemp("journal")
    write(root, "memvault.toml", "version = 1\n")
    write(root, JOURNAL, b"\n".join(lines))
    with open_vault(root) as vault:
        remember(vault, title="B", content="Two.")
        found = changes(vault)
        assert found[0]["tool"] == "memory_remember"
        assert len(found) == 1 + (json.dumps(LINE).encode() in lines)


def test_undo_reads_newest_journal_part_first(vault: Vault, folder: Path) -> None:
    """A full journal part is followed by another, which is newer regardless of the clock."""
    line = json.dumps({**LINE, "when": "2999-01-01T00:00:00.000Z"})
    write(folder, JOURNAL, (json.dumps({**LINE, "title": "x" * 190}) + "\n") * 4_000 + line)
    remember(vault, title="B", content="Two.")
    assert (folder / ".memvault/journal/2.jsonl").is_file()
    assert [change["changeId"] for change in changes(vault)][1:] == [LINE["id"]]
    assert vault.call("memory_undo")["undone"]["tool"] == "memory_remember"


kinds = st.sampled_from(["created", "changed", "removed", "forgotten", "restored"])
file_changes = st.builds(
    FileChange,
    kinds,
    st.sampled_from(["a.md", "b.md"]),
    st.just("m"),
    st.just("T"),
    st.sampled_from(["r-1", "r-2"]),
    st.sampled_from(["1", "2"]),
)


@given(st.lists(file_changes, max_size=8))
def test_undo_has_one_step_per_file(made: list[FileChange]) -> None:
    """However often a call wrote a file, undo reverts it in one step from its last bytes."""
    found = revert_steps(made)
    assert len({step.path for step in found}) == len(found)
    for step in found:
        last = [change for change in made if change.path == step.path][-1]
        assert step.etag_now == ("" if last.kind in ("removed", "forgotten") else last.after)


ACTIONS = ("remember", "compound", "forget", "goal", "type", "edit")


@pytest.mark.promise("R2")
@given(st.lists(st.sampled_from(ACTIONS), min_size=1, max_size=8))
def test_undo_restores_every_earlier_state(
    tmp_path_factory: pytest.TempPathFactory, actions: list[str]
) -> None:
    """After any calls, the same number of undos restores each earlier state back to the first."""
    root = tmp_path_factory.mktemp("walk")
    write(root, "memvault.toml", "version = 1\n")
    write(root, "a.md", "# Lamp\n\nIt is lit.\n")
    with open_vault(root) as vault:
        states = [vault_files(root)]
        for number, action in enumerate(actions):
            before = len(changes(vault))
            if action == "remember":
                remember(vault, title=f"N{number}", content="New.")
            elif action == "compound":
                vault.call("memory_compound", query="a.md", modifications=f"More {number}.")
            elif action == "forget":
                vault.call("memory_forget", query="a.md", confirm=True)
            elif action == "goal":
                vault.call("set_goals", goals=[{"id": "g", "description": str(number)}])
            elif action == "type":
                vault.call("memory_compound", query="Lamp", modifications="T.", memoryType="issue")
            else:
                remember(vault, title="Same", content="Again.")
            if len(changes(vault)) > before:
                states.append(vault_files(root))
        for state in states[-2::-1]:
            called(vault, "memory_undo")
            assert vault_files(root) == state
        assert vault.call("memory_undo")["error"]["code"] == "not_found"


def test_empty_trash_is_reported(run: Run, vault: Vault) -> None:
    """Emptying an empty trash reports it in one line, with or without confirmation."""
    for words in ([], ["--confirm", "true"]):
        assert run("trash", "empty", *words) == (0, "The trash is empty\n", "")
    remember(vault, title="A", content="One.")
    vault.call("memory_forget", query="A", confirm=True)
    assert "The trash has no memories" in run("trash", "empty", "--older", "30d").out


@pytest.mark.promise("R8")
def test_undo_history_is_kept_if_change_fails(folder: Path) -> None:
    """A full history drops its oldest revision after the change succeeds, not before."""
    write(folder, "memvault.toml", "version = 1\n[history]\nrevisions = 2\n")
    with open_vault(folder) as vault:
        made = remember(vault, title="A", content="One.")
        for text in ("Two.", "Three."):
            vault.call("memory_compound", query="A", modifications=text)
        kept = vault.call("memory_show", memId="A")["revisions"]
        data = (folder / made["filePath"]).read_bytes()
        changes = vault._workspace.store.changes
        subject = FileRef(made["memId"], "A")
        with pytest.raises(Conflict):
            changes.replace(made["filePath"], data + b"edited since", b"Four.", subject)
        assert vault.call("memory_show", memId="A")["revisions"] == kept
        assert vault.call("memory_compound", query="A", modifications="Four.")["success"]
        now = vault.call("memory_show", memId="A")["revisions"]
        assert (len(now), now[0]) == (2, kept[1])


@pytest.mark.promise("R8")
@pytest.mark.parametrize("data", [b"", b"---\nid: x\n", None])
def test_restore_refuses_damaged_revision(
    run: Run, folder: Path, vault: Vault, data: bytes | None
) -> None:
    """A revision whose bytes have changed or can't be read is refused with that reason."""
    made = remember(vault, title="A", content="One.")
    vault.call("memory_compound", query="A", modifications="Two.")
    kept = next((folder / ".memvault/history").rglob("2*.md"))
    kept.unlink()
    if data is None:
        kept.mkdir()
    else:
        kept.write_bytes(data)
    before = vault_files(folder)
    ran = run("restore", "A", "--revision", kept.stem)
    assert kept.stem in refused(ran, 1)
    assert "its checksum" in ran.err or "cannot be read" in ran.err
    assert vault_files(folder) == before
    assert made["filePath"] in before


@pytest.mark.promise("R9")
def test_undo_of_forget_after_emptying_trash_does_not_suggest_restore(
    run: Run, vault: Vault, folder: Path
) -> None:
    """Once the trash is empty, undo says so, even if another file has the forgotten one's path."""
    made = remember(vault, title="Port", content="8081")
    succeeded(run("delete", made["memId"]))
    succeeded(run("trash", "empty", "--confirm", "true"))
    for body in ("", "another file"):
        if body:
            write(folder, made["filePath"], body)
        ran = run("undo")
        assert "is no longer in the trash" in refused(ran, 1)
        assert "memvault undo --list" in ran.err
        assert "memvault restore" not in ran.err


def test_undo_of_forget_refuses_occupied_path(run: Run, vault: Vault, folder: Path) -> None:
    """The message says that the path is taken and which command to run; the existing file stays."""
    made = remember(vault, title="A", content="One.")
    vault.call("memory_forget", query="A", confirm=True)
    change = vault.call("memory_log")["changes"][0]["changeId"]
    write(folder, made["filePath"], "# Mine\n")
    ran = run("undo")
    assert "has been taken" in refused(ran, 1)
    assert f"memvault restore {made['memId']}" in ran.err
    restored = vault.call("memory_restore", memId=made["memId"])
    assert restored["filePath"] != made["filePath"]
    ran = run("undo", change)
    assert "is no longer in the trash" in refused(ran, 1)
    assert (folder / made["filePath"]).read_text() == "# Mine\n"
    again, forget, _ = vault.call("memory_undo", list=True)["changes"]
    assert "obstacle" not in again
    assert "is no longer in the trash" in forget["obstacle"]


def test_undo_reports_moved_file_as_moved(run: Run, vault: Vault, folder: Path) -> None:
    """Undoing a change of a moved file reports the move and works once the file is back."""
    made = remember(vault, title="A", content="One.")
    vault.call("memory_compound", query="A", modifications="Two.")
    (folder / made["filePath"]).rename(folder / "elsewhere.md")
    ran = run("undo")
    assert "fact/a.md is elsewhere.md now" in refused(ran, 1)
    assert "move it back" in ran.err
    assert f"memvault show {made['memId']}" in ran.err
    (folder / "elsewhere.md").rename(folder / made["filePath"])
    assert run("undo").code == 0


@pytest.mark.promise("R9")
def test_undo_reports_later_change_to_undo_first(run: Run, vault: Vault) -> None:
    """Undoing a change that later ones depend on reports the last of them to undo first."""
    remember(vault, title="A", content="One.")
    vault.call("memory_compound", query="A", modifications="Two.")
    first = vault.call("memory_log")["changes"][0]["changeId"]
    vault.call("memory_compound", query="A", modifications="Three.")
    vault.call("memory_forget", query="A", confirm=True)
    for _ in range(2):
        ran = run("undo", first)
        assert refused(ran, 1)
        later = ran.err.split("memvault undo ")[1].split("`")[0]
        assert run("undo", later).code == 0
    assert run("undo", first).code == 0


def test_diff_without_revisions_reports_changes(run: Run, vault: Vault) -> None:
    """A forgotten and restored memory has no earlier text; the log shows both changes."""
    made = remember(vault, title="A", content="One.")
    vault.call("memory_forget", query="A", confirm=True)
    vault.call("memory_undo")
    ran = run("diff", "A")
    assert "There is no earlier revision" in refused(ran, 1)
    assert f"memvault log {made['memId']}" in ran.err


def test_undo_and_log_shorten_change_of_many_files(
    run: Run, vault: Vault, folder: Path, tmp_path: Path
) -> None:
    """Log and undo show the first twenty files and count the rest; JSON has them all."""
    for number in range(23):
        write(tmp_path, f"notes/{number}.md", f"# Note {number}\n")
    succeeded(run("import", str(tmp_path / "notes"), "--yes"))
    assert len(changes(vault)[0]["files"]) == 23
    for words in (("log",), ("undo", "--list"), ("undo",)):
        shown = succeeded(run(*words)).out
        assert shown.count("Note ") == 20
        assert "… and 3 more" in shown


def test_log_and_diff_refuse_ambiguous_name(run: Run, vault: Vault) -> None:
    """As with show, the memories that share the name are listed, with the same exit code."""
    for text in ("One.", "Two."):
        remember(vault, title="Plan", content=text)
    shown = run("show", "Plan")
    for tool in ("diff", "log"):
        ran = run(tool, "Plan")
        assert (ran.code, ran.err) == (shown.code, shown.err)
    assert "fact/plan.md" in shown.err


def test_undo_works_again_after_redo(run: Run, vault: Vault, folder: Path) -> None:
    """After an undo and its undo, the list shows for each change whether it can be undone."""
    remember(vault, title="A", content="One.")
    before = vault_files(folder)
    vault.call("memory_compound", query="A", modifications="Two.")
    after = vault_files(folder)
    undone = vault.call("memory_undo")["changeId"]
    assert vault.call("memory_undo", change=undone)["success"]
    assert vault_files(folder) == after
    redo, undo, change, _ = vault.call("memory_undo", list=True)["changes"]
    assert "obstacle" not in redo
    assert undo["undoneBy"] == redo["changeId"]
    assert undo["obstacle"] == f"{undo['changeId']} was undone by {redo['changeId']}"
    assert "undoneBy" not in change
    assert "obstacle" not in change
    assert vault.call("memory_undo")["undone"]["changeId"] == change["changeId"]
    assert vault_files(folder) == before


def test_undo_can_revert_forget_after_undone_restore(vault: Vault, folder: Path) -> None:
    """After undoing a restore, or an undo of a forget, the forget can be undone again."""
    vault.call("memory_remember", title="Wombats", content="They dig.", memoryType="fact")
    before = (folder / "fact/wombats.md").read_bytes()
    vault.call("memory_forget", query="Wombats", confirm=True)
    assert vault.call("memory_restore", memId="Wombats")["success"]
    assert vault.call("memory_undo")["success"]
    assert not (folder / "fact/wombats.md").exists()
    assert vault.call("memory_undo")["undone"]["tool"] == "memory_forget"
    assert (folder / "fact/wombats.md").read_bytes() == before
    assert vault.call("trash_list")["total"] == 0


@pytest.mark.promise("R9")
def test_undo_of_import_lists_all_edited_notes(folder: Path, run: Run, tmp_path: Path) -> None:
    """Undo lists every file that has changed since; keep-changed reverts the others."""
    source = tmp_path / "notes"
    for number in range(9):
        write(source, f"n{number}.md", f"# Note {number}\n\nText {number}.\n")
    succeeded(run("import", str(source), "--yes"))
    notes = sorted(folder.rglob("[!.]*/**/n*.md"))
    assert len(notes) == 9
    edited = {}
    for path in notes[:7]:
        write(folder, path.relative_to(folder).as_posix(), path.read_text("utf-8") + "Mine.\n")
        edited[path] = path.read_text("utf-8")
    notes[7].unlink()
    told = run("undo")
    assert told.code == 1
    assert "7 files have changed since" in told.err
    assert "--keep-changed` reverts the rest" in told.err
    names = [path.relative_to(folder).as_posix() for path in notes[:7]]
    for name in names:
        assert name in told.err
    refused = run("undo", "--json").json
    assert sorted(refused["changedFiles"]) == names
    assert notes[8].exists()
    undone = succeeded(run("undo", "--keep-changed", "--json")).json
    assert sorted(undone["kept"]) == names
    assert not notes[8].exists()
    assert {path: path.read_text("utf-8") for path in edited} == edited
    succeeded(run("undo", undone["changeId"]))
    assert notes[8].exists()


@pytest.mark.promise("R9")
def test_undo_of_a_rename_is_all_or_nothing(folder: Path, vault: Vault) -> None:
    """If a renamed memory was edited since, its links are not reverted without it."""
    write(folder, "fact/a.md", "---\nid: m1\n---\n\n# A\n\nText.\n")
    write(folder, "fact/b.md", "---\nid: m2\n---\n\nSee [[fact/a|A]].\n")
    called(vault, "memory_rename", memId="m1", title="C", confirm=True)
    write(folder, "fact/c.md", (folder / "fact/c.md").read_text("utf-8") + "Mine.\n")
    before = {path: path.read_bytes() for path in folder.glob("fact/*.md")}
    undone = vault.call("memory_undo", keepChanged=True)
    assert "has changed since" in undone["error"]["message"]
    assert "keep" not in undone["error"]["hint"]
    assert {path: path.read_bytes() for path in folder.glob("fact/*.md")} == before


@pytest.mark.skipif(os.name == "nt", reason="names cannot contain newlines")
def test_undo_shows_newline_in_name_as_symbol(run: Run, folder: Path) -> None:
    """A newline in a file's name does not add a line to the output of undo and log."""
    write(folder, "a\nb.md", "# A\n")
    succeeded(run("compound", "A", "More."))
    for command in (["undo"], ["undo", "--list"], ["log"]):
        assert "changed  a␊b.md" in succeeded(run(*command)).out


def test_restore_brings_back_file_deleted_by_hand(run: Run, folder: Path, vault: Vault) -> None:
    """A file that another program deleted is restored from its last revision."""
    made = remember(vault, title="Tides", content="High at six.")
    file, mem_id = folder / made["filePath"], made["memId"]
    first = file.read_bytes()
    vault.call("memory_compound", query="Tides", modifications="Low at noon.")
    (revision,) = vault.call("memory_show", memId="Tides")["revisions"]
    file.unlink()
    lost = f"note: restored from revision {revision}; later changes are lost"
    assert lost in succeeded(run("restore", "Tides")).err
    for name in ("fact/tides.md", "fact/tides", mem_id):
        file.unlink()
        assert succeeded(run("restore", name)).err == ""
        assert file.read_bytes() == first
    file.unlink()
    assert succeeded(run("restore", "Tides", "--revision", revision[:8])).err == ""
    assert vault.call("memory_undo")["success"]
    assert not file.exists()
    assert succeeded(run("restore", "Tides")).err == ""  # from the trash


def test_restore_refusal_suggests_next_step(run: Run, folder: Path, vault: Vault) -> None:
    """The hint explains why an existing, moved or unrevised memory is not restored."""
    made = remember(vault, title="Tides", content="High at six.")
    file = folder / made["filePath"]
    ran = run("restore", "Tides")
    assert f"it is in the vault, as {made['filePath']}" in ran.err
    assert f"`memvault restore {made['memId']} --revision REVISION`" in ran.err
    file.rename(folder / "moved.md")
    assert "it is in the vault, as moved.md" in run("restore", "fact/tides").err
    (folder / "moved.md").unlink()
    assert "and has no revisions" in refused(run("restore", "Tides"), 1)
    assert "`--revision` needs a memory" in refused(run("restore", "--revision", "2"), 2)


def test_restore_ignores_memories_with_similar_ids(run: Run, folder: Path) -> None:
    """A deleted memory is restored even if another id begins with its id or equals its title."""
    for name, title in (("plan", "First"), ("plan-b", "Second"), ("other", "plan")):
        write(folder, f"{name}.md", f"---\nid: {name}\n---\n\n# {title}\n\nText.\n")
    succeeded(run("compound", "plan.md", "More."))
    for name in ("plan.md", "plan"):
        (folder / "plan.md").unlink()
        assert "Restored plan " in succeeded(run("restore", name)).out
        (folder / "other.md").unlink(missing_ok=True)


def test_log_and_diff_find_memory_by_its_earlier_name(run: Run, vault: Vault) -> None:
    """A memory's path before a rename finds the memory, and diff compares its current text."""
    made = remember(vault, title="Tides", content="High at six.")
    succeeded(run("rename", "Tides", "Water"))
    vault.call("memory_compound", query="Water", modifications="Low at noon.")
    assert "+Low at noon." in succeeded(run("diff", made["filePath"])).out
    log = succeeded(run("log", made["filePath"], "--json")).json
    assert log["filePath"] == "fact/water.md"
    assert not log["edited"]


def test_restore_ignores_permanently_deleted_memory(run: Run, vault: Vault) -> None:
    """A forgotten memory whose trash was emptied returns only if a revision is requested."""
    made = remember(vault, title="Port", content="8081")
    vault.call("memory_compound", query="Port", modifications="Or 80.")
    succeeded(run("delete", made["memId"]))
    succeeded(run("trash", "empty", "--confirm", "true"))
    assert "is not in the trash" in refused(run("restore", "Port"), 1)
    revision = changes(vault)[1]["files"][0]["revision"]
    succeeded(run("restore", "Port", "--revision", revision))
    assert "8081" in succeeded(run("show", "Port")).out
