"""Header values as people and programs write them: text, keys in any case, dates, bad lines."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from unicodedata import normalize

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import Run, examples, succeeded, write
from memvault import Vault
from memvault.errors import Refused
from memvault.vault import document
from memvault.vault.front_matter import read_header
from memvault.vault.header_dates import parse
from wrong_vaults import examined, told

TEXTS = [
    "1.10",
    "2024",
    "on",
    "1e3",
    "0x10",
    "12:30:00",
    "true",
    "FALSE",
    "2020-01-01",
    "007",
    "-1",
]


@pytest.mark.promise("R95")
@pytest.mark.parametrize("text", TEXTS)
def test_titles_tags_and_aliases_are_read_unchanged(vault: Vault, folder: Path, text: str) -> None:
    """Values that YAML reads as a number, boolean or date keep their exact text."""
    header = f"title: {text}\ntags: [{text}, other, null]\naliases: {text}\n"
    file = write(folder, "a.md", f"---\n{header}---\nx\n")
    shown = vault.call("memory_show", name=text)
    assert (shown["title"], shown["tags"]) == (text, [text, "other", "null"])
    listed = vault.call("memory_list", tags=[text])["memories"]
    assert [entry["filePath"] for entry in listed] == ["a.md"]
    vault.call("tag_add", name="a.md", tags=["new"])
    added = header.replace("null]", "null, new]")
    assert file.read_text() == f"---\n{added}---\nx\n"
    vault.call("tag_remove", name="a.md", tags=[text])
    assert vault.call("memory_show", name="a.md")["tags"] == ["other", "null", "new"]


def test_header_null_title_is_missing(vault: Vault, folder: Path) -> None:
    """A null title or an empty item counts as missing, so the heading is the title."""
    for header in ("title: null", "title: ~", "title:", "tags: [~, '']\naliases: null"):
        write(folder, "a.md", f"---\n{header}\n---\n# Heading\n")
        shown = vault.call("memory_show", name="a.md")
        assert (shown["title"], shown.get("tags", [])) == ("Heading", [])


@pytest.mark.promise("R95")
@pytest.mark.parametrize("case", [str.title, str.upper])
def test_header_keys_are_case_insensitive(vault: Vault, folder: Path, case: Any) -> None:
    """Keys in any case are read, edited in place and never duplicated."""
    keys = ("title", "tags", "aliases", "memory_type", "modified")
    named = "Tea\nx:\n  - a\n  - b\nx: [Chai] # also\nx: fact\nx: 2020-01-31\n"
    values = [line.removeprefix("x") for line in f"x: {named}".split("\nx")]
    header = "".join(
        f"{case(key)}{value.strip(chr(10)) if value.startswith(':') else ':'}\n"
        for key, value in zip(keys, values, strict=True)
    )
    file = write(folder, "a.md", f"---\n{header}---\ntext\n")
    shown = vault.call("memory_show", name="Chai")
    assert (shown["title"], shown["tags"], shown["memoryType"]) == ("Tea", ["a", "b"], "fact")
    assert shown["modified"].startswith("2020-01-31")
    vault.call("tag_add", name="Tea", tags=["c"])
    vault.call("memory_rename", name="Tea", title="Green tea")
    lines = file.read_text().partition("\n---\n")[0].splitlines()
    assert [line.partition(":")[0] for line in lines if not line.startswith((" ", "-"))] == [
        case(key) for key in keys
    ]
    assert "  - b\n  - c\n" in file.read_text()
    assert "# also" in file.read_text()


def test_header_keys_differing_in_case_are_duplicates(vault: Vault, folder: Path) -> None:
    """The last duplicate counts, and doctor reports both."""
    write(folder, "a.md", "---\nTags: [a]\ntags: [b]\n---\nx\n")
    assert vault.call("memory_show", name="a.md")["tags"] == ["b"]
    assert told(examined(vault)) == {("key-twice", "a.md")}


@pytest.mark.promise("R95")
def test_header_names_match_any_unicode_normal_form(vault: Vault, folder: Path) -> None:
    """Tags, types, titles and aliases are equal in any Unicode normal form."""
    one, other = (normalize(form, "Café/Über") for form in ("NFC", "NFD"))
    kind = normalize("NFD", "réunion")
    write(
        folder,
        "a.md",
        f"---\ntags: [{one}]\nmemory_type: {kind}\naliases: [{other}]\n---\n#{other}\n",
    )
    file = write(folder, "b.md", f"#{other} and #{one}x\n")
    assert vault.call("memory_show", name="a.md")["tags"] == [one]
    assert vault.call("memory_show", name=one)["filePath"] == "a.md"
    for tag in (one, other):
        listed = vault.call("memory_list", tags=[tag])["memories"]
        assert sorted(entry["filePath"] for entry in listed) == ["a.md", "b.md"]
    listed = vault.call("memory_list", memoryType=normalize("NFC", kind))["memories"]
    assert [entry["filePath"] for entry in listed] == ["a.md"]
    counts = {entry["tag"]: entry["count"] for entry in vault.call("tag_list")["tags"]}
    assert counts[one] == 2
    vault.call("tag_add", name="b.md", tags=[other])
    assert file.read_text() == f"#{other} and #{one}x\n"
    vault.call("tag_rename", old=one, new="tea", confirm="true")
    assert file.read_text() == f"#tea and #{one}x\n"


DATES = [
    *("2022-01-03", "2022-01-03T00:27:33.5Z", "2022-01-03 00:27:33 -0500", "2022-01-03 00:27:33Z"),
    *("2022-01-03 00:27", "2022/01/03", "2022/1/3 0:27", "2022.01.03", "20220103", "2022-W01"),
    *("1641169653", "1641169653000", "'1641169653000'", "1641169653.25", "202201030027"),
    *("20220103002733", '"[[2022-01-03]]"', "[[2022-01-03]]", '"[[daily/2022-01-03|then]]"'),
    *("Monday, January 3rd 2022, 12:27:33 am", "Jan 3, 2022 12:27 AM", "January 3, 2022"),
    *("3 January 2022", "3. Januar 2022", "3 de enero de 2022", "lundi 3 janvier 2022"),
    *('"Mon, 03 Jan 2022 00:27:33 +0000"', "Mon Jan  3 00:27:33 UTC 2022", "03.01.2022 14:05"),
    *("Mon Jan 03 2022 00:27:33 GMT+0000 (Coordinated Universal Time)", "13/01/2022", "1/13/2022"),
    *("2022年1月3日", "2022년 1월 3일", "2022-01-03 (Mon) 10:00", "Jan. 3rd, 2022 at 5:04 PM"),
    *("2022-01-03T00:27:33+01:00[Europe/Berlin]", "<2022-01-03 Mon 10:00>", "2022-01"),
]
CREATED = "created|date|date created|Created At|createdAt|creation_date|date-created|Created time"
MODIFIED = "modified|updated|lastmod|last_modified_at|date modified|updatedAt|Last edited time"


@pytest.mark.promise("R96")
@pytest.mark.parametrize("text", DATES)
def test_header_dates_in_third_party_formats_are_read(text: str) -> None:
    """Time formats of Obsidian plugins, Hugo, Jekyll, Notion and others are supported."""
    header = read_header(f"created: {text}\n").values
    moment = parse(header["created"])
    assert moment is not None
    assert moment.isoformat().startswith("2022-01")


@pytest.mark.parametrize(
    "value", ["01/02/2022", "tomorrow", "2022-13-45", True, None, [], 0, "99999999999999"]
)
def test_ambiguous_dates_are_not_guessed(value: object) -> None:
    """An ambiguous day and month, or any other text, is not read as a date."""
    assert parse(value) is None


@pytest.mark.promise("R96")
def test_dates_are_read_from_third_party_header_keys(vault: Vault, folder: Path) -> None:
    """Each program's key dates the memory; an invalid value is reported and file time used."""
    for number, key in enumerate(CREATED.split("|")):
        write(folder, f"{number}.md", f"---\n{key}: Jan 3, 2022\n---\nx\n")
        assert vault.call("memory_show", name=f"{number}.md")["created"].startswith("2022-01-03")
    for key in MODIFIED.split("|"):
        file = write(folder, "m.md", f"---\n{key}: 1641169653000\n---\nx\n")
        assert vault.call("memory_show", name="m.md")["modified"].startswith("2022-01-03")
        vault.call("memory_compound", query="m.md", modifications="y")
        assert not vault.call("memory_show", name="m.md")["modified"].startswith("2022")
        assert file.read_text().startswith(f"---\n{key}: {'2' if key == 'modified' else '1'}")
    write(folder, "bad.md", "---\ncreated: {{date}}\nupdated: tomorrow\n---\nx\n")
    assert ("date-unread", "bad.md") in told(examined(vault))


