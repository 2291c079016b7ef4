"""Documents in a vault are recalled by page or section, and never changed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from conftest import Run, child, contents, index_of, only_with, refused, succeeded, write
from made_documents import docx, epub, packed, paragraph, pdf, pptx, xlsx
from made_secrets import made
from memvault import Vault, open_vault
from memvault.call import LOCAL
from memvault.documents.worker import extract
from memvault.errors import StorageError
from memvault.files.user_folders import UNREAD_DOCUMENTS
from memvault.model import is_document
from memvault.settings.vault_settings import DEFAULTS, load_settings
from memvault.store import document_reader
from memvault.store.document_reader import VERSION, DocumentReader
from memvault.store.memory_store import MemoryStore
from memvault.tools.core import invoke
from memvault.tools.recall import memory_recall
from memvault.workspace import Workspace

pytestmark = only_with("pypdfium2", extra="documents")

_PAGES = ["The wombat census of the year.", "The budget was exceeded.", "Hire two zookeepers."]
_SECRET, _ = made("GitHub token")
_BOMB = packed({"word/document.xml": b"<w:document>" + b" " * (300 << 20)})
_ENTITIES = (
    '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa">'
    + "".join(f'<!ENTITY {b} "{f"&{a};" * 10}">' for a, b in pairwise("abcdefghi"))
    + ']><w:document xmlns:w="w"><w:body>&i;</w:body></w:document>'
)
_GOOD: dict[str, str | bytes] = {
    "report.pdf": pdf(_PAGES, "Quarterly report"),
    "deep/deck.pptx": pptx([("Agenda", "Welcome"), ("Otters", "They eat crayfish")]),
    "costs.xlsx": xlsx([("Item", "Day"), *((f"Lamp {n}", 45_352 + n) for n in range(99))]),
    "people.csv": "name;city\n" + "".join(f"Ada{n};Town{n}\n" for n in range(99)),
    "word.docx": docx(
        paragraph("Feeding", "H1") + paragraph("Giraffes eat acacia."), "Keeper manual"
    ),
    "page.html": "<title>Holt care</title><nav>Menu</nav><h1>Cleaning</h1><p>Scrub it weekly. "
    "#nottag [[nolink]]<h2>Tools</h2><p>Use a brush.",
    "book.epub": epub(["<h1>Of badgers</h1><p>They dig setts."], "The burrow book"),
    "empty.csv": "",
}
_BAD: dict[str, str | bytes] = {
    "truncated.pdf": pdf(_PAGES)[:300],
    "locked.pdf": pdf(
        _PAGES,
        extra="/Encrypt << /Filter /Standard /V 1 /R 2 /P -4 "
        f"/O ({'o' * 32}) /U ({'u' * 32}) >> /ID [(a) (a)]",
    ),
    "scanned.pdf": pdf([""]),
    "not.pdf": "text",
    "not.docx": "text",
    "old.xlsx": b"\xd0\xcf\x11\xe0" + bytes(600),
    "bomb.docx": _BOMB,
    "entities.docx": packed({"word/document.xml": _ENTITIES}),
    "nested.docx": docx("<w:p>" * 5_000 + "</w:p>" * 5_000),
    "cut.docx": docx(paragraph("x"))[:-40],
    "nested.html": "<div>" * 5_000,
    "binary.csv": bytes(range(8)) * 500,
    "drm.epub": epub(
        ["<p>x"],
        extra={
            "META-INF/encryption.xml": '<encryption><CipherReference URI="b/c0.xhtml"/>'
            "</encryption>"
        },
    ),
    "none.epub": packed({"a": "b"}),
    "none.pptx": packed({"a": "b"}),
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A vault with readable and unreadable documents, and notes that link to them."""
    root = tmp_path_factory.mktemp("documents") / "vault"
    write(root, "memvault.toml", "version = 1\nignore = ['private/**']\n")
    write(
        root, "plans.md", "# Plans\n\nSee [[report.pdf#page=3]], ![[deck.pptx]], [x](word.docx)\n"
    )
    write(root, "report.md", "# Quarterly report\n\nA note with the document's title.\n")
    for path, data in {**_GOOD, **_BAD}.items():
        write(root, path, data)
    for path in ("private/a.pdf", ".hidden/a.pdf", "agents/bob/a.pdf", "~$lock.docx"):
        write(root, path, pdf(["The unlisted okapi."]))
    os.symlink(root.parent / "outside.pdf", root / "link.pdf")
    write(root.parent, "outside.pdf", pdf(["The unlisted okapi."]))
    return root


