"""An import handles or reports each file in its source, including ones its format cannot read."""

from __future__ import annotations

import importlib
import itertools
import json
import shutil
import zipfile
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from conftest import Run, refused, sampled, succeeded, write
from import_sources import apple_notes as apple_notes_source
from import_sources import basic_memory as basic_memory_source
from import_sources import claude_memory as claude_memory_source
from import_sources import mcp_memory as mcp_source
from import_sources import word as word_source
from imported import import_all, notes_in
from memvault.errors import UsageError
from memvault.importers import claims, detection, formats
from memvault.importers.archives import open_source
from memvault.importers.items import (
    UNCLAIMED,
    Attachment,
    ImportedNote,
    Item,
    SkippedItem,
    VaultFile,
)
from memvault.importers.source import PlainSource as PlainSource
from memvault.importers.source import Source
from terminal import at_terminal

NOTES = {f"{folder}Note {number}.md" for folder in ("", "deep/") for number in range(5)}
"""The ordinary notes of a mixed source. Each contains its own name without spaces."""
KINDS = [kind.name for kind in formats.FORMATS]
MAKERS = [
    (kind.name, module.__name__.rpartition(".")[2], name)
    for kind in formats.FORMATS
    for module in [importlib.import_module(f"import_sources.{kind.module_name}")]
    for name in sorted(vars(module))
    if name.startswith("make")
]
_NOTE = (ImportedNote, VaultFile)
ID = "0123456789abcdef" * 2
SESSION = {"parentUuid": None, "sessionId": "s", "type": "user", "message": {"content": "Hi"}}
ODD_FILES: dict[str, str | bytes] = {
    "CLAUDE.md": "Be brief.\n",
    "AGENTS.md": "Be brief.\n",
    "MEMORY.md": "- [a](a.md)\n",
    "memory/MEMORY.md": "- [a](a.md)\n",
    "memory/2026-01-01.md": "A day.\n",
    "memories/likes.txt": "Tea.\n",
    ".claude/CLAUDE.md": "Be brief.\n",
    ".claude/settings.json": "{}",
    ".mnemonics/fact/a.md": "A fact.\n",
    ".mnemonics/index.md": "- [[a]]\n",
    ".obsidian/app.json": "{}",
    "memory.jsonl": '{"type":"entity","name":"Ana","entityType":"person","observations":[]}',
    "list.json": "[1, 2]",
    "mem0.json": '{"results": [{"id": "1", "memory": "Tea", "user_id": "ana"}]}',
    "dendron.yml": "version: 5\n",
    "root.schema.yml": "version: 1\n",
    "logseq/config.edn": "{:meta/version 1}\n",
    "pages/page.md": "- A page.\n",
    f"Title {ID}.md": "# Title\n",
    f"Table {ID}.csv": "Name\na\n",
    "conversations.json": '[{"uuid": "1", "name": "Tea", "chat_messages": []}]',
    "session.jsonl": json.dumps(SESSION),
    "notes.enex": "<en-export><note><title>T</title></note></en-export>",
    "bookmarks.html": "<!DOCTYPE NETSCAPE-Bookmark-file-1>\n",
    "Bookmarks": '{"checksum": "0", "roots": {}}',
    "history.db": b"SQLite format 3\0",
    "zotero.sqlite": b"SQLite format 3\0",
    "index.pkl": b"\x80\x04N.",
    "index.faiss": b"IxFI",
    "Garden/Garden.md": "# Garden\n",
    "permalink.md": "---\ntitle: A\ntype: note\npermalink: a\n---\nA\n",
    "vault.jsonl": '{"memvault": "export", "format": 1}\n',
}
ORDINARY: dict[str, str | bytes] = {
    "Letter.docx": word_source.document("<w:p/>"),
    "plan.pdf": b"%PDF-1.7",
    "data.json": '{"title": "A", "items": [{"text": "B"}]}',
}
"""Files that any folder may contain."""
ARCHIVES = (".zip", ".jex", ".bear2bk")
"""Extensions of sources with several files, which are unpacked here."""


def write_notes(folder: Path) -> Path:
    """Write the ordinary notes."""
    for name in NOTES:
        write(folder, name, f"# {name[:-3]}\n\nText of {word_of(name)}.\n")
    return folder


def word_of(name: str) -> str:
    """Return the word that only one note contains."""
    return f"w{name[:-3].replace(' ', '').replace('/', 'x')}end"


