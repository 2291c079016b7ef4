"""Notion's exports: nested zips, properties of every type, localized dates, callouts."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest
import yaml

from conftest import Run, succeeded, write
from imported import Imported
from test_import_details import BASE, FIRST, HOME, ROW, SECOND

PART = "ExportBlock-8bf9cfec-cf32-408b-8877-b97abed310a5-Part-"


def zipped(*files: tuple[str, str | bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Return a zip of files."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", method) as archive:
        for name, data in files:
            archive.writestr(name, data)
    return made.getvalue()


ONE = zipped(
    (f"Home/Trip {FIRST}.md", f"# Trip\n\n[pack](Trip%20{FIRST}/Pack%20{SECOND}.md)\n"),
    (f"Home/Trip {FIRST}/map.png", b"one"),
)
TWO = zipped(
    (f"Home/Trip {FIRST}/Pack {SECOND}.md", "# Pack\n\nBegonia.\n"),
    (f"Home/Trip {FIRST}/map.png", b"two"),
)


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED])
@pytest.mark.parametrize("depth", [1, 2])
def test_notion_nested_zips_are_one_export(
    method: int, depth: int, run: Run, folder: Path, tmp_path: Path
) -> None:
    """The parts of an export are read together, and files with the same name are kept."""
    made = zipped((f"{PART}1.zip", ONE), (f"{PART}2.zip", TWO), method=method)
    if depth == 2:
        made = zipped(("Export-8bf9cfec.zip", made), ("__MACOSX/._x", b"x"), method=method)
    write(tmp_path, "export.zip", made)
    got = Imported(run, folder, tmp_path / "export.zip", "notion")
    assert got.unreadable == set()
    assert "[pack](Trip/Pack.md)" in got.text("Trip.md")
    assert "Begonia" in got.text("Trip/Pack.md")
    pictures = [path.read_bytes() for path in (folder / "in").rglob("map*.png")]
    assert sorted(pictures) == [b"one", b"two"]
    again = Imported(run, folder, tmp_path / "export.zip", "notion").found
    assert (again["new"], again["changed"], again["attachments"]) == (0, 0, 0)


def test_extracted_export_parts_are_one_export(run: Run, folder: Path, tmp_path: Path) -> None:
    """Parts that were extracted from the outer zip are read as one export."""
    write(tmp_path, f"Export/{PART}1.zip", ONE)
    write(tmp_path, f"Export/{PART}2.zip", TWO)
    found = succeeded(run("import", str(tmp_path / "Export"), "--to", "in", "--yes", "--json")).json
    assert (found["kind"], found["new"]) == ("notion", 2)


def test_damaged_nested_zip_does_not_affect_others(run: Run, folder: Path, tmp_path: Path) -> None:
    """The other parts are imported, and the damaged one is reported."""
    write(tmp_path, "e.zip", zipped((f"{PART}1.zip", ONE), (f"{PART}2.zip", TWO[:-30])))
    got = Imported(run, folder, tmp_path / "e.zip", "notion")
    assert [what for what, _ in got.unreadable] == [f"{PART}2.zip"]
    assert "pack" in got.text("Trip.md")


def test_nested_zip_expansion_is_limited(run: Run, folder: Path, tmp_path: Path) -> None:
    """The limit of a zip applies to everything in it, at any depth."""
    bomb = zipped((f"Bomb {ROW}.md", b"\0" * (270 << 20)))
    write(tmp_path, "e.zip", zipped((f"{PART}1.zip", ONE), (f"{PART}2.zip", bomb)))
    got = Imported(run, folder, tmp_path / "e.zip", "notion")
    assert got.unreadable == {(f"Bomb {ROW}.md", "the zip expands beyond the size limit")}
    assert "pack" in got.text("Trip.md")


def database(folder: Path, properties: str, columns: str) -> Path:
    """Write an export with a database of one page with properties, and a page it refers to."""
    made = folder / "Export"
    write(made, f"Home {HOME}.md", "# Home\n\nText.\n")
    write(made, f"Tasks {BASE}.csv", f"Name,{columns}\nRow,x\n")
    write(made, f"Tasks {BASE}/Row {ROW}.md", f"# Row\n\n{properties}\n\nText: of the page.\n")
    return made


def header_of(found: Imported, path: str) -> str:
    """Return a note's header."""
    return found.text(path).split("---\n")[1]


def test_notion_properties_go_to_the_header(run: Run, folder: Path, tmp_path: Path) -> None:
    """Names can have any characters, values several lines; relations become links."""
    made = database(
        tmp_path,
        "🚀 Launch: November 18, 2026 → November 20, 2026\n2nd: Yes\n状态: 完成\nURL: https://a.org\n"
        f"Project: Home (../Home%20{HOME}.md), Gone (../Gone%20{FIRST}.md)\nLead: Home (see it)\n"
        f"Main: Home (../Home%20{HOME}.md)\nNotes: one\n2. two\nEmpty:\nTime (h): 3",
        "🚀 Launch,2nd,状态,URL,Project,Lead,Main,Notes,Empty,Time (h)",
    )
    got = Imported(run, folder, made, "notion")
    header = yaml.safe_load(header_of(got, "Tasks/Row.md"))
    expected = {
        "launch": "November 18, 2026 → November 20, 2026",
        "2nd": True,
        "状态": "完成",
        "url": "https://a.org",
        "lead": "Home (see it)",
        "project": ["[[Home]]", "Gone"],
        "main": "[[Home]]",
        "notes": "one\n2. two",
        "time_h": "3",
    }
    assert {key: header.get(key) for key in expected} == expected
    assert "empty" not in header
    assert got.text("Tasks/Row.md").endswith("# Row\n\nText: of the page.\n")
    links = succeeded(run("links", "in/Tasks/Row.md", "--json")).json["links"]
    assert "in/Home.md" in {link.get("filePath") for link in links}