@pytest.fixture(scope="module")
def opened(root: Path) -> Iterator[Vault]:
    """The same vault, opened in this process."""
    with open_vault(root) as vault:
        yield vault


def best(vault: Vault, query: str) -> dict[str, Any]:
    """Return the best result of a recall."""
    result: dict[str, Any] = vault.call("memory_recall", query=query, limit=3)["memories"][0]
    return result


@pytest.mark.parametrize(
    ("query", "place", "title"),
    [
        ("zookeepers to hire", "report.pdf#page=3", "Quarterly report"),
        ("otters crayfish", "deep/deck.pptx#page=2", "deck.pptx"),
        ("Lamp 57", "costs.xlsx#Costs, rows 41-80", "costs.xlsx"),
        ("Ada95 Town95", "people.csv#Rows 81-100", "people.csv"),
        ("giraffes acacia", "word.docx#Feeding", "Keeper manual"),
        ("brush for the holt", "page.html#Tools", "Holt care"),
        ("badgers setts", "book.epub#Of badgers", "The burrow book"),
    ],
)
def test_documents_are_recalled_by_page_or_section(
    opened: Vault, query: str, place: str, title: str
) -> None:
    """A result shows the page or section of the document that answers the question."""
    result = best(opened, query)
    assert (result["place"], result["title"], result["memoryType"]) == (place, title, "document")
    assert "line" not in result
    shown = opened.call("memory_show", memId=place)["content"]
    assert result["snippet"].split()[-1].strip("…") in shown


def test_cell_values_are_readable(opened: Vault) -> None:
    """Dates in a workbook are shown as dates, and each section repeats the table header."""
    content = opened.call("memory_show", memId="costs.xlsx", section="Costs, rows 41-80")["content"]
    assert "| Item | Day |" in content
    assert "| Lamp 57 | 2024-04-27 |" in content


def test_show_page_option_prints_one_page(root: Path, opened: Vault, run: Run) -> None:
    """The option --page shows a page of a PDF file or a slide; other files have no pages."""
    page = succeeded(run("show", "report.pdf", "--page", "2", cwd=root)).out
    assert "budget" in page
    assert "zookeepers" not in page
    slide = opened.call("memory_show", memId="deck.pptx", page=2)["content"]
    assert slide == "## Slide 2\n\n**Otters**\n\nThey eat crayfish"
    refused(run("show", "report.pdf", "--page", "9", cwd=root), 1)
    refused(run("show", "plans.md", "--page", "1", cwd=root), 2)
    refused(run("show", "report.pdf", "--page", "1", "--section", "x", cwd=root), 2)


def test_show_accepts_places_in_documents_with_unusual_names(folder: Path, run: Run) -> None:
    """A place that recall prints can be shown, even if the file's name contains a #."""
    rows = "".join(f"otter {number},{number}\n" for number in range(50))
    for name in ("pond #2 50% é.csv", "a.b #3.csv"):
        write(folder, name, f"Name {name[0]},Count\n{rows}")
        found = succeeded(run("recall", f"name {name[0]} otter 49", "--json")).json
        place = found["memories"][0]["place"]
        assert place == f"{name}#Rows 41-51"
        part = succeeded(run("show", place)).out
        assert "otter 49" in part
        assert "otter 2 " not in part
        assert "otter 2 " in succeeded(run("show", name)).out


def test_links_resolve_to_documents(opened: Vault) -> None:
    """Wikilinks, embeds and markdown links resolve to documents, which list their backlinks."""
    links = opened.call("memory_links", memId="plans.md")["links"]
    targets = [link.get("filePath") for link in links]
    assert targets == ["report.pdf", "deep/deck.pptx", "word.docx"]
    backlinks = opened.call("memory_backlinks", memId="report.pdf")["backlinks"]
    assert [link["filePath"] for link in backlinks] == ["plans.md"]
    assert opened.call("memory_links", memId="page.html")["links"] == []
    codes = {finding["code"] for finding in opened.call("vault_doctor")["findings"]}
    assert "link-broken" not in codes


def test_notes_take_precedence_over_documents(opened: Vault) -> None:
    """A title shared by a memory and a document refers to the memory."""
    assert opened.call("memory_show", memId="Quarterly report")["filePath"] == "report.md"
    assert opened.call("memory_show", memId="Keeper manual")["filePath"] == "word.docx"