def mixed(folder: Path, module: str, make: str, below: str) -> Path:
    """Write the ordinary notes, and a fixture's source in a folder below them."""
    made = getattr(importlib.import_module(f"import_sources.{module}"), make)(folder / "made")
    target = write_notes(folder / "mixed") / below
    if made.is_file() and made.suffix not in ARCHIVES:
        write(target, made.name, made.read_bytes())
        return folder / "mixed"
    with closing(open_source(str(made))) as source:
        hidden = f"{made.name}/" if made.is_dir() and made.name.startswith(".") else ""
        for name in source.names:
            write(target, hidden + name, source.read(name))
    return folder / "mixed"


def read(source: Source, kind: str) -> list[Item]:
    """Return the items of a source for a format, with the files that it does not read."""
    if not formats.find_format(kind).claims(source):
        with pytest.raises(UsageError, match=r"contains no [\w-]+ files"):
            list(formats.find_format(kind).read(source))
        return []
    return list(formats.find_format(kind).read(source))


def unaccounted(source: Source, kind: str, items: list[Item]) -> set[str]:
    """Return the files in a source that are neither imported, reported nor claimed."""
    texts = "\n".join(item.text for item in items if isinstance(item, ImportedNote))
    copied = {item.path for item in items if isinstance(item, Attachment | VaultFile)}
    listed = {item.what for item in items if isinstance(item, SkippedItem)}
    notes = {name for name in NOTES if word_of(name) not in texts}
    others = set(source.visible) - NOTES - formats.find_format(kind).claims(source)
    ignored = {
        name for name in others if claims.missed_files(source, set(source.visible) - {name}) == []
    }
    return (notes | others - ignored) - listed - copied


def read_claimed(source: Source, kind: str) -> list[Item]:
    """Return the items of a source with only the files that a format claims."""
    with closing(open_source(str(source.path))) as claimed:
        claimed.names = sorted(formats.find_format(kind).claims(source))
        return read(claimed, kind)


def without_others(items: list[Item]) -> list[Any]:
    """Return items without unread files, and without their bytes."""
    return [
        item[:1] + item[2:] if isinstance(item, Attachment | VaultFile) else item
        for item in items
        if not (isinstance(item, SkippedItem) and item.reason == UNCLAIMED)
    ]


def likely_kinds(source: Source) -> Iterator[str]:
    """Yield the formats that a user would choose for a source."""
    for kind in formats.FORMATS:
        if kind.recognize(source) != formats.Confidence.NO:
            yield kind.name


@sampled(4)
@pytest.mark.parametrize(("kind", "module", "make"), MAKERS)
@pytest.mark.parametrize("below", ["", "sub", "sub/sub"])
def test_files_are_imported_reported_or_claimed(
    kind: str, module: str, make: str, below: str, tmp_path: Path
) -> None:
    """Each file in a folder is imported, reported or claimed; reported files do not add items."""
    (tmp_path / "made").mkdir()
    with closing(open_source(str(mixed(tmp_path, module, make, below)))) as source:
        for name in {kind, *likely_kinds(source)}:
            items = read(source, name)
            if not items:
                assert (name, bool(below)) == ("logseq", True)  # a graph is at the top
                continue
            assert unaccounted(source, name, items) == set(), name
            assert without_others(items) == without_others(read_claimed(source, name)), name
            assert name != kind or any(isinstance(item, _NOTE) for item in items)


@sampled(4)
@pytest.mark.parametrize("file", sorted(ORDINARY))
@pytest.mark.parametrize(("kind", "module", "make"), MAKERS)
def test_format_detection_ignores_ordinary_documents(
    kind: str, module: str, make: str, file: str, tmp_path: Path
) -> None:
    """A Word, PDF or JSON file next to a program's files does not change the detected format."""
    (tmp_path / "made").mkdir()
    made = getattr(importlib.import_module(f"import_sources.{module}"), make)(tmp_path / "made")
    if made.suffix in ARCHIVES:
        with closing(open_source(str(made))) as packed:
            for name in packed.names:
                write(tmp_path, f"unpacked/{name}", packed.read(name))
        made = tmp_path / "unpacked"
    folder = made if made.is_dir() else made.parent
    assert recognized(folder) == kind
    write(folder, file, ORDINARY[file])
    assert recognized(folder) == kind