BAD_LINES: dict[str, dict[str, Any]] = {
    "title: Coffee: brewing": {"title": "Coffee: brewing"},
    'title: "Coffee': {"title": "Coffee"},
    "title: it's: 'so": {"title": "it's: 'so"},
    "title: @ann": {"title": "@ann"},
    "tags: [@ann, crew": {"tags": ["@ann", "crew"]},
    "Tags:\n  - @ann\n  - 'b'": {"tags": ["@ann", "b"]},
    "list:\n\t- a": {"list": ["a"]},
    "meta:\n  who: @ann\n  what: x": {"meta": {"what": "x"}},
    "companies:: [[Acme]], [[Bolt]]": {"companies:": "[[Acme]], [[Bolt]]"},
    "some stray words": {},
    "- - x: y: z": {},
    "--- more": {},
    "a: b: c": {"a": "b: c"},
    "%pct: 1": {},
    "x: `code`": {"x": "`code`"},
    "x: {{date}": {"x": "{{date}"},
    "x: *gone": {"x": "*gone"},
}


@pytest.mark.promise("R97")
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("bad", BAD_LINES)
def test_bad_header_line_affects_only_itself(bad: str, newline: str) -> None:
    """The other keys are read and edited, and the bad line is unchanged."""
    header = f"id: one\n{bad}\n# a comment\nstatus: [a, b]\n"
    for text in (header, f"{bad}\nid: one\nstatus: [a, b]", f"id: one\nstatus: [a, b]\n{bad}"):
        data = f"---\n{text}\n---\n\nBody.\n".replace("\n", newline).encode()
        found = document.Document.parse(data)
        assert found.header == {"id": "one", "status": ["a", "b"], **BAD_LINES[bad]}
        assert [part.line > 0 for part in found.unread] == [True]
        assert found.text == "Body."
        edited = document.edit(data, {"status": ["a", "c"], "new": 1}, None)
        end = data.rindex(f"---{newline}".encode())
        expected = data[:end] + f"new: 1{newline}".encode() + data[end:]
        assert edited == expected.replace(b"[a, b]", b"[a, c]")


