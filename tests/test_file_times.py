"""The file times that memvault leaves, which date notes without other dates."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

from conftest import Run, succeeded, write
from memvault import Vault
from test_date_sources import LONG_AGO, are_new


def modified_of(file: Path) -> float:
    """Return the modification time of a file."""
    return file.stat().st_mtime


def aged(folder: Path) -> Path:
    """Write an old note without a header, and one that links to it."""
    file = write(folder, "notes/tea.md", "# Tea\n\nGreen tea.\n")
    other = write(folder, "notes/cups.md", "# Cups\n\nFor [[tea]].\n")
    for entry in (file, other):
        os.utime(entry, (LONG_AGO.timestamp(),) * 2)
    return file


def test_undo_restores_the_file_time(folder: Path, vault: Vault) -> None:
    """Undo restores the file times of changed and deleted files."""
    file = aged(folder)
    vault.call("memory_compound", query="notes/tea.md", modifications="And black tea.")
    assert modified_of(file) > LONG_AGO.timestamp()
    changed = modified_of(file)
    assert vault.call("undo")["success"]
    assert modified_of(file) == LONG_AGO.timestamp()
    assert vault.call("memory_show", memId="notes/tea.md")["modified"].startswith("2001-02-03")
    assert vault.call("memory_delete", ids="notes/tea.md")["success"]
    assert vault.call("undo")["success"]
    assert modified_of(file) == LONG_AGO.timestamp() < changed


def test_restored_revision_has_its_file_time(folder: Path, vault: Vault) -> None:
    """A restored revision has its original file time."""
    file = aged(folder)
    before = vault.call("memory_compound", query="notes/tea.md", modifications="And black tea.")
    revision = before["previousRevision"]
    vault.call("memory_restore", name="notes/tea.md", revision=revision)
    assert file.read_text().endswith("Green tea.\n")
    assert modified_of(file) == LONG_AGO.timestamp()


def test_rename_keeps_file_times(folder: Path, run: Run) -> None:
    """Renamed notes and those with updated links keep their file times, even after undo."""
    file = aged(folder)
    succeeded(run("rename", "notes/tea.md", "Green tea", "--yes"))
    renamed = folder / "notes/green-tea.md"
    assert not file.exists()
    assert "green-tea" in (folder / "notes/cups.md").read_text().lower().replace(" ", "-")
    files = [renamed, folder / "notes/cups.md"]
    assert [modified_of(entry) for entry in files] == [LONG_AGO.timestamp()] * 2
    succeeded(run("undo"))
    files = [file, folder / "notes/cups.md"]
    assert [modified_of(entry) for entry in files] == [LONG_AGO.timestamp()] * 2


def test_file_time_changes_with_links_of_equal_length(folder: Path, run: Run) -> None:
    """A backup that compares size and time detects updated links in a note."""
    aged(folder)
    succeeded(run("rename", "notes/tea.md", "Pot", "--yes"))
    cups = folder / "notes/cups.md"
    assert "[[pot]]" in cups.read_text().lower()
    assert 0 < modified_of(cups) - LONG_AGO.timestamp() < 0.002


def test_file_time_changes_with_links_in_dated_note(folder: Path, run: Run) -> None:
    """A note with a date in its header gets the file time of the last change."""
    aged(folder)
    text = "---\nmodified: 2001-02-03\n---\n\n# Cups\n\nFor [[tea]].\n"
    cups = write(folder, "notes/cups.md", text)
    os.utime(cups, (LONG_AGO.timestamp(),) * 2)
    succeeded(run("rename", "notes/tea.md", "Green tea", "--yes"))
    assert are_new([datetime.fromtimestamp(modified_of(cups), UTC).isoformat()])
    assert "modified: 2001-02-03\n" in cups.read_text()
