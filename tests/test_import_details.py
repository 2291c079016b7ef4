"""Imports preserve details and list each unreadable entry."""

from __future__ import annotations

import base64
import hashlib
import json
import pickle
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from conftest import Run, succeeded, write
from import_sources import agent_zero as agent_zero_source
from import_sources import chatgpt as chatgpt_source
from import_sources import keep as keep_source
from import_sources import logseq as logseq_source
from import_sources import mem0 as mem0_source
from import_sources import opencode as opencode_source
from imported import Imported
from memvault.importers import html_markdown

FIRST, SECOND, HOME, BASE, ROW = "1" * 32, "1" * 24 + "2" * 8, "3" * 32, "4" * 32, "5" * 32
"""Notion ids; two have the same prefix."""


def twins(folder: Path) -> Path:
    """Write a Notion export of two pages with equal titles and equally named images."""
    made = folder / "Export"
    for key, text in ((FIRST, b"one"), (SECOND, b"two")):
        write(
            made, f"Page {key}.md", f"# Page\n\n![p](Page%20{key}/image.png)\n\n{text.decode()}\n"
        )
        write(made, f"Page {key}/image.png", text)
    links = (
        f"[one](Page%20{FIRST}.md) [two](Page%20{SECOND}.md#5d1c)",
        f"[out](https://example.org/{FIRST}) ![two](<Page {SECOND}/image.png>)",
        f"[tasks](Tasks%20{BASE}.csv) [row](Tasks%20{BASE}/Paint%20(green)%20{ROW}.md)",
        f"`[code](Page%20{FIRST}.md)`",
    )
    write(made, f"Home {HOME}.md", "# Home\n\n" + "\n".join(links) + "\n")
    write(made, f"Tasks {BASE}.csv", "Name,Note\nPaint (green),a|b\n")
    write(made, f"Tasks {BASE}_all.csv", 'Name,Note\nPaint (green),a|b\nOld,"x\r\ny"\n')
    row = "# Paint (green)\n\nStatus: open\nID: 7\nTitle: Mr\nAliases: Ann\nColour: green\n\n"
    write(
        made,
        f"Tasks {BASE}/Paint (green) {ROW}.md",
        f"{row}Note: in the body, see [tasks](../Tasks%20{BASE}.csv)\n",
    )
    return made


def test_notion_links_resolve_to_their_pages(run: Run, folder: Path, tmp_path: Path) -> None:
    """Links to equally named pages and images resolve correctly; other links are unchanged."""
    got = Imported(run, folder, twins(tmp_path), "notion")
    assert got.unreadable == set()
    assert got.text("Page.md").endswith("![p](Page/image.png)\n\none\n")
    assert got.text("Page 22222222.md").endswith("![p](Page%2022222222/image.png)\n\ntwo\n")
    assert succeeded(run("show", "in/Page 22222222.md", "--json")).json["title"] == "Page"
    assert got.data("Page/image.png") == b"one"
    assert got.data("Page 22222222/image.png") == b"two"
    home = got.text("Home.md")
    assert "[one](Page.md) [two](Page%2022222222.md#5d1c)\n" in home
    assert f"[out](https://example.org/{FIRST}) ![two](<Page 22222222/image.png>)\n" in home
    assert "[tasks](Tasks.md) [row](Tasks/Paint%20(green).md)\n" in home
    assert f"`[code](Page%20{FIRST}.md)`\n" in home
    links = succeeded(run("links", "in/Home.md", "--json")).json["links"]
    assert {link["filePath"] for link in links} >= {"in/Page.md", "in/Page 22222222.md"}
    again = Imported(run, folder, tmp_path / "Export", "notion").found
    assert (again["new"], again["changed"], again["attachments"]) == (0, 0, 0)


def test_notion_link_resolves_across_export_parts(run: Run, folder: Path, tmp_path: Path) -> None:
    """The parts of a large export form one tree, and links across parts work."""
    made, part = tmp_path / "Export", "ExportBlock-0a1b-Part"
    write(made, f"{part}-1/Home {HOME}.md", f"# Home\n\n[one](Home%20{HOME}/Page%20{FIRST}.md)\n")
    write(made, f"{part}-2/Home {HOME}/Page {FIRST}.md", "# Page\n\nOne.\n")
    got = Imported(run, folder, made, "notion")
    assert "[one](Home/Page.md)" in got.text("Home.md")
    assert "One." in got.text("Home/Page.md")


