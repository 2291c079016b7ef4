"""Exports from other programs can be imported repeatedly, and undone as one change."""

from __future__ import annotations

import contextlib
import importlib
import json
import shutil
import stat
import tracemalloc
import zipfile
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

import made_secrets
from conftest import SOAK, Run, refused, sampled, succeeded, user_in, write
from import_sources import EMPTY_VAULT
from import_sources import chatgpt as chatgpt_source
from import_sources import claude_code as claude_code_source
from import_sources import folder as folder_source
from import_sources import mcp_memory as mcp_source
from imported import import_all, notes_in
from killing import Killing
from memvault import clock
from memvault.errors import MemvaultError
from memvault.importers import chatgpt, notion
from memvault.importers.applying import render_note
from memvault.importers.archives import open_source
from memvault.importers.detection import detect_format
from memvault.importers.formats import FORMATS
from memvault.importers.items import ImportedNote
from memvault.importers.planning import plan
from memvault.secrets.detector import BUILTIN
from terminal import at_terminal

_SESSION = "episode/2026-11-18 Orders are charged twice when the customer clicks fast.md"


@sampled(2)
@pytest.mark.parametrize("kind", [kind.name for kind in FORMATS])
def test_each_format_is_recognized_imported_once_and_undone(
    kind: str, run: Run, folder: Path, tmp_path: Path
) -> None:
    """A source's kind is detected; a second import changes nothing; undo reverts everything."""
    module = next(one.module_name for one in FORMATS if one.name == kind)
    made = importlib.import_module(f"import_sources.{module}").make(tmp_path)
    before = notes_in(folder)
    preview = succeeded(run("import", str(made), "--json")).json
    assert preview["kind"] == kind
    assert preview["imported"] is False
    assert notes_in(folder) == before
    found = import_all(run, made).json
    assert found["new"] == preview["new"] > 0
    after = notes_in(folder)
    again = import_all(run, made).json
    assert (again["new"], again["changed"], again["attachments"]) == (0, 0, 0)
    assert again["unchanged"] == found["new"]
    assert notes_in(folder) == after
    succeeded(run("undo"))
    assert notes_in(folder) == before


def test_folder_notes_are_unchanged(run: Run, folder: Path, tmp_path: Path) -> None:
    """A note keeps its header and links, records its origin, and outside links stay unchanged."""
    found = import_all(run, folder_source.make(tmp_path)).json
    assert found["unreadable"] == [
        {"what": "passwords.md", "reason": "a symbolic link, which is not followed"}
    ]
    notes = notes_in(folder)
    beta = notes["imported/notes/Beta.md"].decode()
    assert beta.startswith("---\ntags: [x] # mine\nsource: https://example.org\n")
    assert "imported_from: folder\nimported_id: Notes/Beta.md\n" in beta
    assert beta.endswith("---\n[[Nowhere]]\n")
    assert notes["imported/notes/pictures/plan.png"] == folder_source.PICTURE
    assert "Le café" in notes["imported/notes/C- notes.md"].decode()
    assert not any("app.json" in name or "passwords" in name for name in notes)
    shown = succeeded(run("show", "C# notes", "--json")).json
    assert shown["title"] == "C# notes"
    links = succeeded(run("links", "Home", "--json")).json
    assert [link["title"] for link in links["links"]] == ["Alpha"]


