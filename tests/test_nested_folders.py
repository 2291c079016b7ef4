"""Folders nested without end, anywhere in a vault, stop no command."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from conftest import Run, write
from memvault.files import walk


def nested(folder: Path, levels: int) -> None:
    """Make folders in each other, deeper than a path can say, with memories on the way."""
    folder.mkdir(parents=True, exist_ok=True)
    here = os.open(folder, os.O_RDONLY)
    for level in range(levels):
        if level in (5, levels - 1):
            file = os.open("deep.md", os.O_CREAT | os.O_WRONLY, dir_fd=here)
            os.write(file, b"# Deep\n\nwombat\n")
            os.close(file)
        os.mkdir("d", dir_fd=here)
        inner = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)


WALKING = "status doctor reindex recall_wombat trash_list tools_list inbox_peek git_status".split()
"""Commands that go through folders wherever they are, written with _ for a blank."""
MORE = (
    "doctor_--fix list context git_init git_sync links_A rename_A_B_--confirm_true orphans tags "
    "tools_trust_t_--yes space_enter_x compound_B_more forget_zzz undo trash_empty_--confirm_true"
).split()
"""Commands that go through folders of memories, or one of them."""


@pytest.mark.skipif(os.mkdir not in os.supports_dir_fd, reason="no way to make such folders")
@pytest.mark.parametrize(
    "place",
    [
        *("notes", "tools", ".memvault/index", ".memvault/agents/main/popped"),
        ".memvault/trash/20260101T000000.000Z-aaaaaaaaaa",
    ],
)
def test_folders_nested_without_end_stop_no_command(folder: Path, run: Run, place: str) -> None:
    """3,000 folders in each other, anywhere in a vault, end no command with a bug."""
    write(folder, "a.md", "# A\n\nzebra\n")
    write(folder, "tools/t.md", "---\ndescription: x\ncommand: [sh, tools/x.sh]\n---\n")
    nested(folder / place, 3_000)
    try:
        for line in (*WALKING, *(MORE if place == "notes" else ["tools_trust_t_--yes"])):
            ran = run(*line.split("_"))
            assert ran.code in (0, 1), (line, ran)
        if place == "notes":
            said = "nested so deep that its path is longer than the system takes"
            (problem,) = run("status", "--json").json["problems"]
            assert problem["filePath"].startswith("notes/d/d/d")
            assert len(problem["filePath"]) < 150
            assert said in problem["problem"]
            assert said in run("doctor").out
            assert said in run("reindex").err
            assert "d/deep.md" in run("recall", "wombat").out
    finally:
        walk.remove(folder / place)
    assert not (folder / place).exists()


@pytest.mark.skipif(os.rename not in os.supports_dir_fd, reason="shutil does it there")
def test_deleting_a_folder_follows_no_link(tmp_path: Path) -> None:
    """What a link leads to outlives the folder that the link is in, and the link itself."""
    kept = write(tmp_path, "kept/a.md", "here")
    write(tmp_path, "gone/b/c/d.md", "x")
    (tmp_path / "gone" / "b" / "link").symlink_to(kept.parent)
    (tmp_path / "gone" / "file").symlink_to(kept)
    (tmp_path / "link").symlink_to(kept.parent)
    walk.remove(tmp_path / "gone")
    walk.remove(tmp_path / "link")
    assert not (tmp_path / "gone").exists()
    assert kept.read_text("utf-8") == "here"