@pytest.mark.usefixtures("in_utc")
@pytest.mark.parametrize(
    ("name", "value", "created"),
    [
        ("Created time", "November 18, 2026 10:15 AM", "2026-11-18T10:15"),
        ("Created", "@November 18, 2026 10:15 PM (GMT+1)", "2026-11-18T22:15"),
        ("Created time", "2026年11月18日 10:15", "2026-11-18T10:15"),
        ("Created time", "2026年11月18日 下午3:15", "2026-11-18T15:15"),
        ("Created time", "2026년 11월 18일 오전 10:15", "2026-11-18T10:15"),
        ("Created time", "18. November 2026 10:15", "2026-11-18T10:15"),
        ("Date created", "18 novembre 2026 10:15", "2026-11-18T10:15"),
        ("Created at", "2026/11/18 10:15", "2026-11-18T10:15"),
        ("Created at", "18/11/2026", "2026-11-18T00:00"),
        ("Created at", "11/18/2026 9:15 AM", "2026-11-18T09:15"),
    ],
)
def test_notion_times_may_be_in_any_language(
    name: str, value: str, created: str, run: Run, folder: Path, tmp_path: Path
) -> None:
    """The creation time comes from the property, in the Notion user's language."""
    got = Imported(run, folder, database(tmp_path, f"{name}: {value}", name), "notion")
    assert f"created: {created}" in header_of(got, "Tasks/Row.md")


def test_notion_ambiguous_date_stays_text(run: Run, folder: Path, tmp_path: Path) -> None:
    """An ambiguous date (March or April) is not parsed."""
    got = Imported(run, folder, database(tmp_path, "Created: 03/04/2026", "Created"), "notion")
    assert "notion_created: 03/04/2026" in header_of(got, "Tasks/Row.md")


def test_notion_callouts_and_urls_become_markdown(run: Run, folder: Path, tmp_path: Path) -> None:
    """A callout becomes a quote, and the URL of an exported page a link to its note."""
    made = tmp_path / "Export"
    write(
        made,
        f"Home {HOME}.md",
        "# Home: 🌍 a/b\n\n<aside>\n💡\n\nMind *this*\n- x\n\n</aside>\n\n"
        "- a\n\n    <aside>\n    ⚠️ b\n    </aside>\n\n`<aside>`\n\n"
        "```\n<aside>\nc\n</aside>\n```\n"
        f"[p](https://www.notion.so/ana/Page-{FIRST}?pvs=4) "
        f"[q](https://www.notion.so/Gone-{SECOND}) $e=mc^2$\n\n<details>\n<summary>T</summary>\n"
        "\nin\n\n</details>\n\n<aside>\nopen\n",
    )
    write(made, f"Page {FIRST}.md", "# Page\n")
    got = Imported(run, folder, made, "notion")
    assert got.text("Home.md").endswith(
        "# Home: 🌍 a/b\n\n> 💡 Mind *this*\n> - x\n\n- a\n\n    > ⚠️ b\n\n`<aside>`\n\n"
        "```\n<aside>\nc\n</aside>\n```\n[p](Page.md) "
        f"[q](https://www.notion.so/Gone-{SECOND}) $e=mc^2$\n\n<details>\n<summary>T</summary>\n"
        "\nin\n\n</details>\n\n<aside>\nopen\n"
    )


def test_notion_table_cells_are_escaped(run: Run, folder: Path, tmp_path: Path) -> None:
    """Markup in cells is escaped, and relations are shown as titles."""
    made = database(tmp_path, "Note: x", "Note,Project")
    row = f"a|b,*x* #y,Home (../Home%20{HOME}.md)\n"
    write(made, f"Tasks {BASE}.csv", f"Name,Note,Project\n{row}")
    got = Imported(run, folder, made, "notion")
    assert "| a\\|b | \\*x\\* \\#y | Home |" in got.text("Tasks.md")
    assert got.contents == {"page": 2, "database": 1}


def test_notion_html_pages_are_reported_as_not_read(run: Run, folder: Path, tmp_path: Path) -> None:
    """An HTML export is recognized, and each of its pages is reported as not read, with a hint."""
    made = tmp_path / "Export"
    write(made, f"Home {HOME}.html", "<html></html>")
    write(made, "index.html", "<html></html>")
    write(made, f"Home {HOME}/report.html", "<html></html>")
    write(made, f"Home {HOME}/Page {FIRST}.md", "# Page\n")
    got = Imported(run, folder, made, "notion")
    assert got.unreadable == {
        (f"Home {HOME}.html", "an HTML page: export it as Markdown & CSV"),
    }
    assert got.data("Home/report.html") == b"<html></html>"
