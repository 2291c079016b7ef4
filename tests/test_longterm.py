"""Long-term memory: a text is saved under its own words, found by meaning, deleted by its id."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import Run, write
from memvault import Vault
from memvault.errors import MemvaultError, UsageError
from memvault.memories import create, delete
from memvault.model import Memory
from memvault.store.memory_store import MemoryStore
from memvault.workspace import Workspace


def loaded(vault: Vault, query: str, **arguments: Any) -> list[dict[str, Any]]:
    """Load memories by a query."""
    found: list[dict[str, Any]] = vault.call("memory_load", query=query, **arguments)["memories"]
    return found


def test_what_was_saved_is_loaded_by_other_words(vault: Vault) -> None:
    """A saved identifier comes back for a question about it, with nothing added to its text."""
    text = "The user's project identifier is 'proj_X-7'."
    saved = vault.call("memory_save", text=text)
    vault.call("memory_save", text="Bread needs flour, water, salt and time.")
    (found,) = loaded(vault, "user project identifier")
    assert (found["id"], found["text"]) == (saved["id"], text)
    assert 0.6 <= found["similarity"] <= 1
    assert found["metadata"]["tags"] == []
    assert vault.call("memory_show", memId=saved["id"])["title"] == text.rstrip(".")


def test_loading_keeps_to_threshold_limit_and_filter(vault: Vault) -> None:
    """The most similar come first; what is less similar, too many or filtered out does not come."""
    for number, area in enumerate(["main", "main", "other"]):
        text = f"The server number {number} runs the nightly backup."
        assert vault.call("memory_save", text=text, area=area, metadata={"rank": number})["success"]
    every = loaded(vault, "which server runs the nightly backup", threshold=0)
    values = [entry["similarity"] for entry in every]
    assert len(values) == 3
    assert values == sorted(values, reverse=True)
    assert len(loaded(vault, "nightly backup", limit=2)) == 2
    other = loaded(vault, "nightly backup", filter="area == 'other' and rank > 1")
    assert [entry["metadata"]["area"] for entry in other] == ["other"]
    assert loaded(vault, "a recipe for sourdough bread") == []
    nothing = vault.call("memory_load", query="a recipe for sourdough bread")
    assert "memory_recall" in nothing["message"]


def test_a_load_by_query_leaves_active_memory_alone(vault: Vault) -> None:
    """Only a load by memId puts something into active memory."""
    vault.call("memory_save", text="The wombat digs.")
    assert loaded(vault, "wombat digs")
    assert vault.call("memory_active")["memories"] == []


def test_metadata_becomes_front_matter_that_filters_see(run: Run, folder: Path) -> None:
    """Pairs and JSON objects on the command line keep their types and their commas."""
    saved = run(
        "save",
        "The wombat digs.",
        "--area",
        "zoo",
        "--metadata",
        '{"note": "a, b", "checked": true, "tags": ["x y"]}',
        "--metadata",
        "source=a talk, in May",
        "--metadata",
        "weight=2.5",
        "--json",
    )
    assert saved.code == 0, saved
    (found,) = run("load", "--query", "wombat digs", "--json").json["memories"]
    assert found["id"] == saved.json["id"]
    metadata = found["metadata"]
    assert (metadata["area"], metadata["note"], metadata["checked"]) == ("zoo", "a, b", True)
    assert (metadata["source"], metadata["weight"]) == ("a talk, in May", 2.5)
    assert metadata["tags"] == ["x-y"]
    (again,) = run("load", "--query", "wombat digs", "--filter", "weight > 2", "--json").json[
        "memories"
    ]
    assert again["id"] == found["id"]


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("Short text", "Short text"),
        ("One. Two.", "One"),
        ("# A heading\n\nText.", "A heading"),
        ("- [ ] an item of a list", "[ ] an item of a list"),
        ("---\n\nafter a rule", "after a rule"),
        ("日本語の文。次の文。", "日本語の文。"),
        ("word " * 40, "word word word word word word word word word word word word"),
        ("v1.2 is out! Get it", "v1.2 is out!"),
        ("\u202eevil\x1b[31m name", "evil[31m name"),
    ],
)
def test_a_title_is_made_of_the_texts_first_words(text: str, title: str) -> None:
    """The title of a saved text is the beginning of what it says."""
    assert create.title_of(text) == title


@given(st.text())
def test_any_text_has_a_short_title_or_is_refused(text: str) -> None:
    """A title is one printable line of at most 60 characters."""
    try:
        title = create.title_of(text)
    except UsageError:
        assert not any(map(str.isalnum, text)) or not text.isprintable()
        return
    assert title
    assert title.isprintable()
    assert len(title) <= 60


def test_deleting_takes_exactly_the_named_memories(folder: Path, vault: Vault) -> None:
    """Ids in a string or a list go to the trash; others are missing; restore brings them back."""
    ids = [vault.call("memory_save", text=f"Text number {n}.")["id"] for n in range(4)]
    done = vault.call("memory_delete", ids=f"{ids[0]}, {ids[1]},nothing,{ids[0]}")
    assert (done["deleted"], done["missing"]) == (ids[:2], ["nothing"])
    assert vault.call("memory_delete", ids="text-number")["error"]["code"] == "ambiguous"
    done = vault.call("memory_delete", ids=[ids[2], "u", "text number"])
    assert (done["deleted"], done["missing"]) == ([ids[2]], ["u", "text number"])
    unique = next(name for name in ids[3:])[: len("text-number-3-xx")]
    assert vault.call("memory_load", memId=unique)["success"]
    assert vault.call("memory_list")["count"] == 1
    assert vault.call("memory_restore", memId=ids[0])["success"]
    assert vault.call("memory_list")["count"] == 2
    assert vault.call("memory_delete", ids=" , ")["error"]["code"] == "usage"
    assert vault.call("memory_delete", ids=unique)["deleted"] == ids[3:]


def test_a_path_with_commas_is_one_name(folder: Path, run: Run) -> None:
    """A file whose name holds a comma is deleted by that name, and no other with it."""
    write(folder, "a,b.md", "Text.")
    write(folder, "b.md", "Text.")
    assert len(run("delete", "a,b.md", "--json").json["deleted"]) == 1
    assert (folder / "b.md").exists()
    assert not (folder / "a,b.md").exists()
    assert run("delete", "b.md", "x", "--json").json["missing"] == ["x"]


def test_forgetting_by_an_ambiguous_name_is_refused(folder: Path, vault: Vault) -> None:
    """A title of two memories is refused, alone and among other names; words are looked for."""
    for name in ("a", "b"):
        write(folder, f"{name}.md", "---\ntitle: Twin\n---\nTwin text\n")
    write(folder, "c.md", "Text.")
    write(folder, "deploy-notes.md", "Blue and green.")
    write(folder, "design.md", "Deep water.")
    for query in ("Twin", "c.md Twin", "Twin,c.md"):
        failed = vault.call("memory_forget", query=query)
        assert failed["error"]["code"] == "ambiguous", query
        assert {entry["filePath"] for entry in failed["candidates"]} == {"a.md", "b.md"}
    for query in ("Twin zebra", "de c.md", "des dep"):
        found = vault.call("memory_forget", query=query, threshold=0.9)["candidates"]
        assert found == [], query
    found = vault.call("memory_forget", query="c.md deploy-notes")["candidates"]
    assert [entry["filePath"] for entry in found] == ["c.md", "deploy-notes.md"]


def test_a_deletion_that_fails_half_way_is_undone(folder: Path) -> None:
    """Where one memory was changed meanwhile, those that had gone before it are back."""
    write(folder, "a.md", "Text.")
    write(folder, "b.md", "Text.")
    store: MemoryStore = Workspace(folder).store
    memories = [store.read("a.md"), store.read("b.md")]
    write(folder, "b.md", "Changed.")
    with pytest.raises(MemvaultError):
        delete.delete(store, memories)
    assert (folder / "a.md").read_text() == "Text."
    assert (folder / "b.md").read_text() == "Changed."
    assert json.dumps([item.path for item in store.history.discarded()]) == "[]"


def test_what_cannot_come_back_does_not_stop_the_rest(folder: Path) -> None:
    """A deletion that fails puts back what it can, and names what is left in the trash."""
    write(folder, "a.md", "Text.")
    write(folder, "sub/b.md", "Text.")
    write(folder, "c.md", "Text.")
    store: MemoryStore = Workspace(folder).store
    memories = [store.read(path) for path in ("a.md", "sub/b.md", "c.md")]

    def meanwhile() -> Iterator[Memory]:
        yield from memories[:2]
        (folder / "sub").rmdir()
        write(folder, "sub", "a file where the folder was")
        write(folder, "c.md", "Changed.")
        yield memories[2]

    with pytest.raises(MemvaultError) as failed:
        delete.delete(store, meanwhile())
    assert failed.value.code == "conflict"
    assert failed.value.details == {"deletedFiles": 1, "files": ["sub/b.md"]}
    assert (folder / "a.md").read_text("utf-8") == "Text."
    assert [item.path for item in store.history.discarded()] == ["sub/b.md"]