def recognized(folder: Path) -> str:
    """Return the name of a folder's format."""
    with closing(open_source(str(folder))) as source:
        return detection.detect_format(source).name


@pytest.mark.parametrize("kind", KINDS)
def test_format_claims_every_file_of_its_program(kind: str, tmp_path: Path) -> None:
    """No file in a program's own export is reported as not read."""
    module = importlib.import_module(f"import_sources.{formats.find_format(kind).module_name}")
    with closing(open_source(str(module.make(tmp_path)))) as source:
        recognition = detection.detect(source)
        others = [
            item.what
            for item in recognition.format.read(source)
            if isinstance(item, SkippedItem) and item.reason == UNCLAIMED
        ]
    assert not recognition.is_partial
    # A file of the enclosing project.
    assert others == (["README.md"] if kind == "mnemonics" else [])


@sampled(4)
@pytest.mark.parametrize(
    ("name", "below"), [*itertools.product(ODD_FILES, ("", "sub/", "sub/sub/"))]
)
def test_file_from_another_program_does_not_hide_notes(
    name: str, below: str, tmp_path: Path
) -> None:
    """Ten notes and one file that looks like another program's are imported or reported."""
    write(write_notes(tmp_path / "notes"), f"{below}{name}", ODD_FILES[name])
    with closing(open_source(str(tmp_path / "notes"))) as source:
        for kind in likely_kinds(source):
            assert unaccounted(source, kind, read(source, kind)) == set()
        found = detection.detect(source)
        if not found.is_partial:
            texts = str([item[:4] for item in found.format.read(source)])
            assert all(word_of(note) in texts for note in NOTES)


def openclaw(folder: Path) -> Path:
    """Write the workspace of an OpenClaw agent."""
    for name in ("AGENTS.md", "SOUL.md", "USER.md", "MEMORY.md", "memory/2026-01-01.md"):
        write(folder, f"workspace/{name}", f"# {name}\n\nText of {name}.\n")
    return folder / "workspace"


def obsidian(folder: Path) -> Path:
    """Write an Obsidian vault with instructions for Claude."""
    for name in ("CLAUDE.md", "MEMORY.md", ".obsidian/app.json", "Note.md", "daily/2026-01-01.md"):
        write(folder, f"obsidian/{name}", f"Text of {name}.\n")
    return folder / "obsidian"


def repository(folder: Path) -> Path:
    """Write a git repository with documentation and Claude Code settings."""
    for name in (".git/HEAD", ".claude/rules/style.md", ".claude/CLAUDE.md", "src/main.py"):
        write(folder, f"app/{name}", f"Text of {name}.\n")
    for name in ("README.md", "CLAUDE.md", "docs/a.md", "docs/b.md"):
        write(folder, f"app/{name}", f"Text of {name}.\n")
    return folder / "app"


@pytest.mark.parametrize("make", [openclaw, obsidian, repository])
@pytest.mark.parametrize("form", ["folder", "zip"])
def test_workspace_is_detected_as_markdown_folder(
    make: Any, form: str, run: Run, folder: Path, tmp_path: Path
) -> None:
    """All visible notes of a workspace are imported, even if some have names of Claude's files."""
    made = make(tmp_path)
    names = [path for path in made.rglob("*.md") if ".claude" not in path.parts]
    if form == "zip":
        with zipfile.ZipFile(tmp_path / "made.zip", "w") as archive:
            for path in made.rglob("*"):
                archive.write(path, path.relative_to(tmp_path))
        made = tmp_path / "made.zip"
    found = import_all(run, made).json
    assert found["kind"] == "folder"
    hidden = [".claude/CLAUDE.md", ".claude/rules/style.md"]
    assert found.get("otherFiles", []) == (hidden if make is repository else [])
    texts = b"".join(notes_in(folder).values()).decode()
    for path in names:
        name = path.relative_to(path.parents[len(path.parts) - len(tmp_path.parts) - 2])
        assert f"Text of {name.as_posix()}." in texts


def partial(folder: Path) -> Path:
    """Write ten notes, with a folder of Claude's auto memory in it."""
    write(write_notes(folder / "notes"), "ai/memory/MEMORY.md", "- [x](x.md)\n")
    write(folder / "notes", "ai/memory/x.md", "We use pnpm.\n")
    return folder / "notes"