@pytest.mark.promise("R97")
def test_bad_header_line_is_reported_and_replaceable(vault: Vault, folder: Path) -> None:
    """Doctor reports the line, and setting its key replaces it."""
    file = write(folder, "a.md", "---\nid: a-1\ntitle: Tea: black\ntags: [@ann, b\n---\n\nx\n")
    (finding, *others) = examined(vault)["findings"]
    assert not others
    assert finding["code"] == "front-matter-line"
    assert "line 3: " in finding["message"]
    assert "line 4: " in finding["message"]
    vault.call("tag_add", name="Tea: black", tags=["c"])
    header = '---\nid: a-1\ntitle: Tea: black\ntags: ["@ann", b, c]\n---\n\nx\n'
    assert file.read_text() == header
    vault.call("memory_rename", name="a.md", title="Tea, green")
    assert "title: Tea, green\n" in file.read_text()
    assert "Tea: black" in file.read_text().partition("aliases")[2]


def test_text_between_rules_is_not_a_header() -> None:
    """Prose between thematic breaks stays text, even if part of it looks like a key."""
    for text in ("Dear Bob: it's: me\nI write\nto you\n", "a\nb: [\nc\n", "x: [\n", "{a: b: c}\n"):
        found = document.Document.parse(f"---\n{text}---\nrest\n".encode())
        assert found.header is None
        assert text.strip() in found.text


SOURCES = {
    "title: Coffee: brewing\ntags: [coffee]\n---\n\nBody.\n": ["coffee"],
    "{title: a, tags: [b]}\n---\n\nBody.\n": ["b"],
    "tags: [c]\n<<<<<<< HEAD\nx: 1\n=======\nx: 2\n>>>>>>> b\n---\n\nBody.\n": ["c"],
    "tags: [d]\n---\n\n<<<<<<< HEAD\n1\n=======\n2\n>>>>>>> b\n": ["d"],
    "tags: [e]\nx: &y 1\nz: *y\n---\n\nBody.\n": ["e"],
    "tags: [f]\ndate created: Monday, January 3rd 2022, 12:27:33 am\n\nBody.\n": ["f"],
}


@pytest.mark.promise("R97")
@pytest.mark.parametrize("text", SOURCES)
def test_import_merges_keys_into_existing_header(
    folder: Path, run: Run, tmp_path: Path, text: str
) -> None:
    """Import adds its keys to any broken header and recognizes the note again."""
    source = write(tmp_path / "source", "n.md", f"---\n{text}")
    os.utime(source, (1_700_000_000, 1_700_000_000))
    succeeded(run("import", str(source.parent), "--yes"))
    (file,) = (path for path in folder.rglob("n.md") if ".memvault" not in path.parts)
    written = file.read_text()
    assert written.splitlines().count("---") == 2
    assert all(line in written for line in text.splitlines() if ":" in line and "{" not in line)
    shown = succeeded(run("show", "n", "--json")).json
    assert shown["tags"] == SOURCES[text]
    if "date created" in text:
        assert shown["created"].startswith("2022-01-03")
    again = succeeded(run("import", str(source.parent), "--yes", "--json")).json
    assert not again.get("imported")


@pytest.mark.promise("R97")
@settings(max_examples=examples(60))
@given(
    st.lists(st.sampled_from([*BAD_LINES, "b: 1", "c: [x]", "d:\n  - e", "f: |\n  g"]), unique=True)
)
def test_header_edit_keeps_bad_lines(lines: list[str]) -> None:
    """An edit of any header changes only its own line, or is refused and changes nothing."""
    data = "---\n{}\n---\nBody.\n".format("\n".join(["id: i", *lines])).encode()
    try:
        edited = document.edit(data, {"id": "j"}, None)
    except Refused:
        assert document.Document.parse(data).problem
        return
    assert edited == data.replace(b"id: i", b"id: j", 1)
