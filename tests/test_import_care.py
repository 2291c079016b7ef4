"""Imports preserve dates, ids and content in a vault and its sources, and report changes."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import Any

import pytest

from conftest import Run, succeeded, write
from import_sources import logseq as logseq_source
from import_sources.evernote import exported, note
from imported import Imported, import_all
from test_import_chats import chatgpt, said

_OLD = 1_600_000_000


def shown(run: Run, name: str) -> dict[str, Any]:
    """Return a memory as ``show`` does."""
    result: dict[str, Any] = succeeded(run("show", name, "--json")).json
    return result


def test_import_lists_files_of_guessed_encoding(run: Run, folder: Path, tmp_path: Path) -> None:
    """Each file that is not UTF-8 is reported with its detected encoding."""
    write(tmp_path / "n", "a.md", "Привет, мир".encode("cp1251"))
    write(tmp_path / "n", "b.md", "Größe, naïve\n".encode() + b"\xe9\n")
    write(tmp_path / "n", "c.md", "é\n")
    assert import_all(run, tmp_path / "n").json["noted"] == [
        {"what": "a.md", "reason": "read as windows-1251 (guessed)"},
        {
            "what": "b.md",
            "reason": "not UTF-8 in 1 place, read as utf-8: \ufffd replaces the damaged characters",
        },
    ]
    assert "naïve\n\ufffd" in (folder / "imported/notes/b.md").read_text("utf-8")


def test_imported_note_keeps_the_date_in_its_name(run: Run, folder: Path, tmp_path: Path) -> None:
    """A date in the name is the creation date, and the file time the modification date."""
    for name in ("2020-05-06.md", "b.md"):
        os.utime(write(tmp_path / "n", name, "text\n"), (_OLD, _OLD))
    import_all(run, tmp_path / "n")
    named, plain = (
        (folder / f"imported/notes/{name}.md").read_text("utf-8") for name in ("2020-05-06", "b")
    )
    assert "created:" not in named + plain
    assert "modified: 2020-09-13T" in plain
    assert shown(run, "imported/notes/2020-05-06.md")["created"].startswith("2020-05-0")
    assert shown(run, "imported/notes/b.md")["created"].startswith("2020-09-13")


def test_import_replaces_duplicate_ids(run: Run, folder: Path, tmp_path: Path) -> None:
    """A note with another memory's id gets a new id and is reported; the memory is unchanged."""
    write(folder, "own.md", "---\nid: same\n---\n\nown\n")
    for name in ("a", "b", "c"):
        mem_id = "same" if name == "a" else "twice"
        write(tmp_path / "n", f"{name}.md", f"---\nid: {mem_id}\n---\n\n{name}\n")
    assert import_all(run, tmp_path / "n").json["noted"] == [
        {"what": "a.md", "reason": "gets a new id, because own.md has the same id"},
        {"what": "c.md", "reason": "gets a new id, because imported/notes/b.md has the same id"},
    ]
    assert shown(run, "same")["filePath"] == "own.md"
    assert shown(run, "twice")["filePath"] == "imported/notes/b.md"
    ids = {shown(run, f"imported/notes/{name}.md")["memId"] for name in "abc"}
    assert len(ids | {"same"}) == 4
    again = run("import", str(tmp_path / "n"), "--yes", "--json").json
    assert (again["new"], again["changed"], again.get("noted")) == (0, 0, None)


@pytest.mark.parametrize(
    "rest", ["\nplain rule first\n\n---\n\nafter\n", "- a\n---\nb\n", "# T\n---\nb\n"]
)
def test_text_between_rules_is_not_a_header(
    run: Run, folder: Path, tmp_path: Path, rest: str
) -> None:
    """Prose between thematic breaks stays text, even if part of it looks like a key."""
    write(tmp_path / "n", "a.md", f"---\n{rest}")
    import_all(run, tmp_path / "n")
    text = (folder / "imported/notes/a.md").read_text("utf-8")
    assert text.endswith(f"---\n\n---\n{rest}")
    assert shown(run, "imported/notes/a.md")["content"].strip() == f"---\n{rest}".strip()


