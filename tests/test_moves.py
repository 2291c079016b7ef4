"""A memory that changes its folder is one memory, wherever in the move its process is killed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from conftest import Run, refused, write
from killing import Killing
from memvault import Vault, open_vault

_MOVER = """
import tempfile
from pathlib import Path
from memvault import open_vault

def work(root):
    with open_vault(root) as vault:
        done = vault.call("memory_compound", query="The one", modifications="more",
                          memoryType="issue")
        assert done["success"], done
with tempfile.TemporaryDirectory() as scratch:  # so that the copies need to load nothing
    Path(scratch, "memvault.toml").touch()
    with open_vault(scratch) as vault:
        vault.call("memory_remember", title="Start", content="x", memoryType="")
        vault.call("memory_compound", query="Start", modifications="x", memoryType="issue")
"""
_LEAST = 14
"""Changes to files that a move makes at least: revision, note, new file, old file, note."""


def _files(root: Path) -> list[str]:
    return sorted(path.relative_to(root).as_posix() for path in root.glob("[!.]*/[!.]*.md"))


@pytest.mark.parametrize(
    "text", ["---\nid: one-7g9tqh\n---\n# The one\n\ntext\n", "# The one\n\ntext\n"]
)
def test_a_killed_move_leaves_one_memory(folder: Path, text: str) -> None:
    """Killed before any change to a file, the next command finds one memory, old or new."""
    write(folder, "fact/one.md", text)
    before = shutil.copytree(folder, folder.with_name("before"))
    moves = twice = 0
    with Killing(folder, _MOVER) as mover:
        for place in mover.everywhere():
            moves += 1
            twice += len(_files(folder)) == 2
            with open_vault(folder) as vault:
                found = vault.call("memory_list")["memories"]
                assert [entry["filePath"] for entry in found] == _files(folder)
                assert len(found) == 1, place
                name = found[0]["memId"]
                shown = vault.call("memory_show", memId=name)
                assert shown["content"].count("text") == 1
                assert ("more" in shown["content"]) == (shown["filePath"] == "issue/one.md")
                assert "problems" not in vault.call("vault_status")
                again = vault.call(
                    "memory_compound", query=name, modifications="x", memoryType="issue"
                )
                assert again["success"], again
                first = vault.call("memory_show", memId=name)["revisions"][0]
                earliest = vault.call("memory_show", memId=name, revision=first)
                assert earliest["content"].endswith("text\n")
            assert _files(folder) == ["issue/one.md"]
            assert not (folder / ".memvault/moving.json").exists()
            shutil.rmtree(folder)
            shutil.copytree(before, folder)
    assert _files(folder) == ["issue/one.md"]
    assert moves >= _LEAST
    assert twice >= 2, "it was killed between the new file and the old one's end"


def test_a_copy_is_never_taken_for_a_move(vault: Vault, folder: Path, run: Run) -> None:
    """Two files with one memId that no move left both stay, and what is said then helps."""
    old = write(folder, "fact/one.md", "---\nid: one-7g9tqh\n---\n# One\n\ntext\n")
    write(folder, "issue/one.md", old.read_bytes())
    assert vault.call("memory_compound", query="issue/one.md", modifications="x")["success"]
    ran = run("show", "one-7g9tqh")
    assert "one-7g9tqh" in refused(ran, 1)
    assert "hint: use one of their paths\n" in ran.err
    assert "fact/one.md" in ran.err
    assert "issue/one.md" in ran.err
    assert run("show", "fact/one.md").code == 0
    assert _files(folder) == ["fact/one.md", "issue/one.md"]
    problem = run("status", "--json").json["problems"][0]
    assert problem["filePath"] == "fact/one.md"
    assert "issue/one.md" in problem["problem"]


@pytest.mark.parametrize(
    "note",
    [
        "",
        "[]",
        '{"source": 1}',
        '{"source": "../kept.md", "before": "B", "target": "fact/one.md", "after": "A"}',
        '{"source": "/kept.md", "before": "B", "target": "fact/one.md", "after": "A"}',
        '{"source": "copy.md", "before": "B", "target": "fact/one.md", "after": "A"}',
    ],
)
def test_a_forged_note_of_a_move_takes_nothing_away(
    vault: Vault, folder: Path, tmp_path: Path, note: str
) -> None:
    """Whatever a stranger's vault says of a move, no file goes whose bytes are not kept."""
    kept = write(tmp_path, "kept.md", "mine")
    copy = write(folder, "copy.md", "---\nid: one-7g9tqh\n---\nmine")
    write(folder, "fact/one.md", "---\nid: one-7g9tqh\n---\ntheirs")
    etags = {
        "A": vault.call("memory_show", memId="fact/one.md")["etag"],
        "B": vault.call("memory_show", memId="copy.md")["etag"],
        "/kept.md": str(kept),
    }
    for name, value in etags.items():
        note = note.replace(f'"{name}"', f'"{value}"')
    if note:
        write(folder, ".memvault/moving.json", note)
    else:
        (folder / ".memvault/moving.json").mkdir()
    assert vault.call("memory_compound", query="fact/one.md", modifications="x")["success"]
    assert vault.call("memory_list")["count"] == 2
    assert copy.exists()
    assert kept.exists()
