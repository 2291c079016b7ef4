"""What reviewers found once stays mended."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import Run, index_of, titles, write
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


def test_a_pipe_in_the_index_stops_nothing(vault: Vault, folder: Path) -> None:
    """Whatever lies where the index's own files should be, recall answers."""
    write(folder, "a.md", "# A\n\nzebra\n")
    assert titles(vault.call("memory_recall", query="zebra")) == ["A"]
    manifest = index_of(folder) / "manifest.db"
    manifest.unlink()
    os.mkfifo(manifest)
    assert titles(vault.call("memory_recall", query="zebra")) == ["A"]


def test_a_short_word_is_no_name(vault: Vault, folder: Path) -> None:
    """The beginning of a memId is words to look for, unless it is the whole slug."""
    write(folder, "fact/deploy-notes.md", "# Deploy notes\n\nBlue and green.\n")
    write(folder, "fact/design.md", "# Design\n\nDeep water.\n")
    refused = vault.call("memory_compound", query="d", modifications="oops")
    assert refused["success"] is False
    assert vault.call("memory_forget", query="de")["candidates"] == []
    assert vault.call("memory_compound", query="deploy-notes", modifications="Red.")["success"]


@pytest.mark.parametrize("expression", ["status != 'keep'", "importance < 0.5", "area == 'x'"])
def test_a_value_that_is_not_there_passes_no_comparison(
    vault: Vault, folder: Path, expression: str
) -> None:
    """A filter never takes in a memory for lack of the key it asks about."""
    write(folder, "a.md", "# A\n\nzebra\n")
    assert titles(vault.call("memory_list", filter=expression)) == []
    assert titles(vault.call("memory_list", filter="status == None")) == ["A"]


@pytest.mark.parametrize("moment", [-1e10, 0.0, 1.4e10])
def test_a_files_time_may_be_any(vault: Vault, folder: Path, moment: float) -> None:
    """Files from before 1970 or after 2262 are memories too."""
    file = write(folder, "a.md", "# A\n\nzebra\n")
    os.utime(file, (moment, moment))
    assert titles(vault.call("memory_recall", query="zebra")) == ["A"]


def test_stamps_of_the_future_stop_nothing(vault: Vault, folder: Path) -> None:
    """A trash entry that leases the year 9999 does not keep others from being forgotten."""
    write(folder, ".memvault/trash/99991231T235959.999Z-abc123/b.md", "# B\n")
    write(folder, "a.md", "# A\n\nzebra\n")
    assert vault.call("memory_forget", query="a.md", confirm=True)["deletedFiles"] == 1


def test_a_home_that_is_none_is_no_bug(run: Run) -> None:
    """A path that begins with an unknown user's home is one clear sentence."""
    ran = run("--vault", "~no-such-user-here/x", "list")
    assert ran.code == 3
    assert "met a bug" not in ran.err


def test_a_vault_that_went_away_is_not_written_to(vault: Vault, folder: Path) -> None:
    """An open vault whose folder was removed says so instead of making half of one."""
    assert vault.call("memory_list")["success"]
    shutil.rmtree(folder)
    made = vault.call("memory_remember", title="T", content="x", memoryType="fact")
    assert made["error"]["code"] == "vault_not_found"
    assert not folder.exists()


@pytest.mark.parametrize("locale", [{"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}])
def test_a_poor_locale_loses_no_text(folder: Path, locale: dict[str, str]) -> None:
    """Arguments in UTF-8 are kept whatever the locale says."""
    done = subprocess.run(
        [sys.executable, "-m", "memvault", "remember", "Größe", "ключ 🎉"],
        cwd=folder,
        env={**os.environ, **locale},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    text = next(folder.glob("context/*.md")).read_text("utf-8")
    assert "title: Größe" in text
    assert "ключ 🎉" in text


def test_bytes_of_an_old_encoding_are_read_as_such(run: Run, folder: Path) -> None:
    """A text on standard input that is no UTF-8 is read as Windows-1252, as files are."""
    assert run("remember", "Old", "-", stdin=b"caf\xe9").code == 0
    assert "café" in next(folder.glob("context/*.md")).read_text("utf-8")


def test_an_ambiguous_revision_is_refused(vault: Vault) -> None:
    """A beginning that several revisions share restores none of them."""
    made = vault.call("memory_remember", title="A", content="one", memoryType="fact")
    for text in ("two", "three"):
        assert vault.call("memory_compound", query="A", modifications=text)["success"]
    refused = vault.call("memory_restore", memId=made["memId"], revision="2")
    assert refused["error"]["code"] == "ambiguous"
    assert len(refused["revisions"]) == 2


def test_one_common_word_is_no_clear_target(vault: Vault, folder: Path) -> None:
    """A word that only stands somewhere in a text does not choose what is changed."""
    write(folder, "codes.md", "# Emoji codes\n\nbread, milk, honey\n")
    assert vault.call("memory_compound", query="bread", modifications="x")["success"] is False
    assert vault.call("memory_compound", query="emoji", modifications="x")["success"] is True


def test_a_type_change_moves_a_file_from_the_root(vault: Vault, folder: Path) -> None:
    """Changing a type moves a file to its folder, except from a folder of one's own."""
    for path, after in (("p.md", "learning/p.md"), ("notes/q.md", "notes/q.md")):
        write(folder, path, "text\n")
        changed = vault.call(
            "memory_compound", query=path, modifications="x", memoryType="learning"
        )
        assert changed["filePath"] == after
        assert (folder / after).is_file()


def test_errors_cannot_steer_a_terminal(run: Run, folder: Path) -> None:
    """Escape sequences in names are shown as signs, in errors too."""
    write(folder, "a\x1b[31m.md", "# A\n")
    assert "\x1b" not in run("show", "nothing\x1b[31m").err
    assert "\x1b" not in run("list").out