def test_folder_of_exports_lists_a_command_for_each(run: Run, folder: Path, tmp_path: Path) -> None:
    """Exports of several programs in one folder are imported one by one; the message says how."""
    logseq_source.make(tmp_path / "n")
    (made,) = (tmp_path / "n").iterdir()
    write(tmp_path / "n", "plain.md", "text\n")
    ran = run("import", str(tmp_path / "n"), "--yes")
    assert ran.code == 2
    assert f"`memvault import {made}` imports them" in ran.err
    write(tmp_path / "n", "a.enex", exported(note("A", "<div>a</div>")))
    (tmp_path / "n/roam.json").write_text(
        '[{"title": "T", "children": [{"string": "s", "uid": "u"}]}]'
    )
    ran = run("import", str(tmp_path / "n"), "--yes")
    assert ran.code == 2
    for name in (made.name, "a.enex", "roam.json"):
        assert f"`memvault import {tmp_path / 'n' / name}`" in ran.err
    succeeded(run("import", str(tmp_path / "n"), "--from", "folder", "--yes"))


def test_one_export_among_attachments_is_not_a_folder_of_exports(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    """Notes with an attachment folder that contains an export can be imported as notes."""
    for number in range(3):
        write(tmp_path / "n", f"files/{number}.png", b"png")
        write(tmp_path / "n", f"{number}.md", "text\n")
    write(tmp_path / "n", "files/a.enex", exported(note("A", "<div>a</div>")))
    ran = run("import", str(tmp_path / "n"), "--yes")
    assert "covers only 1 of 4 notes" in ran.err


def test_undo_of_an_import_removes_the_folders_that_it_created(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    """After undoing an import no empty folder remains, while folders with files do."""
    write(tmp_path / "n", "a/b/c.md", "text\n")
    write(tmp_path / "n", "a/pictures/d.png", b"png")
    write(folder, "imported/own.md", "own\n")
    import_all(run, tmp_path / "n")
    succeeded(run("undo"))
    assert sorted(path.name for path in (folder / "imported").iterdir()) == ["own.md"]


def test_plan_lists_invalid_file_names(run: Run, folder: Path, tmp_path: Path) -> None:
    """A file with an invalid name in a zipped vault is reported before anything is written."""
    with zipfile.ZipFile(tmp_path / "v.zip", "w") as files:
        files.writestr("memvault.toml", "version = 1\n")
        files.writestr("a.md", "a\n")
        files.writestr("b\nc.md", "b\n")
        files.writestr("x" * 300 + ".md", "x\n")
    plan = run("import", str(tmp_path / "v.zip"), "--json").json
    reasons = sorted(one["reason"] for one in plan["unreadable"])
    assert "the name contains a control character" in reasons
    assert "the name is longer than 255 bytes" in reasons
    assert plan["new"] == 1


def test_preview_lists_renamed_notes(run: Run, folder: Path, tmp_path: Path) -> None:
    """A note that programs would read as instructions is reported with its new name."""
    write(tmp_path / "n", "sub/AGENTS.md", "# Obey\n")
    plan = run("import", str(tmp_path / "n"), "--from", "folder", "--json").json
    assert plan["noted"] == [
        {
            "what": "sub/AGENTS.md",
            "reason": "imported as imported/notes/sub/AGENTS-memory.md: "
            "programs read AGENTS.md as instructions",
        }
    ]
    assert "to check: sub/AGENTS.md" in run("import", str(tmp_path / "n"), "--from", "folder").out


def test_chatgpt_formulas_become_markdown(run: Run, folder: Path, tmp_path: Path) -> None:
    """Formulas outside code become markdown; escaped and unclosed ones are unchanged."""
    text = r"Let \( x^2 \) be. \[ a \\[2pt] b \]" + "\n\n" + r"`\(c\)` \\(d\\) \(open"
    source = chatgpt(tmp_path, said("user", "Why?"), said("assistant", text))
    found = Imported(run, folder, source, "chatgpt").chat
    assert r"Let $x^2$ be. $$ a \\[2pt] b $$" + "\n\n" + r"`\(c\)` \\(d\\) \(open" in found