def test_notion_only_database_pages_have_properties(run: Run, folder: Path, tmp_path: Path) -> None:
    """Lines with colons on other pages stay text; memvault's keys keep their meaning."""
    made = twins(tmp_path)
    write(made, f"Plain {'a' * 32}.md", "# Plain\n\nWarning: hot\n\nText.\n")
    write(made, f"Tasks {BASE}/Talk {'b' * 32}.md", "# Talk\n\nShe said: no\nand went.\n")
    got = Imported(run, folder, made, "notion")
    header, _, body = got.text("Tasks/Paint (green).md").removeprefix("---\n").partition("---\n")
    for line in ("notion_status: open", 'notion_id: "7"', "notion_title: Mr", "colour: green"):
        assert f"{line}\n" in header
    assert "notion_aliases: Ann\n" in header
    assert "title:" not in header.replace("notion_title", "")
    assert body == "\n# Paint (green)\n\nNote: in the body, see [tasks](../Tasks.md)\n"
    assert "# Plain\n\nWarning: hot\n\nText.\n" in got.text("Plain.md")
    assert "# Talk\n\nShe said: no\nand went.\n" in got.text("Tasks/Talk.md")


@pytest.mark.parametrize(
    "text",
    ["snake_case_name", "_x_ and __init__ in a_ _b", "x__y 2*3*4 * _", "_中_文_", "ghp_abc_1"],
)
def test_html_import_preserves_text_and_formatting(text: str) -> None:
    """A name with underscores is unchanged, and the rendered text equals the note's text."""
    from markdown_it import MarkdownIt

    made = html_markdown.markdown(f"<div>{text} <b>{text}</b></div>")
    rendered = MarkdownIt().renderInline(made)
    assert rendered == f"{text} <strong>{text}</strong>"
    for word in re.findall(r"[a-z0-9]+(?:_[a-z0-9]+)+", text):
        assert word in made


def test_table_cell_can_contain_pipes_and_images(run: Run, folder: Path, tmp_path: Path) -> None:
    """In databases and HTML notes, a pipe in a cell does not start another cell."""
    got = Imported(run, folder, twins(tmp_path), "notion")
    assert "| Paint (green) | a\\|b |\n| Old | x y |\n" in got.text("Tasks.md")
    picture = b"\x89PNG of a table"
    digest = hashlib.md5(picture).hexdigest()
    enml = (
        "<en-note><table><tr><td>b|c</td><td><code>d|e</code></td></tr>"
        f'<tr><td>x</td><td><en-media type="image/png" hash="{digest}"/></td></tr></table>'
        "<div>f|g</div></en-note>"
    )
    resource = f"<resource><data>{base64.b64encode(picture).decode()}</data><mime>image/png</mime>"
    note = (
        f"<note><title>T</title><content><![CDATA[{enml}]]></content>{resource}</resource></note>"
    )
    write(tmp_path, "T.enex", f"<en-export>{note}</en-export>")
    write(folder, f"in/files/{digest[:12]}.png", b"other")
    text = Imported(run, folder, tmp_path / "T.enex", "evernote").text("T.md")
    assert "| b\\|c | `d\\|e` |\n" in text
    assert f"| x | ![[{digest[:12]}-2.png\\|{digest[:12]}.png]] |\n" in text
    assert "\nf|g\n" in text


def claude(folder: Path, name: str, **files: Any) -> Path:
    """Write a Claude data export."""
    for file, entries in files.items():
        write(folder, f"{name}/{file}.json", json.dumps(entries))
    return folder / name


def said(key: str, **more: Any) -> dict[str, Any]:
    """Return a Claude conversation with one message."""
    messages = [{"sender": "human", "text": "Is tea good?", "content": []}]
    return {"uuid": key, "name": "Tea", "chat_messages": messages, **more}