@pytest.mark.parametrize(
    "note", ["title.md", "alias.md", "note/report.pdf.md"], ids=("title", "alias", "file")
)
def test_path_of_document_leads_to_the_document(folder: Path, note: str) -> None:
    """A note with the name of a document does not take over its links or its path."""
    write(folder, "papers/report.pdf", pdf(_PAGES))
    header = "---\naliases: [report.pdf, papers/report.pdf]\n---\n\n" if "alias" in note else ""
    title = "report.pdf" if "title" in note else "Other"
    write(folder, note, f"{header}# {title}\n")
    links = ("[[report.pdf]]", "![[papers/report.pdf#page=2]]", "[x](papers/report.pdf)")
    write(folder, "links.md", f"# Links\n\n{' '.join(links)}\n")
    with open_vault(folder) as opened:
        lines = opened.backlinks("papers/report.pdf")["backlinks"]
        assert [line["title"] for line in lines] == ["Links"]
        assert opened.backlinks(note)["backlinks"] == []
        assert opened.show("papers/report.pdf")["memoryType"] == "document"
        for name in ("report.pdf", "Report.PDF", "[[report.pdf]]"):
            assert opened.show(name)["filePath"] == "papers/report.pdf"
        for name in ("report.pdf#page=2", "[[report.pdf#page=2|the report]]"):
            assert "parts" in opened.show(name)
        assert opened.show(Path(note).name)["filePath"] == note


def test_documents_are_omitted_from_listings_and_reviews(opened: Vault) -> None:
    """Listings, statistics, tags, orphans and reviews contain documents only on request."""
    paths = {entry["filePath"] for entry in opened.call("memory_list")["memories"]}
    assert paths == {"plans.md", "report.md"}
    assert opened.call("memory_list")["total"] == 2
    listed = opened.call("memory_list", memoryType="document", limit=100)
    assert {entry["filePath"] for entry in listed["memories"]} == {*_GOOD, *_BAD}
    assert opened.call("vault_stats")["memories"] == 2
    assert opened.call("vault_status")["memories"] == 2
    assert opened.call("tag_list")["tags"] == []
    assert not any(is_document(e["filePath"]) for e in opened.call("memory_orphans")["orphans"])
    reviewed = {item["filePath"] for item in opened.call("vault_review")["items"]}
    assert not reviewed & {*_GOOD, *_BAD}


def test_excluded_documents_are_not_read(opened: Vault) -> None:
    """Ignored, hidden and linked files, and agents' and programs' own files, are never found."""
    results = opened.call("memory_recall", query="unlisted okapi", limit=50)["memories"]
    assert all("okapi" not in entry["snippet"] for entry in results)


@pytest.mark.parametrize("path", _BAD)
def test_unreadable_documents_are_reported(opened: Vault, path: str) -> None:
    """A damaged, encrypted or hostile file is reported by doctor in one sentence, with a hint."""
    findings = [
        finding["message"]
        for finding in opened.call("vault_doctor")["findings"]
        if (finding["code"], finding["filePath"]) == ("document-unreadable", path)
    ]
    assert len(findings) == 1
    assert findings[0].startswith("The document cannot be read because it ")
    assert "`ignore`" in findings[0]
    assert "Error" not in findings[0]
    assert "Errno" not in findings[0]
    assert path != "bomb.docx" or "expands beyond the size limit" in findings[0]


@pytest.mark.parametrize(
    "command",
    [
        ("compound", "report.pdf", "More."),
        ("forget", "report.pdf", "--confirm", "true"),
        ("rename", "report.pdf", "Other"),
        ("tag", "add", "report.pdf", "x"),
        ("remember", "Other", "Text.", "--file-path", "report.pdf"),
        ("edit", "report.pdf"),
        ("delete", "report.pdf"),
    ],
)
def test_documents_are_never_changed(root: Path, run: Run, command: tuple[str, ...]) -> None:
    """Every command that writes refuses a document with a sentence and a hint."""
    before = {path: data for path, data in contents(root).items() if is_document(path.name)}
    said = refused(run(*command, cwd=root), 1)
    assert said == "error: report.pdf is a document, which memvault never changes"
    after = {path: data for path, data in contents(root).items() if is_document(path.name)}
    assert after == before


