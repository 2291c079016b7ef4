"""What lies in the trash and the history of a vault from anyone gives back memories only."""

from __future__ import annotations

import os
from pathlib import Path

from conftest import write
from memvault import Vault

STAMP = "20260101T000000.000Z-abc123"


def test_the_trash_gives_back_memories_and_nothing_else(vault: Vault, folder: Path) -> None:
    """A trash that came with a vault cannot put hooks or other people's files into it."""
    outside = folder.parent / "outside"
    write(outside, "secret.md", "# Secret\n")
    trash = folder / ".memvault" / "trash"
    write(trash, f"{STAMP}/.git/hooks/pre-commit", "# Hook\n")
    write(trash, f"{STAMP}/tools/run.md", "# Tool\n")
    (trash / "20260102T000000.000Z-abc123").symlink_to(outside)
    os.mkfifo(trash / STAMP / "pipe.md")
    for name in ("Hook", "Tool", "Secret", "secret.md", "pipe.md"):
        assert vault.call("memory_restore", memId=name)["error"]["code"] == "not_found"
    assert (outside / "secret.md").exists()


def test_a_revision_is_a_plain_file(vault: Vault, folder: Path) -> None:
    """A link among the revisions shows nothing from outside the vault."""
    secret = write(folder.parent, "secret.txt", "hidden")
    made = vault.call("memory_remember", title="A", content="one", memoryType="fact")
    assert vault.call("memory_compound", query="A", modifications="two")["success"]
    kept = next((folder / ".memvault" / "history").rglob("2*.md"))
    kept.unlink()
    kept.symlink_to(secret)
    shown = vault.call("memory_show", memId=made["memId"], revision=kept.stem)
    assert "hidden" not in str(shown)


def test_stamps_of_the_future_stop_nothing(vault: Vault, folder: Path) -> None:
    """A trash entry that claims the year 9999 does not keep others from being forgotten."""
    write(folder, ".memvault/trash/99991231T235959.999Z-abc123/b.md", "# B\n")
    write(folder, "a.md", "# A\n\nzebra\n")
    assert vault.call("memory_forget", query="a.md", confirm=True)["deletedFiles"] == 1