def test_claude_invalid_entries_are_reported(run: Run, folder: Path, tmp_path: Path) -> None:
    """Entries that are not objects or lack text are reported by position; bad names are ignored."""
    project = {"uuid": "p2345678-90", "name": {"a": 1}, "description": "On tea", "docs": [4, {}]}
    made = claude(
        tmp_path,
        "data",
        conversations=[
            said("c1", name={"b": 1}),
            "none",
            said("c2", chat_messages=[]),
            said("c3", chat_messages=[5, {"text": {"c": 1}}]),
        ],
        projects=[project, None],
        memories=[7, {"conversations_memory": ["x"], "project_memories": {"p": 1}}],
    )
    got = Imported(run, folder, made, "claude")
    assert got.unreadable == {
        ("conversations.json, entry 2", "not a JSON object"),
        ("conversations.json, entry 3", "has no messages"),
        ("conversations.json, entry 4", "the messages have no text"),
        ("conversations.json, entry 4, message 1", "not a JSON object"),
        ("projects.json, entry 1, document 1", "has no text"),
        ("projects.json, entry 1, document 2", "has no text"),
        ("projects.json, entry 2", "not a JSON object"),
        ("memories.json, entry 1", "not a JSON object"),
        ("memories.json, entry 2, conversations_memory", "no text"),
        ("memories.json, entry 2, project_memories/p", "no text"),
    }
    assert "Is tea good?" in got.text("is-tea-good.md")
    assert "On tea" in got.text("projects/Project p2345678.md")