def test_query_for_memory_to_change_skips_documents(root: Path, run: Run) -> None:
    """A query for a memory to change never selects a document, even the best match."""
    said = run("compound", "giraffes eat acacia", "More.", "--json", cwd=root)
    assert said.code == 1
    assert "word.docx" not in said.out
    found = run("forget", "giraffes eat acacia", "--threshold", "0", "--json", cwd=root)
    assert "word.docx" not in found.out
    everything = run("forget", "", "--filter", "type == 'document'", "--json", cwd=root)
    assert "filePath" not in everything.out


def _states(root: Path) -> dict[str, int]:
    folder = index_of(root) / f"documents-{VERSION}"
    return {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}


def test_documents_are_parsed_once(folder: Path, run: Run) -> None:
    """Copied and touched files are not parsed again; changed ones are, even with equal times."""
    write(folder, "a.pdf", pdf(["The wombat sleeps."]))
    succeeded(run("recall", "wombat"))
    first = _states(folder)
    assert len(first) == 1
    write(folder, "b.pdf", (folder / "a.pdf").read_bytes())
    os.utime(folder / "a.pdf", ns=(1, 1))
    assert succeeded(run("recall", "wombat", "--json")).json["count"] == 2
    succeeded(run("reindex"))
    assert _states(folder) == first
    write(folder, "a.pdf", pdf(["The lynxes sleep."]))
    os.utime(folder / "a.pdf", ns=(1, 1))
    found = succeeded(run("recall", "lynxes", "--json")).json["memories"]
    assert found[0]["place"] == "a.pdf#page=1"
    assert len(_states(folder)) == 2
    assert {path.name for path in folder.iterdir()} == {"a.pdf", "b.pdf", "memvault.toml"}


def test_removed_documents_are_forgotten(folder: Path, run: Run) -> None:
    """A deleted document is no longer found, and a renamed one is found under its new name."""
    write(folder, "a.pdf", pdf(["The wombat sleeps."]))
    succeeded(run("recall", "wombat"))
    (folder / "a.pdf").rename(folder / "b.pdf")
    found = succeeded(run("recall", "wombat", "--json")).json["memories"]
    assert [entry["filePath"] for entry in found] == ["b.pdf"]
    (folder / "b.pdf").unlink()
    assert succeeded(run("recall", "wombat", "--json")).json["memories"] == []


@pytest.mark.parametrize("setting", ["index = false", "megabytes = 1"])
def test_settings_limit_documents(folder: Path, run: Run, setting: str) -> None:
    """Documents can be disabled, and those over the size limit are not read."""
    write(folder, "memvault.toml", f"version = 1\n[documents]\n{setting}\n")
    write(folder, "a.pdf", pdf(["The wombat sleeps."]) + b"%" * (1 << 20))
    listed = succeeded(run("list", "--type", "document", "--json")).json["memories"]
    if setting.startswith("index"):
        assert listed == []
        refused(run("show", "a.pdf"), 1)
    else:
        assert listed[0]["problem"] == "The document is larger than 1 MB"


def test_unusual_names_are_found(folder: Path, run: Run) -> None:
    """Documents with long, right-to-left, multiline or invalid UTF-8 names are found."""
    names = ["n" * 246 + ".pdf", "שלום.pdf", "UPPER.PDF", "a\nb.pdf", os.fsdecode(b"bad\xff.pdf")]
    for number, name in enumerate(names):
        write(folder, name, pdf([f"The wombat has number{number}."]))
    for number, name in enumerate(names):
        found = succeeded(run("recall", f"number{number}", "--json")).json["memories"]
        assert found[0]["filePath"] == name
        assert found[0]["place"] == f"{name}#page=1"


def test_long_running_process_sees_new_documents(folder: Path) -> None:
    """A long-running process finds a document that was added or changed since its last answer."""
    write(folder, "a.md", "The wombat sleeps.\n")
    with open_vault(folder) as vault:
        vault.call("memory_recall", query="wombat")
        write(folder, "b.pdf", pdf(["The lynx sleeps."]))
        assert best(vault, "lynx")["place"] == "b.pdf#page=1"
        write(folder, "b.pdf", pdf(["", "The okapi sleeps."]))
        assert best(vault, "okapi")["place"] == "b.pdf#page=2"


