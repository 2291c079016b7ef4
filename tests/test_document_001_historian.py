"""The calls of the historian's tools reference, as it writes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from conftest import write
from memvault import Vault

DECISION = "## Decision\n\nPostgreSQL is the database.\n\n## Rationale\n\n- Point 1\n- Point 2\n"


def remembered(vault: Vault) -> dict[str, Any]:
    """Remember the decision that the document's file format shows, and something else."""
    other = {"title": "Bread", "content": "Flour, water, salt.", "memoryType": "learning"}
    assert vault.call("memory_remember", **other)["success"]
    return vault.call(
        "memory_remember",
        title="Use PostgreSQL",
        content=DECISION,
        memoryType="architectural-decision",
        tags=["database", "infrastructure"],
    )


def test_types_are_listed_with_the_fallback(vault: Vault) -> None:
    """Without parameters the types come back, and context as what fits none."""
    found = vault.call("memory_list_types")
    assert (found["success"], found["fallbackType"]) == (True, "context")
    assert found["fallbackDescription"]
    names = {entry["name"] for entry in found["types"]}
    assert {"architectural-decision", "learning", "context"} <= names


def test_a_memory_is_created_in_the_documents_format(vault: Vault, folder: Path) -> None:
    """The result has the four keys; the file has the header and sections of the document."""
    made = remembered(vault)
    assert made["success"] is True
    assert made["memoryType"] == "architectural-decision"
    assert made["tags"] == ["database", "infrastructure"]
    lines = (folder / made["filePath"]).read_text("utf-8").splitlines()
    header = lines[1 : lines.index("---", 1)]
    assert "memory_type: architectural-decision" in header
    assert "tags: [database, infrastructure]" in header
    assert {"created", "modified"} <= {line.split(":")[0] for line in header}
    assert "## Decision" in lines
    untagged = vault.call(
        "memory_remember", title="Plain", content="No tags.", memoryType="context"
    )
    assert (untagged["success"], untagged["tags"]) == (True, [])


@pytest.mark.parametrize(
    "more", [{}, {"memoryType": "architectural-decision"}, {"limit": 1}], ids=str
)
def test_memories_are_searched(vault: Vault, more: dict[str, Any]) -> None:
    """A query finds the memory, with a type and a limit too."""
    made = remembered(vault)
    found = vault.call("memory_recall", query="which database did we choose", **more)
    assert found["memories"][0]["filePath"] == made["filePath"]
    assert len(found["memories"]) <= more.get("limit", 10)


def test_a_file_as_the_document_shows_it_is_found(vault: Vault, folder: Path) -> None:
    """The document's example file, which has no id, is a memory."""
    header = (
        "---\nmemory_type: architectural-decision\ntags: [database, infrastructure]\n"
        "created: 2026-02-16T10:30:00.000Z\nmodified: 2026-02-16T10:30:00.000Z\n---\n\n"
    )
    write(folder, "architectural-decision/storage.md", header + DECISION)
    (found,) = vault.call("memory_recall", query="PostgreSQL")["memories"]
    assert found["memoryType"] == "architectural-decision"
    assert found["tags"] == ["database", "infrastructure"]
    assert found["created"] == found["modified"] == "2026-02-16T10:30:00.000Z"


def test_a_memory_is_updated(vault: Vault, folder: Path) -> None:
    """Words find the target, the new content is in it, and the type can be changed."""
    made = remembered(vault)
    asked = {"query": "Use PostgreSQL database", "modifications": "Version 17 since March."}
    changed = vault.call("memory_compound", **asked)
    assert (changed["success"], changed["filePath"]) == (True, made["filePath"])
    assert changed["memoryType"] == "architectural-decision"
    assert "Version 17 since March." in (folder / made["filePath"]).read_text("utf-8")
    moved = vault.call("memory_compound", **asked, memoryType="learning")
    assert (moved["success"], moved["memoryType"]) == (True, "learning")
    assert (folder / moved["filePath"]).is_file()


def test_memories_are_deleted_once_confirmed(vault: Vault, folder: Path) -> None:
    """Without confirm the candidates come back and nothing goes; with it the files are named."""
    made = remembered(vault)
    asked = {"query": "PostgreSQL database", "memoryType": "architectural-decision"}
    shown = vault.call("memory_forget", **asked)
    assert shown["confirmRequired"] is True
    assert [entry["filePath"] for entry in shown["candidates"]] == [made["filePath"]]
    assert (folder / made["filePath"]).is_file()
    gone = vault.call("memory_forget", **asked, confirm=True)
    assert (gone["success"], gone["deletedFiles"]) == (True, 1)
    assert gone["files"] == [made["filePath"]]
    assert not (folder / made["filePath"]).exists()