def test_claude_memories_of_two_accounts_are_two_notes(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    """Claude's memories are identified by account, and a project's by the project's name."""
    for account in ("ana", "bob"):
        memories = {
            "account_uuid": account,
            "conversations_memory": f"{account} likes tea.",
            "project_memories": {f"p-{account}": "It sells tea.", "gone-123456": "Gone."},
        }
        made = claude(
            tmp_path,
            account,
            conversations=[said(account)],
            projects=[{"uuid": f"p-{account}", "name": f"Shop of {account}"}],
            memories=[memories],
        )
        got = Imported(run, folder, made, "claude")
        assert "sells tea" in got.text(f"What Claude remembers about Shop of {account}.md")
    assert "Gone." in got.text("What Claude remembers about project gone-123.md")
    assert "ana likes tea" in got.text("What Claude remembers.md")
    assert "bob likes tea" in got.text("What Claude remembers-2.md")


@pytest.mark.usefixtures("in_utc")
def test_chatgpt_invalid_entries_are_reported(run: Run, folder: Path, tmp_path: Path) -> None:
    """Empty and damaged conversations are reported; one with an unknown end is imported."""
    whole = [chatgpt_source.conversation(number) for number in range(5)]
    whole[1]["mapping"] = []
    whole[2]["mapping"] = ["x"]
    del whole[3]["mapping"]
    whole[4] |= {"current_node": "gone", "title": {"a": 1}}
    write(tmp_path, "conversations.json", json.dumps([*whole, 8]))
    got = Imported(run, folder, tmp_path / "conversations.json", "chatgpt")
    assert got.unreadable == {
        ("conversations.json, entry 2", "has no messages"),
        ("conversations.json, entry 3", "the mapping of messages is not a JSON object"),
        ("conversations.json, entry 4", "has no messages"),
        ("conversations.json, entry 6", "not a JSON object"),
    }
    assert got.found["new"] == 2
    assert "Two cups" in got.text("2026/2026-03-01-how-much-flour-is-in-this-cake.md")


def test_json_export_without_array_is_reported_as_not_read(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    """A file without conversations in the expected place is reported as not read."""
    whole = {"conversations": [chatgpt_source.conversation(1)]}
    write(tmp_path, "conversations.json", json.dumps(whole))
    got = Imported(run, folder, tmp_path / "conversations.json", "chatgpt")
    assert got.unreadable == {("conversations.json", "not a JSON array")}


def test_keep_notes_without_times_or_files_are_imported(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    """A note needs no time; missing files, outside paths and other JSON are reported."""
    keep, other = tmp_path / "Takeout/Keep", tmp_path / "Takeout/Other"
    files = [{"filePath": name} for name in ("gone.png", "../secret.png", "here.jpeg")]
    timed = {"userEditedTimestampUsec": 1762164900000000, "title": "Shelf", "attachments": files}
    write(keep, "Shelf.json", json.dumps(timed))
    write(keep, "Lamp.json", json.dumps({"title": "Lamp", "textContent": "It takes E14."}))
    write(keep, "x.json", json.dumps({"a": 1}))
    write(keep, "here.jpg", keep_source.PICTURE)
    write(tmp_path, "Takeout/secret.png", b"a secret")
    write(other, "y.json", json.dumps({"a": 1}))
    got = Imported(run, folder, tmp_path / "Takeout", "keep")
    assert got.unreadable == {
        ("Keep/Shelf.json, gone.png", "missing from the export"),
        ("Keep/Shelf.json, ../secret.png", "the path points outside the folder"),
        ("Keep/x.json", "not a Keep note"),
    }
    assert got.text("Lamp.md").endswith("It takes E14.\n")
    assert "created:" not in got.text("Lamp.md")
    assert got.text("Shelf.md").endswith("---\n\n![[Keep/here.jpg]]\n")
    assert not any(folder.rglob("secret.png"))


def bookmarks(folder: Path) -> Path:
    """Write Chrome's bookmarks with one without a URL, and an invalid entry."""
    children = [{"type": "url", "name": "Nowhere"}, 3, {"type": "url", "name": "T", "url": "data:"}]
    bar = {"type": "folder", "name": "Bar", "id": "9", "children": children}
    tree = {"checksum": "0", "roots": {"bookmark_bar": bar, "version": "1"}}
    return write(folder, "Bookmarks", json.dumps(tree))


def firefox(folder: Path) -> Path:
    """Write Firefox's backup with a bookmark without a URL."""
    none = {"guid": "abc", "title": "Nowhere", "typeCode": 1}
    root = {"guid": "root", "typeCode": 2, "root": "placesRoot", "children": [none, "x"]}
    return write(folder, "firefox.json", json.dumps(root))


def roam(folder: Path) -> Path:
    """Write two graphs; one has a page without a title, and an invalid entry."""
    page = {"title": "Bees", "children": [{"string": "They fly."}]}
    write(folder, "graphs/a.json", json.dumps([page, {"title": ["x"]}, 5]))
    return write(folder, "graphs/b.json", json.dumps([page])).parent


def graph(folder: Path) -> Path:
    """Write two knowledge graphs; one has a relation of a missing entity."""
    relation = {"type": "relation", "from": "Gone", "to": "Ana", "relationType": "knows"}
    lines = [{"type": "entity", "name": "Ana"}, relation, {"type": "entity", "name": {"a": 1}}]
    text = "\n".join(json.dumps(line) for line in lines)
    write(folder, "graphs/a.jsonl", text)
    return write(folder, "graphs/b.jsonl", text).parent


def mem0(folder: Path) -> Path:
    """Write exports with an invalid entry, an invalid text, and no memory."""
    results = [{"id": "1", "memory": {"a": 1}, "user_id": "x"}, 4]
    write(folder, "mem0/a.json", json.dumps({"results": results}))
    write(folder, "mem0/b.json", json.dumps({"entries": [{"memory": "x", "user_id": "y"}]}))
    return folder / "mem0"


def points(folder: Path) -> Path:
    """Write a local Qdrant with a damaged point and one without text."""
    made = mem0_source.make_databases(folder)
    with closing(sqlite3.connect(made / "collection/mem0/storage.sqlite")) as database:
        empty = pickle.dumps(mem0_source.PointStruct(id="b", payload={}))
        rows = [("a", b"\x80\x04damaged"), ("b", empty)]
        database.executemany("INSERT INTO points VALUES (?, ?)", rows)
        database.commit()
    return made


def documents(folder: Path) -> Path:
    """Write Agent Zero's memory with a document without text."""
    stored = {"x": agent_zero_source.Document("Tea."), "y": agent_zero_source.Document(" ")}
    write(folder, "memory/index.pkl", pickle.dumps(agent_zero_source.InMemoryDocstore(stored)))
    return write(folder, "memory/index.faiss", b"IxFI").parent


def gemini(folder: Path) -> Path:
    """Write a session with an invalid message."""
    asked = {"id": "1", "type": "user", "content": "Hi"}
    about = {"sessionId": "s", "projectHash": "p", "messages": [asked, "x"]}
    return write(folder, "session.json", json.dumps(about))


def opencode(folder: Path) -> Path:
    """Write a database with a damaged part of a message."""
    made = opencode_source.make(folder)
    with closing(sqlite3.connect(made / "opencode.db")) as database:
        database.execute("UPDATE part SET data = '{' WHERE id = 'prt_msg_ses_1_1_0'")
        database.commit()
    return made


def logseq(folder: Path) -> Path:
    """Write a graph with a page outside its folders, and a whiteboard."""
    made = logseq_source.make(folder)
    write(made, "more/page.md", "- more\n")
    write(made, "whiteboards/plan.edn", "{}")
    return made


@pytest.mark.parametrize(
    ("make", "kind", "listed"),
    [
        (
            bookmarks,
            "bookmarks",
            {
                ("Bookmarks, Nowhere", "has no URL"),
                ("Bookmarks, an entry in the folder Bar", "not a JSON object"),
            },
        ),
        (
            firefox,
            "bookmarks",
            {
                ("firefox.json, Nowhere", "has no URL"),
                ("firefox.json, an entry", "not a JSON object"),
            },
        ),
        (
            roam,
            "roam",
            {
                ("a.json, entry 2", "a page without a title"),
                ("a.json, entry 3", "not a JSON object"),
            },
        ),
        (
            graph,
            "mcp-memory",
            {
                ("b.jsonl", "another knowledge graph: import it separately"),
                ("a.jsonl, line 3", "neither an entity nor a relation"),
                ("a.jsonl, the relations of Gone", "there is no such entity"),
            },
        ),
        (
            mem0,
            "mem0",
            {
                ("the memory 1", "its text is empty"),
                ("a.json, entry 2", "not a JSON object"),
                ("b.json", "contains no memories"),
            },
        ),
        (points, "mem0", {("collection/mem0/storage.sqlite, point b", "has no text")}),
        (documents, "agent-zero", {("index.pkl, document 2", "has no text")}),
        (gemini, "gemini", {("session.json, message 2", "not a JSON object")}),
        (
            opencode,
            "opencode",
            {("opencode.db, part prt_msg_ses_1_1_0", "not a JSON object")},
        ),
        (
            logseq,
            "logseq",
            {("whiteboards/plan.edn", "a whiteboard, which has no text")},
        ),
    ],
)
def test_unknown_entry_is_reported(
    make: Any, kind: str, listed: set[tuple[str, str]], run: Run, folder: Path, tmp_path: Path
) -> None:
    """Every omitted entry that should be a note, or a part of one, is reported."""
    assert Imported(run, folder, make(tmp_path), kind).unreadable >= listed


def test_damaged_qdrant_point_does_not_affect_others(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    """The memories after an unreadable point are imported."""
    got = Imported(run, folder, points(tmp_path), "mem0")
    assert any("point a" in what for what, _ in got.unreadable)
    assert "dev" in got.text("Works on the API.md")


def test_claude_code_session_after_a_long_snapshot_is_imported(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    """A Claude Code file is recognized even if its first records are several thousand bytes."""
    asked = {
        "parentUuid": None,
        "sessionId": "s",
        "type": "user",
        "message": {"role": "user", "content": "Paint the fence"},
    }
    snapshot = {"type": "file-history-snapshot", "snapshot": "x" * 9_000}
    write(tmp_path, "shop/s.jsonl", f"{json.dumps(snapshot)}\n{json.dumps(asked)}\n")
    got = Imported(run, folder, tmp_path / "shop", "claude-code")
    assert "Paint the fence" in got.text("Paint the fence.md")