@sampled(3)
@pytest.mark.parametrize("form", ["folder", "zip"])
@pytest.mark.parametrize("options", [(), ("--yes",), ("--json",), ("--yes", "--json")])
def test_format_covering_few_notes_asks_on_a_terminal(
    options: tuple[str, ...], form: str, run: Run, folder: Path, tmp_path: Path
) -> None:
    """A format that reads less than half of the notes is an error with both commands."""
    made = partial(tmp_path)
    if form == "zip":
        made = Path(shutil.make_archive(str(made), "zip", tmp_path, "notes"))
    before = notes_in(folder)
    ran = run("import", str(made), *options)
    assert ran.code == 2
    text = ran.out if "--json" in options else ran.err
    assert "looks like Claude's memory files, but that covers only 2 of 12 notes" in text
    for kind in ("claude-memory", "folder"):
        assert f"`memvault import {made} --from {kind}`" in text
    assert notes_in(folder) == before


@pytest.mark.parametrize(
    ("answer", "new", "others"), [("1", 2, 10), ("2", 12, None), ("", None, None)]
)
def test_mixed_folder_asks_for_the_format(
    answer: str, new: int | None, others: int | None, folder: Path, tmp_path: Path
) -> None:
    """On a terminal the user chooses one part or all; no answer imports nothing."""
    made = str(partial(tmp_path))
    code, shown = at_terminal(folder, "import", made, answer=[f"{answer}\n", "y\n"], asked="]")
    assert "Import: [1] only these, [2] everything, as a folder of markdown?" in shown
    assert code == (2 if new is None else 0)
    assert (f"{new} new notes" in shown) == (new is not None)
    assert (f"not read: {others} files: Note 0.md, " in shown) == (others is not None)
    written = [name for name in notes_in(folder) if name.startswith("imported/")]
    assert len(written) == (new or 0)


@pytest.mark.parametrize("kinds_in_order", [*itertools.permutations(["claude-memory", "folder"])])
def test_two_formats_import_each_note_once(
    kinds_in_order: tuple[str, str], run: Run, folder: Path, tmp_path: Path
) -> None:
    """Importing a part in its format, and then all as a folder, duplicates no note."""
    made = partial(tmp_path)
    write(made, "Home.md", "See [[x]].\n")
    for kind in (*kinds_in_order, *kinds_in_order):
        found = import_all(run, made, "--from", kind).json
    assert (found["new"], found["changed"]) == (0, 0)
    texts = [data.decode() for name, data in notes_in(folder).items() if name.endswith(".md")]
    for word in [*map(word_of, NOTES), "We use pnpm", "- [x]", "See [["]:
        assert len([text for text in texts if word in text]) == 1
    links = succeeded(run("links", "Home", "--json")).json["links"]
    assert [link["filePath"].endswith("x.md") for link in links] == [True]


def test_other_files_are_reported(run: Run, folder: Path, tmp_path: Path) -> None:
    """Unread files are one line for people, and a list for programs."""
    made = write_notes(tmp_path / "my notes")
    write(made, "memory.jsonl", ODD_FILES["memory.jsonl"])
    write(made, "plan.png", b"\x89PNG")
    for ignored in (".obsidian/app.json", "src/main.py", "conf.toml", "node_modules/a/a.md"):
        write(made, ignored, "x")
    write(made, "empty.md", "")
    shown = succeeded(run("import", str(made), "--from", "mcp-memory")).out
    listed = "Note 0.md, Note 1.md, Note 2.md, Note 3.md, Note 4.md, … and 6 more"
    command = f"run `memvault import '{made}' --from folder` to import markdown files"
    assert f"not read: 11 files: {listed}; {command}\n" in shown
    found = import_all(run, made, "--from", "mcp-memory").json
    assert sorted(found["otherFiles"]) == sorted([*NOTES, "plan.png"])
    assert "unreadable" not in found
    again = import_all(run, made, "--from", "mcp-memory").json
    assert sorted(again["otherFiles"]) == sorted([*NOTES, "plan.png"])


