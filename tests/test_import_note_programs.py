"""Details kept in imports from Joplin, Simplenote, Standard Notes, TextBundles, Word and Apple."""

from __future__ import annotations

import io
import json
import shutil
import stat
import tarfile
import zipfile
from contextlib import closing
from pathlib import Path

import pytest

from conftest import Run, write
from growth import Steps, check_growth
from import_sources import apple_notes as apple_source
from import_sources import joplin as joplin_source
from import_sources import simplenote as simplenote_source
from import_sources import standard_notes as standard_source
from import_sources import textbundle as bundle_source
from import_sources import word as word_source
from imported import Imported, import_all, notes_in
from memvault.importers import detection, formats
from memvault.importers.archives import open_source


def body(text: str) -> str:
    """Return a note's text without its header."""
    return text.split("\n---\n", 1)[1].lstrip("\n")


def test_joplin_items_keep_their_properties_and_are_counted(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    """Notebooks, tags, times, places and URLs are imported; omissions are counted."""
    got = Imported(run, folder, joplin_source.make(tmp_path), "joplin")
    bees = got.text("Garden/Hives/Bees.md")
    for kept in ("tags: [bee-keeping]", "source: https://bees.example/1", "52.52", "author: Ana"):
        assert kept in bees
    assert "See [[Honey|the honey]] and ![[hive.png|a hive]]." in bees
    assert f"    [code](:/{joplin_source.HONEY})" in bees
    assert "created: 2020-01-02T03:04:05" in got.text("Honey.md")
    assert "tags: [conflict]" in got.text("Honey-2.md")
    assert body(got.text("A page.md")).startswith("Cut **hay**, see [[Honey|honey]].")
    assert got.data("resources/hive.png") == joplin_source.PICTURE
    assert got.data("resources/cccccccc-hive.png") == joplin_source.PICTURE + b" 2"
    assert got.contents == {"note": 5, "resource": 3, "notebook": 2, "tag": 1}
    assert got.omitted == {
        "note in the trash": 1,
        'note property "user_data"': 1,
        'resource property "ocr_text"': 1,
        "revision": 1,
    }
    assert {what for what, _ in got.unreadable} == {"lost.pdf", f"{joplin_source.SECRET}.md"}


def test_joplin_task_title_is_escaped(run: Run, folder: Path, tmp_path: Path) -> None:
    """Markup characters in a to-do's title do not become a tag, link or emphasis in its task."""
    item = joplin_source.item("Ask #boss [[x]] *now*", "Text.", 1, "a" * 32, is_todo=1)
    write(tmp_path, f"raw/{'a' * 32}.md", item)
    got = Imported(run, folder, tmp_path / "raw", "joplin")
    (text,) = (data.decode() for data in notes_in(folder / "in").values())
    assert "- [ ] Ask \\#boss \\[\\[x\\]\\] \\*now\\*\n" in text
    assert got.found["new"] == 1


def test_special_tar_entries_are_reported(run: Run, folder: Path, tmp_path: Path) -> None:
    """Links, devices and paths that lead out of a tar are never followed; the rest is imported."""
    files = joplin_source.files()
    name = f"{joplin_source.HONEY}.md"
    with tarfile.open(tmp_path / "bad.jex", "w") as made:
        for path in (name, "../out.md", "/tmp/out.md"):
            entry = tarfile.TarInfo(path)
            entry.size = len(files[name])
            made.addfile(entry, io.BytesIO(files[name]))
        for path, kind in (
            ("link.md", tarfile.SYMTYPE),
            ("hard.md", tarfile.LNKTYPE),
            ("device.md", tarfile.CHRTYPE),
            ("pipe.md", tarfile.FIFOTYPE),
        ):
            entry = tarfile.TarInfo(path)
            entry.type, entry.linkname = kind, "/etc/passwd"
            made.addfile(entry)
    found = import_all(run, tmp_path / "bad.jex").json
    assert (found["kind"], found["new"]) == ("joplin", 1)
    assert len(found["unreadable"]) == 6
    assert not (tmp_path.parent / "out.md").exists()


def test_truncated_tar_is_partly_imported(run: Run, folder: Path, tmp_path: Path) -> None:
    """Complete items of a truncated tar are imported, and the rest is reported."""
    whole = joplin_source.make(tmp_path).read_bytes()
    (tmp_path / "notes.jex").write_bytes(whole[: len(whole) // 4])
    got = Imported(run, folder, tmp_path / "notes.jex", "joplin")
    assert got.found["new"] >= 1
    assert any("the rest cannot be read" in reason for _, reason in got.unreadable)


def test_simplenote_plain_text_is_escaped(run: Run, folder: Path, tmp_path: Path) -> None:
    """Plain notes are escaped, markdown notes are not; tasks and links work in both."""
    got = Imported(run, folder, simplenote_source.make(tmp_path), "simplenote")
    shop = body(got.text("shopping-1.md"))
    assert "- [ ] oil \\*cold pressed\\*\n- [x] screws\n" in shop
    assert "\n\\# no heading\n" in shop
    assert "See [[Tea|Tea_time]]" in shop
    tea = got.text("Tea.md")
    assert "**Green**, from [[shopping-1|the shop]].\n\n    # code" in tea
    assert "source: http://simp.ly/p/AbC" in tea
    assert "Another one." in got.text("shopping-1-2.md")
    assert got.omitted["note in the trash"] == 1


def test_standard_notes_of_each_type_become_markdown(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    """Each type of note is converted by its text format; tags include their parents' names."""
    got = Imported(run, folder, standard_source.make(tmp_path), "standard-notes")
    weaving = body(got.text("Weaving.md"))
    assert "A **bold** loom" in weaving
    assert "see [[Plain]] and [a shop](https://loom.example/1)" in weaving
    assert "- [x] warp\n- [ ] weft\n  - blue" in weaving
    assert "if *x*:\n    [[y]]\n```" in weaving
    assert "| a\\|b | [[Plain]] |" in weaving
    assert got.data("files/1-note-1/loom.png") == standard_source.PICTURE
    assert "tags: [home/big-loom, pinned]" in got.text("Plain.md")
    assert "modified: 2026-11-05T11:15" in got.text("Plain.md")
    assert body(got.text("Code.md")) == "````\na = '```'\n# *x*\n````\n"
    assert body(got.text("Tasks.md")).endswith("- [x] oil #1\n\nLinked notes: [[Plain]]\n")
    assert "| price |  | 7 |" in got.text("Sheet.md")
    assert got.omitted["super node equation"] == 1


def test_authenticator_secrets_are_not_imported(run: Run, folder: Path, tmp_path: Path) -> None:
    """An authenticator note is reported, and its keys are not written to the vault."""
    got = Imported(run, folder, standard_source.make(tmp_path), "standard-notes")
    assert "Keys" in {what for what, _ in got.unreadable}
    assert not any(b"JBSWY3DP" in data for data in notes_in(folder).values())


def test_standard_notes_encrypted_backup_hints_at_decryption(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    """Encrypted items are counted in one message with a hint."""
    got = Imported(run, folder, standard_source.make_encrypted(tmp_path), "standard-notes")
    assert got.unreadable == {
        (
            standard_source.BACKUP,
            "number of encrypted items: 1; export a decrypted backup in Preferences, Backups",
        )
    }
    assert got.found["new"] == 1


def test_bear_notes_keep_tags_links_and_code(run: Run, folder: Path, tmp_path: Path) -> None:
    """Bear's markup outside code becomes markdown; locked notes are reported."""
    got = Imported(run, folder, bundle_source.make(tmp_path), "textbundle")
    fox = body(got.text("Fox-den.md"))
    assert "#animals/wild #two-words and ==marked== <u>under</u> ==🟢green==" in fox
    assert "![](assets/Fox-den/fox%201.png)" in fox
    assert "See [[Hen]], [[Hen#The house|house]], [[Nobody]]." in fox
    assert "In ~/a and ~/b, #one #two, #end # and std::a::b. ![](assets/Fox-den/f" in fox
    assert got.data("assets/Fox-den/f\u00fcr.png") == bundle_source.PICTURE
    assert "```\n#two words# ~x~ [[Hen]]\n```" in fox
    assert "![](<assets/Hen/fox 1.png>) #farm" in got.text("Hen.md")
    assert got.data("assets/Fox-den/fox 1.png") == bundle_source.PICTURE
    assert {what for what, _ in got.unreadable} == {"Safe"}
    assert got.omitted == {"note in the trash": 1, 'note property "colour"': 1}


def test_bear_later_backup_does_not_add_duplicates(run: Run, folder: Path, tmp_path: Path) -> None:
    """A later backup with another name updates the same notes."""
    made = bundle_source.make(tmp_path)
    assert import_all(run, made).json["new"] == 3
    again = tmp_path / "Bear Notes 2026-11-11 at 08.00.bear2bk"
    with zipfile.ZipFile(made) as old, zipfile.ZipFile(again, "w") as new:
        for name in old.namelist():
            new.writestr(name.replace(made.name, again.name), old.read(name))
    found = import_all(run, again).json
    assert (found["new"], found["changed"], found["unchanged"]) == (0, 0, 3)


def test_word_documents_become_markdown(run: Run, folder: Path, tmp_path: Path) -> None:
    """Headings, lists, tasks, code, tables, links, footnotes and images are converted."""
    got = Imported(run, folder, word_source.make(tmp_path), "word")
    assert body(got.text("Boats.md")) == (
        "# Boats\n\n**Paint the hull** with `x = [1]`[oil](https://boats.example/1)[^2]\n\n"
        "1. Sand\n   - fine\n2. Paint\n\n- [x] buy paint\n- [ ] buy oil\n- [ ] call Ana\n\n"
        "```\nif a:\n    b = '*'\n```\n\n> Slowly.\n\n| a\\|b | c |\n| --- | --- |\n| d | e |\n\n"
        "![[image1.png]]\n\n[^2]: Or tar.\n"
    )
    assert "tags: [boats, to-do]" in got.text("Boats.md")
    assert "created: 2026-11-03T09:15" in got.text("Boats.md")
    assert got.data("files/Boats/image1.png") == word_source.PICTURE
    assert got.omitted == {"deleted text": 1, "embedded object": 1}


def test_word_list_styles_and_titles_are_converted(run: Run, folder: Path, tmp_path: Path) -> None:
    """A list can come from a paragraph's style; the title comes from the document's properties."""
    no_list = '<w:numPr><w:numId w:val="0"/></w:numPr>'
    steps = (("One", "Schritt"), ("a", "Unter"), ("b", "Punkt2"), ("Two", "Schritt"))
    body_of_lists = (
        *(word_source.styled(text, style) for text, style in steps),
        word_source.styled("Text", "Schritt", no_list),
        word_source.styled("Three", "Zahl"),
    )
    made = word_source.document("".join(body_of_lists), "Boats & oars".replace("&", "&amp;"), "Top")
    write(tmp_path, "x.docx", made)
    got = Imported(run, folder, tmp_path / "x.docx", "word")
    assert body(got.text("x.md")) == "1. One\n   - a\n   - b\n2. Two\n\nText\n\n1. Three\n"
    assert 'title: "Boats & oars"' in got.text("x.md")
    assert got.omitted == {
        "page header": 1,
        'document property "subject"': 1,
    }


def test_hostile_word_documents_do_not_affect_others(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    """A document that is too large, has entities or is damaged is reported with its reason."""
    made = word_source.make_folder(tmp_path)
    with zipfile.ZipFile(made / "Bomb.docx", "w", zipfile.ZIP_DEFLATED) as files:
        files.writestr("word/document.xml", b"<a>" + bytes(100 << 20))
    entities = '<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>'
    for name, text in (("Entities", entities), ("Unclosed", "<w:document>"), ("Empty", "<a/>")):
        with zipfile.ZipFile(made / f"{name}.docx", "w") as files:
            files.writestr("word/document.xml", text)
    got = Imported(run, folder, made, "word")
    reasons = dict(got.unreadable)
    assert "larger than" in reasons["Bomb.docx"]
    assert "DOCTYPE" in reasons["Entities.docx"]
    assert "damaged" in reasons["Unclosed.docx"]
    assert "no text" in reasons["Empty.docx"]
    assert "export the page or section" in reasons["Harbor.one"]
    assert got.found["new"] == 2
    assert got.data("map.pdf") == b"%PDF-1.7"


def test_damaged_parts_of_word_documents_are_reported(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    """A document whose footnotes or styles are damaged is imported, and the damage is reported."""
    made = word_source.make(tmp_path)
    with zipfile.ZipFile(made) as files:
        parts = {name: files.read(name) for name in files.namelist()}
    with zipfile.ZipFile(made, "w") as files:
        for name, data in parts.items():
            is_damaged = name in ("word/footnotes.xml", "word/styles.xml", "docProps/core.xml")
            files.writestr(name, data[:-9] if is_damaged else data)
    got = Imported(run, folder, made, "word")
    assert "**Paint the hull**" in got.text("Boats.md")
    assert {what for what, _ in got.unreadable} == {
        "Boats, word/footnotes.xml",
        "Boats, word/styles.xml",
        "Boats, docProps/core.xml",
    }
    assert all("damaged XML" in reason for _, reason in got.unreadable)


def test_apple_notes_import_preserves_dates_tasks_and_attachments(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    """Times come from the copy's table, circles become tasks, and attachments stay in place."""
    got = Imported(run, folder, apple_source.make(tmp_path), "apple-notes")
    garden = got.text("Garden.md")
    assert "created: 2026-11-03T09:15:00.000Z\nmodified: 2026-11-04T10:15:00.000Z" in garden
    assert "tags: [pinned]" in garden
    assert body(got.text("Work/Shed-2.md")) == (
        "Shed\n\\# no heading\n- [ ] oil #1\n- [x] screws\n- wood\n\n"
        "Then ![[Shed/Attachment.png]] and\n![[Shed/Attachment-2.png]]\n\n"
        "![[Shed/Attachment-10.png]]\n"
    )
    assert body(got.text("Work/Shed.md")) == "Shed\nAnother shed.\n"
    assert got.omitted == {"note in the trash": 1}


def test_apple_notes_with_equal_titles_take_linear_time(tmp_path: Path) -> None:
    """An import takes linear time in the number of notes in a folder."""

    def steps(size: int) -> Steps:
        made = tmp_path / str(size) / "Notes"
        write(made, "Day/Day.txt", "Day\n")
        for number in range(size):
            write(made, f"Day/Day-{number}.txt", "Day\n")
        with closing(open_source(str(made))) as source:
            yield lambda: list(formats.find_format("apple-notes").read(source))

    check_growth(steps, 500)


@pytest.mark.parametrize(
    "file",
    [
        ("Letter.textpack", b"PK"),
        ("Boats.docx", b"PK"),
        (f"{'a' * 32}.md", b"Bees\n\nid: 1\ntype_: 1"),
        ("Harbor.one", b"x"),
        ("items.json", b'{"items": [{"content": 1}]}'),
        ("notes.json", b'{"notes": []}'),
    ],
    ids=lambda file: file[0],
)
def test_odd_file_does_not_change_the_detected_format(
    file: tuple[str, bytes], tmp_path: Path
) -> None:
    """One file of another program does not change the format of a markdown folder."""
    for number in range(3):
        write(tmp_path, f"vault/n{number}.md", f"# Note {number}\n")
    (tmp_path / "vault" / file[0]).write_bytes(file[1])
    assert detection.detect_format(open_source(str(tmp_path / "vault"))).name == "folder"


@pytest.mark.parametrize("module", ["joplin", "simplenote", "standard_notes", "textbundle"])
def test_unpacked_and_packed_exports_give_same_notes(
    module: str, run: Run, folder: Path, tmp_path: Path
) -> None:
    """The unpacked folder of an export, or a zip of it, has the same result as the export."""
    makers = {
        "joplin": joplin_source.make,
        "simplenote": simplenote_source.make,
        "standard_notes": standard_source.make,
        "textbundle": bundle_source.make,
    }
    made = makers[module](tmp_path)
    first = import_all(run, made).json
    unpacked = tmp_path / "unpacked"
    if made.suffix == ".jex":
        with tarfile.open(made) as files:
            files.extractall(unpacked, filter="data")
    else:
        shutil.unpack_archive(made, unpacked, "zip")
    zipped = shutil.make_archive(str(tmp_path / "zipped"), "zip", unpacked)
    for source in (unpacked, zipped):
        found = import_all(run, source).json
        assert (found["kind"], found["unchanged"]) == (first["kind"], first["new"])


def test_notes_with_equal_ids_are_all_imported(run: Run, folder: Path, tmp_path: Path) -> None:
    """No record with a duplicate id is lost, and a second import changes nothing."""
    write(
        tmp_path,
        "notes.json",
        json.dumps({"activeNotes": [{"id": "a", "content": text} for text in ("One", "Two")]}),
    )
    notes = [standard_source.note("a", title, title, "plain-text") for title in ("One", "Two")]
    write(tmp_path, standard_source.BACKUP, json.dumps({"version": "004", "items": notes}))
    item = joplin_source.item("One", "Text.", 1, "a" * 32)
    for name in ("a" * 32, "b" * 32):
        write(tmp_path, f"raw/{name}.md", item)
    for name in ("One", "Two"):
        info = json.dumps({"version": 2, "net.shinyfrog.bear": {"uniqueIdentifier": "a"}})
        write(tmp_path, f"bundles/{name}.textbundle/info.json", info)
        write(tmp_path, f"bundles/{name}.textbundle/text.md", f"# {name}\n")
    for source in ("notes.json", standard_source.BACKUP, "raw", "bundles"):
        assert import_all(run, tmp_path / source).json["new"] == 2
        assert import_all(run, tmp_path / source).json["unchanged"] == 2


def test_rule_at_the_beginning_is_not_front_matter(run: Run, folder: Path, tmp_path: Path) -> None:
    """A text that begins with a line of hyphens is unchanged and is not read as a header."""
    text = "---\nid: mine\n---\nThe rest."
    write(tmp_path, f"raw/{'a' * 32}.md", joplin_source.item("Note", text, 1, "a" * 32))
    entry = {"id": "a", "content": text, "markdown": True}
    write(tmp_path, "notes.json", json.dumps({"activeNotes": [entry]}))
    items = [standard_source.note("a", "Note", text, "markdown")]
    write(tmp_path, standard_source.BACKUP, json.dumps({"version": "004", "items": items}))
    write(tmp_path, "Note.textbundle/text.md", text.replace("id: mine", "A line"))
    write(tmp_path, "Note.textbundle/info.json", json.dumps({"version": 2}))
    for source in ("raw", "notes.json", standard_source.BACKUP, "Note.textbundle"):
        assert import_all(run, tmp_path / source).json["new"] == 1
    texts = [data.decode() for name, data in notes_in(folder).items() if name.endswith(".md")]
    assert len(texts) == 4
    for whole in texts:
        header, _, rest = whole.partition("\n---\n\n")
        assert "mine" not in header
        assert rest.lstrip("\n").startswith("---\n")
        assert rest.endswith("\n---\nThe rest.\n")


def test_super_note_of_unknown_structure_is_read(run: Run, folder: Path, tmp_path: Path) -> None:
    """Invalid values in a document lose only the node that contains them."""
    bad = {"type": "list", "children": [None, 7, {"type": "listitem", "children": "x"}]}
    root = {"type": "root", "children": [bad, {"type": 5}, standard_source.text("Kept")]}
    note = standard_source.note("n", "Odd", json.dumps({"root": root}), "super")
    write(tmp_path, standard_source.BACKUP, json.dumps({"version": "004", "items": [note]}))
    got = Imported(run, folder, tmp_path / standard_source.BACKUP, "standard-notes")
    assert "Kept" in got.text("Odd.md")


def test_rejected_pack_files_are_reported(run: Run, folder: Path, tmp_path: Path) -> None:
    """Links, outside paths and oversized files in a pack are reported; the note is imported."""
    link = zipfile.ZipInfo("assets/link.png")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    made = tmp_path / "packs"
    made.mkdir()
    with zipfile.ZipFile(made / "Hen.textpack", "w", zipfile.ZIP_DEFLATED) as files:
        with files.open("assets/big.bin", "w") as big:
            for _ in range(257):
                big.write(bytes(1 << 20))
        files.writestr("info.json", '{"version": 2}')
        files.writestr("text.md", "# Hen\n\nBroody.\n")
        files.writestr("assets/../../out.png", "x")
        files.writestr(link, "/etc/passwd")
    got = Imported(run, folder, made, "textbundle")
    assert "Broody." in got.text("Hen.md")
    reasons = dict(got.unreadable)
    assert len(reasons) == len(got.unreadable) == 3
    assert "size limit" in reasons["Hen.textpack/assets/big.bin"]
    assert "points outside" in reasons["Hen.textpack/assets/../../out.png"]
    assert "symbolic link" in reasons["Hen.textpack/assets/link.png"]


def test_links_in_word_documents_are_reported(run: Run, folder: Path, tmp_path: Path) -> None:
    """A document in a folder is imported without the links in it, and these are reported."""
    link = zipfile.ZipInfo("word/media/link.png")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    made = word_source.make_folder(tmp_path)
    with zipfile.ZipFile(made / "Sea/Boats.docx", "a") as files:
        files.writestr(link, "/etc/passwd")
    got = Imported(run, folder, made, "word")
    assert "symbolic link" in dict(got.unreadable)["Sea/Boats.docx/word/media/link.png"]
    assert "**Paint the hull**" in got.text("Sea/Boats.md")


def test_pack_with_stray_file_is_imported(run: Run, folder: Path, tmp_path: Path) -> None:
    """A pack may have other files beside the folder of its bundle."""
    made = tmp_path / "packs"
    made.mkdir()
    with zipfile.ZipFile(made / "Hen.textpack", "w") as files:
        files.writestr("Hen.textbundle/info.json", '{"version": 2}')
        files.writestr("Hen.textbundle/text.md", "# Hen\n\n![](assets/egg.png)\n")
        files.writestr("Hen.textbundle/assets/egg.png", bundle_source.PICTURE)
        files.writestr("readme.txt", "x")
    got = Imported(run, folder, made, "textbundle")
    assert "![](assets/Hen/egg.png)" in got.text("Hen.md")
    assert got.data("assets/Hen/egg.png") == bundle_source.PICTURE
