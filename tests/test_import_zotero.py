"""Imports from Zotero preserve notes' metadata, and read databases that are in use."""

from __future__ import annotations

import shutil
import sqlite3
import zipfile
from contextlib import closing
from pathlib import Path

from conftest import Run
from import_sources import zotero as zotero_source
from imported import Imported
from test_import_outlines import counts


def test_zotero_notes_end_with_a_citation(run: Run, folder: Path, tmp_path: Path) -> None:
    """The header of a note has the work's creators, dates, DOI, tags, collections and files."""
    text = Imported(run, folder, zotero_source.make_library(tmp_path), "zotero").text(
        "Waggle dance.md"
    )
    for line in (
        "tags: [bee-talk]",
        "authors: Frisch",
        "creators: [Karl Frisch, Leigh Chadwick (translator)]",
        "published: 1967-05",
        "source: https://example.org",
        "doi: 10.1/x",
        "item_type: book",
        "collections: [To read]",
        "files: [bees.pdf]",
    ):
        assert f"\n{line}\n" in text
    assert "See [[Waggle dance|this]] ![[image.png]] and" in text


def test_zotero_annotations_keep_page_color_and_author(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    """Annotations are in the order of pages, with color, author, tags and comment."""
    got = Imported(run, folder, zotero_source.make_library(tmp_path), "zotero")
    text = got.text("Annotations of The Bees.md")
    note, image, quote = text.index("a note (p. 3), yellow, Ana"), text.index("image (p. 4)"), 0
    quote = text.index("> Bees * tell *the* way (p. 12), red #dances\n\nto check\n")
    assert note < image < quote


def test_zotero_all_databases_in_a_folder_are_read(run: Run, folder: Path, tmp_path: Path) -> None:
    """Notes in groups and in other databases with equal keys are also imported."""
    made = zotero_source.make_library(tmp_path)
    got = Imported(run, folder, made, "zotero")
    assert got.found["new"] == 6
    assert got.unreadable == set()
    assert "library: Bee club\n" in got.text("Club.md")
    assert "[[Waggle dance-2|this]]" in got.text("Waggle dance-2.md")
    again = Imported(run, folder, made, "zotero").found
    assert (again["new"], again["changed"], again["unchanged"]) == (0, 0, 6)


def test_zotero_counts_items_and_fields(tmp_path: Path) -> None:
    """Items without notes, omitted fields and the trash are counted by type."""
    made = zotero_source.make_library(tmp_path)
    shutil.rmtree(made / "old")
    found = counts(made, "zotero")
    assert found["converted"] == {
        "item field": 4,
        "note": 2,
        "annotation highlight": 1,
        "annotation note": 1,
        "annotation image": 1,
        "book item": 1,
        "image of a note": 1,
    }
    assert found["omitted"] == {
        "attached file": 2,
        "image of a note": 1,
        'item field "numPages"': 1,
        "deleted note": 1,
        "deleted item": 1,
        "book item without notes": 1,
    }


def test_zotero_database_is_read_while_zotero_runs(run: Run, folder: Path, tmp_path: Path) -> None:
    """A database locked by its program is read from a copy and stays unchanged."""
    made = zotero_source.make(tmp_path)
    before = (made / "zotero.sqlite").read_bytes()
    with closing(sqlite3.connect(made / "zotero.sqlite", isolation_level=None)) as database:
        database.execute("PRAGMA locking_mode = EXCLUSIVE")
        database.execute("BEGIN EXCLUSIVE")
        got = Imported(run, folder, made, "zotero")
    assert got.found["new"] == 2
    assert got.unreadable == set()
    assert (made / "zotero.sqlite").read_bytes() == before


def test_reading_zotero_log_leaves_folder_unchanged(run: Run, folder: Path, tmp_path: Path) -> None:
    """Reading a database with a write-ahead log does not create files."""
    made = zotero_source.with_log(tmp_path / "Zotero")
    assert Imported(run, folder, made, "zotero").found["new"] == 3
    assert sorted(path.name for path in made.iterdir()) == ["zotero.sqlite", "zotero.sqlite-wal"]


def test_zotero_write_ahead_log_in_a_zip_is_read(run: Run, folder: Path, tmp_path: Path) -> None:
    """Data that is only in a database's write-ahead log is imported, even from a zip."""
    made = zotero_source.with_log(tmp_path / "Zotero")
    with zipfile.ZipFile(tmp_path / "Zotero.zip", "w") as packed:
        for path in sorted(made.rglob("*")):
            packed.write(path, path.relative_to(tmp_path))
    got = Imported(run, folder, tmp_path / "Zotero.zip", "zotero")
    assert got.found["new"] == 3
    assert got.unreadable == set()
    assert Imported(run, folder, made, "zotero").found["unchanged"] == 3