def test_killed_parser_is_replaced(folder: Path) -> None:
    """A document is read even if the process that read the previous one was killed."""
    for name in ("a.pdf", "b.pdf"):
        write(folder, name, pdf([f"The wombat sleeps in {name}."]))
    store = MemoryStore(folder, load_settings(folder))
    assert "sleeps in a.pdf" in store.read("a.pdf").body
    worker = store.documents._worker
    assert worker is not None
    worker.kill()
    worker.wait()
    assert "sleeps in b.pdf" in store.read("b.pdf").body
    store.close()


def test_secrets_in_documents_are_masked(folder: Path) -> None:
    """Secrets are masked in documents as in memories."""
    write(folder, "a.pdf", pdf([f"The token is {_SECRET} today."]))
    workspace = Workspace(folder)
    caller = LOCAL._replace(secrets="masked")
    shown = json.dumps(invoke.run(workspace, caller, memory_recall, query="token"))
    workspace.close()
    assert "token is" in shown
    assert _SECRET not in shown


def test_agent_keeps_document_in_active_memory(folder: Path, run: Run) -> None:
    """A loaded document stays in active memory until documents are disabled."""
    write(folder, "report.pdf", pdf(_PAGES, "Quarterly report"))
    succeeded(run("load", "report.pdf", cwd=folder))
    assert "Quarterly report" in succeeded(run("active", cwd=folder)).out
    settings = folder / "memvault.toml"
    enabled = settings.read_text()
    settings.write_text(f"{enabled}\n[documents]\nindex = false\n")
    assert "Quarterly report" not in succeeded(run("active", cwd=folder)).out


def test_moved_note_keeps_short_links_beside_document(folder: Path, run: Run) -> None:
    """A link by file name stays short if the name matches only a document's without extension."""
    write(folder, "deep/plan.csv", "a,b\n")
    write(folder, "a/old.md", "Text.\n")
    write(folder, "index.md", "See [[old]] and [[plan.csv]].\n")
    succeeded(run("rename", "a/old.md", "--to", "deep/plan.md", "--yes", cwd=folder))
    assert (folder / "index.md").read_text().endswith("See [[plan]] and [[plan.csv]].\n")


def test_parts_beyond_limits_are_reported(folder: Path, run: Run) -> None:
    """Doctor and show report that columns or characters beyond a limit are not read."""
    write(folder, "columns.xlsx", xlsx([["A"] * 201, ["B"] * 201]))
    write(folder, "long.csv", ("word " * 99 + "\n") * 4_500)
    write(folder, "whole.csv", "," * 300 + "\n1\n")
    findings = run("doctor", "--json").json["findings"]
    assert {entry["filePath"]: entry["message"] for entry in findings} == {
        "columns.xlsx": "Only the first 200 columns of Costs are read",
        "long.csv": "Only the first 2 million characters are read",
    }
    assert "Only the first 200 columns" in succeeded(run("show", "columns.xlsx")).err
    assert succeeded(run("show", "whole.csv")).err == ""


def test_rows_beyond_limit_are_reported() -> None:
    """The header of a document's text states how many of its rows are read."""
    rows = extract(".csv", b"n\n" + b"1\n" * 100_001, "utf-8").encoded()
    assert b"partly_read: the first 100,000 rows\n" in rows


def test_renaming_never_leads_links_to_a_document(folder: Path, run: Run) -> None:
    """Links to a note still lead to it after its file is renamed like a document."""
    write(folder, "deep/plan.csv", "a,b\n")
    write(folder, "old.md", "# Old\n")
    write(folder, "index.md", "See [[old]] and [[plan.csv]].\n")
    succeeded(run("rename", "old.md", "--to", "plan.csv.md", "--yes", cwd=folder))
    links = succeeded(run("links", "index.md", "--json", cwd=folder)).json["links"]
    assert [link["filePath"] for link in links] == ["plan.csv.md", "deep/plan.csv"]


@pytest.mark.skipif(sys.platform == "win32", reason="no signals")
def test_document_is_parsed_again_after_killed_parser(folder: Path, tmp_path: Path) -> None:
    """A document whose parser was killed is parsed again at the next read."""
    write(folder, "a.pdf", pdf(["The wombat sleeps."]))
    store = MemoryStore(folder, load_settings(folder), find_index=lambda: tmp_path)

    def read() -> None:
        with contextlib.suppress(StorageError):
            store.read("a.pdf")

    worker = store.documents._started()
    worker.send_signal(signal.SIGSTOP)
    reading = threading.Thread(target=read)
    reading.start()
    worker.terminate()
    worker.send_signal(signal.SIGCONT)
    reading.join()
    assert "The wombat sleeps." in store.read("a.pdf").body
    store.close()


