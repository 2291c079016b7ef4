"""Small files that would take gigabytes or minutes to read, each in a program's format.

Each entry of ``ATTACKS`` has the function that writes a source, its import kind, and a note in the
source that must still be imported.
"""

from __future__ import annotations

import io
import json
import pickle
import sqlite3
import tarfile
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from conftest import write
from import_sources import zotero as zotero_source


class Attack(NamedTuple):
    """How a source is created, its import kind, and a string that must be imported."""

    kind: str
    make: Callable[[Path], Path]
    kept: str = ""


def _database(folder: Path, name: str, script: str) -> Path:
    with closing(sqlite3.connect(write(folder, f"db/{name}", b""))) as database:
        database.executescript(script)
        database.commit()
    return folder / "db"


_HUGE = "printf('%.*c', 400000000, 'x')"
_DOUBLED = ", ".join(f"c{n} TEXT AS (c{n - 1} || c{n - 1})" for n in range(1, 24))


def _generated_session(folder: Path) -> Path:
    return _database(
        folder,
        "opencode.db",
        f"""CREATE TABLE session (id TEXT, title TEXT, directory TEXT, time_created INT,
                time_updated INT, big TEXT AS ({_HUGE}));
            CREATE TABLE message (id TEXT, session_id TEXT, data TEXT);
            CREATE TABLE part (id TEXT, session_id TEXT, message_id TEXT, data TEXT);
            INSERT INTO session VALUES ('s', 'Wombats', '/w', 1, 2), ('t', 'Emus', '/w', 1, 2);
            INSERT INTO message VALUES ('m', 's', '{{"role": "user"}}');
            INSERT INTO part VALUES ('p', 's', 'm', '{{"type": "text", "text": "Wombats dig"}}');
        """,
    )


def _doubled_title(folder: Path) -> Path:
    return _database(
        folder,
        "memory.db",
        f"""CREATE TABLE entity (id INT, c0 TEXT, {_DOUBLED}, title TEXT AS (c23));
            CREATE TABLE observation (id INT, entity_id INT, category, content TEXT, context);
            CREATE TABLE relation (id INT, from_id INT, to_id INT, to_name TEXT,
                relation_type, context);
            INSERT INTO entity (id, c0) VALUES (1, 'xxxxxxxxxx');
        """,
    )


def _virtual(folder: Path) -> Path:
    return _database(
        folder,
        "history.db",
        """CREATE TABLE real (memory_id, new_memory, event, created_at, updated_at, is_deleted);
           CREATE VIEW history AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
               SELECT i AS memory_id, i AS new_memory, 'ADD' AS event, 0 AS created_at,
                      0 AS updated_at, 0 AS is_deleted FROM n;
        """,
    )


def _product(folder: Path) -> Path:
    """Write a database whose ids are not unique, so a join pairs every note with every item."""
    made = zotero_source.make(folder)
    with closing(sqlite3.connect(made if made.is_file() else made / "zotero.sqlite")) as database:
        for table in ("itemNotes", "items"):
            columns = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
            rows = database.execute(f"SELECT * FROM {table}").fetchall()
            database.execute(f"DROP TABLE {table}")
            database.execute(f"CREATE TABLE {table} ({', '.join(columns)})")
            marks = ", ".join("?" * len(columns))
            database.executemany(f"INSERT INTO {table} VALUES ({marks})", rows * 200)
        database.commit()
    return made


def _pickle(folder: Path, data: bytes) -> Path:
    write(folder, "memory/default/index.faiss", b"")
    write(folder, "memory/default/index.pkl", data)
    good = pickle.dumps({"1": {"page_content": "Wombats dig", "metadata": {"id": "w"}}})
    write(folder, "memory/other/index.faiss", b"")
    write(folder, "memory/other/index.pkl", good)
    return folder / "memory"


def _long_names(folder: Path) -> Path:
    text = b"x" * 50_000
    start = b"\x80\x04X" + len(text).to_bytes(4, "little") + text + b"q\x00"
    return _pickle(folder, start + b"h\x00h\x00\x93" * 20_000 + b".")


