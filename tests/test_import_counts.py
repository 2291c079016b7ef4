"""Imports from Dendron and memory servers count all parts and keep duplicates."""

from __future__ import annotations

import json
import pickle
import sqlite3
from contextlib import closing
from pathlib import Path

from conftest import Run, succeeded, write
from import_sources import agent_zero as agent_zero_source
from import_sources import basic_memory as basic_memory_source
from import_sources import dendron as dendron_source
from import_sources import mem0 as mem0_source
from imported import Imported
from test_import_outlines import counts


def test_dendron_vaults_of_a_workspace_keep_their_links(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    """Links, including ranges, users and images, resolve to the same or the given vault."""
    got = Imported(run, folder, dendron_source.make_workspace(tmp_path), "dendron")
    assert got.unreadable == set()
    assert got.found["new"] == 6  # the stub is skipped, and both roots have the same id
    text = got.text("vault/root.md")
    other = "in/dependencies/bees/notes/queen"
    links = f"[[in/vault/queen]] [[{other}|the other]] ![[{other}#egg]] [[user.ann|@ann]].\n"
    assert links in text
    assert "\n![[in/vault/queen]] ![[in/vault/queen#egg]] ![](assets/images/a.png) #work" in text
    assert "a@ann `@ann`\n" in text
    assert "desc:" not in text
    assert f"[[{other}]]" in got.text("dependencies/bees/notes/root.md")
    assert "tags: [work]\n" in got.text("vault/tags.work.md")
    back = succeeded(run("backlinks", f"{other}.md", "--json")).json
    assert "in/vault/root.md" in str(back)
    again = Imported(run, folder, tmp_path / "workspace", "dendron").found
    assert (again["new"], again["changed"], again["unchanged"]) == (0, 0, 6)


def test_dendron_counts_stubs_and_schemas(tmp_path: Path) -> None:
    """Notes, links, references and assets are counted, stubs and schemas as not converted."""
    found = counts(dendron_source.make_workspace(tmp_path), "dendron")
    assert found["converted"] == {"note": 6, "link": 3, "note reference": 3, "asset": 2, "user": 1}
    assert found["omitted"] == {"stub": 1, "schema": 1}


def test_basic_memory_counts_observations_and_relations(tmp_path: Path) -> None:
    """Files and database list the same types; tasks and plain items are not observations."""
    made = basic_memory_source.make(tmp_path)
    write(made, "plain.md", "---\ntitle: P\ntype: note\npermalink: p\n---\n- [ ] task\n- item\n")
    found = counts(made, "basic-memory")
    assert found["converted"] == {"note": 3, "observation": 2, "relation": 1}
    assert found["omitted"] == {}


def test_basic_memory_database_keeps_metadata(run: Run, folder: Path, tmp_path: Path) -> None:
    """Other header keys, which the database stores as JSON, are imported."""
    made = basic_memory_source.make_database(tmp_path)
    with closing(sqlite3.connect(made)) as database:
        metadata = json.dumps({"tags": ["hot", "drink"], "rating": 5, "title": "no"})
        database.execute("UPDATE entity SET entity_metadata = ? WHERE id = 1", [metadata])
        database.commit()
    text = Imported(run, folder, made, "basic-memory").text("drinks/Coffee.md")
    assert "tags: [hot, drink]\n" in text
    assert "rating: 5\n" in text


def test_basic_memory_notes_with_equal_permalinks_are_both_imported(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    """A copied file with the original's permalink becomes a separate note."""
    made = basic_memory_source.make(tmp_path)
    tea = (made / "drinks/Tea Brewing Methods.md").read_text("utf-8")
    write(made, "drinks/copy.md", tea + "A copy.\n")
    got = Imported(run, folder, made, "basic-memory")
    assert got.found["new"] == 3
    assert got.unreadable == set()


def test_mcp_memory_counts_unknown_properties(run: Run, folder: Path, tmp_path: Path) -> None:
    """Entities with the same name are both imported; unknown properties are counted."""
    lines = [
        {"type": "entity", "name": "Ana", "observations": ["a\nb", 7], "version": 2},
        {"type": "entity", "name": "Ana", "observations": ["another"]},
        {"type": "relation", "from": "Ana", "to": "Ana", "relationType": "is", "since": "2024"},
    ]
    made = write(tmp_path, "memory.jsonl", "\n".join(map(json.dumps, lines)))
    found = counts(made, "mcp-memory")
    assert found["converted"] == {"entity": 2, "observation": 2, "relation": 1}
    assert found["omitted"] == {
        "observation without text": 1,
        'entity property "version"': 1,
        'relation property "since"': 1,
    }
    got = Imported(run, folder, made, "mcp-memory")
    assert "- a\n  b\n" in got.text("Ana.md")
    assert "- another\n" in got.text("Ana-2.md")


def test_mem0_counts_relations_and_unknown_properties(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    """Graph relations and unknown properties are counted; notes with equal titles are kept."""
    results = [
        {"id": "1", "memory": "Likes tea", "user_id": "x", "score": 0.5, "hash": "h"},
        {"memory": "Likes green tea\nin summer", "user_id": "x"},
        {"memory": "Likes green tea\nin winter", "user_id": "x"},
    ]
    relations = [{"source": "x", "relationship": "likes", "destination": "tea"}]
    whole = {"results": results, "relations": relations}
    made = write(tmp_path, "mem0.json", json.dumps(whole))
    found = counts(made, "mem0")
    assert found["converted"] == {"memory": 3}
    assert found["omitted"] == {"relation": 1, 'memory property "score"': 1}
    assert Imported(run, folder, made, "mem0").found["new"] == 3


def test_mem0_points_keep_their_metadata(run: Run, folder: Path, tmp_path: Path) -> None:
    """A memory's metadata in Qdrant becomes part of the header."""
    made = mem0_source.make_databases(tmp_path)
    payload = {"data": "Writes Go", "user_id": "dev", "team": "api"}
    point = pickle.dumps(mem0_source.PointStruct(id="d", payload=payload))
    with closing(sqlite3.connect(made / "collection/mem0/storage.sqlite")) as database:
        database.execute("INSERT INTO points VALUES ('d', ?)", [point])
        database.commit()
    found = counts(made, "mem0")
    assert found["converted"] == {"memory": 3, "history event": 4}
    assert found["omitted"] == {"deleted memory": 1}
    text = Imported(run, folder, made, "mem0").text("Writes Go.md")
    assert 'metadata: "{\\"team\\": \\"api\\"}"' in text


def test_agent_zero_counts_memories_and_metadata(run: Run, folder: Path, tmp_path: Path) -> None:
    """Memories of two agents with the same id are both imported; other metadata are counted."""
    for name in ("default", "other"):
        document = agent_zero_source.Document(f"Tea of {name}.", id="x", area="main", mood="fine")
        stored = agent_zero_source.InMemoryDocstore({"x": document})
        write(tmp_path, f"memory/{name}/index.pkl", pickle.dumps(stored))
        write(tmp_path, f"memory/{name}/index.faiss", b"IxFI")
    found = counts(tmp_path / "memory", "agent-zero")
    assert found["converted"] == {"memory": 2}
    assert found["omitted"] == {'memory property "mood"': 2}
    got = Imported(run, folder, tmp_path / "memory", "agent-zero")
    assert got.found["new"] == 2
    assert got.unreadable == set()
