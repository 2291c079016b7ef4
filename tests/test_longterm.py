"""Long-term memory: content is saved verbatim, found by meaning, and deleted by id."""

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
from memvault.tools import recall
from memvault.workspace import Workspace


def loaded(vault: Vault, query: str, **arguments: Any) -> list[dict[str, Any]]:
    """Load memories by a query."""
    found: list[dict[str, Any]] = vault.call("memory_load", query=query, **arguments)["memories"]
    return found


def test_saved_text_is_loaded_by_paraphrase(vault: Vault) -> None:
    """A saved identifier is loaded by a question about it, with its text unchanged."""
    text = "The user's project identifier is 'proj_X-7'."
    saved = vault.call("memory_save", text=text)
    vault.call("memory_save", text="Bread needs flour, water, salt and time.")
    (found,) = loaded(vault, "user project identifier")
    assert (found["id"], found["text"]) == (saved["id"], text)
    assert 0.6 <= found["similarity"] <= 1
    assert found["metadata"]["tags"] == []
    assert vault.call("memory_show", memId=saved["id"])["title"] == text.rstrip(".")


def test_load_respects_threshold_limit_and_filter(vault: Vault) -> None:
    """The most similar memories come first, within threshold, limit and filter."""
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


@pytest.mark.parametrize("tool", ["memory_load", "memory_forget", "memory_recall"])
def test_threshold_is_compared_with_displayed_number(vault: Vault, tool: str) -> None:
    """A threshold equal to a memory's displayed number includes it; a higher one does not."""
    for text in (
        "The port of the gateway is 8081.",
        "The gateway listens on port 8081, and the metrics on 9100.",
        "Ports below 1024 need root.",
        "Soup is served on Mondays.",
    ):
        vault.call("memory_save", text=text)

    shown = {
        "memory_load": "similarity",
        "memory_forget": "score",
        "memory_recall": "probability",
    }

    def found(query: str, threshold: float) -> dict[str, float]:
        result = vault.call(tool, query=query, threshold=threshold)
        entries = result["candidates" if tool == "memory_forget" else "memories"]
        return {entry.get("id") or entry["memId"]: entry[shown[tool]] for entry in entries}

    numbers = set()
    for query in ("which port has the gateway", "port of the gateway is 8081", "soup", "metrics"):
        for mem_id, number in found(query, 0).items():
            assert found(query, number)[mem_id] == number
            assert mem_id not in (found(query, number + 1e-9) if number < 1 else {})
            numbers.add(number)
    assert len(numbers) > 3


def test_load_by_query_does_not_change_active_memory(vault: Vault) -> None:
    """Only a load by memId adds to active memory."""
    vault.call("memory_save", text="The wombat digs.")
    assert loaded(vault, "wombat digs")
    assert vault.call("memory_active")["memories"] == []


def test_save_metadata_becomes_filterable_front_matter(run: Run, folder: Path) -> None:
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
def test_save_uses_first_words_as_title(text: str, title: str) -> None:
    """The title of saved text is its beginning."""
    assert create.title_of(text) == title


@given(st.text())
def test_save_title_is_one_short_line(text: str) -> None:
    """A title is one printable line of at most 60 characters."""
    try:
        title = create.title_of(text)
    except UsageError:
        assert not any(map(str.isalnum, text)) or not text.isprintable()
        return
    assert title
    assert title.isprintable()
    assert len(title) <= 60


def test_delete_removes_exactly_the_given_memories(folder: Path, vault: Vault) -> None:
    """Existing ids go to the trash, others are reported missing, and restore brings them back."""
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


def test_delete_path_with_comma_is_one_name(folder: Path, run: Run) -> None:
    """A file whose name contains a comma is deleted by that name, and no other file is."""
    write(folder, "a,b.md", "Text.")
    write(folder, "b.md", "Text.")
    assert len(run("delete", "a,b.md", "--json").json["deleted"]) == 1
    assert (folder / "b.md").exists()
    assert not (folder / "a,b.md").exists()
    assert run("delete", "b.md", "x", "--json").json["missing"] == ["x"]


def test_forget_by_shared_title_selects_all(folder: Path, vault: Vault) -> None:
    """A shared title previews all its memories, alone or in a list; other words are searched."""
    for name in ("a", "b"):
        write(folder, f"{name}.md", "---\ntitle: Twin\n---\nTwin text\n")
    write(folder, "c.md", "Text.")
    write(folder, "deploy-notes.md", "Blue and green.")
    write(folder, "design.md", "Deep water.")
    for query in ("Twin", "c.md Twin", "Twin,c.md"):
        found = vault.call("memory_forget", query=query)["candidates"]
        assert {entry["filePath"] for entry in found} - {"c.md"} == {"a.md", "b.md"}, query
        assert ("c.md" in query) == (len(found) == 3)
    for query in ("Twin zebra", "de c.md", "des dep"):
        found = vault.call("memory_forget", query=query, threshold=0.9)["candidates"]
        assert found == [], query
    found = vault.call("memory_forget", query="c.md deploy-notes")["candidates"]
    assert [entry["filePath"] for entry in found] == ["c.md", "deploy-notes.md"]


