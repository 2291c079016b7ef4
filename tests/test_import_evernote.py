"""Evernote imports: conversion of each block type, and damaged notes."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from conftest import Run, write
from import_sources.evernote import SIGNS, exported, make_blocks, note, task
from imported import Imported

BODY = """- [x] buy twine
  - [ ] thin
- [ ] mend the net

```
def swap(a, b):
    a, b = b, a

# *bold_
```

```python
if x:
  go()
```

- [ ] Order \\#seeds 📅 2026-03-01
- [x] Rinse the cans

$$
a_b^2
$$

> Mind the gap

<details><summary>More</summary>

inside

</details>

==bright== text

[[Signs]] Lost note

(encrypted text: the pet)

- [ ] Loose end
"""


def enex(run: Run, folder: Path, path: Path, text: str | bytes) -> Imported:
    """Import an export with the given content."""
    write(path, "E.enex", text)
    return Imported(run, folder, path / "E.enex", "evernote")


def test_evernote_blocks_become_markdown(run: Run, folder: Path, tmp_path: Path) -> None:
    """Checklists, code, tasks, formulas, callouts, toggles, highlights and links are converted."""
    got = Imported(run, folder, make_blocks(tmp_path), "evernote")
    header, _, body = got.text("Blocks.md").removeprefix("---\n").partition("---\n\n")
    assert body == BODY
    for line in ("author: Ana", "latitude: ", "longitude: ", "reminder: "):
        assert line in header
    assert got.unreadable == {
        ("Blocks.enex, note 1", "encrypted text is not imported: decrypt it in Evernote"),
        ("Blocks.enex, note 1", "an embedded file is missing from the export: image/png"),
    }
    assert got.contents == {"note": 2, "task": 3}
    assert got.omitted == {
        'note property "application-data"': 1,
        'task property "recurrence"': 1,
        'style "mystery"': 1,
        "encrypted text": 1,
    }


def test_evernote_markdown_characters_are_escaped(run: Run, folder: Path, tmp_path: Path) -> None:
    """A line that looks like markdown is text, and URLs are unchanged."""
    got = enex(run, folder, tmp_path, exported(note("Signs", SIGNS)))
    assert got.text("Signs.md").endswith(
        "\\# not a heading\n\n1\\. not a list\n\n\\[ ] no box\n\n\\_x_ \\#nottag\n\n"
        "see https://example.org/a_b_c\n"
    )


def test_evernote_indentation_is_preserved(run: Run, folder: Path, tmp_path: Path) -> None:
    """Non-breaking spaces before a line indent it, and repeated spaces within it are collapsed."""
    lines = "<div>a&nbsp; b</div><div>&nbsp;&nbsp;&nbsp;&nbsp;# four</div>"
    done = '<div>&nbsp;&nbsp;<en-todo checked="true"/>done</div>'
    got = enex(run, folder, tmp_path, exported(note("N", lines + done)))
    assert got.text("N.md").endswith("a b\n\n\xa0\xa0\xa0\xa0\\# four\n\n- [x] done\n")


def test_evernote_repaired_text_is_reported(run: Run, folder: Path, tmp_path: Path) -> None:
    """A note whose text is not valid XML is imported and reported; one with entities is not."""
    broken = note("Broken", "<div>good</div><div>bad & worse <b>unclosed</div>")
    got = enex(run, folder, tmp_path, exported(note("Fine", "<p>&nbsp;a&eacute;</p>"), broken))
    assert "bad & worse" in got.text("Broken.md")
    assert [one["what"] for one in got.found["noted"]] == ["E.enex, note 2"]


BEFORE, AFTER = note("Before", "<div>marigold</div>"), note("After", "<div>dahlia</div>")


@pytest.mark.parametrize(
    ("middle", "kept"),
    [
        ("<note><title>Split</title><content><![CDATA[<en-note>crocus</a>]]></b></note>", "crocus"),
        (note("Split", "Mail &lt;<a>t@a.org</a>]]<![CDATA[>]]><div>crocus</div>"), "crocus"),
        (note("Split \x0b \x00", "<div>crocus</div>"), "crocus"),
        (note("Split &nbsp; &foo; & co", "<div>&nbsp;crocus &euro;</div>"), "crocus"),
        ("<note><title>Split</title><content><![CDATA[<en-note>crocus</en-note>", "crocus"),
        ("<note><title>Split</title>", ""),
        ("<note><title>Split</title><content>&lt;en-note>crocus&lt;/en-note></content>", "crocus"),
        ("</note></en-export> stray & text ]]>", ""),
        ("<note", ""),
        ('<note a="' + "x" * 70_000, ""),
    ],
)
def test_evernote_damaged_note_does_not_affect_others(
    middle: str, kept: str, run: Run, folder: Path, tmp_path: Path
) -> None:
    """The damaged note's readable part and all other notes are imported; the damage is reported."""
    got = enex(run, folder, tmp_path, exported(BEFORE, middle, AFTER))
    assert "marigold" in got.text("Before.md")
    assert "dahlia" in got.text("After.md")
    if kept:
        assert kept in next((folder / "in").glob("Split*.md")).read_text("utf-8")
    if "\x0b" not in middle and "stray" not in middle:
        assert [what for what, _ in got.unreadable] == ["E.enex, note 2"]


