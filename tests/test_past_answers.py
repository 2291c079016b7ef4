"""What undo, restore, diff and the trash answer where there is little or nothing to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import Run, refused, write
from memvault import Vault, open_vault
from memvault.errors import Conflict
from memvault.store.change_set import FileRef
from test_undo import files, remember


@pytest.mark.parametrize("given", ["", "  "])
def test_an_id_that_is_empty_undoes_nothing(
    run: Run, vault: Vault, folder: Path, given: str
) -> None:
    """An empty id, as of a script's variable that is not set, is refused with a hint."""
    remember(vault, title="A", content="One.")
    before = files(folder)
    ran = run("undo", given)
    assert "is empty" in refused(ran, 2)
    assert "without an id" in ran.err
    assert vault.call("memory_undo", change=given)["error"]["code"] == "usage"
    assert vault.call("memory_restore", memId="A", revision=given)["error"]["code"] == "usage"
    assert files(folder) == before


def test_an_empty_trash_is_said_to_be_empty(run: Run, vault: Vault) -> None:
    """Emptying where there is nothing to delete says so in one line, with or without confirming."""
    for words in ([], ["--confirm", "true"]):
        assert run("trash", "empty", *words) == (0, "The trash is empty\n", "")
    remember(vault, title="A", content="One.")
    vault.call("memory_forget", query="A", confirm=True)
    assert "Nothing in the trash" in run("trash", "empty", "--older", "30d").out


def test_a_change_that_fails_takes_no_revision_away(folder: Path) -> None:
    """Of a full history the oldest revision goes once the change is made, not before."""
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


@pytest.mark.parametrize("data", [b"", b"---\nid: x\n", None])
def test_a_damaged_revision_is_not_restored(
    run: Run, vault: Vault, folder: Path, data: bytes | None
) -> None:
    """A revision that has other bytes than it was kept with, or cannot be read, is refused so."""
    made = remember(vault, title="A", content="One.")
    vault.call("memory_compound", query="A", modifications="Two.")
    kept = next((folder / ".memvault/history").rglob("2*.md"))
    kept.unlink()
    if data is None:
        kept.mkdir()
    else:
        kept.write_bytes(data)
    before = files(folder)
    ran = run("restore", "A", "--revision", kept.stem)
    assert kept.stem in refused(ran, 1)
    assert "is damaged" in ran.err or "cannot be read" in ran.err
    assert files(folder) == before
    assert made["filePath"] in before


def test_a_forgotten_file_whose_path_is_taken_does_not_count_as_back(
    run: Run, vault: Vault, folder: Path
) -> None:
    """Undoing a forget says that the path is taken, and what to type; what is there stays."""
    made = remember(vault, title="A", content="One.")
    vault.call("memory_forget", query="A", confirm=True)
    change = vault.call("memory_log")["changes"][0]["changeId"]
    write(folder, made["filePath"], "# Mine\n")
    ran = run("undo")
    assert "is taken" in refused(ran, 1)
    assert f"memvault restore {made['memId']}" in ran.err
    restored = vault.call("memory_restore", memId=made["memId"])
    assert restored["filePath"] != made["filePath"]
    ran = run("undo", change)
    assert "is taken" in refused(ran, 1)
    assert (folder / made["filePath"]).read_text() == "# Mine\n"
    again, forget, _ = vault.call("memory_undo", list=True)["changes"]
    assert "obstacle" not in again
    assert "is taken" in forget["obstacle"]


def test_a_file_that_was_moved_is_not_called_changed(run: Run, vault: Vault, folder: Path) -> None:
    """Undoing a change of a file that is elsewhere by now says so, and works once it is back."""
    made = remember(vault, title="A", content="One.")
    vault.call("memory_compound", query="A", modifications="Two.")
    (folder / made["filePath"]).rename(folder / "elsewhere.md")
    ran = run("undo")
    assert "fact/a.md is elsewhere.md by now" in refused(ran, 1)
    assert "move it back" in ran.err
    assert f"memvault show {made['memId']}" in ran.err
    (folder / "elsewhere.md").rename(folder / made["filePath"])
    assert run("undo").code == 0


def test_what_another_tool_did_later_is_to_be_undone_first(run: Run, vault: Vault) -> None:
    """Undoing a change that later ones build on names the last of them, until the way is free."""
    remember(vault, title="A", content="One.")
    vault.call("memory_compound", query="A", modifications="Two.")
    first = vault.call("memory_log")["changes"][0]["changeId"]
    vault.call("memory_compound", query="A", modifications="Three.")
    vault.call("memory_forget", query="A", confirm=True)
    for _ in range(2):
        ran = run("undo", first)
        assert refused(ran, 1)
        later = ran.err.split("memvault undo ")[1].split()[0]
        assert run("undo", later).code == 0
    assert run("undo", first).code == 0


def test_a_diff_of_what_has_no_revisions_says_what_was_done(run: Run, vault: Vault) -> None:
    """Of a memory that was forgotten and restored there is no other text; the log says so."""
    made = remember(vault, title="A", content="One.")
    vault.call("memory_forget", query="A", confirm=True)
    vault.call("memory_undo")
    ran = run("diff", "A")
    assert refused(ran, 1)
    assert "not changed by a tool" not in ran.err
    assert f"memvault log {made['memId']}" in ran.err


def test_what_was_redone_can_be_undone_again(run: Run, vault: Vault, folder: Path) -> None:
    """After an undo and its undo the list says of each change whether it can be undone."""
    remember(vault, title="A", content="One.")
    before = files(folder)
    vault.call("memory_compound", query="A", modifications="Two.")
    after = files(folder)
    undone = vault.call("memory_undo")["changeId"]
    assert vault.call("memory_undo", change=undone)["success"]
    assert files(folder) == after
    redo, undo, change, _ = vault.call("memory_undo", list=True)["changes"]
    assert "obstacle" not in redo
    assert undo["undoneBy"] == redo["changeId"]
    assert undo["obstacle"] == f"{undo['changeId']} was undone by {redo['changeId']}"
    assert "undoneBy" not in change
    assert "obstacle" not in change
    assert vault.call("memory_undo")["undone"]["changeId"] == change["changeId"]
    assert files(folder) == before


def test_what_was_forgotten_comes_back_after_an_undone_restore(vault: Vault, folder: Path) -> None:
    """Undoing a restore, or an undo of the forget, leaves the forget to be undone again."""
    vault.call("memory_remember", title="Wombats", content="They dig.", memoryType="fact")
    before = (folder / "fact/wombats.md").read_bytes()
    vault.call("memory_forget", query="Wombats", confirm=True)
    assert vault.call("memory_restore", memId="Wombats")["success"]
    assert vault.call("memory_undo")["success"]
    assert not (folder / "fact/wombats.md").exists()
    assert vault.call("memory_undo")["undone"]["tool"] == "memory_forget"
    assert (folder / "fact/wombats.md").read_bytes() == before
    assert vault.call("trash_list")["total"] == 0