def test_second_import_updates_changed_and_keeps_edited_notes(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    """A second import writes notes that changed only in the source, and reports conflicts."""
    made = folder_source.make(tmp_path)
    import_all(run, made)
    write(made, "Beta.md", "Beta was rewritten.\n")
    write(made, "Home.md", "Home was rewritten.\n")
    write(made, "New.md", "A new note, see [[Beta]].\n")
    home = folder / "imported/notes/Home.md"
    home.write_text(home.read_text("utf-8") + "A line of mine.\n", "utf-8")
    found = import_all(run, made).json
    assert (found["new"], found["changed"], found["unchanged"]) == (1, 1, 2)
    assert found["edited"] == ["imported/notes/Home.md"]
    notes = notes_in(folder)
    assert b"Beta was rewritten." in notes["imported/notes/Beta.md"]
    assert b"A line of mine." in notes["imported/notes/Home.md"]
    succeeded(run("undo"))
    assert b"[[Nowhere]]" in notes_in(folder)["imported/notes/Beta.md"]


def test_mcp_memory_entities_become_linked_notes(run: Run, folder: Path, tmp_path: Path) -> None:
    """Observations are list items, relations links; a name without an entity remains as text."""
    found = import_all(run, mcp_source.make(tmp_path), "--to", "graph").json
    assert found["unreadable"] == [{"what": "memory.jsonl, line 5", "reason": "not a JSON object"}]
    notes = notes_in(folder)
    alice = notes["graph/Alice Smith.md"].decode()
    assert "tags: [person]" in alice
    assert "\n- Speaks Spanish\n- Graduated in 2019\n" in alice
    assert "\n- works_at [[Anthropic]]" in alice
    assert "\n- owns Gone" in notes["graph/Anthropic.md"].decode()


def test_zip_cannot_write_outside_the_vault(run: Run, folder: Path, tmp_path: Path) -> None:
    """Paths that climb, absolute paths and links in a zip are reported; the rest is imported."""
    with zipfile.ZipFile(tmp_path / "notes.zip", "w") as made:
        made.writestr("notes/fine.md", "# Fine\n")
        for name in ("../../evil.md", "/tmp/evil.md", "C:\\evil.md"):
            made.writestr(name, "evil")
        link = zipfile.ZipInfo("notes/link.md")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        made.writestr(link, "/etc/passwd")
    found = import_all(run, tmp_path / "notes.zip").json
    assert found["new"] == 1
    assert len(found["unreadable"]) == 4
    assert set(notes_in(folder)) == {"memvault.toml", "imported/notes/fine.md"}


def test_unknown_sources_and_kinds_are_refused(run: Run, tmp_path: Path) -> None:
    """Unrecognized and missing sources, unknown formats and outside folders are refused."""
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "Cannot tell what" in refused(run("import", str(empty)), 2)
    assert "no file or folder" in refused(run("import", str(tmp_path / "gone")), 1)
    write(empty, "a.md", "a")
    assert "format: 'foldr'" in refused(run("import", str(empty), "--from", "foldr"), 2)
    assert "outside the vault" in refused(run("import", str(empty), "--to", "../x"), 1)
    assert "would not be indexed" in refused(run("import", str(empty), "--to", "agents/x"), 2)
    listed = succeeded(run("import", "--kinds", "--json")).json
    assert [kind["name"] for kind in listed["kinds"]] == [kind.name for kind in FORMATS]


def test_import_shows_the_plan_and_asks(folder: Path, tmp_path: Path) -> None:
    """At a terminal the preview ends with a question; only yes imports."""
    made = str(folder_source.make(tmp_path))
    code, shown = at_terminal(folder, "import", made, answer="n\n")
    assert code == 0
    assert "4 new notes" in shown
    assert "Import it? [y/N]" in shown
    assert "Nothing was changed" in shown
    assert not (folder / "imported").exists()
    code, shown = at_terminal(folder, "import", made, answer="y\n")
    assert code == 0
    assert (folder / "imported/notes/Home.md").exists()


def imported(run: Run, folder: Path, made: Path, path: str) -> str:
    """Import a source, and return the text of a resulting note."""
    import_all(run, made)
    return notes_in(folder)[path].decode()


def test_session_episode_is_updated_as_it_grows(run: Run, folder: Path, tmp_path: Path) -> None:
    """The episode has requests, actions and decisions without secrets; recall finds it by date."""
    secret, _ = made_secrets.made("GitHub token")
    write_session = claude_code_source.write_session
    made = write_session(tmp_path, claude_code_source.lines(secret))
    text = imported(run, folder, made, _SESSION)
    assert "- Asked: Orders are charged twice" in text
    assert "- Changed src/pay.py\n" in text
    assert "- Ran pytest -q tests/test_pay.py (2 times), which failed at least once" in text
    assert "a retry has no idempotency key" in text
    assert text.endswith("## Reflection\n\n#### Done\n\nEach order has a key now.\n")
    assert secret not in text
    assert "[masked: " in text
    assert "subagent" not in text
    assert "Be brief" not in text
    write_session(tmp_path, [*claude_code_source.lines(secret), *claude_code_source.more()])
    assert import_all(run, made).json["changed"] == 1
    text = notes_in(folder)[_SESSION].decode()
    assert "We decided to keep the key for a day." in text
    assert "migrations/7.sql" in text
    found = succeeded(run("recall", "charged twice", "--since", "2026-11-18", "--json")).json
    assert found["memories"][0]["memoryType"] == "episode"
    shown = succeeded(run("episode", "recall", "orders charged twice", "--json")).json
    assert "Fix it" in shown["episodes"][0]["summary"]


FORMS = [
    ("codex", "make", "episode/2026-11-19 Round prices to cents.md", "Changed src/pay.py"),
    ("opencode", "make", "episode/2025-11-19 Tax of books.md", "Changed tax.py"),
    ("gemini", "make", "episode/2026-11-20 A changelog.md", "Changed CHANGELOG.md"),
    ("gemini", "make_object", "episode/2026-11-20 A changelog.md", "by hand"),
    ("chatgpt", "make", "imported/chatgpt/2026/2026-03-01 Cake 1.md", "![[file-AbC123xyz"),
    ("claude", "make", "imported/claude/projects/The shop/prices.md", "4 euro"),
    ("mem0", "make_databases", "imported/mem0/Likes green tea.md", "memory_type: fact"),
    ("mem0", "make_databases", "imported/mem0/Works on the API.md", "user_id: dev"),
    ("basic_memory", "make", "imported/basic-memory/drinks/Tea Brewing Methods.md", "Methods|"),
    ("basic_memory", "make_database", "imported/basic-memory/drinks/Coffee.md", "[[Tea]]"),
    ("claude_memory", "make", "imported/claude-memory/home-ana-shop/use-pnpm.md", "user-pref"),
    ("agent_zero", "make", "imported/agent-zero/default/Problem.md", "area: solutions"),
    ("mnemonics", "make", "architectural-decision/use-postgresql.md", "replicas"),
    ("notion", "make", "imported/notion/Home.md", "[the plan](Home/The%20plan.md)"),
    ("notion", "make", "imported/notion/Home/Tasks/Buy paint.md", "tags: [house, spring-work]"),
    ("notion", "make", "imported/notion/Home/Tasks/Buy paint.md", "created: 2026-11-03T09:15"),
    ("notion", "make", "imported/notion/Home/Tasks.md", "| Old | done |"),
    ("evernote", "make", "imported/evernote/Receipt & co.md", "Paid by **card**."),
    ("evernote", "make", "imported/evernote/Receipt & co.md", "- [x] scan it\n- [ ] file it"),
    ("evernote", "make", "imported/evernote/Receipt & co.md", "![[receipt.png]]"),
    ("keep", "make", "imported/keep/Shelf.md", "- [x] screws\n- [ ] oil"),
    ("keep", "make", "imported/keep/Shelf.md", "![[Keep/shelf.jpg]]"),
    ("keep", "make", "imported/keep/The lamp takes E14.md", "created: 2025-11-03T"),
    ("apple_notes", "make", "imported/apple-notes/Garden.md", "sketch.png]]"),
    ("apple_notes", "make", "imported/apple-notes/Work/Ideas.md", "A shed."),
    ("apple_notes", "make_markdown", "imported/apple-notes/Garden/Garden.md", "sketch.png"),
    ("joplin", "make", "imported/joplin/Garden/Hives/Bees.md", "[[Honey\\|h]] | gone |"),
    (
        "joplin",
        "make_raw",
        "imported/joplin/Wax the frames.md",
        "- [x] Wax the frames 📅 2026-",
    ),
    ("standard_notes", "make", "imported/standard-notes/Weaving.md", "- [ ] weft\n  - blue"),
    ("standard_notes", "make", "imported/standard-notes/Plain.md", "[home/big-loom, pin"),
    ("standard_notes", "make_encrypted", "imported/standard-notes/Plain.md", "\\# no heading"),
    ("textbundle", "make", "imported/textbundle/Fox-den.md", "[[Hen#The house|house]]"),
    ("textbundle", "make_pack", "imported/textbundle/Letter.md", "(assets/Letter/a.png) ~x~"),
    ("textbundle", "make_folder", "imported/textbundle/Drafts/Poem.md", "\\# not a heading"),
    ("word", "make", "imported/word/Boats.md", "1. Sand\n   - fine\n2. Paint"),
    ("word", "make_folder", "imported/word/Sea/Boats.md", "`x = [1]`[oil](https://boats"),
    (
        "apple_notes",
        "make",
        "imported/apple-notes/Work/Shed-2.md",
        "Then ![[Shed/Attachment.png]]",
    ),
    ("apple_notes", "make_markdown", "imported/apple-notes/Lamp.md", "It takes E14."),
    ("simplenote", "make", "imported/simplenote/shopping-1.md", "- [x] screws\n\nAsk Ana."),
    ("bookmarks", "make", "imported/bookmarks/green-tea.md", "tags: [Tea-shops, green, hot]"),
    ("bookmarks", "make_chrome", "imported/bookmarks/Green tea.md", "created: 2025-11-03T"),
    ("bookmarks", "make_firefox", "imported/bookmarks/Green tea.md", "tags: [Tea-shops, hot]"),
    ("logseq", "make", "imported/logseq/pages/recipes/bread.md", "aliases: [Loaf"),
    (
        "logseq",
        "make",
        "imported/logseq/journals/2026-11-03.md",
        "bake, see “Let it rest.”",
    ),
    ("dendron", "make", "imported/dendron/vault/proj.site.md", "[[proj.design|the design]]"),
    ("dendron", "make", "imported/dendron/vault/proj.site.md", "created: 2025-11-03T"),
    ("roam", "make", "imported/roam/Bees.md", "## Care\n\n- [ ] check the ==frames=="),
    ("roam", "make", "imported/roam/daily/2026-11-03.md", "[[Bees]] #bee-house"),
    ("zotero", "make", "imported/zotero/Waggle dance.md", "Frisch, The Bees, 1967"),
    ("zotero", "make", "imported/zotero/Annotations of The Bees.md", "(p. 12)"),
]
"""The module and function that write a source, a note's path in the vault, and its text."""


@pytest.mark.parametrize(
    ("source", "make"), list(dict.fromkeys((source, make) for source, make, _, _ in FORMS))
)
@pytest.mark.usefixtures("in_utc")
def test_each_variant_of_a_format_is_converted(
    source: str, make: str, run: Run, folder: Path, tmp_path: Path
) -> None:
    """Each variant of a program's format is read, and the notes are where the guide says."""
    import_all(run, getattr(importlib.import_module(f"import_sources.{source}"), make)(tmp_path))
    notes = notes_in(folder)
    for path, text in (form[2:] for form in FORMS if form[:2] == (source, make)):
        assert text in notes[path].decode(), path
    assert not (tmp_path / "trapped").exists()  # no pickle was executed


@pytest.mark.parametrize(
    ("text", "local"),
    [
        ("November 3, 2026 9:15 AM", "2026-11-03 09:15"),
        ("November 3, 2026 12:05 AM", "2026-11-03 00:05"),
        ("November 3, 2026 12:05 PM", "2026-11-03 12:05"),
        ("3. November 2026 21:15", "2026-11-03 21:15"),
        ("2026-11-03 09:15", "2026-11-03 09:15"),
    ],
)
@pytest.mark.parametrize("place", ["UTC", "America/New_York", "Pacific/Kiritimati"])
def test_notion_times_are_local(text: str, local: str, place: str) -> None:
    """Notion's times, which are in the user's time zone, are imported to the minute."""
    with user_in(place):
        assert notion._time(text) == clock.iso(clock.parse(local, ZoneInfo(place)))
        assert notion._time("November 3, 2026") == "2026-11-03T00:00:00.000Z"
        assert notion._time("November 3, 2026 29:15") == ""


def test_readable_part_of_broken_export_is_imported(run: Run, folder: Path, tmp_path: Path) -> None:
    """The complete conversations of a truncated array are imported, with a reason for the rest."""
    whole = json.dumps([chatgpt_source.conversation(number) for number in range(4)])
    write(tmp_path, "conversations.json", whole[: len(whole) * 3 // 5])
    found = import_all(run, tmp_path / "conversations.json").json
    assert found["new"] == 2
    assert [one["what"] for one in found["unreadable"]] == ["conversations.json"]


def test_export_is_read_one_entry_at_a_time(tmp_path: Path) -> None:
    """Memory does not grow with the export: 18 MB are planned in less than 6 MB."""
    answer = "flour " * 20_000
    with (tmp_path / "conversations.json").open("w") as file:
        file.write("[")
        for number in range(150):
            file.write("," * bool(number) + json.dumps(chatgpt_source.conversation(number, answer)))
        file.write("]")
    source = open_source(str(tmp_path / "conversations.json"))
    tracemalloc.start()
    made = plan(chatgpt.read(source), "chatgpt", "", EMPTY_VAULT)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(made.notes) == 150
    assert peak < 6 << 20


_KINDS_BY_NAME = {kind.name: kind for kind in FORMATS}
_TOKENS = [b"{", b"[", b'"', b"null", b"1e999", b"\0", b"\xff", b"[[", b"---\n", b"[]", b'{"a": 7}']
_EDITS = st.lists(
    st.tuples(
        st.floats(0, 1), st.integers(0, 40), st.sampled_from(_TOKENS) | st.binary(max_size=9)
    ),
    min_size=1,
    max_size=5,
)


@pytest.mark.parametrize("kind", list(_KINDS_BY_NAME))
def test_damaged_source_is_refused_or_reported(
    kind: str, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    """A damaged source is refused with a one-sentence error, or its undamaged part is imported."""
    row = _KINDS_BY_NAME[kind]
    made = importlib.import_module(f"import_sources.{row.module_name}").make(tmp_path)
    files = [made] if made.is_file() else [path for path in made.rglob("*") if path.is_file()]

    @given(st.data())
    def damaged(data: st.DataObject) -> None:
        file = data.draw(st.sampled_from(sorted(files)))
        whole = file.read_bytes()
        text = whole
        for place, length, new in data.draw(_EDITS):
            at = int(place * len(text))
            text = text[:at] + new + text[at + length :]
        try:
            file.write_bytes(text)
            with (
                contextlib.suppress(MemvaultError),
                contextlib.closing(open_source(str(made))) as source,
            ):
                detect_format(source)
                planned = plan(row.read(source), kind, "x", EMPTY_VAULT)
                for item in row.read(source):
                    if isinstance(item, ImportedNote) and item.key in planned.notes:
                        render_note(item, kind, f"x/{item.path}", planned.names, BUILTIN)
        finally:
            file.write_bytes(whole)

    damaged()


_IMPORTING = """
from pathlib import Path
from memvault.importers import formats
from memvault.importers.applying import apply
from memvault.importers.planning import plan
from memvault.importers.archives import open_source
from memvault.importers.state import vault_state
from memvault.settings.vault_settings import load_settings
from memvault.store.change_set import ChangeSet
from memvault.store.memory_store import MemoryStore

KIND = formats.find_format("folder")

def work(root):
    store = MemoryStore(root, load_settings(root), ChangeSet("import", "main"))
    source = open_source(str(root.parent / "Notes"))
    files = [path.relative_to(root).as_posix() for path in root.glob("imported/**/*.md")]
    state = vault_state(store, map(store.read, files), KIND.name)
    made = plan(KIND.read(source), KIND.name, KIND.folder, state)
    assert not apply(store, made, KIND.read(source))
"""


@sampled(1)
def test_killed_import_is_completed_by_the_next(run: Run, folder: Path, tmp_path: Path) -> None:
    """After a kill before any change, no note is partial or duplicate, and undo reverts all."""
    made = folder_source.make(tmp_path)
    before = notes_in(folder)
    import_all(run, made)
    after = notes_in(folder)
    number = 0
    with Killing(folder, _IMPORTING) as importing:
        while True:
            for name in ("imported", ".memvault"):
                shutil.rmtree(folder / name)
            number += 1 if SOAK else 4
            if not importing.at(number):
                break
            left = notes_in(folder)
            assert {name: after.get(name) for name in left} == left
            assert not importing.at(1_000)
            assert notes_in(folder) == after
            (folder / ".memvault").mkdir(exist_ok=True)
    assert number > 30
    import_all(run, made)
    while run("undo", "--json").code == 0:
        pass
    assert notes_in(folder) == before
