"""What undo, restore, diff and the trash answer where there is little or nothing to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import Run, refused
from memvault import Vault
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