def test_forget_type_narrows_memories_with_same_title(folder: Path, run: Run) -> None:
    """If several memories have the same title, only those of the given type are forgotten."""
    for path in ("learning/a.md", "issue/b.md", "issue/c.md"):
        write(folder, path, "---\ntitle: Twin\naliases: [Double]\n---\nTwin text\n")
    write(folder, "issue/d.md", "---\nid: twin-abc123\n---\nOther\n")
    write(folder, "issue/e.md", "---\nid: twin-abc456\n---\nOther\n")
    for query in ("Twin", "twin", "double", '"Twin"', "'Twin.'"):
        shown = run("forget", query, "--type", "issue", "--json").json["candidates"]
        assert [(entry["filePath"], entry["memoryType"]) for entry in shown] == [
            ("issue/b.md", "issue"),
            ("issue/c.md", "issue"),
        ], query
    assert run("forget", "Twin", "--type", "fact", "--json").json["candidates"] == []
    (shown,) = run("forget", "Twin", "--type", "learning", "--json").json["candidates"]
    assert shown["filePath"] == "learning/a.md"
    done = run("forget", "Twin", "--type", "learning", "--confirm", "true", "--json")
    assert done.json["files"] == ["learning/a.md"]
    part = run("forget", "twin-abc", "--json")
    assert (part.code, part.json["error"]["code"]) == (1, "ambiguous")


@pytest.mark.parametrize(
    "framing",
    [
        "everything about {}",
        "All information about {}.",
        "What we know about {}?",
        '"memories about {}"',
        "Forget everything about “{}”!",
        "please delete all of the memories that are related to {}",
        "all information\nregarding {}",
        "{}.",
        "'{}'",
    ],
)
def test_forget_ignores_framing_words(vault: Vault, framing: str) -> None:
    """Phrases such as "everything about", quotes and a period do not change the result."""
    for title, text in (
        ("Kick-off", "The Wombat bridge project begins in May."),
        ("Steel", "Steel for the Wombat bridge costs 40,000."),
        ("About memories", "Everything that is known about information is on a page."),
        ("Lunch", "Soup on Mondays."),
    ):
        vault.call("memory_remember", title=title, content=text)
    plain = vault.call("memory_forget", query="the Wombat bridge")["candidates"]
    assert {entry["title"] for entry in plain} == {"Kick-off", "Steel"}
    framed = vault.call("memory_forget", query=framing.format("the Wombat bridge"))["candidates"]
    assert framed == plain


def test_forget_prefers_exact_title_over_framing_words(vault: Vault) -> None:
    """An exact title wins; otherwise framing words are removed and the title match is first."""
    for title in ("Everything about Wombats", "Wombats", "About"):
        vault.call("memory_remember", title=title, content=f"{title}: they dig.")
    whole = vault.call("memory_forget", query="everything about wombats")["candidates"]
    assert [entry["title"] for entry in whole] == ["Everything about Wombats"]
    broad = vault.call("memory_forget", query="all information about Wombats")["candidates"]
    assert (broad[0]["title"], broad[0]["score"]) == ("Wombats", 1.0)
    assert len({entry["memId"] for entry in broad}) == len(broad) > 1
    assert vault.call("memory_forget", query="everything about", threshold=0.99)["success"]


def test_memories_with_the_same_title_are_distinguishable(folder: Path, run: Run) -> None:
    """An ambiguous title is refused with the title, type, memId and path of each candidate."""
    write(folder, "issue/a.md", "---\nid: twin-aaaaaa\ntitle: Twin\n---\nText\n")
    write(folder, "fact/b.md", "---\nid: twin-bbbbbb\ntitle: Twin\n---\nText\n")
    for words in (["compound", "Twin", "x"], ["show", "Twin"], ["rename", "Twin", "Other"]):
        failed = run(*words, "--json").json
        assert failed["error"]["code"] == "ambiguous"
        assert sorted(map(repr, failed["candidates"])) == sorted(
            repr({"memId": mem_id, "title": "Twin", "filePath": path, "memoryType": kind})
            for mem_id, path, kind in (
                ("twin-aaaaaa", "issue/a.md", "issue"),
                ("twin-bbbbbb", "fact/b.md", "fact"),
            )
        )
        told = run(*words)
        assert told.code == 1
        for part in ("issue  twin-aaaaaa  issue/a.md", "fact  twin-bbbbbb  fact/b.md"):
            assert f"Twin  {part}" in told.err


def test_delete_rolls_back_after_partial_failure(folder: Path) -> None:
    """If one memory was changed concurrently, memories that were already deleted are restored."""
    write(folder, "a.md", "Text.")
    write(folder, "b.md", "Text.")
    store: MemoryStore = Workspace(folder).store
    memories = [store.read("a.md"), store.read("b.md")]
    write(folder, "b.md", "Changed.")
    with pytest.raises(MemvaultError):
        delete.delete(store, memories)
    assert (folder / "a.md").read_text() == "Text."
    assert (folder / "b.md").read_text() == "Changed."
    assert json.dumps([item.path for item in store.trash.files()]) == "[]"


def test_delete_rollback_continues_after_failure(folder: Path) -> None:
    """A failed deletion restores everything it can and lists the rest, still in the trash."""
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
    assert [item.path for item in store.trash.files()] == ["sub/b.md"]


def test_forget_preview_reports_its_limit(
    vault: Vault, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a search reaches the maximum selection, a note says that there may be more."""
    monkeypatch.setattr(recall, "MAX_RESULTS", 5)
    for number in range(6):
        write(folder, f"n/{number}.md", f"An old note, number {number}.\n")
    found = vault.call("memory_forget", query="old notes", threshold=0.0)
    assert "at most 5 are selected; run it again for the rest" in found["warnings"]