def test_document_is_read_again_after_the_parser_could_not_start(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Documents that were not read because the parser failed to start are read ten minutes later.

    Until then, the parser is not started for each command.
    """
    for name in "ab":
        write(folder, f"{name}.pdf", pdf([f"The wombat {name} sleeps."]))
    time.sleep(1.1)  # A file that changed within the last second is always read again.
    broken = tmp_path / "broken"
    write(broken, "pypdfium2/__init__.py", "import not_installed\n")
    monkeypatch.setenv("PYTHONPATH", str(broken))
    recall = "recall", "wombat"
    assert "strong" not in succeeded(child(folder, *recall)).out
    failed = succeeded(child(folder, "doctor", "--json")).json["findings"]
    messages = [entry["message"] for entry in failed if entry["code"] == "document-unreadable"]
    assert len(messages) == 2
    assert all("cannot be started" in message for message in messages)
    monkeypatch.delenv("PYTHONPATH")
    assert len(succeeded(child(folder, "doctor", "--json")).json["findings"]) == len(failed)
    for marker in index_of(folder).glob("unread-documents"):
        os.utime(marker, (0, 0))
    assert succeeded(child(folder, *recall)).out.count("strong") == 2
    for marker in index_of(folder).glob("unread-documents"):
        os.utime(marker, (0, 0))
    succeeded(child(folder, *recall))
    assert list(index_of(folder).glob("unread-documents")) == []


@pytest.mark.skipif(sys.platform == "win32", reason="no signals")
@pytest.mark.parametrize("fault", ["os.kill(os.getpid(), 9)", "time.sleep(60)"])
def test_show_clears_problem_of_document(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    """After show reads a document whose parser was killed, recall and doctor read it too."""
    write(folder, "a.pdf", pdf(["The wombat sleeps."]))
    write(folder, "b.pdf", pdf(["The okapi sleeps."]))
    time.sleep(1.1)  # A file that changed within the last second is always read again.
    broken = tmp_path / "broken"
    write(broken, "pypdfium2/__init__.py", f"import os, time\n{fault}\n")

    def unread() -> list[str]:
        with open_vault(folder) as vault:
            return [finding["filePath"] for finding in vault.doctor()["findings"]]

    with monkeypatch.context() as patched:
        patched.setattr(document_reader, "_WALL_SECONDS", 0.5)
        patched.setenv("PYTHONPATH", str(broken))
        assert unread() == ["a.pdf", "b.pdf"]
    assert unread() == ["a.pdf", "b.pdf"]
    with open_vault(folder) as vault:
        assert "wombat" in vault.show("a.pdf")["content"]
    assert unread() == ["b.pdf"]
    with open_vault(folder) as vault:
        assert vault.recall("wombat")["best"] == "strong"


def test_documents_to_read_again_are_listed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each unread document is listed until it is settled, regardless of the number of failures."""
    monkeypatch.setattr(sys, "executable", str(tmp_path / "missing"))
    documents = DocumentReader(tmp_path, DEFAULTS, lambda: tmp_path)

    def due_after(*names: str) -> frozenset[str]:
        for name in names:
            write(tmp_path, name, name)
            with pytest.raises(StorageError, match="cannot be started"):
                documents.read(name)
        os.utime(tmp_path / UNREAD_DOCUMENTS, (0, 0))
        return documents.due()

    assert due_after("a.pdf", "b.pdf", "a.pdf") == {"a.pdf", "b.pdf"}
    assert due_after("b.pdf", "c.pdf") == {"a.pdf", "b.pdf", "c.pdf"}
    assert (tmp_path / UNREAD_DOCUMENTS).read_bytes().count(b"\n") == 3
    assert documents.due() == frozenset()
    documents.settle(["a.pdf"])
    assert due_after() == {"b.pdf", "c.pdf"}
    documents.confirm("c.pdf")
    documents.confirm("d.pdf")
    assert documents.due() == {"c.pdf"}
    documents.settle(["b.pdf", "c.pdf"])
    assert not (tmp_path / UNREAD_DOCUMENTS).exists()
    write(tmp_path, UNREAD_DOCUMENTS, "torn\n")
    assert due_after() == frozenset()
    assert not (tmp_path / UNREAD_DOCUMENTS).exists()
