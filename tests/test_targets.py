"""Only a memory that was clearly meant is changed; else nothing is."""

from __future__ import annotations

from pathlib import Path

from conftest import write
from memvault import Vault


def test_a_short_word_is_no_name(vault: Vault, folder: Path) -> None:
    """The beginning of a memId is words to look for, unless it is the whole slug."""
    write(folder, "fact/deploy-notes.md", "# Deploy notes\n\nBlue and green.\n")
    write(folder, "fact/design.md", "# Design\n\nDeep water.\n")
    refused = vault.call("memory_compound", query="d", modifications="oops")
    assert refused["success"] is False
    assert vault.call("memory_forget", query="de")["candidates"] == []
    assert vault.call("memory_compound", query="deploy-notes", modifications="Red.")["success"]


def test_one_common_word_is_no_clear_target(vault: Vault, folder: Path) -> None:
    """A word that only stands somewhere in a text does not choose what is changed."""
    write(folder, "codes.md", "# Emoji codes\n\nbread, milk, honey\n")
    assert vault.call("memory_compound", query="bread", modifications="x")["success"] is False
    assert vault.call("memory_compound", query="emoji", modifications="x")["success"] is True


def test_an_ambiguous_revision_is_refused(vault: Vault) -> None:
    """A beginning that several revisions share restores none of them."""
    made = vault.call("memory_remember", title="A", content="one", memoryType="fact")
    for text in ("two", "three"):
        assert vault.call("memory_compound", query="A", modifications=text)["success"]
    refused = vault.call("memory_restore", memId=made["memId"], revision="2")
    assert refused["error"]["code"] == "ambiguous"
    assert len(refused["revisions"]) == 2


def test_compound_asks_which_of_two_twins_is_meant(folder: Path, vault: Vault) -> None:
    """Of two memories that say nearly the same, none is clearly meant, and nothing is written."""
    body = "Deployments of the billing service run on Tuesdays after the smoke tests.\n"
    write(folder, "a.md", f"# Deployments of billing\n\n{body}")
    write(folder, "b.md", f"# Deployments of billing service\n\n{body}")
    result = vault.call(
        "memory_compound", query="billing deployments Tuesdays smoke tests", modifications="More."
    )
    assert result["error"]["code"] == "ambiguous"
    assert "a.md" in str(result)
    assert "b.md" in str(result)


def test_a_question_for_days_forgets_nothing_by_a_year(folder: Path, vault: Vault) -> None:
    """Words such as "what happened in" do not make every memory that names the year fit."""
    write(folder, "a.md", "# Invoice\n\nPaid in 2023.\n")
    result = vault.call("memory_forget", query="what happened in May 2023")
    assert result.get("candidates", []) == []