def test_import_suggests_command_only_for_unread_markdown(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    """If no unread file is markdown, the line about unread files does not suggest a command."""
    made = mcp_source.make(tmp_path / "graph").parent
    write(made, "plan.png", b"\x89PNG")
    shown = succeeded(run("import", str(made))).out
    assert "not read: 1 file: plan.png\n" in shown


@sampled(4)
@pytest.mark.parametrize("kind", [name for name in KINDS if name not in ("memvault", "folder")])
def test_kind_without_matching_files_is_an_error(
    kind: str, run: Run, folder: Path, tmp_path: Path
) -> None:
    """The error for ``--from`` reports that nothing matched, and the format's requirements."""
    made = write_notes(tmp_path / "notes")
    ran = run("import", str(made), "--from", kind, "--yes")
    with closing(open_source(str(made))) as source:
        # Any markdown file is a note of this format.
        if formats.find_format(kind).claims(source) >= NOTES:
            assert "10 new notes" in succeeded(ran).out
            return
    assert f"{made} contains no {kind} files" in refused(ran, 2)
    assert f"`--from {kind}` needs {formats.find_format(kind).needs}" in ran.err


def test_folder_with_two_exports_lists_their_commands(run: Run, tmp_path: Path) -> None:
    """A folder with files from two programs is an error with a command for each."""
    made = write(tmp_path, "both/memory.jsonl", ODD_FILES["memory.jsonl"]).parent
    write(made, "mem0.json", ODD_FILES["mem0.json"])
    ran = run("import", str(made))
    assert "may be mcp-memory or mem0" in refused(ran, 2)
    for kind, other in (("mcp-memory", "mem0.json"), ("mem0", "memory.jsonl")):
        assert f"`memvault import {made} --from {kind}`" in ran.err
        found = succeeded(run("import", str(made), "--from", kind, "--yes", "--json")).json
        assert found["new"] == 1
        assert found["otherFiles"] == [other]


def test_basic_memory_entities_without_files_are_imported(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    """In addition to notes, Basic Memory's database adds entities whose files are missing."""
    made = tmp_path / "notes"
    made.mkdir()
    basic_memory_source.make_database(made)
    write(made, "drinks/Tea.md", "---\ntitle: Tea\ntype: note\npermalink: tea\n---\n\nGreen.\n")
    write(made, "Note.md", "An ordinary note.\n")
    write(made, "other.db", b"another database")
    found = import_all(run, made, "--from", "basic-memory").json
    assert found["new"] == 3
    notes = notes_in(folder)
    assert b"Pour over is clear" in notes["imported/basic-memory/drinks/Coffee.md"]
    assert b"Green." in notes["imported/basic-memory/drinks/Tea.md"]
    assert "imported/basic-memory/other.db" in notes
    assert "imported/basic-memory/memory.db" not in notes


def test_claude_home_folder_is_detected(run: Run, folder: Path, tmp_path: Path) -> None:
    """Settings, commands and plugins in ~/.claude do not count as notes."""
    made = claude_memory_source.make(tmp_path)
    for name in ("commands/review.md", "agents/tester.md", "skills/dig/SKILL.md"):
        write(made, name, "Do it.\n")
    for number in range(9):
        write(made, f"plugins/repos/p{number}/README.md", "Install it.\n")
    found = import_all(run, made).json
    assert found["new"] == 3
    assert "otherFiles" not in found


def test_apple_notes_stray_text_files_are_reported(run: Run, folder: Path, tmp_path: Path) -> None:
    """A text file outside of a note's folder is reported, and deleted notes are counted."""
    made = apple_notes_source.make(tmp_path)
    write(made, "Notes/Loose.txt", "A loose text.\n")
    found = import_all(run, made).json
    assert found["otherFiles"] == ["Notes/Loose.txt"]
    assert found["notConverted"] == [{"name": "note in the trash", "count": 1}]


class _CountingSource(PlainSource):
    """A folder that counts how often each file is opened."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.opened: Counter[str] = Counter()

    def _open(self, name: str) -> BinaryIO:
        self.opened[name] += 1
        return super()._open(name)


def test_recognition_opens_each_file_once(tmp_path: Path) -> None:
    """Recognizing a folder of many files opens each at most once per inspected length."""
    for number in range(30):
        write(tmp_path, f"notes/{number}.json", json.dumps({"a": number, "text": "x" * 70_000}))
        write(tmp_path, f"notes/{number}.md", f"# {number}\n")
    source = _CountingSource(tmp_path / "notes")
    assert detection.detect(source).format.name == "folder"
    assert {number for name, number in source.opened.items() if name.endswith(".md")} == {1}
    assert max(source.opened.values()) <= 2  # a few formats inspect more than the beginning
