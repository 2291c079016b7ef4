"""What a name means to active memory: the memory that it means everywhere, if that is held."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from conftest import write
from memvault import Vault
from test_active import held, note, words


@pytest.mark.parametrize("tool", ["memory_mutate", "memory_evict"])
def test_a_name_means_the_same_memory_as_elsewhere(folder: Path, vault: Vault, tool: str) -> None:
    """What is not active is not replaced by an active memory whose memId begins like its title."""
    given = {"value": "New."} if tool == "memory_mutate" else {}
    note(folder, "use-postgresql-for-all", "Active.")
    note(folder, "use-postgresql", "Not active.")
    note(folder, "Use-Redis", "Not active.")
    note(folder, "use-redis-for-queues", "Active.")
    for name in ("use-postgresql-for-all", "use-redis-for-queues"):
        vault.call("memory_load", memId=name)
    for name in ("use-postgresql", "use-postgresql.md", "Use-Redis"):
        assert vault.call(tool, memId=name, **given)["error"]["code"] == "not_found"
    assert len(held(vault)) == 2
    assert not list(folder.rglob("*New.*"))
    assert vault.call(tool, memId="use-postgresql-f", **given)["success"]


@pytest.mark.parametrize("tool", ["memory_mutate", "memory_evict"])
def test_a_name_that_went_to_another_memory_is_that_memorys(
    folder: Path, vault: Vault, tool: str
) -> None:
    """After files were renamed, a path means what lies there now, not what was loaded from it."""
    given = {"value": "New."} if tool == "memory_mutate" else {}
    note(folder, "alpha", "Loaded.")
    vault.call("memory_load", memId="alpha")
    (folder / "alpha.md").rename(folder / "moved.md")
    write(folder, "alpha.md", "---\nid: other-aaaaaa\n---\n\nAnother.\n")
    assert vault.call(tool, memId="alpha.md", **given)["error"]["code"] == "not_found"
    assert "Loaded." in (folder / "moved.md").read_text("utf-8")
    assert held(vault) == ["alpha"]


def test_one_active_memory_of_several_with_a_title_is_meant(folder: Path, vault: Vault) -> None:
    """A title that two memories have is enough where one of them is active."""
    first = vault.call("memory_create", name="Plan", value="One.")["memId"]
    second = vault.call("memory_create", name="Plan", value="Two.")["memId"]
    assert vault.call("memory_evict", memId="Plan")["error"]["code"] == "ambiguous"
    vault.call("memory_evict", memId=first)
    assert vault.call("memory_mutate", memId="Plan", value="Three.")["memId"] == second


def test_a_memory_that_became_two_files_stays_active(folder: Path, vault: Vault) -> None:
    """A moved file and a copy of it: the warning names both, and nothing leaves the set."""
    note(folder, "alpha", words(3))
    vault.call("memory_load", memId="alpha")
    (folder / "alpha.md").rename(folder / "moved.md")
    shutil.copy(folder / "moved.md", folder / "copy.md")
    for found in (
        vault.call("memory_active", full=True),
        vault.call("memory_create", name="beta", value="Text."),
    ):
        (warning,) = found["warnings"]
        assert "copy.md, moved.md" in warning
    assert held(vault) == ["beta", "alpha"]
    failed = vault.call("memory_mutate", memId="alpha-aaaaaa", value="New.")
    assert failed["error"]["code"] == "ambiguous"
    (folder / "copy.md").unlink()
    found = vault.call("memory_active", full=True)
    assert "warnings" not in found
    assert found["memories"][1]["content"] == words(3)


def test_evicting_needs_the_memory_in_the_set_but_not_in_the_vault(
    folder: Path, vault: Vault
) -> None:
    """What is not active cannot be evicted; what is can be, even when its file is gone."""
    note(folder, "alpha", "Text.")
    assert vault.call("memory_evict", memId="alpha")["error"]["code"] == "not_found"
    vault.call("memory_load", memId="alpha")
    (folder / "alpha.md").unlink()
    assert vault.call("memory_evict", memId="alpha")["memId"] == "alpha-aaaaaa"
    assert vault.call("memory_evict", memId="alpha")["error"]["code"] == "not_found"