def _many_objects(folder: Path) -> Path:
    return _pickle(folder, b"\x80\x04" + b"}" * 5_000_000 + b".")


def _shared_lists(folder: Path) -> Path:
    """Nested lists whose text would double at each level."""
    levels = b"".join(b"(h%ch%cl\x94" % (n, n) for n in range(60))
    return _pickle(folder, b"\x80\x04]\x94" + levels + b"h\x3ch\x3c\x93.")


def _keep(folder: Path, **notes: str) -> Path:
    stamp = {"userEditedTimestampUsec": 1_700_000_000_000_000}
    for name, html in notes.items():
        note = {**stamp, "title": name, "textContentHtml": html}
        write(folder, f"Keep/{name}.json", json.dumps(note))
    write(folder, "Keep/kept.json", json.dumps({**stamp, "title": "k", "textContent": "Wombats"}))
    return folder / "Keep"


def _html(folder: Path) -> Path:
    size = 100_000
    return _keep(
        folder,
        attribute='<a b="' * size,
        comment="<!--" * size,
        instruction="<?" * size,
        end="</a" * size,
        declaration="<![x" * size,
        items="<ol>" + "<li>x" * (size // 5),
        rows="<table><thead>" + "<tr><td>x" * (size // 10),
        bodies="<table>" + "<tbody><tr><td>x</td></tr></tbody>" * (size // 40),
        wide="<table><tr>" + "<td colspan=1000>x" * size,
        deep="<ul><li>" * (size // 10),
        tags="<b>x</b>" * size,
    )


def _bookmarks(folder: Path) -> Path:
    head = "<!DOCTYPE NETSCAPE-Bookmark-file-1>\n<DL><p>\n<DT><A HREF='https://w.example/'>W</A>\n"
    nests = "".join(f"<DT><H3>{n}</H3><DL><p>" for n in range(3_000))
    text = head + nests + "".join(f"<DT><A HREF='https://{n}.ex/'>x</A>" for n in range(300))
    return write(folder, "bookmarks.html", text + '<a b="' * 100_000 + "<!--" * 100_000)


def _chats(folder: Path) -> Path:
    """Entries of kilobytes to megabytes, each excessive in a different way."""
    kept = {
        "uuid": "w", "name": "Wombats", "chat_messages": [{"sender": "human", "text": "They dig"}],
    }  # fmt: skip
    entries = [
        json.dumps(kept),
        "[" * 500_000 + "]" * 500_000,
        "[" + "{}," * 3_000_000 + "{}]",
        f'{{"chat_messages": [{{"text": {"9" * 100_000}}}]}}',
        f'{{"chat_messages": [{{"attachments": {"[" * 900}{"]" * 900}}}]}}',
    ]
    return write(folder, "conversations.json", f"[{', '.join(entries)}]")


def _table(folder: Path) -> Path:
    name = f"Export/Tasks {'1' * 32}"
    write(folder, f"{name}.csv", "," * 90_000 + "\n" + "x\n" * 90_000)
    write(folder, f"Export/Wombats {'2' * 32}.md", "# Wombats\n\nThey dig.\n")
    return folder / "Export"


def _blocks(folder: Path) -> Path:
    block = "12345678-1234-1234-1234-123456789012"
    write(folder, "graph/logseq/config.edn", "{}")
    write(folder, "graph/pages/a.md", f"- {'x' * 300_000}\n  id:: {block}\n")
    write(folder, "graph/pages/b.md", f"- (({block}))\n" * 20_000)
    write(folder, "graph/pages/c.md", "a:: b\n" * 300_000)
    write(folder, "graph/pages/Wombats.md", "- They dig\n")
    return folder / "graph"


def _notes(folder: Path) -> Path:
    begin = '<?xml version="1.0"?>\n<en-export>'
    note = "<note><title>Wombats</title><content>They dig</content></note>"
    tags = "<note><title>t</title>" + "<tag/>" * 500_000 + "</note>"
    deep = "<note><title>d</title>" + "<x>" * 50_000 + "</x>" * 50_000 + "</note>"
    write(folder, "notes/a.enex", f"{begin}{tags}{deep}{note}<note><title>u</title>")
    write(folder, "notes/b.enex", f'{begin}<note a="' + "x" * 20_000_000)
    return folder / "notes"


def _tar(folder: Path) -> Path:
    item = b"Wombats\n\nThey dig\n\nid: 1\ntype_: 1"
    with tarfile.open(write(folder, "notes.jex", b""), "w") as made:
        entry = tarfile.TarInfo(f"{'1' * 32}.md")
        entry.size = len(item)
        made.addfile(entry, io.BytesIO(item))
        for number in range(20_000):
            made.addfile(tarfile.TarInfo(f"{number:032x}.md"))
    return folder / "notes.jex"


def _document(folder: Path) -> Path:
    cells = b'<w:tc><w:tcPr><w:gridSpan w:val="99"/></w:tcPr><w:p/></w:tc>' * 100_000
    table = b"<w:tbl><w:tr>" + cells + b"</w:tr></w:tbl>"
    deep = b"<w:sdt>" * 200_000
    runs = b"<w:p><w:r><w:rPr><w:b/></w:rPr><w:t>x</w:t></w:r>" + b"<w:r/>" * 400_000 + b"</w:p>"
    bodies = {"a": table, "b": deep, "c": runs, "d": b"<w:p/>" * 900_000}
    for name, body in bodies.items():
        with zipfile.ZipFile(write(folder, f"docs/{name}.docx", b""), "w", 8) as made:
            begin, end = b'<w:document xmlns:w="w"><w:body>', b"</w:body></w:document>"
            made.writestr("word/document.xml", begin + body + end)
    write(folder, "docs/Wombats.md", "They dig\n")
    return folder / "docs"


def _super(folder: Path) -> Path:
    node: object = {"type": "text", "text": "x"}
    for _ in range(150):
        node = {"type": "list", "children": [{"type": "listitem", "children": [node]}]}
    wide = [{"type": "text", "text": "x", "format": 255}] * 200_000
    roots = (node, {"type": "root", "children": wide}, {"type": "text", "text": "They dig"})
    items = [
        {
            "uuid": f"n{number}",
            "content_type": "Note",
            "content": {"text": json.dumps({"root": root}), "noteType": "super"},
        }
        for number, root in enumerate(roots)
    ]
    return write(folder, "backup.txt", json.dumps({"version": "004", "items": items}))


def _bundle(folder: Path) -> Path:
    text = "# Wombats\n\nThey dig\n" + "#a b " * 100_000 + "~x " * 100_000 + "[[" * 100_000
    write(folder, "w.textbundle/text.md", text + "[image:" * 100_000 + "::a" * 100_000)
    write(folder, "w.textbundle/info.json", '{"version": 2, "net.shinyfrog.bear": {"pinned": 1}}')
    return folder / "w.textbundle"


ATTACKS: dict[str, Attack] = {
    "a generated column": Attack("opencode", _generated_session, "Wombats"),
    "columns that double": Attack("basic-memory", _doubled_title),
    "a view without end": Attack("mem0", _virtual),
    "a product of tables": Attack("zotero", _product),
    "long names in a pickle": Attack("agent-zero", _long_names, "Wombats"),
    "many objects in a pickle": Attack("agent-zero", _many_objects, "Wombats"),
    "shared lists in a pickle": Attack("agent-zero", _shared_lists, "Wombats"),
    "tags of HTML": Attack("keep", _html, "Wombats"),
    "a file of bookmarks": Attack("bookmarks", _bookmarks, "https://w.example/"),
    "entries of JSON": Attack("claude", _chats, "They dig"),
    "a table": Attack("notion", _table, "They dig"),
    "references to blocks": Attack("logseq", _blocks, "They dig"),
    "elements of XML": Attack("evernote", _notes, "They dig"),
    "entries of a tar": Attack("joplin", _tar, "They dig"),
    "cells of a document": Attack("word", _document, "They dig"),
    "nodes of an editor": Attack("standard-notes", _super, "They dig"),
    "marks of Bear": Attack("textbundle", _bundle, "They dig"),
}
