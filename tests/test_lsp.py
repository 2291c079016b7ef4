"""The language server over real standard input and output."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from conftest import Run, note_texts, only_with, succeeded, write
from lsp_client import LspClient, offset, position, range_text
from made_documents import pptx
from made_secrets import made

pytestmark = only_with("pygls", "lsprotocol", extra="lsp")

TOKEN = made("GitHub token")[1]
PG = f"""---
id: pg-abc123
memory_type: decision
tags: [db, sql/fast]
aliases: [Postgres]
area: storage
---

# Use PostgreSQL

It stores JSON. {TOKEN}

## Why 😀 not

Reasons. ^why1
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A vault with notes that link to each other."""
    root = tmp_path_factory.mktemp("lsp") / "vault"
    write(root, "memvault.toml", 'version = 1\nignore = ["README.md"]\n')
    write(root, "decision/pg.md", PG)
    write(root, "a.md", "# Alpha\n\n😀 [[Use PostgreSQL#Why 😀 not|pg]] [rel](decision/pg.md)\n")
    write(root, "b.md", "---\nsupersedes: pg-abc123\n---\n\n# Beta\n\nSee [[Postgres]].\n")
    write(root, "pictures/x.png", b"\x89PNG")
    write(root, "README.md", "# Read me\n\n[[Nowhere]]\n")
    return root


def labels(completions: Any) -> list[str]:
    """Return the labels of completions."""
    return [item["label"] for item in completions["items"]]


def completed(editor: LspClient, path: str, text: str) -> Any:
    """Return the completions at ``¦`` in an unsaved text."""
    editor.open(path, text.replace("¦", ""))
    place = position(text, text.index("¦"))
    uri = editor.uri(path)
    return editor.request("textDocument/completion", textDocument={"uri": uri}, position=place)


def chosen(editor: LspClient, path: str, text: str, label: str) -> str:
    """Return a text after choosing a completion at ``¦``."""
    items = completed(editor, path, text)["items"]
    edit = next(item["textEdit"] for item in items if item["label"] == label)
    bare = text.replace("¦", "")
    start, end = (offset(bare, edit["range"][name]) for name in ("start", "end"))
    return f"{bare[:start]}{edit['newText']}{bare[end:]}"


@pytest.mark.parametrize(
    ("typed", "label", "result"),
    [
        ("see [[use p¦", "Use PostgreSQL", "see [[Use PostgreSQL]]"),
        ("😀😀 [[use p¦]] end", "Use PostgreSQL", "😀😀 [[Use PostgreSQL]] end"),
        ("[[postgres¦", "Postgres", "[[Use PostgreSQL|Postgres]]"),
        ("[[decision/¦", "decision/pg", "[[Use PostgreSQL]]"),
        ("[[Use PostgreSQL#w¦", "Why 😀 not", "[[Use PostgreSQL#Why 😀 not]]"),
        ("[[Use PostgreSQL#^¦]]", "why1", "[[Use PostgreSQL#^why1]]"),
        ("[[Use PostgreSQL^w¦]]", "why1", "[[Use PostgreSQL^why1]]"),
        ("# Own\n\n[[#o¦", "Own", "# Own\n\n[[#Own]]"),
        ("a #sq¦", "sql/fast", "a #sql/fast"),
        ("---\nmemory_type: dec¦\n---\n", "decision", "---\nmemory_type: decision\n---\n"),
        ("---\ntags: [x, s¦]\n---\n", "sql/fast", "---\ntags: [x, sql/fast]\n---\n"),
        ("---\ntags:\n  - s¦\n---\n", "sql/fast", "---\ntags:\n  - sql/fast\n---\n"),
        ("---\nsupers¦\n---\n", "supersedes", "---\nsupersedes: \n---\n"),
        ("---\narea: ¦\n---\n", "storage", "---\narea: storage\n---\n"),
        ("---\r\nar¦\r\n---\r\n", "area", "---\r\narea: \r\n---\r\n"),
        (
            "---\nsupersedes: use¦\n---\n",
            "Use PostgreSQL",
            '---\nsupersedes: "[[Use PostgreSQL]]"\n---\n',
        ),
        ("---\nmemory_type: dec¦", "decision", "---\nmemory_type: decision"),
    ],
)
def test_completion_inserts_the_chosen_name(
    editor: LspClient, typed: str, label: str, result: str
) -> None:
    """Links, headings, blocks, tags and headers are completed in an unsaved text."""
    assert chosen(editor, "a.md", typed, label) == result


@pytest.mark.parametrize("text", ["`[[us¦`", "```\n#s¦\n```", "#¦", "[[a|b¦", "a[¦"])
def test_completion_is_empty_in_code_labels_and_headings(editor: LspClient, text: str) -> None:
    """There are no completions where no name can follow."""
    assert not (completed(editor, "a.md", text) or {}).get("items")


def test_ambiguous_title_is_completed_by_path(editor: LspClient, root: Path) -> None:
    """A memory whose title is ambiguous is completed by its path."""
    for name in ("one", "two"):
        write(root, f"same/{name}.md", "# Twin\n")
    items = completed(editor, "a.md", "[[twin¦")["items"]
    assert {item["textEdit"]["newText"] for item in items} == {"same/one]]", "same/two]]"}
    shutil.rmtree(root / "same")
    assert not completed(editor, "a.md", "[[twin¦")["items"]


@pytest.mark.promise("S108")
def test_secrets_are_never_completed(editor: LspClient, root: Path) -> None:
    """A title or value that is a secret is not listed."""
    write(root, "secret.md", f"---\nkey: {TOKEN}\ntags: [{TOKEN}]\n---\n\n# {TOKEN}\n")
    for text in ("[[g¦", "a #g¦", "---\nkey: ¦\n---\n", "---\ntags: [g¦\n---\n"):
        assert TOKEN not in json.dumps(completed(editor, "a.md", text))
    (root / "secret.md").unlink()


@pytest.mark.promise("S108")
def test_hover_shows_the_beginning_without_secrets(editor: LspClient, root: Path) -> None:
    """Hovering over a link shows title, type, tags and text, as a code block, secrets masked."""
    write(root, "c.md", "[[pg]] [[Nothing]] [[fence]]\n")
    write(root, "fence.md", "# Fence\n\n````\n![](http://127.0.0.1/x.png)\n````\n\u202ex\n")
    editor.open("c.md")
    shown = editor.hover("c.md", "[[p¦g]]")
    assert shown.startswith("```text\nUse PostgreSQL\ndecision  #db #sql/fast")
    assert "It stores JSON. [masked: GitHub token]" in shown
    assert TOKEN not in shown
    assert editor.request("textDocument/hover", **editor.at("c.md", "[[Noth¦ing]]")) is None
    fenced = editor.hover("c.md", "[[fen¦ce]]")
    assert fenced.startswith("`````text\n")
    assert fenced.endswith("\n`````")
    assert "\u202e" not in fenced
    write(root, "decision/pg.md", PG.replace("area:", "secrets: allowed\narea:"))
    assert TOKEN in editor.hover("c.md", "[[p¦g]]")
    write(root, "decision/pg.md", PG)
    for name in ("c.md", "fence.md"):
        (root / name).unlink()


def test_hover_begins_at_the_linked_heading(editor: LspClient) -> None:
    """A link to a heading shows the text below that heading."""
    editor.open("a.md")
    shown = editor.hover("a.md", "[[Use Post¦greSQL#")
    assert "markdown\n## Why 😀 not\n\nReasons." in shown


def test_unsaved_texts_replace_files(editor: LspClient) -> None:
    """Names, links and texts of open files are the unsaved ones, and closing restores the file."""
    changed = PG.replace("Use PostgreSQL", "Use SQLite").replace("JSON", "rows")
    editor.open("decision/pg.md", changed)
    editor.open("a.md", "[[Use SQLite]] [[Use PostgreSQL]]\n")
    assert "It stores rows." in editor.hover("a.md", "[[Use SQ¦Lite]]")
    old = editor.at("a.md", "[[Use Post¦greSQL]]")
    assert editor.request("textDocument/hover", **old) is None
    assert labels(completed(editor, "b.md", "[[use¦")) == ["Use SQLite"]
    found = editor.request("workspace/symbol", query="Use SQLite")
    assert "Use SQLite" in [symbol["name"] for symbol in found]
    editor.close("decision/pg.md")
    assert "It stores JSON." in editor.hover("a.md", "[[Use Post¦greSQL]]")


def test_unsaved_new_file_can_be_linked(editor: LspClient, root: Path) -> None:
    """A new file in the editor can be linked to before it exists."""
    editor.open("new/idea.md", "# Fresh idea\n\n[[Use PostgreSQL]]\n")
    assert labels(completed(editor, "a.md", "[[fresh¦")) == ["Fresh idea"]
    editor.open("decision/pg.md")
    found = references(editor, "decision/pg.md", "It sto¦res")
    assert ("new/idea.md", "[[Use PostgreSQL]]") in found
    assert not (root / "new").exists()


def test_external_change_is_visible_at_next_request(editor: LspClient, root: Path) -> None:
    """Completion offers a file that another program wrote, without a notification."""
    assert not completed(editor, "a.md", "[[gamma¦")["items"]
    write(root, "gamma.md", "# Gamma\n")
    assert labels(completed(editor, "a.md", "[[gamma¦")) == ["Gamma"]
    (root / "gamma.md").unlink()
    assert not completed(editor, "a.md", "[[gamma¦")["items"]


def defined(editor: LspClient, path: str, marked: str) -> tuple[str, int] | None:
    """Return the path and line that a link leads to."""
    place = editor.request("textDocument/definition", **editor.at(path, marked))
    return place and (editor.path(place["uri"]), place["range"]["start"]["line"])


def test_definition_follows_every_kind_of_link(editor: LspClient) -> None:
    """Wiki links, markdown links, header names, headings, blocks and attachments are followed."""
    text = "---\nsupersedes: [Postgres]\n---\n[[pg]] [[pg#why not]] [[pg#^why1]] [[none]]\n"
    more = "[a](decision/pg.md) [b](b.md#x) ![](pictures/x.png) [w](http://a.b)\n"
    editor.open("a.md", f"{text}{more}## Sub\n[[#sub]] [[#^own]]\n\nText ^own\n\n![[x.png|9]]\n")
    assert defined(editor, "a.md", "[[x.p¦ng") == ("pictures/x.png", 0)
    assert defined(editor, "a.md", "[[#s¦ub") == ("a.md", 5)
    assert defined(editor, "a.md", "[[#^o¦wn") == ("a.md", 8)
    answer = editor.ask("textDocument/prepareRename", **editor.at("a.md", "[[#s¦ub"))
    assert "There is nothing to rename here" in answer["error"]["message"]
    assert defined(editor, "a.md", "[Post¦gres]") == ("decision/pg.md", 0)
    assert defined(editor, "a.md", "[[p¦g]]") == ("decision/pg.md", 0)
    assert defined(editor, "a.md", "[[pg#wh¦y") == ("decision/pg.md", 12)
    assert defined(editor, "a.md", "[[pg#^wh¦y1") == ("decision/pg.md", 14)
    assert defined(editor, "a.md", "(decision/p¦g.md)") == ("decision/pg.md", 0)
    assert defined(editor, "a.md", "[b¦](b.md") == ("b.md", 0)
    assert defined(editor, "a.md", "(pictures/¦x") == ("pictures/x.png", 0)
    assert defined(editor, "a.md", "[[no¦ne") is None
    assert defined(editor, "a.md", "http://¦a") is None


@only_with("pypdfium2", extra="documents")
def test_link_to_document_opens_it_and_shows_its_slide(tmp_path: Path) -> None:
    """A link to a slide opens the file at its beginning, and hovering over it shows that slide."""
    deck = pptx([("Agenda", "Welcome"), ("Otters", "They eat crayfish")])
    write(tmp_path / "vault", "memvault.toml", "version = 1\n")
    write(tmp_path / "vault", "deck.pptx", deck)
    write(tmp_path / "vault", "c.md", "[[deck.pptx#page=2]]\n")
    with LspClient(tmp_path / "vault") as editor:
        editor.open("c.md", "[[deck.pptx#page=2]] changed\n")
        assert defined(editor, "c.md", "[[deck¦") == ("deck.pptx", 0)
        shown = editor.request("textDocument/hover", **editor.at("c.md", "[[deck¦"))
        assert "crayfish" in shown["contents"]["value"]
        assert "Welcome" not in shown["contents"]["value"]
        (symbol,) = editor.request("workspace/symbol", query="crayfish")[:1]
        assert symbol["location"]["uri"].endswith("deck.pptx")
        assert symbol["location"]["range"]["start"]["line"] == 0
        answer = editor.ask("textDocument/prepareRename", **editor.at("c.md", "[[deck¦"))
        assert "deck.pptx is a document" in answer["error"]["message"]
        assert editor.exit() == 0
    assert (tmp_path / "vault/deck.pptx").read_bytes() == deck


def references(editor: LspClient, path: str, marked: str) -> set[tuple[str, str]]:
    """Return the path and text of each reference."""
    places = editor.request(
        "textDocument/references", **editor.at(path, marked, context={"includeDeclaration": False})
    )
    found = set()
    for place in places:
        name = editor.path(place["uri"])
        text = editor.texts.get(place["uri"]) or (editor.folder / name).read_text("utf-8")
        found.add((name, range_text(text, place["range"])))
    return found


def test_references_include_all_backlinks(editor: LspClient) -> None:
    """In text, all links to the memory are found; on a heading or link, those to its target."""
    editor.open("decision/pg.md")
    to_heading = ("a.md", "[[Use PostgreSQL#Why 😀 not|pg]]")
    everything = {
        to_heading,
        ("a.md", "[rel](decision/pg.md)"),
        ("b.md", "[[Postgres]]"),
        ("b.md", "pg-abc123"),
    }
    assert references(editor, "decision/pg.md", "It sto¦res") == everything
    assert references(editor, "decision/pg.md", "## Wh¦y") == {to_heading}
    editor.open("b.md")
    assert references(editor, "b.md", "[[Post¦gres") == everything
    editor.open("a.md")
    assert references(editor, "a.md", "[[Use Post¦gre") == {to_heading}


_FORMS = ("[[Old]]", "[[note/old|o]]", "[o](note/old.md#x)", "😀 [[old#Part]] [[Old]]")


@pytest.fixture
def linked(tmp_path: Path) -> Path:
    """A vault for renames, with links of each form to one memory, in headers and texts."""
    root = tmp_path / "linked"
    write(root, "memvault.toml", "version = 1\n")
    old = "---\nid: old-abc123\ncreated: 2026-01-01\n---\n\n# Old\n\n[x](a.md)\n"
    write(root, "note/old.md", old)
    write(root, "note/a.md", "# A\n")
    for number in range(40):
        name = _FORMS[number % len(_FORMS)]
        head = "---\nsupersedes: Old\n---\n" if number % 5 == 0 else ""
        line = "\r\n" if number % 7 == 0 else "\n"
        text = f"{head}# N{number}\n\n{name} end\n`[[Old]]`\n"
        write(root, f"n{number}.md", text.replace("\n", line))
    return root


@pytest.mark.parametrize("new", ["New name", "archive/deep/new.md"])
def test_rename_edit_matches_rename_command(
    linked: Path, tmp_path: Path, run: Run, new: str
) -> None:
    """A rename has the result of `memvault rename` for links of each form, and writes nothing."""
    other = Path(shutil.copytree(linked, tmp_path / "other"))
    before = note_texts(linked)
    with LspClient(linked) as editor:
        editor.open("n1.md")
        edit = editor.request(
            "textDocument/rename", **editor.at("n1.md", "[[note/o¦ld", newName=new)
        )
        texts = before | editor.applied(edit)
        del texts["note/old.md"]
    assert note_texts(linked) == before
    option = ["--to", new] if new.endswith(".md") else [new]
    command = ["--vault", str(other), "rename", "Old", *option]
    preview = succeeded(run(*command, "--json"))
    succeeded(run(*command, "--confirm", json.loads(preview.out)["confirmToken"]))
    assert without_times(texts) == without_times(note_texts(other))


def without_times(texts: dict[str, str]) -> dict[str, list[str]]:
    """Return the lines of texts except those with the time of the change."""
    return {
        path: [line for line in text.split("\n") if not line.startswith("modified:")]
        for path, text in texts.items()
    }


def test_rename_keeps_unsaved_changes(linked: Path) -> None:
    """Links in unsaved texts are renamed there, and only lines with links are edited."""
    with LspClient(linked) as editor:
        editor.open("n1.md", "# Changed\n\n[[Old]] [[old|x]]\nmore\n")
        crlf = (linked / "n14.md").read_bytes().decode().replace("\r\n", "\n")
        editor.open("n14.md", crlf)  # as Neovim 0.7 passes it
        editor.open("note/old.md", "# Old\n\nunsaved\n")
        place = editor.at("note/old.md", "# O¦ld")
        edit = editor.request("textDocument/rename", **place, newName="New")
        texts = editor.applied(edit)
        assert texts["n1.md"] == "# Changed\n\n[[new]] [[new|x]]\nmore\n"
        assert "# New\n\nunsaved\n" in texts["note/new.md"]
        assert texts["n14.md"] == crlf.replace("note/old.md", "note/new.md")
        changes = {c["textDocument"]["uri"]: c for c in edit["documentChanges"] if "edits" in c}
        assert len(changes[editor.uri("n14.md")]["edits"]) == 1


def test_rename_changes_open_title_and_reports_errors(editor: LspClient) -> None:
    """The title can be renamed in place, and an impossible rename is explained in one sentence."""
    editor.open("decision/pg.md")
    at_title = editor.at("decision/pg.md", "# Use Post¦greSQL")
    prepared = editor.request("textDocument/prepareRename", **at_title)
    assert range_text(PG, prepared["range"]) == "Use PostgreSQL"
    edit = editor.request("textDocument/rename", **at_title, newName="Use SQLite")
    texts = editor.applied(edit)
    assert "# Use SQLite\n" in texts["decision/pg.md"]
    assert "[[Use SQLite#Why 😀 not|pg]]" in texts["a.md"]
    for name, place, reason in (
        ("x", "It sto¦res", "There is nothing to rename here"),
        ("../x.md", "# Use Post¦gre", "outside the vault"),
        ("b.md", "# Use Post¦gre", "b.md already exists"),
        (" ", "# Use Post¦gre", ""),
    ):
        answer = editor.ask(
            "textDocument/rename", **editor.at("decision/pg.md", place, newName=name)
        )
        assert reason in answer.get("error", {"message": ""})["message"]


def test_rename_without_file_operations_changes_title_only(linked: Path) -> None:
    """An editor that cannot rename files renames only the title; moving a file updates links."""
    capabilities = {
        "workspace": {"workspaceEdit": {}, "fileOperations": {"willRename": True}},
        "general": {"positionEncodings": ["utf-8"]},
    }
    with LspClient(linked, capabilities=capabilities) as editor:
        operations = editor.server_capabilities["workspace"]["fileOperations"]
        assert operations["willRename"]["filters"]
        uris = {"oldUri": editor.uri("note/old.md"), "newUri": editor.uri("far/old.md")}
        edit = editor.request("workspace/willRenameFiles", files=[uris])
        texts = editor.applied(edit, "utf-8")
        editor.open("note/old.md")
        place = editor.at("note/old.md", "# O¦ld")
        titled = editor.request("textDocument/rename", **place, newName="New")
        assert "# New\n" in editor.applied(titled, "utf-8")["note/old.md"]
        refused = editor.ask("textDocument/rename", **place, newName="x/new.md")
        assert "cannot rename files" in refused["error"]["message"]
    assert texts["note/old.md"].endswith("[x](../note/a.md)\n")
    assert texts["n2.md"] == "# N2\n\n[o](far/old.md#x) end\n`[[Old]]`\n"
    assert "n3.md" not in texts


def test_symbols_are_headings_and_recalled_memories(editor: LspClient) -> None:
    """Headings are nested symbols, and memories are found by recall."""
    editor.open("decision/pg.md")
    uri = {"uri": editor.uri("decision/pg.md")}
    (title,) = editor.request("textDocument/documentSymbol", textDocument=uri)
    assert title["name"] == "Use PostgreSQL"
    assert [child["name"] for child in title["children"]] == ["Why 😀 not"]
    found = editor.request("workspace/symbol", query="which database stores json")
    places = {symbol["name"]: symbol["location"]["uri"] for symbol in found}
    assert places["Use PostgreSQL"] == uri["uri"]
    assert {s["name"] for s in editor.request("workspace/symbol", query="")} >= {"Alpha", "Beta"}


def test_links_distinguish_names_by_case(tmp_path: Path) -> None:
    """Completion and definitions distinguish memories whose names differ only in case."""
    root = tmp_path / "vault"
    write(root, "memvault.toml", "version = 1\n")
    for path in ("a b.md", "A B.md"):
        write(root, path, "Text.\n")
    with LspClient(root) as editor:
        editor.open("from.md", "[[a b]] [[A B]]\n")
        assert defined(editor, "from.md", "[[a¦ b") == ("a b.md", 0)
        assert defined(editor, "from.md", "[[A¦ B") == ("A B.md", 0)
        names = set(labels(completed(editor, "from.md", "[[a b¦")))
        assert names == {"a b", "A B"}
        for name in names:
            assert chosen(editor, "from.md", "[[a b¦", name) == f"[[{name}]]"


def test_block_id_is_not_part_of_its_heading(tmp_path: Path) -> None:
    """A block id at the end of a heading is a separate link target, not part of the heading."""
    root = tmp_path / "vault"
    write(root, "memvault.toml", "version = 1\n")
    write(root, "b.md", "# Bees ^bees\n\nHum.\n\n## Nest box ^box1\n\nDry.\n")
    write(root, "a.md", "[[Bees#nest box ^box1]]\n[[Bees#^box1]]\n[[b#box1]]\n[[Bees]] [[b]]\n")
    with LspClient(root) as editor:
        editor.open("b.md")
        editor.open("a.md")
        assert defined(editor, "a.md", "[[Bees#ne¦st") == ("b.md", 4)
        assert defined(editor, "a.md", "[[Bees#^bo¦x1") == ("b.md", 4)
        to_block = ("a.md", "[[Bees#^box1]]")
        assert references(editor, "a.md", "[[Bees#^bo¦x1") == {to_block}
        to_heading = ("a.md", "[[Bees#nest box ^box1]]")
        assert references(editor, "b.md", "## Nest¦ box") == {to_block, to_heading}
        everything = {to_block, to_heading, *(("a.md", f"[[{name}]]") for name in ("b#box1", "b"))}
        assert references(editor, "b.md", "# Be¦es") == everything | {("a.md", "[[Bees]]")}
        uri = {"uri": editor.uri("b.md")}
        (title,) = editor.request("textDocument/documentSymbol", textDocument=uri)
        assert title["name"] == "Bees"
        assert [child["name"] for child in title["children"]] == ["Nest box"]
        assert chosen(editor, "a.md", "[[Bees#n¦", "Nest box") == "[[Bees#Nest box]]"
        assert chosen(editor, "a.md", "[[Bees#^b¦", "box1") == "[[Bees#^box1]]"


def test_diagnostics_report_problems_in_unsaved_text(editor: LspClient) -> None:
    """Problems are marked where they occur, and disappear when the text is corrected."""
    assert editor.problems("a.md") == {}
    text = (
        "---\nmemory_type: decison\ncreated: no day\nid: A B\nsupersedes: Nobody\ntags: [a]\n"
        f"tags: [b]\n---\n\n😀 [[Nowhere|x]] [n](none.md) [[Postgres]]\n{TOKEN}\n"
    )
    assert editor.problems("a.md", text) == {
        "type-unknown": "memory_type: decison",
        "date-unread": "created: no day",
        "id-unusable": "id: A B",
        "supersedes-broken": "supersedes: Nobody",
        "key-twice": "tags: [a]",
        "secret-in-text": TOKEN,
        "link-broken": "[n](none.md)",
    }
    assert TOKEN not in json.dumps(editor.notifications)
    assert editor.problems("a.md", "---\na: [\nb: 1\n---\n") == {"front-matter-line": "a: ["}
    assert editor.problems("a.md", "---\n- x\n---\n") == {"front-matter-broken": "---"}
    assert editor.problems("a.md", "# Fine\n") == {}


def test_diagnostics_agree_with_doctor(editor: LspClient, root: Path, run: Run) -> None:
    """The codes of a saved text are those that memvault doctor reports for the file."""
    text = f"---\nmemory_type: odd\nvalid_from: x\nmodified: 2999-01-01\n---\n[[Nope]] {TOKEN}\n"
    write(root, "odd.md", text)
    mine = set(editor.problems("odd.md"))
    report = run("doctor", "--json", "--vault", str(root))
    theirs = {f["code"] for f in json.loads(report.out)["findings"] if f["filePath"] == "odd.md"}
    (root / "odd.md").unlink()
    assert mine == theirs


def actions(editor: LspClient, path: str, marked: str, selected: str = "") -> dict[str, Any]:
    """Return the edit of each code action by its title, at ``¦`` or for a selected text."""
    start = editor.at(path, marked)["position"]
    end = {**start, "character": start["character"] + len(selected.encode("utf-16-le")) // 2}
    found = editor.request(
        "textDocument/codeAction",
        textDocument={"uri": editor.uri(path)},
        range={"start": start, "end": end},
        context={"diagnostics": []},
    )
    return {action["title"]: action["edit"] for action in found}


def test_code_action_creates_missing_note(editor: LspClient, root: Path) -> None:
    """The editor creates the missing note of a broken link, at the path the link leads to."""
    links = "[[New plan]] [[work/Plan B|x]] [m](sub/m.md) [[y.png]] [[../../out]] [[pg]]\n"
    editor.open("b.md", links)
    for marked, path, title in (
        ("[[New¦ plan", "New plan.md", "New plan"),
        ("[[work/¦Plan", "work/Plan B.md", "Plan B"),
        ("(sub/¦m", "sub/m.md", "m"),
    ):
        found = actions(editor, "b.md", marked)
        (edit,) = found.values()
        created = editor.applied(edit)[path]
        assert list(found) == [f"Create the note {path}"]
        assert created.startswith("---\nid: ")
        assert created.endswith(f"---\n\n# {title}\n")
        assert not (root / path).exists()
    for marked in ("[[y¦.png", "[[../..¦/out", "[[p¦g"):
        assert actions(editor, "b.md", marked) == {}


def test_code_actions_link_a_word_and_add_a_tag(editor: LspClient) -> None:
    """A word that is a memory's name becomes a link, and a word or selection becomes a tag."""
    editor.open("a.md", "# Alpha\n\n😀 use PostgreSQL or postgres for sql/fast `postgres`\n")
    first = actions(editor, "a.md", "use Post¦greSQL")["Link to Use PostgreSQL (decision/pg.md)"]
    linked = "# Alpha\n\n😀 [[Use PostgreSQL|use PostgreSQL]] or postgres"
    assert editor.applied(first)["a.md"].startswith(linked)
    second = actions(editor, "a.md", "or post¦gres")["Link to Use PostgreSQL (decision/pg.md)"]
    assert "or [[Use PostgreSQL|postgres]] for" in editor.applied(second)["a.md"]
    tagged = actions(editor, "a.md", "😀 use Post¦")["Add the tag PostgreSQL"]
    assert editor.applied(tagged)["a.md"].startswith("---\ntags: [PostgreSQL]\n---\n\n# Alpha\n")
    assert actions(editor, "a.md", "`post¦gres`") == {}
    selected = actions(editor, "a.md", "😀 ¦use", "use PostgreSQL or")
    assert "Add the tag use-PostgreSQL-or" in selected
    assert "Link to Use PostgreSQL (decision/pg.md)" in selected
    editor.open("decision/pg.md")
    (tag,) = (edit for title, edit in actions(editor, "decision/pg.md", "It sto¦res").items())
    assert editor.applied(tag)["decision/pg.md"] == PG.replace(
        "tags: [db, sql/fast]", "tags: [db, sql/fast, stores]"
    )


@pytest.mark.promise("S108")
def test_lsp_server_never_writes_to_the_vault(root: Path) -> None:
    """After all tests in this file, the vault's only new files are in its private folder."""
    files = {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}
    assert {name for name in files if not name.startswith(".memvault/")} == {
        "memvault.toml", "decision/pg.md", "a.md", "b.md", "pictures/x.png", "README.md",
    }  # fmt: skip
    assert (root / "decision/pg.md").read_text("utf-8") == PG