def test_evernote_truncated_export_is_partly_imported(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    """The last note of a truncated file is imported with its remaining text."""
    whole = exported(BEFORE, note("Cut", "<div>crocus</div><div>iris</div>"))
    got = enex(run, folder, tmp_path, whole[: whole.index("</div><div>iris")])
    assert "marigold" in got.text("Before.md")
    assert "crocus" in got.text("Cut.md")
    assert {(what, reason.partition(",")[0]) for what, reason in got.unreadable} == {
        ("E.enex, note 2", "truncated")
    }


def test_evernote_export_may_start_with_a_byte_order_mark(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    """A byte order mark at the beginning is not part of the text."""
    text = exported(note("Gruß", "<div>süß</div>"))
    got = enex(run, folder, tmp_path, text.encode("utf-8-sig"))
    assert "süß" in got.text("Gruß.md")


def test_evernote_notes_with_equal_title_and_time_are_imported(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    """Each becomes a separate note, and a second import adds none."""
    text = exported(note("Clip", "<div>lily</div>"), note("Clip", "<div>iris</div>"))
    got = enex(run, folder, tmp_path, text)
    assert {got.text("Clip.md")[-5:], got.text("Clip-2.md")[-5:]} == {"lily\n", "iris\n"}
    again = enex(run, folder, tmp_path, text).found
    assert (again["new"], again["changed"], again["unchanged"]) == (0, 0, 2)


def resource(data: str, mime: str = "image/png", name: str = "") -> str:
    """Return an attachment of a note."""
    named = f"<resource-attributes><file-name>{name}</file-name></resource-attributes>"
    return (
        f'<resource><data encoding="base64">{data}</data><mime>{mime}</mime>'
        f"<recognition><![CDATA[<recoIndex/>]]></recognition>{named if name else ''}</resource>"
    )


def test_evernote_files_keep_their_names(run: Run, folder: Path, tmp_path: Path) -> None:
    """Attachments with equal names are both imported, unnamed ones named, damaged ones reported."""
    one, two, three = (base64.b64encode(data).decode() for data in (b"1", b"2", b"3"))
    files = (
        resource(f"{one[:2]}\n {one[2:]}", name="a/../image.png"),
        resource(two, name="image.png"),
        resource(three, "application/pdf"),
        resource("%%%", name="bad.png"),
        resource("", name="empty.png"),
    )
    got = enex(run, folder, tmp_path, exported(note("Files", "<div>x</div>", "".join(files))))
    assert got.unreadable == {
        ("E.enex, note 1, file 4", "is not valid base64"),
        ("E.enex, note 1, file 5", "is empty"),
    }
    assert got.data("files/image.png") == b"1"
    names = sorted(path.name for path in (folder / "in/files").iterdir())
    assert [name.partition("-")[2] or name[12:] for name in names if name != "image.png"] == [
        *("image.png", ".pdf")
    ]
    assert got.text("Files.md").count("![[") == 3
    assert got.contents == {"file": 3, "note": 1}


def test_evernote_unplaced_tasks_follow_the_text(run: Run, folder: Path, tmp_path: Path) -> None:
    """A task whose group is not in the text goes to the end; an invalid due date is ignored."""
    more = task("A", "open", "B", more="<dueDate>20260301T230000Z</dueDate>")
    more += task("B", "", "A", more="<dueDate>soon</dueDate><timeZone>Nowhere/X</timeZone>")
    got = enex(run, folder, tmp_path, exported(note("Tasks", "<div>Intro</div>", more)))
    assert got.text("Tasks.md").endswith("Intro\n\n- [ ] B\n- [ ] A 📅 2026-03-01\n")


def test_evernote_export_with_entities_is_refused(run: Run, folder: Path, tmp_path: Path) -> None:
    """A file that declares entities, which could expand to gigabytes, is reported."""
    text = f'<!DOCTYPE en-export [<!ENTITY a "b">]>{exported(BEFORE)}'
    got = enex(run, folder, tmp_path, text)
    assert got.unreadable == {
        (
            "E.enex",
            "the rest cannot be read: it declares entities, which are not supported",
        )
    }
