"""Marks of a conflict in git change nobody's identity, and nothing is added to them."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import write
from memvault import Vault
from memvault.vault.markdown import has_conflict_markers

HEADER = "id: wombats-abc123\ntitle: Wombats\nmemory_type: fact\n"
IN_HEADER = f"""---
{HEADER}<<<<<<< HEAD
modified: 2026-01-02T00:00:00.000Z
=======
modified: 2026-01-03T00:00:00.000Z
>>>>>>> theirs
---

They dig.
"""
OVER_BOTH = f"""---
{HEADER}<<<<<<< HEAD
modified: 2026-01-02T00:00:00.000Z
---

They dig.
=======
modified: 2026-01-03T00:00:00.000Z
---

They sleep.
>>>>>>> theirs
"""
WHOLE = f"""<<<<<<< HEAD
---
{HEADER}---

They dig.
=======
---
id: wombats-xyz789
---

They sleep.
>>>>>>> theirs
"""
IDENTITY = f"""---
<<<<<<< HEAD
{HEADER}||||||| base
id: wombats
=======
id: other-abc123
title: Other
>>>>>>> theirs
---

They dig.
"""
IN_BODY = (
    f"---\n{HEADER}---\n\n<<<<<<< HEAD\nThey dig.\n=======\nThey sleep.\n>>>>>>> theirs\n\nEnd.\n"
)
EXAMPLE = f"---\n{HEADER}---\n\nGit writes:\n\n```\n<<<<<<< HEAD\na\n=======\nb\n>>>>>>> x\n```\n"
ALL = [IN_HEADER, OVER_BOTH, WHOLE, IDENTITY, IN_BODY]
NAMES = ["header", "both", "whole", "identity", "body"]


@pytest.mark.parametrize("text", ALL, ids=NAMES)
@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["lf", "crlf"])
def test_marks_do_not_change_which_memory_it_is(
    vault: Vault, folder: Path, text: str, end: str
) -> None:
    """A memory in conflict keeps the id, title and type that it has on this side."""
    write(folder, "note.md", text.replace("\n", end))
    shown = vault.call("memory_show", memId="wombats-abc123")
    assert shown["success"], shown
    assert (shown["title"], shown["memoryType"]) == ("Wombats", "fact")
    assert "conflict" in shown["problem"]
    assert vault.call("memory_recall", query="dig")["count"] == 1


@pytest.mark.parametrize("text", ALL, ids=NAMES)
@pytest.mark.parametrize("how", [{}, {"section": "More"}], ids=["append", "section"])
def test_nothing_is_added_to_a_memory_in_conflict(
    vault: Vault, folder: Path, text: str, how: dict[str, str]
) -> None:
    """Compound says what to do first, and leaves the file as it is."""
    file = write(folder, "note.md", text)
    failed = vault.call("memory_compound", query="note.md", modifications="More.", **how)
    assert failed["error"]["code"] == "refused"
    assert "conflict" in failed["error"]["message"]
    assert failed["error"]["hint"]
    assert file.read_text("utf-8") == text


def test_a_whole_new_text_settles_a_conflict(vault: Vault, folder: Path) -> None:
    """Replacing the text of a memory whose text is in conflict takes the marks away."""
    file = write(folder, "note.md", IN_BODY)
    done = vault.call(
        "memory_compound", query="note.md", modifications="They do both.", mode="replace"
    )
    assert done["success"], done
    assert file.read_text("utf-8") == f"---\n{HEADER}---\n\nThey do both.\n"


def test_an_example_of_a_conflict_is_none(vault: Vault, folder: Path) -> None:
    """A memory that shows the marks in a block of code is changed like any other."""
    write(folder, "note.md", EXAMPLE)
    assert not has_conflict_markers(EXAMPLE)
    assert has_conflict_markers(IN_BODY)
    assert "problem" not in vault.call("memory_show", memId="note.md")
    assert vault.call("memory_compound", query="note.md", modifications="More.")["success"]


def test_an_entry_in_conflict_keeps_its_key(vault: Vault, folder: Path) -> None:
    """A value whose header is in conflict is found under its key, and a note says so."""
    text = "---\nkey: tone\n<<<<<<< HEAD\na: 1\n=======\na: 2\n>>>>>>> x\n---\n\nfriendly\n"
    write(folder, "agents/main/memories/tone.md", text)
    found = vault.call("get_memories")
    assert found["memories"] == [{"key": "tone", "value": "friendly"}]
    assert any("conflict" in note for note in found["warnings"])
