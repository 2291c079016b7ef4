"""The library is the same program, warm and never stale."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from conftest import Run, index_of, titles, write
from memvault import Vault, open_vault
from memvault.errors import VaultNotFound


def test_the_library_returns_what_the_command_line_prints(
    vault: Vault, run: Run, folder: Path
) -> None:
    """A tool's result is the same dict in Python and in JSON, failures included."""
    write(folder, "a.md", "# Alpha\n\nThe zebra sleeps.\n")
    for tool, arguments in (
        ("memory_recall", {"query": "zebra"}),
        ("memory_list", {}),
        ("memory_show", {"memId": "Alpha"}),
        ("memory_show", {"memId": "nothing"}),
        ("memory_recall", {"quary": "x"}),
    ):
        printed = run("call", tool, json.dumps(arguments)).json
        assert vault.call(tool, **arguments) == printed


def test_changed_settings_are_seen(vault: Vault, folder: Path) -> None:
    """An open vault obeys memvault.toml as it is now."""
    write(folder, "drafts/a.md", "# A\n\nzebra\n")
    assert titles(vault.call("memory_list")) == ["A"]
    write(folder, "memvault.toml", 'version = 1\nignore = ["drafts"]\n')
    assert titles(vault.call("memory_list")) == []
    write(folder, "memvault.toml", "version = 1\nlanguage = \n")
    assert vault.call("memory_list")["error"]["code"] == "vault_unreadable"
    write(folder, "memvault.toml", "version = 1\n")
    assert titles(vault.call("memory_recall", query="zebra")) == ["A"]


def test_a_folder_in_the_locks_place_is_moved_aside(vault: Vault, folder: Path) -> None:
    """Whatever lies where the index's lock should be does not keep it from being written."""
    write(folder, "a.md", "# A\n\nzebra\n")
    index = index_of(folder)
    (index / "lock").unlink()
    write(index, "lock/mine.txt", "mine")
    assert titles(vault.call("memory_recall", query="zebra")) == ["A"]
    assert vault.call("vault_status")["index"]["state"] == "current"


def test_a_note_is_found_by_its_files_name(vault: Vault, folder: Path) -> None:
    """A file's name is searched, also where its heading says something else."""
    write(folder, "people/atticus.md", "# The lawyer\n\nLives in Maycomb.\n")
    assert titles(vault.call("memory_recall", query="atticus", type="keyword")) == ["The lawyer"]


def test_types_are_asked_for_in_any_spelling(vault: Vault, folder: Path) -> None:
    """A type filter means the same type however it is spelled."""
    write(folder, "design-decision/a.md", "# A\n\nzebra\n")
    for name in ("design-decision", "designDecision", "Design Decision"):
        assert titles(vault.call("memory_list", memoryType=name)) == ["A"]


def test_a_folder_that_is_no_vault_cannot_be_opened(tmp_path: Path) -> None:
    """Opening what is no vault raises an error with a hint."""
    with pytest.raises(VaultNotFound) as raised:
        open_vault(tmp_path)
    assert "memvault init" in raised.value.hint


def test_a_vault_that_went_away_is_not_written_to(vault: Vault, folder: Path) -> None:
    """An open vault whose folder was removed says so instead of making half of one."""
    assert vault.call("memory_list")["success"]
    shutil.rmtree(folder)
    made = vault.call("memory_remember", title="T", content="x", memoryType="fact")
    assert made["error"]["code"] == "vault_not_found"
    assert not folder.exists()
